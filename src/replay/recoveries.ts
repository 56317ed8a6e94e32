/** What it costs that a request lacks what its reply uses: the model asks for it, reads the prompt once more, and carries it. */
import type { CostMeter } from "./costs.ts";
import type { RequestUses } from "./use-counter.ts";
import type { Origin } from "./uses.ts";

/** Tokens of a reply that asks for an output. */
const ASKING_TOKENS = 100;
/** Characters of one page of a recovered output. */
const PAGE_CHARS = 50 * 1_024;

/** A recovered text that later requests carry. */
interface Carried {
  origin: Origin;
  tokens: number;
  /** When the reply that it was asked for came, ms, and the user's messages before it. */
  at: number;
  turn: number;
}

/** Charges the recoveries of one variant to its meter: one for each result or arguments and request. */
export class RecoveryCharge {
  private carried: Carried[] = [];
  /** Requests that the session took more. */
  extraRequests = 0;

  /** @param graceTurns messages of the user after which a recovered output gives way to a pointer, with the next flush */
  constructor(
    private readonly meter: CostMeter,
    private readonly graceTurns: number,
  ) {}

  /** A request has been priced. What its reply lacked is asked for before it, unless that is still being carried. */
  request({ uses, turn }: RequestUses): void {
    const { meter } = this;
    const index = meter.requests.length - 1;
    const request = meter.requests[index];
    if (!request) return;
    const flushed = meter.flushes.at(-1)?.request === index;
    const compacted = meter.compactions.at(-1)?.request === index;
    if (compacted) this.carried = [];
    else if (flushed) this.carried = this.carried.filter((text) => turn - text.turn < this.graceTurns);
    const { at, writtenFrom = Number.POSITIVE_INFINITY } = request;
    let cost = 0;
    let carriedTokens = 0;
    for (const text of this.carried) {
      // It stands before the reply that it was asked for, and is written again with whatever stands before itself.
      cost += this.price(writtenFrom < text.at ? { write: text.tokens } : { read: text.tokens });
      carriedTokens += text.tokens;
    }
    for (const origin of new Set(uses.filter(({ isNew }) => isNew).map((use) => use.origin))) {
      if (this.carried.some((text) => text.origin === origin)) continue;
      const shown = origin.chars > PAGE_CHARS ? PAGE_CHARS / origin.chars : 1;
      const tokens = meter.scaled(origin.tokens) * shown + ASKING_TOKENS;
      cost +=
        this.price({ read: request.tokens + carriedTokens, output: ASKING_TOKENS }) + this.price({ write: tokens });
      this.carried.push({ origin, tokens, at, turn });
      carriedTokens += tokens;
      this.extraRequests += 1;
    }
    if (cost > 0) meter.recovery(cost);
  }

  private price(counts: { read?: number; write?: number; output?: number }): number {
    return this.meter.priceOf({ read: 0, write: 0, input: 0, output: 0, ...counts });
  }
}
