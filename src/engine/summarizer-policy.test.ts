import { describe, expect, test } from "bun:test";
import type { ModelChoice, SummaryModel } from "../summarizer.ts";
import type { Trouble, TroubleKind } from "../summary/trouble.ts";
import { type Attempt, PROBE_COOLDOWN_MS, SummarizerPolicy } from "./summarizer-policy.ts";

function model(name: string): SummaryModel {
  return { name, maxInputTokens: 10_000, open: () => Promise.reject(new Error("not opened here")) };
}

const CHEAP = model("p/cheap");
const MAIN = model("p/main");
const BOTH: ModelChoice = { configured: CHEAP, session: MAIN };
const ALONE: ModelChoice = { configured: MAIN };

/** A policy whose models fail in a given way or work, with a clock that a test moves. */
class Trial {
  readonly asked: string[] = [];
  readonly told: [string, TroubleKind, string][] = [];
  readonly failing = new Map<string, TroubleKind>();
  time = 1_000;
  readonly policy = new SummarizerPolicy(
    { onTrouble: (name, { kind, detail }) => this.told.push([name, kind, detail]) },
    () => this.time,
  );

  attempt = async ({ name }: SummaryModel): Promise<Attempt<string>> => {
    this.asked.push(name);
    await Promise.resolve();
    const kind = this.failing.get(name);
    const trouble: Trouble | undefined = kind && { kind, detail: `${kind} of ${name}` };
    return trouble ? { trouble } : { value: `by ${name}` };
  };

  /** One flush with `batches` requests, one after the other. */
  async flush(choice: ModelChoice, batches = 1): Promise<(string | null)[]> {
    this.policy.flushBegins();
    const values: (string | null)[] = [];
    for (let i = 0; i < batches; i++) values.push(await this.policy.ask(choice, this.attempt));
    return values;
  }

  /** Names that were asked since the last time. */
  takeAsked(): string[] {
    return this.asked.splice(0);
  }
}

describe("a model that works", () => {
  test("is asked, and nobody else", async () => {
    const trial = new Trial();
    expect(await trial.flush(BOTH, 3)).toEqual(["by p/cheap", "by p/cheap", "by p/cheap"]);
    expect(trial.asked).toEqual(["p/cheap", "p/cheap", "p/cheap"]);
    expect(trial.told).toEqual([]);
  });
});

describe("passing trouble with another model at hand", () => {
  test.each<TroubleKind>(["busy", "network", "timeout", "failed"])(
    "%s: the same request goes to the session's model, later ones at once",
    async (kind) => {
      const trial = new Trial();
      trial.failing.set("p/cheap", kind);
      expect(await trial.flush(BOTH, 3)).toEqual(["by p/main", "by p/main", "by p/main"]);
      expect(trial.asked).toEqual(["p/cheap", "p/main", "p/main", "p/main"]);
      expect(trial.told).toEqual([["p/cheap", kind, `${kind} of p/cheap`]]);
    },
  );

  test("ten failing flushes ask the dead model once; after the cooldown one request probes it, and it is back", async () => {
    const trial = new Trial();
    trial.failing.set("p/cheap", "network");
    for (let i = 0; i < 10; i++) expect(await trial.flush(BOTH, 2)).toEqual(["by p/main", "by p/main"]);
    expect(trial.takeAsked().filter((name) => name === "p/cheap")).toHaveLength(1);

    trial.time += PROBE_COOLDOWN_MS - 1;
    await trial.flush(BOTH);
    expect(trial.takeAsked()).toEqual(["p/main"]);
    trial.time += 1;
    expect(await trial.flush(BOTH)).toEqual(["by p/main"]);
    expect(trial.takeAsked()).toEqual(["p/cheap", "p/main"]);

    trial.failing.clear();
    await trial.flush(BOTH);
    expect(trial.takeAsked()).toEqual(["p/main"]);
    trial.time += PROBE_COOLDOWN_MS;
    expect(await trial.flush(BOTH, 2)).toEqual(["by p/cheap", "by p/cheap"]);
    expect(trial.takeAsked()).toEqual(["p/cheap", "p/cheap"]);
    expect(trial.told).toHaveLength(1);
  });

  test("one request probes, others go on with the session's model meanwhile", async () => {
    const trial = new Trial();
    trial.failing.set("p/cheap", "network");
    await trial.flush(BOTH);
    trial.takeAsked();
    trial.time += PROBE_COOLDOWN_MS;
    const values = await Promise.all(Array.from({ length: 3 }, () => trial.policy.ask(BOTH, trial.attempt)));
    expect(values).toEqual(["by p/main", "by p/main", "by p/main"]);
    expect(trial.asked.filter((name) => name === "p/cheap")).toHaveLength(1);
  });

  test("a probe that the user ends is no verdict: the next request probes again", async () => {
    const trial = new Trial();
    trial.failing.set("p/cheap", "network");
    await trial.flush(BOTH);
    trial.time += PROBE_COOLDOWN_MS;
    trial.failing.set("p/cheap", "cancelled");
    expect(await trial.flush(BOTH)).toEqual([null]);
    trial.failing.clear();
    trial.takeAsked();
    expect(await trial.flush(BOTH)).toEqual(["by p/cheap"]);
  });

  test("both down: each is told of once, and each flush asks each of them once at most", async () => {
    const trial = new Trial();
    trial.failing.set("p/cheap", "network").set("p/main", "busy");
    for (let i = 0; i < 10; i++) expect(await trial.flush(BOTH, 5)).toEqual([null, null, null, null, null]);
    expect(trial.asked.filter((name) => name === "p/cheap")).toHaveLength(10);
    expect(trial.asked.filter((name) => name === "p/main")).toHaveLength(10);
    expect(trial.told.map(([name, kind]) => [name, kind])).toEqual([
      ["p/cheap", "network"],
      ["p/main", "busy"],
    ]);
  });
});

