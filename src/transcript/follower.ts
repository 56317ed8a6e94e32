/** Reads a conversation that is asked about again and again while it grows. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";

/** Is given each message once, in order. */
export interface Reader {
  take(message: AgentMessage): void;
}

/** Both are the same message of the session. */
type IsSame = (one: AgentMessage | undefined, other: AgentMessage | undefined) => boolean;

/**
 * Looks at each message once, as long as the lists that it is given go on where the last one ended and `key`, which a
 * reader is made for, is the same. The messages of one session are the same objects each time, unless `isSame` says how
 * else they are known again.
 */
export class Follower<Key, R extends Reader> {
  private known: { key: Key; reader: R; first?: AgentMessage; last?: AgentMessage; taken: number } | undefined;

  constructor(
    private readonly makeReader: (key: Key) => R,
    private readonly isSame: IsSame = (one, other) => one === other,
  ) {}

  /** The reader, which has read `messages` to their end. */
  follow(messages: readonly AgentMessage[], key: Key): R {
    const goesOn = this.goesOn(messages, key);
    const { reader, taken } = goesOn ?? { reader: this.makeReader(key), taken: 0 };
    for (const message of messages.slice(taken)) reader.take(message);
    this.known = { key, reader, first: messages[0], last: messages.at(-1), taken: messages.length };
    return reader;
  }

  /** A session is a tree: with the same first and last message, everything between them is the same. */
  private goesOn(messages: readonly AgentMessage[], key: Key): { reader: R; taken: number } | undefined {
    const { known } = this;
    if (!known || known.key !== key || known.taken === 0 || messages.length < known.taken) return undefined;
    const { isSame } = this;
    return isSame(messages[0], known.first) && isSame(messages[known.taken - 1], known.last) ? known : undefined;
  }
}
