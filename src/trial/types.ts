/** What a trial asks, what it gets, and what it keeps of it. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { ModelCost } from "../cost/prices.ts";

/** A tool as a model is told of it. `parameters` is a JSON schema. */
export interface TrialTool {
  name: string;
  description: string;
  parameters: object;
}

/** One request to the model that is on trial. */
export interface TrialRequest {
  systemPrompt: string;
  messages: readonly AgentMessage[];
  tools: readonly TrialTool[];
}

/** The model on trial. */
export interface TrialModel {
  /** `provider/id`. */
  name: string;
  /** USD per million tokens. */
  cost: ModelCost;
  /** Tokens; 0 where the host does not say. */
  contextWindow: number;
  /** Resolves with a `stopReason` of "error" or "aborted" where it fails. */
  ask(request: TrialRequest, signal: AbortSignal): Promise<AssistantMessage>;
}

/** What the trial needs of the host. */
export interface TrialHost {
  /** Name and version, for people. */
  name: string;
  /** @throws Error with a sentence for the user where the model is unknown or has no key */
  model(name: string): Promise<TrialModel>;
  /** The host's own tools by name, with their real schemas. */
  tools(cwd: string): TrialTool[];
}

/** A call that was answered from the recording. */
export interface Lookup {
  tool: string;
  /** File, ref or command. */
  target: string;
  /** Characters of the answer. */
  chars: number;
  /** The recording holds what was asked for, all of it. */
  known: boolean;
}

/** Where a run came to its end. */
export type Outcome =
  | {
      kind: "call";
      tool: string;
      /** File that the call is about, or the beginning of a command; empty where there is neither. */
      target: string;
      /** Arguments as JSON for people: line breaks within texts are broken, and the end may be cut off. */
      args: string;
      /** The text to be replaced stands in the file as it was; missing where that is no edit or cannot be known. */
      exact?: boolean;
    }
  | { kind: "text"; text: string }
  /** Eight steps without a change. */
  | { kind: "limit" };

/** What came of one context at one moment. */
export interface Run {
  outcome: Outcome;
  requests: number;
  /** As the provider counted them, prompts and answers of all requests. */
  promptTokens: number;
  outputTokens: number;
  /** USD. */
  cost: number;
  lookups: Lookup[];
  /** Lines and refs that the calls quote and that no context holds. */
  madeUp: string[];
}

/** Why a moment was picked. */
export type MomentKind = "random" | "use";

/** A request of the recorded session, by the place of its reply among the session's entries. */
export interface Moment {
  index: number;
  kind: MomentKind;
  /** Estimated tokens of the conversation as it was, and as it is condensed under the first settings. */
  rawTokens: number;
  condensedTokens: number;
}

/** Names of the contexts that a moment is tried with; settings of `--compare` come behind them under their own text. */
export const RAW = "raw";
export const RAW_AGAIN = "raw again";
export const CONDENSED = "condensed";

/** The contexts of a trial: the raw one twice, then one for each variant. */
export function armsOf(variants: readonly { name: string }[]): string[] {
  return [RAW, RAW_AGAIN, ...variants.map(({ name }) => name)];
}

/** A finished run and where it belongs. */
export interface FinishedRun {
  index: number;
  arm: string;
  run: Run;
}
