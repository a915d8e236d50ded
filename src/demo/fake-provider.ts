/**
 * A model provider on loopback that needs no key and no network: one HTTP server with the wire formats of
 * four providers. A script determines its answers; the same request gets the same bytes. The demo runs it on
 * the main thread; tests use it with the official SDKs, directly and through the gateway.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { answerBedrock, type BedrockOperation, bedrockError, readBedrock } from './bedrock.ts';
import { answerGemini, countGeminiTokens, geminiError, readGemini } from './gemini.ts';
import {
  answerMessages,
  countMessagesTokens,
  listMessagesModels,
  messagesCredential,
  messagesError,
  readMessages,
} from './messages.ts';
import {
  answerChat,
  answerResponses,
  listOpenaiModels,
  openaiError,
  readChat,
  readResponses,
} from './openai.ts';
import {
  echoScript,
  type ProviderReply,
  parseBody,
  type Script,
  type ScriptedError,
  type ScriptRequest,
} from './script.ts';

/** Maximum size of a request's body. A larger body gets the API's own 413. */
const MAX_REQUEST_BYTES = 32 * 1024 * 1024;

/** Maximum number of requests that are kept; the oldest ones are removed. */
const MAX_REMEMBERED = 10_000;

/** A request as it arrived. */
export interface ArrivedRequest {
  method: string;
  /** Path and query as sent. */
  url: string;
  /** Flat [name, value, …] in wire order, names as sent. */
  raw_headers: string[];
  body: Buffer;
  /** How it ended: answered completely, or aborted by the client. */
  ended: Promise<'answered' | 'aborted'>;
}

/** The running provider. */
export interface FakeProvider {
  /** `http://127.0.0.1:PORT`, the same address for all APIs. */
  url: string;
  /** Received requests, oldest first. */
  requests: ArrivedRequest[];
  close(): Promise<void>;
}

type ErrorWriter = (error: ScriptedError) => ProviderReply;

interface Call {
  method: string;
  path: string;
  query: string;
  body: Buffer;
  header(name: string): string;
  decide(request: Omit<ScriptRequest, 'calls_before'>): ReturnType<Script>;
}

const BEDROCK_PATH =
  /^\/model\/([^/]+)\/(converse|converse-stream|invoke|invoke-with-response-stream|count-tokens)$/;
const GEMINI_PATH =
  /^\/v1(?:beta|alpha)?\/models\/([^/:]+):(generateContent|streamGenerateContent|countTokens)$/;

/** The first checks of every API; null if the request passes. */
function refuse(
  call: Call,
  credential: string,
  write: ErrorWriter,
  no_credential_status = 401,
): ProviderReply | null {
  if (credential === '') return write({ status: no_credential_status, message: 'no credential was sent' });
  if (call.method === 'POST' && parseBody(call.body) === null) {
    return write({ status: 400, message: 'the body is not a JSON object' });
  }
  return null;
}

function routeMessages(call: Call): ProviderReply {
  const write: ErrorWriter = (error) => messagesError(error, call.body);
  const refusal = refuse(call, messagesCredential(call.header), write);
  if (refusal !== null) return refusal;
  if (call.method === 'GET') return listMessagesModels();
  if (call.path.endsWith('/count_tokens')) return countMessagesTokens(call.body);
  const body = parseBody(call.body)!;
  return answerMessages(call.decide({ shape: 'messages', ...readMessages(body) }), body, call.body);
}

function routeOpenai(call: Call): ProviderReply {
  const refusal = refuse(call, call.header('authorization'), (error) => openaiError(error, call.body));
  if (refusal !== null) return refusal;
  if (call.method === 'GET') return listOpenaiModels();
  const body = parseBody(call.body)!;
  return call.path.endsWith('/responses')
    ? answerResponses(call.decide({ shape: 'responses', ...readResponses(body) }), body, call.body)
    : answerChat(call.decide({ shape: 'chat_completions', ...readChat(body) }), body, call.body);
}

function routeGemini(call: Call, model: string, operation: string): ProviderReply {
  const query = new URLSearchParams(call.query);
  const credential =
    call.header('x-goog-api-key') || (query.get('key') ?? '') || call.header('authorization');
  const refusal = refuse(call, credential, geminiError);
  if (refusal !== null) return refusal;
  if (operation === 'countTokens') return countGeminiTokens(call.body);
  const streaming = operation === 'streamGenerateContent';
  const asked = readGemini(parseBody(call.body)!, model, streaming);
  const sse = query.get('alt') === 'sse';
  return answerGemini(call.decide({ shape: 'gemini', ...asked }), { model, streaming, sse }, call.body);
}

