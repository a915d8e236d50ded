/**
 * Requests without a label are assigned to runs. One test compares the result for agents' traffic (noise, failures,
 * sub-agents, side calls) with the true runs; the others test single cases. With the real decoders and a real capture
 * file.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createPrng } from '../../src/std/prng.ts';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { type MadeExchange, makeTraffic, type TrafficPlan } from '../fixtures/agent-traffic.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const toBytes = (body: unknown): Buffer =>
  Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));

function capture(made: Omit<MadeExchange, 'truth'>): CapturedExchange {
  return makeExchange({
    shape: made.shape,
    path: made.path,
    status: made.status,
    aborted: made.aborted,
    response_headers: ['content-type', made.content_type],
    request_body: toBytes(made.request),
    response_body: toBytes(made.response),
  });
}

async function indexAll(log: CaptureLog): Promise<void> {
  while ((await log.indexSome(decodeExchange, 1_000)) > 0);
}

/** The runs that the writer finds. */
async function group(exchanges: CapturedExchange[]): Promise<(string | null)[]> {
  const folder = makeFolder();
  const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: false });
  for (let i = 0; i < exchanges.length; i += 64) await log.append(exchanges.slice(i, i + 64));
  await indexAll(log);
  await log.close();
  const reader = CaptureReader.open(join(folder, 'capture.mdb'));
  const runs = [...reader.summaries()].map((summary) => summary.run_id);
  await reader.close();
  rmSync(folder, { recursive: true });
  return runs;
}

/** Share of exchanges that are in the run of their true predecessor, or begin a run as in the true runs. */
function judge(made: MadeExchange[], runs: (string | null)[]): number {
  const latest = new Map<string, string | null>();
  const seen = new Set<string | null>();
  let right = 0;
  for (const [i, { truth }] of made.entries()) {
    const run = runs[i]!;
    right += Number(latest.has(truth) ? latest.get(truth) === run : !seen.has(run));
    latest.set(truth, run);
    seen.add(run);
  }
  return right / made.length;
}

describe('agents’ traffic without labels', () => {
  const plan = { runs: 20, turns: 10, twins: 0, failures: 0, same_answers: false };
  it.each<[string, Partial<TrafficPlan>, number, number]>([
    ['is assigned to its runs, despite noise, sub-agents, side calls and trimming', {}, 1, 1],
    ['failed and tried again', { failures: 0.1 }, 0.98, 0.995],
    ['of pairs of runs that begin with the same words', { twins: 0.7, failures: 0.1 }, 0.98, 0.995],
    // These pairs have the same words throughout and no ids. So it cannot be known which of the two runs continues.
    [
      'of pairs that are the same word for word',
      { twins: 0.7, failures: 0.1, same_answers: true },
      0.9,
      0.96,
    ],
  ])('%s', async (_name, change, atLeast, onAverage) => {
    const shares: number[] = [];
    await fc.assert(
      fc.asyncProperty(fc.integer(), async (seed) => {
        const made = makeTraffic(createPrng(seed), createPrng, { ...plan, ...change });
        const share = judge(made, await group(made.map(capture)));
        shares.push(share);
        expect(share).toBeGreaterThanOrEqual(atLeast);
      }),
      { numRuns: 6 },
    );
    expect(shares.reduce((sum, share) => sum + share, 0) / shares.length).toBeGreaterThanOrEqual(onAverage);
  });

  it('is assigned to the same runs while it is stored or later, across restarts and rotations', {
    tags: 'long',
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.infiniteStream(fc.nat(39)), async (seed, dice) => {
        const made = makeTraffic(createPrng(seed), createPrng, {
          ...plan,
          runs: 10,
          twins: 0.7,
          failures: 0.15,
          same_answers: true,
        }).map(capture);
        const folder = makeFolder();
        const path = join(folder, 'capture.mdb');
        const open = (reads: boolean): Promise<CaptureLog> =>
          CaptureLog.open({ path, redact: false, ...(reads ? { decode: decodeExchange } : {}) });
        let log = await open(true);
        for (const exchange of made) {
          await log.append([exchange]);
          const { value } = dice.next();
          if (value! < 4) {
            await log.close();
            log = await open(value! < 2);
          } else if (value === 4) {
            await indexAll(log);
            await log.rotate();
          } else if (value! < 10) await indexAll(log);
        }
        await indexAll(log);
        await log.close();
        const found: (string | null)[] = [];
        for (const file of [...listSealed(path).map((sealed) => sealed.path), path]) {
          const reader = CaptureReader.open(file);
          for (const { run_id } of reader.summaries()) found.push(run_id);
          await reader.close();
        }
        expect(found).toEqual(await group(made));
      }),
      { numRuns: 4 },
    );
  });
});

