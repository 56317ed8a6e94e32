/** What the user is told, each thing once. */
import { visible } from "../text/visible.ts";
import type { HostSnapshot } from "./host.ts";

/** Notices of one session. */
export class Notices {
  private readonly told = new Set<string>();

  /** A new session begins: what was told of the last one may be told again. */
  reset(): void {
    this.told.clear();
  }

  tell(host: Pick<HostSnapshot, "ui">, message: string, type: "info" | "warning"): void {
    host.ui?.notify(visible(message), type);
  }

  once(host: Pick<HostSnapshot, "ui">, message: string, type: "info" | "warning" = "warning"): void {
    if (this.told.has(message)) return;
    this.told.add(message);
    this.tell(host, message, type);
  }
}
