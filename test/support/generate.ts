/** Arbitrary sessions for property tests: what real ones look like, and the rare shapes that break pruners. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type {
  AssistantMessage,
  ImageContent,
  TextContent,
  ToolCall,
  ToolResultMessage,
  Usage,
} from "@mariozechner/pi-ai";
// Brings the host's own roles (custom, bashExecution, summaries) into `AgentMessage`.
import type {} from "@mariozechner/pi-coding-agent";
import fc from "fast-check";

/** Leaves shapes out of the sessions; everything is in by default. */
export interface SessionOptions {
  /** User prompts of a session at most. */
  maxPrompts?: number;
  /** Characters of one tool output at most. */
  maxOutputChars?: number;
  /** Ids that an earlier turn has used, and empty ones. */
  reusedIds?: boolean;
  /** Errored and aborted replies, and calls whose results never came. */
  brokenTurns?: boolean;
  /** Notices of other extensions, between turns and, rarely, between a call and its result. */
  notices?: boolean;
  images?: boolean;
}

type ResolvedOptions = Required<SessionOptions>;
type Arguments = ToolCall["arguments"];
type ReplyContent = AssistantMessage["content"];

interface OutputPlan {
  content: (TextContent | ImageContent)[];
  isError: boolean;
}

interface CallPlan {
  name: string;
  args: Arguments;
  output: OutputPlan;
  id: { kind: "fresh" | "reused" | "empty"; pick: number };
  extra: Record<string, unknown>;
}

type ToolPlan = Pick<CallPlan, "name" | "args" | "output">;

interface ThinkingPlan {
  thinking: string;
  thinkingSignature?: string;
  redacted?: boolean;
}

interface TurnPlan {
  thinking?: ThinkingPlan;
  text?: string;
  calls: CallPlan[];
  fate: "answered" | "length" | "unanswered" | "error" | "aborted";
  /** Results that came before a turn broke off. */
  arrived: number;
  /** Milliseconds from each result to the next. */
  gap: number;
  /** Where a notice stands between the calls and their last result; beyond the last one means nowhere. */
  noticeAt: number;
  after?: InterludePlan;
}

type InterludePlan =
  | { kind: "steer"; text: string }
  | { kind: "notice"; text: string; asBlocks: boolean }
  | { kind: "bash"; command: string; output: string; hidden: boolean };

interface ReplyPlan {
  fate: "stop" | "length" | "error" | "aborted" | "none";
  text: string;
  thinking?: ThinkingPlan;
  textSignature?: string;
}

interface PromptPlan {
  text: string;
  asString: boolean;
  image: boolean;
  model: string;
  turns: TurnPlan[];
  reply: ReplyPlan;
  after: InterludePlan[];
}

interface SessionPlan {
  compacted: boolean;
  prompts: PromptPlan[];
}

const DEFAULTS: ResolvedOptions = {
  maxPrompts: 5,
  maxOutputChars: 10_000,
  reusedIds: true,
  brokenTurns: true,
  notices: true,
  images: true,
};

const TINY_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const SENTENCES = [
  "go on",
  "Read the parser and tell me why the test fails.",
  "Refactor `src/app.ts`, please; keep the exports.",
  "修复登录测试,然后提交。",
  "Nein — erst die Tests. 🧪 Dann e\u0301in Commit.",
  'Show me what `<condensed-args chars="5" ref="t1"/>` means.',
  "First line\n\nsecond line\n- a list\n- of things",
];

/** Lines that outputs are made of: code, logs, other scripts, and what looks like the extension's own marks. */
const LINES = [
  "export function createApp(options: AppOptions): App {",
  "  const port = Number(process.env.PORT ?? 3000);",
  "src/parser/lexer.ts:118:  throw new SyntaxError(`unexpected '}'`);",
  "ok 14 - parses nested lists (3ms)",
  "Error: ENOENT: no such file or directory, open '/repo/config/local.json'",
  "2026-03-01T10:22:31.004Z WARN  retrying request id=9f3c attempt=2",
  "变更:更新了依赖项并修复了构建脚本。",
  "naïve cafe\u0301 👩‍👩‍👧‍👦 🇩🇪 ﷽ \u202ertl\u202c",
  "[t12 condensed: read src/app.ts, 14,203 chars, ok. Full output: context_tree_query t12]",
  "</compressed-chain> <protect>keep me</protect>",
  "",
  "\tat Object.<anonymous> (/repo/test/app.test.ts:12:7)",
];

