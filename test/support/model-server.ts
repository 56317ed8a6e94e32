/** A local server that speaks the protocols of three providers, and misbehaves as it is told. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ProviderConfig } from "@mariozechner/pi-coding-agent";

export const PROTOCOLS = ["anthropic-messages", "openai-completions", "google-generative-ai"] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/** Name under which the models of a protocol are registered. */
export const PROVIDER_OF: Readonly<Record<Protocol, string>> = {
  "anthropic-messages": "local-anthropic",
  "openai-completions": "local-openai",
  "google-generative-ai": "local-google",
};

/** What a model does with a request. */
export type Behaviour =
  | { kind: "answer"; text: string }
  /** The request is taken and nothing ever comes. */
  | { kind: "silent" }
  /** The reply begins, and nothing comes after it. */
  | { kind: "stall" }
  /** A word comes every so many milliseconds, for ever. */
  | { kind: "drip"; everyMs: number }
  /** The connection is dropped before or within the reply. */
  | { kind: "hang-up" }
  | { kind: "drop" }
  /** The reply is over before it has said so. */
  | { kind: "break-off" }
  | { kind: "status"; status: number; message: string; headers?: Record<string, string> }
  | { kind: "length"; text: string }
  | { kind: "refusal" }
  | { kind: "malformed" };

/** A request as it came over the wire. */
export interface ServedRequest {
  protocol: Protocol;
  model: string;
  body: string;
  headers: IncomingMessage["headers"];
  /** The other side has closed the connection before the reply was over. */
  closed: boolean;
}

export interface ModelServer {
  readonly requests: ServedRequest[];
  /** What a model does from now on. */
  behave(model: string, behaviour: Behaviour): void;
  /** Configuration for `pi.registerProvider(PROVIDER_OF[protocol], …)` with these models. */
  provider(protocol: Protocol, models: readonly string[]): ProviderConfig;
  close(): Promise<void>;
}

/** Tokens that every reply is said to have used, as far as it comes to that. */
export const SERVED_USAGE = { input: 1_000, output: 50 };

