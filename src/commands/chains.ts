/** `/pruner compact`, `/pruner decompress` and `/pruner recompress`. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import type { ChainListing } from "../runtime.ts";
import { count, cut, grouped, oneLine } from "../text/text.ts";
import { flushByHand } from "./flush.ts";
import { type CommandInput, type CommandResult, type CompletionInput, info, NO_SESSION, warning } from "./types.ts";

const MAX_TOPIC_CHARS = 60;

/** Flushes, and compresses every closed chain behind the window. Words behind it say what the summaries should mind. */
export function compact(input: CommandInput): Promise<CommandResult> | CommandResult {
  const { enabled, chainCompression } = input.pruner.settings;
  if (enabled && !chainCompression.enabled) return warning("chainCompression.enabled is off.");
  if (input.args !== "" && input.pruner.settings.summarizerModel === "none") {
    return warning("summarizerModel is none: digests are made without a model, so words cannot guide them.");
  }
  return flushByHand(input, true);
}

/** Puts a compressed chain back or compresses it again; without a name, lists those that this can be done to. */
export function setActive({ pruner, args }: CommandInput, active: boolean): CommandResult {
  const chains = pruner.chains();
  if (!chains) return NO_SESSION;
  const matching = chains.filter((chain) => chain.active !== active);
  const verb = active ? "recompress" : "decompress";
  if (args === "") return matching.length > 0 ? info(list(matching)) : info(`There is no chain to ${verb}.`);
  const blockId = args.toLowerCase();
  const chain = chains.find((candidate) => candidate.blockId === blockId);
  if (!chain)
    return warning(`There is no chain ${args}. ${matching.length > 0 ? `Known:\n${list(matching)}` : ""}`.trim());
  if (chain.active === active) return info(`${blockId} is ${active ? "compressed" : "put back"} already.`);
  pruner.setChainActive(blockId, active);
  return info(
    active
      ? `${blockId} is compressed again from the next request on.`
      : `${blockId} is sent raw from the next request on: ${count(chain.calls, "call")}, ${grouped(chain.rawChars)} characters. What was written to a file stays a preview.`,
  );
}

function list(chains: readonly ChainListing[]): string {
  return chains
    .map(({ blockId, calls, rawChars, topic }) => {
      const size = `${count(calls, "call")}, ${grouped(rawChars)} characters`;
      return `${blockId}  ${size}  ${cut(oneLine(topic, MAX_TOPIC_CHARS), MAX_TOPIC_CHARS)}`;
    })
    .join("\n");
}

/** Names of the chains that are compressed, or of those that are not. */
export function completeBlocks({ pruner, args }: CompletionInput, active: boolean): AutocompleteItem[] {
  return (pruner.chains() ?? [])
    .filter((chain) => chain.active === active && chain.blockId.startsWith(args.toLowerCase()))
    .map(({ blockId, topic }) => ({ value: blockId, label: blockId, description: oneLine(topic, MAX_TOPIC_CHARS) }));
}
