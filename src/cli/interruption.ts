/**
 * Ends a command that a signal interrupts: it says what was and was not done, and then dies of that signal, as a shell expects
 * (status 130 or 143). Main thread of the command line.
 */

import { constants } from 'node:os';
import { exitProcess } from '../std/loading-threads.ts';
import type { CliIo } from './io.ts';

/** How the line begins that an interrupted command ends with. */
export const INTERRUPTED = 'understudy: interrupted by';

const STOPS = ['SIGINT', 'SIGTERM'] as const;

/**
 * Dies of a signal that is not listened to. The first process of a container does not: it ends with the status that a shell
 * would show.
 */
export function dieOf(signal: NodeJS.Signals): void {
  process.kill(process.pid, signal);
  exitProcess(128 + constants.signals[signal]);
}

/**
 * Does some work; a signal ends the process meanwhile.
 * @param describe finishes what must not stay half done, and says what was and was not done
 * @returns what the work gives, when no signal came
 */
export async function endingOnSignals<T>(
  io: CliIo,
  work: () => Promise<T>,
  describe: () => Promise<string>,
): Promise<T> {
  let isEnding = false;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    // A terminal sends it to the whole group, and the process before this one passes it on.
    if (isEnding) return;
    isEnding = true;
    const words = await describe().catch((error: Error) => error.message);
    io.err(`${INTERRUPTED} ${signal}: ${words}\n`);
    for (const one of STOPS) process.off(one, end);
    dieOf(signal);
  };
  for (const one of STOPS) process.on(one, end);
  try {
    return await work();
  } finally {
    // What was being done when the signal came gives no answer any more.
    if (isEnding) await new Promise(() => {});
    for (const one of STOPS) process.off(one, end);
  }
}
