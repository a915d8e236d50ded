/**
 * Lines for standard error, of this process and of those that it starts. Any thread.
 *
 * Standard error does not wait for its reader, but only as long as no process that is started inherits it: libuv makes an
 * inherited descriptor wait again, for all who have it. So the processes of the service get a pipe, and what they say is passed
 * on here.
 */
import { writeSync } from 'node:fs';
import type { Readable } from 'node:stream';

export const STDERR = 2;

/**
 * Writes lines, and never waits for their reader: a reader that is gone or does not read must not keep the thread, which may
 * have requests or a signal to answer. Lines that the reader leaves no room for are lost; the next one says how many.
 */
export class LineWriter {
  readonly #descriptor: number;
  #lost = 0;
  /** The last line was written in part. */
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
      // No room, or no reader. There is no other place to say so.
      this.#lost++;
      this.#isCut ||= written > 0;
    }
  }
}

/**
 * Passes what a started process says on to standard error.
 * @param streams its standard output and standard error; they keep this process from nothing
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
