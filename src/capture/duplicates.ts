/** Repeats of output that is already known: the same tool, error flag, text and image bytes. */
import { createHash } from "node:crypto";
import { blocksIn, isImage, isText } from "../transcript/messages.ts";
import type { CapturedToolCall } from "../types.ts";

/** Characters of a hash: 132 bits, which no two results of a session have in common. */
const HASH_CHARS = 22;

/** The first bits of the SHA-256 (base64url) over everything that makes two results interchangeable for a reader. */
export function contentHash(call: Pick<CapturedToolCall, "toolName" | "isError" | "content">): string {
  const hash = createHash("sha256");
  // Lengths keep two different sequences of blocks from running together into one.
  const add = (kind: string, value: string) => hash.update(`${kind}:${value.length}:`).update(value, "utf16le");
  add("tool", call.toolName);
  add("error", String(call.isError));
  for (const block of blocksIn(call.content)) {
    if (isText(block)) add("text", block.text);
    else if (isImage(block)) add(block.mimeType, block.data);
  }
  return hash.digest("base64url").slice(0, HASH_CHARS);
}

/** A stored hash as `contentHash` gives it: releases up to 1.0.0 wrote the whole of it in hexadecimal. */
export function shortHash(stored: string): string {
  const isHex = /^[0-9a-f]{64}$/.test(stored);
  return isHex ? Buffer.from(stored, "hex").toString("base64url").slice(0, HASH_CHARS) : stored;
}
