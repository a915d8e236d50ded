/**
 * The protocol over HTTP without sessions: each message gets an answer from a separate server object. The
 * pipeline has already checked credential and rate. Server threads, which load it with the first message,
 * because most services get none.
 */
import {
  createMcpHandler,
  isLegacyRequest,
  type McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { z } from 'zod';

const INVALID_PARAMS = -32_602;
const INTERNAL_ERROR = -32_603;

/** Headers that the protocol gives a meaning. */
const PROTOCOL_HEADERS = [
  'accept',
  'content-type',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'mcp-session-id',
];

export interface McpRequest {
  headers: { get(name: string): string | undefined };
  /** The parsed body; undefined without a body. */
  message: unknown;
}

export interface McpReply {
  status: number;
  /** '' for none. */
  body: string;
  /** The body is server-sent events, all of them; otherwise JSON. */
  is_event_stream: boolean;
}

/**
 * Answers one message; never rejects for what its sender did wrong.
 * @param makeServer called at most once
 */
export async function answerMcp(
  { headers, message }: McpRequest,
  makeServer: () => McpServer,
): Promise<McpReply> {
  // A batch would be many calls for the price of one; 2025-06-18 removed batches from the protocol.
  if (Array.isArray(message)) return refuse(400, -32600, 'Send one message in a request, not a batch');
  const request = new Request('http://localhost/mcp', {
    method: 'POST',
    headers: PROTOCOL_HEADERS.flatMap((name): [string, string][] => {
      const value = name === 'accept' ? widenAccept(headers.get(name)) : headers.get(name);
      return value === undefined ? [] : [[name, value]];
    }),
  });
  if (message === undefined) return refuse(400, -32700, 'The body is empty: send one JSON-RPC message');
  const reply = (await isLegacyRequest(request, message))
    ? await answerLegacy(request, message, makeServer())
    : await createMcpHandler(makeServer, { legacy: 'reject' }).fetch(request, { parsedBody: message });
  return {
    status: reply.status,
    is_event_stream: reply.headers.get('content-type')?.startsWith('text/event-stream') === true,
    // Every answer ends by itself, because there are no subscriptions.
    body: blameSender(await reply.text()),
  };
}

const BOTH_TYPES = 'application/json, text/event-stream';

/**
 * The protocol has clients name both types, and the library refuses those that do not. Answers are JSON, so a client that takes
 * JSON gets one, whether it names that type, `*` for any, or nothing.
 */
function widenAccept(accept: string | undefined): string {
  if (accept === undefined || accept.trim() === '') return BOTH_TYPES;
  const takesJson = accept.split(',').some((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const isRefused = parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
    return !isRefused && ['application/json', 'application/*', '*/*'].includes(type);
  });
  return takesJson ? BOTH_TYPES : accept;
}

/**
 * Revisions up to 2025-11-25, which begin with a handshake that is not checked here. Answers are JSON, not
 * events.
 */
async function answerLegacy(request: Request, message: unknown, server: McpServer): Promise<Response> {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await server.connect(transport);
  try {
    return await transport.handleRequest(request, { parsedBody: message });
  } finally {
    await server.close();
  }
}

const issuesOfSchema = z.array(
  z.object({ path: z.array(z.union([z.string(), z.number()])), message: z.string() }),
);

/** The library reports `params` that its schemas refuse as an internal error with the schema's findings as its message. */
function blameSender(body: string): string {
  if (!body.includes(`"code":${INTERNAL_ERROR}`)) return body;
  try {
    const answer = JSON.parse(body);
    if (answer.error?.code !== INTERNAL_ERROR) return body;
    const issues = issuesOfSchema.parse(JSON.parse(answer.error.message));
    const message = issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');
    return JSON.stringify({ ...answer, error: { code: INVALID_PARAMS, message } });
  } catch {
    return body;
  }
}

function refuse(status: number, code: number, message: string): McpReply {
  const body = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } });
  return { status, body, is_event_stream: false };
}
