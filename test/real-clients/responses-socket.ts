/**
 * The Responses protocol over WebSocket in front of a scripted provider: each `response.create` becomes an HTTP request
 * with the whole conversation that it continues, and the events of the answer are sent back as messages. Plain HTTP
 * passes through. Test thread.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';

export interface ResponsesSocket {
  /** `http://127.0.0.1:PORT`. */
  url: string;
  /** Requests that arrived over WebSocket. */
  asked: Record<string, unknown>[];
  /** Paths of plain requests. */
  paths: string[];
  close(): Promise<void>;
}

export async function startResponsesSocket(provider: string): Promise<ResponsesSocket> {
  const asked: Record<string, unknown>[] = [];
  const paths: string[] = [];
  /** For the id of each answer, the conversation up to that answer. A real provider keeps it for each connection. */
  const kept = new Map<string, unknown[]>();
  const http = createServer((request, response) => {
    paths.push(request.url!);
    void passOn(request, response, provider);
  });
  const sockets = new WebSocketServer({ noServer: true });
  http.on('upgrade', (request, socket, head) =>
    sockets.handleUpgrade(request, socket, head, (accepted) => {
      const credential = String(request.headers.authorization);
      // Handled one after the other, in order of arrival.
      let last = Promise.resolve();
      accepted.on('message', (data) => {
        const event = JSON.parse(String(data)) as Record<string, unknown>;
        asked.push(event);
        last = last.then(() => answer(accepted, event, credential, provider, kept));
      });
    }),
  );
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    asked,
    paths,
    close: async () => {
      for (const socket of sockets.clients) socket.terminate();
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    },
  };
}

async function passOn(request: IncomingMessage, response: ServerResponse, provider: string): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headers))
    if (!['host', 'connection', 'content-length', 'transfer-encoding'].includes(name))
      headers[name] = String(value);
  const reply = await fetch(provider + request.url, {
    method: request.method!,
    headers,
    ...(chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}),
  });
  response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? 'text/plain' });
  response.end(Buffer.from(await reply.arrayBuffer()));
}

async function answer(
  socket: WebSocket,
  { type, previous_response_id, ...body }: Record<string, unknown>,
  authorization: string,
  provider: string,
  kept: Map<string, unknown[]>,
): Promise<void> {
  if (type !== 'response.create') return;
  const send = (event: object): void => socket.send(JSON.stringify(event));
  if (body.generate === false) {
    // Codex first sends a warm-up request. It gets an empty answer, and the next request continues from that answer.
    const id = `resp_warm_${kept.size}`;
    const response = { id, object: 'response', status: 'completed', model: body.model, output: [] };
    kept.set(id, body.input as unknown[]);
    send({ type: 'response.created', response: { ...response, status: 'in_progress' } });
    const usage = { input_tokens: 1, output_tokens: 0, total_tokens: 1 };
    send({ type: 'response.completed', response: { ...response, usage } });
    return;
  }
  const input = [...(kept.get(String(previous_response_id)) ?? []), ...(body.input as unknown[])];
  const reply = await fetch(`${provider}/v1/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization },
    body: JSON.stringify({ ...body, input, stream: true }),
  });
  for (const line of (await reply.text()).split('\n')) {
    if (!line.startsWith('data: {')) continue;
    const event = JSON.parse(line.slice(6)) as { type: string; response?: { id: string; output: unknown[] } };
    if (event.type === 'response.completed')
      kept.set(event.response!.id, [...input, ...event.response!.output]);
    send(event);
  }
}
