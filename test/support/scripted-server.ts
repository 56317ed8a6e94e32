/** A local server whose models call tools as a function of the request says. It speaks OpenAI's completions. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A request as far as scripts read it. */
export interface ScriptedBody {
  model: string;
  messages: { role: string; content?: unknown; tool_calls?: unknown }[];
  tools?: { function: { name: string; parameters: unknown } }[];
}

/** What a model does: calls a tool, speaks, or fails with a status. */
export type ScriptedStep =
  | { tool: string; arguments: Record<string, unknown> }
  | { text: string }
  | { status: number; message: string };

export interface ScriptedServer {
  readonly requests: ScriptedBody[];
  /** Contents of a `models.json` with one model for each script. */
  modelsJson(): string;
  close(): Promise<void>;
}

/** Name of the provider under which the models are. */
export const LOCAL_PROVIDER = "local";
const USAGE = { prompt_tokens: 1_000, completion_tokens: 50, total_tokens: 1_050 };

/** @param onRequest told of each request before it is answered */
export async function startScriptedServer(
  scripts: Readonly<Record<string, (body: ScriptedBody) => ScriptedStep>>,
  onRequest: (count: number) => void = () => {},
): Promise<ScriptedServer> {
  const requests: ScriptedBody[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => {
      text += chunk;
    });
    request.on("end", () => {
      const body = JSON.parse(text) as ScriptedBody;
      requests.push(body);
      onRequest(requests.length);
      const step = scripts[body.model]?.(body) ?? { status: 404, message: "no such model" };
      if ("status" in step) {
        response.writeHead(step.status, { "content-type": "application/json", connection: "close" });
        response.end(JSON.stringify({ error: { message: step.message, type: "error", code: step.status } }));
        return;
      }
      response.writeHead(200, { "content-type": "text/event-stream", connection: "close" });
      for (const part of partsOf(step, requests.length)) response.write(`data: ${JSON.stringify(part)}\n\n`);
      response.end("data: [DONE]\n\n");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const models = Object.keys(scripts).map((id) => ({
    id,
    name: id,
    reasoning: false,
    input: ["text"],
    cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 },
    contextWindow: 200_000,
    maxTokens: 4_000,
  }));
  return {
    requests,
    modelsJson: () =>
      JSON.stringify({ providers: { [LOCAL_PROVIDER]: { baseUrl, api: "openai-completions", apiKey: "k", models } } }),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function partsOf(step: Exclude<ScriptedStep, { status: number }>, number: number): object[] {
  const delta =
    "tool" in step
      ? {
          tool_calls: [
            {
              index: 0,
              id: `call_new_${number}`,
              type: "function",
              function: { name: step.tool, arguments: JSON.stringify(step.arguments) },
            },
          ],
        }
      : { content: step.text };
  return [
    chunk({ role: "assistant", ...delta }, null),
    chunk({}, "tool" in step ? "tool_calls" : "stop"),
    { ...chunk({}, null), choices: [], usage: USAGE },
  ];
}

function chunk(delta: object, finishReason: string | null): object {
  return {
    id: "c",
    object: "chat.completion.chunk",
    created: 1,
    model: "x",
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  };
}