describe("passing trouble with no other model", () => {
  test("ten failing flushes ask the dead model ten times; then it works, for all that waits", async () => {
    const trial = new Trial();
    trial.failing.set("p/main", "network");
    for (let i = 0; i < 10; i++) await trial.flush(ALONE, 5);
    expect(trial.takeAsked()).toHaveLength(10);
    trial.failing.clear();
    expect(await trial.flush(ALONE, 3)).toEqual(["by p/main", "by p/main", "by p/main"]);
    expect(trial.told).toHaveLength(1);
  });

  test("requests at the same time probe it once", async () => {
    const trial = new Trial();
    trial.failing.set("p/main", "network");
    await trial.flush(ALONE);
    trial.takeAsked();
    trial.policy.flushBegins();
    await Promise.all(Array.from({ length: 4 }, () => trial.policy.ask(ALONE, trial.attempt)));
    expect(trial.asked).toHaveLength(1);
  });

  test("requests that find it being probed wait for what comes of it", async () => {
    const trial = new Trial();
    trial.failing.set("p/main", "network");
    await trial.flush(ALONE);
    trial.failing.clear();
    trial.takeAsked();
    trial.policy.flushBegins();
    const values = await Promise.all(Array.from({ length: 4 }, () => trial.policy.ask(ALONE, trial.attempt)));
    expect(values).toEqual(["by p/main", "by p/main", "by p/main", "by p/main"]);
    expect(trial.asked).toHaveLength(4);
  });

  test("the session's model under both names is one model", async () => {
    const trial = new Trial();
    trial.failing.set("p/main", "network");
    await trial.flush({ configured: MAIN, session: model("p/main") });
    expect(trial.asked).toEqual(["p/main"]);
  });

  test("outside a flush a model that is down is left alone, and said not to be available", async () => {
    const trial = new Trial();
    trial.failing.set("p/main", "network");
    expect(trial.policy.isAvailable(ALONE)).toBe(true);
    await trial.flush(ALONE);
    trial.takeAsked();
    expect(trial.policy.isAvailable(ALONE)).toBe(false);
    expect(await trial.policy.ask(ALONE, trial.attempt)).toBeNull();
    expect(trial.asked).toEqual([]);
    expect(trial.policy.isAvailable(BOTH)).toBe(true);
    trial.time += PROBE_COOLDOWN_MS;
    expect(trial.policy.isAvailable(ALONE)).toBe(true);
  });
});

