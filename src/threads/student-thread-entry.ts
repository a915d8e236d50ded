/**
 * Entry of the student's thread: reads the student's directory, puts core, index and service together and serves the
 * servers' steps, as one never-ending pool task that the main thread steers over comlink. Composition root. The student's
 * thread, and nobody else's.
 */
import type { MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { createLog } from '../log.ts';
import { chooseIndex } from '../search/open-index.ts';
import { createDeferred } from '../std/deferred.ts';
import { readStudentDirectory } from '../student/directory.ts';
import { Student } from '../student/model/student.ts';
import type { StudentFacts } from '../student/serving/protocol.ts';
import { ServedRuns, type ServedRunsCopy } from '../student/serving/served-runs.ts';
import {
  type AnsweringService,
  type Prices,
  StepHandler,
  type StudentCore,
} from '../student/serving/step-handler.ts';
import { ServiceFailure, StudentService } from '../student/serving/student-service.ts';

/** What a student's thread is started with; the port is transferred. */
export interface StudentTask {
  directory: string;
  mode: 'on' | 'shadow';
  /** Secret: for the service of a student of kind `http`. */
  key: string;
  prices: Prices;
  log_level: string;
  control: MessagePort;
}

/** What the main thread may ask of it; called through comlink. */
export interface StudentControl {
  /** Reads the directory. @throws Error of one line when there is no student to be had */
  open(): Promise<StudentFacts>;
  /** A server's port. */
  connect(port: MessagePort): void;
  /** Who has served which run, for the next student. */
  copyRuns(): ServedRunsCopy;
  restoreRuns(copy: ServedRunsCopy): void;
  ping(): void;
  stop(): Promise<void>;
}

/** A student, read in. */
export interface OpenStudent {
  facts: StudentFacts;
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
  let desk: StepHandler | null = null;
  let service: OpenStudent['service'] = null;
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
      desk = new StepHandler({
        mode: task.mode,
        core: opened.core,
        threshold: opened.threshold,
        service,
        prices: task.prices,
        runs,
        onError: tellError,
      });
      desk.warmUp();
      return opened.facts;
    },
    connect: (port) => {
      ports.add(port);
      port.on('close', () => ports.delete(port));
      desk!.connect(port);
    },
    copyRuns: () => runs.copy(),
    restoreRuns: (copy) => runs.restore(copy),
    ping: () => {},
    stop: async () => {
      for (const port of ports) port.close();
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

/** The student that lives in the task's directory. */
async function openStudent(task: StudentTask): Promise<OpenStudent> {
  const { manifest, model } = await readStudentDirectory(task.directory);
  const log = createLog(task.log_level);
  const makeIndex = chooseIndex((message) => log.warn(message));
  const { student: kind, version, coverage } = manifest;
  return {
    facts: { kind: kind.kind, version },
    core: new Student(model, makeIndex),
    threshold: coverage.threshold,
    service: kind.kind === 'http' ? new StudentService(kind, task.key) : null,
  };
}
