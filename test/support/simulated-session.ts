/** A session without a host: entries in memory, driven through the product's own handlers. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { AuthStorage, ModelRegistry, type SessionEntry } from "@mariozechner/pi-coding-agent";
import type { SessionView } from "../../src/engine/session-state.ts";
import type { ExternalCost, HostSnapshot } from "../../src/host/host.ts";
import { QUERY_TOOL_DESCRIPTION } from "../../src/query-tool.ts";
import { Pruner } from "../../src/runtime.ts";
import { messagesInContext } from "../../src/session/branch.ts";
import { MemorySession } from "../../src/session/memory-session.ts";
import { isAssistant, isToolResult } from "../../src/transcript/messages.ts";
import type { ContextPruneConfig } from "../../src/types.ts";
import { scratchFolder } from "./folders.ts";
import { deepFreeze } from "./generate.ts";

/** Settings under `contextPrune`, nested as in the file. */
export type Settings = {
  [Key in keyof ContextPruneConfig]?: Partial<ContextPruneConfig[Key]> | ContextPruneConfig[Key];
};

/** An agent directory whose settings file says `settings`. */
export function agentDirWith(settings: Settings): string {
  const folder = scratchFolder("agent");
  writeSettingsOf(folder, settings);
  return folder;
}

export function writeSettingsOf(agentDir: string, settings: Settings): void {
  writeFileSync(join(agentDir, "settings.json"), JSON.stringify({ contextPrune: settings }));
}

/** What the host appends besides messages. */
export type OtherEntry =
  | { type: "custom_message"; customType: string; content: unknown; display: boolean }
  | { type: "compaction"; summary: string; firstKeptEntryId: string; tokensBefore: number }
  | { type: "branch_summary"; fromId: string; summary: string }
  | { type: "model_change"; provider: string; modelId: string }
  | { type: "thinking_level_change"; thinkingLevel: string }
  | { type: "session_info"; name: string }
  | { type: "label"; targetId: string; label: string };

type NewEntry =
  | OtherEntry
  | { type: "message"; message: AgentMessage }
  | { type: "custom"; customType: string; data: unknown };

/** Each entry's line in the file, and the entry that a process reads from that line. They never change. */
const LINES = new WeakMap<SessionEntry, string>();
const READ_BACK = new WeakMap<SessionEntry, SessionEntry>();

function lineOf(entry: SessionEntry): string {
  const line = LINES.get(entry) ?? JSON.stringify(entry);
  LINES.set(entry, line);
  return line;
}

function readBack(entry: SessionEntry): SessionEntry {
  const copy = READ_BACK.get(entry) ?? deepFreeze(JSON.parse(lineOf(entry)) as SessionEntry);
  READ_BACK.set(entry, copy);
  return copy;
}

/** A session file in memory. Every entry is deep-frozen, so that a write to the host's messages throws. */
export class EntryTree extends MemorySession {
  /**
   * @param name the session's id, which its file and the ids of new entries are named after
   * @param parentSession file that the session was forked from
   */
  constructor(
    sessionDir = "",
    name = "simulated",
    private readonly parentSession?: string,
  ) {
    super({ sessionDir, name });
  }

  override getHeader = (): { parentSession?: string } | null =>
    this.parentSession === undefined ? null : { parentSession: this.parentSession };

  /** What a second process reads from the file. */
  reload(): EntryTree {
    const copy = new EntryTree(this.sessionDir, this.name, this.parentSession);
    for (const entry of this.entries) copy.add(readBack(entry));
    copy.leaf = this.leaf;
    return copy;
  }

  /** The lines of the file without its header. */
  lines(): string[] {
    return this.entries.map(lineOf);
  }

  /** This session as a process finds it whose file holds `lines`: what is no entry is left out, as the hosts do. */
  read(lines: readonly string[]): EntryTree {
    const copy = new EntryTree(this.sessionDir, this.name, this.parentSession);
    for (const line of lines) {
      try {
        copy.add(JSON.parse(line));
      } catch {
        // A damaged line.
      }
    }
    return copy;
  }

  /** A new session that holds the path to an entry, as `/fork` makes it. */
  fork(entryId: string, name: string): EntryTree {
    const file = this.getSessionFile();
    // A fork finds the sessions that it comes from by the headers of their files.
    if (file !== undefined && existsSync(this.sessionDir)) {
      const { name: id, parentSession } = this;
      writeFileSync(file, `${JSON.stringify({ type: "session", id, parentSession })}\n`);
    }
    const fork = new EntryTree(this.sessionDir, name, this.getSessionFile());
    for (const entry of this.branch(entryId)) fork.add(readBack(entry));
    return fork;
  }

  appendMessage(message: AgentMessage): string {
    return this.appendFields({ type: "message", message });
  }

  /** Any other entry of the host. `timestamp` is the time that its message will have. */
  appendOther(fields: OtherEntry, timestamp: number): string {
    return this.appendFields(fields, timestamp);
  }

  override appendCustom(customType: string, data: unknown): string {
    return this.appendFields({ type: "custom", customType, data });
  }

  /** Moves the leaf, as `/tree` does. */
  moveTo(id: string | null): void {
    this.leaf = id;
  }

