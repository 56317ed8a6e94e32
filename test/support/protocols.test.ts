import { expect, test } from "bun:test";
import { newProblems } from "./protocols.ts";

test("problems are new where they were not there, or not as often, wherever they stand", () => {
  expect(newProblems(["7: empty text", "end: a never answered"], ["3: empty text"])).toEqual(["end: a never answered"]);
  expect(newProblems(["7: empty text", "9: empty text"], ["3: empty text"])).toEqual(["9: empty text"]);
  expect(newProblems(["7: unknown role"], ["7: empty text", "8: empty text"])).toEqual(["7: unknown role"]);
  expect(newProblems([], ["3: empty text"])).toEqual([]);
});
