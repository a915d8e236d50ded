/**
 * The store thread of a box that shares a PostgreSQL database with others: starts it, and restarts it after an
 * unexpected end. Main thread.
 */
import { MessageChannel } from 'node:worker_threads';
import type { Log } from '../log.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { OwnThread } from '../std/own-thread.ts';
import { SeatState, type StoreSeat } from '../storage/shared/seat.ts';
import type { StoreFailure } from '../storage/shared/store-protocol.ts';

/** Pause before the thread is started again. */
const AGAIN_MS = 1_000;

interface SharedStorePlace {
  /** Address of the database. Secret. */
  address: string;
  /** Path of the view. */
  path: string;
  /** Encrypts the rows. Secret; null: no encryption. */
  data_key: Uint8Array | null;
  /** Days after which an event of the live stream is no longer delivered; null: no limit. */
  live_event_days: number | null;
  /** Rate limit of a key on all boxes together. */
  rate_limit: { rate_per_s: number; burst: number };
}

/** The thread's task. */
export interface SharedStoreTask extends SharedStorePlace, SharedStoreMemory {
  state: SharedArrayBuffer;
  /**
   * The thread's end of a port. The thread sends {@link SharedStoreTold} on it, and ends at the first message from it.
   */
  told: import('node:worker_threads').MessagePort;
}

export type SharedStoreTold =
  | { event: 'ready'; identity: string }
  | ({ event: 'refused' } & StoreFailure)
  /** The database cannot be used now. */
  | ({ event: 'away' } & StoreFailure)
  | { event: 'back' };

/** Memory of the process that the thread also writes. */
interface SharedStoreMemory {
  revocations: SharedArrayBuffer;
  user_epochs: SharedArrayBuffer;
  rate_table: SharedArrayBuffer;
  rate_shares: SharedArrayBuffer;
}

export class SharedStore {
  readonly #place: SharedStorePlace;
  readonly #memory: SharedStoreMemory;
  readonly #log: Log;
  readonly #memoryOfSeat = SeatState.allocate();
  readonly #state = new SeatState(this.#memoryOfSeat);
  #identity: string | null = null;
  #life: { thread: OwnThread; end(): void } | null = null;
  #again: NodeJS.Timeout | undefined;
  #isClosed = false;

  /**
   * Starts the thread, which connects to the database and brings the view up to date.
   * @throws Error with a one-line message: why the database cannot be used
   */
  static async start(place: SharedStorePlace, memory: SharedStoreMemory, log: Log): Promise<SharedStore> {
    const store = new SharedStore(place, memory, log);
    try {
      await store.#begin();
      return store;
    } catch (cause) {
      await store.close();
      const words = `AUTH_DB_URL: ${(cause as Error).message}`;
      throw Object.assign(new Error(words, { cause }), { code: 'ESTORES' });
    }
  }

  private constructor(place: SharedStorePlace, memory: SharedStoreMemory, log: Log) {
    this.#place = place;
    this.#memory = memory;
    this.#log = log;
  }

  get seat(): StoreSeat {
    return { identity: this.#identity!, state: this.#memoryOfSeat };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#again);
    const life = this.#life;
    if (life === null) return;
    life.end();
    await life.thread.ended.catch(() => {});
  }

  async #begin(): Promise<void> {
    const { port1: port, port2: told } = new MessageChannel();
    const task: SharedStoreTask = {
      ...this.#place,
      ...this.#memory,
      state: this.#memoryOfSeat,
      told,
    };
    const entry = resolveModuleUrl('./shared-store-entry.ts', import.meta.url);
    const thread = new OwnThread(entry, task, { transfer: [told] });
    this.#life = { thread, end: () => port.postMessage('end') };
    const { threadId } = thread.worker;
    try {
      await new Promise<void>((resolve, reject) => {
        port.on('message', (message: SharedStoreTold) => {
          if (message.event === 'refused') reject(new Error(message.message));
          else if (message.event === 'ready') {
            this.#identity ??= message.identity;
            if (this.#identity === message.identity) resolve();
            else reject(new Error('another database has replaced the shared one: start the process again'));
          } else this.#report(message);
        });
        thread.ended.then(() => reject(new Error('the thread of the shared database has ended')), reject);
      });
    } catch (thrown) {
      port.close();
      throw thrown;
    }
    this.#state.thread = threadId;
    const restart = (err: unknown) => {
      this.#state.thread = null;
      port.close();
      if (this.#isClosed) return;
      this.#log.error({ err }, 'the thread of the shared database has ended; it is started again');
      this.#beginAgain();
    };
    thread.ended.then(() => restart(null), restart);
  }

  #beginAgain(): void {
    this.#again = setTimeout(() => {
      this.#begin().catch((err: unknown) => {
        if (this.#isClosed) return;
        this.#log.error({ err }, 'the thread of the shared database cannot start; it is tried again');
        this.#beginAgain();
      });
    }, AGAIN_MS).unref();
  }

  #report(told: Extract<SharedStoreTold, { event: 'away' | 'back' }>): void {
    if (told.event === 'back') this.#log.info('the shared database answers again');
    else
      this.#log.error(
        { reason: told.message },
        'the shared database cannot be used: reads go on, writes get 503, traffic is unaffected',
      );
  }
}
