/**
 * Entry of the student's thread: reads the student's directory, puts core, index and service together and serves the
 * servers' steps, as one never-ending pool task that the main thread steers over comlink. Composition root. The student's
 * thread, and nobody else's.
 */
import type { MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import type { Prices } from '../domain/price.ts';
import { createLog } from '../log.ts';
import { chooseIndex } from '../search/open-index.ts';
import { systemClock } from '../std/clock.ts';
import { createDeferred } from '../std/deferred.ts';
import { KeptLedger, type LedgerCopy, sumLedger } from '../student/day-ledger.ts';
import { readStudentDirectory } from '../student/directory.ts';
import type { DriftCopy, StudentTerms } from '../student/model/drift-watch.ts';
import type { StudentManifest } from '../student/model/manifest.ts';
import { Student } from '../student/model/student.ts';
import { readOrders } from '../student/orders.ts';
import type { StudentFacts, WatchReport } from '../student/serving/protocol.ts';
import { ServedRuns, type ServedRunsCopy } from '../student/serving/served-runs.ts';
import { type AnsweringService, StepHandler, type StudentCore } from '../student/serving/step-handler.ts';
import { ServiceFailure, StudentService } from '../student/serving/student-service.ts';
import { StudentWatch } from '../student/student-watch.ts';

/** What a student's thread is started with; the port is transferred. */
export interface StudentTask {
  directory: string;
  mode: 'on' | 'shadow';
  /** Secret: for the service of a student of kind `http`. */
  key: string;
  prices: Prices;
  /** Share of covered steps that is audited. */
  audit_share: number;
  /** A run stays with the upstream once it has served a step of it. */
  sticky: boolean;
  /** Where the watch over the student is kept; null: in memory alone. */
  watch_path: string | null;
  /** Where its ledger is kept; null: in memory alone. */
  ledger_path: string | null;
  log_level: string;
  control: MessagePort;
}

/** What the main thread may ask of it; called through comlink. */
export interface StudentControl {
  /** Reads the directory. @throws Error of one line when no student can be loaded */
  open(): Promise<StudentFacts>;
  /** A server's port. */
  connect(port: MessagePort): void;
  /** Who has served which run, for the next student. */
  copyRuns(): ServedRunsCopy;
  restoreRuns(copy: ServedRunsCopy): void;
  /** What is known of how right the student is, for the next one. */
  copyWatch(): DriftCopy;
  /** What it has served and saved, for the next one. */
  copyLedger(): LedgerCopy;
  takeLedgerOver(copy: LedgerCopy): void;
  takeWatchOver(copy: DriftCopy): void;
  describeWatch(): WatchReport;
  /** Reads what an operator has ordered. @throws Error of one line; what was ordered before holds on */
  obey(): Promise<void>;
  /** Another thread has taken over: what it still answers changes nothing on the disk. */
  retire(): void;
  ping(): void;
  stop(): Promise<void>;
}

/** A student, read in. */
export interface OpenStudent {
  facts: StudentFacts;
  terms: StudentTerms;
  core: StudentCore;
  threshold: number;
  /** null for one that answers itself. */
  service: (AnsweringService & { close(): Promise<void> }) | null;
}

/** What goes wrong with single steps is told at most so often. */
const TELL_EVERY_MS = 10_000;

/** Runs the thread until it is stopped. */
export default function student(task: StudentTask): Promise<void> {
  return runStudent(task, openStudent);
}

/** @param open gives the student */
export async function runStudent(
  task: StudentTask,
  open: (task: StudentTask) => Promise<OpenStudent>,
): Promise<void> {
  const log = createLog(task.log_level);
  const stopped = createDeferred<void>();
  const runs = new ServedRuns();
  const ports = new Set<MessagePort>();
  let stepHandler: StepHandler | null = null;
  let service: OpenStudent['service'] = null;
  let watch: StudentWatch | null = null;
  let ledger: KeptLedger | null = null;
  let toldAtMs = Number.NEGATIVE_INFINITY;
  const tellError = (thrown: unknown): void => {
    if (performance.now() - toldAtMs < TELL_EVERY_MS) return;
    toldAtMs = performance.now();
    log.warn(describeFailure(thrown), 'the student failed on a step');
  };
  const control: StudentControl = {
    open: async () => {
      const opened = await open(task);
      service = opened.service;
      watch = await StudentWatch.open({ path: task.watch_path, share: task.audit_share, log }, opened.terms);
      // After the manifest: orders about a version are there before it is.
      watch.obey(await readOrders(task.directory));
      ledger = await KeptLedger.open(task.ledger_path, log);
      stepHandler = new StepHandler({
        mode: task.mode,
        core: opened.core,
        threshold: opened.threshold,
        service,
        prices: task.prices,
        runs: task.sticky ? runs : null,
        watch,
        ledger,
        onError: tellError,
      });
      stepHandler.warmUp();
      return opened.facts;
    },
    connect: (port) => {
      ports.add(port);
      port.on('close', () => ports.delete(port));
      stepHandler!.connect(port);
    },
    copyRuns: () => runs.copy(),
    restoreRuns: (copy) => runs.restore(copy),
    copyWatch: () => watch!.copy(),
    copyLedger: () => ledger!.copy(),
    takeLedgerOver: (copy) => ledger!.takeOver(copy),
    takeWatchOver: (copy) => watch!.takeOver(copy),
    describeWatch: () => {
      const until = watch!.terms.valid_until_ms;
      return {
        share: watch!.share,
        ledger: sumLedger(ledger!.copy()),
        valid_until: until === null ? null : new Date(until).toISOString(),
        is_expired: until !== null && systemClock.wallMs() >= until,
        agents: watch!.report(),
      };
    },
    obey: async () => watch!.obey(await readOrders(task.directory)),
    retire: () => {
      watch?.retire();
      ledger?.retire();
    },
    ping: () => {},
    stop: async () => {
      for (const port of ports) port.close();
      await watch?.close();
      await ledger?.close();
      await service?.close();
      stopped.resolve();
    },
  };
  Comlink.expose(control, nodeEndpoint(task.control));
  await stopped.promise;
  setImmediate(() => task.control.close());
}

/** Words of an error may quote what it failed on, which is a client's: only our own are told. */
export function describeFailure(thrown: unknown): Record<'error' | 'code' | 'reason', string> {
  const { name, code } = Object(thrown) as { name?: unknown; code?: unknown };
  return {
    error: String(name),
    code: String(code ?? ''),
    reason: thrown instanceof ServiceFailure ? thrown.message : '',
  };
}

/** What a student promises. */
export function readTerms({ version, made_at, valid_until, coverage }: StudentManifest): StudentTerms {
  return {
    version,
    made_at_ms: Date.parse(made_at),
    promise: coverage.target_error,
    valid_until_ms: valid_until === undefined ? null : Date.parse(valid_until),
  };
}

/** The student that lives in the task's directory. */
async function openStudent(task: StudentTask): Promise<OpenStudent> {
  const { manifest, model } = await readStudentDirectory(task.directory);
  const log = createLog(task.log_level);
  const makeIndex = chooseIndex((message) => log.warn(message));
  const { student: kind, version, coverage } = manifest;
  return {
    facts: { kind: kind.kind, version },
    terms: readTerms(manifest),
    core: new Student(model, makeIndex),
    threshold: coverage.threshold,
    service: kind.kind === 'http' ? new StudentService(kind, task.key) : null,
  };
}
