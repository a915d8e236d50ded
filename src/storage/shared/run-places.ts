/**
 * Says where each row of `runs.mdb` is if several boxes share rows: in the shared rows, which every box follows; in
 * rows that are read only by queries; or in counters. Any thread.
 */
import { AUDIT_OUTBOX } from '../../domain/audit-rows.ts';
import { RUN_LISTS } from '../../domain/run-list.ts';
import {
  RUN_DELETIONS,
  RUN_GATHERED_STEPS,
  RUN_OUTCOMES,
  RUN_STARTS,
  RUN_STEP_KEYS,
  RUN_STEPS,
  RUN_TOTALS,
  RUNS,
} from '../../domain/run-rows.ts';
import { RUNS_BY_EXPERIMENT } from '../../domain/run-summary.ts';
import { INTERVENTION_TOTALS, USAGE } from '../../domain/usage.ts';
import { packr } from '../lmdb/changes.ts';
import { actorOf, JOURNAL, kindOf, SNAPSHOTS } from '../lmdb/journal.ts';
import { databaseOf } from '../lmdb/tables.ts';
import { encodeRowKey } from '../row-key.ts';
import { LISTINGS } from '../row-listing.ts';
import type { RunTables } from './runs-commit.ts';

/** Tables of a run's rows that every box follows. */
const FOLLOWED = [RUNS, RUN_STARTS, RUN_LISTS, RUN_OUTCOMES, RUNS_BY_EXPERIMENT, RUN_DELETIONS, AUDIT_OUTBOX];

/** The tables of runs that are not among the shared rows. */
export const RUN_TABLES: RunTables = {
  queried: new Set([
    JOURNAL,
    SNAPSHOTS,
    ...[RUN_STEPS, RUN_GATHERED_STEPS, RUN_STEP_KEYS, RUN_TOTALS].map(databaseOf),
  ]),
  counters: new Set([USAGE, INTERVENTION_TOTALS].map(databaseOf)),
};

/** `own`: the row belongs to one box, and other boxes do not need it. */
export type RunRowPlace = 'followed' | 'queried' | 'counted' | 'own';

const FOLLOWED_TABLES: ReadonlySet<string> = new Set(FOLLOWED.map(databaseOf));
/** Kind of the actors in `runs.mdb` whose events belong to one box (actors/live-hub/). */
const OWN_KIND = 'live-hub';
/** The keys of those rows of the table `listings` that have the progress of listing earlier runs. */
const LISTED = new Set([RUN_LISTS, RUN_OUTCOMES].map((list) => encodeRowKey([list]).toString('latin1')));

/**
 * Returns the place of a row in `runs.mdb`.
 * @param table name of its LMDB database
 */
export function placeOfRunRow(table: string, key: Buffer): RunRowPlace {
  if (isHistory(table)) return kindOf(key) === OWN_KIND ? 'own' : 'queried';
  if (isListings(table)) return isListing(key) ? 'followed' : 'own';
  if (RUN_TABLES.queried.has(table)) return 'queried';
  if (RUN_TABLES.counters.has(table)) return 'counted';
  return FOLLOWED_TABLES.has(table) ? 'followed' : 'own';
}

/** Returns the actor whose history has this key: its kind, and the beginning of all keys of the history. */
export function historyOf(key: Buffer): { kind: string; actor: Buffer } {
  return { kind: kindOf(key), actor: actorOf(key) };
}

/** Whether a box that does not share rows has this followed row in `runs.mdb`. Otherwise it is in `main.mdb`. */
export function isRunRow(table: string, key: Buffer): boolean {
  return isListings(table) ? isListing(key) : FOLLOWED_TABLES.has(table);
}

/** Whether only boxes that share rows use a table. */
export function isQueriedOnly(table: string): boolean {
  return table === databaseOf(RUN_TOTALS);
}

/** Whether a table has histories of actors. */
export function isHistory(table: string): boolean {
  return table === JOURNAL || table === SNAPSHOTS;
}

export function isListings(table: string): boolean {
  return table === databaseOf(LISTINGS);
}

/** Returns the counters in a row's value. */
export function unpackCounts(value: Buffer): Record<string, number> {
  return packr.unpack(value) as Record<string, number>;
}

export function packCounts(counts: Readonly<Record<string, number>>): Buffer {
  return packr.pack(counts);
}

/** Encodes counters so that equal counters have equal bytes. */
export function writeCounts(counts: Readonly<Record<string, number>>): Buffer {
  return Buffer.from(JSON.stringify(Object.entries(counts).sort()));
}

function isListing(key: Buffer): boolean {
  return LISTED.has(key.toString('latin1'));
}
