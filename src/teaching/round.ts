/**
 * One round of `distill` and `loop`: reads the capture database, teaches a student, measures it, and publishes it if it
 * is good enough. The round's own thread (round-thread.ts); plain data in and out.
 *
 * An interrupted round never leaves half a student in service, because a version begins to serve with a single rename.
 * An interrupted round may leave a changed cache (`OUT.work/`), which the next round reuses, new patterns, and a kept
 * version that does not serve.
 */

import { join } from 'node:path';
import { CaptureFiles } from '../captures/capture-files.ts';
import { CHAINED_RUNS, keyOfRun, RunChains } from '../captures/run-chains.ts';
import { listWordFolders, readRunWords } from '../captures/run-words.ts';
import { UnreadableExchanges } from '../captures/unreadable-exchanges.ts';
import { type Config, readVersion } from '../config.ts';
import type { RelegationWire } from '../domain/exchange.ts';
import type { CaptureOwner, RunWords } from '../domain/run-mark.ts';
import { chooseIndex } from '../search/open-index.ts';
import { systemClock } from '../std/clock.ts';
import { describeRefusal } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { DigestCache } from '../storage/digest-cache.ts';
import {
  checkForPublishing,
  listVersions,
  publishStudent,
  readMeasuredStudent,
  StudentDirectoryError,
  writePatterns,
} from '../student/directory.ts';
import type { StudentKind, StudentManifest } from '../student/model/manifest.ts';
import { orderShare, readOrders, writeOrders } from '../student/orders.ts';
import { FINAL_COST } from './calibration.ts';
import { describeTooLittle } from './early-end.ts';
import { GoldenRequests } from './golden-requests.ts';
import { type DigestStore, type GoldenMaterial, gatherGolden } from './golden-steps.ts';
import { mergePatterns } from './merge-patterns.ts';
import { type PublishedStudent, refuseMeasured } from './publication.ts';
import { readRefused, writeRefused } from './refused-round.ts';
import { PUBLISHING } from './round-phases.ts';
import { StudentAsker } from './student-asker.ts';
import {
  describeShortage,
  fingerprintMaterial,
  type Gate,
  type JudgeFit,
  judgeStudent,
  type MeasuredFigures,
  type TaughtStudent,
  teachStudent,
} from './taught-student.ts';
import { TextEmbedder } from './text-embedder.ts';
import { type ExportReport, exportGolden } from './training-export.ts';
import type { TrainingForm } from './training-lines.ts';

/** How long a student may serve after its round. */
const STUDENT_VALID_MS = 30 * 24 * 3_600_000;

/** Maximum bytes of the cache per open file: enough for a run's exchanges and the blocks on which they are based. */
const CACHE_BYTES = 4 * 1024 * 1024;

/** Version of the code that makes digests of runs; change it when digests change. */
const DIGEST_CODE = 'digest-26';

export interface RoundOptions {
  /** Absolute path of the capture database. */
  db: string;
  /** The student's directory, or the folder of an export; '' if nothing is stored. */
  out: string;
  student: StudentKind;
  gate: Gate;
  /** Tools whose calls are never served. */
  never_serve: string[];
  /** How many times as much an error of a final call costs. */
  final_cost?: number;
  /** Runs that began earlier do not teach; null or absent: all may teach. */
  since_ms?: number | null;
  /** Share of the golden runs held out for a service; null: HELD_OUT.share, or more if an agent has few runs. */
  held_out?: number | null;
  /** Whether to only report what a model would serve, and to publish nothing. */
  evaluates?: boolean;
  /** Exports golden runs as training lines in this form, and makes no student. */
  exports?: TrainingForm | null;
  /** true: publish only a student that is not worse than the published one, and do nothing without new runs. */
  compare: boolean;
  /** Share of the runs that a new version serves. */
  share: number;
  /** Wires whose steps are taught. */
  wires?: readonly RelegationWire[];
  /** Share of a round's usual memory that may be used, 0 to 1; default 1. */
  room?: number;
  /** Secret: for the service of a student of kind `http`. */
  student_key: string;
  data_dir: string;
  /** Key of the databases and of the cache between rounds; null if absent. Secret. */
  data_key?: Uint8Array | null;
  /** The organization whose outcomes count. */
  capture_owner: CaptureOwner;
  embedding: Config['embedding'];
}

