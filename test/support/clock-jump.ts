/**
 * Extension that sets the clock of the process forward by CLOCK_JUMP_MS before each prompt but the first. With
 * CACHE_WARMED it records behind each jump that the host has just kept the cache warm, as the newer host does.
 */
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

/** What the newer host's sessions have besides. */
interface UsageRecorder {
  appendUsage(kind: string, provider: string, model: string, usage: unknown): unknown;
}

export default function clockJump(pi: ExtensionAPI): void {
  const jumpMs = Number(process.env.CLOCK_JUMP_MS);
  if (!(jumpMs > 0)) throw new Error("CLOCK_JUMP_MS must be set");
  const now = Date.now.bind(Date);
  let jumps = -1;
  Date.now = () => now() + Math.max(0, jumps) * jumpMs;
  // Entries are dated by the constructor, which does not ask `Date.now`.
  const RealDate = Date;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args: [number?]) =>
      args.length === 0 ? new target(RealDate.now()) : Reflect.construct(target, args),
  });
  pi.on("before_agent_start", (_event, ctx) => {
    jumps += 1;
    if (jumps === 0 || process.env.CACHE_WARMED === undefined || !ctx.model) return;
    const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
    const usage = { input: 0, output: 1, cacheRead: 8_000, cacheWrite: 0, totalTokens: 8_001, cost };
    const session: object = ctx.sessionManager;
    if (!isRecorder(session)) throw new Error("this host records no usage");
    session.appendUsage("cache_warm", ctx.model.provider, ctx.model.id, usage);
  });
}

function isRecorder(session: object): session is UsageRecorder {
  return "appendUsage" in session && typeof session.appendUsage === "function";
}