  private appendFields(fields: NewEntry, timestamp = this.entries.length): string {
    const id = this.newId(this.name === "simulated" ? "e" : `${this.name}-`);
    this.append({ ...fields, id, parentId: this.leaf, timestamp: new Date(timestamp).toISOString() } as SessionEntry);
    return id;
  }

  protected override add(entry: SessionEntry): void {
    super.add(deepFreeze(entry));
  }
}

/** Made once, since it takes longer than a short session. */
export const NO_MODELS = ModelRegistry.inMemory(AuthStorage.inMemory());

/** One request: what the host would have sent, and what was sent. */
export interface RenderedRequest {
  raw: AgentMessage[];
  sent: AgentMessage[];
  /** Number of frontier entries at the time; two requests with the same one share an epoch. */
  epoch: number;
}

/** A `Pruner` on an `EntryTree`. */
export class SimulatedSession {
  readonly pruner: Pruner;
  host: HostSnapshot;
  readonly notices: string[] = [];
  /** Stands between the product and the file; what it throws, the product gets. */
  beforeAppend: (customType: string, data: unknown) => void = () => undefined;
  /** Called before a frontier is appended. */
  private onFrontier: () => void = () => undefined;
  /** What was announced of the summariser's cost. */
  readonly costs: ExternalCost[] = [];
  /** Messages that the agent holds and whose entries have not been written yet. */
  private lagging: AgentMessage[] = [];

  constructor(
    readonly agentDir: string,
    readonly tree = new EntryTree(),
    private readonly lag = false,
    models?: Partial<Pick<HostSnapshot, "model" | "models">>,
  ) {
    this.pruner = new Pruner({
      appendEntry: (customType, data) => {
        this.beforeAppend(customType, data);
        if (customType === "context-prune-frontier") this.onFrontier();
        tree.appendCustom(customType, data);
      },
      announceCost: (cost) => void this.costs.push(cost),
      hasActiveTool: () => true,
      toolDescription: () => QUERY_TOOL_DESCRIPTION,
    });
    this.host = {
      session: tree,
      models: NO_MODELS,
      model: undefined,
      ui: { notify: (message) => void this.notices.push(message) },
      agentDir,
      cwd: agentDir,
      projectTrusted: false,
      signal: undefined,
      usage: () => undefined,
      ...models,
    };
    this.pruner.startSession(this.host);
  }

  /** What the product knows of the session. */
  state(): SessionView {
    const state = this.pruner.currentState();
    if (!state) throw new Error("the session could not be read");
    return state;
  }

  /** What the agent holds. */
  messages(): AgentMessage[] {
    return [...messagesInContext(this.tree.branch()), ...this.lagging];
  }

  add(message: AgentMessage): void {
    if (this.lag) this.lagging.push(message);
    else this.tree.appendMessage(message);
  }

  /** Writes the entries that lag behind. */
  catchUp(): void {
    for (const message of this.lagging.splice(0)) this.tree.appendMessage(message);
  }

  async request(): Promise<RenderedRequest> {
    // Frozen, so that it stays what it is; the host gives its handlers a copy.
    const raw = deepFreeze(this.messages());
    const messages = structuredClone(raw);
    let epoch: number | undefined;
    this.onFrontier = () => {
      epoch ??= this.frontiers();
    };
    // A flush may commit after the render and before the line that waits for it. The engine looks for the last reply, and
    // then renders at once: what is committed after that look counts for the next request.
    const watched = new Proxy(messages, {
      get: (target, key, receiver) => {
        if (key === "findLast") epoch = undefined;
        return Reflect.get(target, key, receiver);
      },
    });
    const sent = await this.pruner.renderRequest(this.host, watched);
    epoch ??= this.frontiers();
    this.onFrontier = () => undefined;
    return { raw, sent: sent === undefined || sent === watched ? messages : sent, epoch };
  }

  private frontiers(): number {
    return this.tree
      .branch()
      .filter((entry) => entry.type === "custom" && entry.customType === "context-prune-frontier").length;
  }

  /**
   * Plays a recorded conversation: a request before each assistant message, `turn_end` behind each turn.
   * @param onRequest given every request; without it they are gathered
   * @returns every request, and the one that would come next
   */
  async play(
    messages: readonly AgentMessage[],
    onRequest?: (request: RenderedRequest) => void,
  ): Promise<RenderedRequest[]> {
    const requests: RenderedRequest[] = [];
    const take = onRequest ?? ((request) => void requests.push(request));
    for (const [i, message] of messages.entries()) {
      if (isAssistant(message)) take(await this.request());
      this.add(message);
      const next = messages[i + 1];
      const turnEnds = (isAssistant(message) || isToolResult(message)) && !(next && isToolResult(next));
      if (turnEnds && !this.lag) await this.pruner.turnEnded(this.host);
    }
    // No host sends a request that ends in a reply.
    const last = messages.at(-1);
    if (last && isAssistant(last)) this.add({ role: "user", content: "go on", timestamp: last.timestamp + 1_000 });
    take(await this.request());
    return requests;
  }

  /** The same session in a second process. */
  restart(): SimulatedSession {
    this.catchUp();
    return new SimulatedSession(this.agentDir, this.tree.reload());
  }
}
