/**
 * The two ways to the fake provider that the client tests compare: direct, and through a gateway that runs as a
 * separate process with a capture database in a temporary directory. Test thread.
 */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type ArrivedRequest, type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { CliChild } from '../cli/child.ts';
import { clientScript } from './script.ts';

/** Whether a client connects to the provider directly or through the gateway. */
export type Way = 'direct' | 'gateway';

/** Keys that the SDKs send in these tests. No file may contain them afterwards. */
export const CANARY_KEY = 'sk-canary-7Qm2Zx9LwP4tRb8Ks5Vd1Yf6Hj3Gc0Na';

/** A running provider and the gateway in front of it. */
export class ClientBench {
  readonly provider: FakeProvider;
  readonly child: CliChild;
  readonly dir: string;
  readonly gateway_url: string;
  /** The id of the last exchange that `expectCaptured` has compared. */
  #seen = 0;

  constructor(provider: FakeProvider, child: CliChild, dir: string, gatewayUrl: string) {
    this.provider = provider;
    this.child = child;
    this.dir = dir;
    this.gateway_url = gatewayUrl;
  }

  get db(): string {
    return join(this.dir, 'capture.mdb');
  }

  /** @returns the base address for a way. `prefix` is the gateway's route, which the direct address does not have. */
  base(way: Way, prefix = ''): string {
    return way === 'direct' ? this.provider.url : this.gateway_url + prefix;
  }

  /**
   * Calls `act` for each way. Compares the two results, and the requests that reached the provider: method, path,
   * query, headers in order, and body.
   * @returns the result
   */
  async compare<T>(act: (way: Way) => Promise<T>): Promise<T> {
    const before = this.provider.requests.length;
    const direct = await act('direct');
    const between = this.provider.requests.length;
    const through = await act('gateway');
    expect(through).toEqual(direct);
    const arrived = this.provider.requests.map(describeArrival);
    expect(arrived.slice(between)).toEqual(arrived.slice(before, between));
    for (const { raw_headers } of this.provider.requests.slice(between)) {
      expect(raw_headers.filter((name) => /^x-svc-/i.test(name))).toEqual([]);
    }
    return through;
  }

  /**
   * Waits until the gateway has nothing in flight (an aborted exchange ends a moment after its client), flushes, and
   * compares the exchanges captured since the last call with the expected ones, in the order of writing.
   */
  async expectCaptured(expected: unknown[]): Promise<void> {
    await this.waitForStats((stats) => stats.exchanges.in_flight === 0);
    const flushed = await fetch(`${this.gateway_url}/__gw/flush`);
    expect(await flushed.json()).toMatchObject({ flushed: true });
    const reader = CaptureReader.open(this.db);
    try {
      const fresh = [...reader.exchanges({ from_id: this.#seen + 1 })];
      this.#seen = fresh.at(-1)?.id ?? this.#seen;
      expect(fresh).toMatchObject(expected);
    } finally {
      await reader.close();
    }
  }

  /** Requests the stats until they are as expected, at most until the time limit of the test. */
  async waitForStats(done: (stats: GatewayStats) => boolean): Promise<GatewayStats> {
    for (;;) {
      const stats = (await (await fetch(`${this.gateway_url}/__gw/stats`)).json()) as GatewayStats;
      if (done(stats)) return stats;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Stops the gateway as an operator would, then searches every byte of its data for the key. */
  async expectNoCanary(): Promise<void> {
    this.child.process.kill('SIGTERM');
    expect((await this.child.ended).code).toBe(0);
    const names = await readdir(this.dir, { recursive: true, withFileTypes: true });
    const files = names.filter((entry) => entry.isFile());
    expect(files.length).toBeGreaterThan(0);
    const needles = [
      CANARY_KEY,
      Buffer.from(CANARY_KEY).toString('base64').slice(0, -4),
      CANARY_KEY.slice(3, 30),
    ];
    for (const file of files) {
      const bytes = await readFile(join(file.parentPath, file.name));
      for (const needle of needles) {
        expect(bytes.includes(needle), `${needle} in ${file.name}`).toBe(false);
      }
    }
    // Stored blocks are compressed, so their uncompressed content is searched as well.
    const reader = CaptureReader.open(this.db);
    try {
      const unpacked = [...reader.exchanges()].flatMap((record) => [
        JSON.stringify(record),
        Buffer.from(reader.body(record.id, 'request')!).toString('latin1'),
        Buffer.from(reader.body(record.id, 'response')!).toString('latin1'),
      ]);
      expect(unpacked.length).toBeGreaterThan(0);
      for (const text of unpacked) for (const needle of needles) expect(text).not.toContain(needle);
    } finally {
      await reader.close();
    }
  }

  async close(): Promise<void> {
    await this.child[Symbol.asyncDispose]();
    await this.provider.close();
    await rm(this.dir, { recursive: true, force: true });
  }
}

/** The part of the stats that these tests read. */
interface GatewayStats {
  exchanges: { attempted: number; captured: number; dropped: number; in_flight: number; aborted: number };
}

/**
 * The parts of a request that must be the same in both ways. Header names are in lower case. Left out are the labels
 * and the headers that differ with each connection or attempt. All other headers must arrive as sent, including
 * `accept-encoding`.
 */
function describeArrival(request: ArrivedRequest): unknown {
  const headers: [string, string][] = [];
  for (let i = 0; i < request.raw_headers.length; i += 2) {
    headers.push([request.raw_headers[i]!.toLowerCase(), request.raw_headers[i + 1]!]);
  }
  const own = new Set(['host', 'connection', 'content-length', 'amz-sdk-invocation-id']);
  return {
    method: request.method,
    url: request.url,
    headers: headers.filter(([name]) => !own.has(name) && !name.startsWith('x-svc-')),
    body: request.body.toString('utf8'),
  };
}

/**
 * Starts provider and gateway.
 * @param env added to the gateway's environment
 * @param script of the provider
 */
export async function startClientBench(
  env: Record<string, string> = {},
  script: Script = clientScript,
): Promise<ClientBench> {
  const provider = await startFakeProvider({ script });
  const dir = await mkdtemp(join(tmpdir(), 'understudy-clients-'));
  const child = new CliChild(['gateway', '--port', '0', '--db', join(dir, 'capture.mdb')], {
    env: {
      DATA_DIR: dir,
      GW_UPSTREAM_BASE: provider.url,
      GW_GEMINI_BASE: provider.url,
      GW_BEDROCK_BASE: provider.url,
      ...env,
    },
  });
  const [, url] = await child.waitForOutput(/Gateway\s+(http:\/\/\S+)/);
  return new ClientBench(provider, child, dir, url!);
}

/** The fields of an SDK's typed error, in a form that can be compared. */
export function describeError(error: unknown): Record<string, unknown> {
  const e = error as Error & { status?: number; error?: unknown; type?: string; $fault?: string };
  return {
    name: e.constructor.name,
    message: e.message,
    status: e.status,
    body: e.error,
    type: e.type,
    fault: e.$fault,
  };
}

/** The error with which a promise rejects; fails the test if the promise resolves. */
export async function rejection(promise: PromiseLike<unknown>): Promise<Error> {
  return Promise.resolve(promise).then(
    () => expect.fail('did not reject'),
    (error: Error) => error,
  );
}

/** Everything that an async iterable yields. */
export async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of source) all.push(item);
  return all;
}
