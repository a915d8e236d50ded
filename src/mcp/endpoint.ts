/**
 * The Model Context Protocol over HTTP, without sessions: a new server object answers each message. The HTTP pipeline
 * has already checked the credential and the rate. Server threads. They load this file at the first message, because
 * most services get no messages.
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

/** Headers that have a meaning in the protocol. */
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
  /** Whether the body is the complete sequence of server-sent events; otherwise it is JSON. */
  is_event_stream: boolean;
}

/**
 * Answers one message. The answer reports a mistake of the sender; the promise does not reject for it.
 * @param makeServer called at most once
 */
export async function answerMcp(
  { headers, message }: McpRequest,
  makeServer: () => McpServer,
): Promise<McpReply> {
  // A batch would have many calls but count as one request. Version 2025-06-18 of the protocol removed batches.
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
    // The text can be read to its end, because without subscriptions every answer ends.
    body: blameSender(await reply.text()),
  };
}

const BOTH_TYPES = 'application/json, text/event-stream';

/**
 * The protocol requires that `Accept` names JSON and event streams, and the library refuses other requests. All answers
 * are JSON, so this adds the missing type for a client that names JSON or `*`, or that sends no `Accept`.
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
 * Answers clients of versions up to 2025-11-25. Such clients begin with a handshake, but a message without a handshake
 * is answered, too. Answers are JSON, not events.
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

/**
 * Turns an internal error of the library into an error of the sender, if the library's schemas refused `params`. The
 * library reports such a refusal as an internal error whose message lists the faults.
 */
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
