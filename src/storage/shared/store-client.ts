/**
 * A thread's way to the store thread of its box, which sends its commits to the database (follower.ts). Any thread.
 */
import type { Committer } from './follower.ts';
import type { StoreSeat } from './seat.ts';
import { StoreChannel } from './store-channel.ts';
import { type ChangedRow, packProposal, type StoreTold, unpackChanged } from './store-protocol.ts';
import type { Proposal, Verdict } from './truth.ts';

/** Who gets what the store thread says by itself. */
interface StoreListeners {
  /** Called with the rows that other boxes changed, or null if everything was loaded again. */
  onChanged?: (rows: ChangedRow[] | null) => void;
  live?: {
    /** Called with what the store thread tells of the live stream. */
    onTold(told: unknown): void;
    /** The channel has opened again after a loss: the store thread no longer knows what this thread follows. */
    onAgain(): void;
  };
}

export class StoreClient implements Committer {
  readonly #channel: StoreChannel;

  constructor(seat: StoreSeat, listeners: StoreListeners = {}) {
    this.#channel = new StoreChannel(seat, toChannelListener(listeners));
  }

  async commit(proposal: Proposal): Promise<Verdict> {
    const answer = await this.#channel.ask((id) => ({ id, commit: packProposal(proposal) }));
    return (answer as { verdict: Verdict }).verdict;
  }

  /** Waits until the view shows a position. @returns false if it does not within the time */
  async reach(position: number, within_ms: number): Promise<boolean> {
    if (this.#channel.state.position >= position) return true;
    const answer = await this.#channel.ask((id) => ({ id, reach: position, within_ms }));
    return (answer as { is_reached: boolean }).is_reached;
  }

  /** Asks about the live stream. */
  async askLive(question: unknown): Promise<unknown> {
    const answer = await this.#channel.ask((id) => ({ id, live: question }));
    return (answer as { live: unknown }).live;
  }

  close(): Promise<void> {
    return this.#channel.close();
  }
}

function toChannelListener({ onChanged, live }: StoreListeners) {
  if (onChanged === undefined && live === undefined) return null;
  return {
    follows: onChanged === undefined ? null : ('changes' as const),
    onTold: (told: StoreTold) => {
      if ('changed' in told) onChanged?.(told.changed === null ? null : unpackChanged(told.changed));
      else if ('told' in told) live?.onTold(told.told);
    },
    onAgain: () => {
      // Changes that nothing reported count as changes of everything.
      onChanged?.(null);
      live?.onAgain();
    },
  };
}
