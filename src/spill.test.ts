import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import fc from "fast-check";
import { contentHash } from "./capture/duplicates.ts";
import {
  blobDirFor,
  blobPathFor,
  countLines,
  headPreview,
  isAsWritten,
  readSpill,
  resolveSpillPath,
  type SpillIo,
  type SpillResult,
  writeSpill,
} from "./spill.ts";
import type { CapturedToolCall } from "./types.ts";

/** Any UTF-16 code units, lone surrogates and controls among them. */
const anyUnits = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 200 })
  .map((units) => String.fromCharCode(...units));
const unicode = fc.string({ unit: "binary", maxLength: 200 });
const posix = process.platform !== "win32";
const root = process.geteuid?.() === 0;

let sessionDir: string;
let blobDir: string;

beforeEach(() => {
  // Real path: on some systems the temporary folder itself is behind a symbolic link.
  sessionDir = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "spill-")));
  blobDir = blobDirFor(sessionDir, "01a22c81-5d9a-74aa-adf3-0e4264bc84ea");
});

afterEach(() => fs.rmSync(sessionDir, { recursive: true, force: true }));

function mode(path: string): number {
  return fs.statSync(path).mode & 0o777;
}

function reasonOf(result: SpillResult): string {
  if (result.ok) throw new Error("the spill was expected to fail");
  return result.reason;
}

function failing(code: string): () => never {
  return () => {
    throw Object.assign(new Error(`${code}: injected`), { code });
  };
}

describe("blobDirFor", () => {
  test("is a sibling of the session file", () => {
    expect(blobDirFor("/sessions/x", "01a22c81-5d9a-74aa-adf3-0e4264bc84ea")).toBe(
      resolve("/sessions/x/01a22c81-5d9a-74aa-adf3-0e4264bc84ea-blobs"),
    );
    expect(blobDirFor("/sessions/x", "My_Session")).toBe(resolve("/sessions/x/My_Session-blobs"));
  });

  test("a relative session folder is made absolute, none stays relative", () => {
    expect(blobDirFor("sessions", "s1")).toBe(resolve("sessions", "s1-blobs"));
    expect(blobDirFor("", "s1")).toBe("s1-blobs");
  });

  test("no id leaves the session folder", () => {
    fc.assert(
      fc.property(
        fc.oneof(anyUnits, fc.constantFrom("", ".", "..", "../../etc", "a/b", "a\\b", "/etc", "C:\\x")),
        (id) => {
          const dir = blobDirFor("/sessions/x", id);
          expect(dirname(dir)).toBe(resolve("/sessions/x"));
          expect(basename(dir)).toMatch(/^[A-Za-z0-9_-]{1,96}-blobs$/);
        },
      ),
    );
  });
});

