/** Extension whose `turn_end` handler takes SLOW_HANDLER_MS milliseconds: it makes the branch lag where handlers are not awaited. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

export default function slowHandler(pi: ExtensionAPI): void {
  const ms = Number(process.env.SLOW_HANDLER_MS ?? 0);
  pi.on("turn_end", async () => {
    await sleep(ms);
  });
}
