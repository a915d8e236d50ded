/**
 * Connects a server thread to the store thread of a box that shares its live stream: hubs send
 * their collected events, and readers follow the events of organizations. Server threads.
 */
import type { LiveSource } from '../../actors/live-hub/client.ts';
import type {
  LivePublication,
  LiveQuestion,
  LiveTold,
  ReplayReply,
  ReplayRequest,
} from '../../actors/live-hub/protocol.ts';
import { CatalogueError } from '../errors.ts';
import type { LiveBatch } from '../storage/shared/live.ts';
import { SeatState, type StoreSeat } from '../storage/shared/seat.ts';
import { StoreClient } from '../storage/shared/store-client.ts';

/** The hubs' adapter (actors/live-hub/shared-behaviour.ts). */
export class LiveOutbox {
  readonly #store: StoreClient;
  readonly #state: SeatState;

  constructor(seat: StoreSeat) {
    this.#store = new StoreClient(seat);
    this.#state = new SeatState(seat.state);
  }

  /**
   * Sends a batch of events to the store thread, and waits until it is stored.
   * @throws Error: the batch may or may not be stored
   */
  async send(batch: LiveBatch): Promise<void> {
    const question: LiveQuestion = { offer: batch };
    try {
      await this.#store.askLive(question);
    } catch (thrown) {
      this.#state.count('live_losses', batch.events.length);
      throw thrown;
    }
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}

interface Listener {
  onPublication(publication: LivePublication): void;
  onAhead(id: number): void;
}

/** The live stream for the readers of one thread. */
export class SharedLiveSource implements LiveSource {
  readonly #store: StoreClient;
  readonly #listeners = new Map<string, Set<Listener>>();

  constructor(seat: StoreSeat) {
    this.#store = new StoreClient(seat, {
      live: {
        onTold: (told) => this.#take(told as LiveTold),
        onAgain: () => {
          for (const org of this.#listeners.keys()) this.#follow(org, true);
        },
      },
    });
  }

  subscribe(
    orgId: string,
    onPublication: (publication: LivePublication) => void,
    onAhead: (id: number) => void,
  ): () => void {
    const listener: Listener = { onPublication, onAhead };
    let listeners = this.#listeners.get(orgId);
    if (listeners === undefined) {
      listeners = new Set();
      this.#listeners.set(orgId, listeners);
      this.#follow(orgId, true);
    }
    const joined = listeners.add(listener);
    return () => {
      joined.delete(listener);
      if (joined.size > 0 || this.#listeners.get(orgId) !== joined) return;
      this.#listeners.delete(orgId);
      this.#follow(orgId, false);
    };
  }

  async replay(orgId: string, request: ReplayRequest): Promise<ReplayReply> {
    const question: LiveQuestion = { replay: request, org_id: orgId };
    try {
      // This question also makes the store thread send the stream to this thread, if it did not do so before.
      if (!this.#listeners.has(orgId)) throw new Error('its last reader has left');
      return (await this.#store.askLive(question)) as ReplayReply;
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #follow(orgId: string, isOn: boolean): void {
    const question: LiveQuestion = { follow: orgId, is_on: isOn };
    // A failure has no effect, because the next `replay` also makes the store thread send the
    // stream.
    this.#store.askLive(question).catch(() => {});
  }

  #take({ org_id, publications, ahead_id }: LiveTold): void {
    for (const listener of this.#listeners.get(org_id) ?? []) {
      for (const publication of publications) listener.onPublication(publication);
      listener.onAhead(ahead_id);
    }
  }
}
