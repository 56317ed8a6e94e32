/** `context_tree_query`: gives the model back what was condensed. */
import type { ImageContent, TextContent } from "@mariozechner/pi-ai";
import type { ToolDefinition } from "@mariozechner/pi-coding-agent";
import { type Static, Type } from "typebox";
import { matchesOf, pageOf, type RecoveredOutput, recover, sourcesOf } from "./recovery.js";
import type { SessionState } from "./session-state.js";
import { describeCall } from "./summary/describe.js";
import { QUERY_TOOL_NAME } from "./types.js";

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
  pattern: Type.Optional(
    Type.String({ description: "Regular expression: return only the lines that match, with their line numbers." }),
  ),
});

/** Constant for the whole session: a description that changed would cost the provider's prompt cache. */
const DESCRIPTION = `Return the original output of tool calls that were condensed in this conversation. A condensed result looks like this:
[t12 condensed: read src/app.ts, 14,203 chars, ok. Full output: ${QUERY_TOOL_NAME} t12]
Use it when the summary below such a line is not enough. Long outputs come in pages: pass the offset that the answer names, or a pattern to find lines.`;

/** Gives the session's state, brought up to date; `undefined` once the session has been replaced. */
export type StateAccess = () => SessionState | undefined;

type QueryParameters = Static<typeof Parameters>;

/** The tool, reading the session that `access` gives at each call. */
export function createQueryTool(access: StateAccess): ToolDefinition<typeof Parameters> {
  return {
    name: QUERY_TOOL_NAME,
    label: "Recover condensed output",
    description: DESCRIPTION,
    promptSnippet: "Return the original output of condensed tool calls by their refs (t12)",
    parameters: Parameters,
    async execute(_toolCallId, params) {
      const state = access();
      if (!state) throw new Error("The session has been replaced; its condensed output is out of reach here.");
      const names = [...new Set(params.toolCallIds)];
      const recoveries = names.map((name) => recover(name, sourcesOf(state)));
      const outputs = recoveries.flatMap((recovery) => (recovery.kind === "found" ? recovery.outputs : []));
      const problems = recoveries.flatMap((recovery) => (recovery.kind === "missing" ? [recovery.message] : []));
      if (outputs.length === 0) throw new Error(problems.join("\n"));
      const content = outputs.flatMap((output) => answer(output, params, outputs.length));
      if (problems.length > 0) content.push(text(problems.join("\n")));
      return { content, details: { refs: outputs.map((output) => output.name) } };
    },
  };
}

function answer(output: RecoveredOutput, params: QueryParameters, share: number): (TextContent | ImageContent)[] {
  const { record, name } = output;
  const title = `${name}: ${describeCall(record.toolName, record.args)}${record.isError ? ", error" : ""}`;
  if (params.pattern !== undefined) return [text(matches(output, title, params.pattern))];
  const page = pageOf(output.text, { offset: params.offset, limit: params.limit, share });
  const range = `characters ${number(page.start)} to ${number(page.end)} of ${number(page.total)}`;
  const next = page.end < page.total ? `; next page: offset ${page.end}` : "";
  // The body has a block of its own, so that it is the original and nothing else.
  const body = page.body ? [text(page.body)] : [];
  const note = output.note ? [text(`[${output.note}]`)] : [];
  return [text(`[${title}; ${range}${next}]`), ...body, ...note, ...(page.start === 0 ? output.images : [])];
}

function matches(output: RecoveredOutput, title: string, pattern: string): string {
  const { body, count, shown } = matchesOf(output.text, pattern);
  const total = `${number(output.text.length)} characters in all`;
  const cut = shown < count ? `, the first ${number(shown)} shown` : "";
  const header = `[${title}; ${total}; lines that match ${pattern}: ${number(count)}${cut}]`;
  return body ? `${header}\n${body}` : header;
}

function text(value: string): TextContent {
  return { type: "text", text: value };
}

function number(value: number): string {
  return value.toLocaleString("en-US");
}
