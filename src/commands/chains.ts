/** `/pruner compact`, `/pruner decompress` and `/pruner recompress`. */

import { count } from "../digest/room.js";
import type { ChainListing } from "../runtime.js";
import { cut, grouped, oneLine } from "../text/text.js";
import { flushByHand } from "./flush.js";
import { type CommandInput, type CommandResult, info, NO_SESSION, type Subcommand, warning } from "./types.js";

const MAX_TOPIC_CHARS = 60;

export const chainCommands: readonly Subcommand[] = [
  {
    name: "compact",
    usage: "",
    help: "As now, and compress every closed chain behind the window",
    run(input) {
      const { enabled, chainCompression } = input.pruner.settings;
      if (enabled && !chainCompression.enabled) return warning("chainCompression.enabled is off.");
      return flushByHand(input, true);
    },
  },
  {
    name: "decompress",
    usage: "[b1]",
    help: "Put a compressed chain back, or list the chains",
    complete: (input) => completeBlocks(input, true),
    run: (input) => setActive(input, false),
  },
  {
    name: "recompress",
    usage: "[b1]",
    help: "Compress a chain again, or list those put back",
    complete: (input) => completeBlocks(input, false),
    run: (input) => setActive(input, true),
  },
];

function setActive({ pruner, args }: CommandInput, active: boolean): CommandResult {
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
      : `${blockId} stands raw from the next request on: ${count(chain.calls, "call")}, ${grouped(chain.rawChars)} characters.`,
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

function completeBlocks({ pruner, args }: { pruner: CommandInput["pruner"]; args: string }, active: boolean) {
  return (pruner.chains() ?? [])
    .filter((chain) => chain.active === active && chain.blockId.startsWith(args.toLowerCase()))
    .map(({ blockId, topic }) => ({ value: blockId, label: blockId, description: oneLine(topic, MAX_TOPIC_CHARS) }));
}
