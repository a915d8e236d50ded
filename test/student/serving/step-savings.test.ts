/**
 * Savings with a provider that has a prompt cache. The provider of this test counts its charges with and without a
 * student, and the ledger must show the difference.
 */
import { MessageChannel } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { costOfUsage } from '../../../src/domain/price.ts';
import { DayLedger, totalLedger } from '../../../src/student/day-ledger.ts';
import type { StudentAnswer, StudentDecision } from '../../../src/student/model/decision.ts';
import { StepHandler } from '../../../src/student/serving/step-handler.ts';

const PRICE = { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 };
const OUTPUT_TOKENS = 40;
const TOOL = { name: 'look', input_schema: { type: 'object', properties: { at: { type: 'string' } } } };

/**
 * How the provider caches. `marked`: prefixes up to a marked block. `automatic`: every prefix. `reads only`: like
 * `automatic`, but writes are charged as fresh input and not reported (OpenAI).
 */
type Marks = 'marked' | 'automatic' | 'reads only';

interface Body {
  tools: object[];
  system: object[];
  messages: { role: string; content: Record<string, unknown>[] }[];
}

/** A provider that caches prefixes, written without the product's code. It counts four characters as a token. */
class CachingProvider {
  readonly #held = new Set<string>();
  readonly #marks: Marks;
  usd = 0;

  constructor(marks: Marks) {
    this.#marks = marks;
  }

  charge(body: Body): Pick<StudentAnswer, 'input_tokens' | 'cache_read_tokens' | 'cache_write_tokens'> {
    const blocks = [...body.tools, ...body.system, ...body.messages.flatMap(({ content }) => content)];
    const isMarked = blocks.some((block) => 'cache_control' in block);
    const words = blocks.map((block) => JSON.stringify({ ...block, cache_control: undefined }));
    let [prefix, read, written] = ['', 0, 0];
    const writes: string[] = [];
    for (const [at, text] of words.entries()) {
      prefix += text;
      if (this.#held.has(prefix)) read = prefix.length;
      if (isMarked && !('cache_control' in blocks[at]!)) continue;
      writes.push(prefix);
      written = prefix.length;
    }
    for (const written of writes) this.#held.add(written);
    if (this.#marks === 'reads only') written = read;
    const usage = {
      input_tokens: (prefix.length - Math.max(read, written)) / 4,
      output_tokens: OUTPUT_TOKENS,
      cache_read_tokens: read / 4,
      cache_write_tokens: Math.max(0, written - read) / 4,
      cache_write_1h_tokens: null,
    };
    this.usd += costOfUsage(usage, PRICE)!;
    return { ...usage, input_tokens: prefix.length / 4 };
  }
}

/** The request of a step: a long prompt, a task, and a call with its result for each step before. */
function bodyOf(run: number, step: number, marks: Marks): Body {
  const marker = marks === 'marked' ? { cache_control: { type: 'ephemeral' } } : {};
  const messages: Body['messages'] = [
    { role: 'user', content: [{ type: 'text', text: `Task ${run}: ${'look at the order. '.repeat(40)}` }] },
  ];
  for (let at = 0; at < step; at++) {
    const id = `toolu_${run}_${at}`;
    messages.push({
      role: 'assistant',
      content: [{ type: 'tool_use', id, name: 'look', input: { at: `${at}` } }],
    });
    const content = `result ${at} of run ${run}: ${'some words. '.repeat(60 + 20 * at)}`;
    messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content }] });
  }
  Object.assign(messages.at(-1)!.content.at(-1)!, marker);
  return {
    tools: [TOOL],
    system: [{ type: 'text', text: `You look. ${'Rules and more rules. '.repeat(200)}`, ...marker }],
    messages,
  };
}

const STEPS = 6;

