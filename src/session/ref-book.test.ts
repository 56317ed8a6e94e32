import { describe, expect, test } from "bun:test";
import { RefBook } from "./ref-book.js";

function bookOf(...names: [string, string][]): RefBook {
  const book = new RefBook();
  for (const [ref, key] of names) book.add(ref, key);
  return book;
}

describe("RefBook", () => {
  test("says which occurrence a ref names", () => {
    const book = bookOf(["t1", "a@1"], ["t2", "b@2"]);
    expect(book.keysOf("t2")).toEqual(["b@2"]);
    expect(book.has("t1")).toBe(true);
    expect(book.has("t3")).toBe(false);
    expect(book.highest).toBe(2);
  });

  test("a ref that was given twice names both, in the order in which they came", () => {
    const book = bookOf(["t1", "a@1"], ["t1", "b@2"], ["t1", "a@1"], ["t1", "b@2"]);
    expect(book.keysOf("t1")).toEqual(["a@1", "b@2"]);
    expect(book.refs()).toEqual(["t1"]);
  });

  test("refs may come in any order, and leave numbers out", () => {
    const book = bookOf(["t7", "a@1"], ["t3", "b@2"]);
    expect(book.keysOf("t3")).toEqual(["b@2"]);
    expect(book.has("t5")).toBe(false);
    expect(book.refs()).toEqual(["t3", "t7"]);
    expect(book.highest).toBe(7);
  });

  test("refs of another form are names like any other", () => {
    const book = bookOf(["t007", "a@1"], ["b7", "b@2"], ["t7", "c@3"], ["t0", "d@4"]);
    for (const [ref, key] of [
      ["t007", "a@1"],
      ["b7", "b@2"],
      ["t7", "c@3"],
      ["t0", "d@4"],
    ] as const)
      expect(book.keysOf(ref)).toEqual([key]);
    expect(book.refs().toSorted()).toEqual(["b7", "t0", "t007", "t7"]);
  });

  test.each(["t1e3", "t1000 ", "t+1000", "t0x3e8", "t", "x1000"])("%p is not the ref of t1000", (name) => {
    const book = bookOf(["t1000", "a@1"]);
    expect(book.keysOf("t1000")).toEqual(["a@1"]);
    expect(book.keysOf(name)).toEqual([]);
  });

  test("a number far beyond the others takes no memory for those between", () => {
    const book = bookOf(["t9999999", "a@1"], ["t1", "b@2"], ["t9999999", "c@3"]);
    expect(book.keysOf("t9999999")).toEqual(["a@1", "c@3"]);
    expect(book.refs()).toEqual(["t1", "t9999999"]);
    expect(book.highest).toBe(9_999_999);
  });

  test("what is given out may be changed", () => {
    const book = bookOf(["t1", "a@1"], ["t9999999", "b@2"]);
    for (const ref of ["t1", "t9999999"]) book.keysOf(ref).push("other");
    expect([...book.keysOf("t1"), ...book.keysOf("t9999999")]).toEqual(["a@1", "b@2"]);
  });
});
