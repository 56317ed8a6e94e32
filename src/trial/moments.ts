/** Picks the moments of a session that are tried: by chance, and where the recorded reply used what had been condensed. */
import type { Candidate } from "./contexts.ts";
import type { Moment, MomentKind } from "./types.ts";

export interface PickOptions {
  points: number;
  seed: number;
}

/**
 * Half of the moments by chance, half among those with `uses`; the rest by chance where there are too few. They come in
 * an order that is random too, so that a trial that is ended early says nothing about the beginning alone.
 */
export function pickMoments(candidates: readonly Candidate[], { points, seed }: PickOptions): Moment[] {
  const random = generator(seed);
  const shuffled = shuffle(candidates, random);
  const using = shuffled.filter(({ uses }) => uses).slice(0, Math.floor(points / 2));
  const taken = new Set(using.map(({ index }) => index));
  const others = shuffled.filter(({ index }) => !taken.has(index)).slice(0, points - using.length);
  const named = (kind: MomentKind) => (candidate: Candidate) => momentOf(candidate, kind);
  return shuffle([...using.map(named("use")), ...others.map(named("random"))], random);
}

function momentOf({ index, rawTokens, condensedTokens }: Candidate, kind: MomentKind): Moment {
  return { index, kind, rawTokens: Math.round(rawTokens), condensedTokens: Math.round(condensedTokens) };
}

function shuffle<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, place: random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}

/** Numbers from 0 up to 1, the same for the same seed: the generator `mulberry32`. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
