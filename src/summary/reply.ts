/** What of a model's reply is a summary, and whether it is one. */
import { grouped, oneLine } from "../text/text.ts";
import type { SummaryRequest } from "./prompt.ts";
import { SECTION } from "./split.ts";
import type { Trouble } from "./trouble.ts";

/** Characters that a reply may have. Summaries are shorter by far, and what comes after is checked in full. */
export const MAX_REPLY_CHARS = 100_000;
/** What is said of a longer one. */
export const TOO_LONG = `the reply is longer than ${grouped(MAX_REPLY_CHARS)} characters`;

/** Tags that models put around what they think where their server does not take it out. */
const THINKING = /<(\/?)(?:think|thinking|thought|thoughts|reasoning|analysis|scratchpad)>/gi;
const CODE_FENCE = /^```\w{0,20}\n([\s\S]*)\n```$/;
/** Characters of a section that show whether it is an excuse or says nothing. */
const HEAD_CHARS = 200;
/** How a model opens that declines, asks back, or answers with a call or a page. */
const EXCUSE = new RegExp(
  `^(?:${[
    "(?:(?:i['’]m|i am) )?(?:very |so |truly |really )?sorry\\b",
    "(?:my )?apologies\\b",
    "(?:unfortunately|regrettably),? (?:but )?(?:i|we)\\b",
    "(?:i|we) (?:can['’]?t|cannot|can not|won['’]t|will not|must decline|do not have|don['’]t have|don['’]t see)\\b",
    "(?:i['’]m|i am|we are) (?:not able|unable|not permitted|not allowed)\\b",
    "as an? (?:ai|language model)\\b",
    "(?:could|can|would) you\\b",
    "please (?:provide|share|paste|send)\\b",
    "<(?:!doctype|html|tool_call|function_call|function=|invoke)\\b",
    "对不起|很?抱歉|我(?:无法|不能)|申し訳|죄송",
    "lo siento|je suis désolé|désolé|es tut mir leid|mi dispiace|desculpe|извините",
  ].join("|")})`,
  "iu",
);
/** What a model writes where it has nothing to say. */
const NOTHING =
  /^(?:n\/?a|none|null|nil|undefined|unknown|nothing|empty|no (?:summary|content|output|results?|data|text|information)(?: (?:is )?(?:available|provided|given|shown))?)\W*$/i;
/** A list item with a name as code has them, in the form that was asked for: paths and numbers in it are checked elsewhere. */
const NAMING_ITEM = /^[ \t]{0,8}[-*] .{0,400}?(?:[a-z][A-Z]|\w\(|[A-Za-z]_[A-Za-z]|\w\.[a-z])/m;
/** Words that tell what a text is about. */
const WORD = /[A-Za-z0-9_]{3,}/g;

/**
 * The reply without what the model thought before it, and without a code fence around the whole. Tags count where they
 * begin or end a line. Thinking that never ends leaves nothing.
 */
export function replyText(reply: string): string {
  const text = withoutThinking(reply).trim();
  return (CODE_FENCE.exec(text)?.[1] ?? text).trim();
}

function withoutThinking(text: string): string {
  const kept: string[] = [];
  let depth = 0;
  let from = 0;
  for (const match of text.matchAll(THINKING)) {
    const end = match.index + match[0].length;
    const closes = match[1] === "/";
    const leads = isBlankUntil(text, match.index - 1, -1, from);
    if (closes && depth > 0) {
      depth -= 1;
      if (depth === 0) from = end;
    } else if (closes && (leads || isBlankUntil(text, end, 1))) {
      // The tag that opens it stood in the model's template.
      kept.length = 0;
      from = end;
    } else if (!closes && (leads || depth > 0)) {
      if (depth === 0) kept.push(text.slice(from, match.index));
      depth += 1;
    }
  }
  return depth > 0 ? "" : [...kept, text.slice(from)].join("");
}

/** Whether a line holds nothing but blanks from `at` on, in steps of `step`, until its end or `limit`. */
function isBlankUntil(text: string, at: number, step: 1 | -1, limit = 0): boolean {
  let i = at;
  while (i >= limit && i < text.length && /[^\S\n]/.test(text.charAt(i))) i += step;
  return i < limit || i >= text.length || text.charAt(i) === "\n";
}

/**
 * Why a reply is no summary of what was asked, or `undefined` where it is one. A summary says something in letters, is
 * of bounded length, declines nothing, and is about what was shown: it marks the calls as it was asked to, lists names, or
 * has a word in common with them that the instructions lack.
 */
export function faultOf(text: string, request: SummaryRequest): Trouble | undefined {
  if (text.length > MAX_REPLY_CHARS) return { kind: "cut", detail: TOO_LONG };
  const sections = sectionsOf(text);
  if (!sections.some(({ body }) => hasLetters(body))) return { kind: "empty", detail: "the reply held no text" };
  const quoted = oneLine(text, 80);
  if (sections.every(({ body }) => isExcuse(body))) return { kind: "refused", detail: `no summary, but: ${quoted}` };
  if (sections.some(({ mark }) => mark && request.text.includes(`[${mark}] tool: `))) return undefined;
  return NAMING_ITEM.test(text) || sharesWord(text, request)
    ? undefined
    : { kind: "refused", detail: `no word on the calls: ${quoted}` };
}

/** Whether a section can stand in for an output: it has letters, declines nothing, and does not say that it is empty. */
export function saysSomething(section: string): boolean {
  return sectionsOf(section).some(({ body }) => hasLetters(body) && !isExcuse(body) && !isNothing(body));
}

/** The sections that are marked, or else all of the text. */
function sectionsOf(text: string): { mark?: string; body: string }[] {
  const sections: { mark?: string; body: string }[] = [];
  for (const line of text.split("\n")) {
    const mark = SECTION.exec(line);
    const last = sections.at(-1);
    if (mark) sections.push({ mark: mark[1], body: line.slice(mark[0].length) });
    // Enough for what is judged; the whole would be copied for each of its lines.
    else if (last && last.body.length < HEAD_CHARS) last.body += `\n${line}`;
  }
  return sections.length > 0 ? sections : [{ body: text }];
}

function hasLetters(body: string): boolean {
  return /\p{L}/u.test(body);
}

function isExcuse(body: string): boolean {
  return EXCUSE.test(headOf(body));
}

function isNothing(body: string): boolean {
  return body.length < HEAD_CHARS && NOTHING.test(headOf(body));
}

/** Where a section begins to speak, behind bullets and quotes. */
function headOf(body: string): string {
  return body.slice(0, HEAD_CHARS).replace(/^[\s\-*>"'“”‘`#]+/, "");
}

/** A text of other letters than Latin ones cannot be judged so. */
function sharesWord(text: string, { systemPrompt, text: shown }: SummaryRequest): boolean {
  const common = wordsOf(systemPrompt);
  const telling = [...wordsOf(text)].filter((word) => !common.has(word));
  const known = wordsOf(shown);
  return telling.some((word) => known.has(word)) || (telling.length === 0 && /(?![a-z])\p{L}/iu.test(text));
}

function wordsOf(text: string): Set<string> {
  return new Set(text.toLowerCase().match(WORD));
}
