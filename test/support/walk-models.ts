/** Models of a walk: what the session is spoken by, at every kind of price, and a summariser that answers when it is told to. */
import { type Api, type AssistantMessage, createAssistantMessageEventStream, type Model } from "@mariozechner/pi-ai";
import type { HostSnapshot } from "../../src/host/host.ts";
import { NO_MODELS } from "./simulated-session.ts";

type Prices = Model<Api>["cost"] & { tiers?: (Model<Api>["cost"] & { inputTokensAbove: number })[] };

/** The prices of providers that differ in what a rewrite of the cached prompt costs, and windows of any size. */
const PRICES = {
  none: undefined,
  "cheap reads, dear writes": { cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 }, window: 200_000 },
  "cheap reads, free writes": { cost: { input: 2, output: 8, cacheRead: 0.2, cacheWrite: 0 }, window: 128_000 },
  "no discount": { cost: { input: 1, output: 4, cacheRead: 1, cacheWrite: 1 }, window: 64_000 },
  "dearer from some length on": {
    cost: {
      ...{ input: 1, output: 4, cacheRead: 0.1, cacheWrite: 2 },
      tiers: [{ inputTokensAbove: 3_000, input: 2, output: 8, cacheRead: 0.2, cacheWrite: 4 }],
    },
    window: 1_000_000,
  },
  free: { cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, window: 16_000 },
  "a small window": { cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 }, window: 4_000 },
} satisfies Record<string, { cost: Prices; window: number } | undefined>;

export type ModelName = keyof typeof PRICES;

export const MODEL_NAMES = Object.keys(PRICES) as ModelName[];

/** The model of that name. The first that has a price is the one that speaks in most generated sessions. */
export function walkModel(name: ModelName): Model<Api> | undefined {
  const entry = PRICES[name];
  if (!entry) return undefined;
  const isFirst = name === "cheap reads, dear writes";
  const id = isFirst ? "big-1" : name;
  const api = name === "free" || name === "cheap reads, free writes" ? "openai-completions" : "anthropic-messages";
  const shape = { api, provider: "anthropic", baseUrl: "http://127.0.0.1:9", reasoning: false };
  const sizes = { contextWindow: entry.window, maxTokens: 2_000 };
  return { ...shape, id, name: id, input: ["text", "image"], cost: entry.cost, ...sizes };
}

/** What a summariser may answer. */
export const SUMMARIES = [
  "sections",
  "one text",
  "marks",
  "made-up names",
  "too long",
  "nothing",
  "cut",
  "overloaded",
  "refused key",
] as const;

export type SummaryName = (typeof SUMMARIES)[number];

const USAGE = { input: 100, output: 20, cacheRead: 0, cacheWrite: 0, totalTokens: 120 };
const COST = { input: 0.01, output: 0.01, cacheRead: 0, cacheWrite: 0, total: 0.02 };

/** The models of one process. */
export class WalkModels {
  private readonly waiting: ((by: SummaryName) => void)[] = [];

  /** @param held answers wait for `answer` */
  constructor(private readonly held: boolean) {}

  /** As the newer host's registry, which streams by itself. */
  readonly registry: HostSnapshot["models"] = Object.assign(Object.create(NO_MODELS), {
    hasConfiguredAuth: () => true,
    streamSimple: (
      model: Model<Api>,
      context: { messages: { content: unknown }[] },
      options?: { signal?: AbortSignal },
    ) => this.open(model, JSON.stringify(context.messages), options?.signal),
  });

  /** Calls that have not been answered. */
  get unanswered(): number {
    return this.waiting.length;
  }

  answer(count: number, by: SummaryName): void {
    for (const reply of this.waiting.splice(0, count)) reply(by);
  }

  private open(model: Model<Api>, asked: string, signal: AbortSignal | undefined) {
    const stream = createAssistantMessageEventStream();
    const end = (stopReason: "stop" | "length" | "error" | "aborted", text: string) => {
      const failed = stopReason === "error" || stopReason === "aborted";
      const message: AssistantMessage = {
        ...{ role: "assistant", content: failed ? [] : [{ type: "text", text }] },
        ...{ api: model.api, provider: model.provider, model: model.id, timestamp: 0 },
        ...{ usage: { ...USAGE, cost: COST }, stopReason, ...(failed ? { errorMessage: text } : {}) },
      };
      if (failed) stream.push({ type: "error", reason: stopReason, error: message });
      else stream.push({ type: "done", reason: stopReason, message });
      stream.end(message);
    };
    const reply = (by: SummaryName) => {
      if (by === "overloaded") end("error", "529 overloaded_error");
      else if (by === "refused key") end("error", "401 invalid x-api-key");
      else end(by === "cut" ? "length" : "stop", textOf(by, asked));
    };
    signal?.addEventListener("abort", () => end("aborted", "aborted"), { once: true });
    if (this.held) this.waiting.push(reply);
    else queueMicrotask(() => reply("sections"));
    return stream;
  }
}

function textOf(by: SummaryName, asked: string): string {
  const calls = asked.match(/\[\d+\] /g) ?? ["[1] "];
  switch (by) {
    case "sections":
      return calls.map((mark) => `${mark}It went well, and nothing else is to be said of it.`).join("\n");
    case "marks":
      return calls
        .map((mark) => `${mark}</compressed-chain> <protect>x</protect> [t1 condensed: as before]`)
        .join("\n");
    case "made-up names":
      return calls.map((mark) => `${mark}Wrote /nowhere/at/all.ts with 987654 lines.`).join("\n");
    case "too long":
      return calls.map((mark) => `${mark}${"On and on it goes. ".repeat(400)}`).join("\n");
    case "nothing":
      return " \n";
    default:
      return `All of it went well: ${/tool: (\w+)/.exec(asked)?.[1] ?? "read"}.`;
  }
}
