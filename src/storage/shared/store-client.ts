/**
 * Connects a thread to the store thread of its box, which sends the thread's commits to the database (follower.ts). Any
 * thread.
 */
import type { Committer } from './follower.ts';
import { SeatState, type StoreSeat } from './seat.ts';
import { StoreChannel } from './store-channel.ts';
import {
  type ChangedRow,
  packProposal,
  type StoreApplied,
  type StoreTold,
  unpackChanged,
} from './store-protocol.ts';
import type { Proposal, Verdict } from './truth.ts';

/** Callbacks for notices of the store thread. */
interface StoreListeners {
  /**
   * Called with the rows that other boxes changed, or null if everything was loaded again. It resolves when this thread
   * has applied the changes in memory.
   */
  onChanged?: (rows: ChangedRow[] | null) => Promise<void>;
  live?: {
    /** Called with messages of the store thread about the live stream. */
    onTold(told: unknown): void;
    /**
     * Called when the channel is open again after a loss. The store thread does not know any more what this thread
     * follows.
     */
    onAgain(): void;
  };
}

export class StoreClient implements Committer {
  readonly #channel: StoreChannel;

  constructor(seat: StoreSeat, listeners: StoreListeners = {}) {
    this.#channel = new StoreChannel(seat, toChannelListener(listeners, new SeatState(seat.state)));
  }

  async commit(proposal: Proposal): Promise<Verdict> {
    const answer = await this.#channel.ask((id) => ({ id, commit: packProposal(proposal) }));
    return (answer as { verdict: Verdict }).verdict;
  }

  /** Waits until the view and the indexes in memory have reached a position. @returns false on a timeout */
  async reach(position: number, within_ms: number): Promise<boolean> {
    if (this.#channel.state.hasReached(position)) return true;
    const answer = await this.#channel.ask((id) => ({ id, reach: position, within_ms }));
    return (answer as { is_reached: boolean }).is_reached;
  }

  /** Sends a question about the live stream (actors/live-hub/protocol.ts) and returns the answer. */
  async askLive(question: unknown): Promise<unknown> {
    const answer = await this.#channel.ask((id) => ({ id, live: question }));
    return (answer as { live: unknown }).live;
  }

  close(): Promise<void> {
    return this.#channel.close();
  }
}

function toChannelListener({ onChanged, live }: StoreListeners, state: SeatState) {
  if (onChanged === undefined && live === undefined) return null;
  type Reply = (message: StoreApplied) => void;
  let applied: Promise<unknown> = Promise.resolve();
  const apply = (rows: ChangedRow[] | null, changes: number, reply: Reply) => {
    applied = Promise.allSettled([applied, onChanged?.(rows)]).then(() => reply({ applied: changes }));
  };
  return {
    follows: onChanged === undefined ? null : ('changes' as const),
    onTold: (told: StoreTold, reply: Reply) => {
      if ('changed' in told)
        apply(told.changed === null ? null : unpackChanged(told.changed), told.changes, reply);
      else if ('told' in told) live?.onTold(told.told);
    },
    onAgain: (reply: Reply) => {
      // Changes may have been missed, so any row counts as changed.
      if (onChanged !== undefined) apply(null, state.changes, reply);
      live?.onAgain();
    },
  };
}
