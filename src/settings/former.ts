/** Names that earlier releases of this family gave to settings and commands, by what they are called now. */

/** In lower case, without hyphens. `null` stands for what is no longer needed. */
export const FORMER_NAMES: Readonly<Record<string, string | null>> = {
  batching: "batchingMode",
  budget: "autoBudgetThreshold",
  chaincompression: "chainCompression.enabled",
  compactionsummarylimit: null,
  condenseargs: "condenseArgs.enabled",
  dedup: "dedupByContentHash",
  eager: null,
  eagerconcurrency: "summarizerConcurrency",
  minrawcharthreshold: "minBatchChars",
  minrawchars: "minBatchChars",
  notifyskipped: "quietOversizedSkips",
  purgeerrors: "purgeErrors.enabled",
  recoverygrace: "recoveryGraceTurns",
  remindunprunedcount: null,
  rollingwindow: "chainCompression.rollingWindow",
  showprunernotices: "showPruneStatusLine",
  showstartupnotice: null,
  statusline: "showPruneStatusLine",
  turnprotection: "turnProtection.enabled",
};
