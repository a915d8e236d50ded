/**
 * Many simultaneous runs over few connections: a request that waited for a connection, or that is sent again, belongs
 * to the run that made it, not to the run that used the connection before. The number of a request that was never sent
 * is used again.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import http from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import * as undici8 from 'undici';
import * as undici6 from 'undici6';
import * as undici7 from 'undici7';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { install, runScope } from '../../src/label/label.ts';
import { headerOf, isLabelLine, type Recorder, startRecorder } from './recorder.ts';

const RUNS = 5;
const CALLS = 10;

let recorder: Recorder;
let url: string;
/** Names of runs are different in each test. */
let test = 0;
beforeAll(() => install());
beforeEach(async () => {
  test++;
  recorder = await startRecorder();
  url = `http://127.0.0.1:${recorder.port}/v1/messages`;
});
afterEach(() => recorder.close());

interface Ended {
  destroy(): unknown;
}
type Call = (body: string) => Promise<unknown>;

/** Makes the calls of all runs at the same time, and some calls that belong to no run. */
async function makeCalls(call: Call): Promise<void> {
  const calls: Promise<unknown>[] = [];
  for (let n = 0; n < CALLS; n++) {
    for (let at = 0; at < RUNS; at++) {
      const run = `test ${test} run ${at}`;
      calls.push(runScope(run, () => call(JSON.stringify({ run, n }))));
    }
    calls.push(call(JSON.stringify({ run: null, n })));
  }
  await Promise.all(calls);
}

/** Checks that each call has the label of its run. @param attempts how often each call reached the server */
function expectOwnLabels(attempts = 1): void {
  const numbers = new Map<string | null, number[]>();
  for (const request of recorder.requests) {
    const { run } = JSON.parse(request.body.replace(/^[\da-f]+\r\n|\r\n0\r\n\r\n$/g, '')) as {
      run: string | null;
    };
    expect(headerOf(request, 'x-svc-run')).toBe(run);
    numbers.set(run, [...(numbers.get(run) ?? []), Number(headerOf(request, 'x-svc-seq'))]);
  }
  expect(numbers.size).toBe(RUNS + 1);
  numbers.delete(null);
  for (const taken of numbers.values()) {
    expect(taken).toHaveLength(CALLS * attempts);
    expect(taken.sort((a, b) => a - b)).toEqual(taken.map((_, at) => at + 1));
  }
}

const using = async (dispatcher: Ended, act: () => Promise<void>) => {
  try {
    await act();
  } finally {
    await dispatcher.destroy();
  }
};

type Undici = typeof undici8;
const VERSIONS: [string, Undici][] = [
  ['6', undici6 as unknown as Undici],
  ['7', undici7 as unknown as Undici],
  ['8', undici8],
];

describe.each(VERSIONS)('labels are right with undici %s and two connections, for', (version, undici) => {
  it('requests', () => {
    const dispatcher = new undici.Agent({ connections: 2 });
    return using(dispatcher, async () => {
      await makeCalls(async (body) =>
        (await undici.request(url, { method: 'POST', body, dispatcher })).body.text(),
      );
      expectOwnLabels();
    });
  });

  it('a client of one connection', () => {
    const client = new undici.Client(new URL(url).origin);
    return using(client, async () => {
      await makeCalls(async (body) =>
        (await client.request({ path: '/v1/messages', method: 'POST', body })).body.text(),
      );
      expectOwnLabels();
    });
  });

  it('its fetch, and the platform’s, by the global dispatcher', async () => {
    const before = undici.getGlobalDispatcher();
    const dispatcher = new undici.Agent({ connections: 2 });
    undici.setGlobalDispatcher(dispatcher);
    try {
      await using(dispatcher, async () => {
        await makeCalls(async (body) => (await undici.fetch(url, { method: 'POST', body })).text());
        expectOwnLabels();
        recorder.requests.length = 0;
        test++;
        await makeCalls(async (body) => (await fetch(url, { method: 'POST', body })).text());
        expectOwnLabels();
      });
    } finally {
      undici.setGlobalDispatcher(before);
    }
  });

  it.skipIf(version === '8')('the platform’s fetch with a dispatcher', () => {
    const dispatcher = new undici.Agent({ connections: 2 });
    return using(dispatcher, async () => {
      const init = { method: 'POST', dispatcher };
      await makeCalls(async (body) => (await fetch(url, { ...init, body } as object)).text());
      expectOwnLabels();
    });
  });

  // Version 7 does not show which request it repeats (docs/label.md).
  it.skipIf(version === '7')('its retries', () => {
    const dispatcher = new undici.RetryAgent(new undici.Agent({ connections: 2 }), {
      methods: ['POST'],
      minTimeout: 1,
      maxTimeout: 1,
    });
    return using(dispatcher, async () => {
      await makeCalls(async (body) =>
        (await undici.request(`${url}?answer=fail-first`, { method: 'POST', body, dispatcher })).body.text(),
      );
      expectOwnLabels(2);
    });
  });
});

