/**
 * The capture reader's answer about the prompt cache of one run, turn by turn. Pure except for its source; capture
 * reader.
 *
 * Bound: reading stops after the time that the caller gives, and the answer says so.
 */

import type { CacheLook } from '../domain/cache-miss.ts';
import type { Prices } from '../domain/price.ts';
import { CacheDoctor } from './cache-doctor.ts';
import { type CacheReport, CacheSum } from './cache-sum.ts';
import { RunWithin } from './captured-runs.ts';
import type { ExchangeSource } from './exchange-source.ts';

/** A run and the ids of its first and last exchange. */
interface RunPlace {
  run_id: string;
  first_id: number;
  last_id: number;
}

interface RunCache {
  run_id: string;
  /** false: the time ended, and turns may be missing. */
  is_whole: boolean;
  turns: CacheLook[];
  sum: CacheReport;
}

/** Examines the turns of one run, as far as time allows. */
export function readRunCache(
  source: ExchangeSource,
  { run_id, first_id, last_id }: RunPlace,
  prices: Prices,
  hasTime: () => boolean,
): RunCache {
  const turns: CacheLook[] = [];
  const sum = new CacheSum();
  let is_whole = true;
  const within = new RunWithin(source, first_id, last_id);
  for (const look of new CacheDoctor(source, prices).examineRun(run_id, within)) {
    turns.push(look);
    sum.add(look, run_id);
    is_whole = hasTime();
    if (!is_whole) break;
  }
  return { run_id, is_whole, turns, sum: sum.report() };
}
