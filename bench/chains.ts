/**
 * Which `chainCompression.batchSize` pays: characters sent over all requests of a recording, and how often a request
 * changed something before its last fifth, which costs the provider's cache nearly everything. Mechanical digest.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { agentDirWith, SimulatedSession } from "../test/support/simulated-session.ts";
import { loadRecording, messageChars, recordingPath } from "./recording.ts";

const messages = loadRecording(recordingPath());
process.stdout.write("window  batchSize  characters sent  of raw  deep changes  chains\n");
await measure(3, 3, false);
for (const rollingWindow of [1, 3]) for (const batchSize of [1, 3, 5, 8]) await measure(rollingWindow, batchSize, true);

async function measure(rollingWindow: number, batchSize: number, enabled: boolean): Promise<void> {
  const chainCompression = { enabled, rollingWindow, batchSize };
  const session = new SimulatedSession(agentDirWith({ summarizerModel: "none", chainCompression }));
  let raw = 0;
  let sent = 0;
  let deepChanges = 0;
  let previous: string[] = [];
  await session.play(messages, (request) => {
    raw += total(request.raw);
    sent += total(request.sent);
    const current = request.sent.map((message) => JSON.stringify(message));
    if (changedChars(previous, current, request.sent) > 0.2 * total(request.sent)) deepChanges += 1;
    previous = current;
  });
  const cells = [
    enabled ? String(rollingWindow) : "off",
    enabled ? String(batchSize) : "",
    sent.toLocaleString("en-US"),
    (sent / raw).toFixed(3),
    String(deepChanges),
    String(session.state().indexer.chains().size),
  ];
  process.stdout.write(`${cells.map((cell, i) => cell.padStart([6, 11, 17, 8, 14, 8][i] ?? 8)).join("")}\n`);
}

/** Characters of the new request from the first message on that differs from the last request's, if any does. */
function changedChars(previous: readonly string[], current: readonly string[], sent: readonly AgentMessage[]): number {
  const first = previous.findIndex((message, i) => message !== current[i]);
  return first < 0 ? 0 : total(sent.slice(first));
}

function total(part: readonly AgentMessage[]): number {
  return part.reduce((sum, message) => sum + messageChars(message), 0);
}
