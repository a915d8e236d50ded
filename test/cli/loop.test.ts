/**
 * `understudy loop` and `distill`: failures, rounds at an interval, and a cheaper model. The databases are made without
 * a gateway. One command of each kind runs as a separate process.
 */
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeOrder, OrderRun, orderScript, TOOLS } from '../../bench/order-agent.ts';
import type { CliIo } from '../../src/cli/io.ts';
import { UsageError } from '../../src/cli/io.ts';
import { type RoundEnd, runLoop } from '../../src/cli/loop.ts';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { ScriptRequest } from '../../src/demo/script.ts';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createPrng } from '../../src/std/prng.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { readStudentManifest } from '../../src/student/directory.ts';
import { readOrders } from '../../src/student/orders.ts';
import type { RoundJson } from '../../src/teaching/round-json.ts';
import { basketExchanges, captureExchanges, messagesExchange } from '../fixtures/basket-agent.ts';
import { CliChild, omitProgress, type RunCommand, runCli } from './child.ts';
import { runHere } from './here.ts';

let folder = '';
let db = '';
let env: Record<string, string>;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'loop-'));
  db = join(folder, 'capture.mdb');
  env = { DATA_DIR: join(folder, 'data') };
  await captureOrders(db, 0, 60);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/**
 * Runs of the order agent as a gateway would have captured them, in one batch, so that a concurrent reader finds all or
 * none.
 */
async function captureOrders(
  path: string,
  from: number,
  to: number,
  change: (body: object) => object = (body) => body,
): Promise<void> {
  const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange });
  const exchanges: CapturedExchange[] = [];
  for (let at = from; at < to; at += 1) {
    const run = new OrderRun(makeOrder(createPrng(at + 1), at % 2 === 0 ? 'shipped' : 'open'));
    for (let seq = 1, isOver = false; !isOver; seq += 1) {
      const body = run.body();
      const content = answer(body.messages, `toolu_${at}_${seq}`);
      exchanges.push(messagesExchange(`run-${at}`, seq, change(body), content));
      isOver = run.take(content);
    }
  }
  await log.append(exchanges);
  await log.close();
}

function answer(messages: OrderRun['messages'], id: string): Parameters<OrderRun['take']>[0] {
  const last = messages.at(-1)!.content;
  const results =
    typeof last === 'string'
      ? []
      : last.flatMap((block) => (block.type === 'tool_result' ? [block.content] : []));
  const text = typeof last === 'string' ? last : '';
  const { text: said, tool_calls: calls = [] } = orderScript({
    text,
    tool_results: results,
  } as ScriptRequest);
  return [
    ...(said === undefined ? [] : [{ type: 'text' as const, text: said }]),
    ...calls.map((call, at) => ({ type: 'tool_use' as const, id: `${id}_${at}`, ...call })),
  ];
}

/** Expects one line on standard error, exit status 1, and nothing on standard output. */
async function expectRefusal(argv: string[], words: string, run: RunCommand = runHere): Promise<void> {
  const { code, stdout, stderr } = await run(argv, env);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^understudy: [^\n]+\n$/);
  expect(stderr).toContain(words);
}

describe('an input or output that cannot be used', () => {
  it('is reported in one line, and nothing is left behind', { tags: 'long' }, async () => {
    const out = join(folder, 'refused');
    await expectRefusal(
      ['distill', '--db', join(folder, 'none.mdb'), '--out', out],
      'no such capture database',
      runCli,
    );
    writeFileSync(join(folder, 'text.mdb'), 'not a database '.repeat(2_000));
    await expectRefusal(
      ['distill', '--db', join(folder, 'text.mdb'), '--out', out],
      'text.mdb: not a capture database',
    );
    const cut = join(folder, 'cut.mdb');
    writeFileSync(cut, readFileSync(db));
    truncateSync(cut, 40_000);
    await expectRefusal(['loop', '--once', '--db', cut, '--out', out], 'cut.mdb: cut off');
    expect(existsSync(out)).toBe(false);
  });

  it('is refused and unchanged if it is a directory with other content', { tags: 'long' }, async () => {
    const full = join(folder, 'full');
    mkdirSync(full);
    writeFileSync(join(full, 'thesis.txt'), 'mine');
    await expectRefusal(['distill', '--db', db, '--out', full], 'not empty ("thesis.txt")');
    await expectRefusal(['loop', '--once', '--db', db, '--out', join(full, 'thesis.txt')], 'not a directory');
    expect(readdirSync(full)).toEqual(['thesis.txt']);
    const odd = join(folder, 'odd');
    mkdirSync(odd);
    writeFileSync(join(odd, 'manifest.json'), '{"format":"svc_student_v9"}');
    await expectRefusal(['loop', '--once', '--db', db, '--out', odd], 'has the format svc_student_v9');
  });
});

