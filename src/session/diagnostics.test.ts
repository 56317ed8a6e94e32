import { describe, expect, test } from "bun:test";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { CUSTOM_TYPE_DIAGNOSTIC } from "../types.ts";
import { Diagnostics } from "./diagnostics.ts";
import { readOwnEntries } from "./entries.ts";

function entryOf(data: unknown): SessionEntry {
  return { type: "custom", id: "e1", parentId: null, timestamp: "", customType: CUSTOM_TYPE_DIAGNOSTIC, data };
}

/** Records each pair of kind and detail, and gives what was appended and what each call answered. */
function tell(diagnostics: Diagnostics, ...troubles: [string, string][]) {
  const appended: unknown[] = [];
  const fresh = troubles.map(([kind, detail]) =>
    diagnostics.record({ kind, detail }, (customType, data) => appended.push({ customType, data })),
  );
  return { appended, fresh };
}

describe("Diagnostics", () => {
  test("one kind and subject is told once", () => {
    const { appended, fresh } = tell(new Diagnostics(), ["error", "a"], ["error", "a"]);
    expect(fresh).toEqual([true, false]);
    expect(appended).toEqual([{ customType: CUSTOM_TYPE_DIAGNOSTIC, data: { kind: "error", detail: "a" } }]);
  });

  test("another kind or another subject is told as well", () => {
    expect(tell(new Diagnostics(), ["error", "a"], ["error", "b"], ["invalid-entry", "a"]).fresh).toEqual([
      true,
      true,
      true,
    ]);
  });

  test("what the file says already is not told again after a restart", () => {
    const diagnostics = new Diagnostics();
    const entries = [entryOf({ kind: "error", detail: "a" }), entryOf({ kind: 1 }), entryOf(null)];
    diagnostics.restore(readOwnEntries(entries));
    expect(tell(diagnostics, ["error", "a"], ["error", "b"]).fresh).toEqual([false, true]);
  });

  test("a disk that refuses the entry disturbs nothing", () => {
    const refuse = () => {
      throw new Error("ENOSPC");
    };
    const diagnostics = new Diagnostics();
    expect(diagnostics.record({ kind: "error", detail: "x" }, refuse)).toBe(true);
    expect(diagnostics.record({ kind: "error", detail: "x" }, refuse)).toBe(false);
  });
});
