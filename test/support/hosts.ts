/** Sessions of both hosts inside the test's own process, with the extension loaded as the host loads it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type {
  AgentSession,
  ExtensionError,
  ExtensionFactory,
  ExtensionUIContext,
  SessionEntry,
  SessionManager,
} from "@mariozechner/pi-coding-agent";
import { createFolders, type PiFolders, writeSettings } from "./folders.ts";
import { HOST_PATHS, type Host, PRODUCT_ENTRY } from "./host-paths.ts";
import { productInProcess } from "./product.ts";
import {
  modelsOf,
  type Reply,
  SCRIPTED_API,
  SCRIPTED_PROVIDER,
  type Script,
  type ScriptedRequest,
  type StreamMaker,
  scriptedProvider,
  scriptResponder,
} from "./script.ts";

export { HOSTS, type Host, PRODUCT_ENTRY, supportPath } from "./host-paths.ts";
export type { Reply } from "./script.ts";

export interface HostSessionOptions {
  /** Extensions by path, loaded through the host's own loader; the product with the libraries of this host. */
  extensionPaths?: string[];
  /** Extensions as functions, after the ones by path. */
  factories?: ExtensionFactory[];
  /** Replies of the session's model; `HostSession.reply` adds more. */
  replies?: Reply[];
  /** Models, rules and replies of other models; functions may stand for any reply. */
  script?: Script<Reply>;
  /** Keys of pi's settings file, such as `contextPrune`. Without them an existing file stays as it is. */
  settings?: Record<string, unknown>;
  /** Folders to run in; they are then the caller's to remove. */
  folders?: PiFolders;
  /** Files of the working folder. Only for folders that are made here. */
  files?: Record<string, string>;
  /** Session file to go on with. */
  sessionFile?: string;
  /** Keep no session file. */
  inMemory?: boolean;
  /** Names of the tools that the model gets; the host's default tools and all of the extensions' if missing. */
  tools?: string[];
  thinkingLevel?: "off" | "low" | "medium" | "high";
  /** Takes the place of the user interface that print mode lacks. */
  ui?: ExtensionUIContext;
  /** What the newer host tells extensions it runs as; the older one tells nothing. `print` if missing. */
  mode?: "tui" | "rpc" | "json" | "print";
}

/**
 * One session in this process. Several may be open at once if they share their folders, since a host finds its own by an
 * environment variable. Every one must be closed, also when a test fails.
 */
export interface HostSession {
  readonly host: Host;
  readonly folders: PiFolders;
  /** The current session: another one after `/new`, a fork or a switch. */
  readonly session: AgentSession;
  readonly sessionManager: SessionManager;
  readonly sessionFile: string | undefined;
  /** Every request in order, those of background models included. */
  readonly requests: ScriptedRequest[];
  /** What handlers of extensions threw, and what went wrong when they were loaded. */
  readonly errors: ExtensionError[];
  /** Entries of the current branch. */
  branch(): SessionEntry[];
  /** Adds replies of the session's model. */
  reply(...replies: Reply[]): void;
  /** Prompts (or runs a command) and waits until the host and its extension handlers are done. */
  prompt(text: string): Promise<void>;
  settle(): Promise<void>;
  newSession(): Promise<void>;
  /** Forks before the user message with this entry id, or after the entry with `at`. */
  fork(entryId: string, position?: "before" | "at"): Promise<void>;
  switchSession(sessionFile: string): Promise<void>;
  /** Stops what runs, ends the session as the host does at exit, and removes the folders unless they were given. */
  close(): Promise<void>;
}

interface ReplacementResult {
  cancelled: boolean;
}

/** The runtime of a host, as far as it is the same on both. */
interface Runtime {
  readonly session: AgentSession;
  setRebindSession(rebind: () => Promise<void>): void;
  newSession(options?: object): Promise<ReplacementResult>;
  fork(entryId: string, options?: { position?: "before" | "at" }): Promise<ReplacementResult>;
  switchSession(path: string, options?: object): Promise<ReplacementResult>;
  dispose(): Promise<void>;
}

