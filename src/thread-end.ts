/**
 * The last words of a thread whose end ends the process: the native library aborts it while the thread is taken down, so
 * whoever started the thread never hears why. Part of the composition root; front threads other than the main one.
 */
import { maskText } from './domain/redaction.ts';
import type { Log } from './log.ts';

/** Words and places of an error that are told. */
const MESSAGE_CHARACTERS = 300;
const STACK_LINES = 8;

/**
 * Tells of an error that nobody caught, and of an exit that nobody asked for, as they happen.
 * @returns forgets it: the thread has been asked to end
 */
export function tellThreadEnd(log: Pick<Log, 'fatal'>): () => void {
  const onError = (thrown: unknown, origin: string): void => {
    log.fatal({ ...describeThrown(thrown), origin }, 'a front thread fails');
  };
  const onExit = (code: number): void => log.fatal({ exit_code: code }, 'a front thread ends');
  process.on('uncaughtExceptionMonitor', onError);
  process.on('exit', onExit);
  return () => {
    process.off('uncaughtExceptionMonitor', onError);
    process.off('exit', onExit);
  };
}

function describeThrown(thrown: unknown): Record<string, string | string[]> {
  if (!(thrown instanceof Error)) return { error: typeof thrown };
  const { name, code, message, stack } = thrown as NodeJS.ErrnoException;
  return {
    error: name,
    code: String(code ?? ''),
    // A parser quotes what it parsed, which may be anybody's.
    reason: thrown instanceof SyntaxError ? '' : maskText(message.slice(0, MESSAGE_CHARACTERS), [], true),
    at: (stack ?? '')
      .split('\n')
      .filter((line) => /^ +at /.test(line))
      .slice(0, STACK_LINES)
      .map((line) => line.trim()),
  };
}
