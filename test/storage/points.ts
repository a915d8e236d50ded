/** Makes a DATA_DIR, a place for its points, and points, for the tests of points. Test thread. */
import { join } from 'node:path';
import { FolderStore } from '../../src/storage/bucket/folder-store.ts';
import type { ObjectStore } from '../../src/storage/bucket/object-store.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { Follower } from '../../src/storage/points/follower.ts';
import { restorePoint } from '../../src/storage/points/point-restore.ts';
import { makeFolder } from './folder.ts';

export const DAY_MS = 86_400_000;
const NEVER = new AbortController().signal;

export interface Followed {
  folder: string;
  source: { data_dir: string; capture_db: string; data_key: Uint8Array | null };
  store: ObjectStore;
  /** The wall clock of the follower. Each pass advances this clock. */
  clock: { ms: number };
}

export function makeFollowed(data_key: Uint8Array | null = null): Followed {
  const folder = makeFolder();
  const data_dir = join(folder, 'data');
  return {
    folder,
    source: { data_dir, capture_db: join(data_dir, 'capture.mdb'), data_key },
    store: new FolderStore(join(folder, 'place')),
    clock: { ms: Date.parse('2026-03-01T10:00:00.000Z') },
  };
}

export function openFollower({ source, store, clock }: Followed, keepMs = 7 * DAY_MS): Promise<Follower> {
  return Follower.open(source, store, keepMs, clock.ms);
}

/** Advances the clock by 10 s, and runs a pass of the follower. @returns the time of the pass */
export async function pass({ clock }: Followed, follower: Follower): Promise<number> {
  clock.ms += 10_000;
  await follower.pass(() => clock.ms, NEVER);
  return clock.ms;
}

/** Restores a point into a new folder. @param toMs the newest point at or before this time; null: the newest one */
export async function restoreTo(
  { store, source }: Followed,
  toMs: number | null,
  data_key = source.data_key,
  only_captures = false,
): Promise<{ data_dir: string; capture_db: string; lost_blocks: number }> {
  const data_dir = join(makeFolder(), 'again');
  const into = { data_dir, capture_db: join(data_dir, 'capture.mdb') };
  const choice = { to_ms: toMs, only_captures };
  const { lost_blocks } = await restorePoint(store, { ...into, data_key }, choice, () => {});
  return { ...into, lost_blocks };
}

/** Reads the values of a table, in the order of their numbers. */
export async function readRows(
  dataDir: string,
  table: string,
  key: Uint8Array | null = null,
): Promise<string[]> {
  const main = new LmdbTables(join(dataDir, 'main.mdb'), 'disk', key);
  try {
    return [...main.range<string>(table, { prefix: [] })].map(({ value }) => value);
  } finally {
    await main.close();
  }
}

export async function putRows(
  main: LmdbTables,
  table: string,
  rows: readonly (readonly [number, string])[],
): Promise<void> {
  await main.transact((tx) => {
    for (const [n, value] of rows) tx.write({ op: 'put', table, row: [n], value });
  });
}

export async function listNames(store: ObjectStore, prefix: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of store.list(prefix)) names.push(name);
  return names.sort();
}
