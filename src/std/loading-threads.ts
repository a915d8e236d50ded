/**
 * Threads that are still loading their modules. If such a thread is ended, the whole process ends: a native
 * module that is interrupted while it registers itself aborts. So code that ends a thread, a pool or the process calls
 * the functions here, which first give loading threads some time. Any thread; each knows those it started.
 */
import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';

/** How long a thread may be loading before it is ended nevertheless. */
export const THREAD_LOADING_MS = 15_000;

/** How long what was given to `beforeExit` may take. */
const BEFORE_EXIT_MS = 2_000;

/** What `endPool` ends: a Piscina pool. */
interface ThreadPool {
  readonly threads: readonly Worker[];
  destroy(): Promise<void>;
}

/** With what settles when the thread has loaded or ended. */
const loading = new Map<Worker, Promise<unknown>>();

// For every thread, by whichever code it is started: a forgotten one would end the process only now and then, for no visible reason.
process.on('worker', (thread) => {
  // A pool's threads say that their modules are there; the others here have nothing to say before.
  if (!loading.has(thread)) watchLoading(thread, once(thread, 'message'));
});

/**
 * Counts a thread that has just been started among those that are loading for longer than until its first message.
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
 * @param threads all that this thread has started when not given, those that are started meanwhile too
 * @returns whether none of them is loading any more; false when one still is after `waitMs`
 */
export async function waitForLoading(
  threads?: readonly Worker[],
  waitMs: number = THREAD_LOADING_MS,
): Promise<boolean> {
  // The process tells of a new thread in the next tick.
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

/** Ends a thread, whatever it is doing; one that is loading is first given `waitMs`. */
export async function endThread(thread: Worker, waitMs?: number): Promise<void> {
  await waitForLoading([thread], waitMs);
  await thread.terminate();
}

/**
 * Ends a pool's threads, whatever they are doing; those that are loading are first given `waitMs`.
 * @param cancel fails the pool's tasks, so that no thread that has loaded begins one of them
 * @returns when all threads have exited
 */
export async function endPool(
  pool: ThreadPool,
  cancel: () => void = () => {},
  waitMs?: number,
): Promise<void> {
  const threads = [...pool.threads];
  // A task that is cancelled may end its thread, of which the pool then knows nothing more.
  const exited = threads.map((thread) =>
    thread.threadId === -1 ? null : once(thread, 'exit').catch(() => {}),
  );
  cancel();
  await waitForLoading(threads, waitMs);
  await pool.destroy();
  await Promise.all(exited);
}

const preparations = new Set<() => Promise<unknown>>();

/**
 * Has something done before `exitProcess` ends the process, for threads that cannot be ended as they are.
 * @param prepare given 2 s
 * @returns takes that back
 */
export function beforeExit(prepare: () => Promise<unknown>): () => void {
  preparations.add(prepare);
  return () => void preparations.delete(prepare);
}

/**
 * Ends the process: at once, or as soon as no thread is loading any more, after 15 s at the latest; and after what was
 * given to `beforeExit`.
 */
export function exitProcess(status: number): void {
  if (loading.size === 0 && preparations.size === 0) process.exit(status);
  void waitForLoading().then(() => {
    setTimeout(() => process.exit(status), BEFORE_EXIT_MS);
    const prepared = [...preparations].map((prepare) => prepare().catch(() => {}));
    void Promise.all(prepared).then(() => process.exit(status));
  });
}