describe("refused credentials", () => {
  test.each([
    ["alone", ALONE],
    ["with another model at hand, which the user has not chosen to pay for", BOTH],
  ])("are told once with a remedy, and not tried again before the cooldown is over: %s", async (_which, choice) => {
    const trial = new Trial();
    const { name } = choice.configured;
    trial.failing.set(name, "auth");
    for (let i = 0; i < 10; i++) expect(await trial.flush(choice, 3)).toEqual([null, null, null]);
    expect(trial.takeAsked()).toEqual([name]);
    expect(trial.told).toEqual([[name, "auth", expect.stringMatching(/^auth of .*summarizerModel.*\/pruner model/)]]);
    expect(trial.policy.isAvailable(choice)).toBe(false);

    trial.time += PROBE_COOLDOWN_MS;
    await trial.flush(choice, 3);
    expect(trial.takeAsked()).toEqual([name]);
    expect(trial.told).toHaveLength(1);
  });

  test("are tried again as soon as the user asks for it", async () => {
    const trial = new Trial();
    trial.failing.set("p/main", "auth");
    await trial.flush(ALONE);
    trial.failing.clear();
    trial.policy.forgive();
    expect(await trial.flush(ALONE)).toEqual(["by p/main"]);
  });

  test("are probed by one request, for which the others wait", async () => {
    const trial = new Trial();
    trial.failing.set("p/cheap", "auth");
    await trial.flush(BOTH);
    trial.time += PROBE_COOLDOWN_MS;
    trial.takeAsked();
    const failed = await Promise.all(Array.from({ length: 3 }, () => trial.policy.ask(BOTH, trial.attempt)));
    expect([failed, trial.takeAsked()]).toEqual([[null, null, null], ["p/cheap"]]);
    trial.time += PROBE_COOLDOWN_MS;
    trial.failing.clear();
    const values = await Promise.all(Array.from({ length: 3 }, () => trial.policy.ask(BOTH, trial.attempt)));
    expect(values).toEqual(["by p/cheap", "by p/cheap", "by p/cheap"]);
  });

  test("of the session's model do not keep the configured one from work", async () => {
    const trial = new Trial();
    trial.failing.set("p/cheap", "network").set("p/main", "auth");
    await trial.flush(BOTH);
    trial.failing.clear();
    trial.time += PROBE_COOLDOWN_MS;
    expect(await trial.flush(BOTH)).toEqual(["by p/cheap"]);
  });
});

describe("a fault of a reply", () => {
  test.each<TroubleKind>(["cut", "empty", "refused"])(
    "%s: no other model is asked, and the next request goes out as ever",
    async (kind) => {
      const trial = new Trial();
      trial.failing.set("p/cheap", kind);
      expect(await trial.flush(BOTH)).toEqual([null]);
      expect(await trial.flush(BOTH)).toEqual([null]);
      expect(trial.asked).toEqual(["p/cheap", "p/cheap"]);
      expect(trial.told).toHaveLength(1);
      expect(trial.policy.isAvailable(BOTH)).toBe(true);
    },
  );

  test("shows that a model which was down is back", async () => {
    const trial = new Trial();
    trial.failing.set("p/main", "network");
    await trial.flush(ALONE);
    trial.failing.set("p/main", "cut");
    await trial.flush(ALONE);
    expect(trial.policy.isAvailable(ALONE)).toBe(true);
  });

  test.each<TroubleKind>(["unusable", "cancelled"])("%s is nothing to tell", async (kind) => {
    const trial = new Trial();
    trial.failing.set("p/cheap", kind);
    expect(await trial.flush(BOTH)).toEqual([null]);
    expect(trial.told).toEqual([]);
    expect(trial.asked).toEqual(["p/cheap"]);
  });
});

describe("notices", () => {
  test("one for each kind of trouble, and again once the model has worked", async () => {
    const trial = new Trial();
    for (const kind of ["network", "busy", "network", "cut"] as const) {
      trial.failing.set("p/main", kind);
      await trial.flush(ALONE);
    }
    expect(trial.told.map(([, kind]) => kind)).toEqual(["network", "busy", "cut"]);
    trial.failing.clear();
    await trial.flush(ALONE);
    trial.failing.set("p/main", "network");
    await trial.flush(ALONE);
    expect(trial.told.map(([, kind]) => kind)).toEqual(["network", "busy", "cut", "network"]);
  });
});

test("an attempt that throws leaves the model as it was", async () => {
  const trial = new Trial();
  trial.failing.set("p/main", "network");
  await trial.flush(ALONE);
  trial.failing.clear();
  trial.policy.flushBegins();
  await expect(trial.policy.ask(ALONE, () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
  expect(await trial.flush(ALONE)).toEqual(["by p/main"]);
});
