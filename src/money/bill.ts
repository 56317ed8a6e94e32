/** What a session was billed, and what the same session would have been billed raw. */

/** A share of a bill: what it was for, in tokens and USD. */
export interface BillItem {
  /** Requests, calls or rewrites, whatever is counted. */
  count: number;
  tokens: number;
  /** USD; 0 where the models have no prices. */
  cost: number;
}

/** Tokens are those that the provider has counted, or estimates brought to its scale. Costs in USD. */
export interface Bill {
  /** Requests whose usage was recorded, and those of them that are known to have gone out condensed. */
  requests: number;
  condensedRequests: number;
  /** Requests of which the provider said nothing. */
  unrecorded: number;
  /** Prompt tokens as sent, and as they would have been. */
  sentTokens: number;
  rawTokens: number;
  /** The replies as recorded, which is what the host's own footer shows; and what they would have cost raw. */
  repliesCost: number;
  rawCost: number;
  /** Parts of `repliesCost`: prompt that was written into the cache again, and requests and text to ask output back. */
  rewrites: BillItem;
  recoveries: BillItem;
  /** Calls of the summariser, failed ones included; beside `repliesCost`. */
  summaries: BillItem;
}

export function emptyBill(): Bill {
  const none = (): BillItem => ({ count: 0, tokens: 0, cost: 0 });
  return {
    requests: 0,
    condensedRequests: 0,
    unrecorded: 0,
    sentTokens: 0,
    rawTokens: 0,
    repliesCost: 0,
    rawCost: 0,
    rewrites: none(),
    recoveries: none(),
    summaries: none(),
  };
}

/** The bills of two sessions as one. */
export function addBills(a: Bill, b: Bill): Bill {
  const item = (one: BillItem, other: BillItem): BillItem => ({
    count: one.count + other.count,
    tokens: one.tokens + other.tokens,
    cost: one.cost + other.cost,
  });
  return {
    requests: a.requests + b.requests,
    condensedRequests: a.condensedRequests + b.condensedRequests,
    unrecorded: a.unrecorded + b.unrecorded,
    sentTokens: a.sentTokens + b.sentTokens,
    rawTokens: a.rawTokens + b.rawTokens,
    repliesCost: a.repliesCost + b.repliesCost,
    rawCost: a.rawCost + b.rawCost,
    rewrites: item(a.rewrites, b.rewrites),
    recoveries: item(a.recoveries, b.recoveries),
    summaries: item(a.summaries, b.summaries),
  };
}

/** All that was paid, and what raw would have been: in USD, or in tokens where the session's models have no prices. */
export function totalsOf(bill: Bill): { unit: "USD" | "tokens"; paid: number; raw: number } {
  const { repliesCost, rawCost, summaries, sentTokens, rawTokens } = bill;
  if (repliesCost > 0) return { unit: "USD", paid: repliesCost + summaries.cost, raw: rawCost };
  return { unit: "tokens", paid: sentTokens + summaries.tokens, raw: rawTokens };
}
