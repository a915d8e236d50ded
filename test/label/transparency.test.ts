/**
 * The same agent with the shim and without, on every installed Node. Except for the labels, the bytes, the outcomes and
 * the errors are the same. The labels are on the right requests, and numbered without gaps.
 */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { headerOf, isLabelLine, type Recorded, startRecorder } from './recorder.ts';
import { buildShim, findNodes } from './shim-build.ts';

const AGENT = join(import.meta.dirname, 'every-form.mjs');

const shim = buildShim();
let closedPort: number;
beforeAll(async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  closedPort = (server.address() as AddressInfo).port;
  server.close();
  await once(server, 'close');
});
afterAll(() => shim[Symbol.dispose]());

interface Played {
  /** The agent's output: one line for each form. */
  outcomes: unknown[];
  requests: Recorded[];
  tls_requests: Recorded[];
}

async function play(program: string, env: Record<string, string>, args: string[]): Promise<Played> {
  await using plain = await startDisposable();
  await using secure = await startDisposable({ tls: true });
  const { stdout, stderr } = await promisify(execFile)(program, [...args, AGENT], {
    env: {
      PATH: process.env.PATH,
      NODE_NO_WARNINGS: '1',
      PORT: `${plain.port}`,
      TLS_PORT: `${secure.port}`,
      CLOSED_PORT: `${closedPort}`,
      ...env,
    },
  });
  expect(stderr).toBe('');
  const hide = <T>(value: T): T =>
    JSON.parse(
      JSON.stringify(value).replaceAll(`:${plain.port}`, ':PORT').replaceAll(`:${secure.port}`, ':TLS_PORT'),
    );
  return {
    outcomes: hide(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ),
    requests: hide(plain.requests),
    tls_requests: hide(secure.requests),
  };
}

async function startDisposable(options: { tls?: boolean } = {}) {
  const recorder = await startRecorder(options);
  return Object.assign(recorder, { [Symbol.asyncDispose]: () => recorder.close() });
}

const unlabel = (requests: Recorded[]) =>
  requests.map((request) => ({ ...request, lines: request.lines.filter((line) => !isLabelLine(line)) }));

describe.each(findNodes())('a labelled process on Node %s', (_version, program) => {
  let without: Played;
  let labelled: Played;
  beforeAll(async () => {
    without = await play(program, {}, []);
    const auto = ['--import', join(shim.folder, 'auto.js')];
    labelled = await play(program, { SVC_RUN: 'every form', SVC_HOSTS: 'models.example.org' }, auto);
  });

  it('has the same outcomes and errors', () => {
    expect(without.outcomes.length).toBeGreaterThan(90);
    expect(labelled.outcomes).toEqual(without.outcomes);
  });

  it('sends the same bytes except for the labels', () => {
    expect(without.requests.length).toBeGreaterThan(80);
    expect(unlabel(labelled.requests)).toEqual(unlabel(without.requests));
    expect(unlabel(labelled.tls_requests)).toEqual(unlabel(without.tls_requests));
  });

  it('labels each model call to its hosts once, without a gap, and no other request', () => {
    const all = [...labelled.requests, ...labelled.tls_requests];
    const isOwn = (request: Recorded) =>
      /^(127\.0\.0\.1|localhost|models\.example\.org|me)\b/.test(headerOf(request, 'host') ?? 'localhost');
    const isAbsolute = (request: Recorded) => request.target.includes('http://');
    const carriesOwn = (request: Recorded) =>
      request.lines.some((line) => isLabelLine(line) && !line.startsWith('x-svc-'));
    const due = all.filter(
      (request) =>
        /\/v1\/(messages|responses)$/.test(request.target) &&
        isOwn(request) &&
        !isAbsolute(request) &&
        !carriesOwn(request),
    );
    for (const request of all.filter((other) => !due.includes(other)))
      expect(request.lines.filter((line) => isLabelLine(line)).length, request.target).toBeLessThanOrEqual(
        carriesOwn(request) ? 1 : 0,
      );
    for (const request of due)
      expect(
        request.lines.filter((line) => isLabelLine(line)),
        JSON.stringify(request),
      ).toHaveLength(2);
    expect(new Set(due.map((request) => headerOf(request, 'x-svc-run')))).toEqual(new Set(['every form']));
    const numbers = due.map((request) => Number(headerOf(request, 'x-svc-seq')));
    expect(numbers.sort((a, b) => a - b)).toEqual(numbers.map((_, at) => at + 1));
  });

  it('labels nothing if no run is named', { tags: 'long' }, async () => {
    const installed = await play(program, {}, ['--import', join(shim.folder, 'auto.js')]);
    expect(installed.outcomes).toEqual(without.outcomes);
    expect(installed.requests).toEqual(without.requests);
  });
});