describe('a round', () => {
  it('counts no answer as served that the gateway would decline', { tags: 'long' }, async () => {
    const strict = join(folder, 'strict.mdb');
    // The upstream's model violated one schema. The gateway declines every answer that violates a schema.
    await captureOrders(strict, 0, 60, (body) => ({
      ...body,
      tools: TOOLS.map((tool) => ({
        ...tool,
        input_schema: {
          ...tool.input_schema,
          properties: { ...tool.input_schema.properties, order_id: { type: 'integer' } },
        },
      })),
    }));
    const measure = async (from: string) => {
      const { code, stdout } = await runHere(
        ['distill', '--json', '--db', from, '--out', `${from}.student`],
        env,
      );
      expect(code).toBe(0);
      return (JSON.parse(stdout) as Round).student;
    };
    const fit = await measure(db);
    const unfit = await measure(strict);
    expect(fit.measured.uncovered.invalid ?? 0).toBe(0);
    expect(fit.by_answer.find(({ kind }) => kind === 'get_order')!.served).toBeGreaterThan(5);
    expect(unfit.measured.uncovered.invalid).toBeGreaterThan(5);
    expect(unfit.by_answer.find(({ kind }) => kind === 'get_order')!.served).toBe(0);
  });
});

interface Round {
  student: {
    measured: { uncovered: Record<string, number> };
    by_answer: { kind: string; served: number }[];
  };
}

describe('wrong use', () => {
  it.each([
    [[], 'name the folder of the student: --out DIR'],
    [['--out', 'x', '--target-error', '0'], '--target-error takes a number from 0.001 to 0.5'],
    [['--out', 'x', '--target-error', '5%'], '--target-error takes a number from 0.001 to 0.5'],
    [['--out', 'x', '--min-served', '-1'], '--min-served'],
    [['--out', 'x', '--final-cost', '0.5'], '--final-cost takes a number from 1 to 100'],
    [['--out', 'x', '--never-serve', 'book,'], '--never-serve'],
    [['--out', 'x', '--never-serve', 'b'.repeat(129)], '--never-serve'],
    [['--out', 'x', '--since', 'lately'], '--since takes 90m, 12h, 7d or a time'],
    [['--out', 'x', '--tier', 'e4'], '--tier takes one of e1, e2, e3'],
    [['--out', 'x', '--student', 'oracle'], '--student takes exemplar or http'],
    [['--out', 'x', '--student', 'http'], '--student http requires --endpoint URL and --model NAME'],
    [['--out', 'x', '--model', 'm'], '--endpoint, --model and --style require --student http'],
    [['--out', 'x', '--student', 'http', '--model', 'm', '--endpoint', 'http://me:pw@a'], '--endpoint takes'],
    [['--out', 'x', '--once', '--every', '1h'], '--once and --every cannot be combined'],
    [['--out', 'x', '--every', '0s'], '--every takes a time'],
    [['--out', 'x', '--every', 'often'], '--every takes a time'],
    [['--out', 'x', 'more'], 'more belongs to no option'],
  ])('%j is refused with the reason', async (argv, words) => {
    const io: CliIo = { out: async () => {}, err: () => {}, is_terminal: false, has_color: false };
    const failure = await runLoop(argv, io).catch((error: Error) => error);
    expect(failure).toBeInstanceOf(UsageError);
    expect((failure as Error).message).toContain(words);
    expect((failure as Error).message).not.toContain('pw');
  });
});

