/**
 * Checks requests for rows that several boxes share. A request of a client that has seen a later
 * position on another box waits a short time for this box to show that position. A box that cannot reach the
 * database reports how old its rows are, and after a minute it accepts no credentials. Server
 * threads.
 */
import type { SharedAccess } from '../api/dispatch.ts';
import { CatalogueError } from '../errors.ts';
import { SeatState, type StoreSeat } from '../storage/shared/seat.ts';
import { StoreClient } from '../storage/shared/store-client.ts';
import { catchUpRuns } from './shared-runs.ts';

/** How long a request waits until this box shows the position that the client has seen. */
const REACH_MS = 200;
/**
 * Maximum number of requests of a thread that wait at the same time. A further request is answered
 * from the current rows.
 */
const REACHING = 1_000;
/**
 * If the rows are older than this, answers report their age. An idle box queries the database four
 * times a second.
 */
const STALE_MS = 2_000;
/**
 * If the rows are older than this, credentials are refused, because they may have been revoked
 * meanwhile.
 */
const TRUSTED_MS = 60_000;

const POSITION = 'x-svc-position';

/** The counters of the store thread, as metrics. */
const COUNTERS = [
  {
    count: 'conflicts',
    name: 'conflicts_total',
    help: 'Transactions that ran again because another box had changed what they read',
  },
  {
    count: 'take_overs',
    name: 'take_overs_total',
    help: 'Runs and usage meters that this box took over from another box',
  },
  {
    count: 'lost_commits',
    name: 'lost_commits_total',
    help: 'Commits of runs and usage meters that were not stored because another box had taken over the run or meter; their requests are repeated',
  },
  {
    count: 'held_takings',
    name: 'held_takings_total',
    help: 'Takeovers that had to wait because another box had just taken over the run or usage meter',
  },
  {
    count: 'run_ticks',
    name: 'run_ticks_total',
    help: 'Round trips to the database that sent commits of runs and usage meters, or loaded runs and usage meters',
  },
  {
    count: 'run_commits',
    name: 'run_commits_total',
    help: 'Commits of runs and usage meters that these round trips (run_ticks_total) sent, lost ones included',
  },
  {
    count: 'live_losses',
    name: 'live_losses_total',
    help: 'Events of the live stream in batches that the store thread did not confirm; their readers get a reset',
  },
] as const;

export class SharedRequests implements SharedAccess {
  readonly #state: SeatState;
  readonly #store: StoreClient;
  #reaching = 0;

  constructor(seat: StoreSeat) {
    this.#state = new SeatState(seat.state);
    this.#store = new StoreClient(seat);
  }

  /** Why requests with a credential are refused; null: they are accepted. */
  get refusal(): string | null {
    const { stale_ms } = this.#state;
    if (stale_ms <= TRUSTED_MS) return null;
    return `The shared database has not answered for ${Math.round(stale_ms / 1_000)} seconds`;
  }

  admit({ headers, query }: Parameters<SharedAccess['admit']>[0]): Promise<unknown> | null {
    const hasCredential =
      headers.has('authorization') || headers.has('cookie') || /(?:^|&)ticket=/.test(query);
    const { refusal } = this;
    // Without a credential, a request reaches only routes that show no shared rows.
    if (!hasCredential) return null;
    if (refusal !== null) throw new CatalogueError('unavailable', refusal);
    const seen = headers.get(POSITION);
    if (seen === undefined || !/^\d{1,15}$/.test(seen)) return null;
    if (this.#state.hasReached(Number(seen)) || this.#reaching >= REACHING) {
      catchUpRuns();
      return null;
    }
    this.#reaching++;
    // If this box does not reach the position in time, it answers from its current rows.
    const reached = this.#store.reach(Number(seen), REACH_MS).catch(() => false);
    return reached.finally(() => {
      this.#reaching--;
      catchUpRuns();
    });
  }

  describe(): [string, string][] {
    const { position, stale_ms } = this.#state;
    const told: [string, string][] = [[POSITION, String(position)]];
    if (stale_ms > STALE_MS) told.push(['x-svc-stale', String(Math.round(stale_ms / 1_000))]);
    return told;
  }

  /** Number of running boxes, including this one. */
  get boxes(): number {
    return this.#state.boxes;
  }

  /** Metrics for `/metrics`; all server threads have the same values. */
  listMetrics(): object[] {
    const { position, stale_ms, boxes } = this.#state;
    const metric = (name: string, help: string, value: number, type = 'gauge') => ({
      name: `understudy_shared_${name}`,
      help,
      type,
      values: [{ value, labels: {} }],
      aggregator: 'max',
    });
    return [
      metric('stale_seconds', 'How old the rows of the shared database may be on this box', stale_ms / 1_000),
      metric('position', 'Number of the last commit of the shared database that this box shows', position),
      metric(
        'boxes',
        'Boxes that share the database and have recently reported that they are running, including this one',
        boxes,
      ),
      metric(
        'rate_share',
        'Share of a key’s rate limit that this box allows for a key with few requests',
        1 / boxes,
      ),
      ...COUNTERS.map(({ count, name, help }) => metric(name, help, this.#state.countOf(count), 'counter')),
    ];
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}
