/**
 * Measures what a proxy adds to one request at a time. Each target has one raw keep-alive socket. Short blocks of
 * requests go to one target after the other, so that the machine's other work slows all targets alike. Runs in the load
 * process.
 */
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Quantiles, Samples } from './quantiles.ts';
import { makePlainRequests, type RequestSource } from './workload.ts';

export interface LatencyJob {
  targets: { name: string; port: number }[];
  /** Size of the request's body and of the answer's. */
  bytes: number;
  /** Requests to each target. A tenth as many are sent first and not counted. */
  requests: number;
}

/**
 * Microseconds from the write of the request to the last byte of the answer, by target. If a target closed the
 * connection or sent a status other than 200, `failures` has the reason, and the figures are those of earlier requests.
 */
export interface LatencyResult {
  targets: Record<string, Quantiles>;
  failures: Record<string, string>;
}

const BLOCK = 50;

/** A keep-alive connection that sends one request at a time and reports when the answer is complete. */
export class Line {
  readonly #socket: Duplex;
  readonly #next: RequestSource;
  #head = '';
  /** Body bytes still to come; -1 while in the head, Infinity in a chunked body. */
  #missing = -1;
  #tail = '';
  #done: (() => void) | null = null;
  #failed: ((error: Error) => void) | null = null;

  /** @param socket connected or connecting */
  constructor(socket: Duplex, next: RequestSource) {
    this.#next = next;
    this.#socket = socket;
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk));
    const fail = (why: string): void => this.#failed?.(new Error(why));
    this.#socket.on('error', (error) => fail(error.message));
    this.#socket.on('close', () => fail('connection closed'));
  }

  ask(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#done = resolve;
      this.#failed = reject;
      this.#socket.write(this.#next());
    });
  }

  end(): void {
    this.#failed = null;
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    let bodyBytes = chunk.length;
    if (this.#missing === -1) {
      this.#head += chunk.toString('latin1');
      const end = this.#head.indexOf('\r\n\r\n');
      if (end === -1) return;
      const head = this.#head.slice(0, end);
      if (!head.startsWith('HTTP/1.1 200')) {
        this.#failed?.(new Error(`answered ${head.slice(0, 40)}`));
        return;
      }
      const length = /\r\ncontent-length: *(\d+)/i.exec(head);
      this.#missing = length ? Number(length[1]) : Number.POSITIVE_INFINITY;
      bodyBytes = this.#head.length - end - 4;
      this.#head = '';
    }
    this.#missing -= bodyBytes;
    // A chunked body ends with an empty chunk; our bodies contain no line breaks, so they cannot contain its text.
    if (this.#missing === Number.POSITIVE_INFINITY) {
      this.#tail = (this.#tail + chunk.toString('latin1', Math.max(0, chunk.length - 7))).slice(-7);
      if (this.#tail !== '\r\n0\r\n\r\n') return;
    } else if (this.#missing > 0) return;
    this.#missing = -1;
    this.#tail = '';
    this.#done?.();
  }
}

/** Measures every target of the job. */
export async function measureLatency(job: LatencyJob): Promise<LatencyResult> {
  const failures: Record<string, string> = {};
  const probes = job.targets.map((target) => ({
    name: target.name,
    line: new Line(
      connect({ port: target.port, host: '127.0.0.1', noDelay: true }),
      makePlainRequests(job.bytes, `127.0.0.1:${target.port}`),
    ),
    samples: new Samples(),
  }));
  const warmUp = Math.ceil(job.requests / 10 / BLOCK);
  const blocks = Math.ceil(job.requests / BLOCK);
  for (let block = -warmUp; block < blocks; block++) {
    for (const { name, line, samples } of probes) {
      if (failures[name] !== undefined) continue;
      try {
        for (let i = 0; i < BLOCK; i++) {
          const from = process.hrtime.bigint();
          await line.ask();
          if (block >= 0) samples.add(Number(process.hrtime.bigint() - from) / 1000);
        }
      } catch (error) {
        failures[name] = (error as Error).message;
      }
    }
  }
  for (const { line } of probes) line.end();
  return {
    targets: Object.fromEntries(probes.map(({ name, samples }) => [name, samples.quantiles()])),
    failures,
  };
}
