/**
 * Claims DATA_DIR and the capture database, which only one process at a time may write. The process makes
 * these claims before it opens any of their files, and releases them when the writing threads have ended.
 * Main thread.
 */
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import type { Config } from '../config.ts';
import { CLAIM_PATIENCE_MS } from '../limits.ts';
import type { Log } from '../log.ts';
import { makeFolder } from '../std/folder.ts';
import { compactAtStart } from '../storage/compaction.ts';
import { type DatabasePaths, databasePaths, refuseShared, tryStores } from '../storage/lmdb/stores.ts';
import { settlePlan } from '../storage/rekey-plan.ts';
import { refuseHalfRestored } from '../storage/restore-marker.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from '../storage/writer-claim.ts';
import { explainCapture } from './capture-start.ts';

/**
 * Maximum size of a database with deleted content, and maximum content of a mostly unused database, that is compacted
 * at the start. Compacting such a database takes a few seconds.
 */
const COMPACTED_AT_START_BYTES = 256 << 20;

export class ProcessClaims {
  readonly #config: Config;
  readonly #log: Log;
  readonly #signal: AbortSignal | undefined;
  readonly #claims: WriterClaim[] = [];
  #isReleased = false;

  /**
   * @param signal ends the wait for another process to end
   */
  constructor(config: Config, log: Log, signal: AbortSignal | undefined) {
    this.#config = config;
    this.#log = log;
    this.#signal = signal;
  }

  /**
   * Claims the databases of the given parts, and finishes or undoes an interrupted change of the data key.
   * @throws Error with a one-line message: which process has the claim, or why the database cannot be opened
   */
  async take({ api, capture }: { api: boolean; capture: boolean }): Promise<void> {
    const { data_dir, data_key, capture: kept } = this.#config;
    if (api) {
      makeFolder(data_dir);
      await this.#hold(await claimData(data_dir, this.#log, this.#signal));
      refuseHalfRestored(databasePaths(data_dir).main);
      await settleRekey(this.#config, this.#log);
      const paths = databasePaths(data_dir, data_key);
      const isShared = this.#config.shared_database !== null;
      refuseOtherKind(isShared, data_dir, paths);
      const isRestored = isShared ? false : await tryStores(paths);
      if (isRestored)
        this.#log.warn(
          { data_dir },
          'the machine stopped while the service ran: runs.mdb has returned to its last checkpoint, at most a second before the stop',
        );
      if (!isShared) await compactFiles([paths.main, paths.runs], this.#log);
    }
    if (!capture) return;
    await this.#hold(await claimCapture(kept.db, this.#log, this.#signal));
    refuseHalfRestored(kept.db);
    if (!api) await settleRekey(this.#config, this.#log);
  }

  /** Informs processes that wait for the claims that this process is ending. */
  announceEnd(): void {
    for (const claim of this.#claims) claim.announceEnd();
  }

  /**
   * Keeps a claim for `release`. If the claims were already released, because the start failed,
   * this claim is released at once.
   */
  async #hold(claim: WriterClaim): Promise<void> {
    if (this.#isReleased) await claim.release();
    else this.#claims.push(claim);
  }

  async release(): Promise<void> {
    this.#isReleased = true;
    for (const claim of this.#claims.splice(0).reverse()) await claim.release();
  }
}

/**
 * Refuses a DATA_DIR of the other kind: it has either main.mdb and runs.mdb, or a view of a database that boxes share.
 * Otherwise the service would start without its accounts if an operator forgot to set AUTH_DB_URL.
 */
function refuseOtherKind(isShared: boolean, dataDir: string, { main, runs }: DatabasePaths): void {
  if (!isShared) return refuseShared(dataDir);
  const left = [main, runs].filter((path) => existsSync(path)).map((path) => basename(path));
  if (left.length === 0) return;
  const words =
    `DATA_DIR ${dataDir} has ${left.join(' and ')}, and AUTH_DB_URL names a database that boxes share: ` +
    '"understudy move --to postgres" moves the rows in DATA_DIR to that database; or set a new DATA_DIR to start ' +
    'without them';
  throw Object.assign(new Error(words), { code: 'ESTORES' });
}

/**
 * Compacts databases before they are opened, if content was deleted from them since the last compaction, or if they are
 * mostly unused. A database with deleted content that is too large, or cannot be compacted, still contains this
 * content; the log says so.
 */
async function compactFiles(files: readonly string[], log: Log): Promise<void> {
  const { done, put_off } = await compactAtStart(files, COMPACTED_AT_START_BYTES);
  for (const compacted of done)
    log.info(compacted, 'the database file was rewritten without deleted content and unused pages');
  for (const { path, why } of put_off)
    log.warn(
      { path, why },
      'the database file still holds deleted content: stop the service and run understudy compact',
    );
}

/**
 * Finishes or undoes an interrupted change of the data key, before anything is opened.
 * @throws WriterClaimedError while the change is in progress
 */
async function settleRekey({ data_dir, capture }: Config, log: Log): Promise<void> {
  const held = [databasePaths(data_dir).main, capture.db];
  const settled = await settlePlan({ data_dir, capture_db: capture.db }, held);
  if (settled === null) return;
  log.warn({ key: settled.key_id }, `a change of the data key was interrupted, and is ${settled.done} now`);
}

/**
 * Claims DATA_DIR for this process's actors, which keep state in memory: two processes would answer
 * differently and store conflicting states. Commands that only write a row, such as `understudy
 * keys`, need no claim. Waits for a process that still drains.
 * @throws Error with a one-line message if another process serves from it
 */
async function claimData(dir: string, log: Log, signal: AbortSignal | undefined): Promise<WriterClaim> {
  try {
    return await claimFile(databasePaths(dir).main, log, signal);
  } catch (thrown) {
    if (!(thrown instanceof WriterClaimedError)) throw thrown;
    const words =
      `${thrown.holder} uses DATA_DIR ${dir}, and only one process can: stop that process, ` +
      'or set another DATA_DIR';
    throw Object.assign(new Error(words, { cause: thrown }), { code: 'ESTORES' });
  }
}

/**
 * Claims the capture database for this process. Waits for a process that still drains.
 * @throws Error with a one-line message if another process writes to it
 */
async function claimCapture(db: string, log: Log, signal: AbortSignal | undefined): Promise<WriterClaim> {
  try {
    return await claimFile(db, log, signal);
  } catch (thrown) {
    if (!(thrown instanceof WriterClaimedError)) throw thrown;
    throw explainCapture(db, thrown);
  }
}

function claimFile(db: string, log: Log, signal: AbortSignal | undefined): Promise<WriterClaim> {
  return claimWriter(db, {
    patience_ms: CLAIM_PATIENCE_MS,
    signal,
    onWait: (holder) => log.warn({ db, holder }, 'waiting for a process that is ending'),
  });
}
