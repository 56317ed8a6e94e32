/**
 * A real recorded session, where one is at hand: `PI_CONDENSE_SESSION` names it, or it stands in the folder of shared
 * material beside the checkout. Recordings are not part of the repository.
 */
import { describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { messageChars } from "../bench/recording.js";
import { HOST_PATHS, HOSTS, type Host, REPOSITORY } from "./support/host-paths.js";
import {
  checkNothingGrows,
  checkPrefixStable,
  checkRecoverable,
  checkUnseenRaw,
  checkValid,
  condensedResults,
} from "./support/invariants.js";
import { agentDirWith, type RenderedRequest, SimulatedSession } from "./support/simulated-session.js";

const RECORDING = process.env.PI_CONDENSE_SESSION ?? join(REPOSITORY, "../shared/sessions/real-refactor.jsonl");

/** The conversation as the host's own session manager reads it, old formats migrated. */
async function loadMessages(host: Host): Promise<AgentMessage[]> {
  const { SessionManager } = await import(HOST_PATHS[host].library);
  const copy = join(mkdtempSync(join(tmpdir(), "pi-condense-recording-")), "session.jsonl");
  copyFileSync(RECORDING, copy);
  const entries: { type: string; message?: AgentMessage }[] = SessionManager.open(copy).getBranch();
  return entries.flatMap((entry) => (entry.type === "message" && entry.message ? [entry.message] : []));
}

function total(requests: readonly RenderedRequest[], side: "raw" | "sent"): number {
  return requests.reduce(
    (sum, request) => sum + request[side].reduce((chars, message) => chars + messageChars(message), 0),
    0,
  );
}

describe.each(HOSTS)("a recorded session on %s", (host) => {
  test(
    "keeps every invariant and sends at most 0.65 of the raw characters",
    async () => {
      if (!existsSync(RECORDING)) {
        process.stderr.write(`no recording at ${RECORDING}: nothing measured\n`);
        return;
      }
      const session = new SimulatedSession(agentDirWith({ summarizerModel: "none" }));
      const requests = await session.play(await loadMessages(host));
      const violations = requests.flatMap((request) => [
        ...checkValid(request),
        ...checkUnseenRaw(request),
        ...checkNothingGrows(request),
      ]);
      expect(violations).toEqual([]);
      expect(checkPrefixStable(requests)).toEqual([]);

      const last = requests.at(-1);
      const condensed = last ? condensedResults(last).length : 0;
      expect(last && checkRecoverable(last, session.state())).toEqual([]);
      expect(condensed).toBeGreaterThan(50);

      const raw = total(requests, "raw");
      const sent = total(requests, "sent");
      const share = sent / raw;
      process.stderr.write(
        `${host}: ${requests.length} requests, ${raw} characters raw, ${sent} sent (${share.toFixed(3)}), ${condensed} outputs condensed\n`,
      );
      expect(share).toBeLessThanOrEqual(0.65);

      const again = session.restart();
      expect(JSON.stringify((await again.request()).sent)).toBe(JSON.stringify(last?.sent));
    },
    10 * 60_000,
  );
});
