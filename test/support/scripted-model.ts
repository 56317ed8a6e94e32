/**
 * Extension that registers the models of a script file, for `pi` run as a process of its own.
 *
 * SCRIPTED_MODEL_FILE names the script as JSON, SCRIPTED_MODEL_REQUESTS the file that every request is appended to as
 * one line of JSON. `messages` is left out there, since `transcript` holds it.
 */
import { appendFileSync, readFileSync } from "node:fs";
import { createAssistantMessageEventStream } from "@mariozechner/pi-ai";
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";
import {
  modelsOf,
  SCRIPTED_PROVIDER,
  type Script,
  type ScriptedRequest,
  scriptedProvider,
  scriptResponder,
} from "./script.ts";

export default function scriptedModel(pi: ExtensionAPI): void {
  const scriptFile = process.env.SCRIPTED_MODEL_FILE;
  const requestsFile = process.env.SCRIPTED_MODEL_REQUESTS;
  if (!scriptFile || !requestsFile) throw new Error("SCRIPTED_MODEL_FILE and SCRIPTED_MODEL_REQUESTS must be set");
  const script = JSON.parse(readFileSync(scriptFile, "utf8")) as Script;
  const record = ({ messages: _derived, ...request }: ScriptedRequest) => {
    appendFileSync(
      requestsFile,
      `${JSON.stringify(request)}
`,
    );
  };
  const maker = { createAssistantMessageEventStream };
  const config = scriptedProvider(maker, modelsOf(script), scriptResponder(script), record);
  pi.registerProvider(SCRIPTED_PROVIDER, config);
}