describe('loop at an interval', () => {
  it('continues after a failed round, prints one line a round, and ends on request', {
    tags: 'long',
  }, async () => {
    const ends: RoundEnd[] = [
      { status: 1, out: '', error: 'capture.mdb: cut off' },
      { status: null, out: '', error: '' },
      { status: 0, out: 'not JSON', error: '' },
      {
        status: 0,
        out: JSON.stringify({
          outcome: 'published',
          version: 3,
          golden: 5,
          looked_at: 6,
          read: 2,
          student: null,
        }),
        error: '',
      },
    ];
    const stop = new AbortController();
    const lines: string[] = [];
    const seen: string[][] = [];
    const io: CliIo = {
      out: async (data) => {
        lines.push(String(data));
        if (ends.length === 0) stop.abort();
      },
      err: () => {},
      is_terminal: false,
      has_color: false,
    };
    const status = await runLoop(['--out', 'x', '--every', '1s', '--db', 'y'], io, {
      stop: stop.signal,
      startRound: async (argv) => {
        seen.push(argv);
        return ends.shift()!;
      },
    });
    expect(status).toBe(0);
    expect(lines.map((line) => line.replace(/^\S+ /, ''))).toEqual([
      'failed: capture.mdb: cut off\n',
      'failed: the process of the round ended by a signal\n',
      'failed: the process of the round ended with status 0, without a report\n',
      'published version 3 (5 golden of 6 runs, 2 read)\n',
    ]);
    expect(seen).toEqual(Array(4).fill(['--out', 'x', '--db', 'y', '--once', '--json']));
  });

  it('publishes, uses new captures in later rounds, and ends on SIGTERM', {
    tags: 'long',
  }, async () => {
    const out = join(folder, 'kept-up');
    const own = join(folder, 'growing.mdb');
    await captureOrders(own, 0, 40);
    await using child = new CliChild(['loop', '--db', own, '--out', out, '--every', '1s'], { env });
    await child.waitForOutput(/published version 1 \(40 golden of 40 runs, 40 read, \d+ of \d+ steps/);
    await child.waitForOutput(/kept version 1: nothing new since version 1/);
    await captureOrders(own, 40, 44);
    await child.waitForOutput(/44 golden of 44 runs, 4 read/);
    child.process.kill('SIGTERM');
    expect(await child.ended).toMatchObject({ code: 0, signal: null, stderr: '' });
  });
});

describe('a round after one that could not publish', () => {
  it('teaches again only if something that decides has changed', { tags: 'long' }, async () => {
    const out = join(folder, 'not-good');
    const round = async (least: number): Promise<RoundJson> => {
      const argv = ['loop', '--once', '--json', '--db', db, '--out', out, '--min-served', `${least}`];
      const { code, stdout } = await runHere(argv, env);
      expect(code).toBe(0);
      return JSON.parse(stdout) as RoundJson;
    };
    // The student does not serve all held-out steps of these runs.
    const all = Number(/^the held-out runs have (\d+) steps/.exec((await round(10_000)).reason)![1]);
    const first = await round(all);
    expect(first).toMatchObject({ outcome: 'nothing', student: { ended_after: 'measurement' } });
    const reason = `nothing new since the last round, which published nothing: ${first.reason}`;
    expect(await round(all)).toMatchObject({ outcome: 'nothing', reason, student: null, version: null });
    expect(await round(12)).toMatchObject({ outcome: 'published', version: 1 });
  });
});

describe('a database that was recreated at the same path', () => {
  it('is read again, although its runs have the same names and times', { tags: 'long' }, async () => {
    const own = join(folder, 'anew.mdb');
    const out = join(folder, 'anew');
    const round = async (): Promise<RoundJson> => {
      const { code, stdout } = await runHere(['loop', '--once', '--json', '--db', own, '--out', out], env);
      expect(code).toBe(0);
      return JSON.parse(stdout) as RoundJson;
    };
    const capture = (more: string): Promise<void> =>
      captureExchanges(
        own,
        Array.from({ length: 30 }, (_, at) => basketExchanges(at, `run-${at}`, more)).flat(),
      );
    await capture('');
    expect(await round()).toMatchObject({ outcome: 'published', golden: 30, read: 30 });
    expect(await round()).toMatchObject({ outcome: 'kept', golden: 30, read: 0 });
    for (const name of readdirSync(folder).filter((file) => file.startsWith('anew.mdb')))
      rmSync(join(folder, name), { recursive: true });
    await capture('Quickly.');
    expect(await round()).toMatchObject({ golden: 30, read: 30 });
  });
});

describe('a round with a version that an operator has pinned', () => {
  it('stores its student unpublished, says so, and makes it only once', { tags: 'long' }, async () => {
    const out = join(folder, 'held');
    const round = async () => {
      const argv = ['loop', '--once', '--db', db, '--out', out, '--share', '0.25', '--json'];
      const { code, stdout } = await runHere(argv, env);
      expect(code).toBe(0);
      return JSON.parse(stdout) as { outcome: string; version: number; reason: string };
    };
    expect(await round()).toMatchObject({ outcome: 'published', version: 1 });
    expect(await readOrders(out)).toMatchObject({ shares: [{ version: 1, share: 0.25 }] });
    // Another fingerprint looks as if the student had been made from other runs.
    const path = join(out, 'manifest.json');
    const manifest = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(
      path,
      JSON.stringify({ ...manifest, golden: { ...manifest.golden, fingerprint: 'other' } }),
    );
    const held = await runHere(['student', 'publish', '1', '--hold', '--dir', out], env);
    expect(held).toMatchObject({ code: 0, stdout: 'Version 1 serves\n' });
    rmSync(join(out, 'manifest.v1.json'));
    writeFileSync(
      path,
      JSON.stringify({ ...manifest, golden: { ...manifest.golden, fingerprint: 'other' } }),
    );

    const waits = 'understudy student publish 2';
    expect(await round()).toMatchObject({
      outcome: 'kept',
      version: 1,
      reason: expect.stringContaining(waits),
    });
    const again = await round();
    expect(again).toMatchObject({ outcome: 'kept', version: 1 });
    expect(again.reason).toMatch(/^nothing new: version 2 is stored/);
    expect((await readStudentManifest(out)).version).toBe(1);
    expect(await runHere(['student', 'publish', '--dir', out], env)).toMatchObject({ code: 0 });
    expect((await readStudentManifest(out)).version).toBe(2);
    expect(await round()).toMatchObject({ outcome: 'kept', reason: 'nothing new since version 2' });
  });
});

describe('a student that asks a cheaper model', () => {
  const askOf = (service: FakeProvider, out: string, style: string, run: RunCommand = runHere) =>
    run(
      [
        'distill',
        '--db',
        db,
        '--out',
        join(folder, out),
        '--student',
        'http',
        '--endpoint',
        service.url,
        '--model',
        'cheap',
        '--style',
        style,
      ],
      { ...env, SVC_STUDENT_KEY: 'sk-student-4711-secret' },
    );

  it.each(['messages', 'chat_completions'])(
    'is measured by asking that model, in the style of %s',
    { tags: 'long' },
    async (style) => {
      const service = await startFakeProvider({ script: orderScript });
      try {
        const run = style === 'messages' ? runCli : runHere;
        const { code, stdout, stderr } = await askOf(service, `http-${style}`, style, run);
        expect([code, omitProgress(stderr)]).toEqual([0, '']);
        expect(stdout).toContain('answers of the service');
        const text = readFileSync(join(folder, `http-${style}`, 'manifest.json'), 'utf8');
        const manifest = JSON.parse(text);
        expect(manifest.student).toEqual({ kind: 'http', endpoint: service.url, model: 'cheap', style });
        expect(manifest.measured.errors).toBe(0);
        expect(manifest.measured.coverage).toBeGreaterThan(0.5);
        expect(service.requests.length).toBeGreaterThan(50);
        expect(JSON.stringify(service.requests[0]!.raw_headers)).toContain('sk-student-4711-secret');
        const [{ model, stream }] = service.requests.map(({ body }) => JSON.parse(body.toString('utf8')));
        expect([model, stream]).toEqual(['cheap', false]);
        for (const told of [text, stdout]) expect(told).not.toContain('4711');
      } finally {
        await service.close();
      }
    },
  );

  it('is not published if the model is often wrong or cannot be reached', { tags: 'long' }, async () => {
    // The request alone decides whether the model knows the answer, so the order of requests has no effect.
    const isLost = (request: ScriptRequest): boolean =>
      createHash('sha256').update(JSON.stringify(request)).digest()[0]! % 5 !== 0;
    const service = await startFakeProvider({
      script: (request) => (isLost(request) ? { text: 'I would not know.' } : orderScript(request)),
    });
    const wrong = await askOf(service, 'http-wrong', 'messages').finally(() => service.close());
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toContain('Nothing is published');
    const gone = await askOf(service, 'http-gone', 'messages');
    expect(gone.code).toBe(1);
    expect(gone.stderr).toMatch(/^understudy: the service at http:\S+ failed 12 times in a row: [^\n]+\n$/);
    expect(existsSync(join(folder, 'http-gone', 'manifest.json'))).toBe(false);
  });
});
