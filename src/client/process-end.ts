/**
 * Sends queued events at the end of a process. After an error, it also ends the open runs, so that they do not stay
 * `running`. All clients share one set of listeners. A signal without a handler still ends the process at once. Runs on
 * the main thread and on workers.
 *
 * - Empty event loop (`beforeExit`): the process waits until the queued events are sent, for at most `exitFlushMs`.
 * - An uncaught exception or rejection: open runs end as failures. If the program has a listener for such errors, they
 *   end only when the process does. The listener of this file is an `uncaughtExceptionMonitor`, which changes neither
 *   Node's output nor its exit code.
 * - `process.exit`: queued events are sent. With a code other than 0, open runs end as failures.
 *
 * After a crash and in `process.exit`, the thread is blocked for at most `exitFlushMs` while a worker sends the events.
 */
import { type LastRequests, sendBlocking } from './last-requests.ts';

/** A client with queued events. */
interface Leaver {
  /** Sends the queued events within the time limit, and drops the rest. */
  flush(): Promise<void>;
  /**
   * Returns the queued requests, so that another thread sends them; null if the service does not answer, the queue is
   * empty, or sending has stopped.
   */
  handOver(): LastRequests | null;
}

/** A run that has not ended. */
interface OpenRun {
  fail(thrown: unknown): void;
}

/**
 * Maximum number of open runs that are ended as failures when the process ends. Beyond it, the oldest ones stay
 * `running`.
 */
const OPEN_RUNS_MAX = 10_000;

const leavers = new Set<Leaver>();
const openRuns = new Set<OpenRun>();
/**
 * The last uncaught error, if the program has a listener for such errors. The process may still end because of the
 * error.
 */
let caught: { thrown: unknown } | null = null;
let isListening = false;

/**
 * Registers a client with queued events.
 * @returns a function that undoes the registration, to be called when the queue is empty
 */
export function holdForExit(leaver: Leaver): () => void {
  leavers.add(leaver);
  listen();
  return () => leavers.delete(leaver);
}

/** Registers a run that ends when the process crashes, or exits with a code other than 0. */
export function noteOpen(run: OpenRun): void {
  if (openRuns.size >= OPEN_RUNS_MAX) openRuns.delete(openRuns.values().next().value!);
  openRuns.add(run);
  listen();
}

/** Removes a run that has ended. */
export function noteEnded(run: OpenRun): void {
  openRuns.delete(run);
}

function listen(): void {
  if (isListening) return;
  isListening = true;
  process.on('beforeExit', flushAll);
  process.on('uncaughtExceptionMonitor', onUncaught);
  process.on('exit', onExit);
}

function flushAll(): void {
  for (const leaver of leavers) {
    leavers.delete(leaver);
    void leaver.flush();
  }
}

function onUncaught(thrown: unknown): void {
  caught = { thrown };
  // If the program has a listener, the process continues unless that listener ends it.
  if (process.listenerCount('uncaughtException') > 0 || process.hasUncaughtExceptionCaptureCallback()) return;
  sendLast();
}

/** The error of runs ended by `process.exit`. */
class ProcessExit extends Error {}

function onExit(code: number): void {
  if (code === 0) caught = null;
  else caught ??= { thrown: new ProcessExit() };
  sendLast();
}

/** Never throws, so that the process ends as it would without the client. */
function sendLast(): void {
  try {
    if (caught !== null) for (const run of [...openRuns]) run.fail(caught.thrown);
    caught = null;
    const requests = [...leavers].map((leaver) => leaver.handOver()).filter((rest) => rest !== null);
    leavers.clear();
    if (requests.length > 0) sendBlocking(requests);
  } catch {
    // If no thread can be started, the queue is lost.
  }
}