interface Services {
  diagnostics: { type: string; message: string }[];
  resourceLoader: { getExtensions(): { errors: { path: string; error: string }[] } };
}

interface RuntimeTarget {
  cwd: string;
  agentDir: string;
  sessionManager: SessionManager;
  sessionStartEvent?: unknown;
}

/** What is used of the host's library. Each host has types of its own, so neither's would do for both. */
interface Library {
  SessionManager: {
    inMemory(cwd: string): SessionManager;
    create(cwd: string, sessionDir: string): SessionManager;
    open(path: string, sessionDir: string): SessionManager;
  };
  createAgentSessionServices(options: object): Promise<Services>;
  createAgentSessionFromServices(options: object): Promise<{ session: AgentSession }>;
  createAgentSessionRuntime(
    create: (target: RuntimeTarget) => Promise<object>,
    target: RuntimeTarget,
  ): Promise<Runtime>;
}

/** Opens a session on `host`, with the scripted models and the given extensions. */
export async function openSession(host: Host, options: HostSessionOptions = {}): Promise<HostSession> {
  refuseOtherFolders(options.folders?.agentDir);
  const library = (await import(HOST_PATHS[host].library)) as Library;
  const ai = (await import(HOST_PATHS[host].ai)) as StreamMaker;
  const folders = options.folders ?? createFolders(options.files);
  const hasSettings = existsSync(join(folders.agentDir, "settings.json"));
  if (options.settings || !hasSettings) writeSettings(folders, options.settings);
  enterEnvironment(folders.agentDir);

  const own = await productInProcess(host);
  const extensionPaths = options.extensionPaths?.map((path) => (path === PRODUCT_ENTRY ? own : path)) ?? [];
  const errors: ExtensionError[] = [];
  const requests: ScriptedRequest[] = [];
  const script = options.script ?? {};
  const models = modelsOf(script);
  const replies = [...(options.replies ?? []), ...(script.replies ?? [])];
  const responder = scriptResponder(script, replies);
  const provider = scriptedProvider(ai, models, responder, (request) => requests.push(request));

  const createRuntime = async (target: RuntimeTarget) => {
    const services = await library.createAgentSessionServices({
      cwd: target.cwd,
      agentDir: target.agentDir,
      resourceLoaderOptions: {
        noSkills: true,
        noPromptTemplates: true,
        noThemes: true,
        noContextFiles: true,
        additionalExtensionPaths: extensionPaths,
        extensionFactories: [
          (pi: Parameters<ExtensionFactory>[0]) => pi.registerProvider(SCRIPTED_PROVIDER, provider),
          ...(options.factories ?? []),
        ],
      },
    });
    for (const { path, error } of services.resourceLoader.getExtensions().errors) {
      errors.push({ extensionPath: path, event: "load", error });
    }
    const created = await library.createAgentSessionFromServices({
      services,
      sessionManager: target.sessionManager,
      sessionStartEvent: target.sessionStartEvent,
      model: {
        ...models[0],
        name: models[0].id,
        api: SCRIPTED_API,
        provider: SCRIPTED_PROVIDER,
        baseUrl: provider.baseUrl,
      },
      thinkingLevel: options.thinkingLevel ?? "off",
      tools: options.tools,
    });
    return { ...created, services, diagnostics: services.diagnostics };
  };

  const startRuntime = async () => {
    const started = await library.createAgentSessionRuntime(createRuntime, {
      cwd: folders.cwd,
      agentDir: folders.agentDir,
      sessionManager: openManager(library, folders, options),
    });
    started.setRebindSession(() => bind(started, options, errors));
    await bind(started, options, errors);
    return started;
  };
  const release = () => {
    leaveEnvironment();
    if (!options.folders) folders.remove();
  };
  const runtime = await startRuntime().catch((error: unknown) => {
    release();
    throw error;
  });

  return {
    host,
    folders,
    requests,
    errors,
    get session() {
      return runtime.session;
    },
    get sessionManager() {
      return runtime.session.sessionManager;
    },
    get sessionFile() {
      return runtime.session.sessionFile;
    },
    branch: () => runtime.session.sessionManager.getBranch(),
    reply: (...more) => {
      replies.push(...more);
    },
    prompt: async (text) => {
      await runtime.session.prompt(text);
      await settle(runtime.session);
    },
    settle: () => settle(runtime.session),
    newSession: async () => {
      await runtime.newSession();
      await settle(runtime.session);
    },
    fork: async (entryId, position) => {
      await runtime.fork(entryId, { position });
      await settle(runtime.session);
    },
    switchSession: async (sessionFile) => {
      await runtime.switchSession(sessionFile);
      await settle(runtime.session);
    },
    close: async () => {
      try {
        await runtime.session.abort();
        await settle(runtime.session);
        await runtime.dispose();
      } finally {
        release();
      }
    },
  };
}