const FILES = ["src/app.ts", "src/parser/lexer.ts", "README.md", ".pi/skills/deploy/SKILL.md", "AGENTS.md"];

/** Freezes a value and all that it holds, so that whoever changes it is found out. Gives the value back. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const field of Object.values(value)) deepFreeze(field);
  return value;
}

/**
 * Sessions as the host's `context` event gives them, deep-frozen: prompts with tool turns and replies, and among them
 * what goes wrong in real life. Times are strictly plausible; only parallel results may share a millisecond.
 */
export function sessionArbitrary(options: SessionOptions = {}): fc.Arbitrary<AgentMessage[]> {
  return sessionPlan({ ...DEFAULTS, ...options }).map((plan) => deepFreeze(new Recorder().record(plan)));
}

/**
 * The contexts that the session's requests were made from, in order: what stood before each assistant message, and last
 * the whole session, from which the next request is made.
 */
export function replaySteps(messages: readonly AgentMessage[]): AgentMessage[][] {
  const steps: AgentMessage[][] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === "assistant") steps.push(messages.slice(0, index));
  }
  steps.push(messages.slice());
  return steps;
}

function sessionPlan(options: ResolvedOptions): fc.Arbitrary<SessionPlan> {
  return fc.record({
    compacted: rarely(20),
    prompts: fc.array(promptPlan(options), { minLength: 1, maxLength: options.maxPrompts, size: "max" }),
  });
}

function promptPlan(options: ResolvedOptions): fc.Arbitrary<PromptPlan> {
  return fc.record({
    text: speech(),
    asString: rarely(6),
    image: options.images ? rarely(20) : fc.constant(false),
    model: weighted<string>([9, "big-1"], [1, "other-2"]),
    turns: fc.array(turnPlan(options), { maxLength: 4 }),
    reply: replyPlan(options),
    after: fc.array(interludePlan(options, false), { maxLength: 2 }).chain((list) => {
      // Most prompts follow each other directly.
      return weighted<InterludePlan[]>([3, []], [1, list]);
    }),
  });
}

function turnPlan(options: ResolvedOptions): fc.Arbitrary<TurnPlan> {
  const broken: [number, TurnPlan["fate"]][] = options.brokenTurns
    ? [
        [1, "unanswered"],
        [1, "error"],
        [1, "aborted"],
      ]
    : [];
  return fc.record(
    {
      thinking: thinkingPlan(),
      text: speech(),
      calls: fc.array(callPlan(options), { minLength: 1, maxLength: 4 }),
      fate: weighted<TurnPlan["fate"]>([24, "answered"], [1, "length"], ...broken),
      arrived: weighted([4, 0], [1, 1], [1, 2]),
      gap: weighted([3, 0], [1, 1], [1, 250]),
      noticeAt: options.notices ? weighted([30, 99], [1, 0], [1, 1]) : fc.constant(99),
      after: weightedOf<InterludePlan | undefined>([6, fc.constant(undefined)], [1, interludePlan(options, true)]),
    },
    { requiredKeys: ["calls", "fate", "arrived", "gap", "noticeAt"] },
  );
}

function replyPlan(options: ResolvedOptions): fc.Arbitrary<ReplyPlan> {
  const broken: [number, ReplyPlan["fate"]][] = options.brokenTurns
    ? [
        [1, "error"],
        [1, "aborted"],
      ]
    : [];
  return fc.record(
    {
      fate: weighted<ReplyPlan["fate"]>([12, "stop"], [1, "length"], [2, "none"], ...broken),
      text: speech(),
      thinking: thinkingPlan(),
      textSignature: fc.constantFrom("msg_01", '{"v":1,"id":"msg_02"}'),
    },
    { requiredKeys: ["fate", "text"] },
  );
}

