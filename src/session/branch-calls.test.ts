import { expect, test } from "bun:test";
import { BranchCalls } from "./branch-calls.ts";
import { callOfRecord, type IndexedCall } from "./index-calls.ts";

function call(id: string, shortId: string): IndexedCall {
  const base = { toolName: "read", args: {}, resultText: "text", isError: false, turnIndex: 0, timestamp: 1 };
  return callOfRecord({ ...base, toolCallId: id, resultTimestamp: 2 }, shortId);
}

/** Calls of two branches; the file has `a` and `b`, and gives `a` for its repeat `r@2` too. */
function branches() {
  const [a, b, other] = [call("a", "t1"), call("b", "t2"), call("b", "t9")];
  const file = new Map([
    ["a@2", a],
    ["b@2", b],
    ["r@2", a],
  ]);
  const [one, two] = [new BranchCalls((key) => file.get(key)), new BranchCalls((key) => file.get(key))];
  return { a, b, other, one, two };
}

test("gives what was added, in this order, be it the call of the file or another", () => {
  const { a, other, one } = branches();
  expect([one.add(other), one.add(a), one.add(a), one.add(call("b", "t7"))]).toEqual([true, true, false, false]);
  expect([one.get("b@2"), one.get("a@2"), one.get("r@2")]).toEqual([other, a, undefined]);
  expect([one.size, one.keys(), [...one.values()]]).toEqual([2, ["b@2", "a@2"], [other, a]]);
});

test("what the file has is on the branch only once it is added, and no longer once it is taken out", () => {
  const { a, b, other, one } = branches();
  for (const added of [a, other]) one.add(added);
  one.delete("a@2");
  one.delete("b@2");
  one.delete("gone@2");
  expect([one.size, one.has("a@2"), one.has("b@2")]).toEqual([0, false, false]);
  one.add(b);
  expect(one.get("b@2")).toBe(b);
});

test("a call belongs to the branch that was followed last", () => {
  const { a, one, two } = branches();
  one.add(a);
  two.add(a);
  expect([one.has("a@2"), two.has("a@2")]).toEqual([false, true]);
});
