/**
 * Extension that sets the clock of the process forward before each prompt but the first: by the first of CLOCK_JUMPS_MS
 * (numbers with commas between them) before the second prompt, and so on. With CACHE_WARMED it records behind each jump that the host has just kept the cache warm, as the newer host does.
 */
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

/** What the newer host's sessions have besides. */
interface UsageRecorder {
  appendUsage(kind: string, provider: string, model: string, usage: unknown): unknown;
}

export default function clockJump(pi: ExtensionAPI): void {
  const jumps = (process.env.CLOCK_JUMPS_MS ?? "").split(",").map(Number);
  const now = Date.now.bind(Date);
  let prompts = 0;
  let aheadMs = 0;
  Date.now = () => now() + aheadMs;
  // Entries are dated by the constructor, which does not ask `Date.now`.
  const RealDate = Date;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args: [number?]) =>
      args.length === 0 ? new target(RealDate.now()) : Reflect.construct(target, args),
  });
  pi.on("before_agent_start", (_event, ctx) => {
    prompts += 1;
    if (prompts === 1) return;
    aheadMs += jumps[prompts - 2] ?? 0;
    if (process.env.CACHE_WARMED === undefined || !ctx.model) return;
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
