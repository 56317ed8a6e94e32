/** Lets a model take its next steps from one context, up to the first call that would change something. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import { cut, oneLine, sliceText } from "../text/text.ts";
import { isDropped, isText, toolCallsOf } from "../transcript/messages.ts";
import { QUERY_TOOL_NAME } from "../types.ts";
import type { Answers } from "./answers.ts";
import { changesNothing, pathOf, replacementsOf, targetOf } from "./calls.ts";
import type { Lookup, Outcome, Run, TrialModel, TrialRequest } from "./types.ts";

/** The model did not answer. The message is the provider's. */
export class ModelFailure extends Error {
  override readonly name = "ModelFailure";
}

/** Requests of one run at most. */
export const MAX_STEPS = 8;
/** Shortest line of a quotation that must stand somewhere, trimmed. */
const MIN_QUOTED_CHARS = 12;
const MAX_KEPT_CHARS = 2_000;
/** What stands in for condensed text; only a context has it, and it has no place in a call. */
const MARKER = /<condensed-args chars="\d+"|\[[tb]\d+ condensed: /;

export interface RunOptions extends TrialRequest {
  model: TrialModel;
  answers: Answers;
  cwd: string;
  /** Texts of the raw and the condensed context: what calls may quote. */
  contexts: readonly string[];
  signal: AbortSignal;
  /** Told of each request before it leaves, from 1. */
  onStep?(step: number): void;
}

/**
 * One run.
 * @throws ModelFailure where the model fails; the reason of `signal` where that has been given
 */
export async function takeSteps(options: RunOptions): Promise<Run> {
  const { model, answers, cwd, signal, systemPrompt, tools } = options;
  const messages: AgentMessage[] = [...options.messages];
  const run: Run = {
    outcome: { kind: "limit" },
    requests: 0,
    promptTokens: 0,
    outputTokens: 0,
    cost: 0,
    lookups: [],
    madeUp: [],
  };
  const seen = [...options.contexts];
  while (run.requests < MAX_STEPS) {
    options.onStep?.(run.requests + 1);
    const reply = await model.ask({ systemPrompt, messages, tools }, signal).catch(fail);
    signal.throwIfAborted();
    if (isDropped(reply)) fail(reply.errorMessage ?? "the request was aborted");
    count(run, reply);
    const calls = toolCallsOf(reply);
    const changing = calls.filter((call) => !changesNothing(call));
    run.madeUp.push(...changing.flatMap((call) => madeUpIn(call, seen)));
    const [first] = changing;
    if (first || calls.length === 0) return { ...run, outcome: first ? outcomeOf(first, options) : speechOf(reply) };
    messages.push(reply);
    for (const call of calls) {
      const { text, isError, known } = await answers.answer(call);
      seen.push(text);
      if (isError && call.name === QUERY_TOOL_NAME) run.madeUp.push(`ref ${targetOf(call, cwd)}`);
      run.lookups.push(lookupOf(call, text, known, cwd));
      messages.push({
        role: "toolResult",
        toolCallId: call.id,
        toolName: call.name,
        content: [{ type: "text", text: text || "(no output)" }],
        isError,
        timestamp: reply.timestamp,
      });
    }
  }
  return run;
}

function fail(error: unknown): never {
  throw new ModelFailure(oneLine(error instanceof Error ? error.message : String(error), 300));
}

function count(run: Run, { usage }: AssistantMessage): void {
  run.requests += 1;
  run.promptTokens += usage.input + usage.cacheRead + usage.cacheWrite;
  run.outputTokens += usage.output;
  run.cost += usage.cost.total;
}

function lookupOf(call: ToolCall, text: string, known: boolean, cwd: string): Lookup {
  return { tool: call.name, target: targetOf(call, cwd), chars: text.length, known };
}

function speechOf({ content }: AssistantMessage): Outcome {
  const text = content.flatMap((block) => (isText(block) ? [block.text] : [])).join("\n");
  return { kind: "text", text: cut(text, MAX_KEPT_CHARS) };
}

function outcomeOf(call: ToolCall, { answers, cwd }: RunOptions): Outcome {
  const args = cut(JSON.stringify(call.arguments, null, 2).replaceAll("\\n", "\n"), MAX_KEPT_CHARS);
  const exact = isExact(call, answers, cwd);
  return {
    kind: "call",
    tool: call.name,
    target: targetOf(call, cwd),
    args,
    ...(exact === undefined ? {} : { exact }),
  };
}

/** Whether every text that a call replaces stands in its file; `undefined` where it replaces none or nobody can know. */
function isExact(call: ToolCall, { files }: Answers, cwd: string): boolean | undefined {
  const path = pathOf(call, cwd);
  const replaced = replacementsOf(call);
  if (path === undefined || replaced.length === 0) return undefined;
  const found = replaced.map(({ oldText }) => files.byPath.get(path)?.has(oldText));
  if (found.includes(false)) return false;
  return found.includes(undefined) ? undefined : true;
}

/** What a call quotes and nothing that the model could have read holds; and stubs that it took for text. */
function madeUpIn(call: ToolCall, seen: readonly string[]): string[] {
  const quoted = replacementsOf(call).flatMap(({ oldText }) => oldText.split("\n").map((line) => line.trim()));
  const unseen = quoted.filter((line) => line.length >= MIN_QUOTED_CHARS && !seen.some((text) => text.includes(line)));
  const marker = MARKER.test(JSON.stringify(call.arguments).replace(/\\"/g, '"'));
  return [...unseen.map((line) => sliceText(line, 0, 200)), ...(marker ? ["the mark of a condensed text"] : [])];
}
