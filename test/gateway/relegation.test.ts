/** Relegation over real sockets: what the student serves, and that everything else passes as without a student. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { STEP_BODY_BYTES } from '../../src/gateway/relegation/relegated-exchange.ts';
import { STEPS_UNDER_WAY } from '../../src/student/serving/limits.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush, readStats, waitForStats } from '../fixtures/capture-gateway.ts';
import { openRawClient, rawRequest } from '../fixtures/raw-client.ts';
import { headBytes, headerValue, messageBytes, splitBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import {
  type RelegatedGateway,
  STEP_HEADERS,
  serverOf,
  startRelegatedGateway,
  stepBody,
  stepBytes,
} from '../fixtures/relegated-gateway.ts';
import { INPUT_TOKENS, NONSENSE, OUTPUT_TOKENS } from '../fixtures/scripted-student.ts';

const UPSTREAM_ANSWER = Buffer.from(
  '{"id":"msg_u","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"upstream"}],' +
    '"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}',
);

let upstream: RawUpstream;
let folder: string;
let gateway: RelegatedGateway;
beforeAll(async () => {
  upstream = await startRawUpstream((connection) =>
    connection.write(
      messageBytes('HTTP/1.1 200 OK', [['Content-Type', 'application/json']], UPSTREAM_ANSWER),
    ),
  );
  folder = mkdtempSync(join(tmpdir(), 'understudy-relegation-'));
  gateway = await startRelegatedGateway({
    upstream: upstream.url,
    folder,
    prices: { 'claude-demo': { input: 3, output: 15 } },
  });
});
afterAll(async () => {
  await gateway.close();
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  await gateway.until(() => gateway.relegation.link.isReady);
  upstream.requests.length = 0;
});

const send = (bytes: Parameters<typeof rawRequest>[1]) => rawRequest(gateway.port, bytes);

/** Does something. @returns its result, and how much the counters have grown meanwhile */
async function gain<T>(act: () => Promise<T>) {
  const before = gateway.counts();
  const result = await act();
  const after = gateway.counts();
  const reasons = Object.entries(after.fallbacks).flatMap(([reason, count]) => {
    const more = count - (before.fallbacks[reason as keyof typeof before.fallbacks] ?? 0);
    return more === 0 ? [] : [[reason, more]];
  });
  return {
    result,
    served: after.served - before.served,
    fallback: after.fallback - before.fallback,
    errors: after.errors - before.errors,
    reasons: Object.fromEntries(reasons) as Record<string, number>,
  };
}

/**
 * Sends a step whose body arrives after its head. Sends it again if a stalled machine delayed the body so long that the
 * step went to the upstream.
 */
async function sendSlowly<T>(act: () => Promise<T>): Promise<T> {
  for (;;) {
    const { result, reasons } = await gain(act);
    if (reasons.slow_body === undefined) return result;
  }
}

