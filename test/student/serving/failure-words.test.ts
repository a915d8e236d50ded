/**
 * The log after the student failed on a step: it has the reason, and nothing of the request or the answer. Loopback.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import type { ServiceStep } from '../../../src/student/serving/service-step.ts';
import { StudentService } from '../../../src/student/serving/student-service.ts';
import { describeFailure } from '../../../src/threads/running-student.ts';

const STEP = {
  system: '',
  messages: [{ role: 'user', content: [{ type: 'text', text: 'a secret' }] }],
  tools: [],
  choice: null,
  max_tokens: 10,
  stops: [],
  temperature: null,
  top_p: null,
  top_k: null,
  frequency_penalty: null,
  presence_penalty: null,
  seed: null,
} satisfies ServiceStep;

async function failWith(status: number, answer: string | null): Promise<unknown> {
  const server = createServer((request, response) => {
    request.resume();
    if (answer === null) request.socket.destroy();
    else response.writeHead(status).end(answer);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const service = new StudentService(
    { kind: 'http', endpoint: `http://127.0.0.1:${port}`, model: 'm', style: 'messages' },
    'k',
  );
  try {
    return await service.ask(STEP, new AbortController().signal).then(
      () => expect.unreachable('it must fail'),
      (thrown: unknown) => describeFailure(thrown),
    );
  } finally {
    await service.close();
    server.closeAllConnections();
    server.close();
  }
}

it.each([
  [
    'a refusal',
    500,
    'a secret',
    { error: 'ServiceFailure', code: '', reason: "the student's service answered 500" },
  ],
  [
    'half an answer',
    200,
    '{}',
    { error: 'ServiceFailure', code: '', reason: "the student's service gave no whole answer" },
  ],
  ['no JSON', 200, 'a secret', { error: 'SyntaxError', code: '', reason: '' }],
  ['no answer', 0, null, { error: 'SocketError', code: 'UND_ERR_SOCKET', reason: '' }],
])('a failure is logged without content of the service: %s', async (_name, status, answer, words) => {
  expect(await failWith(status, answer)).toEqual(words);
});

it.each([null, undefined, 'a secret', 5])('a thrown %s is logged without its content', (thrown) => {
  expect(describeFailure(thrown)).toEqual({ error: 'undefined', code: '', reason: '' });
});
