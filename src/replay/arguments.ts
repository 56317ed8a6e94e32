/** The command line of the replay. */
import { parseArgs } from "node:util";
import { type ModelCost, PRICE_PROFILES, type Rates } from "../cost/prices.ts";
import { isRecord } from "../text/json.ts";
import { reasonOf } from "../text/text.ts";
import type { Assumptions, Variant } from "./replay.ts";
import { ReplayInputError } from "./session-file.ts";
import { type Assignment, configWith, parseAssignment, parseAssignments } from "./settings.ts";

export const USAGE = `Usage: pi-condense replay SESSION.jsonl|FOLDER [options]

Replays a recorded session request by request and tells what it would have cost with its
finished tool output condensed. A folder gives a summary over the sessions in it.

  --set KEY=VALUE           change a setting, for example pruneOn=every-turn
  --compare "K=V,K=V"       one more variant with these settings; may be given several times
  --digest                  mechanical digests in place of a summariser (summarizerModel=none)
  --summary-ratio 0.08      length of a summary as a share of the output
  --summarizer-price 0.2    price of the summariser as a share of the model's; by default
                            1 for the session's own model, 0.2 for a named one
  --profile NAME            prices: ${[...PRICE_PROFILES.keys()].join(", ")};
                            by default as recorded
  --input-price USD         price of one million input tokens where none was recorded
  --model-prices JSON       prices of models, {"provider/model": {"input": 3, "output": 15,
                            "cacheRead": 0.3, "cacheWrite": 3.75}}, USD per million tokens
  --context-window TOKENS   window of the model; by default guessed from the session
  --json                    print the figures as JSON
  --html FILE               write a page with the course of the session
  --progress                say how far it is, also where that is no terminal
`;

/** What was asked for. */
export interface ReplayCommand {
  /** A session file or a folder. */
  path: string;
  variants: Variant[];
  assumptions: Assumptions;
  json: boolean;
  /** File for the page. */
  html: string | undefined;
  /** Tell the progress in any case. */
  progress: boolean;
}

/**
 * Reads the arguments after `replay`; `undefined` where help is asked for.
 * @throws ReplayInputError with what is wrong
 */
export function parseReplayArguments(args: readonly string[]): ReplayCommand | undefined {
  const { values, positionals } = parse(args);
  if (values.help) return undefined;
  const [path, ...others] = positionals;
  if (path === undefined) throw new ReplayInputError("Name a session file or a folder of sessions.");
  if (others.length > 0) throw new ReplayInputError(`One session at a time: what is "${others[0]}"?`);
  return {
    path,
    variants: variantsOf(values.set ?? [], values.compare ?? [], values.digest === true),
    assumptions: {
      summaryRatio: numberOf("--summary-ratio", values["summary-ratio"] ?? "0.08", 0, 1),
      summarizerPrice: optional("--summarizer-price", values["summarizer-price"], 0, 100),
      costOfModel: pricesOf(values["model-prices"]),
      profile: profileOf(values.profile),
      inputPrice: optional("--input-price", values["input-price"], 0, 1_000_000),
      contextWindow: optional("--context-window", values["context-window"], 1_000, 1e9),
    },
    json: values.json === true,
    html: values.html,
    progress: values.progress === true,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        set: { type: "string", multiple: true },
        compare: { type: "string", multiple: true },
        digest: { type: "boolean" },
        "summary-ratio": { type: "string" },
        "summarizer-price": { type: "string" },
        profile: { type: "string" },
        "input-price": { type: "string" },
        "model-prices": { type: "string" },
        "context-window": { type: "string" },
        json: { type: "boolean" },
        html: { type: "string" },
        progress: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    throw new ReplayInputError(reasonOf(error));
  }
}

/** What `--set` says holds for every variant; each `--compare` is one more. */
function variantsOf(set: readonly string[], compare: readonly string[], digest: boolean): Variant[] {
  const shared: Assignment[] = [
    ...(digest ? [{ key: "summarizerModel", value: "none" }] : []),
    ...set.map(parseAssignment),
  ];
  const base = { name: set.length > 0 ? set.join(",") : "pruned", config: configWith(shared) };
  const others = compare.map((text) => ({ name: text, config: configWith([...shared, ...parseAssignments(text)]) }));
  return [base, ...others];
}

function profileOf(name: string | undefined): Assumptions["profile"] {
  if (name === undefined) return undefined;
  const profile = PRICE_PROFILES.get(name);
  if (profile) return profile;
  throw new ReplayInputError(`There is no profile "${name}". Known: ${[...PRICE_PROFILES.keys()].join(", ")}.`);
}

/** Prices by model; those of a model that costs nothing are none, as the host gives such where it knows none. */
function pricesOf(json: string | undefined): Assumptions["costOfModel"] {
  if (json === undefined) return undefined;
  const table = parseJson(json);
  if (!isRecord(table)) throw new ReplayInputError("--model-prices is no JSON object of prices by model.");
  const costs = new Map(Object.entries(table).map(([model, prices]) => [model, costFrom(model, prices)]));
  return (model) => {
    const cost = costs.get(model);
    return cost && cost.input > 0 ? cost : undefined;
  };
}

function costFrom(model: string, prices: unknown): ModelCost {
  if (!isRecord(prices)) throw new ReplayInputError(`--model-prices: ${model} has no prices.`);
  const { tiers } = prices;
  if (!Array.isArray(tiers)) return ratesFrom(model, prices);
  const steps = tiers.filter(isRecord).map((tier) => ({
    ...ratesFrom(model, tier),
    inputTokensAbove: priceFrom(model, tier, "inputTokensAbove"),
  }));
  return { ...ratesFrom(model, prices), tiers: steps };
}

function ratesFrom(model: string, prices: Record<string, unknown>): Rates {
  const price = (kind: keyof Rates) => priceFrom(model, prices, kind);
  return {
    input: price("input"),
    output: price("output"),
    cacheRead: price("cacheRead"),
    cacheWrite: price("cacheWrite"),
  };
}

function priceFrom(model: string, prices: Record<string, unknown>, kind: string): number {
  const price = prices[kind] ?? 0;
  if (typeof price === "number" && Number.isFinite(price) && price >= 0) return price;
  throw new ReplayInputError(`--model-prices: ${kind} of ${model} is no price.`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function optional(name: string, text: string | undefined, min: number, max: number): number | undefined {
  return text === undefined ? undefined : numberOf(name, text, min, max);
}

function numberOf(name: string, text: string, min: number, max: number): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (value >= min && value <= max) return value;
  throw new ReplayInputError(`${name} cannot be "${text}": it is a number from ${min} to ${max}.`);
}
