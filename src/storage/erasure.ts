/**
 * Erases captured exchanges permanently: from the live file, the sealed files, the full-text index and the attachments.
 * Selects the exchanges, and gives an order (capture/erase-order.ts) to the process that writes the captures, which
 * continues to store new exchanges. If no such process runs, carries out the order itself. Main thread of the command
 * line.
 */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { packNeedles } from '../../native/byte-engine.ts';
import { credentialForms } from '../redaction/credentials.ts';
import { findAny } from '../redaction/needles.ts';
import { isThere } from '../std/file-place.ts';
import { listDigests } from './capture/attachments.ts';
import { BlockReader } from './capture/blocks.ts';
import { type EraseOrder, eraseOrderFile, giveOrder, toRanges } from './capture/erase-order.ts';
import { CaptureFileError, isDamagedName, listSealed, openCaptureEnv } from './capture/layout.ts';
import { CaptureLog } from './capture/log.ts';
import { holdsTurns } from './capture/log-erasure.ts';
import { CaptureReader } from './capture/reader.ts';
import type { ExchangeSummary } from './capture/record.ts';
import { isErased } from './capture/record.ts';
import type { DecodeExchange } from './capture/stored-copy.ts';
import { awaitOrderEnd, LOOK_MS } from './order-end.ts';
import { settlePlan } from './rekey-plan.ts';
import { refuseHalfRestored } from './restore-marker.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/** Nothing can be erased now. The message is one line for the user. */
export class ErasureError extends Error {
  override readonly name = 'ErasureError';
}

/** Selects the exchanges to erase. */
export type ErasureTarget =
  /**
   * Exchanges of a run and of its descendants. `run_id` is the run's label, the name that was detected, or the name of
   * a session, which selects all its runs.
   */
  | { run_id: string }
  /** Exchanges that began before this time, in milliseconds since the epoch. */
  | { before_ms: number }
  /** Exchanges whose stored copy contains this credential: plain, escaped or encoded. Secret. */
  | { credential: string };

interface ErasureOptions {
  data_dir: string;
  capture_db: string;
  /** Secret; null: nothing is encrypted. */
  data_key: Uint8Array | null;
  decode: DecodeExchange;
  target: ErasureTarget;
  /** Whether only to report what would be erased. */
  is_dry: boolean;
  /** Maximum time that the writing process may take to accept the order. */
  accept_ms?: number;
}

export interface ErasureReport {
  exchanges: number;
  /** If a run was to be erased: the run and its descendants. Empty for other targets. */
  run_ids: string[];
  /** Number of files that change; 0 if the erasure was only to be reported. */
  files: number;
  /** Number of attachments to which only erased exchanges refer; 0 if the erasure was only to be reported. */
  attachments: number;
  /** Damaged exchanges. They cannot be checked against the target, and are not erased. */
  unreadable: number;
  /** Damaged files that were set aside earlier; they may contain exchanges that match. */
  set_aside: string[];
}

/** Called for each file as it is processed. */
type ErasureProgress = (name: string, doneBytes: number, ofBytes: number) => void;

const CACHE_BYTES = 32 << 20;
/** Number of exchanges that are read before the read transaction is renewed. */
const RENEW_AFTER = 256;
/** Maximum number of attempts to read the files while they are rotated. */
const READ_TRIES = 5;

/**
 * Erases exchanges, or reports which would be erased.
 * @throws ErasureError if the database is missing, or if the process that writes to it does not carry out the order;
 *   CaptureFileError for a file that cannot be read; DataKeyError; a file system error
 */
export async function eraseCaptured(
  options: ErasureOptions,
  progress: ErasureProgress,
): Promise<ErasureReport> {
  const { data_dir, capture_db } = options;
  let claim: WriterClaim;
  try {
    claim = await claimWriter(capture_db, { patience_ms: 0 });
  } catch (thrown) {
    if (!(thrown instanceof WriterClaimedError)) throw thrown;
    return await eraseBeside(options, progress, thrown.holder);
  }
  try {
    refuseHalfRestored(capture_db);
    await settlePlan({ data_dir, capture_db }, [capture_db]);
    return await eraseAlone(options, progress);
  } finally {
    await claim.release();
  }
}

