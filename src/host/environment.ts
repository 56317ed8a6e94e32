/** The live host as the environment of a session engine. */
import { type Environment, type Moment, SYSTEM_CLOCK } from "../engine/environment.ts";
import type { ContextPruneConfig } from "../types.ts";
import { type HostOutlet, type HostSnapshot, recordUsage } from "./host.ts";
import type { Notices } from "./notices.ts";
import { sessionModel } from "./session-model.ts";
import { HostSummarizers } from "./summarizers.ts";

/** What the environment needs of the extension around it. */
export interface HostSessionOptions {
  outlet: HostOutlet;
  notices: Notices;
  /** The settings as they are now. */
  settings(): ContextPruneConfig;
  /** Told when a flush begins or ends. */
  onChange(): void;
  /** Told of an error that should not have been. */
  onError(error: unknown): void;
}

/** One session of the host. Events read what holds at their moment. */
export class HostSession {
  readonly environment: Environment;
  private readonly summarizers: HostSummarizers;

  constructor(host: HostSnapshot, { outlet, notices, settings, onChange, onError }: HostSessionOptions) {
    this.environment = {
      reader: host.session,
      append: outlet.appendEntry,
      clock: SYSTEM_CLOCK,
      settings,
      tell: ({ text, type, once }) => (once ? notices.once(host, text, type) : notices.tell(host, text, type)),
      onPaid: (call, { totalCost, totalInputTokens, totalOutputTokens }) => {
        recordUsage(host.session, call);
        outlet.announceCost({ totalCost, inputTokens: totalInputTokens, outputTokens: totalOutputTokens });
      },
      onChange,
      onCommit: () => undefined,
      onError,
    };
    this.summarizers = new HostSummarizers(this.environment);
  }

  /** What holds now; to be asked before the first `await` of a handler. */
  moment(host: HostSnapshot): Moment {
    return {
      cwd: host.cwd,
      usage: host.usage,
      model: sessionModel(host.model, process.env.PI_CACHE_RETENTION),
      signal: host.signal,
      summarizer: (config) => this.summarizers.choose(config, host),
    };
  }
}
