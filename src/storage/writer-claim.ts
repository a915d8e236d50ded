/**
 * A claim on a database that allows one writer process. The capture log assigns ids from memory, so a second writer
 * would assign the same ids and overwrite exchanges. Actors keep their state in memory, so two processes would
 * overwrite each other's rows. Any thread of the process that writes.
 * The claim is a local socket that is named after the file. On Linux and Windows, the system removes it when the
 * process ends. On other systems, a killed process leaves the socket's file, and the next claim removes it. A process
 * that connects learns which process has the claim, and whether that process is ending. The claim is visible on one
 * machine, and on Linux in one network namespace. If such a socket cannot be created, there is no claim, and the start
 * continues.
 */

import { createHash } from 'node:crypto';
import { rmSync, statSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeFolder } from '../std/folder.ts';

/** A claim that this process has, or an empty one if the system does not support claims. */
export interface WriterClaim {
  /** Tells processes that connect from now on that the claim will be free soon. */
  announceEnd(): void;
  release(): Promise<void>;
}

export interface WriterClaimOptions {
  /** How long to wait for a holder that is ending. */
  patience_ms: number;
  /** Ends the wait. If it is aborted before the claim is taken, the claim is not taken. */
  signal?: AbortSignal | undefined;
  /** Called once if the caller waits for a process that is ending. `holder` identifies that process. */
  onWait?: (holder: string) => void;
}

/** Another process writes to the file and is not ending, has not ended in time, or does not answer. */
export class WriterClaimedError extends Error {
  /** Identifies the process. */
  readonly holder: string;

  constructor(path: string, holder: string) {
    super(`${path}: ${holder} is writing to this database, which takes one writer`);
    this.name = 'WriterClaimedError';
    this.holder = holder;
  }
}

/** Interval between two questions to the holder. */
const ASK_AGAIN_MS = 100;
const ANSWER_MS = 1_000;
/** A holder that has not answered for this long counts as running. */
const SILENCE_MS = 3_000;
/** Maximum length of an answer such as `123 running\n`. */
const ANSWER_CHARACTERS = 32;

/**
 * Takes the claim on a file.
 * @returns an empty claim if the system cannot create the socket or the file's folder
 * @throws WriterClaimedError if another process has the claim and is not ending, has not ended after `patience_ms`, or
 *   does not answer for SILENCE_MS; the reason of the signal
 */
export async function claimWriter(path: string, options: WriterClaimOptions): Promise<WriterClaim> {
  const address = claimAddress(path);
  if (address === null) return NO_CLAIM;
  const deadline = performance.now() + options.patience_ms;
  /**
   * Until this time the holder may be silent. A holder that has answered that it is ending may be silent until
   * `deadline`.
   */
  let silentUntil = performance.now() + SILENCE_MS;
  let hasTold = false;
  for (;;) {
    options.signal?.throwIfAborted();
    const claim = await tryClaim(address);
    if (claim !== 'taken') return claim;
    const holder = await askHolder(address);
    const now = performance.now();
    if (holder === null) {
      // No answer: the holder has just ended, or left a socket file.
      if (!isAbstract(address)) rmSync(address, { force: true });
    } else if (holder.state === 'running' || now >= (holder.state === 'ending' ? deadline : silentUntil)) {
      throw new WriterClaimedError(path, holder.name);
    } else if (holder.state === 'ending' && !hasTold) {
      hasTold = true;
      silentUntil = deadline;
      options.onWait?.(holder.name);
    }
    await delay(ASK_AGAIN_MS, undefined, options.signal === undefined ? {} : { signal: options.signal });
  }
}

const NO_CLAIM: WriterClaim = { announceEnd: () => {}, release: async () => {} };

/**
 * Returns the socket's name: the same for every spelling of a file's path. Creates the file's folder if it is missing.
 * @returns null if the folder cannot be created or examined
 */
export function claimAddress(path: string): string | null {
  const folder = dirname(path);
  let place: string;
  try {
    makeFolder(folder);
    const { dev, ino } = statSync(folder, { bigint: true });
    place = `${dev}:${ino}/${basename(path)}`;
  } catch {
    // Opening the database reports the error.
    return null;
  }
  const name = `understudy-${createHash('sha256').update(place).digest('hex').slice(0, 32)}`;
  if (process.platform === 'linux') return `\0${name}`;
  return process.platform === 'win32' ? `\\\\.\\pipe\\${name}` : join(tmpdir(), `${name}.sock`);
}

/** Whether the socket has no file. */
function isAbstract(address: string): boolean {
  return address.startsWith('\0') || address.startsWith('\\\\');
}

function tryClaim(address: string): Promise<WriterClaim | 'taken'> {
  let isEnding = false;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.end(`${process.pid} ${isEnding ? 'ending' : 'running'}\n`);
  });
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      resolve(error.code === 'EADDRINUSE' ? 'taken' : NO_CLAIM);
    });
    server.listen(address, () => {
      // A later error of the socket must not end the process.
      server.on('error', () => {});
      server.unref();
      resolve({
        announceEnd: () => {
          isEnding = true;
        },
        release: () => closeServer(server),
      });
    });
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

/**
 * Asks the process that has the claim for its state.
 * @returns null if no process listens on the socket; state `silent` if a process accepts the connection and does not
 *   answer as expected
 */
function askHolder(
  address: string,
): Promise<{ name: string; state: 'running' | 'ending' | 'silent' } | null> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect(address);
    const settle = (isThere: boolean): void => {
      socket.destroy();
      // Any process may listen there, so the answer must contain a number.
      const [, pid, state] = /^(\d{1,10}) (running|ending)\n/.exec(answer) ?? [];
      if (!isThere) resolve(null);
      else if (pid === undefined) resolve({ name: 'another process', state: 'silent' });
      else resolve({ name: `process ${pid}`, state: state === 'ending' ? 'ending' : 'running' });
    };
    socket.setTimeout(ANSWER_MS, () => settle(true));
    socket.setEncoding('latin1').on('data', (text: string) => {
      answer += text;
      if (answer.length > ANSWER_CHARACTERS) settle(true);
    });
    socket.once('end', () => settle(true));
    socket.once('error', (error: NodeJS.ErrnoException) => {
      settle(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT');
    });
  });
}