describe("blobPathFor", () => {
  const nameOf = (key: string) => basename(blobPathFor("/b", key));

  test("a plain key is the name", () => {
    expect(blobPathFor("/b", "toolu_01abc")).toBe(join("/b", "toolu_01abc.txt"));
    expect(nameOf("call-7")).toBe("call-7.txt");
    expect(nameOf("a".repeat(96))).toBe(`${"a".repeat(96)}.txt`);
  });

  test("an occurrence key is sanitised and carries a hash", () => {
    expect(nameOf("toolu_01AbC@1796043006275")).toMatch(/^toolu_01AbC_1796043006275-[0-9a-f]{16}\.txt$/);
  });

  test("keys that sanitise alike get different names", () => {
    const names = ["a@1", "a_1", "a/1", "a\\1", "a 1", "a.1", "a\ud8001", "a\ud8011", "a\ufffd1"].map(nameOf);
    expect(new Set(names).size).toBe(names.length);
  });

  test("keys that differ only in case, or only behind the cut, get different names", () => {
    const names = ["abc", "Abc", "aBC", "ABC"].map((key) => nameOf(key).toLowerCase());
    expect(new Set(names).size).toBe(4);
    expect(nameOf(`${"a".repeat(400)}1`)).not.toBe(nameOf(`${"a".repeat(400)}2`));
  });

  test("a key that looks like a hashed name is hashed itself", () => {
    const hashed = nameOf("a@1").slice(0, -".txt".length);
    expect(nameOf(hashed)).not.toBe(nameOf("a@1"));
  });

  test.each(["", ".", "..", "../../etc/passwd", "/etc/passwd", "..\\..\\x", "C:\\x", "a:stream", "a\0b", "~/x"])(
    "%j does not leave the folder",
    (key) => {
      expect(dirname(blobPathFor("/b", key))).toBe(resolve("/b"));
      expect(nameOf(key)).toMatch(/^[A-Za-z0-9_-]+\.txt$/);
    },
  );

  test.each(["con", "CON", "prn", "Aux", "nul", "com1", "COM0", "lpt9"])("%s is no Windows device", (key) => {
    expect(nameOf(key)).toMatch(new RegExp(`^${key}-[0-9a-f]{16}\\.txt$`));
  });

  test("any key: bounded, in the alphabet, the same every time", () => {
    fc.assert(
      fc.property(fc.oneof(anyUnits, unicode), (key) => {
        const path = blobPathFor("/b", key);
        expect(dirname(path)).toBe(resolve("/b"));
        expect(basename(path)).toMatch(/^[A-Za-z0-9_-]{1,96}\.txt$/);
        expect(blobPathFor("/b", key)).toBe(path);
      }),
    );
  });

  test("any two keys: different names on a case-insensitive disk", () => {
    // A small alphabet, so that near collisions are frequent.
    const key = fc.oneof(
      fc.string({ unit: fc.constantFrom("a", "A", "_", "-", "@", "/", "é"), maxLength: 6 }),
      anyUnits,
    );
    fc.assert(
      fc.property(fc.uniqueArray(key, { minLength: 2, maxLength: 40 }), (keys) => {
        expect(new Set(keys.map((each) => nameOf(each).toLowerCase())).size).toBe(keys.length);
      }),
    );
  });
});

describe("headPreview", () => {
  const bytes = (text: string) => Buffer.byteLength(text, "utf8");

  test("short text stays whole", () => {
    expect(headPreview("", 10)).toBe("");
    expect(headPreview("a\nb\n", 10)).toBe("a\nb\n");
    expect(headPreview("a\nb\n", 4)).toBe("a\nb\n");
    expect(headPreview("one", Number.POSITIVE_INFINITY)).toBe("one");
  });

  test("cuts at the last line that fits, without its newline", () => {
    expect(headPreview("aaa\nbbb\nccc", 10)).toBe("aaa\nbbb");
    expect(headPreview("aaa\nbbb\nccc", 8)).toBe("aaa\nbbb");
    expect(headPreview("aaa\nbbb\nccc", 7)).toBe("aaa\nbbb");
    expect(headPreview("aaa\nbbb\nccc", 6)).toBe("aaa");
    expect(headPreview(`short\n${"x".repeat(5000)}`, 100)).toBe("short");
  });

  test("cuts a giant first line inside", () => {
    expect(headPreview("x".repeat(5000), 2048)).toBe("x".repeat(2048));
    expect(headPreview(`${"x".repeat(50)}\nrest`, 20)).toBe("x".repeat(20));
  });

  test("blank lines alone are no preview", () => {
    expect(headPreview(`\n\n${"x".repeat(50)}`, 10)).toBe("\n\nxxxxxxxx");
    expect(headPreview(`\r\n${"x".repeat(50)}`, 10)).toBe("\r\nxxxxxxxx");
  });

  test("counts bytes and splits no character", () => {
    expect(headPreview("ééééé", 5)).toBe("éé");
    expect(headPreview("😀😀😀", 7)).toBe("😀");
    expect(headPreview("😀😀😀", 8)).toBe("😀😀");
    expect(headPreview("a😀b", 4)).toBe("a");
    expect(headPreview("😀", 3)).toBe("");
    expect(headPreview("日本語\n日本語", 12)).toBe("日本語");
  });

  test.each([0, -1, Number.NaN, 0.5])("no room: %p", (room) => expect(headPreview("abc", room)).toBe(""));

  test("any text: a well-formed prefix within the cap, as long as the rule allows", () => {
    const text = fc.oneof(
      unicode,
      fc.array(unicode, { maxLength: 8 }).map((lines) => lines.join("\n")),
    );
    fc.assert(
      fc.property(text, fc.integer({ min: 0, max: 300 }), (full, room) => {
        const head = headPreview(full, room);
        const rest = full.slice(head.length);
        expect(full.startsWith(head)).toBe(true);
        expect(bytes(head)).toBeLessThanOrEqual(room);
        expect(Buffer.from(head, "utf8").toString("utf8")).toBe(head);
        if (rest === "") return;
        const next = rest.startsWith("\n") ? rest.slice(0, 1) + rest.slice(1).split("\n")[0] : [...rest][0];
        expect(bytes(head + next)).toBeGreaterThan(room);
      }),
    );
  });

  test("a megabyte costs no more than its head", () => {
    const line = `${"word ".repeat(20)}\n`;
    const head = headPreview(line.repeat(20_000), 2048);
    expect(bytes(head)).toBeLessThanOrEqual(2048);
    expect(line.repeat(100).startsWith(`${head}\n`)).toBe(true);
  });
});

