/**
 * Checks the final payload of a request against what each protocol demands of a conversation. Works on plain JSON and
 * knows nothing of pi-ai, so that a mistake of the one is not hidden by the other.
 */

export const PROTOCOLS = [
  "anthropic-messages",
  "openai-completions",
  "openai-responses",
  "google-generative-ai",
  "mistral-conversations",
  "bedrock-converse-stream",
] as const;

export type Protocol = (typeof PROTOCOLS)[number];

type Json = Record<string, unknown>;

/** A message, or a run of items that makes up one, in terms that all protocols share. */
interface Turn {
  /** Where it stands in the payload. */
  index: number;
  role: "system" | "user" | "assistant" | "unknown";
  /** Every text that must say something. */
  texts: string[];
  /** Blocks of any kind. */
  blocks: number;
  calls: { id: string; name: string }[];
  answers: { id: string; name: string }[];
  /** Something else stands before an answer. */
  answersBehind: boolean;
  /** Reasoning as it is given back, each with what proves it. */
  signatures: string[];
  problems: string[];
}

/** How a protocol is read, and what it demands beside what all do. */
interface Reader {
  turns(payload: Json): Turn[];
  /** What ids of calls look like. */
  id: RegExp;
  /** The answers of a turn stand in one message, before all else in it. */
  answersTogether: boolean;
  /** A message of the user takes the role of answers, so that one after them makes two of a role in a row. */
  answersAreUser: boolean;
}

/** What is wrong with the payload; an empty list is a valid one. */
export function checkPayload(protocol: Protocol, payload: unknown): string[] {
  const reader = READERS[protocol];
  const turns = reader.turns(object(payload));
  const found = turns.flatMap((turn) => problemsOf(turn, reader));
  const conversation = turns.filter((turn) => turn.role !== "system");
  if (conversation[0]?.role !== "user") found.push("the conversation does not begin with the user");
  if (conversation.at(-1)?.role === "assistant") found.push("the conversation ends with the assistant");
  return [...found, ...pairingProblems(conversation, reader)];
}

/** Those of `after` that were not yet wrong, or less often, before; where in the payload they stand is of no account. */
export function newProblems(after: readonly string[], before: readonly string[]): string[] {
  const what = (problem: string) => problem.replace(/^(?:\d+|end): /, "");
  const known = before.map(what);
  return after.filter((problem) => {
    const place = known.indexOf(what(problem));
    if (place >= 0) known.splice(place, 1);
    return place < 0;
  });
}

/** Reasoning and what proves it, in order: whatever a provider gave to be handed back as it was. */
export function signaturesOf(protocol: Protocol, payload: unknown): string[] {
  return READERS[protocol].turns(object(payload)).flatMap((turn) => turn.signatures);
}

/**
 * How often two messages of the user follow each other. Every protocol here takes that: pi sends it whenever the user
 * speaks again before the model has, and joins nothing.
 */
export function consecutiveUsers(protocol: Protocol, payload: unknown): number {
  const { turns, answersAreUser } = READERS[protocol];
  const conversation = turns(object(payload)).filter((turn) => turn.role !== "system");
  const isUser = (turn: Turn | undefined) =>
    turn?.role === "user" && (answersAreUser || turn.answers.length === 0 || turn.texts.length > 0);
  return conversation.filter((turn, i) => isUser(turn) && isUser(conversation[i - 1])).length;
}

function problemsOf(turn: Turn, reader: Reader): string[] {
  const found = [...turn.problems];
  if (turn.role === "unknown") found.push("unknown role");
  if (turn.blocks === 0) found.push("no content");
  if (turn.texts.some((text) => text.trim() === "")) found.push("empty text");
  if (turn.role !== "assistant" && turn.calls.length > 0) found.push("a call that the assistant did not make");
  for (const { id } of [...turn.calls, ...turn.answers]) if (!reader.id.test(id)) found.push(`malformed id "${id}"`);
  if (new Set(turn.calls.map((call) => call.id)).size < turn.calls.length) found.push("two calls with one id");
  if (reader.answersTogether && turn.answersBehind) found.push("an answer behind something else");
  return found.map((problem) => `${turn.index}: ${problem}`);
}

/** Each call is answered exactly once, directly behind the message that made it. */
function pairingProblems(turns: readonly Turn[], { answersTogether }: Reader): string[] {
  const found: string[] = [];
  let waiting: string[] = [];
  for (const turn of turns) {
    if (turn.answers.length === 0) {
      if (waiting.length > 0) found.push(`${turn.index}: ${waiting.join(", ")} not answered before it`);
      waiting = turn.calls.map((call) => call.id);
      continue;
    }
    for (const { id } of turn.answers) {
      const place = waiting.indexOf(id);
      if (place < 0) found.push(`${turn.index}: an answer to no call that waits (${id})`);
      else waiting.splice(place, 1);
    }
    if (answersTogether && waiting.length > 0) {
      found.push(`${turn.index}: ${waiting.join(", ")} not answered with the others`);
      waiting = [];
    }
  }
  if (waiting.length > 0) found.push(`end: ${waiting.join(", ")} never answered`);
  return found;
}

