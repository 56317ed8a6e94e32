/** What the host knows of models that money is reckoned with. */
import type { ModelRegistry } from "@mariozechner/pi-coding-agent";
import type { ReckonerOptions } from "./reckoner.ts";

/** Price tables and windows of models by `provider/model`, and how long the host asks providers to keep prompts. @param retention the host's `PI_CACHE_RETENTION` */
export function modelFacts(
  models: Pick<ModelRegistry, "find">,
  retention: string | undefined,
): Pick<ReckonerOptions, "costOfModel" | "windowOf" | "lifetimeMs"> {
  const find = (name: string) => {
    const slash = name.indexOf("/");
    return models.find(name.slice(0, slash), name.slice(slash + 1));
  };
  return {
    costOfModel: (name) => {
      const cost = find(name)?.cost;
      return cost && cost.input > 0 ? cost : undefined;
    },
    windowOf: (name) => find(name)?.contextWindow || undefined,
    ...(retention === "long" ? { lifetimeMs: 60 * 60_000 } : {}),
  };
}
