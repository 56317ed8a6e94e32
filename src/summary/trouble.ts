/** What can be wrong with a summariser, told from what a host or provider says. */
import { oneLine } from "../text/text.ts";

/**
 * `cut`, `empty`, `refused` and `unusable` are faults of a reply, the others of the model or the way to it. What is
 * `unusable` has something else in its place already, so that nobody needs to be told.
 */
export type TroubleKind =
  | "auth"
  | "busy"
  | "network"
  | "timeout"
  | "refused"
  | "cut"
  | "empty"
  | "unusable"
  | "failed"
  | "cancelled";

export interface Trouble {
  kind: TroubleKind;
  /** What was said, in one line for the user. */
  detail: string;
}

/** Providers answer with whole pages at times. */
const MAX_DETAIL = 300;

/** Kinds that may pass: another model may be asked meanwhile, and the same one again later. */
const PASSING: ReadonlySet<TroubleKind> = new Set(["busy", "network", "timeout", "failed"]);

export function isPassing({ kind }: Trouble): boolean {
  return PASSING.has(kind);
}

/** The model has answered, and may answer the same thing the same way again. */
export function isReplyFault({ kind }: Trouble): boolean {
  return kind === "refused" || kind === "cut" || kind === "empty";
}

/** Status codes tell more surely than words, which may speak of anything: "rate limit of this API key". */
const STATUS: readonly [TroubleKind, RegExp][] = [
  ["auth", /(?<![\w.])40[13](?![\w.])/],
  ["busy", /(?<![\w.])(?:429|503|529)(?![\w.])/],
  ["failed", /(?<![\w.])(?:400|404|413|422|500|502|504)(?![\w.])/],
];

const WORDS: readonly [TroubleKind, RegExp][] = [
  ["busy", /rate.?limit|overloaded|too many requests|quota|capacity|unavailable/i],
  [
    "auth",
    /api.?key|unauthori[sz]ed|forbidden|authenticat|credential|permission denied|\blog ?in\b|\btoken (?:has )?expired/i,
  ],
  ["timeout", /time[d]?.?out/i],
  [
    "network",
    /fetch failed|network|socket|connect|ECONN|ENOTFOUND|EAI_AGAIN|EPIPE|terminated|premature|\b(?:stream|body) ended|ended before|ended without|closed unexpectedly/i,
  ],
  ["refused", /refus|content.?filter|safety|sensitive|prohibited|recitation|blocklist|\bSPII\b/i],
];

/** Sorts what an errored reply or a rejected call said. */
export function troubleOf(said: string): Trouble {
  // What could not be parsed is the model's text, which is nobody's business but the user's own session.
  const detail = oneLine(said.replace(/; (?:data|raw)=[\s\S]*/, ""), MAX_DETAIL);
  // A status code stands at the head of what providers say.
  const kind = find(STATUS, detail.slice(0, 80)) ?? find(WORDS, detail) ?? "failed";
  return { kind, detail };
}

function find(signs: readonly [TroubleKind, RegExp][], text: string): TroubleKind | undefined {
  return signs.find(([, sign]) => sign.test(text))?.[0];
}