test("countLines counts what an editor shows", () => {
  expect(["", "a", "a\n", "a\nb", "a\nb\n", "\n", "\n\n", "a\r\nb"].map(countLines)).toEqual([0, 1, 1, 2, 2, 1, 2, 2]);
});

describe("writeSpill", () => {
  test("writes the whole text and tells where, how long, how many lines", () => {
    const text = "é1\nline 2\nline 3";
    const path = blobPathFor(blobDir, "toolu_01AbC@1796043006275");
    expect(writeSpill({ path, text })).toEqual({ ok: true, path, bytes: 17, lines: 3 });
    expect(fs.readFileSync(path, "utf8")).toBe(text);
    expect(fs.readdirSync(blobDir)).toEqual([basename(path)]);
    expect(readSpill(path, [blobDir])).toBe(text);
  });

  test("a path with dots is normalised", () => {
    const path = `${blobDir}/x/../a.txt`;
    expect(writeSpill({ path, text: "a" })).toMatchObject({ ok: true, path: join(blobDir, "a.txt") });
  });

  test.if(posix)("folder 0700 and file 0600, whatever the umask", () => {
    const path = blobPathFor(blobDir, "a");
    const before = process.umask(0);
    try {
      expect(writeSpill({ path, text: "x" }).ok).toBe(true);
    } finally {
      process.umask(before);
    }
    expect(mode(blobDir)).toBe(0o700);
    expect(mode(path)).toBe(0o600);
  });

  test.if(posix)("an existing folder that others may do anything with is tightened", () => {
    fs.mkdirSync(blobDir);
    for (const given of [0o777, 0o775, 0o755, 0o701, 0o700]) {
      fs.chmodSync(blobDir, given);
      expect(writeSpill({ path: blobPathFor(blobDir, `k${given}`), text: "x" }).ok).toBe(true);
      expect(mode(blobDir)).toBe(0o700);
    }
  });

  test.each([
    ["empty", ""],
    ["a BOM", "\ufeffx"],
    ["NUL and controls", "a\0b\u001b[31m\x7f"],
    ["CRLF and no newline at the end", "a\r\nb\rc"],
    ["astral and combining characters", "😀e\u0301\u{10ffff}\uffff"],
    ["two megabytes", "0123456789abcdé\n".repeat(120_000)],
  ])("%s comes back to the byte", (_name, text) => {
    const path = blobPathFor(blobDir, "a");
    expect(writeSpill({ path, text })).toMatchObject({ ok: true, bytes: Buffer.byteLength(text) });
    expect(readSpill(path, [blobDir])).toBe(text);
  });

  test("any text comes back to the byte, or is refused because it is not well-formed", () => {
    let count = 0;
    fc.assert(
      fc.property(fc.oneof(unicode, anyUnits), (text) => {
        const path = blobPathFor(blobDir, `k${count++}`);
        const wellFormed = !/\p{Surrogate}/u.test(text);
        expect(writeSpill({ path, text }).ok).toBe(wellFormed);
        expect(readSpill(path, [blobDir])).toBe(wellFormed ? text : null);
      }),
    );
  });

  test.each(["a\ud800b", "\udc00", "\udc00\ud800"])("lone surrogates are refused and leave nothing: %j", (text) => {
    expect(reasonOf(writeSpill({ path: blobPathFor(blobDir, "a"), text }))).toContain("well-formed");
    expect(fs.existsSync(blobDir)).toBe(false);
  });

  test("a relative path, as in a session without a folder, is refused", () => {
    const path = blobPathFor(blobDirFor("", "s1"), "a");
    expect(reasonOf(writeSpill({ path, text: "x" }))).toContain("no folder");
    expect(fs.existsSync(path)).toBe(false);
  });

  test("the same content again is fine and writes nothing", () => {
    const path = blobPathFor(blobDir, "a");
    const first = writeSpill({ path, text: "same" });
    const { ino, mtimeMs } = fs.statSync(path);
    expect(writeSpill({ path, text: "same" })).toEqual(first);
    expect(fs.statSync(path)).toMatchObject({ ino, mtimeMs });
    expect(fs.readdirSync(blobDir)).toHaveLength(1);
  });

  test.if(posix)("an identical file that others may read is tightened", () => {
    const path = blobPathFor(blobDir, "a");
    fs.mkdirSync(blobDir);
    fs.writeFileSync(path, "same", { mode: 0o644 });
    expect(writeSpill({ path, text: "same" }).ok).toBe(true);
    expect(mode(path)).toBe(0o600);
  });

  test.each(["other", "longer than it", ""])("another content is never overwritten: %j", (there) => {
    const path = blobPathFor(blobDir, "a");
    expect(writeSpill({ path, text: there }).ok).toBe(true);
    expect(reasonOf(writeSpill({ path, text: "otheR" }))).toContain(path);
    expect(fs.readFileSync(path, "utf8")).toBe(there);
    expect(fs.readdirSync(blobDir)).toHaveLength(1);
  });

  test("a folder in the file's place is refused", () => {
    const path = blobPathFor(blobDir, "a");
    fs.mkdirSync(path, { recursive: true });
    expect(writeSpill({ path, text: "x" }).ok).toBe(false);
    expect(fs.readdirSync(blobDir)).toEqual([basename(path)]);
    expect(fs.readdirSync(path)).toEqual([]);
  });

  test("a file in the folder's place, or above it, is refused", () => {
    fs.writeFileSync(blobDir, "mine");
    expect(writeSpill({ path: blobPathFor(blobDir, "a"), text: "x" }).ok).toBe(false);
    expect(writeSpill({ path: blobPathFor(blobDirFor(blobDir, "s"), "a"), text: "x" }).ok).toBe(false);
    expect(fs.readFileSync(blobDir, "utf8")).toBe("mine");
  });

  test("a symbolic link in the file's place is not followed, even to the same content", () => {
    const path = blobPathFor(blobDir, "a");
    const victim = join(sessionDir, "victim");
    fs.mkdirSync(blobDir);
    for (const content of ["x", "precious"]) {
      fs.writeFileSync(victim, content);
      fs.symlinkSync(victim, path);
      expect(reasonOf(writeSpill({ path, text: "x" }))).toContain(path);
      expect(fs.readFileSync(victim, "utf8")).toBe(content);
      fs.unlinkSync(path);
    }
  });

  test("a dangling symbolic link in the file's place creates nothing", () => {
    const path = blobPathFor(blobDir, "a");
    fs.mkdirSync(blobDir);
    fs.symlinkSync(join(sessionDir, "nowhere"), path);
    expect(writeSpill({ path, text: "x" }).ok).toBe(false);
    expect(fs.readdirSync(sessionDir)).toEqual([basename(blobDir)]);
    expect(fs.readdirSync(blobDir)).toEqual([basename(path)]);
  });

  test("a symbolic link in the folder's place is not followed", () => {
    const elsewhere = join(sessionDir, "elsewhere");
    fs.mkdirSync(elsewhere);
    fs.symlinkSync(elsewhere, blobDir);
    expect(reasonOf(writeSpill({ path: blobPathFor(blobDir, "a"), text: "x" }))).toContain("not a folder");
    expect(fs.readdirSync(elsewhere)).toEqual([]);
    fs.unlinkSync(blobDir);
    fs.symlinkSync(join(sessionDir, "nowhere"), blobDir);
    expect(writeSpill({ path: blobPathFor(blobDir, "a"), text: "x" }).ok).toBe(false);
    expect(fs.existsSync(join(sessionDir, "nowhere"))).toBe(false);
  });

  test.if(root)("a folder planted by another user is refused, one of the session folder's owner is used", () => {
    const path = blobPathFor(blobDir, "a");
    fs.mkdirSync(blobDir);
    fs.chownSync(blobDir, 12345, 12345);
    expect(reasonOf(writeSpill({ path, text: "x" }))).toContain("owner");
    expect(fs.readdirSync(blobDir)).toEqual([]);
    fs.chownSync(sessionDir, 12345, 12345);
    expect(writeSpill({ path, text: "x" }).ok).toBe(true);
  });

  test.if(posix && !root)("an unwritable folder is refused", () => {
    fs.mkdirSync(blobDir, { mode: 0o500 });
    expect(writeSpill({ path: blobPathFor(blobDir, "a"), text: "x" }).ok).toBe(false);
    expect(fs.readdirSync(blobDir)).toEqual([]);
  });

  describe("with a failing disk", () => {
    const half: SpillIo["writeFileSync"] = (file, data) => {
      fs.writeFileSync(file, (data as Buffer).subarray(0, 2));
      failing("ENOSPC")();
    };
    const noLinks = { linkSync: failing("EPERM") };

    test.each<[string, Partial<SpillIo>]>([
      ["no folder can be made", { mkdirSync: failing("EROFS") }],
      ["the folder cannot be inspected", { lstatSync: failing("EACCES") }],
      ["no file can be made", { openSync: failing("EACCES") }],
      ["it is full before the first byte", { writeFileSync: failing("ENOSPC") }],
      ["it is full half-way", { writeFileSync: half }],
      ["it is full at the sync", { fsyncSync: failing("ENOSPC") }],
      ["it is full, without links, at the rename", { ...noLinks, renameSync: failing("ENOSPC") }],
    ])("%s: a reason, and nothing is left", (_name, faults) => {
      const path = blobPathFor(blobDir, "a");
      const reason = reasonOf(writeSpill({ path, text: "secret text" }, { ...fs, ...faults }));
      expect(reason).toMatch(/EROFS|EACCES|ENOSPC/);
      expect(reason).not.toContain("secret");
      expect(fs.existsSync(blobDir) ? fs.readdirSync(blobDir) : []).toEqual([]);
      // The disk has room again: nothing of the failure stands in the way.
      expect(writeSpill({ path, text: "secret text" }).ok).toBe(true);
    });

    test.if(process.platform === "linux")("a device that is really full", () => {
      const openSync: SpillIo["openSync"] = (path, flags, fileMode) => {
        const file = fs.openSync(path, flags, fileMode);
        if (!String(path).endsWith(".tmp")) return file;
        fs.closeSync(file);
        return fs.openSync("/dev/full", "w");
      };
      const result = writeSpill({ path: blobPathFor(blobDir, "a"), text: "x".repeat(70_000) }, { ...fs, openSync });
      expect(reasonOf(result)).toContain("ENOSPC");
      expect(fs.readdirSync(blobDir)).toEqual([]);
    });

    test("what is only welcome may fail", () => {
      const fsyncSync = (file: number) => (fs.fstatSync(file).isDirectory() ? failing("EINVAL")() : undefined);
      const io: SpillIo = { ...fs, fsyncSync, chmodSync: failing("EPERM"), fchmodSync: failing("EPERM") };
      fs.mkdirSync(blobDir);
      fs.chmodSync(blobDir, 0o777);
      const path = blobPathFor(blobDir, "a");
      expect(writeSpill({ path, text: "x" }, io).ok).toBe(true);
      fs.chmodSync(path, 0o644);
      expect(writeSpill({ path, text: "x" }, io).ok).toBe(true);
    });

    test("without hard links the file is written all the same, and never over another", () => {
      const io: SpillIo = { ...fs, ...noLinks };
      const path = blobPathFor(blobDir, "a");
      expect(writeSpill({ path, text: "x" }, io)).toEqual({ ok: true, path, bytes: 1, lines: 1 });
      if (posix) expect(mode(path)).toBe(0o600);
      expect(writeSpill({ path, text: "x" }, io).ok).toBe(true);
      expect(writeSpill({ path, text: "y" }, io).ok).toBe(false);
      expect(fs.readdirSync(blobDir)).toEqual([basename(path)]);
    });

    test.each<[string, Partial<SpillIo>]>([
      ["with links", {}],
      ["without links", noLinks],
    ])("another process that writes the file meanwhile, %s", (_name, faults) => {
      for (const there of ["mine", "theirs"]) {
        const path = blobPathFor(blobDir, there);
        const fsyncSync = (file: number) => {
          fs.fsyncSync(file);
          fs.writeFileSync(path, there);
        };
        const result = writeSpill({ path, text: "mine" }, { ...fs, ...faults, fsyncSync });
        expect(result.ok).toBe(there === "mine");
        expect(fs.readFileSync(path, "utf8")).toBe(there);
      }
      expect(fs.readdirSync(blobDir).sort()).toEqual(["mine.txt", "theirs.txt"]);
    });
  });
});

