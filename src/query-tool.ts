/** `context_tree_query`: gives the model back what was condensed. */
import type { ImageContent, TextContent } from "@mariozechner/pi-ai";
import type { ToolDefinition } from "@mariozechner/pi-coding-agent";
import { type Static, Type } from "typebox";
import { refsIn } from "./digest/arguments.ts";
import { describeCall } from "./digest/describe.ts";
import { changesSince, describeChanges } from "./digest/outdated.ts";
import type { SessionView } from "./engine/session-state.ts";
import { pageOf, type RecoveredOutput, recover, sourcesOf } from "./recovery/originals.ts";
import { type Matches, matchesOf } from "./recovery/patterns.ts";
import { longArguments, shortArguments } from "./render/arguments.ts";
import { isRecord } from "./text/json.ts";
import { grouped, reasonOf } from "./text/text.ts";
import { occurrenceKey } from "./transcript/messages.ts";
import { QUERY_TOOL_NAME } from "./types.ts";

const Parameters = Type.Object({
  toolCallIds: Type.Array(Type.String(), {
    minItems: 1,
    description: "Refs such as t12, as they stand in the stubs, or raw tool call ids.",
  }),
  offset: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: "Character to start at, counted from 0. An answer names the next offset.",
    }),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, description: "Most characters to return of each output." })),
  args: Type.Optional(Type.Boolean({ description: "Return the arguments of the calls instead of their output." })),
  pattern: Type.Optional(
    Type.String({ description: "Regular expression: return only the lines that match, with their line numbers." }),
  ),
});

/** Smallest `minStringChars` that the settings allow: what may have been condensed under any of them. */
const SHORTEST_CONDENSED = 100;

/** Constant for the whole session: a description that changed would cost the provider's prompt cache. */
export const QUERY_TOOL_DESCRIPTION = `Return the original output of tool calls that were condensed in this conversation. A condensed result looks like this:
[t12 condensed: read src/app.ts, 14,203 chars, ok. Full output: ${QUERY_TOOL_NAME} t12]
Use it when the summary below such a line is not enough. Long outputs come in pages: pass the offset that the answer names, or a pattern to find lines. In the arguments of earlier calls, <condensed-args chars="30000" ref="t12"/> stands for a long text: pass args to get it, and never write such a marker yourself.`;

/** Gives the session's state, brought up to date; `undefined` once the session has been replaced. */
export type StateAccess = () => SessionView | undefined;

type QueryParameters = Static<typeof Parameters>;

/** The tool, reading the session that `access` gives at each call. */
export function createQueryTool(access: StateAccess): ToolDefinition<typeof Parameters> {
  return {
    name: QUERY_TOOL_NAME,
    label: "Recover condensed output",
    description: QUERY_TOOL_DESCRIPTION,
    promptSnippet: "Return the original output of condensed tool calls by their refs (t12)",
    parameters: Parameters,
    prepareArguments: readParameters,
    async execute(_toolCallId, params, signal) {
      const state = access();
      if (!state) throw new Error("The session has been replaced; its condensed output is out of reach here.");
      const recoveries = refsIn(params.toolCallIds).map((name) => recover(name, sourcesOf(state)));
      const found = recoveries.flatMap((recovery) => (recovery.kind === "found" ? recovery.outputs : []));
      const outputs = [...new Map(found.map((output) => [`${output.name} ${keyOf(output)}`, output])).values()];
      const problems = recoveries.flatMap((recovery) => (recovery.kind === "missing" ? [recovery.message] : []));
      if (outputs.length === 0) throw new Error(problems.join("\n"));
      const texts = outputs.flatMap((output) => (params.args ? argumentTexts(output) : [output]));
      const how = { share: texts.length, changes: changesOf(state), signal };
      const content: (TextContent | ImageContent)[] = [];
      for (const output of texts) content.push(...(await answer(output, params, how)));
      if (problems.length > 0) content.push(text(problems.join("\n")));
      return { content, details: { refs: outputs.map((output) => output.name) } };
    },
  };
}