function thinkingPlan(): fc.Arbitrary<ThinkingPlan> {
  return fc.constantFrom<ThinkingPlan>(
    { thinking: "The user wants the lexer fixed. First I look at it.", thinkingSignature: "EpUBCkYIBBgCKkA=" },
    { thinking: "让我先看看测试。", thinkingSignature: "c2ln" },
    { thinking: "Hm, no signature on this one." },
    { thinking: "", thinkingSignature: '{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA"}' },
    { thinking: "[redacted]", thinkingSignature: "EncryptedPayload==", redacted: true },
  );
}

function interludePlan(options: ResolvedOptions, duringRun: boolean): fc.Arbitrary<InterludePlan> {
  const steer = fc.record({ kind: fc.constant("steer" as const), text: speech() });
  const notice = fc.record({ kind: fc.constant("notice" as const), text: speech(), asBlocks: fc.boolean() });
  const bash = fc.record({
    kind: fc.constant("bash" as const),
    command: fc.constantFrom("git status", "npm test -- --watch=false", "ls -la"),
    output: listing(600),
    hidden: rarely(4),
  });
  const choices: [number, fc.Arbitrary<InterludePlan>][] = duringRun ? [[2, steer]] : [[2, bash]];
  if (options.notices) choices.push([1, notice]);
  return weightedOf(...choices);
}

function callPlan(options: ResolvedOptions): fc.Arbitrary<CallPlan> {
  return fc
    .record({
      tool: toolPlan(options),
      id: fc.record({
        kind: options.reusedIds
          ? weighted<CallPlan["id"]["kind"]>([30, "fresh"], [2, "reused"], [1, "empty"])
          : fc.constant("fresh" as const),
        pick: fc.nat(50),
      }),
      extra: weighted<Record<string, unknown>>(
        [5, {}],
        [1, { thoughtSignature: "dGhvdWdodA==" }],
        [1, { vendor: { index: 0, cached: null }, thoughtSignature: "c2ln" }],
      ),
    })
    .map(({ tool, id, extra }) => ({ ...tool, id, extra }));
}

function toolPlan(options: ResolvedOptions): fc.Arbitrary<ToolPlan> {
  const { maxOutputChars } = options;
  // The same file gives the same text most of the time, as it does to an agent that reads it again.
  const read = fc
    .record({
      path: fc.constantFrom(...FILES),
      window: weighted<Arguments>([4, {}], [1, { offset: 100, limit: 200 }]),
      changed: weightedOf<OutputPlan | undefined>([4, fc.constant(undefined)], [1, output(options)]),
    })
    .map(({ path, window, changed }) => ({
      name: "read",
      args: { path, ...window },
      output: changed ?? ok(fileText(path, maxOutputChars)),
    }));
  const bash = fc
    .record({
      command: fc.constantFrom("npm test", "rg -n createApp src", "git diff", 'echo "第一行"'),
      output: output(options),
    })
    .map(({ command, output }) => ({ name: "bash", args: { command, timeout: 120 }, output }));
  const write = fc
    .record({ path: fc.constantFrom(...FILES), content: listing(maxOutputChars) })
    .map(({ path, content }) => ({
      name: "write",
      args: { path, content },
      output: ok(`Successfully wrote ${content.length} bytes to ${path}`),
    }));
  const edit = fc
    .record({ path: fc.constantFrom(...FILES), oldText: listing(900), newText: listing(900), fails: rarely(3) })
    .map(({ path, oldText, newText, fails }) => ({
      name: "edit",
      args: { path, edits: [{ oldText, newText }] },
      output: fails ? failed(`Could not find the exact text in ${path}.`) : ok(`Edited ${path}`),
    }));
  const foreign = fc.record({ query: speech(), body: listing(1200), output: output(options) }).map((plan) => ({
    name: "tickets_search",
    args: {
      query: plan.query,
      filter: { open: true, tags: ["a", "b"], owner: null, depth: 2 },
      rows: [[1, plan.body], []],
    },
    output: plan.output,
  }));
  return weightedOf<ToolPlan>([5, read], [4, bash], [2, write], [2, edit], [1, foreign]);
}