describe("readSpill", () => {
  let path: string;

  beforeEach(() => {
    path = blobPathFor(blobDir, "a");
    writeSpill({ path, text: "body" });
  });

  test("reads a blob of an allowed folder", () => {
    expect(readSpill(path, [blobDir])).toBe("body");
    expect(readSpill(path, [join(sessionDir, "other-blobs"), blobDir])).toBe("body");
    expect(readSpill(`${blobDir}/../${basename(blobDir)}/a.txt`, [`${blobDir}/`])).toBe("body");
  });

  test("gives null where it is missing or the folder is not allowed", () => {
    expect(readSpill(blobPathFor(blobDir, "b"), [blobDir])).toBeNull();
    expect(readSpill(path, [])).toBeNull();
    expect(readSpill(path, [blobDirFor(sessionDir, "other")])).toBeNull();
    expect(readSpill(path, [sessionDir])).toBeNull();
  });

  test("gives null for every way out of the folder", () => {
    const outside = join(sessionDir, "outside.txt");
    fs.writeFileSync(outside, "precious");
    fs.mkdirSync(join(blobDir, "sub"));
    fs.writeFileSync(join(blobDir, "sub", "a.txt"), "precious");
    fs.writeFileSync(join(blobDir, "a.txt.0123.tmp"), "half");
    const ways = ["../outside.txt", "sub/a.txt", "a.txt.0123.tmp", "", ".", "..", "a", "a.txt\0"];
    for (const way of ways) {
      expect([way, readSpill(`${blobDir}/${way}`, [blobDir])]).toEqual([way, null]);
    }
    for (const other of [outside, "/etc/passwd", "a.txt", relative(process.cwd(), path), ""]) {
      expect([other, readSpill(other, [blobDir, ""])]).toEqual([other, null]);
    }
    expect(readSpill("/etc/passwd", ["/etc"])).toBeNull();
  });

  test("follows no symbolic link, for the file or for the folder", () => {
    const victim = join(sessionDir, "victim.txt");
    fs.writeFileSync(victim, "precious");
    fs.symlinkSync(victim, join(blobDir, "link.txt"));
    expect(readSpill(join(blobDir, "link.txt"), [blobDir])).toBeNull();
    const linked = blobDirFor(sessionDir, "linked");
    fs.symlinkSync(blobDir, linked);
    expect(readSpill(join(linked, "a.txt"), [linked])).toBeNull();
  });

  test("reads only regular files", () => {
    fs.mkdirSync(join(blobDir, "folder.txt"));
    expect(readSpill(join(blobDir, "folder.txt"), [blobDir])).toBeNull();
  });

  test.if(posix)("does not wait at a pipe", () => {
    const pipe = join(blobDir, "pipe.txt");
    expect(Bun.spawnSync(["mkfifo", pipe]).exitCode).toBe(0);
    expect(readSpill(pipe, [blobDir])).toBeNull();
    expect(writeSpill({ path: pipe, text: "x" }).ok).toBe(false);
  });

  test("what is not UTF-8 was not written by us", () => {
    fs.writeFileSync(path, Buffer.from([0x61, 0xff, 0x62]));
    expect(readSpill(path, [blobDir])).toBeNull();
  });
});

