/** What can be wrong with a summariser, told from what a host or provider says. */

/** `cut`, `empty` and `unusable` are faults of a reply, the others of the model or the way to it. */
export type TroubleKind =
  | "auth"
  | "busy"
  | "network"
  | "timeout"
  | "refused"
  | "cut"
  | "empty"
  | "failed"
  | "cancelled";

export interface Trouble {
  kind: TroubleKind;
  /** What was said, for the user. */
  detail: string;
}

/** Kinds that may pass: another model may be asked meanwhile, and the same one again later. */
const PASSING: ReadonlySet<TroubleKind> = new Set(["busy", "network", "timeout", "failed"]);

export function isPassing({ kind }: Trouble): boolean {
  return PASSING.has(kind);
}

const SIGNS: readonly [TroubleKind, RegExp][] = [
  [
    "auth",
    /\b(?:401|403)\b|no api key|api key|unauthori[sz]ed|forbidden|authenticat|credential|permission denied|\blogin\b/i,
  ],
  ["busy", /\b(?:429|503|529)\b|rate.?limit|overloaded|too many requests|quota|capacity/i],
  ["timeout", /time[d]?.?out|no reply within|nothing received/i],
  [
    "network",
    /fetch failed|network|socket|connection|ECONN|ENOTFOUND|EAI_AGAIN|EPIPE|terminated|premature|stream ended/i,
  ],
  ["refused", /refus|content.?filter|safety|blocked/i],
];

/** Sorts what an errored reply or a rejected call said. */
export function troubleOf(detail: string): Trouble {
  const kind = SIGNS.find(([, sign]) => sign.test(detail))?.[0] ?? "failed";
  return { kind, detail };
}
