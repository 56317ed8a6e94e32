/**
 * The extension with a clock on its handlers, as a host loads and calls it. Each call of `context` and `turn_end` becomes
 * a line of the file that `HANDLER_TIMES` names, with the time that `structuredClone` takes for the same messages.
 */
import { appendFileSync } from "node:fs";
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import product from "../index.ts";

/** One call of a handler. Milliseconds. */
export interface HandlerTime {
  event: string;
  ms: number;
  cloneMs: number;
  /** Entries that the handler has appended. */
  appended: number;
}

const TIMED = new Set(["context", "turn_end"]);

export default function timedProduct(pi: ExtensionAPI): void {
  const file = process.env.HANDLER_TIMES;
  if (!file) throw new Error("HANDLER_TIMES names no file");
  let cloneMs = 0;
  const on = (event: string, handler: (event: unknown, ctx: ExtensionContext) => unknown) => {
    const timed = async (payload: unknown, ctx: ExtensionContext) => {
      if (!TIMED.has(event)) return handler(payload, ctx);
      if (event === "context") cloneMs = timeOf(() => structuredClone(messagesOf(payload)));
      const before = ctx.sessionManager.getEntries().length;
      const start = performance.now();
      const result = await handler(payload, ctx);
      const time: HandlerTime = { event, ms: performance.now() - start, cloneMs, appended: 0 };
      time.appended = ctx.sessionManager.getEntries().length - before;
      appendFileSync(file, `${JSON.stringify(time)}\n`);
      return result;
    };
    return Reflect.apply(pi.on, pi, [event, timed]);
  };
  product(new Proxy(pi, { get: (target, key) => (key === "on" ? on : Reflect.get(target, key, target)) }));
}

function messagesOf(payload: unknown): unknown {
  return typeof payload === "object" && payload !== null && "messages" in payload ? payload.messages : [];
}

function timeOf(action: () => unknown): number {
  const start = performance.now();
  action();
  return performance.now() - start;
}
