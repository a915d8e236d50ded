/**
 * Stands in for the model provider in docs/tutorial.md, without a key or a network. It answers the tutorial's agent as
 * a model would. `node examples/tutorial/provider.mjs [PORT]`
 */
import { createServer } from 'node:http';

interface Block {
  type: string;
  text?: string;
  id?: string;
  name?: string;
  input?: object;
  content?: string;
}

/** The model's answer for the ticket and the last tool's result. */
function answer(ticket: string, result: string | undefined): Block {
  const call = (name: string, input: object): Block => ({
    type: 'tool_use',
    id: newId('toolu'),
    name,
    input,
  });
  if (result === undefined) return call('get_order', { order_id: /ORD-\d+/.exec(ticket)?.[0] ?? 'unknown' });
  const { parcel_id, city, sku, stock } = JSON.parse(result) as Record<string, string | number>;
  if (city !== undefined) return { type: 'text', text: `The parcel ${parcel_id} was last seen in ${city}.` };
  if (stock !== undefined) return { type: 'text', text: `We have ${stock} of ${sku}; yours ships tomorrow.` };
  return parcel_id === undefined ? call('check_stock', { sku }) : call('track_parcel', { parcel_id });
}

const newId = (kind: string) => `${kind}_${crypto.randomUUID().replaceAll('-', '').slice(0, 24)}`;

/** @throws for a request that the tutorial's agent does not send */
function reply(text: string): object {
  const { model, messages } = JSON.parse(text) as {
    model: string;
    messages: { content: string | Block[] }[];
  };
  const [first, last] = [messages[0]!.content, messages.at(-1)!.content];
  const said = typeof last === 'string' ? undefined : last[0]?.content;
  const block = answer(typeof first === 'string' ? first : '', said);
  return {
    id: newId('msg'),
    type: 'message',
    role: 'assistant',
    model,
    content: [block],
    stop_reason: block.type === 'text' ? 'end_turn' : 'tool_use',
    stop_sequence: null,
    usage: { input_tokens: Math.ceil(text.length / 4), output_tokens: 40 },
  };
}

const server = createServer(async (request, response) => {
  response.setHeader('content-type', 'application/json');
  let text = '';
  try {
    for await (const part of request.setEncoding('utf8')) text += part;
    response.end(JSON.stringify(reply(text)));
  } catch {
    // A health check or an aborted request; the server continues.
    const message = "the stand-in knows only the requests of the tutorial's agent";
    response.statusCode = 400;
    response.end(JSON.stringify({ type: 'error', error: { type: 'invalid_request_error', message } }));
  }
});
server.listen(Number(process.argv[2] ?? 9000), '127.0.0.1', () => {
  const { port } = server.address() as { port: number };
  console.log(`The stand-in for a provider listens on http://127.0.0.1:${port}`);
});