interface RoundPatterns {
  /** Number of written patterns, with near-duplicates merged. */
  count: number;
  /** Number of patterns found in the golden runs, before merging. */
  found: number;
  path: string | null;
}

/** The result of a round. */
export interface RoundReport {
  outcome: 'published' | 'kept' | 'nothing' | 'evaluated';
  /** Why nothing new was published; '' if a student was published, or if an evaluated student could be. */
  reason: string;
  /** The version that the directory serves now; null if none serves, or if the round only evaluated. */
  version: number | null;
  material: Omit<GoldenMaterial, 'taught' | 'patterns'>;
  /** Golden runs with steps to teach. */
  taught_runs: number;
  patterns: RoundPatterns;
  /** null when the round ended before it made a student. */
  student: TaughtStudent | null;
  manifest: StudentManifest | null;
}

/** Reports progress during a round. */
export interface RoundTeller {
  /** Reports progress; called often. */
  tell(what: string, done: number, of: number): void;
  /** Announces a step that takes a while, and how much of the work is done before it, if that is known. */
  announce(what: string, done?: number, of?: number): void;
  warn(words: string): void;
}

/**
 * Runs a round.
 * @throws CaptureFileError, DataKeyError, RunWordsError, StudentDirectoryError, OrdersError, ServiceFailedError, or the
 * system's error
 */
export async function runRound(options: RoundOptions, teller: RoundTeller): Promise<RoundReport> {
  const { warn } = teller;
  const before = options.evaluates === true ? null : await checkForPublishing(options.out);
  const makeIndex = chooseIndex(warn);
  const embedder = new TextEmbedder(options.embedding, warn);
  try {
    const material = await readMaterial(options, teller, embedder);
    teller.announce('putting patterns together');
    const patterns =
      options.evaluates === true ? NO_PATTERNS : await savePatterns(options.out, material, embedder);
    const { taught, patterns: _, ...counts } = material;
    const report: RoundReport = {
      outcome: before === null ? 'nothing' : 'kept',
      reason: '',
      version: before?.version ?? null,
      material: counts,
      taught_runs: taught.length,
      patterns,
      student: null,
      manifest: before,
    };
    const shortage = describeShortage(material);
    if (shortage !== null) return { ...report, reason: shortage };
    const { student, gate, never_serve, final_cost = FINAL_COST, held_out = null } = options;
    const wanted = { target_error: gate.target_error, student, never_serve, final_cost, held_out };
    const judged = { fingerprint: fingerprintMaterial(material, wanted), gate, before };
    const same = options.compare ? await findSame(options, judged) : null;
    if (same !== null) return { ...report, reason: same };
    const tooLittle =
      options.evaluates === true ? null : describeTooLittle(taught, { student, gate, held_out });
    if (tooLittle !== null) return { ...report, reason: tooLittle };
    const isCompared = options.compare && before !== null && student.kind === 'exemplar';
    const published = isCompared ? await readPublished(options.out, warn) : null;
    const madeAtMs = systemClock.wallMs();
    const head = {
      made_at: new Date(madeAtMs).toISOString(),
      valid_until: new Date(madeAtMs + STUDENT_VALID_MS).toISOString(),
      made_by: `understudy ${readVersion()}`,
    };
    const taughtStudent = await withRequests(options, ({ isFit, service }) => {
      const judging = { published, gate, makeIndex, isFit };
      const asked = { makeIndex, tell: teller.announce, isFit, ...(service === null ? {} : { service }) };
      const refuse = (measured: MeasuredFigures) => refuseMeasured(measured, judging);
      return teachStudent(material, { ...wanted, ...asked, refuse }, head);
    });
    const refusal = taughtStudent.refusal ?? judgeStudent(taughtStudent, gate);
    if (options.evaluates === true)
      return {
        ...report,
        outcome: 'evaluated',
        reason: refusal ?? '',
        student: taughtStudent,
      };
    if (refusal !== null) {
      if (isRepeatable(options)) await keepRefusal(options.out, judged, refusal, warn);
      return { ...report, reason: refusal, student: taughtStudent };
    }
    teller.announce(PUBLISHING);
    const isHeld = before !== null && (await readOrders(options.out)).held;
    const manifest = await publishStudent(options.out, taughtStudent.draft, taughtStudent.model, {
      measured: taughtStudent.measured_model,
      serves: !isHeld,
      before: async (version) => {
        const orders = await readOrders(options.out);
        if (!isHeld && options.share < 1)
          await writeOrders(options.out, orderShare(orders, version, options.share));
      },
    });
    if (isHeld) return { ...report, reason: describeWaiting(manifest.version), student: taughtStudent };
    return { ...report, outcome: 'published', version: manifest.version, student: taughtStudent, manifest };
  } finally {
    await embedder.close();
  }
}

