/** All that differs between the hosts, and all that is read from their contexts. */
import type { Api, Model } from "@mariozechner/pi-ai";
import {
  type ContextUsage,
  type ExtensionAPI,
  type ExtensionContext,
  type ExtensionUIContext,
  getAgentDir,
  type ModelRegistry,
} from "@mariozechner/pi-coding-agent";
import type { SessionReader } from "../session/branch.ts";
import type { SummarizerCall } from "../summarizer.ts";

/** Everything a handler needs of its context, read before its first `await`, since a context goes stale. */
export interface HostSnapshot {
  session: SessionReader;
  models: ModelRegistry;
  model: Model<Api> | undefined;
  ui: Pick<ExtensionUIContext, "notify"> | undefined;
  /** Asks the user; missing where nobody can be asked. */
  confirm?(title: string, message: string): Promise<boolean>;
  agentDir: string;
  cwd: string;
  projectTrusted: boolean;
  /** Ends when the user ends the run; `undefined` while the agent is idle. */
  signal: AbortSignal | undefined;
  /** Size of the context as the host knows it; to be asked before the first `await`. */
  usage(): ContextUsage | undefined;
  /** The user interface where it is a terminal that can show screens, widgets and a status line. */
  terminal?: ExtensionUIContext;
  /** The prompt that stands before the messages; to be asked before the first `await`. */
  systemPrompt?(): string;
  /** What all extensions have registered; to be asked before the first `await`. */
  registrations?(): Registrations;
}

/** Names and owners of what extensions have registered. */
export interface Registrations {
  /** Every slash command and tool by name, with the file that it comes from. */
  commands: readonly Registration[];
  tools: readonly Registration[];
  /** Names of the tools that the model is given now. */
  activeTools: readonly string[];
}

export interface Registration {
  name: string;
  path: string;
}

/** Reads what extensions have registered. Throws once the session has been replaced. */
export function registrationsOf(
  pi: Pick<ExtensionAPI, "getAllTools" | "getCommands"> & Partial<Pick<ExtensionAPI, "getActiveTools">>,
): Registrations {
  const named = ({ name, sourceInfo }: { name: string; sourceInfo?: { path: string } }) => ({
    name,
    path: sourceInfo?.path ?? "",
  });
  const tools = pi.getAllTools().map(named);
  const activeTools = pi.getActiveTools?.() ?? tools.map(({ name }) => name);
  return { commands: pi.getCommands().map(named), tools, activeTools };
}

/** Functions of a context that nothing works without, by the object that has them. */
const NEEDED: Readonly<Record<"" | "sessionManager" | "modelRegistry", readonly string[]>> = {
  "": ["getContextUsage"],
  sessionManager: [
    "getCwd",
    "getEntries",
    "getEntry",
    "getHeader",
    "getLeafId",
    "getSessionDir",
    "getSessionFile",
    "getSessionId",
  ],
  modelRegistry: ["find", "getAvailable", "hasConfiguredAuth"],
};

/**
 * What a handler needs of its context, or `undefined` where the session has been replaced: the older host runs the
 * events that were still queued then, with a context that throws when it is read.
 * @param onGap told in a sentence what a host lacks that cannot be done without; `undefined` is given then too
 */
export function readContext(ctx: ExtensionContext, onGap?: (gap: string) => void): HostSnapshot | undefined {
  try {
    const missing = missingFunctions(ctx);
    if (missing.length === 0) return snapshot(ctx);
    onGap?.(
      `this host lacks ${missing.join(", ")}, so nothing is condensed. Another version of pi or of pi-condense may do.`,
    );
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (!/\bstale\b/.test(reason)) onGap?.(`the session cannot be read, so nothing is condensed: ${reason}`);
  }
  return undefined;
}

function missingFunctions(ctx: ExtensionContext): string[] {
  const owners: Record<string, unknown> = {
    "": ctx,
    sessionManager: ctx.sessionManager,
    modelRegistry: ctx.modelRegistry,
  };
  return Object.entries(NEEDED).flatMap(([name, functions]) => {
    const owner: unknown = owners[name];
    const has = (key: string) =>
      typeof owner === "object" && owner !== null && typeof (owner as Record<string, unknown>)[key] === "function";
    return functions.filter((key) => !has(key)).map((key) => ["ctx", name, key].filter(Boolean).join("."));
  });
}

function snapshot(ctx: ExtensionContext): HostSnapshot {
  return {
    session: ctx.sessionManager,
    models: ctx.modelRegistry,
    model: ctx.model,
    ui: ctx.hasUI ? ctx.ui : undefined,
    confirm: ctx.hasUI ? (title, message) => ctx.ui.confirm(title, message) : undefined,
    terminal: hasTerminal(ctx) ? ctx.ui : undefined,
    systemPrompt: () => ctx.getSystemPrompt(),
    agentDir: getAgentDir(),
    cwd: ctx.cwd,
    projectTrusted: isProjectTrusted(ctx),
    signal: ctx.signal,
    usage: () => ctx.getContextUsage(),
  };
}

/**
 * Whether the host draws in a terminal. Only the newer host names its mode; on the older one every mode but the terminal
 * gives no themes.
 */
function hasTerminal(ctx: ExtensionContext): boolean {
  if ("mode" in ctx && ctx.mode !== undefined) return ctx.mode === "tui";
  return ctx.hasUI && typeof ctx.ui.getAllThemes === "function" && ctx.ui.getAllThemes().length > 0;
}

/** What the summariser has cost in this session so far. Tokens as reported, cost in USD. */
export interface ExternalCost {
  totalCost: number;
  inputTokens: number;
  outputTokens: number;
}

/** What the extension gives to the host. */
export interface HostOutlet {
  /** Appends a custom entry to the session. Throws once the session has been replaced. */
  appendEntry(customType: string, data: unknown): void;
  /** Tells other extensions what was spent beside the session's own requests, all told. */
  announceCost(cost: ExternalCost): void;
  /** Description of the tool that has this name, be it another extension's; `undefined` where there is none. */
  toolDescription(name: string): string | undefined;
  /** The model is given the tool of this name now: a plan mode, say, may have taken it away. */
  hasActiveTool(name: string): boolean;
}

export function outletOf(pi: ExtensionAPI): HostOutlet {
  return {
    appendEntry: (customType, data) => pi.appendEntry(customType, data),
    announceCost: (cost) => pi.events.emit("cost:external", { source: "pi-condense", ...cost }),
    toolDescription: (name) => pi.getAllTools().find((tool) => tool.name === name)?.description,
    hasActiveTool: (name) => pi.getActiveTools().includes(name),
  };
}

/** Adds a summariser call to the host's own totals, where it keeps usage of extensions. */
export function recordUsage(session: object, { model, reported }: Pick<SummarizerCall, "model" | "reported">): void {
  if (!("appendUsage" in session) || typeof session.appendUsage !== "function") return;
  // A call that never got an answer has nothing to add.
  if (reported.totalTokens === 0 && reported.cost.total === 0) return;
  const slash = model.indexOf("/");
  session.appendUsage("pi-condense", model.slice(0, slash), model.slice(slash + 1), reported);
}

/** Only the newer host asks the user whether a project may bring its own settings. */
function isProjectTrusted(ctx: object): boolean {
  return !("isProjectTrusted" in ctx) || typeof ctx.isProjectTrusted !== "function" || ctx.isProjectTrusted() !== false;
}
