/**
 * The working set: output and arguments that the model is still at work with. They are recent, or about a file that was
 * touched a short while ago, until newer content of that file takes their place.
 */
import { homedir } from "node:os";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import { Follower } from "../transcript/follower.ts";
import {
  contentChars,
  isAnswer,
  isAssistant,
  isClosingReply,
  isToolResult,
  occurrenceKey,
  ResultIds,
} from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { jsonSize } from "../transcript/tokens.ts";
import { type FileAccess, fileAccess } from "./file-access.ts";

/**
 * A file that has been edited is in use for the requests of the setting, any other and a result for a part of them: a
 * smaller one where prices decide on a flush, since they hold the chance that it is wanted.
 */
const OTHER_SHARE = 1 / 8;
const PRICED_SHARE = 1 / 24;
/** Runs behind the one in which a file was touched last that it can stay in use for. */
const RUNS = 1;

/** What is in use: characters of each result and its call's arguments, by occurrence key. */
export type InUse = ReadonlyMap<string, number>;

/** Characters that may be in use, whatever the model's window, and as many at most as it has tokens: a quarter of it. */
const MAX_CHARS = 200_000;

/** Characters that may be in use with a window of so many tokens. */
export function roomFor(contextWindow = MAX_CHARS): number {
  return Math.min(MAX_CHARS, contextWindow);
}

/** What is asked of the working set. */
export interface InUseQuestion {
  /** Folder that relative paths start from. */
  cwd: string;
  /** Requests after its last touch that an edited file stays in use. */
  requests: number;
  /** The price of a flush decides on it. */
  isPriced?: boolean;
  /** Characters that may be in use; the newest come first, of those the smallest. */
  maxChars: number;
  /** The result is condensed already. */
  isCondensed(key: string): boolean;
}

/**
 * Chance that a call is quoted again whose file was touched last so many requests ago: of 12 recorded sessions 38% at 1,
 * 20% at 8, 10% at 24, 7% at 64; about the same whether the file has been edited or only read. A result that names no file
 * is wanted less. Three quarters of that are reckoned with: one question brings back what several uses want.
 */
function chanceAfter(requests: number, hasFile: boolean): number {
  return (hasFile ? 0.3 : 0.18) / (1 + requests / 8);
}

/** Share of touches that go back to a file which had been touched before: of 12 recorded sessions a half. */
const USUAL_RETURNS = 0.5;
/** So many usual touches are reckoned with until a session has shown its own. */
const PRIOR_TOUCHES = 4;

/** A result, with the arguments of its call. */
interface Item {
  key: string;
  chars: number;
  /** Replies before it, and runs. */
  request: number;
  run: number;
  access: FileAccess;
  /** Newer content of its file has taken its place. */
  isReplaced: boolean;
}

/** What is known of a file. */
interface FileState {
  items: Item[];
  isEdited: boolean;
  /** Replies and runs before its last touch. */
  request: number;
  run: number;
}

/** Follows one session, whose messages the host copies for each request. */
export class WorkingSet {
  private readonly follower = new Follower((cwd: string) => new Facts(cwd), hasSameName);
  private facts: Facts | undefined;

  /** What is in use before the next request. */
  of(messages: readonly AgentMessage[], question: InUseQuestion): InUse {
    // The hosts' lists and the branch differ in other messages: the newer host puts those of the system among them.
    const told = messages.filter((message) => isAssistant(message) || isToolResult(message));
    this.facts = this.follower.follow(told, question.cwd);
    return capped(this.facts.inUse(question), question.maxChars);
  }

  /** Chance (0 to 1) that a call is quoted again, by what was asked about last. */
  chanceOf(key: string): number {
    return this.facts?.chanceOf(key) ?? 0;
  }
}

/** What a conversation so far says about files. */
class Facts {
  private readonly files = new Map<string, FileState>();
  private readonly items: Item[] = [];
  private readonly byKey = new Map<string, Item>();
  /** Files as they were touched, oldest first. */
  private readonly touches: { file: string; request: number }[] = [];
  /** Touches of files that had been touched before. */
  private returns = 0;
  /** Files on which an edit has failed in the open run. */
  private failed = new Set<string>();
  private readonly pairing = new CallPairing();
  private readonly ids = new ResultIds();
  private requests = 0;
  private run = 0;
  private readonly home = homedir();

  constructor(private readonly cwd: string) {}