function output(options: ResolvedOptions): fc.Arbitrary<OutputPlan> {
  const texts = weightedOf<string>(
    [6, listing(options.maxOutputChars)],
    [2, fc.constantFrom(fileText("src/app.ts", options.maxOutputChars), "ok", "(no output)")],
    [1, fc.string({ unit: "grapheme", maxLength: 40 })],
    [1, fc.constantFrom("", " \n")],
  );
  const image: ImageContent = { type: "image", data: TINY_PNG, mimeType: "image/png" };
  const plain = texts.map(ok);
  const choices: [number, fc.Arbitrary<OutputPlan>][] = [
    [12, plain],
    [2, listing(2000).map((text) => failed(`${text}\n\nCommand exited with code 1`))],
    [
      1,
      fc.tuple(texts, texts).map((pair) => ({ content: pair.map((text) => ({ type: "text", text })), isError: false })),
    ],
    [1, texts.map((text) => ({ content: [Object.assign(textBlock(text), { annotations: [1] })], isError: false }))],
    [1, fc.constant({ content: [], isError: false })],
  ];
  if (options.images) {
    choices.push([1, fc.constant({ content: [image], isError: false })]);
    choices.push([1, texts.map((text) => ({ content: [textBlock(text), image, image], isError: false }))]);
  }
  return weightedOf(...choices);
}

/** Numbered lines up to `maxChars`: cheap to make, cheap to shrink, and different wherever the seed is. */
function listing(maxChars: number): fc.Arbitrary<string> {
  return fc
    .record({ seed: fc.nat(997), chars: fc.oneof(fc.nat(400), fc.nat(maxChars)) })
    .map(({ seed, chars }) => numberedLines(seed, chars));
}

function numberedLines(seed: number, maxChars: number): string {
  const lines: string[] = [];
  for (let index = 0, length = 0; ; index++) {
    const line = `${index + 1}: ${LINES[(seed + index * 7) % LINES.length]} #${seed}`;
    length += line.length + 1;
    if (length > maxChars) return lines.join("\n");
    lines.push(line);
  }
}

function fileText(path: string, maxOutputChars: number): string {
  return numberedLines(FILES.indexOf(path), Math.min(maxOutputChars, 1500 + 1200 * FILES.indexOf(path)));
}

/** Something that a person or a model says; never blank, since hosts send no blank prompts. */
function speech(): fc.Arbitrary<string> {
  return weightedOf(
    [5, fc.constantFrom(...SENTENCES)],
    [1, fc.string({ unit: "grapheme", maxLength: 30 }).map((text) => `Note: ${text}`)],
  );
}

function ok(text: string): OutputPlan {
  return { content: [textBlock(text)], isError: false };
}

function failed(text: string): OutputPlan {
  return { content: [textBlock(text)], isError: true };
}

function textBlock(text: string): TextContent {
  return { type: "text", text };
}

/** True once in `times`, and shrinks to false. */
function rarely(times: number): fc.Arbitrary<boolean> {
  return weighted([times - 1, false], [1, true]);
}

function weighted<T>(...choices: [number, T][]): fc.Arbitrary<T> {
  return weightedOf(...choices.map(([weight, value]): [number, fc.Arbitrary<T>] => [weight, fc.constant(value)]));
}

function weightedOf<T>(...choices: [number, fc.Arbitrary<T>][]): fc.Arbitrary<T> {
  return fc.oneof({ withCrossShrink: true }, ...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })));
}

/** Turns a plan into messages, with a clock and a counter for ids. */
class Recorder {
  readonly #messages: AgentMessage[] = [];
  readonly #usedIds: string[] = [];
  #now = 1_772_000_000_000;
  #calls = 0;
  #chars = 0;
  #model = "";

