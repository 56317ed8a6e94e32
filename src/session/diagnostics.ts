/** Troubles that are told once: in a notice while the session runs, and in its file for whoever looks later. */
import { CUSTOM_TYPE_DIAGNOSTIC, type DiagnosticEntryData } from "../types.ts";
import type { OwnEntry } from "./entries.ts";

/** Remembers what has been told. */
export class Diagnostics {
  private readonly told = new Set<string>();

  /** Takes over what the own entries of the session's file already say. */
  restore(entries: readonly OwnEntry[]): void {
    for (const own of entries) if (own.kind === "diagnostic") this.told.add(keyOf(own.data));
  }

  /**
   * Appends the entry and gives true where this kind and subject has not been told before. Never throws: where the disk
   * refuses the entry, what it tells of goes on all the same.
   */
  record(data: DiagnosticEntryData, append: (customType: string, data: unknown) => void): boolean {
    if (this.told.has(keyOf(data))) return false;
    this.told.add(keyOf(data));
    try {
      append(CUSTOM_TYPE_DIAGNOSTIC, data);
    } catch {
      // A notice was all that could be given.
    }
    return true;
  }
}

function keyOf({ kind, detail }: DiagnosticEntryData): string {
  return `${kind}\n${detail}`;
}