/** Erases in this process, because no other process writes. */
async function eraseAlone(options: ErasureOptions, progress: ErasureProgress): Promise<ErasureReport> {
  const { capture_db: path, data_key, decode, is_dry } = options;
  if (!isThere(path) && listSealed(path).length === 0)
    throw new ErasureError(`${path}: no such capture database`);
  const log = await CaptureLog.open({ path, redact: true, decode, data_key, has_text_index: true });
  try {
    await log.eraseOrdered();
    while ((await log.packSome(1_000)) > 0) progress(path, 0, 0);
    // All exchanges must be indexed, because the selection finds runs through the index.
    while ((await log.indexSome(decode, 1_000)) > 0) progress(path, 0, 0);
    const { order, report } = await new Selection(options, progress).find();
    if (order === null || is_dry) return report;
    if (!giveOrder(path, order, data_key))
      throw new ErasureError(`${path}: another erasure has begun; try again`);
    await log.eraseOrdered();
    return report;
  } finally {
    await log.close();
  }
}

/** Orders the process that writes the captures to erase, and waits until it has. */
async function eraseBeside(
  options: ErasureOptions,
  progress: ErasureProgress,
  holder: string,
): Promise<ErasureReport> {
  const { capture_db, data_key, is_dry } = options;
  refuseHalfRestored(capture_db);
  for (;;) {
    await awaitEnd(options, progress, holder);
    await awaitIndex(options, progress);
    const { order, report } = await new Selection(options, progress).find();
    if (order === null || is_dry) return report;
    if (!giveOrder(capture_db, order, data_key)) continue;
    await awaitEnd(options, progress, holder);
    return report;
  }
}

/**
 * Waits until the writing process has indexed all exchanges that are stored now, because the selection finds runs
 * through the index.
 */
async function awaitIndex(
  { capture_db, data_key }: ErasureOptions,
  progress: ErasureProgress,
): Promise<void> {
  if (!isThere(capture_db)) return;
  const reader = CaptureReader.open(capture_db, { data_key, skipped: () => {} });
  try {
    const { first_id, last_id } = reader.range();
    for (;;) {
      const { indexed_id } = reader.range();
      if (indexed_id >= last_id) return;
      progress(`${capture_db}: waiting for its index`, indexed_id - first_id + 1, last_id - first_id + 1);
      await pause(LOOK_MS);
    }
  } finally {
    await reader.close();
  }
}

/** Waits until no order exists. @throws ErasureError */
function awaitEnd(options: ErasureOptions, progress: ErasureProgress, holder: string): Promise<void> {
  const { capture_db, accept_ms } = options;
  return awaitOrderEnd({
    file: eraseOrderFile(capture_db),
    capture_db,
    holder,
    accept_ms,
    onLook: () => progress(`${capture_db}: ${holder} erases`, 0, 0),
    carryOut: () => finishAlone(options),
    refuse: (words) => new ErasureError(words),
  });
}

/** Carries out the order in this process, because the writing process ended before it had carried it out. */
async function finishAlone({ capture_db: path, data_key, decode }: ErasureOptions): Promise<void> {
  const log = await CaptureLog.open({ path, redact: true, decode, data_key, has_text_index: true });
  try {
    await log.eraseOrdered();
  } finally {
    await log.close();
  }
}

/** The exchanges of a file that are to be erased. */
interface FilePlan {
  path: string;
  erased: Set<number>;
  /** The first exchange to erase, which marks the file. */
  mark: EraseOrder['marks'];
}

/** Finds the exchanges that match the target. Changes nothing. */
class Selection {
  readonly #options: ErasureOptions;
  readonly #progress: ErasureProgress;
  #done = 0;
  #of = 0;
  #unreadable = 0;
  #lastId = 0;
  readonly #runIds = new Set<string>();
  readonly #otherRuns = new Set<string>();
  /** Turns that stay and continue a turn that is erased or is in a file that was not read yet. */
  readonly #followers: { id: number; follows: number }[] = [];

  constructor(options: ErasureOptions, progress: ErasureProgress) {
    this.#options = options;
    this.#progress = progress;
  }