describe("resolveSpillPath", () => {
  const NAMES = new Set(["01a22c81-5d9a-74aa-adf3-0e4264bc84ea-blobs", "linked-blobs"]);
  let path: string;

  beforeEach(() => {
    path = blobPathFor(blobDir, "a");
    writeSpill({ path, text: "body" });
  });

  test("the recorded path, where it is in a session folder", () => {
    expect(resolveSpillPath(path, [sessionDir], NAMES)).toBe(path);
    expect(resolveSpillPath(path, ["", "/nowhere", `${sessionDir}/`], NAMES)).toBe(path);
  });

  test("a fork, which has another id in the same folder, finds the blob of its parent", () => {
    writeSpill({ path: blobPathFor(blobDirFor(sessionDir, "fork"), "b"), text: "body of the fork" });
    expect(resolveSpillPath(path, [sessionDir], NAMES)).toBe(path);
  });

  test("a moved session folder: the same names below the new one", () => {
    const moved = join(sessionDir, "moved");
    fs.mkdirSync(moved);
    fs.renameSync(blobDir, join(moved, basename(blobDir)));
    const now = join(moved, basename(blobDir), "a.txt");
    expect(resolveSpillPath(path, [moved], NAMES)).toBe(now);
    expect(resolveSpillPath(path, [sessionDir, moved], NAMES)).toBe(now);
    expect(resolveSpillPath(`C:\\Users\\x\\${basename(blobDir)}\\a.txt`, [moved], NAMES)).toBe(now);
    expect(resolveSpillPath(path, [sessionDir], NAMES)).toBeNull();
  });

  test("the recorded path wins over a namesake in an earlier folder", () => {
    const copy = join(sessionDir, "copy");
    fs.cpSync(blobDir, join(copy, basename(blobDir)), { recursive: true });
    expect(resolveSpillPath(path, [copy, sessionDir], NAMES)).toBe(path);
    expect(resolveSpillPath(path, [copy], NAMES)).toBe(join(copy, basename(blobDir), "a.txt"));
  });

  test("names of earlier releases are found", () => {
    const legacy = join(blobDir, `${"Call_2_1_5".repeat(20)}.txt`);
    fs.writeFileSync(legacy, "old");
    expect(resolveSpillPath(legacy, [sessionDir], NAMES)).toBe(legacy);
    expect(readSpill(legacy, [blobDir])).toBe("old");
  });

  test("nothing but blobs of the given folders can be reached", () => {
    fs.writeFileSync(join(sessionDir, "secret.txt"), "precious");
    fs.writeFileSync(join(blobDir, "note.md"), "precious");
    const folder = basename(blobDir);
    for (const forged of [
      "",
      "a.txt",
      "/etc/passwd",
      join(sessionDir, "secret.txt"),
      `${blobDir}/../secret.txt`,
      `${blobDir}/note.md`,
      `${blobDir}/`,
      `${blobDir}/..`,
      `${folder}/../../etc/passwd`,
      `/x/../${folder}/..\\..\\secret.txt`,
      "/-blobs/a.txt",
      blobPathFor(blobDir, "missing"),
    ]) {
      expect([forged, resolveSpillPath(forged, [sessionDir], NAMES)]).toEqual([forged, null]);
    }
    expect(resolveSpillPath(path, [], NAMES)).toBeNull();
    expect(resolveSpillPath(path, [""], NAMES)).toBeNull();
  });

  test("a blob of a session that this one does not come from is out of reach", () => {
    const victim = blobPathFor(blobDirFor(sessionDir, "victim"), "secret_1");
    writeSpill({ path: victim, text: "precious" });
    expect(resolveSpillPath(victim, [sessionDir], NAMES)).toBeNull();
  });

  test("links and folders are no blobs", () => {
    fs.symlinkSync(path, join(blobDir, "link.txt"));
    fs.symlinkSync(blobDir, join(sessionDir, "linked-blobs"));
    fs.mkdirSync(join(blobDir, "folder.txt"));
    expect(resolveSpillPath(join(blobDir, "link.txt"), [sessionDir], NAMES)).toBeNull();
    expect(resolveSpillPath(join(sessionDir, "linked-blobs", "a.txt"), [sessionDir], NAMES)).toBeNull();
    expect(resolveSpillPath(join(blobDir, "folder.txt"), [sessionDir], NAMES)).toBeNull();
  });

  test("any string: null, or a blob below one of the folders", () => {
    const piece = fc.constantFrom("..", ".", "", "/", "\\", basename(blobDir), "a.txt", "-blobs", "x", "\0");
    fc.assert(
      fc.property(
        fc.oneof(
          fc.array(piece).map((parts) => parts.join("/")),
          anyUnits,
        ),
        (recorded) => {
          const found = resolveSpillPath(recorded, [sessionDir], NAMES);
          expect(found === null || found === path).toBe(true);
        },
      ),
    );
  });
});

describe("isAsWritten", () => {
  const record = (content: CapturedToolCall["content"], text: string) => {
    const call = { toolName: "fetch", isError: false, content };
    return { ...call, contentHash: contentHash(call), spillBytes: Buffer.byteLength(text) };
  };
  const block = (text: string) => ({ type: "text" as const, text });

  test("a text is known by its hash, also against one of the same length", () => {
    expect(isAsWritten("body", record([block("body")], "body"))).toBe(true);
    expect(isAsWritten("bodY", record([block("body")], "body"))).toBeUndefined();
    expect(isAsWritten("short", record([block("body")], "body"))).toBe(false);
  });

  test("of several blocks it cannot be told, and of a record without a hash the length decides", () => {
    expect(isAsWritten("a\nb", record([block("a"), block("b")], "a\nb"))).toBeUndefined();
    expect(isAsWritten("bodY", { toolName: "fetch", isError: false, spillBytes: 4 })).toBe(true);
  });
});
