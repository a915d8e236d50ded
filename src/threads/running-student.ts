/**
 * A student on its thread: loads the student of a task and answers the servers' steps until the main thread stops it
 * over comlink. The student's thread.
 */
import type { MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { createLog, type Log } from '../log.ts';
import { systemClock } from '../std/clock.ts';
import { createDeferred } from '../std/deferred.ts';
import { KeptLedger, type LedgerCopy, reportLedger } from '../student/day-ledger.ts';
import type { DriftCopy, StudentTerms } from '../student/model/drift-watch.ts';
import type { StudentManifest } from '../student/model/manifest.ts';
import { readOrders } from '../student/orders.ts';
import type { StudentFacts, WatchReport } from '../student/serving/protocol.ts';
import { ServedRuns, type ServedRunsCopy } from '../student/serving/served-runs.ts';
import { type AnsweringService, StepHandler, type StudentCore } from '../student/serving/step-handler.ts';
import { ServiceFailure } from '../student/serving/student-service.ts';
import { StudentWatch } from '../student/student-watch.ts';
import type { StudentControl, StudentTask } from './student-thread-protocol.ts';

/** A student that was loaded. */
export interface OpenStudent {
  facts: StudentFacts;
  terms: StudentTerms;
  core: StudentCore;
  threshold: number;
  /** null for a student that answers by itself, without a service. */
  service: (AnsweringService & { close(): Promise<void> }) | null;
}

/** Loads the student of a task. @throws Error with a one-line message */
type StudentOpener = (task: StudentTask) => Promise<OpenStudent>;

/** Minimum time between two log lines about failed steps. */
const LOG_EVERY_MS = 10_000;

/** The parts that exist once the student is loaded. */
interface Opened {
  steps: StepHandler;
  watch: StudentWatch;
  ledger: KeptLedger;
  service: OpenStudent['service'];
}

/** Serves the task's student, until the main thread stops it. */
export async function runStudent(task: StudentTask, open: StudentOpener): Promise<void> {
  const student = new RunningStudent(task, open);
  Comlink.expose(student, nodeEndpoint(task.control));
  await student.stopped;
  setImmediate(() => task.control.close());
}

class RunningStudent implements StudentControl {
  readonly #task: StudentTask;
  readonly #open: StudentOpener;
  readonly #log: Log;
  readonly #stopped = createDeferred<void>();
  readonly #runs = new ServedRuns();
  readonly #ports = new Set<MessagePort>();
  #opened: Opened | null = null;
  #loggedAtMs = Number.NEGATIVE_INFINITY;

  constructor(task: StudentTask, open: StudentOpener) {
    this.#task = task;
    this.#open = open;
    this.#log = createLog(task.log_level);
  }

  get stopped(): Promise<void> {
    return this.#stopped.promise;
  }

  async open(): Promise<StudentFacts> {
    const { mode, sticky, prices, audit_share, watch_path, ledger_path, directory } = this.#task;
    const { facts, terms, core, threshold, service } = await this.#open(this.#task);
    const watch = await StudentWatch.open({ path: watch_path, share: audit_share, log: this.#log }, terms);
    // Read after the manifest, because orders about a version are written before the version.
    watch.obey(await readOrders(directory));
    const ledger = await KeptLedger.open(ledger_path, this.#log);
    const steps = new StepHandler({
      mode,
      core,
      threshold,
      service,
      prices,
      runs: sticky ? this.#runs : null,
      watch,
      ledger,
      onError: (thrown) => this.#logFailure(thrown),
    });
    this.#opened = { steps, watch, ledger, service };
    steps.warmUp();
    return facts;
  }

  connect(port: MessagePort): void {
    this.#ports.add(port);
    port.on('close', () => this.#ports.delete(port));
    this.#opened!.steps.connect(port);
  }

  copyRuns(): ServedRunsCopy {
    return this.#runs.copy();
  }

  restoreRuns(copy: ServedRunsCopy): void {
    this.#runs.restore(copy);
  }

  copyWatch(): DriftCopy {
    return this.#opened!.watch.copy();
  }

  copyLedger(): LedgerCopy {
    return this.#opened!.ledger.copy();
  }

  takeLedgerOver(copy: LedgerCopy): void {
    this.#opened!.ledger.takeOver(copy);
  }

  takeWatchOver(copy: DriftCopy): void {
    this.#opened!.watch.takeOver(copy);
  }

  async describeWatch(): Promise<WatchReport> {
    const { watch, ledger } = this.#opened!;
    // Write the ledger's file first, so that commands and screens that read it show the same
    // figures.
    await ledger.flush();
    const until = watch.terms.valid_until_ms;
    return {
      share: watch.share,
      ...reportLedger(ledger.copy()),
      valid_until: until === null ? null : new Date(until).toISOString(),
      is_expired: until !== null && systemClock.wallMs() >= until,
      agents: watch.report(),
    };
  }

  async obey(): Promise<void> {
    this.#opened!.watch.obey(await readOrders(this.#task.directory));
  }

  retire(): void {
    this.#opened?.watch.retire();
    this.#opened?.ledger.retire();
  }

  ping(): void {}

  async stop(): Promise<void> {
    for (const port of this.#ports) port.close();
    await this.#opened?.watch.close();
    await this.#opened?.ledger.flush();
    await this.#opened?.service?.close();
    this.#stopped.resolve();
  }

  #logFailure(thrown: unknown): void {
    if (performance.now() - this.#loggedAtMs < LOG_EVERY_MS) return;
    this.#loggedAtMs = performance.now();
    this.#log.warn(describeFailure(thrown), 'the student failed on a step');
  }
}

/**
 * Describes an error for the log. An error's message may quote a client's text, so only the messages of
 * `ServiceFailure` are logged.
 */
export function describeFailure(thrown: unknown): Record<'error' | 'code' | 'reason', string> {
  const { name, code } = Object(thrown) as { name?: unknown; code?: unknown };
  return {
    error: String(name),
    code: String(code ?? ''),
    reason: thrown instanceof ServiceFailure ? thrown.message : '',
  };
}

/** Takes the terms of a student from its manifest: version, validity, coverage. */
export function readTerms({ version, made_at, valid_until, coverage }: StudentManifest): StudentTerms {
  return {
    version,
    made_at_ms: Date.parse(made_at),
    promise: coverage.target_error,
    valid_until_ms: valid_until === undefined ? null : Date.parse(valid_until),
  };
}