const READERS: Readonly<Record<Protocol, Reader>> = {
  "anthropic-messages": {
    id: /^[a-zA-Z0-9_-]{1,64}$/,
    answersTogether: true,
    answersAreUser: true,
    turns: (payload) => objects(payload.messages).map((message, index) => anthropicTurn(message, index)),
  },
  "bedrock-converse-stream": {
    id: /^[a-zA-Z0-9_-]{1,64}$/,
    answersTogether: true,
    answersAreUser: true,
    turns: (payload) => objects(payload.messages).map((message, index) => bedrockTurn(message, index)),
  },
  "openai-completions": {
    id: /^.{1,64}$/,
    answersTogether: false,
    answersAreUser: false,
    turns: (payload) => objects(payload.messages).map((message, index) => chatTurn(message, index, "tool_calls")),
  },
  "mistral-conversations": {
    id: /^[a-zA-Z0-9]{9}$/,
    answersTogether: false,
    answersAreUser: false,
    turns: (payload) => objects(payload.messages).map((message, index) => chatTurn(message, index, "toolCalls")),
  },
  "openai-responses": {
    id: /^.{1,64}$/,
    answersTogether: false,
    answersAreUser: false,
    turns: (payload) => responsesTurns(objects(payload.input)),
  },
  "google-generative-ai": {
    id: /^.{1,64}$/,
    answersTogether: true,
    answersAreUser: true,
    turns: (payload) => objects(payload.contents).map((content, index) => googleTurn(content, index)),
  },
};

function anthropicTurn(message: Json, index: number): Turn {
  const turn = newTurn(index, roleOf(message.role));
  for (const block of blocksOf(message.content)) {
    switch (block.type) {
      case "text":
        addText(turn, block.text);
        break;
      case "image":
        turn.blocks += 1;
        break;
      case "thinking":
        addSignature(turn, text(block.thinking), block.signature);
        break;
      case "redacted_thinking":
        addSignature(turn, "", block.data);
        break;
      case "tool_use":
        addCall(turn, block.id, block.name, block.input);
        break;
      case "tool_result":
        addAnswer(turn, block.tool_use_id, "", block.content);
        break;
      default:
        turn.problems.push(`unknown block ${String(block.type)}`);
    }
  }
  return turn;
}

function bedrockTurn(message: Json, index: number): Turn {
  const turn = newTurn(index, roleOf(message.role));
  for (const block of objects(message.content)) {
    const { text: said, toolUse, toolResult, reasoningContent, image, cachePoint } = block;
    if (cachePoint !== undefined) continue;
    if (said !== undefined) addText(turn, said);
    else if (image !== undefined) turn.blocks += 1;
    else if (toolUse !== undefined) {
      const { toolUseId, name, input } = object(toolUse);
      addCall(turn, toolUseId, name, input);
    } else if (toolResult !== undefined) {
      const { toolUseId, content } = object(toolResult);
      addAnswer(turn, toolUseId, "", objects(content));
    } else if (reasoningContent !== undefined) {
      const { text: thought, signature } = object(object(reasoningContent).reasoningText);
      addSignature(turn, text(thought), signature);
    } else turn.problems.push(`unknown block ${Object.keys(block).join()}`);
  }
  return turn;
}

/** A message of OpenAI's chat completions, or of Mistral's, whose fields are spelled otherwise. */
function chatTurn(message: Json, index: number, callsField: "tool_calls" | "toolCalls"): Turn {
  const isAnswer = message.role === "tool";
  const turn = newTurn(index, isAnswer ? "user" : roleOf(message.role));
  const { content } = message;
  if (isAnswer) {
    addAnswer(turn, message.tool_call_id ?? message.toolCallId, text(message.name), content);
    return turn;
  }
  for (const block of blocksOf(content ?? [])) {
    if (block.type === "text") addText(turn, block.text);
    else if (block.type === "thinking")
      addSignature(
        turn,
        objects(block.thinking)
          .map((part) => text(part.text))
          .join(),
        "-",
      );
    else if (block.type === "image_url") turn.blocks += 1;
    else turn.problems.push(`unknown block ${String(block.type)}`);
  }
  for (const call of objects(message[callsField] ?? [])) {
    const { name, arguments: args } = object(call.function);
    addCall(turn, call.id, name, parsed(args));
  }
  if (typeof message.reasoning_content === "string") addSignature(turn, message.reasoning_content, "reasoning_content");
  for (const detail of objects(message.reasoning_details ?? [])) addSignature(turn, text(detail.id), detail.data);
  return turn;
}