/** Describes why a new version is not published: an operator has pinned the serving version. */
function describeWaiting(version: number): string {
  return `version ${version} is stored but not published, because an operator pinned the serving version: understudy student publish ${version}`;
}

/**
 * Checks whether the same material already gave the serving version, or a kept version while an operator pins the
 * serving version, or a student that could not be published.
 * @returns why no new student is made; null: the material is new
 */
async function findSame(
  options: RoundOptions,
  judged: { fingerprint: string; gate: Gate; before: StudentManifest | null },
): Promise<string | null> {
  const { out } = options;
  const { before, fingerprint } = judged;
  if (before?.golden.fingerprint === fingerprint) return `nothing new since version ${before.version}`;
  const refused = isRepeatable(options) ? await readRefused(out, judged) : null;
  if (refused !== null) return `nothing new since the last round, which published nothing: ${refused}`;
  if (before === null || !(await readOrders(out)).held) return null;
  const kept = (await listVersions(out)).find(({ manifest }) => manifest?.golden.fingerprint === fingerprint);
  return kept === undefined ? null : `nothing new: ${describeWaiting(kept.version)}`;
}

/** Whether another round with the same material ends in the same way. A service may answer differently each time. */
function isRepeatable({ compare, student }: RoundOptions): boolean {
  return compare && student.kind === 'exemplar';
}

/** Remembers why nothing is published. If that fails, the next round is made even without new runs. */
async function keepRefusal(
  out: string,
  judged: Parameters<typeof writeRefused>[1],
  reason: string,
  warn: (words: string) => void,
): Promise<void> {
  try {
    await writeRefused(out, judged, reason);
  } catch (error) {
    const refusal = describeRefusal(error);
    if (refusal === null) throw error;
    warn(`the result of this round is not kept, so the next round repeats the work: ${refusal}`);
  }
}

/** Opens the database, from which golden requests are read again. For kind `http` it also opens the service. */
async function withRequests<Result>(
  { student, student_key, db, data_key = null }: RoundOptions,
  work: (asked: { isFit: JudgeFit; service: StudentAsker | null }) => Promise<Result>,
): Promise<Result> {
  const source = await CaptureFiles.open(db, { cache_bytes: CACHE_BYTES, data_key });
  const requests = new GoldenRequests(source);
  const service = student.kind === 'http' ? new StudentAsker(student, student_key, requests) : null;
  try {
    return await work({ isFit: (step, answer) => requests.isFit(step, answer), service });
  } finally {
    await service?.close();
    await source.close();
  }
}

/**
 * Runs an export.
 * @throws ExportError, and what a round throws
 */
export async function runExport(
  options: RoundOptions & { exports: TrainingForm },
  teller: RoundTeller,
): Promise<ExportReport> {
  const { out, exports: form, held_out = null, wires = ['messages'], data_key = null, room = 1 } = options;
  const unreadable = new UnreadableExchanges();
  const source = await CaptureFiles.open(options.db, { cache_bytes: CACHE_BYTES, data_key, unreadable });
  try {
    const chains = await readChains(source, teller, Math.ceil(CHAINED_RUNS * room));
    const words = await readWordsByKey(options, chains);
    const report = await exportGolden(source, chains, words, { out, form, held_out, wires }, teller);
    if (unreadable.count > 0) teller.warn(unreadable.describe());
    return report;
  } finally {
    await source.close();
  }
}