/** The tokens of each step in golden runs: the means of runs without a student. */
function teach(marks: Marks): StudentAnswer[] {
  const provider = new CachingProvider(marks);
  const runs = 8;
  const sums = Array.from({ length: STEPS }, () => ({ input: 0, read: 0, write: 0 }));
  for (let run = 0; run < runs; run++)
    for (const [step, sum] of sums.entries()) {
      const usage = provider.charge(bodyOf(run, step, marks));
      sum.input += usage.input_tokens;
      sum.read += usage.cache_read_tokens ?? 0;
      sum.write += usage.cache_write_tokens ?? 0;
    }
  return sums.map(({ input, read, write }, step) => ({
    content: [{ type: 'tool_call', id: '', name: 'look', input: { at: `${step}` } }],
    stop_reason: 'tool_use',
    input_tokens: input / runs,
    output_tokens: OUTPUT_TOKENS,
    cache_read_tokens: read / runs,
    cache_write_tokens: write / runs,
  }));
}

/** Runs agents whose steps a step handler serves. The provider gets the steps that are not served. */
async function serve(
  marks: Marks,
  isServed: (run: number, step: number) => boolean,
  asked: { service_tier?: string } = {},
) {
  const golden = teach(marks);
  const [alone, beside] = [new CachingProvider(marks), new CachingProvider(marks)];
  const ledger = new DayLedger();
  let next: StudentDecision = { covered: false, reason: 'too_far', score: 1 };
  const handler = new StepHandler({
    mode: 'on',
    core: { decide: () => next, serves: () => true, kindOf: () => 'look' },
    threshold: 1,
    service: null,
    prices: { 'claude-big': { ...PRICE, tiers: { flex: 0.5 } } },
    runs: null,
    watch: {
      terms: { valid_until_ms: null },
      admits: () => true,
      judge: () => 'serve',
      note: () => {},
    },
    ledger: { add: (agent, more) => ledger.add(0, agent, more) },
    onError: (thrown) => {
      throw thrown;
    },
  });
  const { port1, port2 } = new MessageChannel();
  handler.connect(port2);
  for (let run = 100; run < 120; run++)
    for (let step = 0; step < STEPS; step++) {
      const body = bodyOf(run, step, marks);
      alone.charge(body);
      const isMine = isServed(run, step);
      if (!isMine) beside.charge(body);
      next = isMine
        ? { covered: true, answer: golden[step]!, score: 0, support: 9, agent: 'a' }
        : { covered: false, reason: 'too_far', score: 1, agent: 'a' };
      const decided = new Promise<{ type: string }>((resolve) => port1.once('message', resolve));
      const bytes = new TextEncoder().encode(
        JSON.stringify({ ...body, model: 'claude-big', max_tokens: 900, ...asked }),
      );
      port1.postMessage(
        {
          type: 'decide',
          id: run * STEPS + step,
          wire: 'messages',
          body: bytes,
          run_id: null,
          session_id: null,
          seq: null,
          betas: [],
          api_version: '2023-06-01',
          origin: '',
          expires_at_ms: Number.POSITIVE_INFINITY,
        },
        [bytes.buffer],
      );
      expect((await decided).type).toBe(isMine ? 'served' : 'declined');
    }
  port1.close();
  return { told: totalLedger(ledger.copy()), truth: alone.usd - beside.usd };
}

const PATTERNS: [string, (run: number, step: number) => boolean][] = [
  ['every second step', (_, step) => step % 2 === 1],
  ['the first steps', (_, step) => step < 3],
  ['the last steps', (_, step) => step >= 3],
  ['every step but one', (run, step) => step !== run % STEPS],
  ['a step here and there', (run, step) => (run + step) % 5 === 0],
];

for (const marks of ['marked', 'automatic', 'reads only'] as const)
  it.each(PATTERNS)(
    `savings with a cache (${marks}) are within a tenth of what the provider charges less: %s`,
    async (_, isServed) => {
      const { told, truth } = await serve(marks, isServed);
      expect(told.unpriced).toBe(0);
      expect(told.saved_usd! / truth).toBeGreaterThan(0.9);
      expect(told.saved_usd! / truth).toBeLessThan(1.1);
    },
  );

it('savings have the price of the requested tier', async () => {
  const every = (_: number, step: number): boolean => step >= 3;
  const { told: list } = await serve('marked', every);
  const { told: flex } = await serve('marked', every, { service_tier: 'flex' });
  expect(flex.saved_usd! / list.saved_usd!).toBeCloseTo(0.5, 6);
  const { told: unpriced } = await serve('marked', every, { service_tier: 'priority' });
  expect(unpriced).toMatchObject({ saved_usd: null, unpriced: unpriced.served });
});