/** What a mode of the host does for a session that it shows; without it handlers never hear of `session_start`. */
async function bind(runtime: Runtime, options: HostSessionOptions, errors: ExtensionError[]): Promise<void> {
  const { session } = runtime;
  const bindings: Parameters<AgentSession["bindExtensions"]>[0] & { mode?: string } = {
    mode: options.mode,
    uiContext: options.ui,
    onError: (error) => errors.push(error),
    commandContextActions: {
      waitForIdle: () => session.agent.waitForIdle(),
      newSession: (newOptions) => runtime.newSession(newOptions),
      fork: (entryId, forkOptions) => runtime.fork(entryId, forkOptions),
      navigateTree: (targetId, treeOptions) => session.navigateTree(targetId, treeOptions),
      switchSession: (path, switchOptions) => runtime.switchSession(path, switchOptions),
      reload: () => session.reload(),
    },
  };
  await session.bindExtensions(bindings);
}

/**
 * Waits until the agent is idle and every handler of an extension has run: one host runs them in a queue of its own that
 * outlives the prompt. What extensions do in the background, such as a summary under way, is not waited for.
 */
export async function settle(session: AgentSession): Promise<void> {
  await session.agent.waitForIdle();
  for (let round = 0; round < 5; round++) {
    const queue = (session as unknown as { _agentEventQueue?: Promise<void> })._agentEventQueue;
    await queue?.catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
}

/** Waits for something that happens in the background; fails after `timeoutMs`. */
export async function until(condition: () => boolean, timeoutMs = 10_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`Still not so after ${timeoutMs} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function openManager(library: Library, folders: PiFolders, options: HostSessionOptions): SessionManager {
  if (options.inMemory) return library.SessionManager.inMemory(folders.cwd);
  if (options.sessionFile) return library.SessionManager.open(options.sessionFile, folders.sessionDir);
  return library.SessionManager.create(folders.cwd, folders.sessionDir);
}

const ENVIRONMENT = ["PI_CODING_AGENT_DIR", "PI_OFFLINE"] as const;
let openSessions = 0;
let environmentBefore: (string | undefined)[] = [];

function refuseOtherFolders(agentDir: string | undefined): void {
  if (openSessions > 0 && process.env.PI_CODING_AGENT_DIR !== agentDir) {
    throw new Error("Another session is open in other folders; was it not closed?");
  }
}

/** Points the hosts at the folder for as long as a session is open: none may ever find the user's own. */
function enterEnvironment(agentDir: string): void {
  if (openSessions === 0) environmentBefore = ENVIRONMENT.map((name) => process.env[name]);
  openSessions++;
  process.env.PI_CODING_AGENT_DIR = agentDir;
  process.env.PI_OFFLINE = "1";
}

function leaveEnvironment(): void {
  openSessions--;
  if (openSessions > 0) return;
  for (const [index, name] of ENVIRONMENT.entries()) {
    const value = environmentBefore[index];
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}
