/**
 * Measures what the labelling shim adds to a request of an agent. The bench makes requests of undici and of node:http
 * up to the moment at which they write their head: without the shim, with it, and with it in a scope. It uses no
 * socket, because the noise of a socket is many times larger than the cost of the shim. Own thread.
 */

import { channel } from 'node:diagnostics_channel';
import http from 'node:http';
import { createRequire } from 'node:module';
import { Duplex } from 'node:stream';
import { install, runScope } from '../src/label/label.ts';

/** Maximum additional time for a labelled request. */
const LABEL_GOAL_US = 5;

interface LabelOptions {
  /** Requests measured in each round. */
  requests: number;
  rounds: number;
}

export const LABEL_FULL: LabelOptions = { requests: 100_000, rounds: 7 };
export const LABEL_QUICK: LabelOptions = { requests: 20_000, rounds: 3 };

interface LabelReport {
  /**
   * Each figure is the time that the shim adds. It is the difference of two best rounds, one with the shim and one
   * without, because interruptions make rounds slower.
   */
  fetch_us: number;
  /** A request of `fetch` or undici outside of a scope. */
  fetch_unscoped_us: number;
  http_us: number;
  http_unscoped_us: number;
  goal_us: number;
  goal_met: boolean;
}

const RUN = 'bench: one run of 30 characters';

/** Runs the bench. @param say receives messages about the progress */
export function runLabelBench(options: LabelOptions, say: (what: string) => void = () => {}): LabelReport {
  say('requests without the shim');
  const undici = measure(options, makeUndiciRequest);
  const heads = measure(options, writeHead);
  install();
  say('requests with the shim, in a scope and in none');
  const fetch_us = runScope(RUN, () => measure(options, makeUndiciRequest)) - undici;
  const fetch_unscoped_us = measure(options, makeUndiciRequest) - undici;
  const http_us = runScope(RUN, () => measure(options, writeHead)) - heads;
  const http_unscoped_us = measure(options, writeHead) - heads;
  const goal_us = LABEL_GOAL_US;
  return {
    fetch_us,
    fetch_unscoped_us,
    http_us,
    http_unscoped_us,
    goal_us,
    goal_met: Math.max(fetch_us, http_us) <= goal_us,
  };
}

/** Writes the report as lines for a terminal. */
export function describeLabel(report: LabelReport): string[] {
  const us = (value: number) => `${value.toFixed(2)} µs`;
  return [
    `fetch, undici           ${us(report.fetch_us)}   in no scope ${us(report.fetch_unscoped_us)}`,
    `node:http, node:https   ${us(report.http_us)}   in no scope ${us(report.http_unscoped_us)}`,
    `goal ≤ ${report.goal_us} µs a labelled request: ${report.goal_met ? 'met' : 'MISSED'}`,
  ];
}

/** Measures the processor time of a call in µs, in the best of several rounds. */
function measure({ requests, rounds }: LabelOptions, act: () => void): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) {
    const before = process.cpuUsage();
    for (let n = 0; n < requests; n++) act();
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) / requests);
  }
  return best;
}

const sent = channel('undici:client:sendHeaders');
const Request = createRequire(import.meta.url)('undici/lib/core/request.js') as new (
  origin: string,
  options: object,
  handler: object,
) => object;
const HANDLER = {
  onRequestStart() {},
  onResponseStart() {},
  onResponseData() {},
  onResponseEnd() {},
  onResponseError() {},
};

/** Makes undici's own request, up to the writing of its head. */
function makeUndiciRequest(): void {
  const headers = [
    'accept',
    '*/*',
    'content-type',
    'application/json',
    'user-agent',
    'bench',
    'x-api-key',
    'k',
  ];
  const options = { path: '/v1/messages?beta=true', method: 'POST', headers, body: '{}' };
  const request = new Request('http://127.0.0.1:8787', options, HANDLER);
  if (sent.hasSubscribers) sent.publish({ request, headers: '', socket });
}

/** A connection that opens at once and discards all data. */
class Sink extends Duplex {
  override _read(): void {}
  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    done();
  }
}

const agent = { addRequest() {}, protocol: 'http:', defaultPort: 80 } as unknown as http.Agent;
const socket = new Sink();

/** Makes a request of node:http, which writes its head into the sink. */
function writeHead(): void {
  const request = new http.ClientRequest({
    host: '127.0.0.1',
    port: 8787,
    path: '/v1/messages?beta=true',
    method: 'POST',
    headers: { accept: '*/*', 'content-type': 'application/json', 'user-agent': 'bench', 'x-api-key': 'k' },
    agent,
  } as never);
  request.emit('socket', socket);
  request.flushHeaders();
  request.emit('close');
}
