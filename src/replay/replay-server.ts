/**
 * A local provider that answers an agent from a captured run: byte for byte, with the recorded timing, offline. It can
 * continue with a live provider from a given turn. Listens on loopback; command line.
 *
 * Bound: request bodies of REQUEST_BYTES; a request with a larger body gets 413.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { forwardLive, type LiveTarget } from './live-forward.ts';
import { writeAnswer } from './paced-answer.ts';
import type { RecordedExchange, RecordedRun } from './recorded-run.ts';
import { type AskedRequest, RequestMatcher } from './request-match.ts';

/** Maximum size of a request's body. The maximum of providers is smaller. */
const REQUEST_BYTES = 64 << 20;

export interface ReplayOptions {
  /** 0: any free port. */
  port: number;
  /** Multiple of the recorded speed; 0: without pauses. */
  speed: number;
  /** Whether to serve the next exchange even if a request differs from the recorded one. */
  is_loose: boolean;
  /** The turn from which a live provider answers; null for a replay without a live provider. */
  from_turn: number | null;
  live: LiveTarget | null;
  /** Receives the outcome of each request. */
  tell: (event: ReplayEvent) => void;
  /** Waits; tests replace it. */
  pause?: (ms: number) => Promise<unknown>;
}

/** The outcome of a request. */
export type ReplayEvent =
  | { type: 'served'; exchange: RecordedExchange; is_again: boolean }
  /** `is_served`: the next exchange was served anyway. */
  | { type: 'differs'; exchange: RecordedExchange; where: string; is_served: boolean }
  | { type: 'unknown'; where: string }
  | { type: 'unplayable'; exchange: RecordedExchange }
  | { type: 'live'; turn: number; status: number | null; problem: string };

/** Served and unserved requests. */
interface ReplayResult {
  exchanges: number;
  served: number;
  again: number;
  differing: number;
  /** Requests for which the run has no exchange, or no further one. */
  unknown: number;
  /** Requests that got an error although an exchange fits or might fit, for example because its answer was not stored. */
  unplayable: number;
  live: number;
  unserved: RecordedExchange[];
}

export class ReplayServer {
  readonly #run: RecordedRun;
  readonly #options: ReplayOptions;
  readonly #matcher: RequestMatcher;
  readonly #server: Server;
  readonly #counts = { served: 0, again: 0, differing: 0, unknown: 0, unplayable: 0, live: 0 };

  private constructor(run: RecordedRun, options: ReplayOptions) {
    this.#run = run;
    this.#options = options;
    this.#matcher = new RequestMatcher(run);
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: Error) => {
        // The error means that the capture cannot be read, or that the agent has disconnected.
        if (response.headersSent || response.destroyed) return void response.destroy();
        this.#counts.unplayable += 1;
        refuse(response, 502, error.message);
      });
    });
  }

  /**
   * Starts a server on loopback.
   * @throws the system's error, for example if the port is in use
   */
  static async start(run: RecordedRun, options: ReplayOptions): Promise<ReplayServer> {
    const server = new ReplayServer(run, options);
    await new Promise<void>((resolve, reject) => {
      server.#server.once('error', reject).listen(options.port, '127.0.0.1', resolve);
    });
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get result(): ReplayResult {
    const { from_turn } = this.#options;
    const isRecorded = ({ turn }: RecordedExchange): boolean =>
      from_turn === null || turn === null || turn < from_turn;
    return {
      exchanges: this.#run.exchanges.length,
      ...this.#counts,
      unserved: this.#matcher.unserved.filter(isRecorded),
    };
  }

  /** Stops the server and closes its connections. */
  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    if (body === null) {
      this.#counts.unplayable += 1;
      return refuse(response, 413, `a request may have at most ${REQUEST_BYTES} bytes`);
    }
    const asked: AskedRequest = {
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: request.rawHeaders,
      body,
    };
    const { from_turn, live } = this.#options;
    if (live !== null && from_turn !== null && this.#matcher.next_turn >= from_turn)
      return this.#goOnLive(request, asked, response, live);
    const match = this.#matcher.find(asked);
    if (match.type === 'unknown') {
      this.#counts.unknown += 1;
      this.#options.tell(match);
      return refuse(response, 404, match.where);
    }
    if (match.type === 'differs' && !this.#options.is_loose) {
      this.#counts.differing += 1;
      this.#options.tell({ ...match, is_served: false });
      return refuse(response, 400, describeDifference(match.exchange, match.where));
    }
    const { exchange } = match;
    if (exchange.problem !== '') {
      this.#counts.unplayable += 1;
      this.#options.tell({ type: 'unplayable', exchange });
      return refuse(response, 502, `exchange ${exchange.id} cannot be replayed: ${exchange.problem}`);
    }
    this.#count(match, exchange);
    const { speed, pause } = this.#options;
    await writeAnswer(response, exchange, this.#run.answer(exchange), speed, pause);
  }

  #count(
    match: { type: 'found'; is_again: boolean } | { type: 'differs'; where: string },
    exchange: RecordedExchange,
  ): void {
    const { tell } = this.#options;
    if (match.type === 'differs') {
      this.#matcher.take(exchange);
      this.#counts.differing += 1;
      tell({ type: 'differs', exchange, where: match.where, is_served: true });
      return;
    }
    this.#counts[match.is_again ? 'again' : 'served'] += 1;
    tell({ type: 'served', exchange, is_again: match.is_again });
  }

  async #goOnLive(
    request: IncomingMessage,
    asked: AskedRequest,
    response: ServerResponse,
    live: LiveTarget,
  ): Promise<void> {
    this.#counts.live += 1;
    const turn = this.#options.from_turn! + this.#counts.live - 1;
    try {
      const status = await forwardLive(request, asked, response, live);
      this.#options.tell({ type: 'live', turn, status, problem: '' });
    } catch (error) {
      const problem = `the request to ${live.base_url} failed: ${(error as Error).message}`;
      this.#options.tell({ type: 'live', turn, status: null, problem });
      if (response.headersSent) response.destroy();
      else refuse(response, 502, problem);
    }
  }
}

/** The recorded request that a request should repeat, and the first difference. */
export function describeDifference({ id, turn }: RecordedExchange, where: string): string {
  const name = turn === null ? `exchange ${id}` : `turn ${turn} (exchange ${id})`;
  return `the request does not repeat ${name}: ${where}`;
}

/**
 * Reads the body of a request.
 * @returns null for a body of more than REQUEST_BYTES
 */
async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    bytes += piece.byteLength;
    if (bytes <= REQUEST_BYTES) pieces.push(piece);
  }
  return bytes <= REQUEST_BYTES ? Buffer.concat(pieces) : null;
}

/** An error in a form that the providers' SDKs report. They do not retry any of these statuses. */
function refuse(response: ServerResponse, status: number, message: string): void {
  const type = status === 404 ? 'not_recorded' : 'replay_error';
  const text = JSON.stringify({ type: 'error', error: { type, message: `understudy replay: ${message}` } });
  // Some SDKs retry a 502 unless told not to.
  response.writeHead(status, { 'content-type': 'application/json', 'x-should-retry': 'false' });
  response.end(text);
}