/** A Messages conversation, turn by turn; `a` is an answer, `u` the user. */
const u = (content: unknown) => ({ role: 'user', content });
const a = (text: string, call: string | null = null) => ({
  role: 'assistant',
  content: [
    { type: 'text', text },
    ...(call === null
      ? []
      : [{ type: 'tool_use', id: call, name: 'read_file', input: { path: `${call}.ts` } }]),
  ],
});
const r = (call: string, text = 'export {}') =>
  u([{ type: 'tool_result', tool_use_id: call, content: text }]);

type Message = ReturnType<typeof u> | ReturnType<typeof a>;
interface Asked {
  system?: string;
  messages: Message[];
  answer?: ReturnType<typeof a>;
  change?: Partial<CapturedExchange>;
}

const CODER = 'You mend code. Look for the tests first, change little, and say what you did.';
const OTHER = 'You give conversations a title of at most five words in the language of the user.';

function ask({ system = CODER, messages, answer, change = {} }: Asked): CapturedExchange {
  const response = {
    type: 'message',
    content: answer?.content,
    stop_reason: answer?.content.length === 2 ? 'tool_use' : 'end_turn',
  };
  const made = capture({
    shape: 'messages',
    path: '/v1/messages',
    status: 200,
    aborted: false,
    content_type: 'application/json',
    request: { system, messages },
    response: answer === undefined ? '' : response,
  });
  return { ...made, ...change };
}

const A1 = a('I read it first.', 'toolu_a1');
const B1 = a('I read it first.', 'toolu_b1');
const A2 = a('Then the next.', 'toolu_a2');
const TASK = u('Mend the parser.');