describe('a covered step', () => {
  it('is answered as the upstream would, and the upstream receives nothing', async () => {
    const { result, served, fallback } = await gain(() => send(stepBytes(stepBody('serve this'))));
    expect({ served, fallback }).toEqual({ served: 1, fallback: 0 });
    expect(upstream.requests).toEqual([]);
    expect(result.status).toBe(200);
    expect(headerValue(result, 'content-type')).toBe('application/json');
    expect(headerValue(result, 'x-svc-served-by')).toBe('student');
    expect(headerValue(result, 'request-id')).toMatch(/^req_/);
    expect(JSON.parse(result.body.toString())).toEqual({
      id: expect.stringMatching(/^msg_/),
      type: 'message',
      role: 'assistant',
      model: 'claude-demo-large',
      content: [{ type: 'text', text: 'served: this' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: {
        input_tokens: INPUT_TOKENS,
        output_tokens: OUTPUT_TOKENS,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
      },
    });
  });

  it('arrives as one burst of events when it is streamed', async () => {
    const answer = await send(stepBytes(stepBody('call the cellar', { stream: true })));
    expect(headerValue(answer, 'content-type')).toBe('text/event-stream; charset=utf-8');
    const events = answer.body
      .toString()
      .split('\n\n')
      .filter((frame) => frame !== '')
      .map((frame) => /^event: (\w+)\ndata: (.*)$/.exec(frame)!)
      .map(([, name, data]) => ({ name, data: JSON.parse(data!) as { type: string } }));
    expect(events.map(({ name }) => name)).toEqual([
      'message_start',
      'content_block_start',
      'ping',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    for (const { name, data } of events) expect(data.type).toBe(name);
  });

  it.each(['length', 'chunked'] as const)('may arrive in pieces: %s', async (framing) => {
    const bytes = stepBytes(stepBody(`serve ${'x'.repeat(50_000)}`), [], framing);
    const answer = await sendSlowly(() => send(splitBytes(bytes, [300, 7, 20_000])));
    expect(serverOf(answer)).toBe('student');
  });

  it('may wait for 100 Continue before its body', async () => {
    const body = Buffer.from(JSON.stringify(stepBody('serve with patience')));
    const client = await openRawClient(gateway.port);
    const headers: [string, string][] = [
      ...STEP_HEADERS,
      ['Content-Length', String(body.length)],
      ['Expect', '100-continue'],
    ];
    const answer = await sendSlowly(async () => {
      await client.write(headBytes('POST /v1/messages HTTP/1.1', headers));
      await client.waitForMatch(/100 Continue\r\n\r\n$/);
      await client.write(body);
      return client.readAnswer();
    });
    expect(serverOf(answer)).toBe('student');
    client.socket.destroy();
  });

  it('leaves its connection usable for further steps and other requests', async () => {
    const client = await openRawClient(gateway.port);
    const servers: string[] = [];
    for (const task of ['serve 1', 'decline', 'serve 2', 'serve 3', 'decline', 'serve 4']) {
      await client.write(stepBytes(stepBody(task, { stream: task.endsWith('3') })));
      servers.push(serverOf(await client.readAnswer()));
    }
    expect(servers).toEqual(['student', 'upstream', 'student', 'student', 'upstream', 'student']);
    client.socket.destroy();
  });

  it('is captured like any other exchange, under the student’s name', async () => {
    await flush(gateway.url);
    const before = (await readCaptured(gateway.db)).at(-1)?.record.id ?? 0;
    const run: [string, string][] = [
      ['x-svc-run', 'captured'],
      ['x-svc-seq', '1'],
    ];
    const bytes = stepBytes(stepBody('serve and keep'), run);
    const answer = await send(bytes);
    await flush(gateway.url);
    const [kept, ...others] = await readCaptured(gateway.db, before + 1);
    expect(others).toEqual([]);
    expect(kept!.record).toMatchObject({
      served_by: 'student',
      run_id: 'captured',
      seq: 1,
      kind: 'turn',
      shape: 'messages',
      method: 'POST',
      path: '/v1/messages',
      status: 200,
      aborted: false,
      truncated: false,
      model: 'claude-demo-large',
      stop_reason: 'end_turn',
      usage: { input_tokens: INPUT_TOKENS, output_tokens: OUTPUT_TOKENS },
    });
    expect(kept!.record.first_byte_ms).toBeGreaterThan(0);
    expect(kept!.record.duration_ms).toBeGreaterThanOrEqual(kept!.record.first_byte_ms!);
    expect(kept!.request.equals(bytes.subarray(bytes.indexOf('\r\n\r\n') + 4))).toBe(true);
    expect(kept!.response.equals(answer.body)).toBe(true);
    expect(kept!.record.response.headers).toContainEqual(['x-svc-served-by', 'student']);
    expect(kept!.record.request.headers).toContainEqual(['x-api-key', '[redacted]']);
  });

  it('is counted in the stats, with its saving', async () => {
    const before = (await readStats(gateway.url)).relegation;
    await send(stepBytes(stepBody('serve once more')));
    const after = (await readStats(gateway.url)).relegation;
    expect(after).toMatchObject({ enabled: true, mode: 'on', student: 'exemplar', version: 1 });
    expect(after.tokens_saved.input - before.tokens_saved.input).toBe(INPUT_TOKENS);
    expect(after.tokens_saved.output - before.tokens_saved.output).toBe(OUTPUT_TOKENS);
    const saved = after.money_saved_usd! - before.money_saved_usd!;
    expect(saved).toBeCloseTo((INPUT_TOKENS * 3 + OUTPUT_TOKENS * 15) / 1e6, 9);
  });
});

describe('a request that the student does not serve', () => {
  const body = Buffer.from(JSON.stringify(stepBody('serve this')));
  const without = (name: string) => STEP_HEADERS.filter(([header]) => header.toLowerCase() !== name);
  const withHeader = (name: string, value: string): [string, string][] => [
    ...without(name.toLowerCase()),
    [name, value],
  ];
  const post = (headers: [string, string][], bytes: Buffer = body, path = '/v1/messages') =>
    messageBytes(`POST ${path} HTTP/1.1`, headers, bytes);
  const large = Buffer.from(JSON.stringify(stepBody(`serve ${'x'.repeat(STEP_BODY_BYTES)}`)));

  const notSteps: [string, Buffer][] = [
    ['another path', post(STEP_HEADERS, body, '/v1/messages/count_tokens')],
    ['a path before it', post(STEP_HEADERS, body, '/api/v1/messages')],
    ['a path that only decodes to it', post(STEP_HEADERS, body, '/v1/%6Dessages')],
    ['the bare name', post(STEP_HEADERS, body, '/messages')],
    ['another route', post(STEP_HEADERS, body, '/gemini/v1/messages')],
    ['another provider’s route', post(STEP_HEADERS, body, '/bedrock/us-east-1/v1/messages')],
    ['another shape', post(STEP_HEADERS, body, '/v1/chat/completions')],
    ['another method', messageBytes('PUT /v1/messages HTTP/1.1', STEP_HEADERS, body)],
  ];
  it.each(notSteps)('is not a step: %s', async (_name, bytes) => {
    const { result, fallback, served } = await gain(() => send(bytes));
    expect({ fallback, served }).toEqual({ fallback: 0, served: 0 });
    expect(result.body.equals(UPSTREAM_ANSWER)).toBe(true);
    expect(upstream.requests[0]!.body.equals(body)).toBe(true);
  });

  const refused: [string, string, Buffer, Buffer][] = [
    ['without a credential', 'no_credential', post(without('x-api-key')), body],
    ['with an empty credential', 'no_credential', post(withHeader('x-api-key', '')), body],
    ['compressed', 'encoded', post(withHeader('Content-Encoding', 'gzip'), gzipSync(body)), gzipSync(body)],
    ['of another type', 'encoded', post(withHeader('Content-Type', 'text/plain')), body],
    ['without a type', 'encoded', post(without('content-type')), body],
    ['without a version', 'bad_request', post(without('anthropic-version')), body],
    ['of an unknown version', 'unsupported', post(withHeader('anthropic-version', '2023-01-01')), body],
    ['too large', 'too_large', post(STEP_HEADERS, large), large],
    ['empty', 'bad_request', post(STEP_HEADERS, Buffer.alloc(0)), Buffer.alloc(0)],
    ['no JSON', 'bad_request', post(STEP_HEADERS, body.subarray(1)), body.subarray(1)],
    [
      'no UTF-8',
      'bad_request',
      post(STEP_HEADERS, Buffer.concat([body.subarray(0, -3), Buffer.from([0xff]), body.subarray(-3)])),
      Buffer.concat([body.subarray(0, -3), Buffer.from([0xff]), body.subarray(-3)]),
    ],
  ];
  it.each(refused)('is forwarded unchanged: %s', async (_name, reason, bytes, sent) => {
    const { result, reasons, errors } = await gain(() => send(bytes));
    expect(reasons).toEqual({ [reason]: 1 });
    expect(errors).toBe(0);
    expect(result.body.equals(UPSTREAM_ANSWER)).toBe(true);
    expect(upstream.requests[0]!.body.equals(sent)).toBe(true);
  });

  it('is forwarded unchanged: too large, in chunks', async () => {
    const { result, reasons } = await gain(() => send(stepBytes(large, [], 'chunked')));
    expect(reasons).toEqual({ too_large: 1 });
    expect(result.body.equals(UPSTREAM_ANSWER)).toBe(true);
    expect(upstream.requests[0]!.body.equals(large)).toBe(true);
    expect(headerValue(upstream.requests[0]!, 'transfer-encoding')).toBe('chunked');
  });

  it('is forwarded when the rest of its body takes long, and the rest follows', {
    tags: 'long',
  }, async () => {
    const client = await openRawClient(gateway.port);
    const bytes = stepBytes(body);
    const { reasons } = await gain(async () => {
      await client.write(bytes.subarray(0, -10));
      const { fallback } = gateway.counts();
      await gateway.until(() => gateway.counts().fallback > fallback);
      await client.write(bytes.subarray(-10));
      expect((await client.readAnswer()).body.equals(UPSTREAM_ANSWER)).toBe(true);
    });
    expect(reasons).toEqual({ slow_body: 1 });
    expect(upstream.requests[0]!.body.equals(body)).toBe(true);
    client.socket.destroy();
  });

  const failing: [string, string][] = [
    ['decline', 'too_far'],
    ['throw', 'failed'],
    ['undecided', 'failed'],
    ['nonsense no answer', 'failed'],
    ...Object.keys(NONSENSE)
      .filter((name) => name !== 'no answer')
      .map((name): [string, string] => [`nonsense ${name}`, 'invalid']),
  ];
  it.each(failing)('is forwarded without a trace in the answer: %s', async (task, reason) => {
    for (const framing of ['length', 'chunked'] as const) {
      const more: [string, string][] = [['X-Odd-Header', 'kept']];
      const sent = stepBody(task);
      const { result, reasons, errors } = await gain(() => send(stepBytes(sent, more, framing)));
      expect(reasons).toEqual({ [reason]: 1 });
      expect(errors).toBe(reason === 'failed' ? 1 : 0);
      expect(result.status).toBe(200);
      expect(result.body.equals(UPSTREAM_ANSWER)).toBe(true);
      expect(headerValue(result, 'x-svc-served-by')).toBeNull();
      const arrived = upstream.requests.at(-1)!;
      expect(arrived.body.toString()).toBe(JSON.stringify(sent));
      expect(headerValue(arrived, 'x-odd-header')).toBe('kept');
      expect(headerValue(arrived, 'x-api-key')).toBe('sk-ant-a-clients-key');
      expect(headerValue(arrived, 'transfer-encoding')).toBe(framing === 'chunked' ? 'chunked' : null);
    }
  });

  it('is forwarded if the student’s thread ends during the step; the next step is served', {
    tags: 'long',
  }, async () => {
    const { result, reasons, errors } = await gain(() =>
      Promise.all([send(stepBytes(stepBody('crash'))), send(stepBytes(stepBody('crash')))]),
    );
    for (const answer of result) expect(answer.body.equals(UPSTREAM_ANSWER)).toBe(true);
    expect((reasons.crashed ?? 0) + (reasons.loading ?? 0)).toBe(2);
    expect(errors).toBeGreaterThanOrEqual(1);
    await gateway.until(() => gateway.relegation.link.isReady);
    expect(serverOf(await send(stepBytes(stepBody('serve again'))))).toBe('student');
  });

  it('is forwarded at once if the maximum number of steps is in progress', async () => {
    const before = gateway.counts();
    const { result, served, reasons } = await gain(async () => {
      const held = send(stepBytes(stepBody('hold all')));
      const waiting = Array.from({ length: STEPS_UNDER_WAY - 1 }, (_, at) =>
        send(stepBytes(stepBody(`serve ${at}`))),
      );
      await gateway.until(() => gateway.relegation.link.isBusy);
      const more = await Promise.all(
        Array.from({ length: 6 }, (_, at) => send(stepBytes(stepBody(`serve more ${at}`)))),
      );
      // These clients have answers although the student has served nothing yet.
      expect(gateway.counts().served).toBe(before.served);
      gateway.letStudentGo('all');
      return { more, first: await Promise.all([held, ...waiting]) };
    });
    expect(result.more.map(serverOf)).toEqual(result.more.map(() => 'upstream'));
    for (const { body } of result.more) expect(body.equals(UPSTREAM_ANSWER)).toBe(true);
    expect(result.first.map(serverOf)).toEqual(result.first.map(() => 'student'));
    expect({ served, reasons }).toEqual({ served: STEPS_UNDER_WAY, reasons: { busy: 6 } });
  });
});

describe('a student that hangs', () => {
  it('does not delay the step, and is replaced', { tags: 'long' }, async () => {
    const own = mkdtempSync(join(tmpdir(), 'understudy-hanging-'));
    const hanging = await startRelegatedGateway({ upstream: upstream.url, folder: own, ping_ms: 1_000 });
    const step = (task: string) => rawRequest(hanging.port, stepBytes(stepBody(task)));
    expect((await step('hang')).body.equals(UPSTREAM_ANSWER)).toBe(true);
    expect(hanging.counts()).toMatchObject({ served: 0, fallbacks: { crashed: 1 } });
    // The timeout is so short that the next student may be replaced as well before it answers.
    let answer = await step('serve again');
    while (serverOf(answer) !== 'student') answer = await step('serve again');
    expect(JSON.parse(answer.body.toString())).toMatchObject({ content: [{ text: 'served: again' }] });
    await hanging.close();
    rmSync(own, { recursive: true, force: true });
  });
});

describe('a client that leaves', () => {
  it('leaves an aborted exchange that counts once and not as served', { tags: 'long' }, async () => {
    await flush(gateway.url);
    const before = await waitForStats(gateway.url, ({ exchanges }) => exchanges.in_flight === 0);
    const lastId = (await readCaptured(gateway.db)).at(-1)!.record.id;
    const counts = gateway.counts();
    const client = await openRawClient(gateway.port);
    await client.write(stepBytes(stepBody('hold the left'), [['x-svc-run', 'left']]));
    await waitForStats(gateway.url, ({ exchanges }) => exchanges.in_flight === 1);
    client.socket.destroy();
    const after = await waitForStats(
      gateway.url,
      ({ exchanges }) => exchanges.captured === before.exchanges.captured + 1,
    );
    expect(after.exchanges).toMatchObject({
      attempted: before.exchanges.attempted + 1,
      dropped: before.exchanges.dropped,
      in_flight: 0,
      aborted: before.exchanges.aborted + 1,
    });
    expect(gateway.counts()).toEqual(counts);
    // The next step arrives after the student's answer to the client that left.
    const { result, served, fallback } = await gain(() => {
      gateway.letStudentGo('the left');
      return send(stepBytes(stepBody('serve the next')));
    });
    expect(serverOf(result)).toBe('student');
    expect({ served, fallback }).toEqual({ served: 1, fallback: 0 });
    expect(upstream.requests).toEqual([]);
    await flush(gateway.url);
    const [kept] = await readCaptured(gateway.db, lastId + 1);
    expect(kept!.record).toMatchObject({ run_id: 'left', aborted: true, status: 0 });
    expect(kept!.request.toString()).toBe(JSON.stringify(stepBody('hold the left')));
  });
});
