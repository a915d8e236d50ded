/**
 * The work of sealing a file that takes no more exchanges: packs its raw blocks, completes its index, and copies it
 * without free pages. The caller removes the old file. Runs on the sealing thread of the capture process, and on the
 * caller's thread in commands.
 */

import { existsSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { syncPath } from '../../std/synced-path.ts';
import { removeCheckpoint } from '../lmdb/checkpoint.ts';
import { wipeCopiedPages } from '../lmdb/unused-bytes.ts';
import { BlockReader } from './blocks.ts';
import { listEarlyKeys } from './early-facts.ts';
import { ExchangeIndex } from './exchange-index.ts';
import { closeEnv, makeReadOnly, openCaptureEnv, rawFolder, syncEnv } from './layout.ts';
import { repackAll } from './repacking.ts';
import type { DecodeExchange } from './stored-copy.ts';

/** A file to seal. Structured-cloneable. */
export interface SealJob {
  /** Path of the file, which nothing writes. */
  path: string;
  /** Path of the sealed file. */
  target: string;
  /** Key that encrypts the file; null: it is not encrypted. Secret. */
  data_key: Uint8Array | null;
  /** Whether to complete the index. */
  completes_index: boolean;
}

export interface SealEvents {
  /** Called with the raw files of packed blocks, one for each block, when the blocks are on disk. */
  released(files: readonly number[]): void;
  /** Called with the last exchange in the index, as the index grows. */
  indexed(id: number): void;
}

/**
 * Seals a file. Repeatable: a call after an interrupted one continues.
 * @throws (rejects) the storage's error; the signal's reason once it is aborted
 */
export type Seal = (job: SealJob, events: SealEvents, signal: AbortSignal) => Promise<void>;

/** Maximum bytes of memory for what the index reads. */
const CACHE_BYTES = 16 << 20;
/** Number of exchanges to index before each write. */
const INDEX_BATCH = 256;
/** Longest time of work between two checks of the signal. */
const SLICE_MS = 20;

/**
 * Seals a file on the calling thread.
 * @param decode decodes exchanges for the index; null: the index stays as it is
 * @param rest called about every 20 ms with the time since its last call, ms; lets other work of the thread run
 */
export function sealHere(
  decode: DecodeExchange | null,
  rest: (tookMs: number) => Promise<void> = () => nextTurn(),
): Seal {
  return async (job, events, signal) => {
    const { path, target, data_key, completes_index } = job;
    if (existsSync(target)) return;
    const pause = async (tookMs: number): Promise<void> => {
      signal.throwIfAborted();
      await rest(tookMs);
    };
    signal.throwIfAborted();
    await repackAll(path, rawFolder(path), events.released, data_key, pause);
    if (completes_index && decode !== null) await completeIndex(job, decode, events, pause);
    await dropEarlyFacts(job);
    await copyCompacted(job, pause);
  };
}

async function copyCompacted(
  { path, target, data_key }: SealJob,
  pause: (tookMs: number) => Promise<void>,
): Promise<void> {
  const partial = `${target}.part`;
  rmSync(partial, { force: true });
  const env = openCaptureEnv(path, 'read', data_key);
  try {
    await env.root.backup(partial, true);
  } finally {
    await env.root.close();
  }
  await wipeCopiedPages(partial, pause);
  syncPath(partial);
  makeReadOnly(partial);
  renameSync(partial, target);
  syncPath(dirname(target));
}

/** Removes facts that wait for their turn in the index, because the sealed file must not have them. */
async function dropEarlyFacts({ path, data_key }: SealJob): Promise<void> {
  const env = openCaptureEnv(path, 'write', data_key);
  try {
    const keys = listEarlyKeys(env.early!);
    if (keys.length === 0) return;
    env.root.transactionSync(() => {
      for (const key of keys) env.early!.removeSync(key);
    });
    await syncEnv(env);
  } finally {
    await closeEnv(env);
    removeCheckpoint(path);
  }
}

async function completeIndex(
  { path, data_key }: SealJob,
  decode: DecodeExchange,
  events: SealEvents,
  pause: (tookMs: number) => Promise<void>,
): Promise<void> {
  const env = openCaptureEnv(path, 'write', data_key);
  try {
    const index = new ExchangeIndex(env, new BlockReader(env, path, CACHE_BYTES), decode);
    let start = performance.now();
    while (index.indexNext(decode)) {
      if (index.pending >= INDEX_BATCH) index.store();
      const tookMs = performance.now() - start;
      if (tookMs < SLICE_MS) continue;
      events.indexed(index.stored);
      await pause(tookMs);
      start = performance.now();
    }
    index.store();
    events.indexed(index.stored);
    await syncEnv(env);
    removeCheckpoint(path);
  } finally {
    await closeEnv(env);
  }
}
