/**
 * Entry of the capture process, which runs only the capture log. LMDB maps the database and trusts
 * its pages, so a damaged page can crash the process that reads it. In a separate process, such a
 * crash interrupts capture briefly, but never the traffic. Started and watched by `CaptureProcess`
 * (capture-writer/process.ts). Composition root of this process. It runs until its channel closes.
 * Then it finishes its current work, closes the database and ends. It ignores signals that are sent
 * to a whole process group, because the parent closes the channel once everything is written.
 */

import { CaptureLogAdapter, type ExchangeLog } from '../../actors/capture-writer/adapter.ts';
import { viewPlaces } from '../../actors/capture-writer/batch.ts';
import {
  type AppendInput,
  type CaptureFailure,
  type CaptureProcessOptions,
  type CaptureRequest,
  type FileState,
  type FromCapture,
  MEMORY_DESCRIPTOR,
  type OpenInput,
  type OpenReply,
  type ToCapture,
} from '../../actors/capture-writer/child-protocol.ts';
import { viewMappedMemory } from '../../actors/capture-writer/mapped-memory.ts';
import type { Appended } from '../../actors/capture-writer/protocol.ts';
import { WriterReport } from '../../actors/capture-writer/report.ts';
import { RETENTION } from '../domain/retention-clock.ts';
import { CLAIM_PATIENCE_MS } from '../limits.ts';
import { createLog, type Log } from '../log.ts';
import { decodeExchange } from '../providers/decode.ts';
import { describeRefusal } from '../std/file-place.ts';
import { noteTouching } from '../storage/capture/attachment-ages.ts';
import {
  isDamage,
  isOfSystem,
  listDamaged,
  setLiveAside,
  setSealingAside,
} from '../storage/capture/damage.ts';
import { eraseOrderFile } from '../storage/capture/erase-order.ts';
import { CaptureExpiry } from '../storage/capture/expiry.ts';
import { LastIdFile, readLastId } from '../storage/capture/last-id.ts';
import { SEAL_LIMITS, sealWhenDue } from '../storage/capture/live-sealing.ts';
import { CaptureLog } from '../storage/capture/log.ts';
import { findRewriteOrder, rewriteOrderFile } from '../storage/capture/rewrite-order.ts';
import { needsRestore } from '../storage/lmdb/checkpoint.ts';
import { allowFetching } from '../storage/offload/offloaded-reads.ts';
import { ReadWatch } from '../storage/read-watch.ts';
import { capturesNotePath, RetentionClock } from '../storage/retention-clock.ts';
import { claimWriter, type WriterClaim } from '../storage/writer-claim.ts';
import { QuietWatch } from './quiet-watch.ts';
import { sealOnThread } from './sealing-thread.ts';

/** Longest wait for the database to be closed at the end. */
const END_MS = 60_000;

/** Interval of the checks of the live file's size and age. */
const SEAL_LOOK_MS = 60_000;

/** Interval of the checks for orders of commands, and the pause after a failed order. */
const ORDER_LOOK_MS = 250;
const ORDER_AGAIN_MS = 30_000;
const ORDER_WORDS = {
  erase: {
    done: 'exchanges were erased, as understudy erase ordered',
    failed: 'exchanges cannot be erased now; the process tries again',
  },
  compact: {
    done: 'capture files were written without unused space, as understudy compact ordered',
    failed: 'capture files cannot be rewritten now; the process tries again',
  },
  rekey: {
    done: 'captures were encrypted with the new key, as understudy rekey ordered',
    failed: 'captures cannot be encrypted with the new key now; the process tries again',
  },
} as const;

/** Interval of the checks for read transactions that are too old. */
const READ_LOOK_MS = 10_000;

/**
 * Interval of the checks for sealed files to send to the bucket, the pause after a failure, and how often the
 * failure is logged.
 */
const BUCKET_LOOK_MS = 2_000;
const BUCKET_AGAIN_MS = 30_000;
const BUCKET_TELL_MS = 600_000;

