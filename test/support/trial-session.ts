/** A recorded session for trials: files are read, an hour goes by, and each of them is edited from memory. */

export const CWD = "/nowhere/trial-project";
const START = Date.parse("2026-01-05T09:00:00.000Z");
const HOUR = 3_600_000;

/** Files with lines that stand nowhere else. The first ones hold what would act on a page or a terminal. */
export const FILES = Array.from({ length: 8 }, (_, file) => ({
  path: `src/file${file}.ts`,
  text: Array.from(
    { length: 120 },
    (_unused, line) => `export const value_${file}_${line} = "${file * 1000 + line}"; // \u202e<script>\u001b[31m`,
  ).join("\n"),
}));

/** The edit of a file, as the newest tool takes it. */
export function editOf(file: number): { path: string; edits: { oldText: string; newText: string }[] } {
  const [line = ""] = (FILES[file]?.text ?? "").split("\n").slice(60, 61);
  return { path: `src/file${file}.ts`, edits: [{ oldText: line, newText: `${line}\n// fixed` }] };
}

/** The text of the session file. */
export function trialSession(): string {
  const recorder = new Recorder();
  recorder.say("read all files");
  for (const [file, { path, text }] of FILES.entries()) recorder.call(`read_${file}`, "read", { path }, text);
  recorder.call("deploy_1", "deploy", { target: "stage" }, "deployed");
  recorder.call("deploy_2", "deploy", { target: "live", dry: true }, "nothing done");
  recorder.reply("All read.");
  for (const file of FILES.keys()) {
    recorder.wait(HOUR);
    recorder.say(`fix file${file}`);
    recorder.call(`edit_${file}`, "edit", editOf(file), `Successfully replaced 1 block(s) in src/file${file}.ts.`);
    recorder.reply(`file${file} is fixed.`);
  }
  return recorder.text();
}

class Recorder {
  private readonly lines: object[] = [
    { type: "session", version: 3, id: "s1", timestamp: new Date(START).toISOString(), cwd: CWD },
  ];
  private at = START;

  wait(ms: number): void {
    this.at += ms;
  }

  say(text: string): void {
    this.add({ role: "user", content: [{ type: "text", text }] });
  }

  reply(text: string): void {
    this.answer([{ type: "text", text }], "stop");
  }

  call(id: string, name: string, args: object, output: string): void {
    this.answer([{ type: "toolCall", id, name, arguments: args }], "toolUse");
    const content = [{ type: "text", text: output }];
    this.add({ role: "toolResult", toolCallId: id, toolName: name, content, isError: false });
  }

  text(): string {
    return this.lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  }

  private answer(content: object[], stopReason: string): void {
    const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
    const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
    this.add({ role: "assistant", content, api: "x", provider: "p", model: "m", usage, stopReason });
  }

  private add(message: object): void {
    this.at += 1_000;
    const number = this.lines.length;
    this.lines.push({
      type: "message",
      id: `e${number}`,
      parentId: number === 1 ? null : `e${number - 1}`,
      timestamp: new Date(this.at).toISOString(),
      message: { ...message, timestamp: this.at },
    });
  }
}
