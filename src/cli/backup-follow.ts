/**
 * `understudy backup --follow`: makes points in time in a backup place until it gets a signal. Main
 * thread of the command line.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { describeRefusal } from '../std/file-place.ts';
import { BackupError, type BackupSource } from '../storage/backup-manifest.ts';
import { StoreError } from '../storage/bucket/object-store.ts';
import { openStore } from '../storage/bucket/open-store.ts';
import { Follower } from '../storage/points/follower.ts';
import { READ_AGES } from '../storage/read-watch.ts';
import type { CliIo } from './io.ts';
import { makeHarmlessLine } from './terminal-text.ts';

/** Interval of removing old points. */
const PRUNE_MS = 600_000;
/** Interval at which a continuing failure is reported again. */
const TELL_AGAIN_MS = 600_000;

interface FollowOptions {
  place: string;
  every_ms: number;
  keep_ms: number;
  json: boolean;
}

/**
 * Makes points until SIGTERM or SIGINT arrives, or until the parent process has ended.
 * @throws BackupError, StoreError, or an error of the file system, if the first point cannot be made; BackupError if
 * the service's signal ends the command because of an old read transaction. Later failures are reported and retried
 */
export async function followBackup(source: BackupSource, options: FollowOptions, io: CliIo): Promise<void> {
  io.outliveReader?.();
  const parent = process.ppid;
  let follower: Follower | null = null;
  const stopping = new AbortController();
  let readMs = 0;
  const stop = (): void => {
    readMs = follower?.reading_ms ?? 0;
    stopping.abort();
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  const store = await openStore(options.place);
  try {
    follower = await Follower.open(source, store, options.keep_ms, Date.now());
    const run = new FollowRun(follower, store.name, options, io);
    await run.pass(stopping.signal, true);
    // The loop also ends when the parent process is killed, because only the parent forwards signals to this process.
    while (!stopping.signal.aborted && process.ppid === parent) await run.pass(stopping.signal, false);
    await run.tellEnd();
    refuseLongRead(readMs);
  } finally {
    process.off('SIGTERM', stop);
    process.off('SIGINT', stop);
    await follower?.close();
    store.close();
  }
}

/**
 * Throws a BackupError if the service has ended the command because of an old read transaction. The error makes the
 * exit status 1, so that a supervisor restarts the command.
 * @param readMs age of the read transaction when the signal came; 0 without one
 */
function refuseLongRead(readMs: number): void {
  if (readMs < READ_AGES.asked_ms) return;
  throw new BackupError(
    `the service ended this command, because the command had read one state of a database for ${Math.round(readMs / 60_000)} minutes, and the files grow during such a read: start the command again`,
  );
}

class FollowRun {
  readonly #follower: Follower;
  readonly #place: string;
  readonly #options: FollowOptions;
  readonly #io: CliIo;
  /** Time before which all acknowledged data is in the backup; null before the first point. */
  #fromMs: number | null = null;
  #prunedMs = performance.now();
  #toldMs: number | null = null;
  #isSlow = false;

  constructor(follower: Follower, place: string, options: FollowOptions, io: CliIo) {
    this.#follower = follower;
    this.#place = makeHarmlessLine(place);
    this.#options = options;
    this.#io = io;
  }

  /**
   * Makes a point, or reports why it failed, and waits until the next point is due.
   * @param isFirst whether to throw a failure, which ends the command, instead of reporting it
   */
  async pass(stop: AbortSignal, isFirst: boolean): Promise<void> {
    const startMs = performance.now();
    try {
      const { from_ms, point, bytes } = await this.#follower.pass(Date.now, stop);
      this.#fromMs = from_ms;
      const tookMs = performance.now() - startMs;
      if (point !== null) await this.#tellPoint(isFirst, point, bytes, tookMs);
      this.#tellSlow(isFirst, tookMs);
      if (startMs - this.#prunedMs >= PRUNE_MS || isFirst) {
        await this.#follower.prune(Date.now());
        this.#prunedMs = startMs;
      }
      if (this.#toldMs !== null) this.#io.err(`understudy: ${this.#place} accepts points again\n`);
      this.#toldMs = null;
    } catch (thrown) {
      if (stop.aborted) return;
      if (isFirst) throw thrown;
      this.#tellFailure(thrown);
    }
    const restMs = Math.max(0, startMs + this.#options.every_ms - performance.now());
    await delay(restMs, undefined, { signal: stop }).catch(() => undefined);
  }

  async tellEnd(): Promise<void> {
    if (this.#options.json || this.#fromMs === null) return;
    await this.#io.out(`Ended. ${this.#describeState()}\n`);
  }

  #describeState(): string {
    return `Everything acknowledged before ${new Date(this.#fromMs!).toISOString()} is in ${this.#place}.`;
  }

  async #tellPoint(isFirst: boolean, point: string, bytes: number, tookMs: number): Promise<void> {
    const from = new Date(this.#fromMs!).toISOString();
    if (this.#options.json)
      await this.#io.out(`${JSON.stringify({ point, from, bytes, took_ms: Math.round(tookMs) })}\n`);
    else if (isFirst) await this.#io.out(`Following. ${this.#describeState()}\n`);
  }

  #tellSlow(isFirst: boolean, tookMs: number): void {
    const { every_ms } = this.#options;
    const isSlow = !isFirst && tookMs > every_ms;
    if (isSlow && !this.#isSlow)
      this.#io.err(
        `understudy: a point takes ${Math.ceil(tookMs / 1_000)} s, longer than --every: the backup is that late\n`,
      );
    this.#isSlow = isSlow;
  }

  #tellFailure(thrown: unknown): void {
    const nowMs = performance.now();
    if (this.#toldMs !== null && nowMs - this.#toldMs < TELL_AGAIN_MS) return;
    this.#toldMs = nowMs;
    const state = this.#fromMs === null ? '' : ` ${this.#describeState()}`;
    this.#io.err(
      `understudy: ${makeHarmlessLine(describeFailure(thrown))}; the command tries again.${state}\n`,
    );
  }
}

function describeFailure(thrown: unknown): string {
  if (thrown instanceof BackupError || thrown instanceof StoreError) return thrown.message;
  return describeRefusal(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown));
}
