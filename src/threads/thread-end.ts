/**
 * Logs why a server thread fails. The native library aborts the process when such a thread ends, so
 * the main thread cannot log the reason. Part of the composition root; server threads other than
 * the main one.
 */
import { getHeapStatistics } from 'node:v8';
import { resourceLimits, threadId } from 'node:worker_threads';
import type { Log } from '../log.ts';
import { maskText } from '../redaction/mask.ts';

/** Maximum length of an error's message, and maximum number of its stack lines, in the log. */
const MESSAGE_CHARACTERS = 300;
const STACK_LINES = 8;

/**
 * A thread whose heap is full cannot run any code. So it logs, once, when this share of the heap is used, unless the
 * heap fills between two checks.
 */
const HEAP_SHARE_TOLD = 0.85;
const HEAP_LOOK_MS = 500;
const MB = 2 ** 20;

/**
 * Logs uncaught errors and unexpected exits as they happen, and a nearly full heap.
 * @returns a function that stops the logging, for a thread that ends as requested
 */
export function tellThreadEnd(log: Pick<Log, 'fatal' | 'error'>): () => void {
  const onError = (thrown: unknown, origin: string): void => {
    log.fatal({ ...describeThrown(thrown), origin }, 'a server thread fails');
  };
  const onExit = (code: number): void => log.fatal({ exit_code: code }, 'a server thread ends');
  process.on('uncaughtExceptionMonitor', onError);
  process.on('exit', onExit);
  const look = setInterval(() => {
    const { used_heap_size: used, heap_size_limit: size } = getHeapStatistics();
    // The measured size includes young objects, which do not count towards a full heap.
    const limit = size / MB - (resourceLimits.maxYoungGenerationSizeMb ?? 0);
    if (used / MB < HEAP_SHARE_TOLD * limit) return;
    clearInterval(look);
    log.error({ thread: threadId, heap_mb: Math.round(used / MB), limit_mb: Math.round(limit) }, NEARLY_FULL);
  }, HEAP_LOOK_MS).unref();
  return () => {
    clearInterval(look);
    process.off('uncaughtExceptionMonitor', onError);
    process.off('exit', onExit);
  };
}

const NEARLY_FULL =
  'a server thread has nearly used up its memory. When all of it is used, the process ends (SIGABRT). ' +
  'NODE_OPTIONS=--max-old-space-size=MB gives each thread more';

function describeThrown(thrown: unknown): Record<string, string | string[]> {
  if (!(thrown instanceof Error)) return { error: typeof thrown };
  const { name, code, message, stack } = thrown as NodeJS.ErrnoException;
  return {
    error: name,
    code: String(code ?? ''),
    // A parser's message quotes the parsed text, which may come from a client.
    reason: thrown instanceof SyntaxError ? '' : maskText(message.slice(0, MESSAGE_CHARACTERS)),
    at: (stack ?? '')
      .split('\n')
      .filter((line) => /^ +at /.test(line))
      .slice(0, STACK_LINES)
      .map((line) => line.trim()),
  };
}
