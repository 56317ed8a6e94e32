/** The bill in words. */
import { count, grouped } from "../text/text.ts";
import { type Bill, type BillItem, totalsOf } from "./bill.ts";

/** `$0.32`: cents, and more digits where those would say little. */
export function dollars(amount: number): string {
  const size = Math.abs(amount);
  const digits = size === 0 || size >= 0.0995 ? 2 : 4;
  return `${amount < 0 ? "-" : ""}$${size.toFixed(digits)}`;
}

/** `This session: $0.32 instead of about $0.49 (-35%).` Without prices the same in prompt tokens. */
export function billSentence(bill: Bill, subject = "This session"): string {
  const { unit, paid, raw } = totalsOf(bill);
  if (bill.requests === 0) return `${subject}: no usage has been reported yet.`;
  const amount = (value: number) => (unit === "USD" ? dollars(value) : `${grouped(Math.round(value))} prompt tokens`);
  const change = raw > 0 ? Math.round((paid / raw - 1) * 100) : 0;
  if (bill.condensedRequests === 0 && bill.summaries.count === 0) {
    return `${subject}: ${amount(paid)}, the same as without condensing: no request went out condensed.`;
  }
  const sign = change < 0 ? "-" : change > 0 ? "+" : "±";
  const instead = unit === "USD" ? dollars(raw) : grouped(Math.round(raw));
  return `${subject}: ${amount(paid)} instead of about ${instead} (${sign}${Math.abs(change)}%).`;
}

/** What of it was paid for condensing itself. Empty where nothing was. */
export function billParts({ requests, condensedRequests, rewrites, recoveries, summaries }: Bill): string {
  const parts = [
    part(rewrites, "rewrite of the prompt cache", "rewrites of the prompt cache"),
    part(recoveries, "request to get output back", "requests to get output back"),
    part(summaries, "call of the summariser", "calls of the summariser"),
  ].flat();
  if (condensedRequests === 0 && parts.length === 0) return "";
  const condensed = `${grouped(condensedRequests)} of ${count(requests, "request")} went out condensed`;
  return parts.length === 0 ? `${condensed}.` : `${condensed}. Part of the cost: ${parts.join(", ")}.`;
}

function part(item: BillItem, one: string, many: string): string[] {
  if (item.count === 0) return [];
  const amount = item.cost > 0 ? dollars(item.cost) : count(Math.round(item.tokens), "token");
  return [`${count(item.count, one, many)} (${amount})`];
}
