/**
 * The provider of the tutorial as a process: it answers the tutorial's agent, and keeps running after requests of other
 * kinds.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';

const PROVIDER = fileURLToPath(new URL('../../examples/tutorial/provider.ts', import.meta.url));

it('the provider continues after requests that its agent does not send', async () => {
  const child = spawn(process.execPath, [PROVIDER, '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  onTestFinished(async () => {
    child.kill();
    await ended;
  });
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  const [url = '', port] = /http:\/\/127\.0\.0\.1:(\d+)/.exec(said.toString())!;
  const ask = async (body?: string) => {
    const answer = await fetch(`${url}/v1/messages`, { method: 'POST', body: body ?? null });
    return { status: answer.status, body: await answer.json() };
  };
  const refusal = { status: 400, body: { type: 'error', error: { type: 'invalid_request_error' } } };
  expect(await ask()).toMatchObject(refusal);
  for (const body of ['no JSON', '{}', '[]', 'null', '{"messages":[]}', '{"messages":[null]}'])
    expect(await ask(body)).toMatchObject(refusal);
  const tool = { role: 'user', content: [{ type: 'tool_result', content: 'no JSON' }] };
  expect(await ask(JSON.stringify({ messages: [{ content: 'x' }, tool] }))).toMatchObject(refusal);
  expect((await fetch(url)).status).toBe(400);
  const gone = connect(Number(port), '127.0.0.1');
  gone.end('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{');
  await once(gone.resume(), 'close');
  const good = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Where is ORD-1?' }] });
  expect(await ask(good)).toMatchObject({
    status: 200,
    body: { content: [{ type: 'tool_use', name: 'get_order', input: { order_id: 'ORD-1' } }] },
  });
});
