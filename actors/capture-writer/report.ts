/**
 * Logs the writer's problems: what is wrong and what to do, at most once a minute for each cause. Also logs that
 * exchanges are stored again. Capture problems must not affect traffic, so only the log and the stats report them.
 * Runs in the capture process, and on any thread in tests.
 */
import type { FailureCause, PlaceCause } from '../../src/domain/capture-cause.ts';
import { RareTelling } from '../../src/std/rare-telling.ts';
import type { WriterEvent } from './adapter.ts';

/** The methods of the log that are used here. */
interface Log {
  info(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

const WAITING = 'Exchanges wait in memory, and are dropped beyond GW_MAX_QUEUE or GW_MAX_QUEUE_BYTES';

const ADVICE: Readonly<Record<PlaceCause, string>> = {
  disk_full: `the disk is full. ${WAITING}. Make room on the disk`,
  disk_error: `the disk or its file system refuses the write. ${WAITING}. Check the disk and its permissions`,
  damaged: `the file is damaged. ${WAITING}. Move the file away: the writer then begins a new one at once`,
};

const SET_APART =
  'an exchange that makes the writer fail is dropped, and all others are stored. This is a fault of Understudy. Please ' +
  'report it with this line, which contains no text of the exchange';

export class WriterReport {
  readonly #db: string;
  readonly #log: Log;
  readonly #telling = new RareTelling<FailureCause>();

  constructor(db: string, log: Log) {
    this.#db = db;
    this.#log = log;
  }

  readonly tell = (event: WriterEvent): void => {
    const db = this.#db;
    switch (event.type) {
      case 'failing': {
        const { cause, reason } = event;
        const times = this.#telling.count(cause, 1);
        if (times > 0)
          this.#log.error({ db, cause, reason, times }, `exchanges cannot be stored: ${ADVICE[cause]}`);
        return;
      }
      case 'stored_again':
        this.#log.info({ db }, 'exchanges are stored again');
        return;
      case 'set_apart': {
        const [{ cause, path, bytes, error, at }] = event.exchanges;
        const exchanges = this.#telling.count(cause, event.exchanges.length);
        if (exchanges > 0) this.#log.error({ db, cause, exchanges, path, bytes, error, at }, SET_APART);
      }
    }
  };
}
