/**
 * Reads what the service has stored beside the captures (storage/capture/run-index.ts): verdicts on runs, their first
 * words, and sums of cache misses and figures, so that a command need not read the bodies again. Command line; reads only.
 */

import type { KeptCacheParts } from '../captures/cache-ledger.ts';
import type { FindStoredRun } from '../captures/captured-runs.ts';
import type { ExchangeSource } from '../captures/exchange-source.ts';
import type { KeptFigureParts } from '../captures/figure-cube.ts';
import type { KeptVerdict } from '../captures/inspect.ts';
import { indexVersion, nameOfPrices, readListedRun } from '../captures/listed-run.ts';
import { readVersion } from '../config.ts';
import type { Prices } from '../domain/price.ts';
import { RunIndex } from '../storage/capture/run-index.ts';

/** What the index stores about the captures that it describes (threads/capture-list.ts). */
interface IndexState {
  prices: string;
  mark: { id: number; started_at: string };
}

export class KeptIndex {
  readonly #index: RunIndex | null;

  /**
   * @param db the capture database; its index may be missing, older or of another version
   * @param version the version of the program
   */
  constructor(db: string, data_key: Uint8Array | null, version: string = readVersion()) {
    this.#index = RunIndex.open(db, { data_key, version: indexVersion(version), mode: 'read' });
  }

  /** The verdict on a run with the same exchanges; null if none is stored. */
  readonly find: KeptVerdict = (tally) => this.findRun(tally)?.verdict?.reasons ?? null;

  /**
   * The stored facts about a run with the same exchanges; null if none are stored, or the index is damaged. The facts
   * include the run's verdict only if the run was judged by its bodies.
   */
  readonly findRun: FindStoredRun = ({ summary, first_id, last_id, first_ms, last_ms }) => {
    try {
      const bytes = summary.run_id === null ? undefined : this.#index?.find(summary.run_id);
      if (bytes === undefined) return null;
      const { task, verdict, judged_id, tally } = readListedRun(bytes);
      const isSame =
        tally.first_id === first_id &&
        tally.last_id === last_id &&
        tally.first_ms === first_ms &&
        tally.last_ms === last_ms &&
        tally.summary.exchanges === summary.exchanges;
      if (!isSame) return null;
      const isWhole = verdict?.is_whole === true && verdict.golden !== null && judged_id === last_id;
      return { task, verdict: isWhole ? verdict : null, judged_id };
    } catch {
      // A damaged index is ignored, and the captures are read instead.
      return null;
    }
  };

  /** Sums of cache misses at these prices; null: none are stored for these captures, or they are damaged. */
  cacheParts(source: ExchangeSource, prices: Prices): KeptCacheParts | null {
    const parts = this.#readParts(source, prices, (index) => index.cacheParts());
    return parts === null ? null : { cacheParts: () => parts };
  }

  /** Sums of figures at these prices; null: none are stored for these captures, or they are damaged. */
  figureParts(source: ExchangeSource, prices: Prices): KeptFigureParts | null {
    const parts = this.#readParts(source, prices, (index) => index.figureParts());
    return parts === null ? null : { figureParts: () => parts };
  }

  #readParts<Part>(
    source: ExchangeSource,
    prices: Prices,
    read: (index: RunIndex) => Iterable<Part>,
  ): Part[] | null {
    try {
      const state = JSON.parse(this.#index?.state ?? 'null') as IndexState | null;
      if (this.#index === null || state === null || state.prices !== nameOfPrices(prices)) return null;
      const { id, started_at } = state.mark;
      return source.exchange(id)?.started_at === started_at ? [...read(this.#index)] : null;
    } catch {
      return null;
    }
  }

  async close(): Promise<void> {
    await this.#index?.close();
  }
}