describe('unlabelled exchanges are grouped:', () => {
  it.each<[string, Asked[], number[]]>([
    [
      'a sub-agent with exactly its parent’s task, between the parent’s calls',
      [
        { messages: [TASK], answer: A1 },
        { system: OTHER, messages: [TASK], answer: B1 },
        { messages: [TASK, A1, r('toolu_a1')], answer: A2 },
        { system: OTHER, messages: [TASK, B1, r('toolu_b1')], answer: a('A report.') },
        { messages: [TASK, A1, r('toolu_a1'), A2, r('toolu_a2')], answer: a('Done.') },
      ],
      [1, 2, 1, 2, 1],
    ],
    [
      'a sub-agent of the same kind as its parent, with the same task',
      [
        { messages: [TASK], answer: A1 },
        { messages: [TASK], answer: B1 },
        { messages: [TASK, B1, r('toolu_b1')], answer: a('A report.') },
        { messages: [TASK, A1, r('toolu_a1')], answer: a('Done.') },
      ],
      [1, 2, 2, 1],
    ],
    [
      'agents whose prompts begin alike, and answers that are the same',
      [
        { system: `${CODER.repeat(4)} Write the change.`, messages: [TASK], answer: a('Yes.') },
        { system: `${CODER.repeat(4)} Judge what others wrote.`, messages: [TASK], answer: a('Yes.') },
        {
          system: `${CODER.repeat(4)} Write the change.`,
          messages: [TASK, a('Yes.'), u('Go on.')],
          answer: a('Done.'),
        },
        {
          system: `${CODER.repeat(4)} Judge what others wrote.`,
          messages: [TASK, a('Yes.'), u('Go on.')],
          answer: a('Done.'),
        },
      ],
      [1, 2, 1, 2],
    ],
    [
      'a request for a title with the words of the task, while the first call fails',
      [
        { messages: [TASK], change: { status: 529 } },
        { system: OTHER, messages: [TASK], answer: a('Parser') },
        { messages: [TASK], answer: A1 },
      ],
      [1, 2, 1],
    ],
    [
      'a first call that is retried twice with new noise in its prompt; then another call with the same words',
      [
        { system: `${CODER} 12:01`, messages: [TASK], change: { status: 0 } },
        { system: `${CODER} 12:02`, messages: [TASK], change: { status: 529 } },
        { system: `${CODER} 12:03`, messages: [TASK], answer: A1 },
        { system: `${CODER} 12:04`, messages: [TASK], answer: B1 },
      ],
      [1, 1, 1, 4],
    ],
    [
      'old results that the client shortened',
      [
        { messages: [TASK], answer: A1 },
        { messages: [TASK, A1, r('toolu_a1')], answer: A2 },
        { messages: [TASK, A1, r('toolu_a1', '[cut]'), A2, r('toolu_a2')], answer: a('Done.') },
      ],
      [1, 1, 1],
    ],
    [
      'a conversation whose beginning the client dropped, while another run has the same words',
      [
        { messages: [TASK], answer: A1 },
        { messages: [TASK], answer: B1 },
        { messages: [TASK, A1, r('toolu_a1')], answer: A2 },
        { messages: [u('[earlier messages left out]'), A2, r('toolu_a2')], answer: a('Done.') },
        { messages: [TASK, A2, r('toolu_a2')], answer: a('Done.') },
      ],
      [1, 2, 1, 1, 1],
    ],
    [
      'a conversation that continues from a summary',
      [
        { messages: [TASK], answer: A1 },
        { messages: [TASK, A1, r('toolu_a1'), u('Sum up.')], answer: a('We mend the parser.') },
        { messages: [u('This goes on from earlier: We mend the parser.')], answer: a('Done.') },
      ],
      [1, 1, 3],
    ],
    [
      'an answer that is requested again, and an earlier message that is edited',
      [
        { messages: [TASK], answer: A1 },
        { messages: [TASK, A1, r('toolu_a1')], answer: a('One.') },
        { messages: [TASK, A1, r('toolu_a1')], answer: a('Two.') },
        { messages: [TASK, A1, u('Rather the lexer.')], answer: a('Three.') },
        { messages: [u('Mend the lexer.')], answer: a('Four.') },
      ],
      [1, 1, 1, 1, 5],
    ],
    [
      'an answer that the user interrupts, with and without its beginning in the next request',
      [
        { messages: [TASK], change: { aborted: true } },
        { messages: [TASK, a('I re'), u('Stop. Only the lexer.')], answer: A1 },
        {
          messages: [TASK, a('I re'), u('Stop. Only the lexer.'), A1, r('toolu_a1')],
          change: { aborted: true },
        },
        {
          messages: [TASK, a('I re'), u('Stop. Only the lexer.'), A1, r('toolu_a1'), u('And quick.')],
          answer: A2,
        },
      ],
      [1, 1, 1, 1],
    ],
    [
      'a label that is missing in one request and returns',
      [
        { messages: [TASK], answer: A1, change: { run_id: 'mine' } },
        { messages: [TASK, A1, r('toolu_a1')], answer: A2 },
        { messages: [TASK], answer: B1 },
      ],
      [-1, -1, 3],
    ],
    [
      'many simultaneous runs with the same words and answers, each of which continues',
      [
        ...Array.from({ length: 5 }, () => ({ messages: [TASK], answer: a('Yes.') })),
        ...Array.from({ length: 5 }, () => ({
          messages: [TASK, a('Yes.'), u('Go on.')],
          answer: a('Done.'),
        })),
      ],
      // It cannot be known which run each request continues. So each continues a run that no other request has
      // continued yet.
      [1, 2, 3, 4, 5, 5, 4, 3, 2, 1],
    ],
    [
      'an embedding is in no run',
      [
        { messages: [TASK], answer: A1 },
        {
          messages: [],
          change: {
            shape: 'bedrock_invoke',
            path: '/bedrock/eu-west-1/model/amazon.titan-embed-text-v2%3A0/invoke',
            request_body: Buffer.from('{"inputText":"a"}'),
            response_body: Buffer.from('{"embedding":[1],"inputTextTokenCount":1}'),
          },
        },
      ],
      [1, 0],
    ],
  ])('%s', async (_name, asked, truth) => {
    const runs = await group(asked.map(ask));
    expect(runs).toEqual(truth.map((id) => (id < 0 ? 'mine' : id === 0 ? null : `conv_${id}`)));
  });

  it('conversations that the provider stores, two at once', async () => {
    const turn = (conversation: string | { id: string }, input: string) =>
      capture({
        shape: 'responses',
        path: '/v1/responses',
        status: 200,
        aborted: false,
        content_type: 'application/json',
        request: { model: 'm', conversation, input },
        response: { id: `resp_${input}`, status: 'completed', output: [] },
      });
    const runs = await group([
      turn('conv_a', 'Hi'),
      turn({ id: 'conv_b' }, 'Hi'),
      turn({ id: 'conv_a' }, 'Go on'),
      turn('conv_b', 'Go on'),
      turn('conv_a', 'And on'),
    ]);
    expect(runs).toEqual(['conv_1', 'conv_2', 'conv_1', 'conv_2', 'conv_1']);
  });

  it('threads of the Messages API, two at once', async () => {
    const turn = (id: string, thread: object, content: string) =>
      capture({
        shape: 'messages',
        path: '/v1/messages',
        status: 200,
        aborted: false,
        content_type: 'application/json',
        request: { model: 'm', thread, messages: [{ role: 'user', content }] },
        response: {
          id,
          type: 'message',
          role: 'assistant',
          content: [{ type: 'text', text: 'Ok' }],
          stop_reason: 'end_turn',
        },
      });
    const goingOn = (previous_message_id: string) => ({ type: 'continue', previous_message_id });
    const runs = await group([
      turn('msg_a1', { type: 'create' }, 'Hi'),
      turn('msg_b1', { type: 'create' }, 'Hi'),
      turn('msg_a2', goingOn('msg_a1'), 'Go on'),
      turn('msg_b2', goingOn('msg_b1'), 'Go on'),
      turn('msg_a3', goingOn('msg_a2'), 'And on'),
    ]);
    expect(runs).toEqual(['conv_1', 'conv_2', 'conv_1', 'conv_2', 'conv_1']);
  });

  it('an exchange that turned out not to be a turn keeps its fields', async () => {
    const folder = makeFolder();
    const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: false });
    await log.append([
      makeExchange({
        shape: 'bedrock_invoke',
        path: '/bedrock/eu-west-1/model/amazon.titan-embed-text-v2%3A0/invoke',
        request_body: Buffer.from('{"inputText":"a"}'),
        response_body: Buffer.from('{"embedding":[1],"inputTextTokenCount":7}'),
      }),
    ]);
    await indexAll(log);
    await log.close();
    const reader = CaptureReader.open(join(folder, 'capture.mdb'));
    expect(reader.exchange(1)).toMatchObject({
      kind: 'other',
      run_id: null,
      model: 'amazon.titan-embed-text-v2:0',
      usage: { input_tokens: 7 },
    });
    await reader.close();
  });
});
