/** A model provider over a real socket, which answers with the last message of the request. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Asked {
  messages: { content: string }[];
}

interface ModelProvider extends AsyncDisposable {
  url: string;
  /** Names of the headers of each request. */
  heads: string[][];
}

export async function startProvider(): Promise<ModelProvider> {
  const heads: string[][] = [];
  const server = createServer(async (request, response) => {
    heads.push(Object.keys(request.headers));
    const { messages } = JSON.parse((await request.toArray()).join('')) as Asked;
    const message = {
      id: `msg_${heads.length}`,
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [{ type: 'text', text: messages.at(-1)!.content }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 3, output_tokens: 2 },
    };
    response.setHeader('content-type', 'application/json').end(JSON.stringify(message));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    heads,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
