/**
 * The service behind a student: after several failures the service is not asked for a while, and a fault of a request
 * does not count as a failure of the service.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SERVICE_FAILURES_MAX } from '../../../src/student/serving/limits.ts';
import type { ServiceStep } from '../../../src/student/serving/service-step.ts';
import { SERVICE_REST_MS, StudentService, TOO_LATE } from '../../../src/student/serving/student-service.ts';

const STEP = {
  system: '',
  messages: [{ role: 'user', content: [{ type: 'text', text: 'go' }] }],
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
const MESSAGE = JSON.stringify({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text: 'Done.' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
});

let server: Server;
let status = 200;
let asked = 0;
beforeAll(async () => {
  server = createServer((request, response) => {
    asked += 1;
    request.resume().on('end', () => {
      if (status === 0) return;
      response.writeHead(status, { 'content-type': 'application/json' }).end(MESSAGE);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

it('the service is not asked for a while after consecutive failures, and then again', async () => {
  let nowMs = 0;
  const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs };
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const service = new StudentService(
    { kind: 'http', endpoint, model: 'm', style: 'messages' },
    'key-4711',
    clock as ConstructorParameters<typeof StudentService>[2],
  );
  const ask = (signal = new AbortController().signal) =>
    service.ask(STEP, signal).then(
      () => 'answered',
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
  try {
    // A bad request, and a client that leaves, do not count against the service.
    status = 400;
    for (let at = 0; at < SERVICE_FAILURES_MAX; at++) expect(await ask()).toContain('answered 400');
    status = 0;
    for (let at = 0; at < SERVICE_FAILURES_MAX; at++) {
      const left = new AbortController();
      left.abort('left');
      expect(await ask(left.signal)).not.toContain('paused');
    }
    status = 503;
    for (let at = 0; at < SERVICE_FAILURES_MAX - 1; at++) expect(await ask()).toContain('answered 503');
    // An answer that does not arrive in time counts as well.
    const late = new AbortController();
    late.abort(TOO_LATE);
    await ask(late.signal);
    status = 200;
    const before = asked;
    expect(await ask()).toContain('paused');
    expect(asked).toBe(before);
    nowMs += SERVICE_REST_MS;
    status = 500;
    expect(await ask()).toContain('answered 500');
    status = 200;
    expect(await ask()).toContain('paused');
    nowMs += SERVICE_REST_MS;
    expect(await ask()).toBe('answered');
    expect(await ask()).toBe('answered');
  } finally {
    await service.close();
  }
});
