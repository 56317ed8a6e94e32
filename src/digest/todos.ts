/** Lists of things to do, by state. */
import { isRecord } from "../text/json.ts";
import { oneLine } from "../text/text.ts";
import { argText } from "./arguments.ts";
import { parseJson } from "./json.ts";
import { count, packNames, type Room, roomAfter } from "./room.ts";

interface Todo {
  state: "done" | "in progress" | "open";
  text: string;
}

/** Entries that a list has at least, and the share of its lines that are entries. */
const MIN_TODOS = 2;
const MIN_SHARE = 0.6;
const MAX_ITEM = 100;

/** `[x] write the tests`, `- [ ] 3. write the tests`, `[ ] #3: write the tests`. */
const BOX = /^\s*(?:[-*+]\s+|\d{1,4}[.)]\s+)?\[([ xX~>/✓✔-])\]\s+(.{1,400})/;
const MARK = /^\s*(?:[-*+]\s+)?([☐☑☒✔✅⬜◐⏳▶○●])\s*(\S.{0,400})/u;

/** Counts by state, then what is under way, open and done. Empty where neither text nor arguments hold such a list. */
export function todoDigest(lines: readonly string[], args: Record<string, unknown>, room: Room): string[] {
  const todos = todosOfLines(lines) ?? todosIn(parseJson(lines.join("\n")), 0) ?? todosIn(args, 0);
  if (!todos) return [];
  const states = ["in progress", "open", "done"] as const;
  const inState = (state: Todo["state"]) => todos.filter((todo) => todo.state === state).map((todo) => todo.text);
  const counts = states.flatMap((state) => (inState(state).length > 0 ? [`${inState(state).length} ${state}`] : []));
  const digest = [`${count(todos.length, "entry", "entries")}: ${counts.join(", ")}`];
  for (const state of states) {
    const left = roomAfter(room, digest);
    if (inState(state).length > 0) digest.push(...packNames(inState(state), `${state}: `, left).lines);
  }
  return digest;
}

function todosOfLines(lines: readonly string[]): Todo[] | undefined {
  const filled = lines.filter((line) => line.trim() !== "");
  const todos = filled.flatMap((line) => {
    const [, mark, text] = BOX.exec(line.slice(0, 500)) ?? MARK.exec(line.slice(0, 500)) ?? [];
    return mark === undefined || text === undefined ? [] : [{ state: stateOf(mark), text: oneLine(text, MAX_ITEM) }];
  });
  return todos.length >= MIN_TODOS && todos.length >= filled.length * MIN_SHARE ? todos : undefined;
}

function todosIn(value: unknown, depth: number): Todo[] | undefined {
  if (Array.isArray(value)) {
    const todos = value.flatMap((item) => todoOf(item) ?? []);
    return todos.length >= MIN_TODOS && todos.length === value.length ? todos : undefined;
  }
  if (!isRecord(value) || depth > 2) return undefined;
  for (const item of Object.values(value)) {
    const todos = typeof item === "object" ? todosIn(item, depth + 1) : undefined;
    if (todos) return todos;
  }
  return undefined;
}

function todoOf(item: unknown): Todo | undefined {
  if (!isRecord(item)) return undefined;
  const text = argText(item, "content", "text", "title", "subject", "step", "task", "description");
  const state = argText(item, "status", "state") ?? item.done ?? item.completed;
  if (text === undefined || (typeof state !== "string" && typeof state !== "boolean")) return undefined;
  return { state: stateOf(String(state)), text: oneLine(text, MAX_ITEM) };
}

function stateOf(word: string): Todo["state"] {
  if (/^(?:x|✓|✔|✅|☑|☒|done|complete[d]?|closed|true|finished|cancell?ed)$/i.test(word)) return "done";
  return /^(?:[~>/▶◐⏳●-]|in.?progress|active|doing|started|running)$/iu.test(word) ? "in progress" : "open";
}
