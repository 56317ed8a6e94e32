/** The models that can summarise, with what they cost. */
import type { Api, Model } from "@mariozechner/pi-ai";
import type { HostSnapshot } from "../host/host.ts";
import { findModel } from "../host/models.ts";
import { short } from "./paint.ts";

/** `provider/id`. */
export function modelName(model: Pick<Model<Api>, "provider" | "id">): string {
  return `${model.provider}/${model.id}`;
}

/** `$0.25 in, $1.25 out per million tokens, window 200k`. */
export function describePrices({ cost, contextWindow }: Pick<Model<Api>, "cost" | "contextWindow">): string {
  const free = cost.input === 0 && cost.output === 0;
  const prices = free ? "no price known" : `$${price(cost.input)} in, $${price(cost.output)} out per million tokens`;
  return `${prices}, window ${short(contextWindow)}`;
}

function price(value: number): string {
  return value.toFixed(2);
}

/** Names of all models that have a key, with their prices; the session's own first. */
export function modelChoices({ models, model }: Pick<HostSnapshot, "models" | "model">): {
  value: string;
  label: string;
}[] {
  const available = [...models.getAvailable()].sort((a, b) => modelName(a).localeCompare(modelName(b)));
  const own = available.filter((candidate) => model && modelName(candidate) === modelName(model));
  const others = available.filter((candidate) => !own.includes(candidate));
  return [...own, ...others].map((candidate) => ({ value: modelName(candidate), label: describePrices(candidate) }));
}

/** The model behind a value of `summarizerModel`, with its prices, or that it is missing; `undefined` where none is named. */
export function modelFacts(
  choice: string,
  { models, model }: Pick<HostSnapshot, "models" | "model">,
): string | undefined {
  const found = choice === "default" ? model : findModel(choice, models)?.model;
  if (found) return `${modelName(found)}: ${describePrices(found)}`;
  return choice.includes("/") ? `${choice} is missing: pi knows no such model.` : undefined;
}
