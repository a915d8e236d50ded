/**
 * A thread with one task: the thread ends with the task. {@link OwnThread} starts it and reports how it ended;
 * {@link runOwnThread} is the last line of the thread's entry module. Any thread.
 */
import { parentPort, type Transferable, Worker, workerData } from 'node:worker_threads';
import { endThread } from './loading-threads.ts';

/** The thread's messages to its starter. The first one also ends the thread's loading (loading-threads.ts). */
type Report = { event: 'loaded' } | { event: 'returned' } | { event: 'failed'; thrown: unknown };

/** `workerData` of an own thread. */
interface Assignment {
  own_thread_task: unknown;
}

interface OwnThreadOptions {
  /** Parts of the task that are transferred to the thread. */
  transfer?: Transferable[];
  /** Limit of V8's old generation; a thread that exceeds it ends. Default: Node's. */
  heap_mb?: number;
}

export class OwnThread {
  readonly worker: Worker;
  /**
   * Settles when the thread has exited. Resolves if its task returned. Rejects with the error that the task threw, with
   * an uncaught error of the thread, or with an Error `exit CODE`.
   */
  readonly ended: Promise<void>;

  /**
   * Starts the thread.
   * @param entry module that calls {@link runOwnThread}
   * @param task structured-cloneable, except for the objects in `transfer`
   */
  constructor(entry: URL, task: unknown, { transfer = [], heap_mb }: OwnThreadOptions = {}) {
    const assignment: Assignment = { own_thread_task: task };
    this.worker = new Worker(entry, {
      workerData: assignment,
      transferList: transfer,
      ...(heap_mb === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: heap_mb } }),
    });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.ended = promise;
    promise.catch(() => {});
    // The first outcome counts. The promise settles later, when the thread's native code has stopped.
    let settle: (() => void) | null = null;
    this.worker.on('message', (report: Report) => {
      if (report.event === 'loaded') return;
      settle ??= report.event === 'returned' ? resolve : () => reject(report.thrown);
      void this.worker.terminate();
    });
    this.worker.on('error', (thrown: unknown) => {
      settle ??= () => reject(thrown);
    });
    this.worker.once('exit', (code) => {
      settle ??= () => reject(new Error(`exit ${code}`));
      settle();
    });
  }

  /**
   * Ends the thread, whatever it is doing.
   * @param waitMs how long a loading thread may continue to load
   * @returns when it has exited
   */
  end(waitMs?: number): Promise<void> {
    return endThread(this.worker, waitMs);
  }
}

/**
 * Runs the task of the thread that calls it. The starter ends the thread when the task has settled. In a thread that
 * OwnThread did not start, such as that of a test that imports the entry, it does nothing.
 */
export function runOwnThread<T>(run: (task: T) => Promise<void>): void {
  const { own_thread_task: task } = (workerData ?? {}) as Partial<Assignment>;
  if (parentPort === null || task === undefined) return;
  const port = parentPort;
  // A thread without open handles would exit before its task settles.
  port.on('message', () => {});
  const report = (told: Report): void => port.postMessage(told);
  report({ event: 'loaded' });
  run(task as T).then(
    () => report({ event: 'returned' }),
    (thrown: unknown) => {
      try {
        report({ event: 'failed', thrown });
      } catch {
        report({ event: 'failed', thrown: new Error(String(thrown)) });
      }
    },
  );
}