/** The capture log with its timers: retention, sealing, orders, read transactions, the bucket. */
class Capture {
  readonly #options: CaptureProcessOptions;
  readonly #logger: Log;
  readonly #adapter: CaptureLogAdapter;
  readonly #lastId: LastIdFile;
  readonly #memory: Uint8Array | null;
  #claim: WriterClaim | null = null;
  #log: CaptureLog | null = null;
  #expiry: CaptureExpiry | null = null;
  #ages: RetentionClock | null = null;
  #expiring: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;
  #sealTimer: NodeJS.Timeout | null = null;
  #orderTimer: NodeJS.Timeout | null = null;
  #readTimer: NodeJS.Timeout | null = null;
  #bucketTimer: NodeJS.Timeout | null = null;
  #reads: ReadWatch | null = null;
  #isClosing = false;
  /** Slabs and cells of the next append that were received over the channel. */
  #bodies: Uint8Array[] = [];

  constructor(options: CaptureProcessOptions) {
    this.#options = options;
    this.#logger = createLog(options.log_level);
    this.#lastId = new LastIdFile(options.db);
    this.#memory = options.memory === null ? null : viewMappedMemory(MEMORY_DESCRIPTOR, options.memory);
    this.#adapter = new CaptureLogAdapter(
      async () => describeLog(this.#log!),
      new WriterReport(options.db, this.#logger).tell,
    );
  }

  /**
   * Opens the database, and starts the timers. A damaged database is set aside, and a new one is opened in its place.
   * @throws the error of opening the database, if the reason is not damage, and the error of a claim that is not free
   */
  async open({ set_aside, last_id }: OpenInput): Promise<OpenReply> {
    const { db } = this.#options;
    // Wait for a capture process whose parent has died: it may still be finishing its last append.
    this.#claim ??= await claimWriter(`${db}.process`, { patience_ms: CLAIM_PATIENCE_MS });
    const known = Math.max(last_id, readLastId(db));
    if (set_aside !== 'none') this.#setAside('the capture process ended several times', set_aside);
    try {
      this.#log ??= await this.#openLog(known);
    } catch (thrown) {
      if (!isDamage(thrown, known > 0)) throw thrown;
      this.#setAside((thrown as Error).message, 'live');
      this.#log = await this.#openLog(known);
    }
    this.#noteTouching();
    this.#expire(this.#log);
    this.#sealInTime(this.#log);
    this.#followOrders(this.#log);
    this.#watchReads(this.#log);
    this.#sendToBucket(this.#log);
    const reply = { last_id: this.#log.stats().last_id };
    this.#lastId.note(reply.last_id);
    return reply;
  }

  /**
   * Notes the time from which the log touches attachments. Without this note, they never expire. A failure is logged,
   * but does not stop capture.
   */
  #noteTouching(): void {
    const { db } = this.#options;
    try {
      noteTouching(db, Date.now());
    } catch (err) {
      this.#logger.warn(
        { err, db },
        'the ages of attachments cannot be stored: attachments are kept until the next start',
      );
    }
  }