/** Models write what has no value as null, and one ref, or several, as a string. */
function readParameters(args: unknown): QueryParameters {
  const given = isRecord(args) ? Object.entries(args).filter(([, value]) => value !== null && value !== "") : [];
  const { toolCallIds, ...rest } = Object.fromEntries(given);
  // What fits no parameter is left for the host to refuse.
  return { ...rest, toolCallIds: typeof toolCallIds === "string" ? [toolCallIds] : toolCallIds } as QueryParameters;
}

function keyOf({ record }: RecoveredOutput): string {
  return occurrenceKey(record.toolCallId, record.resultTimestamp);
}

/** What has become of the file of an output, as of now. */
function changesOf({ branch, indexer }: SessionView): (output: RecoveredOutput) => string {
  const messages = branch.entries.flatMap((entry) => (entry.type === "message" ? [entry.message] : []));
  const changes = changesSince(messages);
  return (output) => {
    const [key, ...others] = indexer.resolve(output.name);
    const own = key !== undefined && others.length === 0 ? key : keyOf(output);
    const words = describeChanges(changes.get(own), (edit) => indexer.refOf(edit));
    return words === undefined ? "" : `; outdated: ${words}`;
  };
}

/** A text to be given, and where in the arguments it stands. */
interface Answerable extends RecoveredOutput {
  at?: string;
}

/** How outputs are given. */
interface AnswerOptions {
  /** Outputs that share one answer. */
  share: number;
  changes(output: RecoveredOutput): string;
  signal: AbortSignal | undefined;
}

async function answer(
  output: Answerable,
  params: QueryParameters,
  { share, changes, signal }: AnswerOptions,
): Promise<(TextContent | ImageContent)[]> {
  const { record, name, at } = output;
  const what = params.args ? `, arguments${at ? ` ${at}` : ""}` : record.isError ? ", error" : "";
  const title = `${name}: ${describeCall(record.toolName, record.args)}${what}${changes(output)}`;
  if (params.pattern !== undefined) return [text(await matches(output, title, params.pattern, signal))];
  const page = pageOf(output.text, { offset: params.offset, limit: params.limit, share });
  const range = `characters ${grouped(page.start)} to ${grouped(page.end)} of ${grouped(page.total)}`;
  const next = page.end < page.total ? `; next page: offset ${page.end}` : "";
  // The body has a block of its own, so that it is the original and nothing else.
  const body = page.body ? [text(page.body)] : [];
  const note = output.note ? [text(`[${output.note}]`)] : [];
  const others = output.others.map((block) =>
    text(`[a block of type ${block.type}, as JSON]\n${JSON.stringify(block)}`),
  );
  return [
    text(`[${title}; ${range}${next}]`),
    ...body,
    ...note,
    ...(page.start === 0 ? [...output.images, ...others] : []),
  ];
}

/**
 * The arguments in the place of the output: each long string as the text that it is, behind the others as JSON. One long
 * string stands by itself.
 */
function argumentTexts(found: RecoveredOutput): Answerable[] {
  const strings = longArguments(found.args, SHORTEST_CONDENSED);
  const bare = { ...found, images: [], others: [], note: undefined };
  const [only] = strings;
  if (strings.length === 1 && only) return [{ ...bare, text: only.text }];
  const others = { ...bare, text: shortArguments(found.args, SHORTEST_CONDENSED) };
  return [others, ...strings.map((string) => ({ ...bare, ...string }))];
}

async function matches(
  output: RecoveredOutput,
  title: string,
  pattern: string,
  signal: AbortSignal | undefined,
): Promise<string> {
  const total = `${grouped(output.text.length)} characters in all`;
  let found: Matches;
  try {
    found = await matchesOf(output.text, pattern, signal);
  } catch (error) {
    return `[${title}; ${total}; ${reasonOf(error)}]`;
  }
  const { body, count, shown, asText } = found;
  const cut = shown < count ? `, the first ${grouped(shown)} shown` : "";
  const header = `[${title}; ${total}; lines that match ${pattern}${asText ? ", taken as plain text" : ""}: ${grouped(count)}${cut}]`;
  return body ? `${header}\n${body}` : header;
}

function text(value: string): TextContent {
  return { type: "text", text: value };
}