  /** Finds the exchanges. @returns the order, which is null if there is nothing to erase, and the report */
  async find(): Promise<{ order: EraseOrder | null; report: ErasureReport }> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#find();
      } catch (thrown) {
        // A rotation has renamed a file since the list was read.
        const isMoved = thrown instanceof CaptureFileError && thrown.code === 'missing';
        if (!isMoved || tries === READ_TRIES) throw thrown;
      }
    }
  }

  async #find(): Promise<{ order: EraseOrder | null; report: ErasureReport }> {
    const { capture_db, target, data_key } = this.#options;
    this.#begin();
    const paths = [...listSealed(capture_db).map(({ path }) => path), ...[capture_db].filter(isThere)];
    if (paths.length === 0) throw new ErasureError(`${capture_db}: no such capture database`);
    this.#of = paths.reduce((sum, path) => sum + statSync(path).size, 0);
    const runs = 'run_id' in target ? await this.#listFamily(paths, target.run_id) : new Set<string>();
    const files: FilePlan[] = [];
    const all = new Set<number>();
    for (const path of paths) {
      files.push({ path, ...(await this.#select(path, runs, all)) });
      this.#tell(path, statSync(path).size);
    }
    const report = {
      exchanges: all.size,
      run_ids: [...runs],
      files: 0,
      attachments: 0,
      unreadable: this.#unreadable,
      set_aside: this.#listSetAside(),
    };
    if (all.size === 0) return { order: null, report };
    for (const { path, erased } of files)
      if (erased.size > 0 || (await holdsTurns(path, data_key, all))) report.files++;
    const attachments = await this.#findOrphans(files);
    const order: EraseOrder = {
      format: 'understudy_erase_v1',
      ranges: toRanges([...all].sort((a, b) => a - b)),
      followers: this.#followers.filter(({ follows }) => all.has(follows)).map(({ id }) => id),
      run_ids: [...new Set([...runs, ...this.#runIds])],
      is_partial: [...this.#runIds].some((id) => this.#otherRuns.has(id)),
      attachments,
      marks: files.flatMap(({ mark }) => mark),
      last_id: this.#lastId,
    };
    const is_dry = this.#options.is_dry;
    return {
      order,
      report: is_dry ? { ...report, files: 0 } : { ...report, attachments: attachments.length },
    };
  }

  #begin(): void {
    this.#done = 0;
    this.#unreadable = 0;
    this.#lastId = 0;
    this.#runIds.clear();
    this.#otherRuns.clear();
    this.#followers.length = 0;
  }

  #tell(path: string, bytes: number): void {
    this.#done = Math.min(this.#done + bytes, this.#of);
    this.#progress(path, this.#done, this.#of);
  }

  /** Lists a run and all its descendants, such as the runs of its sub-agents. */
  async #listFamily(paths: readonly string[], runId: string): Promise<Set<string>> {
    const { data_key } = this.#options;
    const children = new Map<string, Set<string>>();
    for (const path of paths) {
      const reader = CaptureReader.open(path, { data_key, skipped: () => {} });
      try {
        for (const { run_id, session_id, parent_run_id } of reader.summaries({})) {
          if (run_id === null) continue;
          for (const parent of [session_id, parent_run_id]) {
            if (parent == null || parent === run_id) continue;
            const begun = children.get(parent);
            if (begun === undefined) children.set(parent, new Set([run_id]));
            else begun.add(run_id);
          }
        }
      } finally {
        await reader.close();
      }
    }
    const family = new Set([runId]);
    for (const member of family) for (const child of children.get(member) ?? []) family.add(child);
    return family;
  }

  /** Finds the exchanges of a file that match the target. @param all collects their ids */
  async #select(path: string, runs: ReadonlySet<string>, all: Set<number>): Promise<Omit<FilePlan, 'path'>> {
    const { target, data_key } = this.#options;
    const skipped = () => {
      this.#unreadable++;
    };
    const reader = CaptureReader.open(path, { data_key, skipped });
    const found = new Set<number>();
    const mark: EraseOrder['marks'] = [];
    const needles = 'credential' in target ? packForms(target.credential) : null;
    try {
      for (const summary of reader.summaries({})) {
        const { id, run_id, follows } = summary;
        this.#lastId = Math.max(this.#lastId, id);
        if (isErased(summary)) continue;
        if (isMeant(target, summary, runs) && (needles === null || holds(reader, id, needles))) {
          if (found.size === 0) mark.push({ id, started_at: summary.started_at });
          found.add(id);
          all.add(id);
          if (run_id !== null) this.#runIds.add(run_id);
          continue;
        }
        if (run_id !== null) this.#otherRuns.add(run_id);
        if (follows !== undefined && (all.has(follows) || follows > id))
          this.#followers.push({ id, follows });
      }
      return { erased: found, mark };
    } finally {
      await reader.close();
    }
  }

  #listSetAside(): string[] {
    const { capture_db } = this.#options;
    const folder = dirname(capture_db);
    if (!existsSync(folder)) return [];
    const live = basename(capture_db);
    return readdirSync(folder)
      .filter((name) => isDamagedName(live, name))
      .map((name) => join(folder, name));
  }

  /** SHA-256 of the attachments to which only erased exchanges refer. */
  async #findOrphans(files: readonly FilePlan[]): Promise<string[]> {
    const named = new Set<string>();
    for (const { path, erased } of files)
      if (erased.size > 0)
        await this.#eachAttachment(
          path,
          (id) => erased.has(id),
          (sha256) => named.add(sha256),
        );
    if (named.size === 0) return [];
    for (const { path, erased } of files)
      await this.#eachAttachment(
        path,
        (id) => !erased.has(id),
        (sha256) => named.delete(sha256),
      );
    return [...named];
  }

  async #eachAttachment(
    path: string,
    isMeant: (id: number) => boolean,
    tell: (sha256: string) => void,
  ): Promise<void> {
    const env = openCaptureEnv(path, 'read', this.#options.data_key);
    try {
      const blocks = new BlockReader(env, path, CACHE_BYTES);
      const last = Math.min(blocks.readLastId(), this.#lastId);
      for (let id = blocks.readFirstId(); id <= last; id++) {
        if (id % RENEW_AFTER === 0) env.root.resetReadTxn();
        if (!isMeant(id)) continue;
        const meta = readOrNull(() => blocks.readMeta(id));
        if (meta == null || !(meta.request_has_files || meta.response_has_files)) continue;
        const bodies = readOrNull(() => blocks.readStored(id));
        if (bodies == null) continue;
        for (const body of [bodies.request, bodies.response])
          for (const sha256 of listDigests(body)) tell(sha256);
      }
    } finally {
      await env.root.close();
    }
  }
}

/** Whether the exchange's summary matches the target. For a credential, the bodies must be searched, too. */
function isMeant(
  target: ErasureTarget,
  { run_id, started_at }: ExchangeSummary,
  runs: ReadonlySet<string>,
): boolean {
  if ('run_id' in target) return run_id !== null && runs.has(run_id);
  return !('before_ms' in target) || Date.parse(started_at) < target.before_ms;
}

function packForms(credential: string): Uint8Array {
  return packNeedles(credentialForms(credential).map((form) => Buffer.from(form, 'latin1')));
}

/** Whether the stored exchange contains one of the needles. */
function holds(reader: CaptureReader, id: number, needles: Uint8Array): boolean {
  const record = readOrNull(() => reader.exchange(id));
  const parts = [
    Buffer.from(JSON.stringify(record ?? null)),
    readOrNull(() => reader.body(id, 'request')) ?? NOTHING,
    readOrNull(() => reader.body(id, 'response')) ?? NOTHING,
  ];
  return parts.some((part) => findAny(part, needles, 0, part.length) >= 0);
}

const NOTHING = new Uint8Array(0);

/**
 * Calls `read`; returns null if the data is damaged. @throws CaptureFileError if it is in a bucket that cannot be read
 * now
 */
function readOrNull<Value>(read: () => Value): Value | null {
  try {
    return read();
  } catch (thrown) {
    if (thrown instanceof CaptureFileError && thrown.code === 'remote') throw thrown;
    return null;
  }
}