/** Items of one reply follow each other; each output is an item by itself. */
function responsesTurns(items: readonly Json[]): Turn[] {
  const turns: Turn[] = [];
  const ids = new Set<unknown>();
  for (const [index, item] of items.entries()) {
    const { type } = item;
    const isReply =
      type === "reasoning" || type === "function_call" || type === "custom_tool_call" || item.role === "assistant";
    const previous = turns.at(-1);
    const turn =
      isReply && previous?.role === "assistant" ? previous : newTurn(index, isReply ? "assistant" : roleOf(item.role));
    if (turn !== previous) turns.push(turn);
    // pi makes up `msg_5` for texts of other models, and gives it twice where a message has two of them.
    if (isReply && item.id !== undefined && !/^msg_\d+$/.test(text(item.id))) {
      if (ids.has(item.id)) turn.problems.push(`item id ${String(item.id)} stands twice`);
      ids.add(item.id);
    }
    if (type === "reasoning") {
      addSignature(turn, text(item.id), item.encrypted_content);
      const next = items[index + 1];
      if (!next || (next.type !== "function_call" && next.type !== "custom_tool_call" && next.role !== "assistant")) {
        turn.problems.push(`reasoning ${text(item.id)} without the item that it led to`);
      }
    } else if (type === "function_call") {
      if (item.id !== undefined && !text(item.id).startsWith("fc_")) turn.problems.push(`item id ${text(item.id)}`);
      addCall(turn, item.call_id, item.name, parsed(item.arguments));
    } else if (type === "custom_tool_call") {
      addCall(turn, item.call_id, item.name, { input: item.input });
      if (typeof item.input !== "string") turn.problems.push("a custom call without a string as its input");
    } else if (type === "function_call_output" || type === "custom_tool_call_output") {
      turn.role = "user";
      addAnswer(turn, item.call_id, "", item.output);
    } else {
      for (const block of blocksOf(item.content)) {
        if ("text" in block) addText(turn, block.text);
        else turn.blocks += 1;
      }
      const isGiven = item.id !== undefined && !/^msg_\d+$/.test(text(item.id));
      if (turn.role === "assistant" && isGiven) turn.signatures.push(`message ${text(item.id)}`);
    }
  }
  return turns;
}

/** Calls and responses have no ids with most models: the n-th response answers the n-th call. */
function googleTurn(content: Json, index: number): Turn {
  const turn = newTurn(index, content.role === "model" ? "assistant" : roleOf(content.role));
  for (const part of objects(content.parts)) {
    const { text: said, functionCall, functionResponse, inlineData, thought, thoughtSignature } = part;
    const proof = thoughtSignature === undefined ? "" : text(thoughtSignature);
    if (functionCall !== undefined) {
      const { name, args } = object(functionCall);
      addCall(turn, `${text(name)} ${turn.calls.length}`, name, args);
      if (proof) turn.signatures.push(`call ${text(name)} ${proof}`);
    } else if (functionResponse !== undefined) {
      const { name, response } = object(functionResponse);
      addAnswer(turn, `${text(name)} ${turn.answers.length}`, text(name), Object.values(object(response)));
    } else if (thought === true) addSignature(turn, text(said), proof || "-");
    else if (said !== undefined) {
      addText(turn, said);
      if (proof) turn.signatures.push(`text ${proof}`);
    } else if (inlineData !== undefined) turn.blocks += 1;
    else turn.problems.push(`unknown part ${Object.keys(part).join()}`);
  }
  return turn;
}

function newTurn(index: number, role: Turn["role"]): Turn {
  return {
    index,
    role,
    texts: [],
    blocks: 0,
    calls: [],
    answers: [],
    answersBehind: false,
    signatures: [],
    problems: [],
  };
}

function addText(turn: Turn, value: unknown): void {
  turn.blocks += 1;
  turn.texts.push(text(value));
}

function addSignature(turn: Turn, thought: string, proof: unknown): void {
  turn.blocks += 1;
  if (turn.role !== "assistant") turn.problems.push("reasoning that is not the assistant's");
  if (typeof proof !== "string" || proof === "") turn.problems.push("reasoning without its signature");
  turn.signatures.push(`${thought} ${text(proof)}`);
}

function addCall(turn: Turn, id: unknown, name: unknown, args: unknown): void {
  turn.blocks += 1;
  turn.calls.push({ id: text(id), name: text(name) });
  if (typeof args !== "object" || args === null || Array.isArray(args))
    turn.problems.push("arguments that are no object");
}

function addAnswer(turn: Turn, id: unknown, name: string, content: unknown): void {
  if (turn.blocks > turn.answers.length) turn.answersBehind = true;
  turn.blocks += 1;
  turn.answers.push({ id: text(id), name });
  const parts = typeof content === "string" ? [content] : Array.isArray(content) ? content : [];
  const says = (part: unknown) => (typeof part === "string" ? part : text(object(part).text ?? "-"));
  if (parts.length === 0 || parts.some((part) => says(part).trim() === "")) turn.problems.push("empty answer");
}

function roleOf(role: unknown): Turn["role"] {
  if (role === "developer") return "system";
  return role === "system" || role === "user" || role === "assistant" ? role : "unknown";
}

/** A content as blocks; a string is one block of text. */
function blocksOf(content: unknown): Json[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : objects(content);
}

function parsed(value: unknown): unknown {
  try {
    return JSON.parse(text(value));
  } catch {
    return undefined;
  }
}

function objects(value: unknown): Json[] {
  return Array.isArray(value) ? value.map(object) : [];
}

function object(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
