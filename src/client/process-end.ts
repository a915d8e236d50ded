/**
 * What a client does at the end of its process, so that runs do not stay `running`. One set of listeners for all clients. A signal
 * that nothing handles still ends everything at once. Main thread and workers alike.
 *
 * - Nothing left to do (`beforeExit`): the process waits for what is queued.
 * - An uncaught exception or rejection: open runs end as failures. The listener only watches (`uncaughtExceptionMonitor`), so
 *   what Node prints and its exit code stay the same.
 * - `process.exit`: what is queued is sent. With another code than 0, open runs end as failures.
 *
 * After a crash and in `process.exit` the thread is blocked while a worker sends, at most for `exitFlushMs`.
 */
import { type LastRequests, sendBlocking } from './last-requests.ts';

/** A client with something queued. */
interface Leaver {
  /** Sends what it has within its time limit, and drops the rest. */
  flush(): Promise<void>;
  /** Gives up what it has, for another thread to send. null: the service does not answer, or there is nothing. */
  handOver(): LastRequests | null;
}

/** A run that has not ended. */
interface OpenRun {
  fail(thrown: unknown): void;
}

/** Open runs that a crash ends. With more, the oldest is forgotten: it stays `running` after a crash. */
const OPEN_RUNS_MAX = 10_000;

const leavers = new Set<Leaver>();
const openRuns = new Set<OpenRun>();
/** What a listener of the program caught. The process may end with it. */
let caught: { thrown: unknown } | null = null;
let isListening = false;

/** @returns takes it back: there is nothing left to send */
export function holdForExit(leaver: Leaver): () => void {
  leavers.add(leaver);
  listen();
  return () => leavers.delete(leaver);
}

/** A crash of the process ends the run. */
export function noteOpen(run: OpenRun): void {
  if (openRuns.size >= OPEN_RUNS_MAX) openRuns.delete(openRuns.values().next().value!);
  openRuns.add(run);
  listen();
}

/** The run has ended. */
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
  // With a listener of the program the process goes on, unless the listener ends it.
  if (process.listenerCount('uncaughtException') > 0 || process.hasUncaughtExceptionCaptureCallback()) return;
  sendLast();
}

/** What a run ends with that `process.exit` ends. */
class ProcessExit extends Error {}

function onExit(code: number): void {
  if (code === 0) caught = null;
  else caught ??= { thrown: new ProcessExit() };
  sendLast();
}

/** Never throws: the process ends as it would without the client. */
function sendLast(): void {
  try {
    if (caught !== null) for (const run of [...openRuns]) run.fail(caught.thrown);
    caught = null;
    const requests = [...leavers].map((leaver) => leaver.handOver()).filter((rest) => rest !== null);
    leavers.clear();
    if (requests.length > 0) sendBlocking(requests);
  } catch {
    // Without threads, or without memory: what is queued is lost.
  }
}
