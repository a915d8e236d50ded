/**
 * Lines for standard error, from this process and from its child processes. Any thread.
 * Standard error is non-blocking only as long as no child process inherits it: libuv makes an inherited descriptor
 * blocking again for all processes that have it. So the service's child processes get a pipe, and their output is
 * passed on here.
 */
import { writeSync } from 'node:fs';
import type { Readable } from 'node:stream';

export const STDERR = 2;

/**
 * Writes lines to a non-blocking descriptor: a reader that has left or does not read must not block the thread, which
 * may have requests or a signal to handle. Lines for which there is no space are dropped, and the next line says how
 * many.
 */
export class LineWriter {
  readonly #descriptor: number;
  #lost = 0;
  /** Whether the last line was written only partially. */
  #isCut = false;

  constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  /** @param line with its end */
  write(line: string | Uint8Array): void {
    const told =
      this.#lost === 0 ? '' : `{"level":40,"lost_lines":${this.#lost},"msg":"log lines were lost"}\n`;
    const before = Buffer.from(`${this.#isCut ? '\n' : ''}${told}`);
    const bytes = Buffer.concat([before, typeof line === 'string' ? Buffer.from(line) : line]);
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(this.#descriptor, bytes, written);
      this.#lost = 0;
      this.#isCut = false;
    } catch {
      // No space, or no reader. There is no other place to report it.
      this.#lost++;
      this.#isCut ||= written > 0;
    }
  }
}

/**
 * Passes a child process's output on to standard error.
 * @param streams its standard output and standard error; they do not keep this process alive
 */
export function passOutputOn(streams: readonly (Readable | null)[]): void {
  const writer = new LineWriter(STDERR);
  for (const stream of streams) {
    if (stream === null) continue;
    stream.on('data', (bytes: Buffer) => writer.write(bytes));
    stream.on('error', () => {});
    (stream as Readable & { unref?(): void }).unref?.();
  }
}
