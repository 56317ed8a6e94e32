import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { blobDirFor, blobPathFor, writeSpill } from "../spill.ts";
import { blobFolderNames, orphanedBlobFolders, removeBlobFolder } from "./blob-folders.ts";

let sessionDir: string;

beforeEach(() => {
  sessionDir = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "blob-folders-")));
});

afterEach(() => fs.rmSync(sessionDir, { recursive: true, force: true }));

describe("blobFolderNames", () => {
  const session = (id: string, header: object) => {
    const file = join(sessionDir, `2026-01-01_${id}.jsonl`);
    fs.writeFileSync(file, `${JSON.stringify({ type: "session", id, ...header })}\n{"type":"message"}\n`);
    return file;
  };

  test("are of the session and of all that it comes from, also where a circle of headers says so", () => {
    const first = join(sessionDir, "2026-01-01_a.jsonl");
    const second = session("b", { parentSession: first });
    session("a", { parentSession: second });
    expect(blobFolderNames("c", second)).toEqual(new Set(["c-blobs", "b-blobs", "a-blobs"]));
    expect(blobFolderNames("c")).toEqual(new Set(["c-blobs"]));
  });

  test("a parent that is gone is named by its file, one that is no session by nothing", () => {
    expect(blobFolderNames("c", "/gone/b.jsonl")).toEqual(new Set(["c-blobs", "b-blobs"]));
    expect([...blobFolderNames("c", "/gone/2026-01-01_b.jsonl")]).toContain("b-blobs");
    expect([...blobFolderNames("c", "/gone/2026-01-01_b_2.jsonl")]).toContain("b_2-blobs");
    const odd = join(sessionDir, "notes.txt");
    fs.writeFileSync(odd, "no header");
    expect(blobFolderNames("c", odd)).toEqual(new Set(["c-blobs"]));
  });
});

describe("orphanedBlobFolders", () => {
  const blobsOf = (id: string, dir = sessionDir) => {
    const folder = blobDirFor(dir, id);
    writeSpill({ path: blobPathFor(folder, "a"), text: `of ${id}` });
    return folder;
  };
  const session = (dir: string, file: string, header: object) => {
    fs.mkdirSync(dir, { recursive: true });
    fs.writeFileSync(join(dir, file), `${JSON.stringify({ type: "session", ...header })}\n`);
    return join(dir, file);
  };
  const orphans = (dir = sessionDir) => orphanedBlobFolders(dir, ["current"]).map(({ path }) => basename(path));

  test("are those of deleted sessions, with their size", () => {
    for (const id of ["current", "alive", "renamed", "gone"]) blobsOf(id);
    session(sessionDir, "2026_alive.jsonl", { id: "alive" });
    session(sessionDir, "kept copy.jsonl", { id: "renamed" });
    expect(orphanedBlobFolders(sessionDir, ["current"])).toEqual([
      { path: blobDirFor(sessionDir, "gone"), files: 1, bytes: "of gone".length },
    ]);
  });

  test("never one whose session cannot be read, or that a fork comes from, be it in another project", () => {
    for (const id of ["damaged", "parent", "grandparent", "elsewhere"]) blobsOf(id);
    fs.writeFileSync(join(sessionDir, "2026_damaged.jsonl"), "{");
    const parent = session(sessionDir, "2026_parent.jsonl", {
      id: "parent",
      parentSession: "/x/2026_grandparent.jsonl",
    });
    session(sessionDir, "2026_fork.jsonl", { id: "fork", parentSession: parent });
    expect(orphans()).toEqual(["elsewhere-blobs"]);
    const projects = join(sessionDir, "sessions");
    const here = join(projects, "--work-app--");
    fs.mkdirSync(here, { recursive: true });
    blobsOf("elsewhere", here);
    session(join(projects, "--work-other--"), "2026_b.jsonl", {
      id: "b",
      parentSession: join(here, "2026_elsewhere.jsonl"),
    });
    expect(orphans(here)).toEqual([]);
  });

  test("nothing but blob folders, and no links to them", () => {
    fs.mkdirSync(join(sessionDir, "notes"));
    fs.writeFileSync(join(sessionDir, "file-blobs"), "x");
    fs.symlinkSync("/etc", join(sessionDir, "link-blobs"));
    expect(orphans()).toEqual([]);
    expect(orphans(join(sessionDir, "nowhere"))).toEqual([]);
  });

  test("are removed without what else stands in them", () => {
    const folder = blobsOf("gone");
    fs.writeFileSync(join(folder, "mine.md"), "precious");
    fs.writeFileSync(join(folder, "b.txt.0a1b.tmp"), "rest");
    expect(removeBlobFolder(folder)).toBe("of gone".length + 4);
    expect(fs.readdirSync(folder)).toEqual(["mine.md"]);
    fs.unlinkSync(join(folder, "mine.md"));
    expect(removeBlobFolder(folder)).toBe(0);
    expect(fs.existsSync(folder)).toBe(false);
  });
});
