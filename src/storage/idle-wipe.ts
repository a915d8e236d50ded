/**
 * Overwrites deleted content in main.mdb and runs.mdb while the service runs. A marked file (lmdb/deletion-mark.ts) is
 * wiped (lmdb/page-wipe.ts) after some seconds without a commit. A commit interrupts the pass; another pass begins
 * after the next seconds without a commit. A file that is still marked when the process ends is compacted at the next
 * start (compaction.ts). Main thread.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { writeMark } from './lmdb/deletion-mark.ts';
import { type Durability, Environment } from './lmdb/environment.ts';
import { readHeads } from './lmdb/file-head.ts';
import { PageWipe } from './lmdb/page-wipe.ts';
import type { DatabasePaths } from './lmdb/stores.ts';

/** Interval at which the files' heads are read. */
const POLL_MS = 1_000;
/** Time without a commit before a pass begins. */
const QUIET_MS = 3_000;
/** Delay before another attempt on a file for which a pass failed, for example because the disk is full. */
const RETRY_MS = 60_000;

/** A completed pass. */
interface Wiped {
  path: string;
  wiped_bytes: number;
  milliseconds: number;
}

interface WipeListener {
  onWiped(wiped: Wiped): void;
  /** Called when a pass fails. The file keeps its mark, and another pass follows. */
  onFailure(path: string, thrown: unknown): void;
}

export class IdleWipes {
  readonly #files: IdleFile[];
  readonly #timer: NodeJS.Timeout;

  /**
   * @param paths of existing files; this thread keeps the checkpoints of `runs.mdb`
   */
  constructor({ main, runs, data_key, seat }: DatabasePaths, listener: WipeListener) {
    // If rows are shared, the files are only copies of the shared database. A copy with deleted content is made again
    // at the next start.
    this.#files =
      seat === undefined
        ? [new IdleFile(main, 'disk', data_key, listener), new IdleFile(runs, 'process', data_key, listener)]
        : [];
    this.#timer = setInterval(() => {
      for (const file of this.#files) file.poll();
    }, POLL_MS).unref();
  }

  /** Interrupts a running pass. Its file keeps its mark. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#files.map((file) => file.stop()));
  }
}

class IdleFile {
  readonly #path: string;
  readonly #durability: Durability;
  readonly #key: Uint8Array | null;
  readonly #listener: WipeListener;
  readonly #end = new AbortController();
  /** The number of the last transaction that a poll found, and when it was first found. */
  #txn = -1;
  #since = 0;
  /** The last transaction after which the file had no deleted content. */
  #clean = -1;
  #retryAt = 0;
  #pass: Promise<void> | null = null;

  constructor(path: string, durability: Durability, key: Uint8Array | null, listener: WipeListener) {
    this.#path = path;
    this.#durability = durability;
    this.#key = key;
    this.#listener = listener;
  }

  /** Starts a pass if the file has been quiet long enough and may contain deleted content. */
  poll(): void {
    if (this.#pass !== null) return;
    const now = performance.now();
    try {
      const txn = readTransaction(this.#path);
      if (txn !== this.#txn) {
        this.#txn = txn;
        this.#since = now;
      }
      if (txn === this.#clean || now - this.#since < QUIET_MS || now < this.#retryAt) return;
    } catch (thrown) {
      this.#fail(thrown);
      return;
    }
    this.#pass = this.#run()
      .catch((thrown) => this.#fail(thrown))
      .finally(() => {
        this.#pass = null;
      });
  }

  async stop(): Promise<void> {
    this.#end.abort();
    await this.#pass;
  }

  async #run(): Promise<void> {
    const started = performance.now();
    const wipe = new PageWipe(this.#path, this.#durability, this.#end.signal);
    try {
      if (!wipe.isMarked) {
        this.#clean = this.#txn;
        return;
      }
      if (wipe.hasEarlierReader) return;
      await this.#renewMark();
      const outcome = await wipe.run();
      if (outcome === 'damaged') throw new Error(`${this.#path}: its pages cannot be read`);
      this.#txn = readTransaction(this.#path);
      this.#since = performance.now();
      if (outcome !== 'wiped') return;
      const milliseconds = Math.round(performance.now() - started);
      this.#listener.onWiped({ path: this.#path, wiped_bytes: wipe.wiped_bytes, milliseconds });
    } finally {
      await wipe.close();
    }
  }

  /**
   * Writes the mark again, and makes a checkpoint. After this commit, both heads (LMDB: meta pages) belong to commits
   * after the deletion.
   */
  async #renewMark(): Promise<void> {
    const environment = Environment.open(this.#path, this.#durability, this.#key);
    try {
      await environment.transact(() => writeMark(environment));
      await environment.checkpoint();
    } finally {
      await environment.close();
    }
  }

  #fail(thrown: unknown): void {
    this.#retryAt = performance.now() + RETRY_MS;
    this.#listener.onFailure(this.#path, thrown);
  }
}

function readTransaction(path: string): number {
  const file = openSync(path, constants.O_RDONLY);
  try {
    return readHeads(file, path)[0].txn;
  } finally {
    closeSync(file);
  }
}
