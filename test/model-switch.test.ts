/** A switch to a model whose window is far smaller than what the context holds, on both hosts. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ExtensionContext } from "@mariozechner/pi-coding-agent";
import { estimateTextTokens, estimateTokens } from "../src/transcript/tokens.ts";
import { createFolders, type PiFolders } from "./support/folders.ts";
import { HOSTS, type HostSession, openSession, PRODUCT_ENTRY, type Reply } from "./support/hosts.ts";
import { type LongSessionOptions, longConversation, writeSession } from "./support/long-session.ts";
import { recordingUi } from "./support/recording-ui.ts";
import { SCRIPTED_PROVIDER, type ScriptedRequest } from "./support/script.ts";
import type { Settings } from "./support/simulated-session.ts";
import { checkTranscript } from "./support/transcript.ts";

setDefaultTimeout(120_000);

const SMALL_WINDOW = 40_000;
/** About 130,000 tokens. */
const LONG = { chains: 20, readChars: 14_000, writeChars: 10_000, reportedTokens: 130_000 };

const tokensOf = (request: ScriptedRequest | undefined) =>
  request ? estimateTokens(request.messages) + estimateTextTokens(request.systemPrompt) : Number.NaN;

describe.each(HOSTS)("a switch of models on the %s host", (host) => {
  const open: HostSession[] = [];
  const made: PiFolders[] = [];
  let notices: string[] = [];
  /** Where extensions find models; a session itself has them at another place on each host. */
  let models: ExtensionContext["modelRegistry"] | undefined;
  afterEach(async () => {
    for (const session of open.splice(0)) await session.close();
    for (const folders of made.splice(0)) folders.remove();
    notices = [];
  });

  async function start(
    contextPrune: Settings,
    replies: Reply[],
    repliesOfSmall: Reply[],
    options: LongSessionOptions = LONG,
  ): Promise<HostSession> {
    const folders = createFolders();
    made.push(folders);
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      folders,
      sessionFile: await writeSession(host, folders, longConversation(options)),
      settings: { contextPrune: { pruneOn: "on-demand", ...contextPrune } },
      ui: recordingUi(notices),
      factories: [
        (pi) =>
          pi.on("session_start", (_event, ctx) => {
            models = ctx.modelRegistry;
          }),
      ],
      script: {
        models: [
          { id: "main", contextWindow: 200_000 },
          { id: "small", contextWindow: SMALL_WINDOW, maxTokens: 4_000 },
        ],
        replies,
        repliesOf: { small: repliesOfSmall },
      },
    });
    open.push(session);
    return session;
  }

  async function switchTo(session: HostSession, id: string): Promise<void> {
    const model = models?.find(SCRIPTED_PROVIDER, id);
    if (!model) throw new Error(`no model ${id}`);
    await session.session.setModel(model);
    await session.settle();
  }

  const large = (text: string): Reply => ({ text, usage: { input: 130_000 } });

  test.each(["none", "scripted/main"])(
    "the next request fits, without a call of a summariser (%s)",
    async (summarizerModel) => {
      const session = await start(
        { summarizerModel },
        [large("Still large.")],
        [{ text: "Fits." }, { text: "Goes on." }],
      );
      await session.prompt("go on");
      const before = session.requests.at(-1);
      expect(tokensOf(before)).toBeGreaterThan(3 * SMALL_WINDOW);

      await switchTo(session, "small");
      await session.prompt("and now?");
      const after = session.requests.at(-1);
      expect(session.requests).toHaveLength(2);
      expect(after?.model).toBe("small");
      expect(tokensOf(after) + 4_000).toBeLessThan(SMALL_WINDOW);
      expect(checkTranscript(after?.messages ?? [])).toEqual([]);
      expect(notices).toEqual([]);

      await session.prompt("go on");
      const next = session.requests.at(-1);
      expect(JSON.stringify(next?.messages.slice(0, after?.messages.length))).toBe(JSON.stringify(after?.messages));
      expect(session.errors).toEqual([]);
    },
  );

  test("so it does where all of it is one endless turn", async () => {
    const endless = { ...LONG, chains: 1, turnsPerChain: LONG.chains };
    const session = await start({ summarizerModel: "none" }, [], [{ text: "Fits." }], endless);
    await switchTo(session, "small");
    await session.prompt("and now?");
    const [request] = session.requests;
    expect(tokensOf(request) + 4_000).toBeLessThan(SMALL_WINDOW);
    expect(checkTranscript(request?.messages ?? [])).toEqual([]);
    expect(session.errors).toEqual([]);
  });

  test("a switch to a larger window, or with room enough, changes nothing", async () => {
    const session = await start({ summarizerModel: "none" }, [large("One."), large("Two.")], []);
    await session.prompt("go on");
    await switchTo(session, "main");
    await session.prompt("and now?");
    const [first, second] = session.requests;
    expect(tokensOf(second)).toBeGreaterThan(3 * SMALL_WINDOW);
    expect(JSON.stringify(second?.messages.slice(0, first?.messages.length))).toBe(JSON.stringify(first?.messages));
  });

  test("while it is switched off the request goes out as it is", async () => {
    const session = await start({ enabled: false }, [large("One.")], [{ text: "Too much." }]);
    await session.prompt("go on");
    await switchTo(session, "small");
    await session.prompt("and now?");
    expect(tokensOf(session.requests.at(-1))).toBeGreaterThan(3 * SMALL_WINDOW);
  });
});
