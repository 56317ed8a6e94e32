/** What a model's own replies say of it: tokens for each estimated one, prices, whether its cache is read. */
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { Rates, TokenCounts } from "../cost/prices.ts";
import { modelOf, recordedRates } from "../replay/recording.ts";

/** Estimated tokens that have to be seen before a scale is believed, and the bounds that it is kept in. */
const MIN_GROWTH = 2_000;
const BOUNDS = { least: 0.5, most: 2.5 };
/** Replies that prices are read from. */
const PRICED_REPLIES = 20;

interface Known {
  recorded: number;
  estimated: number;
  readsCache: boolean;
  replies: AssistantMessage[];
  rates: Rates | undefined;
}

/** By `provider/model`. */
export class ModelBook {
  private readonly models = new Map<string, Known>();

  /** Takes in the counts and the costs of a reply. */
  meet(reply: AssistantMessage, { read }: TokenCounts): void {
    const known = this.known(modelOf(reply));
    if (read > 0) known.readsCache = true;
    if (known.replies.length >= PRICED_REPLIES) return;
    known.replies.push(reply);
    known.rates = recordedRates(known.replies).get(modelOf(reply));
  }

  /** A raw part of the conversation was counted. */
  learn(model: string, recorded: number, estimated: number): void {
    if (recorded <= 0 || estimated <= 0) return;
    const known = this.known(model);
    known.recorded += recorded;
    known.estimated += estimated;
  }

  /** Provider's tokens for one that was estimated. */
  scaleOf(model: string): number {
    const { recorded, estimated } = this.known(model);
    return estimated < MIN_GROWTH ? 1 : Math.min(BOUNDS.most, Math.max(BOUNDS.least, recorded / estimated));
  }

  /** Whether any prompt was read from the model's cache. */
  readsCache(model: string): boolean {
    return this.known(model).readsCache;
  }

  /** Prices that the recorded costs come from. */
  ratesOf(model: string): Rates | undefined {
    return this.known(model).rates;
  }

  private known(model: string): Known {
    const known = this.models.get(model) ?? {
      recorded: 0,
      estimated: 0,
      readsCache: false,
      replies: [],
      rates: undefined,
    };
    this.models.set(model, known);
    return known;
  }
}
