/**
 * Ends a command that a signal interrupts: it prints what is done and what is not, and then dies of that signal, as a
 * shell expects (status 130 or 143). Main thread of the command line.
 */

import { constants } from 'node:os';
import { exitProcess } from '../std/loading-threads.ts';
import type { CliIo } from './io.ts';

/** Beginning of the line with which an interrupted command ends. */
export const INTERRUPTED = 'understudy: interrupted by';

const STOPS = ['SIGINT', 'SIGTERM'] as const;

/**
 * Ends this process by a signal, without handlers. The first process of a container cannot end in this way, so it exits
 * with the status that a shell would show.
 */
export function dieOf(signal: NodeJS.Signals): void {
  process.kill(process.pid, signal);
  exitProcess(128 + constants.signals[signal]);
}

/**
 * Does some work, during which a signal ends the process.
 * @param describe completes work that must not stay incomplete, and reports what is done and what is not
 * @returns the result of the work if there was no signal
 */
export async function endingOnSignals<T>(
  io: CliIo,
  work: () => Promise<T>,
  describe: () => Promise<string>,
): Promise<T> {
  let isEnding = false;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    // A terminal sends the signal to the whole group, and the parent process forwards it, too.
    if (isEnding) return;
    isEnding = true;
    const words = await describe().catch((error: Error) => error.message);
    io.err(`${INTERRUPTED} ${signal}: ${words}\n`);
    for (const signal of STOPS) process.off(signal, end);
    dieOf(signal);
  };
  for (const signal of STOPS) process.on(signal, end);
  try {
    return await work();
  } finally {
    // After a signal, the interrupted work must not continue.
    if (isEnding) await new Promise(() => {});
    for (const signal of STOPS) process.off(signal, end);
  }
}
