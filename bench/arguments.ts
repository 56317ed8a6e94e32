/**
 * What condensed arguments save on a recording: characters sent over all requests with and without them, chain
 * compression off and on, and which strings of the last request are still long. Mechanical digest.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAssistant, toolCallsOf } from "../src/transcript/messages.ts";
import { agentDirWith, SimulatedSession } from "../test/support/simulated-session.ts";
import { loadRecording, messageChars, recordingPath } from "./recording.ts";

interface Measured {
  raw: number;
  sent: number;
  /** Characters of arguments, of all that was sent and of the last request. */
  args: number;
  last: AgentMessage[];
}

const messages = loadRecording(recordingPath());
write("chains  arguments     characters sent  of raw  arguments in it     fewer\n");
for (const chains of [false, true]) {
  const whole = await measure(chains, false);
  row([chains ? "on" : "off", "whole", whole]);
  const condensed = await measure(chains, true);
  row([chains ? "on" : "off", "condensed", condensed], 1 - condensed.sent / whole.sent);
  write(`  still long in the last request: ${describeLong(condensed.last)}\n`);
}

async function measure(chains: boolean, condensed: boolean): Promise<Measured> {
  const agentDir = agentDirWith({
    summarizerModel: "none",
    chainCompression: { enabled: chains },
    condenseArgs: { enabled: condensed },
    purgeErrors: { enabled: condensed },
  });
  const measured: Measured = { raw: 0, sent: 0, args: 0, last: [] };
  await new SimulatedSession(agentDir).play(messages, ({ raw, sent }) => {
    measured.raw += total(raw, messageChars);
    measured.sent += total(sent, messageChars);
    measured.args += total(sent, argumentChars);
    measured.last = sent;
  });
  return measured;
}

function row([chains, args, { raw, sent, args: argChars }]: [string, string, Measured], fewer?: number): void {
  const share = fewer === undefined ? "" : `${(100 * fewer).toFixed(1)}%`;
  const cells = [chains, args, grouped(sent), (sent / raw).toFixed(3), grouped(argChars), share];
  const widths = [6, 11, 20, 8, 17, 10];
  write(`${cells.map((cell, i) => cell.padStart(widths[i] ?? 8)).join("")}\n`);
}

/** Characters of argument strings from 200 on, by tool and name, largest first. */
function describeLong(sent: readonly AgentMessage[]): string {
  const sums = new Map<string, number>();
  for (const call of sent.filter(isAssistant).flatMap(toolCallsOf)) {
    const visit = (value: unknown, name: string) => {
      const key = `${call.name}.${name}`;
      if (typeof value === "string" && value.length >= 200) sums.set(key, (sums.get(key) ?? 0) + value.length);
      if (typeof value !== "object" || value === null) return;
      for (const [field, item] of Object.entries(value)) visit(item, Array.isArray(value) ? name : field);
    };
    visit(call.arguments, "");
  }
  const ranked = [...sums].toSorted(([, a], [, b]) => b - a).slice(0, 6);
  return ranked.map(([key, chars]) => `${key} ${grouped(chars)}`).join(", ") || "none";
}

function argumentChars(message: AgentMessage): number {
  return isAssistant(message) ? total(toolCallsOf(message), (call) => JSON.stringify(call.arguments).length) : 0;
}

function total<T>(items: readonly T[], size: (item: T) => number): number {
  return items.reduce((sum, item) => sum + size(item), 0);
}

function grouped(value: number): string {
  return value.toLocaleString("en-US");
}

function write(text: string): void {
  process.stdout.write(text);
}
