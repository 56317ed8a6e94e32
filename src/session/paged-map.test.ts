import { expect, test } from "bun:test";
import fc from "fast-check";
import { PagedMap } from "./paged-map.js";

test("holds what a map would hold, in the same order, over many pages", () => {
  const operation = fc.record({ key: fc.integer({ min: 0, max: 5_000 }), value: fc.integer() });
  fc.assert(
    fc.property(fc.array(operation, { minLength: 2_000, maxLength: 4_000, size: "max" }), (operations) => {
      const map = new Map<string, { value: number }>();
      const paged = new PagedMap<{ value: number }>();
      for (const { key, value } of operations) {
        map.set(`k${key}`, { value });
        paged.set(`k${key}`, { value });
      }
      expect([...paged]).toEqual([...map]);
      expect([...paged.keys()]).toEqual([...map.keys()]);
      expect([...paged.values()]).toEqual([...map.values()]);
      expect(paged.size).toBe(map.size);
      for (const key of ["k0", "k17", "k2500", "none"]) {
        expect(paged.get(key)).toEqual(map.get(key));
        expect(paged.has(key)).toBe(map.has(key));
      }
    }),
    { numRuns: 5 },
  );
});

test("an added entry is found as one that was set", () => {
  const paged = new PagedMap<object>();
  const value = {};
  paged.add("key", value);
  expect(paged.get("key")).toBe(value);
  expect([...paged]).toEqual([["key", value]]);
});
