/** A parser's result for the bytes of one answer, in a form for comparing two parsers. */
import { request as httpRequest } from 'node:http';
import { Duplex } from 'node:stream';
import type { UpstreamError } from '../../../src/gateway/upstream/answer-error.ts';
import { type ResponseHead, ResponseParser } from '../../../src/gateway/upstream/response-parser.ts';

export interface ParsedAnswer {
  /** `whole`: complete; `cut`: the bytes ended too early; `refused`: not an answer, for the reason `why`. */
  outcome: 'whole' | 'cut' | 'refused';
  why: string;
  informational: number[];
  status: number;
  reason: string;
  /** Names and values alternate. */
  headers: string[];
  body: string;
  trailers: string[];
}

const NOTHING: ParsedAnswer = {
  outcome: 'cut',
  why: '',
  informational: [],
  status: 0,
  reason: '',
  headers: [],
  body: '',
  trailers: [],
};

interface ParsedByUs extends ParsedAnswer {
  isKept: boolean;
  kept_ms: number | null;
  /** Number of bytes after the answer. */
  surplus: number;
}

/**
 * Our parser's result if the connection ends after the bytes.
 * @param pieces each is passed in separate memory that is overwritten afterwards, with other bytes after it
 */
export function parseByUs(pieces: readonly Uint8Array[], method = 'GET'): ParsedByUs {
  const answer: ParsedByUs = { ...NOTHING, informational: [], isKept: false, kept_ms: null, surplus: 0 };
  const body: Buffer[] = [];
  const parser = new ResponseParser({
    onHead: (head: ResponseHead) => {
      if (head.status < 200) {
        answer.informational.push(head.status);
        return;
      }
      answer.status = head.status;
      answer.reason = head.reason;
      answer.headers = head.headers;
    },
    onBody: (chunk) => body.push(Buffer.from(chunk)),
  });
  parser.begin(method);
  // The memory after the bytes contains blank lines, as an earlier answer may have left them.
  const memory = Buffer.alloc(Math.max(0, ...pieces.map((piece) => piece.length)) + 64, '\r\n\r\n');
  try {
    for (const piece of pieces) {
      memory.fill('\r\n\r\n');
      memory.set(piece);
      answer.surplus += piece.length - parser.execute(memory, piece.length);
    }
    if (parser.isComplete || parser.finish()) answer.outcome = 'whole';
  } catch (error) {
    answer.outcome = 'refused';
    answer.why = (error as UpstreamError).message;
  }
  answer.body = Buffer.concat(body).toString('latin1');
  answer.trailers = parser.trailers?.headers ?? [];
  answer.isKept = parser.isKept;
  answer.kept_ms = parser.kept_ms;
  return answer;
}

/** The result of node:http's client, whose parser is llhttp, like undici's. */
export function parseByNode(bytes: Uint8Array): Promise<ParsedAnswer> {
  const { promise, resolve } = Promise.withResolvers<ParsedAnswer>();
  const answer: ParsedAnswer = { ...NOTHING, informational: [] };
  const body: Buffer[] = [];
  const finish = (outcome: ParsedAnswer['outcome'], why = ''): void => {
    resolve({ ...answer, outcome, why, body: Buffer.concat(body).toString('latin1') });
  };
  const socket = new Duplex({
    read: () => {},
    write: (_chunk, _encoding, done) => done(),
    final: (done) => done(),
  });
  const sent = httpRequest({
    host: 'up',
    createConnection: () => socket,
    maxHeaderSize: 1 << 20,
  });
  sent.on('information', ({ statusCode }) => answer.informational.push(statusCode));
  sent.on('continue', () => {
    // The event `information` reports it as well.
  });
  sent.on('upgrade', () => finish('refused', 'upgrade'));
  sent.on('error', (error: NodeJS.ErrnoException) =>
    finish(error.code === 'ECONNRESET' ? 'cut' : 'refused', error.code ?? error.message),
  );
  sent.on('response', (got) => {
    answer.status = got.statusCode!;
    answer.reason = got.statusMessage!;
    answer.headers = got.rawHeaders;
    let why: string | null = null;
    got.on('data', (chunk: Buffer) => body.push(chunk));
    got.on('error', (error: NodeJS.ErrnoException) => {
      why = error.code ?? error.message;
    });
    got.on('close', () => {
      answer.trailers = got.rawTrailers;
      if (got.complete) finish('whole');
      else finish(why !== null && why !== 'ECONNRESET' ? 'refused' : 'cut', why ?? '');
    });
  });
  sent.end();
  setImmediate(() => {
    socket.push(bytes);
    socket.push(null);
  });
  return promise;
}
