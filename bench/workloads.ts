/** Made-up sessions of typical shapes, the same for the same seed: what defaults are chosen on besides a recording. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import type { RecordedSession } from "../src/replay/session-file.ts";

/** Shape of a session. Ranges are from and to, times in seconds. */
interface Shape {
  userTurns: number;
  /** Tool turns between a message of the user and the closing reply. */
  toolTurns: [number, number];
  /** Characters of an output. */
  outputChars: [number, number];
  /** From a closing reply to the next message of the user. */
  pause: [number, number];
  /** Share of the runs that the user breaks off. */
  interrupted?: number;
}

const SHAPES: Readonly<Record<string, Shape>> = {
  short: { userTurns: 3, toolTurns: [2, 5], outputChars: [300, 9_000], pause: [20, 120] },
  long: { userTurns: 40, toolTurns: [4, 16], outputChars: [200, 12_000], pause: [20, 150] },
  "small chains": { userTurns: 90, toolTurns: [1, 3], outputChars: [150, 3_000], pause: [15, 90] },
  "endless chain": { userTurns: 1, toolTurns: [320, 320], outputChars: [200, 12_000], pause: [20, 20] },
  "idle gaps": { userTurns: 18, toolTurns: [3, 12], outputChars: [200, 12_000], pause: [600, 3_600] },
  interrupted: { userTurns: 30, toolTurns: [4, 14], outputChars: [200, 12_000], pause: [20, 120], interrupted: 0.6 },
};

/** Names of the made-up sessions. */
export const WORKLOADS: readonly string[] = Object.keys(SHAPES);

/** The session of that name. */
export function workload(name: string, seed = 1): RecordedSession {
  const shape = SHAPES[name];
  if (!shape) throw new Error(`there is no workload ${name}`);
  const messages = new Maker(shape, random(seed)).session();
  const entries = messages.map((message, i): SessionEntry => {
    const timestamp = new Date(message.timestamp).toISOString();
    return { type: "message", id: `e${i}`, parentId: i === 0 ? null : `e${i - 1}`, timestamp, message };
  });
  return { id: name, cwd: "/repo", entries };
}

/** Mulberry32: numbers from 0 to 1. */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const WORDS =
  "export function const return await import type interface options config render parse token buffer result error path line test value index entry branch session message request cache".split(
    " ",
  );
const FILES = Array.from({ length: 40 }, (_, i) => `src/${WORDS[i % WORDS.length]}-${i}.ts`);

class Maker {
  private readonly messages: AgentMessage[] = [];
  private now = Date.UTC(2026, 0, 5, 9);
  private calls = 0;

  constructor(
    private readonly shape: Shape,
    private readonly next: () => number,
  ) {}

  session(): AgentMessage[] {
    for (let turn = 0; turn < this.shape.userTurns; turn++) this.run();
    return this.messages;
  }

  private run(): void {
    this.add({ role: "user", content: this.text(this.between([30, 400])), timestamp: this.now });
    const turns = Math.round(this.between(this.shape.toolTurns));
    for (let turn = 0; turn < turns; turn++) this.toolTurn();
    const broken = this.next() < (this.shape.interrupted ?? 0);
    this.reply([{ type: "text", text: this.text(this.between([150, 1_800])) }], broken ? "aborted" : "stop");
    this.wait(this.shape.pause);
  }

  private toolTurn(): void {
    const count = this.next() < 0.8 ? 1 : 2;
    const calls = Array.from({ length: count }, () => this.call());
    const said = this.next() < 0.5 ? [{ type: "text" as const, text: this.text(this.between([40, 300])) }] : [];
    this.reply([...said, ...calls.map(({ call }) => call)], "toolUse");
    for (const { call, output } of calls) {
      this.wait([0.2, 6]);
      const content = [{ type: "text" as const, text: output }];
      const { id, name } = call;
      const timestamp = this.now;
      this.add({ role: "toolResult", toolCallId: id, toolName: name, content, isError: false, timestamp });
    }
  }

  private call(): { call: ToolCall; output: string } {
    this.calls += 1;
    const id = `call_${this.calls}`;
    const path = FILES[Math.floor(this.next() * FILES.length)] ?? "src/index.ts";
    const kind = this.next();
    const output = () => this.lines(this.skewed(this.shape.outputChars));
    const made = (name: string, args: Record<string, string>, text: string) => ({
      call: { type: "toolCall" as const, id, name, arguments: args },
      output: text,
    });
    if (kind < 0.4) return made("read", { path }, output());
    if (kind < 0.75) return made("bash", { command: `npm test -- ${path} | tail -n 200` }, output());
    if (kind < 0.93) {
      const oldText = this.lines(this.skewed([60, 1_500]));
      const newText = this.lines(this.skewed([60, 2_000]));
      return made("edit", { path, oldText, newText }, `Edited ${path}.`);
    }
    return made("write", { path, content: this.lines(this.skewed([500, 12_000])) }, `Wrote ${path}.`);
  }

  private reply(content: AssistantMessage["content"], stopReason: AssistantMessage["stopReason"]): void {
    const tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
    const usage = { ...tokens, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
    const from = { api: "anthropic-messages" as const, provider: "made-up", model: "m1" };
    const timestamp = this.now;
    this.add({ role: "assistant", content, ...from, usage, stopReason, timestamp });
    this.wait([2, 14]);
  }

  private add(message: AgentMessage): void {
    this.messages.push(message);
    this.now += 1;
  }

  private wait([from, to]: [number, number]): void {
    this.now += Math.round(1_000 * (from + this.next() * (to - from)));
  }

  private between([from, to]: [number, number]): number {
    return from + this.next() * (to - from);
  }

  /** Most outputs are short, and a few are long. */
  private skewed([from, to]: [number, number]): number {
    return from + (to - from) * this.next() ** 2.5;
  }

  private text(chars: number): string {
    let text = "";
    while (text.length < chars) text += `${WORDS[Math.floor(this.next() * WORDS.length)]} `;
    return text.trimEnd();
  }

  private lines(chars: number): string {
    let text = "";
    for (let line = 1; text.length < chars; line++) {
      text += `${line}: ${this.text(20 + this.next() * 60)} ${Math.floor(this.next() * 1e6)}\n`;
    }
    return text.slice(0, Math.max(1, Math.round(chars)));
  }
}
