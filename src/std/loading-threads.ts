/**
 * Threads that are still loading their modules. Ending such a thread ends the whole process, because a native module
 * that is interrupted while it registers itself aborts. So code that ends a thread, a pool or the process calls the
 * functions of this file, which first give loading threads some time. Any thread; each knows the threads that it
 * started.
 */
import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';

/** How long a thread may load before it is ended anyway. */
export const THREAD_LOADING_MS = 15_000;

/** How long the functions of `beforeExit` may take. */
const BEFORE_EXIT_MS = 2_000;

/** What `endPool` ends: a Piscina pool. */
interface ThreadPool {
  readonly threads: readonly Worker[];
  destroy(): Promise<void>;
}

/** The threads that are loading, each with a promise that settles when the thread has loaded or ended. */
const loading = new Map<Worker, Promise<unknown>>();

// Registers every thread, however it is started: an unregistered thread would end the process only occasionally,
// without a visible reason.
process.on('worker', (thread) => {
  // Threads of a pool send a message when their modules are loaded; the other threads of this program send no message
  // earlier.
  if (!loading.has(thread)) watchLoading(thread, once(thread, 'message'));
});

/**
 * Counts a newly started thread as loading until the promise settles, instead of until its first message.
 * @param loaded settles when it has loaded
 */
export function watchLoading(thread: Worker, loaded: Promise<unknown>): void {
  const over = Promise.race([loaded, once(thread, 'exit')]).catch(() => {});
  loading.set(thread, over);
  void over.then(() => loading.delete(thread));
}

export function isLoading(thread: Worker): boolean {
  return loading.has(thread);
}

/**
 * Waits for threads that are loading.
 * @param threads default: all that this thread has started, including those started meanwhile
 * @returns whether all have loaded; false if one is still loading after `waitMs`
 */
export async function waitForLoading(
  threads?: readonly Worker[],
  waitMs: number = THREAD_LOADING_MS,
): Promise<boolean> {
  // The process emits the event for a new thread in the next tick.
  await new Promise<void>((resolve) => process.nextTick(resolve));
  const late = Promise.withResolvers<false>();
  const timer = setTimeout(late.resolve, waitMs, false);
  try {
    for (;;) {
      const left = [...(threads ?? loading.keys())].flatMap((thread) => loading.get(thread) ?? []);
      if (left.length === 0) return true;
      if ((await Promise.race([Promise.all(left), late.promise])) === false) return false;
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Ends a thread, whatever it is doing. A loading thread first gets `waitMs`. */
export async function endThread(thread: Worker, waitMs?: number): Promise<void> {
  await waitForLoading([thread], waitMs);
  await thread.terminate();
}

/**
 * Ends a pool's threads, whatever they are doing. Loading threads first get THREAD_LOADING_MS.
 * @param cancel fails the pool's tasks, so that no loaded thread starts one of them
 * @returns when all threads have exited
 */
export async function endPool(pool: ThreadPool, cancel: () => void = () => {}): Promise<void> {
  const threads = [...pool.threads];
  // A cancelled task may end its thread, which the pool then no longer lists.
  const exited = threads.map((thread) =>
    thread.threadId === -1 ? null : once(thread, 'exit').catch(() => {}),
  );
  cancel();
  await waitForLoading(threads);
  await pool.destroy();
  await Promise.all(exited);
}

const preparations = new Set<() => Promise<unknown>>();

/**
 * Registers work to be done before `exitProcess` ends the process, for threads that cannot simply be ended.
 * @param prepare may take 2 s
 * @returns a function that removes it
 */
export function beforeExit(prepare: () => Promise<unknown>): () => void {
  preparations.add(prepare);
  return () => void preparations.delete(prepare);
}

/**
 * Ends the process. First waits until no thread is loading any more, at most 15 s, and then for the functions of
 * `beforeExit`, at most 2 s.
 */
export function exitProcess(status: number): void {
  if (loading.size === 0 && preparations.size === 0) process.exit(status);
  void waitForLoading().then(() => {
    setTimeout(() => process.exit(status), BEFORE_EXIT_MS);
    const prepared = [...preparations].map((prepare) => prepare().catch(() => {}));
    void Promise.all(prepared).then(() => process.exit(status));
  });
}