export async function startModelServer(): Promise<ModelServer> {
  const requests: ServedRequest[] = [];
  const behaviours = new Map<string, Behaviour>();
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    // No connection is used twice, so that what happens to one has nothing to do with the next.
    response.setHeader("connection", "close");
    request.on("end", () => {
      const { protocol, model } = routeOf(request.url ?? "", body);
      const served: ServedRequest = { protocol, model, body, headers: request.headers, closed: false };
      response.on("close", () => {
        served.closed = !response.writableEnded;
      });
      requests.push(served);
      reply(response, protocol, behaviours.get(model) ?? { kind: "answer", text: "fine" });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    requests,
    behave: (model, behaviour) => void behaviours.set(model, behaviour),
    provider: (protocol, models) => ({
      api: protocol,
      apiKey: "local-key",
      baseUrl:
        url + { "anthropic-messages": "", "openai-completions": "/v1", "google-generative-ai": "/v1beta" }[protocol],
      models: models.map((id) => ({
        id,
        name: id,
        reasoning: false,
        input: ["text"],
        cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 },
        contextWindow: 100_000,
        maxTokens: 4_000,
      })),
    }),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function routeOf(url: string, body: string): { protocol: Protocol; model: string } {
  const google = /models\/([^:/]+):streamGenerateContent/.exec(url);
  if (google?.[1]) return { protocol: "google-generative-ai", model: decodeURIComponent(google[1]) };
  const { model } = JSON.parse(body) as { model: string };
  return { protocol: url.includes("/chat/completions") ? "openai-completions" : "anthropic-messages", model };
}

function reply(response: ServerResponse, protocol: Protocol, behaviour: Behaviour): void {
  const words = WORDS[protocol];
  const say = (...events: string[]) => {
    if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of events) response.write(event);
  };
  switch (behaviour.kind) {
    case "answer":
      say(words.start, words.text(behaviour.text), words.end("stop"));
      response.end();
      return;
    case "length":
      say(words.start, words.text(behaviour.text), words.end("length"));
      response.end();
      return;
    case "refusal":
      say(words.start, words.text("I would rather "), words.end("refusal"));
      response.end();
      return;
    case "break-off":
      say(words.start, words.text("[1] half of "));
      response.end();
      return;
    case "malformed":
      say(words.start, words.text("[1] half of "), words.malformed);
      response.end();
      return;
    case "silent":
      return;
    case "stall":
      say(words.start, words.text("[1] half of "));
      return;
    case "drip": {
      say(words.start);
      const timer = setInterval(() => say(words.text("drop ")), behaviour.everyMs);
      response.on("close", () => clearInterval(timer));
      return;
    }
    case "hang-up":
      response.socket?.destroy();
      return;
    case "drop":
      say(words.start, words.text("[1] half of "));
      setTimeout(() => response.socket?.destroy(), 50);
      return;
    case "status":
      response.writeHead(behaviour.status, { "content-type": "application/json", ...behaviour.headers });
      response.end(JSON.stringify(words.error(behaviour.status, behaviour.message)));
  }
}

type Ending = "stop" | "length" | "refusal";

/** How a protocol says things. */
interface Words {
  start: string;
  text(text: string): string;
  end(reason: Ending): string;
  malformed: string;
  error(status: number, message: string): unknown;
}

const named = (event: { type: string; [key: string]: unknown }) =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
const unnamed = (event: unknown) => `data: ${JSON.stringify(event)}\n\n`;

const { input, output } = SERVED_USAGE;

const WORDS: Readonly<Record<Protocol, Words>> = {
  "anthropic-messages": {
    start:
      named({
        type: "message_start",
        message: {
          id: "msg",
          type: "message",
          role: "assistant",
          model: "x",
          content: [],
          stop_reason: null,
          usage: { input_tokens: input, output_tokens: 1, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
        },
      }) + named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    text: (text) => named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
    end: (reason) =>
      named({ type: "content_block_stop", index: 0 }) +
      named({
        type: "message_delta",
        delta: { stop_reason: { stop: "end_turn", length: "max_tokens", refusal: "refusal" }[reason] },
        usage: { output_tokens: output },
      }) +
      named({ type: "message_stop" }),
    malformed: "event: content_block_delta\ndata: {not json\n\n",
    error: (_status, message) => ({ type: "error", error: { type: "api_error", message } }),
  },
  "openai-completions": {
    start: unnamed(chunk({ role: "assistant", content: "" }, null)),
    text: (text) => unnamed(chunk({ content: text }, null)),
    end: (reason) =>
      unnamed(chunk({}, { stop: "stop", length: "length", refusal: "content_filter" }[reason])) +
      unnamed({
        ...chunk({}, null),
        choices: [],
        usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
      }) +
      "data: [DONE]\n\n",
    malformed: "data: {not json\n\n",
    error: (status, message) => ({ error: { message, type: "error", code: status } }),
  },
  "google-generative-ai": {
    start: unnamed(candidate("")),
    text: (text) => unnamed(candidate(text)),
    end: (reason) => unnamed(candidate("", { stop: "STOP", length: "MAX_TOKENS", refusal: "SAFETY" }[reason])),
    malformed: "data: {not json\n\n",
    error: (status, message) => ({ error: { code: status, message, status: "ERROR" } }),
  },
};

function chunk(delta: object, finishReason: string | null): object {
  return {
    id: "c",
    object: "chat.completion.chunk",
    created: 1,
    model: "x",
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  };
}

function candidate(text: string, finishReason?: string): object {
  return {
    candidates: [
      { content: { role: "model", parts: [{ text }] }, ...(finishReason ? { finishReason } : {}), index: 0 },
    ],
    usageMetadata: { promptTokenCount: input, candidatesTokenCount: output, totalTokenCount: input + output },
  };
}
