/**
 * A real recorded session, where one is at hand: `PI_CONDENSE_SESSION` names it, or it stands in the folder of shared
 * material beside the checkout. Recordings are not part of the repository.
 */
import { afterEach, describe, expect, setSystemTime, test } from "bun:test";
import { copyFileSync, existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { messageChars } from "../bench/recording.ts";
import { pruneMessages } from "../src/pruner.ts";
import { recover, sourcesOf } from "../src/recovery/originals.ts";
import { findOriginals } from "../src/session/originals.ts";
import { extractToolResultText, isAssistant, isImage } from "../src/transcript/messages.ts";
import { HOST_PATHS, HOSTS, type Host, REPOSITORY } from "./support/host-paths.ts";
import {
  checkArgumentsRecoverable,
  checkDroppedRecoverable,
  checkNothingGrows,
  checkPrefixStable,
  checkRecoverable,
  checkUnseenRaw,
  checkValid,
} from "./support/invariants.ts";
import { agentDirWith, type RenderedRequest, type Settings, SimulatedSession } from "./support/simulated-session.ts";

const RECORDING = process.env.PI_CONDENSE_SESSION ?? join(REPOSITORY, "../shared/sessions/real-refactor.jsonl");

/** The conversation as the host's own session manager reads it, old formats migrated. */
async function loadMessages(host: Host): Promise<AgentMessage[]> {
  const { SessionManager } = await import(HOST_PATHS[host].library);
  const copy = join(mkdtempSync(join(tmpdir(), "pi-condense-recording-")), "session.jsonl");
  copyFileSync(RECORDING, copy);
  const entries: { type: string; message?: AgentMessage }[] = SessionManager.open(copy).getBranch();
  return entries.flatMap((entry) => (entry.type === "message" && entry.message ? [entry.message] : []));
}

function charsOf(messages: readonly AgentMessage[]): number {
  return messages.reduce((chars, message) => chars + messageChars(message), 0);
}

/** Refs whose output or arguments do not come back to the byte, and how many were looked at. */
function recoverEverything(session: SimulatedSession): { refs: number; wrong: string[] } {
  const sources = sourcesOf(session.state());
  const refs = session.state().indexer.refs();
  const wrong = refs.filter((ref) => {
    const recovery = recover(ref, sources);
    const [output] = recovery.kind === "found" ? recovery.outputs : [];
    const [key = ""] = session.state().indexer.resolve(ref);
    const [original] = findOriginals(sources.entries, key);
    if (!output || !original) return true;
    const images = original.message.content.filter(isImage);
    const sameText = output.text === extractToolResultText(original.message);
    return !sameText || !isDeepStrictEqual(output.images, images) || !isDeepStrictEqual(output.args, original.args);
  });
  return { refs: refs.length, wrong };
}

/** How much is condensed is known of the recording in the folder alone: another one may hold little that is finished. */
const isKnown = process.env.PI_CONDENSE_SESSION === undefined;

const CLOSING = { pruneOn: "agent-message" } as const;
const NO_CHAINS = { chainCompression: { enabled: false } };

/** The ways of sending that are measured, and the share of the known recording's raw characters that each may take. */
const VARIANTS: { name: string; settings: Settings; atMost: number }[] = [
  { name: "stubs alone", settings: { ...CLOSING, ...NO_CHAINS, condenseArgs: { enabled: false } }, atMost: 0.65 },
  { name: "with condensed arguments", settings: { ...CLOSING, ...NO_CHAINS }, atMost: 0.45 },
  { name: "with compressed chains", settings: CLOSING, atMost: 0.35 },
  { name: "as shipped", settings: {}, atMost: 0.35 },
];

/** What is kept of the requests of a session; all of them together would take gigabytes. */
interface Played {
  requests: number;
  raw: number;
  sent: number;
  violations: string[];
  last: RenderedRequest | undefined;
}

/** Plays the session by its own clock, since pauses decide where costs do, and checks each request. */
async function play(session: SimulatedSession, messages: readonly AgentMessage[]): Promise<Played> {
  const times = messages.filter(isAssistant).map(({ timestamp }) => new Date(timestamp));
  const played: Played = { requests: 0, raw: 0, sent: 0, violations: [], last: undefined };
  const nextRequest = () => setSystemTime(times[played.requests] ?? times.at(-1));
  nextRequest();
  await session.play(messages, (request) => {
    const pair = played.last ? [played.last, request] : [request];
    played.violations.push(
      ...checkValid(request),
      ...checkUnseenRaw(request),
      ...checkNothingGrows(request),
      ...checkPrefixStable(pair),
    );
    played.requests += 1;
    played.raw += charsOf(request.raw);
    played.sent += charsOf(request.sent);
    played.last = request;
    nextRequest();
  });
  return played;
}

afterEach(() => void setSystemTime());

/** Each takes some ten seconds: where none was asked for, the one that users have is enough. */
const isWhole = !isKnown || process.env.CI !== undefined;
const MEASURED = isWhole ? VARIANTS : VARIANTS.slice(-1);

describe.each(HOSTS)("a recorded session on %s", (host) => {
  test.each(MEASURED)(
    "keeps every invariant and, where its size is known, sends at most $atMost of the raw characters: $name",
    async ({ name, settings, atMost }) => {
      if (!existsSync(RECORDING)) {
        process.stderr.write(`no recording at ${RECORDING}: nothing measured\n`);
        return;
      }
      const messages = await loadMessages(host);
      // What both hosts read alike is played alike.
      if (host === "new" && isDeepStrictEqual(messages, await loadMessages("old"))) {
        process.stderr.write(`${host}, ${name}: read as by old\n`);
        return;
      }
      const session = new SimulatedSession(agentDirWith({ ...settings, summarizerModel: "none" }));
      const { requests, raw, sent, violations, last } = await play(session, messages);
      expect(violations).toEqual([]);

      const state = session.state();
      expect(last && checkRecoverable(last, state)).toEqual([]);
      expect(last && checkDroppedRecoverable(last, state)).toEqual([]);
      expect(last && checkArgumentsRecoverable(last, state)).toEqual([]);
      const { refs, wrong } = recoverEverything(session);
      expect(wrong).toEqual([]);
      if (isKnown) expect(refs).toBeGreaterThan(100);

      const share = sent / raw;
      process.stderr.write(
        `${host}, ${name}: ${requests} requests, ${raw} characters raw, ${sent} sent (${share.toFixed(3)}), ${refs} calls recovered\n`,
      );
      expect(share).toBeLessThanOrEqual(isKnown ? atMost : 1);

      const plan = session.restart().state().plan(session.pruner.settings);
      expect(JSON.stringify(last && pruneMessages(last.raw, plan))).toBe(JSON.stringify(last?.sent));
    },
    10 * 60_000,
  );
});
