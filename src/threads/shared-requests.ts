/**
 * How requests reach rows that several boxes share: a client that has seen a position on another box waits for it, and a box
 * that is cut off from the database says how old its rows are, and after a minute accepts no credentials. Server threads.
 */
import type { SharedAccess } from '../api/dispatch.ts';
import { CatalogueError } from '../errors.ts';
import { SeatState, type StoreSeat } from '../storage/shared/seat.ts';
import { StoreClient } from '../storage/shared/store-client.ts';

/** How long a request waits for a position that its sender has seen. */
const REACH_MS = 200;
/** From this age on, answers say how old the rows are. An idle box asks the database four times a second. */
const STALE_MS = 2_000;
/** After this time without the database a credential may have been revoked long ago. */
const TRUSTED_MS = 60_000;

const POSITION = 'x-svc-position';

export class SharedRequests implements SharedAccess {
  readonly #state: SeatState;
  readonly #store: StoreClient;

  constructor(seat: StoreSeat) {
    this.#state = new SeatState(seat.state);
    this.#store = new StoreClient(seat);
  }

  /** Why requests with a credential are refused; null: they are not. */
  get refusal(): string | null {
    const { stale_ms } = this.#state;
    if (stale_ms <= TRUSTED_MS) return null;
    return `The shared database has not answered for ${Math.round(stale_ms / 1_000)} seconds`;
  }

  admit({ headers, query }: Parameters<SharedAccess['admit']>[0]): Promise<unknown> | null {
    const hasCredential =
      headers.has('authorization') || headers.has('cookie') || /(?:^|&)ticket=/.test(query);
    const { refusal } = this;
    if (hasCredential && refusal !== null) throw new CatalogueError('unavailable', refusal);
    const seen = headers.get(POSITION);
    if (seen === undefined || !/^\d{1,15}$/.test(seen) || Number(seen) <= this.#state.position) return null;
    // A box that cannot catch up answers from the rows that it has.
    return this.#store.reach(Number(seen), REACH_MS).catch(() => false);
  }

  describe(): [string, string][] {
    const { position, stale_ms } = this.#state;
    const told: [string, string][] = [[POSITION, String(position)]];
    if (stale_ms > STALE_MS) told.push(['x-svc-stale', String(Math.round(stale_ms / 1_000))]);
    return told;
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}
