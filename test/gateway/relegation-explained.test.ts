/**
 * Relegation's decision is stored with the exchange, and can be explained afterwards. Over real sockets, with a taught
 * student, capture files and the command line.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeGoldenSteps, makeOrder, OrderRun } from '../../bench/order-agent.ts';
import { runInspect } from '../../src/cli/inspect.ts';
import { runRelegation } from '../../src/cli/relegation.ts';
import { DECISION_FIELD } from '../../src/domain/exchange.ts';
import { createPrng } from '../../src/std/prng.ts';
import type { StepExplanation } from '../../src/teaching/step-explanation.ts';
import { fitStudent } from '../../src/teaching/student-fit.ts';
import { captureExchanges } from '../fixtures/basket-agent.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush } from '../fixtures/capture-gateway.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import {
  type RelegatedGateway,
  type RelegatedGatewayOptions,
  STEP_HEADERS,
  startRelegatedGateway,
  stepBody,
  stepBytes,
} from '../fixtures/relegated-gateway.ts';
import { makeExchange } from '../storage/captured.ts';

const SECRET = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789';

let upstream: RawUpstream;
let content: object[] = [];
beforeAll(async () => {
  upstream = await startRawUpstream((connection) =>
    connection.write(
      messageBytes(
        'HTTP/1.1 200 OK',
        [
          ['Content-Type', 'application/json'],
          ['x-relegation', 'not ours'],
        ],
        Buffer.from(
          JSON.stringify({
            id: 'msg_u',
            type: 'message',
            role: 'assistant',
            model: 'm',
            content,
            stop_reason: content.some((block) => (block as { type: string }).type === 'tool_use')
              ? 'tool_use'
              : 'end_turn',
            stop_sequence: null,
            usage: { input_tokens: 1, output_tokens: 1 },
          }),
        ),
      ),
    ),
  );
});
afterAll(() => upstream.close());

let gateway: RelegatedGateway | null = null;
let folder = '';
afterEach(async () => {
  await gateway?.close();
  gateway = null;
  rmSync(folder, { recursive: true, force: true });
});
const start = async (options: Partial<RelegatedGatewayOptions>) => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-explained-'));
  gateway = await startRelegatedGateway({ upstream: upstream.url, folder, ...options });
  return gateway;
};
const send = (body: object, run: string, seq: number) =>
  rawRequest(
    gateway!.port,
    stepBytes(body, [
      ['x-svc-run', run],
      ['x-svc-seq', String(seq)],
    ]),
  );
const captured = async (count: number) => {
  // In shadow mode, an exchange is stored once the student has answered, too.
  await expect
    .poll(
      async () => {
        await flush(gateway!.url);
        return (await readCaptured(gateway!.db)).length;
      },
      { timeout: 20_000 },
    )
    .toBe(count);
  return readCaptured(gateway!.db);
};
async function ask(run: (io: Parameters<typeof runInspect>[1]) => Promise<number>) {
  let out = '';
  let err = '';
  const status = await run({
    out: async (data) => {
      out += Buffer.from(data as Uint8Array).toString();
    },
    err: (text) => {
      err += text;
    },
    is_terminal: false,
    has_color: false,
  });
  return { status, out, err };
}

describe('shadow mode', () => {
  it('stores each decision with its exchange, and shows where the upstream answered differently', {
    tags: 'long',
  }, async () => {
    await start({ mode: 'shadow', scripted: false });
    const order = makeOrder(createPrng(3), 'shipped');
    const run = new OrderRun(order);
    content = [{ type: 'tool_use', id: 'toolu_1', name: 'get_order', input: { order_id: 'ORD-000000' } }];
    await send(run.body(), 'run-shadow', 1);
    content = [{ type: 'text', text: 'I know nothing of that.' }];
    await send({ ...run.body(), system: 'Another agent.' }, 'run-shadow', 2);
    const [first, second] = (await captured(2)).map(({ record }) => record);
    expect(first!.relegation).toMatchObject({
      decision: 'would_serve',
      student_version: 1,
      kind: 'get_order',
      answer: [{ type: 'tool_call', name: 'get_order', input: { order_id: order.order_id } }],
    });
    expect(first!.relegation!.score).toBeLessThan(0.5);
    expect(first!.relegation!.agent).not.toBe('');
    expect(second!.relegation).toMatchObject({ decision: 'unknown_agent', student_version: 1, answer: null });
    // The answer on the wire is stored unchanged, and nothing else.
    expect(first!.response.headers.map(([name]) => name.toLowerCase())).toEqual([
      'content-type',
      'x-relegation',
      'content-length',
    ]);

    const shown = await ask((io) => runInspect(['--db', gateway!.db, '--run', 'run-shadow'], io));
    expect(shown.status).toBe(0);
    expect(shown.out).toContain('the student and the upstream disagree');
    expect(shown.out).toContain(`student   ${order.order_id}`);
    expect(shown.out).toContain('upstream  ORD-000000');
    expect(shown.out).toContain('unknown_agent');

    const json = await ask((io) =>
      runRelegation(['explain', '1', '--db', gateway!.db, '--dir', gateway!.directory, '--json'], io),
    );
    expect(json).toMatchObject({ status: 0, err: '' });
    const explained = JSON.parse(json.out) as StepExplanation;
    expect(explained).toMatchObject({
      exchange_id: 1,
      run_id: 'run-shadow',
      recorded: { decision: 'would_serve' },
      opinion: { version: 1, decision: 'covered', kind: 'get_order' },
      comparison: { agree: false },
    });
    expect(explained.comparison!.values[0]).toEqual({
      place: 'call 1.order_id',
      student: order.order_id,
      upstream: 'ORD-000000',
    });
    expect(explained.opinion!.score).toBeCloseTo(first!.relegation!.score!, 3);
    expect(explained.opinion!.nearest!.answers[0]!.kind).toBe('get_order');
  });

  it('masks the student’s answer like a body', { tags: 'long' }, async () => {
    await start({ mode: 'shadow' });
    content = [{ type: 'text', text: 'served: nothing' }];
    await send(stepBody(`serve the key ${SECRET} again`), 'run-secret', 1);
    const [only] = (await captured(1)).map(({ record }) => record);
    expect(only!.relegation).toMatchObject({ decision: 'would_serve' });
    expect(JSON.stringify(only)).not.toContain(SECRET.slice(0, 30));
  });

  it('stores why the student was not asked', { tags: 'long' }, async () => {
    await start({ mode: 'shadow', client_keys: [] });
    content = [{ type: 'text', text: 'a' }];
    await send(stepBody('serve this'), 'run-stranger', 1);
    const [only] = (await captured(1)).map(({ record }) => record);
    expect(only!.relegation).toEqual({
      decision: 'unknown_credential',
      student_version: null,
      agent: null,
      kind: null,
      score: null,
      answer: null,
    });
  });
});

describe('the explanation of a refusal', () => {
  it('names the rule, the nearest golden step, and what is new in this one', {
    tags: 'long',
  }, async () => {
    await start({ scripted: false });
    const order = makeOrder(createPrng(5), 'open');
    const run = new OrderRun(order);
    content = [{ type: 'text', text: 'a' }];
    expect((await send(run.body(), 'run-new', 1)).status).toBe(200);
    run.take([{ type: 'tool_use', id: 'toolu_1', name: 'get_order', input: { order_id: order.order_id } }]);
    const body = run.body();
    const last = body.messages.at(-1)!.content as unknown as { content: string }[];
    last[0]!.content = JSON.stringify({ ...JSON.parse(last[0]!.content), status: 'frozen by a court' });
    await send(body, 'run-new', 2);
    const [served, refused] = (await captured(2)).map(({ record }) => record);
    expect(served).toMatchObject({ served_by: 'student', relegation: { decision: 'served' } });
    expect(refused).toMatchObject({ served_by: 'upstream', relegation: { decision: 'too_far' } });
    const page = await ask((io) =>
      runInspect(['--db', gateway!.db, '--step', '2', '--student', gateway!.directory], io),
    );
    expect(page).toMatchObject({ status: 0, err: '' });
    expect(page.out).toMatch(
      /^ *decided +The upstream served it: no golden step is near enough.* \(too_far, version 1, score /m,
    );
    expect(page.out).toContain('is above the threshold');
    expect(page.out).toContain(
      'The step would be served after a round with golden runs that have the same value at result:get_order.status.',
    );
    expect(page.out).toContain('result:get_order.status: frozen by a court');
    expect(page.out).toMatch(/nearest .*golden step/);
  });

  it('names the sentence of the prompt that changed', { tags: 'long' }, async () => {
    await start({ scripted: false });
    content = [{ type: 'text', text: 'a' }];
    const run = new OrderRun(
      makeOrder(createPrng(5), 'open'),
      false,
      undefined,
      ' Never say where a parcel is.',
    );
    await send(run.body(), 'run-prompt', 1);
    await captured(1);
    const page = await ask((io) =>
      runRelegation(['explain', '1', '--db', gateway!.db, '--dir', gateway!.directory], io),
    );
    expect(page.status).toBe(0);
    expect(page.out).toContain('the system prompt differs from golden runs');
    expect(page.out).toContain('Never say where a parcel is');
  });

  it('names a value that was the same in all golden runs', { tags: 'long' }, async () => {
    const rule = (limit: number) => ` Parcels above ${limit} EUR are insured.`;
    await start({ scripted: false, model: fitStudent(makeGoldenSteps(12, 7, rule(200))) });
    content = [{ type: 'text', text: 'a' }];
    const ask200 = new OrderRun(makeOrder(createPrng(5), 'open'), false, undefined, rule(200));
    const ask500 = new OrderRun(makeOrder(createPrng(6), 'open'), false, undefined, rule(500));
    await send(ask200.body(), 'run-known', 1);
    await send(ask500.body(), 'run-other', 1);
    const [known, other] = (await captured(2)).map(({ record }) => record);
    expect(known).toMatchObject({ served_by: 'student', relegation: { decision: 'served' } });
    expect(other).toMatchObject({ served_by: 'upstream', relegation: { decision: 'other_value' } });
    expect(gateway!.counts().fallbacks.other_value).toBe(1);
    const page = await ask((io) =>
      runRelegation(['explain', '2', '--db', gateway!.db, '--dir', gateway!.directory], io),
    );
    expect(page.status).toBe(0);
    expect(page.out).toContain('another value where all golden runs had the same one');
    expect(page.out).toContain(
      '500 (all golden runs had another value) in: Parcels above 500 EUR are insured',
    );
    expect(page.out).not.toContain('ORD-');
  });

  it('names the variable that switched a wire off', { tags: 'long' }, async () => {
    await start({});
    const body = Buffer.from('{"model":"m","messages":[{"role":"user","content":"serve this"}]}');
    content = [{ type: 'text', text: 'a' }];
    await rawRequest(gateway!.port, messageBytes('POST /v1/chat/completions HTTP/1.1', STEP_HEADERS, body));
    const [only] = (await captured(1)).map(({ record }) => record);
    expect(only!.relegation).toBeUndefined();
    const page = await ask((io) =>
      runRelegation(['explain', '1', '--db', gateway!.db, '--dir', gateway!.directory], io),
    );
    expect(page).toMatchObject({ status: 0, err: '' });
    expect(page.out).toContain(
      'No student was asked: GW_RELEGATION_WIRES (messages) leaves chat_completions out',
    );
  });

  it('is not available for missing exchanges, and wrong use gets a clear error', {
    tags: 'long',
  }, async () => {
    await start({ scripted: false });
    content = [{ type: 'text', text: 'a' }];
    await send(stepBody('a'), 'run', 1);
    await captured(1);
    const missing = await ask((io) => runRelegation(['explain', '99', '--db', gateway!.db], io));
    expect(missing).toMatchObject({ status: 1 });
    expect(missing.err).toContain('has no exchange 99');
    const nowhere = await ask((io) =>
      runRelegation(['explain', '1', '--db', gateway!.db, '--dir', join(folder, 'nowhere')], io),
    );
    expect(nowhere).toMatchObject({ status: 1 });
    await expect(ask((io) => runRelegation(['tell', '1'], io))).rejects.toThrow('explain EXCHANGE');
    await expect(ask((io) => runRelegation(['explain', 'x'], io))).rejects.toThrow('--step takes a number');
    await expect(ask((io) => runRelegation(['explain'], io))).rejects.toThrow('number of one exchange');
  });
});

describe('ids that a double cannot hold exactly', () => {
  /** An audited step: the student's call, from the stored decision, beside the upstream's call. */
  const audited = (student: string, upstreams: string) => {
    const decision = `{"decision":"audit","student_version":1,"agent":"a1","kind":"look","score":0.1,"answer":[{"type":"tool_call","id":"","name":"look","input":{"id":${student}}}]}`;
    const call = `{"type":"tool_use","id":"toolu_1","name":"look","input":{"id":${upstreams}}}`;
    return makeExchange({
      run_id: 'run-ids',
      request_body: Buffer.from('{"model":"m","messages":[{"role":"user","content":"Look."}]}'),
      response_headers: ['content-type', 'application/json', DECISION_FIELD, decision],
      response_body: Buffer.from(
        `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[${call}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`,
      ),
    });
  };
  const [ID, NEXT] = ['2512292042121000001', '2512292042121000002'];

  it('are compared and shown digit by digit', async () => {
    folder = mkdtempSync(join(tmpdir(), 'understudy-explained-'));
    const db = join(folder, 'capture.mdb');
    await captureExchanges(db, [audited(ID, ID), audited(ID, NEXT), audited('1.0', '1')]);
    const explain = async (exchange: string) => {
      const json = await ask((io) => runRelegation(['explain', exchange, '--db', db, '--json'], io));
      expect(json).toMatchObject({ status: 0, err: '' });
      return { json: json.out, comparison: (JSON.parse(json.out) as StepExplanation).comparison! };
    };
    const same = await explain('1');
    expect(same.json).toContain(`"id": ${ID}`);
    expect(same.comparison.agree).toBe(true);
    expect((await explain('3')).comparison.agree).toBe(true);
    const other = await explain('2');
    expect(other.comparison.agree).toBe(false);
    expect(other.comparison.values[0]).toEqual({ place: 'call 1.id', student: ID, upstream: NEXT });
    const page = await ask((io) => runRelegation(['explain', '2', '--db', db], io));
    expect(page.out).toContain(`student   ${ID}`);
    expect(page.out).toContain(`upstream  ${NEXT}`);
    const [record] = (await readCaptured(db)).map(({ record: exchangeRecord }) => exchangeRecord);
    expect(JSON.stringify(record!.relegation)).toContain(`{"id":${ID}}`);
  });
});
