import { describe, expect, test } from "bun:test";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { CUSTOM_TYPE_STATS, type StatsEntryData } from "../types.ts";
import { readOwnEntries } from "./entries.ts";
import { SummarizerStats } from "./stats.ts";

const USAGE = { inputTokens: 100, outputTokens: 10, cost: 0.25 };

/** Appended entries, and the totals that the last of them holds. */
function recorder() {
  const entries: SessionEntry[] = [];
  const append = (customType: string, data: unknown) => {
    const id = `e${entries.length}`;
    const line = JSON.stringify({ type: "custom", id, parentId: null, timestamp: "", customType, data });
    entries.push(JSON.parse(line));
  };
  return { entries, append };
}

describe("SummarizerStats", () => {
  test("starts at nothing", () => {
    const nothing: StatsEntryData = {
      totalInputTokens: 0,
      totalOutputTokens: 0,
      totalCost: 0,
      callCount: 0,
      failedCallCount: 0,
    };
    expect(new SummarizerStats().current).toEqual(nothing);
  });

  test("adds up calls, and what failed ones have cost", () => {
    const stats = new SummarizerStats();
    stats.add(USAGE, true);
    stats.add(USAGE, false);
    expect(stats.current).toEqual({
      totalInputTokens: 200,
      totalOutputTokens: 20,
      totalCost: 0.5,
      callCount: 2,
      failedCallCount: 1,
    });
  });

  test("saves only what has changed since the last time", () => {
    const { entries, append } = recorder();
    const stats = new SummarizerStats();
    stats.save(append);
    expect(entries).toEqual([]);
    stats.add(USAGE, true);
    stats.save(append);
    stats.save(append);
    expect(entries).toMatchObject([{ customType: CUSTOM_TYPE_STATS, data: { callCount: 1 } }]);
  });

  test("saves once there is room what a full disk has refused", () => {
    const { entries, append } = recorder();
    const stats = new SummarizerStats();
    stats.add(USAGE, true);
    const refuse = () => {
      throw new Error("ENOSPC");
    };
    expect(() => stats.save(refuse)).toThrow("ENOSPC");
    stats.save(append);
    expect(entries).toMatchObject([{ customType: CUSTOM_TYPE_STATS, data: { callCount: 1 } }]);
  });

  test("goes on from the last totals of the file, without counting them twice", () => {
    const { entries, append } = recorder();
    const stats = new SummarizerStats();
    stats.add(USAGE, true);
    stats.save(append);
    stats.add(USAGE, true);
    stats.save(append);

    append("other-extension", { callCount: 99 });
    const restarted = new SummarizerStats();
    restarted.restore(readOwnEntries(entries));
    expect(restarted.current).toEqual(stats.current);
    restarted.save(append);
    expect(entries).toHaveLength(3);
    restarted.add(USAGE, false);
    expect(restarted.current).toMatchObject({ callCount: 3, failedCallCount: 1 });
  });

  test("what a file holds is not changed by what comes later", () => {
    const { entries, append } = recorder();
    const stats = new SummarizerStats();
    stats.add(USAGE, true);
    stats.save(append);
    const restarted = new SummarizerStats();
    restarted.restore(readOwnEntries(entries));
    restarted.add(USAGE, true);
    expect(entries).toMatchObject([{ data: { callCount: 1 } }]);
  });

  test("totals of another shape do not count", () => {
    const { entries, append } = recorder();
    append(CUSTOM_TYPE_STATS, { callCount: "many" });
    const stats = new SummarizerStats();
    stats.restore(readOwnEntries(entries));
    expect(stats.current.callCount).toBe(0);
  });
});
