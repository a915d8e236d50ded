/** Which golden runs a round takes if there are more than it can use. */
import { describe, expect, it } from 'vitest';
import type { ExchangeSource, ListedExchange } from '../../src/captures/exchange-source.ts';
import { keyOfRun, RunChains } from '../../src/captures/run-chains.ts';
import { unknownUsage } from '../../src/domain/exchange.ts';
import {
  countTokens,
  type DigestStore,
  gatherGolden,
  type StoredDigest,
  sortSteps,
} from '../../src/teaching/golden-steps.ts';
import { DISTILL_BOUNDS } from '../../src/teaching/limits.ts';

const STEPS = 4;

describe('the tokens of a turn', () => {
  const usage = { ...unknownUsage(), input_tokens: 1_000, cache_read_tokens: 800, output_tokens: 50 };

  it('include cached ones once if the wire format counts them as input', () => {
    expect(countTokens({ shape: 'chat_completions', usage })).toBe(1_050);
    expect(countTokens({ shape: 'responses', usage })).toBe(1_050);
  });

  it('are the sum of input, cached and output tokens for Messages', () => {
    expect(countTokens({ shape: 'messages', usage })).toBe(1_850);
  });
});

/** A database with the agents' runs, oldest first, and with the results of earlier rounds. */
function makeRuns(agents: readonly string[], newest = Number.POSITIVE_INFINITY) {
  const chains = new RunChains(null, newest);
  const digests = new Map<string, StoredDigest>();
  for (const [at, agent] of agents.entries()) {
    const run_id = `${agent} ${at}`;
    chains.add({
      id: at + 1,
      run_id,
      provider: 'anthropic',
      model: 'm',
      note: '',
      kind: 'turn',
      started_at: new Date(at).toISOString(),
      duration_ms: 1,
      usage: {},
    } as ListedExchange);
    const steps = Array.from({ length: STEPS }, () => ({
      wire: 'messages',
      exchange_id: at + 1,
      step: { sources: '[]' },
      answer: 'null',
    })) as StoredDigest['steps'];
    digests.set(keyOfRun(run_id), { run_id, codes: [], steps, agent, bytes: 0, untaught: {}, patterns: [] });
  }
  return { chains, digests };
}

/** The share of the bound that this many runs need. */
const roomFor = (runs: number): number => (runs * STEPS) / DISTILL_BOUNDS.steps;

async function gather(agents: readonly string[], runs: number, since_ms: number | null = null) {
  const { chains, digests } = makeRuns(agents);
  const asked: string[] = [];
  const store: DigestStore = {
    get: ({ key }) => {
      asked.push(key);
      return digests.get(key);
    },
    put: async () => {},
  };
  const source = {
    exchange: (id: number) => ({ started_at: new Date(id - 1).toISOString() }),
  } as ExchangeSource;
  const material = await gatherGolden(source, chains, {
    words: new Map(),
    store,
    embed: async () => null,
    room: roomFor(runs),
    since_ms,
  });
  return { material, asked };
}

const count = (taught: readonly { run_id: string }[], agent: string): number =>
  taught.filter(({ run_id }) => run_id.startsWith(`${agent} `)).length;

describe('the runs of a round', () => {
  it('are all if there is room', async () => {
    const { material } = await gather(Array(30).fill('busy'), 40);
    expect(material).toMatchObject({ runs: 30, looked_at: 30, passed_over: 0, golden: 30, steps: 120 });
    expect(material.taught.map(({ last_id }) => last_id)).toEqual(
      Array.from({ length: 30 }, (_, at) => 30 - at),
    );
  });

  it('are those that began at a given time or later', async () => {
    const { material } = await gather(Array(30).fill('busy'), 40, 20);
    expect(material).toMatchObject({ runs: 30, looked_at: 10, too_old: 20, golden: 10 });
    expect(material.taught.at(-1)!.last_id).toBe(21);
  });

  it('are the newest of one agent', async () => {
    const { material } = await gather(Array(100).fill('busy'), 40);
    expect(material).toMatchObject({ runs: 100, golden: 41, looked_at: 41, passed_over: 59, steps: 160 });
    expect(material.taught.at(-1)!.last_id).toBe(61);
  });

  it('include runs of rare agents, even old ones, as well as runs of busy agents', async () => {
    const agents = [
      ...Array(15).fill('rare'),
      ...Array(300).fill('busy'),
      'rare',
      ...Array(200).fill('other'),
    ];
    const { material } = await gather(agents, 60);
    expect(count(material.taught, 'rare')).toBe(16);
    // The two agents that would have more share the rest.
    expect([count(material.taught, 'busy'), count(material.taught, 'other')]).toEqual([22, 22]);
    const busy = material.taught.filter(({ run_id }) => run_id.startsWith('busy'));
    expect(busy.map(({ last_id }) => last_id)).toEqual(Array.from({ length: 22 }, (_, at) => 315 - at));
    expect(material.taught.map(({ last_id }) => last_id)).toEqual(
      material.taught.map(({ last_id }) => last_id).sort((a, b) => b - a),
    );
  });

  it('are at least one, even if there is less room', async () => {
    const { material } = await gather(Array(5).fill('busy'), 0.1);
    expect(material.taught).toHaveLength(1);
  });
});

describe('runs known to a round', () => {
  it('are the newest, and forgotten runs are counted', () => {
    const { chains } = makeRuns(Array(1_000).fill('a'), 100);
    expect(chains.size).toBeLessThanOrEqual(100);
    expect(chains.size + chains.forgotten).toBe(1_000);
    const ids = [...chains.runs].map(({ last_id }) => last_id);
    expect(Math.max(...ids)).toBe(1_000);
    expect(Math.max(...ids) - Math.min(...ids)).toBe(chains.size - 1);
  });
});

it('the steps of a run are in the order of the requests, even if their copies were written in another order', () => {
  const steps = [{ exchange_id: 1 }, { exchange_id: 2 }, { exchange_id: 3 }];
  const order = (seqs: (number | null)[], starts: number[]): number[] => {
    const own = [...steps];
    const places = new Map(
      steps.map(({ exchange_id }, at) => [exchange_id, { seq: seqs[at]!, started_ms: starts[at]! }]),
    );
    sortSteps(own, places);
    return own.map(({ exchange_id }) => exchange_id);
  };
  expect(order([1, 3, 2], [5, 5, 5])).toEqual([1, 3, 2]);
  expect(order([null, null, null], [10, 30, 20])).toEqual([1, 3, 2]);
  expect(order([1, null, 2], [7, 7, 7])).toEqual([1, 2, 3]);
});
