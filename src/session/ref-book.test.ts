import { describe, expect, test } from "bun:test";
import { RefBook } from "./ref-book.ts";

function bookOf(...names: [string, string][]): RefBook {
  const book = new RefBook("t");
  for (const [ref, key] of names) book.add(ref, key);
  return book;
}

describe("RefBook", () => {
  test("says which occurrence a ref names", () => {
    const book = bookOf(["t1", "a@1"], ["t2", "b@2"]);
    expect(book.keysOf("t2")).toEqual(["b@2"]);
    expect(book.keysOf("t3")).toEqual([]);
    expect(book.refs()).toEqual(["t1", "t2"]);
  });

  test("a ref that was given twice names both, in the order in which they came", () => {
    const book = bookOf(["t1", "a@1"], ["t1", "b@2"], ["t1", "a@1"], ["t1", "b@2"]);
    expect(book.keysOf("t1")).toEqual(["a@1", "b@2"]);
    expect(book.refs()).toEqual(["t1"]);
  });

  test.each(["t1e3", "t1000 ", "t+1000", "t0x3e8", "t", "x1000", "t01000"])("%p is not the ref of t1000", (name) => {
    expect(bookOf(["t1000", "a@1"]).keysOf(name)).toEqual([]);
  });

  test("names far apart, with a zero in front, or of another letter are told apart", () => {
    const names: [string, string][] = [
      ["t90000", "a@1"],
      ["t2", "b@2"],
      ["t02", "c@3"],
      ["b2", "d@4"],
      ["t900000", "e@5"],
    ];
    const book = bookOf(...names, ["t90000", "f@6"]);
    expect(names.map(([name]) => book.keysOf(name))).toEqual([["a@1", "f@6"], ["b@2"], ["c@3"], ["d@4"], ["e@5"]]);
    expect(book.refs().sort()).toEqual(names.map(([name]) => name).sort());
  });

  test("new numbers go on from the highest, and from those given away beside the book", () => {
    const book = bookOf(["t7", "a@1"], ["t3", "b@2"]);
    expect(book.next(0)).toBe(8);
    expect(book.next(11)).toBe(12);
  });

  test("a number that no session comes to answers, and does not use up the others", () => {
    const book = bookOf(["t9999999", "a@1"], ["t3", "b@2"]);
    expect(book.keysOf("t9999999")).toEqual(["a@1"]);
    expect(book.next(0)).toBe(4);
  });

  test("a number that is taken is never given", () => {
    expect(bookOf(["t999999", "a@1"], ["t1000000", "b@2"]).next(0)).toBe(1_000_001);
  });

  test("the lowest free names are found one after the other, in linear time", () => {
    const book = bookOf(["t2", "a@1"]);
    const given = Array.from({ length: 20_000 }, (_, i) => {
      const ref = book.lowestFree();
      book.add(ref, `k@${i}`);
      return ref;
    });
    expect(given.slice(0, 3)).toEqual(["t1", "t3", "t4"]);
    expect(new Set(given).size).toBe(20_000);
  });
});
