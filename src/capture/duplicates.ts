/** Repeats of output that is already known: the same tool, error flag, text and image bytes. */
import { createHash } from "node:crypto";
import { isImage, isText } from "../transcript/messages.js";
import type { CapturedToolCall } from "../types.js";

/** SHA-256 (hex) over everything that makes two results interchangeable for a reader. */
export function contentHash(call: Pick<CapturedToolCall, "toolName" | "isError" | "content">): string {
  const hash = createHash("sha256");
  // Lengths keep two different sequences of blocks from running together into one.
  const add = (kind: string, value: string) => hash.update(`${kind}:${value.length}:`).update(value, "utf16le");
  add("tool", call.toolName);
  add("error", String(call.isError));
  for (const block of call.content) {
    if (isText(block)) add("text", block.text);
    else if (isImage(block)) add(block.mimeType, block.data);
  }
  return hash.digest("hex");
}
