/**
 * Measures what a stalled reader costs the proxy. A client reads the head of a 200 MB answer and stops reading. Then it
 * either continues and must get every byte, or disconnects, and the proxy must close the connection to the upstream.
 * Runs in the bench's own process, because the clients are idle nearly all the time.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { makeBulkPattern } from './bulk-pattern.ts';
import { readAnonBytes, readPeakBytes, readRssBytes, resetPeak } from './process-meter.ts';
import type { Target } from './targets.ts';

export interface StallResult {
  target: string;
  /** Resident memory before the stall, and its highest value during the stall, in bytes. */
  rssBefore: number;
  rssStalled: number;
  /** Largest growth of the resident memory during the stall. The goal limits this figure. */
  growthBytes: number;
  /** Highest growth during the stall of resident memory without mapped files. */
  anonGrowthBytes: number;
  /** The bytes of the body that arrived in all, and whether they were complete and right. */
  receivedBytes: number;
  intact: boolean;
  /** Growth of the resident memory while the client reads the rest, in bytes. */
  growthReadingBytes: number;
  /** Milliseconds from the second client's disconnection until the upstream noticed it; null if it never did. */
  cutAfterMs: number | null;
}

const pattern = makeBulkPattern();
const nowUs = (): number => Number(process.hrtime.bigint() / 1000n);

/** A client that requests the bulk transfer and stops after the head. */
class StallingReader {
  readonly #socket: Socket;
  readonly #want: number;
  #head = '';
  #inBody = false;
  received = 0;
  intact = true;
  headSeen: Promise<void>;
  finished: Promise<void>;

  constructor(port: number, megabytes: number, id: string) {
    this.#want = megabytes * 1024 * 1024;
    this.#socket = connect({ port, host: '127.0.0.1' });
    this.#socket.write(`GET /bulk?mb=${megabytes}&id=${id} HTTP/1.1\r\nHost: bench\r\n\r\n`);
    let seen: () => void = () => undefined;
    let done: () => void = () => undefined;
    this.headSeen = new Promise((resolve) => {
      seen = resolve;
    });
    this.finished = new Promise((resolve) => {
      done = resolve;
    });
    this.#socket.on('error', () => undefined);
    this.#socket.on('close', () => {
      seen();
      done();
    });
    this.#socket.on('data', (chunk) => {
      if (!this.#inBody) {
        this.#head += chunk.toString('latin1');
        const at = this.#head.indexOf('\r\n\r\n');
        if (at === -1) return;
        if (!this.#head.startsWith('HTTP/1.1 200')) this.intact = false;
        this.#inBody = true;
        this.#socket.pause();
        this.#check(Buffer.from(this.#head.slice(at + 4), 'latin1'));
        return seen();
      }
      this.#check(chunk);
      if (this.received >= this.#want) this.#socket.destroy();
    });
  }

  goOn(): void {
    this.#socket.resume();
  }

  goAway(): void {
    this.#socket.resetAndDestroy();
  }

  get whole(): boolean {
    return this.intact && this.received === this.#want;
  }

  #check(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      const from = this.received % pattern.length;
      const take = Math.min(chunk.length - at, pattern.length - from);
      if (pattern.compare(chunk, at, at + take, from, from + take) !== 0) this.intact = false;
      at += take;
      this.received += take;
    }
  }
}

async function measureOne(
  target: Target,
  upstreamPort: number,
  megabytes: number,
  stallMs: number,
): Promise<StallResult> {
  const pid = target.pid ?? process.pid;
  // One short transfer first, so that the buffers and compiled code of a first use do not count as a cost of the stall.
  const warm = new StallingReader(target.port, 8, `${target.name}-warm`);
  await warm.headSeen;
  warm.goOn();
  await warm.finished;
  await delay(300);

  const rssBefore = readRssBytes(pid);
  const anonBefore = readAnonBytes(pid);
  resetPeak(pid);
  const reader = new StallingReader(target.port, megabytes, `${target.name}-read`);
  await reader.headSeen;
  let anonStalled = anonBefore;
  for (let waited = 0; waited < stallMs; waited += 250) {
    await delay(250);
    anonStalled = Math.max(anonStalled, readAnonBytes(pid));
  }
  const rssStalled = readPeakBytes(pid);
  resetPeak(pid);
  reader.goOn();
  await Promise.race([reader.finished, delay(30_000, undefined, { ref: false })]);
  const growthReadingBytes = readPeakBytes(pid) - rssBefore;

  const leaver = new StallingReader(target.port, megabytes, `${target.name}-leave`);
  await leaver.headSeen;
  await delay(Math.min(stallMs, 1000));
  const leftUs = nowUs();
  leaver.goAway();
  await delay(1000);
  const answer = await fetch(`http://127.0.0.1:${upstreamPort}/cut?id=${target.name}-leave`);
  const state = (await answer.json()) as { cut_us: number | null } | null;
  return {
    target: target.name,
    rssBefore,
    rssStalled,
    growthBytes: rssStalled - rssBefore,
    anonGrowthBytes: anonStalled - anonBefore,
    receivedBytes: reader.received,
    intact: reader.whole,
    growthReadingBytes,
    cutAfterMs: state?.cut_us ? (state.cut_us - leftUs) / 1000 : null,
  };
}

/** Stalls one reader on every target at the same time (each is a separate process; nothing else runs meanwhile). */
export function measureStalls(
  targets: Target[],
  upstreamPort: number,
  megabytes: number,
  stallMs: number,
): Promise<StallResult[]> {
  return Promise.all(targets.map((target) => measureOne(target, upstreamPort, megabytes, stallMs)));
}