async function readMaterial(
  options: RoundOptions,
  teller: RoundTeller,
  embedder: TextEmbedder,
): Promise<GoldenMaterial> {
  const { data_key = null, room = 1 } = options;
  const unreadable = new UnreadableExchanges();
  const source = await CaptureFiles.open(options.db, { cache_bytes: CACHE_BYTES, data_key, unreadable });
  try {
    const chains = await readChains(source, teller, Math.ceil(CHAINED_RUNS * room));
    const words = await readWordsByKey(options, chains);
    const cache = options.out === '' ? null : openCache(options.out, data_key, teller.warn);
    const store = cache === null ? null : new KeptDigests(cache, teller.warn);
    try {
      const material = await gatherGolden(source, chains, {
        words,
        store,
        room,
        since_ms: options.since_ms ?? null,
        ...(options.wires === undefined ? {} : { wires: options.wires }),
        embed: (texts) => embedder.embed(texts),
        pause: () => source.release(),
        tell: (seen, golden) =>
          teller.tell(`reading runs: ${seen} of ${chains.size}, ${golden} golden`, seen, chains.size),
      });
      material.runs += chains.forgotten;
      await store?.prune();
      if (unreadable.count > 0) teller.warn(unreadable.describe());
      return material;
    } finally {
      await store?.close();
    }
  } finally {
    await source.close();
  }
}

/** Chains exchanges to runs, for the exchanges that exist when the chaining begins. */
async function readChains(source: CaptureFiles, teller: RoundTeller, newest: number): Promise<RunChains> {
  const chains = new RunChains(null, newest);
  let read = 0;
  await chains.addAll(source, () => {
    read += 1;
    teller.tell('looking through the exchanges', read, source.count);
  });
  return chains;
}

async function readWordsByKey(
  { db, data_dir, data_key = null, capture_owner }: RoundOptions,
  chains: RunChains,
): Promise<Map<string, RunWords>> {
  const words = await readRunWords(listWordFolders(db, data_dir), { data_key, owner: capture_owner }, chains);
  return new Map([...words].map(([runId, said]) => [keyOfRun(runId), said]));
}

/** The cache of digests. If it cannot be written, the round warns once and continues without a cache. */
class KeptDigests implements DigestStore {
  readonly #cache: DigestCache;
  readonly #warn: (words: string) => void;
  #isGivenUp = false;

  constructor(cache: DigestCache, warn: (words: string) => void) {
    this.#cache = cache;
    this.#warn = warn;
  }

  get(...key: Parameters<DigestCache['get']>): unknown {
    return this.#cache.get(...key);
  }

  put(...digest: Parameters<DigestCache['put']>): Promise<void> {
    return this.#write(() => this.#cache.put(...digest));
  }

  prune(): Promise<void> {
    return this.#write(() => this.#cache.prune());
  }

  async close(): Promise<void> {
    await this.#write(() => this.#cache.flush());
    await this.#cache.close();
  }

  async #write(write: () => Promise<void>): Promise<void> {
    if (this.#isGivenUp) return;
    try {
      await write();
    } catch (error) {
      const refusal = describeRefusal(error);
      if (refusal === null) throw error;
      this.#isGivenUp = true;
      this.#warn(`digests of runs are not cached, so an interrupted round starts over: ${refusal}`);
    }
  }
}

/**
 * Opens the cache of digests.
 * @returns null, after a warning: the cache cannot be opened. Then each round reads every run again
 */
function openCache(
  out: string,
  dataKey: Uint8Array | null,
  warn: (words: string) => void,
): DigestCache | null {
  const folder = `${out}.work`;
  try {
    makeFolder(folder);
    return DigestCache.open(join(folder, 'digests.mdb'), `${readVersion()} ${DIGEST_CODE}`, dataKey);
  } catch (error) {
    warn(
      `${folder} cannot be used, so an interrupted round starts over: ${describeRefusal(error) ?? (error as Error).message}`,
    );
    return null;
  }
}

const NO_PATTERNS: RoundPatterns = { count: 0, found: 0, path: null };

async function savePatterns(
  out: string,
  { patterns }: GoldenMaterial,
  embedder: TextEmbedder,
): Promise<RoundPatterns> {
  if (patterns.length === 0) return NO_PATTERNS;
  const merged = mergePatterns(patterns, await embedder.embed(patterns.map(({ situation }) => situation)));
  const path = await writePatterns(out, merged.map((pattern) => `${JSON.stringify(pattern)}\n`).join(''));
  return { count: merged.length, found: patterns.length, path };
}

/**
 * Reads the serving version with the model that was measured.
 * @returns null if this version is unreadable: it cannot be compared, and a new student replaces it
 */
async function readPublished(out: string, warn: (words: string) => void): Promise<PublishedStudent | null> {
  try {
    return await readMeasuredStudent(out);
  } catch (error) {
    if (!(error instanceof StudentDirectoryError)) throw error;
    warn(`the published student is unreadable and cannot be compared: ${error.message}`);
    return null;
  }
}