describe('labels are right with node:http, for', () => {
  it('two connections', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 2 });
    await makeCalls(
      (body) =>
        new Promise((resolve, reject) => {
          const request = http.request(url, { method: 'POST', agent }, (response) => {
            response.resume().on('end', resolve);
          });
          request.on('error', reject).end(body);
        }),
    );
    expectOwnLabels();
    agent.destroy();
  });

  it('a body from another source', async () => {
    const source = createServer((socket) => socket.on('data', (bytes) => socket.end(bytes))).listen(
      0,
      '127.0.0.1',
    );
    await once(source, 'listening');
    const { port } = source.address() as AddressInfo;
    await makeCalls((body) => {
      const request = http.request(url, { method: 'POST', headers: { 'content-length': body.length } });
      const answered = once(request, 'response').then(([response]) => once(response.resume(), 'end'));
      // The connection belongs to no scope, and neither do the events of its data.
      runScopeless(() =>
        connect(port, '127.0.0.1', function (this: NodeJS.WritableStream) {
          this.write(body);
        }).pipe(request),
      );
      return answered;
    });
    expectOwnLabels();
    source.close();
  });
});

/** Runs a function outside of every scope, whatever the scope of the caller. */
const runScopeless = AsyncLocalStorage.snapshot();

describe('a call that was never sent', () => {
  it('leaves its number to the next call if it was refused, abandoned in the queue, or failed in the TLS handshake', async () => {
    const closed = await startRecorder();
    await closed.close();
    const away = `http://127.0.0.1:${closed.port}/v1/messages`;
    const run = `test ${test}`;
    const post = { method: 'POST', body: '{}' };
    const dispatcher = new undici6.Agent({ connections: 1 });
    const ask = (act: () => Promise<unknown>) => runScope(run, act);
    await ask(() => fetch(url, post));
    await ask(async () => {
      await expect(fetch(away, post)).rejects.toThrow('fetch failed');
      await expect(undici6.request(away, { ...post, method: 'POST' })).rejects.toThrow();
      await expect(undici7.request(away, { ...post, method: 'POST' })).rejects.toThrow();
      await expect(undici8.request(away, { ...post, method: 'POST' })).rejects.toThrow();
      await expect(once(http.get(away), 'response')).rejects.toThrow();
      // A TLS request to a server without TLS.
      await expect(fetch(url.replace('http:', 'https:'), post)).rejects.toThrow('fetch failed');
      const leave = new AbortController();
      const waiting = [1, 2, 3].map((n) =>
        fetch(`${url}?answer=${n === 1 ? 'none' : ''}`, {
          ...post,
          signal: leave.signal,
          dispatcher,
        } as object),
      );
      const failed = expect(Promise.all(waiting)).rejects.toThrow('given up');
      await expect.poll(() => recorder.requests.length).toBe(2);
      leave.abort(new Error('given up'));
      await failed;
      await Promise.allSettled(waiting);
    });
    await dispatcher.destroy();
    await ask(() => fetch(url, post));
    expect(recorder.requests.map((request) => headerOf(request, 'x-svc-seq'))).toEqual(['1', '2', '3']);
  });

  it('keeps a label that the caller wrote', async () => {
    const headers = { 'X-Svc-Run': 'mine' };
    await runScope('not mine', async () => {
      await fetch(url, { headers });
      await once(http.get(url, { headers }), 'response');
      await undici6.request(url, { headers });
    });
    const labels = recorder.requests.map(({ lines }) =>
      lines.filter(isLabelLine).map((line) => line.toLowerCase()),
    );
    expect(labels).toEqual([['x-svc-run: mine'], ['x-svc-run: mine'], ['x-svc-run: mine']]);
  });
});