function routeBedrock(call: Call, model: string, operation: BedrockOperation): ProviderReply {
  const write: ErrorWriter = (error) => bedrockError(error, call.body);
  const refusal = refuse(call, call.header('authorization'), write, 403);
  if (refusal !== null) return refusal;
  if (operation === 'count-tokens') return answerBedrock({}, model, operation, call.body);
  const answer = call.decide(readBedrock(parseBody(call.body)!, model, operation));
  return answerBedrock(answer, model, operation, call.body);
}

/** Which API a request is for, by its method and path. */
function route(call: Call): ProviderReply {
  const bedrock = BEDROCK_PATH.exec(call.path);
  if (call.method === 'POST' && bedrock !== null) {
    return routeBedrock(call, decodeURIComponent(bedrock[1]!), bedrock[2] as BedrockOperation);
  }
  const gemini = GEMINI_PATH.exec(call.path);
  if (call.method === 'POST' && gemini !== null) return routeGemini(call, gemini[1]!, gemini[2]!);
  switch (`${call.method} ${call.path}`) {
    case 'POST /v1/messages':
    case 'POST /v1/messages/count_tokens':
      return routeMessages(call);
    case 'POST /v1/chat/completions':
    case 'POST /v1/responses':
      return routeOpenai(call);
    case 'GET /v1/models':
      // Two of the APIs list their models under the same path; the version header distinguishes them.
      return call.header('anthropic-version') === '' ? routeOpenai(call) : routeMessages(call);
    default:
      return messagesError({ status: 404, message: `no such route: ${call.method} ${call.path}` }, call.body);
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request) {
    size += (part as Buffer).length;
    if (size > MAX_REQUEST_BYTES) return null;
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts);
}

/** Writes an answer at the client's pace; ends silently if the client disconnects. */
async function send(reply: ProviderReply, acceptEncoding: string, response: ServerResponse): Promise<void> {
  const headers = reply.headers.flat();
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  if (reply.frames === undefined) {
    const body = reply.body ?? Buffer.alloc(0);
    // Clients that accept gzip get JSON compressed and chunked, as from real providers. Errors are not compressed.
    if (reply.status === 200 && /\bgzip\b/.test(acceptEncoding)) {
      response.writeHead(reply.status, [...headers, 'content-encoding', 'gzip']);
      response.write(gzipSync(body));
      response.end();
    } else {
      response.writeHead(reply.status, [...headers, 'content-length', String(body.length)]);
      response.end(body);
    }
    return;
  }
  response.writeHead(reply.status, headers);
  response.flushHeaders();
  for (const [i, frame] of reply.frames.entries()) {
    if (gone.signal.aborted) return;
    if (i === reply.hold_after_frames) {
      await once(response, 'close');
      return;
    }
    if (!response.write(frame)) await once(response, 'drain', { signal: gone.signal }).catch(() => undefined);
    // Each frame is written separately, as a model would produce the frames.
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  response.end();
}

/** Starts a provider on a free port of loopback. Without a script it repeats its input (`echoScript`). */
export async function startFakeProvider(options: { script?: Script } = {}): Promise<FakeProvider> {
  const script = options.script ?? echoScript;
  const requests: ArrivedRequest[] = [];
  let calls = 0;
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const ended = new Promise<'answered' | 'aborted'>((resolve) => {
      response.once('close', () => resolve(response.writableFinished ? 'answered' : 'aborted'));
    });
    const body = await readBody(request);
    if (body === null) {
      response.writeHead(413).end();
      return;
    }
    const url = request.url ?? '/';
    const method = request.method ?? 'GET';
    requests.push({ method, url, raw_headers: request.rawHeaders, body, ended });
    if (requests.length > MAX_REMEMBERED) requests.shift();
    const cut = url.indexOf('?');
    const reply = route({
      method,
      path: cut < 0 ? url : url.slice(0, cut),
      query: cut < 0 ? '' : url.slice(cut + 1),
      body,
      header: (name) => String(request.headers[name] ?? ''),
      decide: (asked) => script({ ...asked, calls_before: calls++ }),
    });
    await send(reply, String(request.headers['accept-encoding'] ?? ''), response);
  };
  const server = createServer((request, response) => {
    // The client has aborted the request, so there is no client to answer.
    handle(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