  /** Starts the removal of old exchanges, and repeats it at intervals. */
  #expire(log: CaptureLog): void {
    const { db: path, data_key, retention_days: days = null } = this.#options;
    if (days === null || this.#timer !== null) return;
    const ages = new RetentionClock({
      path: capturesNotePath(path),
      days: { captures: days },
      warn: (facts, words) => this.#logger.warn(facts, words),
    });
    const expiry = new CaptureExpiry({ path, data_key, days, log, nowForAges: () => ages.nowForAges() });
    this.#expiry = expiry;
    this.#ages = ages;
    const pass = () => {
      // Passes never overlap, even if one takes longer than the interval.
      this.#expiring = this.#expiring.then(() =>
        expiry.pass().catch((err: unknown) => {
          this.#logger.error(
            { err, db: path },
            'expired captures cannot be removed now; the process tries again',
          );
        }),
      );
    };
    pass();
    this.#timer = setInterval(pass, RETENTION.every_ms).unref();
  }

  /** Checks at intervals whether the live file is due for sealing. */
  #sealInTime(log: CaptureLog): void {
    if (this.#sealTimer !== null) return;
    let isLooking = false;
    const limits = { ...SEAL_LIMITS, any_ms: this.#options.bucket?.seal_after_ms ?? null };
    this.#sealTimer = setInterval(() => {
      // Sealing a large file takes longer than the interval.
      if (isLooking) return;
      isLooking = true;
      sealWhenDue(log, limits)
        .catch((err: unknown) => {
          // The next start finishes what the end of this process interrupts.
          if (this.#isClosing) return;
          this.#logger.error(
            { err, db: this.#options.db },
            'the live file cannot be sealed now; the process tries again',
          );
        })
        .finally(() => {
          isLooking = false;
        });
    }, SEAL_LOOK_MS).unref();
  }

  /** Carries out orders to erase exchanges or to rewrite files, including those that an earlier process has left. */
  #followOrders(log: CaptureLog): void {
    if (this.#orderTimer !== null) return;
    const { db } = this.#options;
    let isBusy = false;
    let notBefore = 0;
    const look = () => {
      if (isBusy || performance.now() < notBefore) return;
      const kind = eraseOrderFile(db).exists() ? 'erase' : findRewriteOrder(db);
      if (kind === null) return;
      const file = kind === 'erase' ? eraseOrderFile(db) : rewriteOrderFile(db, kind);
      isBusy = true;
      const started = performance.now();
      const done = kind === 'erase' ? log.eraseOrdered() : log.rewriteOrdered();
      done
        .then(() => {
          const milliseconds = Math.round(performance.now() - started);
          this.#logger.info({ db, milliseconds }, ORDER_WORDS[kind].done);
        })
        .catch((err: unknown) => {
          notBefore = performance.now() + ORDER_AGAIN_MS;
          file.noteFailure(describeRefusal(err) ?? (err as Error).message);
          this.#logger.error({ err, db }, ORDER_WORDS[kind].failed);
        })
        .finally(() => {
          isBusy = false;
        });
    };
    look();
    this.#orderTimer = setInterval(look, ORDER_LOOK_MS).unref();
  }

  /**
   * Watches for processes that read the live file in one transaction for too long, and ends them.
   */
  #watchReads(log: CaptureLog): void {
    if (this.#readTimer !== null) return;
    const { db } = this.#options;
    const words = {
      told: 'a process has been reading the captures in one transaction: the file grows with each write until that process ends',
      asked:
        'a process was reading the captures in one transaction for too long: that process was asked to end (SIGTERM)',
      killed:
        'a process was reading the captures in one transaction for too long: that process was killed (SIGKILL)',
    };
    const watch = new ReadWatch({
      path: db,
      listReads: () => log.listReads(),
      tell: ({ pid, seconds, done }) => this.#logger.warn({ db, pid, seconds }, words[done]),
    });
    this.#reads = watch;
    this.#readTimer = setInterval(() => watch.look(), READ_LOOK_MS).unref();
  }

  /**
   * Starts to send sealed files to the bucket at intervals. Blocks that are in the bucket are removed from the disk.
   */
  #sendToBucket(log: CaptureLog): void {
    if (this.#bucketTimer !== null || log.stats().bucket === null) return;
    const { db } = this.#options;
    let isSending = false;
    let notBefore = 0;
    let toldAt: number | null = null;
    const look = () => {
      if (isSending || performance.now() < notBefore) return;
      isSending = true;
      log
        .offloadSome()
        .then(() => {
          if (toldAt !== null) this.#logger.info({ db }, 'captures are sent to the bucket again');
          toldAt = null;
        })
        .catch((thrown: unknown) => {
          const now = performance.now();
          notBefore = now + BUCKET_AGAIN_MS;
          if (toldAt !== null && now - toldAt < BUCKET_TELL_MS) return;
          toldAt = now;
          const reason = describeRefusal(thrown) ?? (thrown as Error).message;
          this.#logger.warn(
            { db, reason },
            'captures cannot be sent to the bucket now: they stay here, and the process tries again',
          );
        })
        .finally(() => {
          isSending = false;
        });
    };
    look();
    this.#bucketTimer = setInterval(look, BUCKET_LOOK_MS).unref();
  }

  /**
   * Opens the capture log.
   * @param known if the file replaces a damaged one, its ids continue after this id
   */
  #openLog(known: number): Promise<CaptureLog> {
    const {
      db,
      redact,
      max_decoded_bytes,
      data_key,
      operator_secrets = [],
      run_headers = [],
      data_dir,
      bucket = null,
    } = this.#options;
    if (needsRestore(db))
      this.#logger.warn(
        { db },
        'the machine stopped while captures were written: the database has returned to its last checkpoint, at most a second before the stop',
      );
    return CaptureLog.open({
      path: db,
      redact,
      max_decoded_bytes,
      data_key,
      operator_secrets,
      run_headers,
      ...(data_dir === undefined ? {} : { data_dir }),
      decode: decodeExchange,
      seal: sealOnThread,
      has_text_index: true,
      bucket,
      ...(listDamaged(db).length > 0 ? { first_id: known + 1 } : {}),
    });
  }

  #setAside(reason: string, which: 'live' | 'all'): void {
    const { db } = this.#options;
    const now = new Date();
    const live = setLiveAside(db, now);
    const files = [...(live === null ? [] : [live]), ...(which === 'all' ? setSealingAside(db, now) : [])];
    for (const file of files) {
      this.#logger.error(
        { db, set_aside: file, reason },
        'the damaged capture database was set aside, and a new one takes new exchanges. Read what is still readable with ' +
          'understudy inspect --db and the new name of the damaged file, or restore a backup; then move the file away',
      );
    }
  }

  takeBody(body: Uint8Array): void {
    this.#bodies.push(body);
  }

  async append({ slabs, places, ...rest }: AppendInput): Promise<Appended> {
    const bodies = this.#bodies;
    this.#bodies = [];
    const batch =
      places === null
        ? { slabs: bodies.slice(0, slabs), cells: bodies.slice(slabs) }
        : viewPlaces({ slabs, places }, this.#memory!);
    const appended = await this.#adapter.append({ ...batch, ...rest });
    this.#lastId.note(appended.last_id);
    return appended;
  }

  flush() {
    return this.#adapter.flush();
  }

  rotate() {
    return this.#adapter.rotate();
  }

  tidy() {
    return this.#adapter.tidy();
  }

  async state(): Promise<FileState> {
    return {
      ...(await this.#adapter.state()),
      damaged: listDamaged(this.#options.db).length,
      memory_bytes: process.memoryUsage.rss(),
      oldest_read_s: this.#reads?.oldest_s ?? 0,
      expired:
        this.#expiry === null ? null : { ...this.#expiry.expired, waits_for_confirmation: this.#ages!.waits },
    };
  }

  /** The parent calls this only to find out whether the process answers. */
  async ping(): Promise<null> {
    return null;
  }

  async close(): Promise<null> {
    this.#isClosing = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#sealTimer !== null) clearInterval(this.#sealTimer);
    if (this.#orderTimer !== null) clearInterval(this.#orderTimer);
    if (this.#readTimer !== null) clearInterval(this.#readTimer);
    if (this.#bucketTimer !== null) clearInterval(this.#bucketTimer);
    await this.#expiring;
    if (this.#log !== null) await this.#adapter.close();
    this.#lastId.close();
    return null;
  }
}

/** Adapts the log to the interface of the adapter. */
function describeLog(log: CaptureLog): ExchangeLog {
  return {
    append: (batch, queue_fill) => log.append(batch, queue_fill),
    flush: () => log.flush(),
    rotate: () => log.rotate(),
    tidy: (budgetMs) => log.tidySome(decodeExchange, budgetMs),
    stats: () => log.stats(),
    close: () => log.close(),
  };
}

let capture: Capture | null = null;

async function answer(name: CaptureRequest, input: unknown): Promise<unknown> {
  if (name === 'open') capture ??= new Capture((input as OpenInput).options);
  return capture![name](input as never);
}

function describeFailure(thrown: unknown): CaptureFailure {
  if (!(thrown instanceof Error)) return { message: String(thrown), kind: 'other' };
  const { code } = thrown as NodeJS.ErrnoException;
  return {
    message: describeRefusal(thrown) ?? thrown.message,
    ...(typeof code === 'string' ? { code } : {}),
    kind: isDamage(thrown, true) ? 'damage' : isOfSystem(thrown) ? 'system' : 'other',
  };
}

function send(message: FromCapture): void {
  // Ignores the error of sending to a parent that has ended: this process ends soon.
  if (process.connected) process.send!(message, undefined, undefined, () => {});
}

function take(message: ToCapture): void {
  if (message.type === 'body') return capture!.takeBody(message.body);
  const { id, name, input } = message;
  answer(name, input).then(
    (value) => send({ type: 'reply', id, value }),
    (thrown: unknown) => send({ type: 'failure', id, failure: describeFailure(thrown) }),
  );
}

/** Ends the process. The channel is closed, so no further messages arrive. */
async function end(): Promise<void> {
  setTimeout(() => process.exit(1), END_MS).unref();
  await capture?.close().catch(() => {});
  process.exit(0);
}

// Storing must not wait for a bucket.
allowFetching(false);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('message', take);
process.once('disconnect', () => void end());
new QuietWatch({ collects: true, trims: true });