  record(plan: SessionPlan): AgentMessage[] {
    if (plan.compacted) {
      this.#push({
        role: "compactionSummary",
        summary: "## Goal\nFix the lexer.",
        tokensBefore: 90_000,
        timestamp: this.#tick(1),
      });
    }
    for (const prompt of plan.prompts) this.#prompt(prompt);
    return this.#messages;
  }

  #prompt(plan: PromptPlan): void {
    this.#model = plan.model;
    const blocks: (TextContent | ImageContent)[] = [textBlock(plan.text)];
    if (plan.image) blocks.push({ type: "image", data: TINY_PNG, mimeType: "image/png" });
    this.#push({ role: "user", content: plan.asString ? plan.text : blocks, timestamp: this.#tick(20_000) });
    for (const turn of plan.turns) this.#turn(turn);
    this.#reply(plan.reply);
    for (const interlude of plan.after) this.#interlude(interlude);
  }

  #turn(plan: TurnPlan): void {
    const content: ReplyContent = [];
    if (plan.thinking) content.push({ type: "thinking", ...plan.thinking });
    if (plan.text !== undefined) content.push(textBlock(plan.text));
    const calls: { plan: CallPlan; id: string }[] = [];
    for (const call of plan.calls) {
      const id = this.#id(call.id, new Set(calls.map((other) => other.id)));
      calls.push({ plan: call, id });
      content.push({ type: "toolCall", id, name: call.name, arguments: structuredClone(call.args), ...call.extra });
    }
    this.#assistant(content, plan.fate === "answered" || plan.fate === "unanswered" ? "toolUse" : plan.fate);
    const arrived = plan.fate === "answered" || plan.fate === "length" ? calls.length : plan.arrived;
    this.#tick(30);
    for (const [index, call] of calls.slice(0, arrived).entries()) {
      if (index === plan.noticeAt) {
        this.#interlude({ kind: "notice", text: "Background job finished.", asBlocks: false });
        this.#tick(1);
      }
      this.#push(this.#result(call.id, call.plan));
      this.#tick(plan.gap);
    }
    for (const { id } of calls) this.#usedIds.push(id);
    if (plan.after) this.#interlude(plan.after);
  }

  #result(toolCallId: string, { name, output }: CallPlan): ToolResultMessage {
    return {
      role: "toolResult",
      toolCallId,
      toolName: name,
      content: structuredClone(output.content),
      isError: output.isError,
      timestamp: this.#now,
    };
  }

  #reply(plan: ReplyPlan): void {
    if (plan.fate === "none") return;
    const content: ReplyContent = [];
    if (plan.thinking) content.push({ type: "thinking", ...plan.thinking });
    const signature = plan.textSignature === undefined ? {} : { textSignature: plan.textSignature };
    content.push({ ...textBlock(plan.text), ...signature });
    this.#assistant(plan.fate === "error" ? [] : content, plan.fate);
  }

  #assistant(content: ReplyContent, stopReason: AssistantMessage["stopReason"]): void {
    const timestamp = this.#tick(1500);
    const usage = this.#usage();
    const failure = stopReason === "error" ? { errorMessage: "overloaded_error" } : {};
    const source = { api: "anthropic-messages", provider: "anthropic", model: this.#model };
    this.#push({ role: "assistant", content, ...source, usage, stopReason, ...failure, timestamp });
    this.#tick(2000);
  }

  #interlude(plan: InterludePlan): void {
    const timestamp = this.#tick(700);
    if (plan.kind === "steer") {
      this.#push({ role: "user", content: [textBlock(plan.text)], timestamp });
    } else if (plan.kind === "notice") {
      const content = plan.asBlocks ? [textBlock(plan.text)] : plan.text;
      this.#push({ role: "custom", customType: "other-extension", content, display: true, timestamp });
    } else {
      this.#push({
        role: "bashExecution",
        command: plan.command,
        output: plan.output,
        exitCode: 0,
        cancelled: false,
        truncated: false,
        timestamp,
        ...(plan.hidden ? { excludeFromContext: true } : {}),
      });
    }
  }

  /** Ids are reused from earlier turns only; none but the empty one stands twice in one turn. */
  #id({ kind, pick }: CallPlan["id"], inThisTurn: ReadonlySet<string>): string {
    if (kind === "empty") return "";
    const earlier = kind === "reused" ? this.#usedIds[pick % Math.max(1, this.#usedIds.length)] : undefined;
    return earlier !== undefined && !inThisTurn.has(earlier)
      ? earlier
      : `toolu_${String(++this.#calls).padStart(4, "0")}`;
  }

  #usage(): Usage {
    const input = Math.ceil(this.#chars / 4);
    return {
      input,
      output: 50,
      cacheRead: 0,
      cacheWrite: 0,
      totalTokens: input + 50,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
    };
  }

  #tick(ms: number): number {
    this.#now += ms;
    return this.#now;
  }

  #push(message: AgentMessage): void {
    if ("content" in message) {
      for (const block of message.content)
        this.#chars += typeof block === "object" && "text" in block ? block.text.length : 1;
    }
    this.#messages.push(message);
  }
}