  take(message: AgentMessage): void {
    if (isAssistant(message)) {
      this.pairing.open(message);
      this.ids.opens();
    }
    if (isAnswer(message)) this.requests += 1;
    if (isClosingReply(message)) {
      this.run += 1;
      this.failed = new Set();
    }
    if (!isToolResult(message)) return;
    const call = this.pairing.take(message.toolCallId);
    const key = occurrenceKey(this.ids.idOf(message), message.timestamp);
    if (call) this.add(key, call, message);
  }

  inUse({ requests, isPriced, isCondensed }: InUseQuestion): Item[] {
    const found = new Set<Item>();
    const short = requests * (isPriced ? PRICED_SHARE : OTHER_SHARE);
    for (let i = this.items.length - 1; i >= 0; i--) {
      const item = this.items[i];
      if (!item || item.run !== this.run || this.requests - item.request >= short) break;
      if (!item.isReplaced) found.add(item);
    }
    const files = new Set(this.failed);
    for (let i = this.touches.length - 1; i >= 0; i--) {
      const touch = this.touches[i];
      if (!touch || this.requests - touch.request >= requests) break;
      files.add(touch.file);
    }
    for (const file of files) {
      const state = this.files.get(file);
      if (!state) continue;
      const isRecent = this.run - state.run <= RUNS;
      const isLong = this.failed.has(file) || (isRecent && state.isEdited);
      const isShort = state.run === this.run && this.requests - state.request < short;
      for (const item of state.items) {
        if (item.isReplaced) continue;
        if (isLong || isShort || (isRecent && wasReadBefore(item, state.items, isCondensed))) found.add(item);
      }
    }
    return [...found].filter(({ key }) => !isCondensed(key));
  }

  chanceOf(key: string): number {
    const item = this.byKey.get(key);
    // Whoever wants what was replaced finds the newer content.
    if (!item || item.isReplaced) return 0;
    const touched = item.access.files.map((file) => this.files.get(file)?.request ?? 0);
    const chance = chanceAfter(this.requests - Math.max(item.request, ...touched), touched.length > 0);
    return touched.length > 0 ? chance * this.habit() : chance;
  }

  /** How often this session goes back to its files, as a multiple of what is usual. */
  private habit(): number {
    return (PRIOR_TOUCHES + this.returns / USUAL_RETURNS) / (PRIOR_TOUCHES + this.touches.length);
  }

  private add(key: string, call: ToolCall, result: ToolResultMessage): void {
    const { requests: request, run } = this;
    const access = fileAccess(call, { cwd: this.cwd, home: this.home });
    const chars = contentChars(result.content) + jsonSize(call.arguments);
    const item: Item = { key, chars, request, run, access, isReplaced: false };
    this.items.push(item);
    this.byKey.set(key, item);
    const isChange = access.kind === "edit" || access.kind === "write";
    for (const file of access.files) {
      if (this.files.has(file)) this.returns += 1;
      const state = this.files.get(file) ?? { items: [], isEdited: false, request, run };
      this.files.set(file, state);
      Object.assign(state, { request, run });
      this.touches.push({ file, request });
      if (!result.isError) replaceIn(state.items, access);
      if (isChange && result.isError) this.failed.add(file);
      else if (isChange) state.isEdited = true;
      state.items.push(item);
    }
  }
}

/** The whole content of a file takes the place of all that came before, the same part that of the same part. */
function replaceIn(items: readonly Item[], { isWhole, part }: FileAccess): void {
  if (!isWhole && part === undefined) return;
  for (const item of items) {
    if (item.access.files.length === 1 && (isWhole || item.access.part === part)) item.isReplaced = true;
  }
}

/** The model has read anew what had been condensed. */
function wasReadBefore(item: Item, items: readonly Item[], isCondensed: InUseQuestion["isCondensed"]): boolean {
  const { part } = item.access;
  if (part === undefined) return false;
  return items.some((other) => other !== item && other.access.part === part && isCondensed(other.key));
}

/** The items as far as there is room. */
function capped(items: readonly Item[], maxChars: number): InUse {
  const inUse = new Map<string, number>();
  let left = maxChars;
  for (const { key, chars } of items.toSorted((a, b) => b.request - a.request || a.chars - b.chars)) {
    if (chars > left) continue;
    left -= chars;
    inUse.set(key, chars);
  }
  return inUse;
}

function hasSameName(one: AgentMessage | undefined, other: AgentMessage | undefined): boolean {
  return nameOf(one) === nameOf(other);
}

function nameOf(message: AgentMessage | undefined): string {
  if (!message) return "";
  const { role, timestamp } = message;
  return isToolResult(message) ? occurrenceKey(message.toolCallId, timestamp) : `${role} ${timestamp}`;
}
