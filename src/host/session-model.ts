/** The session's model, as decisions on the prompt cache see it. */
import type { Api, Model } from "@mariozechner/pi-ai";
import { DEFAULT_PROFILE, ratesFor } from "../cost/prices.ts";
import type { SessionModel } from "../engine/environment.ts";

/** Milliseconds that a provider keeps a prompt where the host asks for long retention. */
const LONG_LIFETIME_MS = 60 * 60_000;

/**
 * Content blocks before the mark at a prompt's end among which these interfaces look for an earlier marked end; the hosts
 * set one mark there. The others find any common beginning.
 */
const LOOKBACK_BLOCKS: Readonly<Record<string, number>> = { "anthropic-messages": 20, "bedrock-converse-stream": 20 };

/** @param retention the host's `PI_CACHE_RETENTION` */
export function sessionModel(model: Model<Api> | undefined, retention: string | undefined): SessionModel | undefined {
  if (!model) return undefined;
  const { lifetimeMs, minTokens, rates } = DEFAULT_PROFILE;
  const lookbackBlocks = LOOKBACK_BLOCKS[model.api];
  return {
    name: `${model.provider}/${model.id}`,
    contextWindow: model.contextWindow,
    bindsThinking: bindsThinking(model),
    cache: { lifetimeMs: retention === "long" ? LONG_LIFETIME_MS : lifetimeMs, minTokens, lookbackBlocks },
    // A model without prices has those of a usual one, so that proportions are right at least.
    rates: (promptTokens) => (model.cost.input > 0 ? ratesFor(model.cost, promptTokens) : rates),
  };
}

/** Models on Bedrock whose requests the newer host sends with `block_binding`. */
const BOUND_ON_BEDROCK = /opus-4-[78]|(?:opus|sonnet|haiku|fable)-5/;

/** As the newer host decides on `prefix_mismatch_behavior: "drop_block"`. */
function bindsThinking({ api, id, compat }: Pick<Model<Api>, "api" | "id" | "compat">): boolean {
  if (api === "bedrock-converse-stream") return BOUND_ON_BEDROCK.test(id);
  const isManaged =
    compat !== undefined && "supportsMidConvoEffort" in compat && compat.supportsMidConvoEffort === true;
  return api === "anthropic-messages" && isManaged;
}
