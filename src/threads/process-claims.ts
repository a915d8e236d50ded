/**
 * What one process at a time may write to: DATA_DIR and the capture database are claimed before anything in them is
 * opened, and given back when the threads that write have ended. Main thread.
 */
import type { Config } from '../config.ts';
import { CLAIM_PATIENCE_MS } from '../limits.ts';
import type { Log } from '../log.ts';
import { makeFolder } from '../std/folder.ts';
import { databasePaths, tryStores } from '../storage/lmdb/stores.ts';
import { settlePlan } from '../storage/rekey-plan.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from '../storage/writer-claim.ts';
import { explainCapture } from './capture-start.ts';

export class ProcessClaims {
  readonly #config: Config;
  readonly #log: Log;
  readonly #signal: AbortSignal | undefined;
  readonly #claims: WriterClaim[] = [];

  /** @param signal ends the wait for a process that is ending */
  constructor(config: Config, log: Log, signal: AbortSignal | undefined) {
    this.#config = config;
    this.#log = log;
    this.#signal = signal;
  }

  /**
   * Takes what the parts write to, and finishes or undoes a change of the data key that was cut short.
   * @throws Error of one line: who has it, or why it cannot be opened
   */
  async take({ api, capture }: { api: boolean; capture: boolean }): Promise<void> {
    const { data_dir, data_key, capture: kept } = this.#config;
    if (api) {
      makeFolder(data_dir);
      this.#claims.push(await claimData(data_dir, this.#log, this.#signal));
      await settleRekey(this.#config, this.#log);
      await tryStores(databasePaths(data_dir, data_key));
    }
    if (!capture) return;
    this.#claims.push(await claimCapture(kept.db, this.#log, this.#signal));
    if (!api) await settleRekey(this.#config, this.#log);
  }

  /** Processes that wait for them learn from now on that this one is ending. */
  announceEnd(): void {
    for (const claim of this.#claims) claim.announceEnd();
  }

  async release(): Promise<void> {
    for (const claim of this.#claims.splice(0).reverse()) await claim.release();
  }
}

/**
 * A change of the data key that was cut short is finished or undone, before anything is opened.
 * @throws WriterClaimedError while it is at work
 */
async function settleRekey({ data_dir, capture }: Config, log: Log): Promise<void> {
  const held = [databasePaths(data_dir).main, capture.db];
  const settled = await settlePlan(data_dir, held);
  if (settled === null) return;
  log.warn({ key: settled.key_id }, `a change of the data key was cut short: it is ${settled.done} now`);
}

/**
 * Takes DATA_DIR for this process's actors: what they know is in memory, and two of them would answer and store
 * differently. Who merely writes a row, as `understudy keys` does, needs no claim. One that still drains is waited for.
 * @throws Error of one line when another process serves from it
 */
async function claimData(dir: string, log: Log, signal: AbortSignal | undefined): Promise<WriterClaim> {
  try {
    return await claimFile(databasePaths(dir).main, log, signal);
  } catch (thrown) {
    if (!(thrown instanceof WriterClaimedError)) throw thrown;
    const words =
      `${thrown.holder} serves from DATA_DIR ${dir}, which one process can do at a time: stop that one, ` +
      'or set another DATA_DIR';
    throw Object.assign(new Error(words, { cause: thrown }), { code: 'ESTORES' });
  }
}

/**
 * Takes the capture database for this process. One that still drains is waited for.
 * @throws Error of one line when another process writes to it
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
