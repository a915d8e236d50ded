/** What known exchanges add up to: counts, tokens, latency, money, in all and in parts of the span. */
import { describe, expect, it } from 'vitest';
import { RecentExchanges } from '../../src/analysis/captured-activity.ts';
import { costOfExchange } from '../../src/analysis/exchange-cost.ts';
import type { ListedExchange } from '../../src/analysis/inspect.ts';
import type { TokenUsage } from '../../src/domain/exchange.ts';

const FROM_MS = Date.UTC(2026, 0, 2);
const HOUR_MS = 3_600_000;
const PRICES = {
  big: { input: 3, output: 15 },
  small: { input: 1, output: 5, cache_read: 0.5, cache_write: 2 },
};

function usage(
  input: number | null,
  output: number | null,
  read: number | null = null,
  write: number | null = null,
) {
  return {
    input_tokens: input,
    output_tokens: output,
    cache_read_tokens: read,
    cache_write_tokens: write,
  } satisfies TokenUsage;
}

function exchange(over: Partial<ListedExchange> = {}): ListedExchange {
  return {
    id: 1,
    run_id: 'run',
    seq: null,
    note: '',
    provider: 'anthropic',
    kind: 'turn',
    shape: 'messages',
    method: 'POST',
    path: '/v1/messages',
    query: '',
    status: 200,
    started_at: new Date(FROM_MS).toISOString(),
    first_byte_ms: 10,
    duration_ms: 100,
    aborted: false,
    truncated: false,
    undecodable: false,
    served_by: 'upstream',
    model: 'big-20260101',
    stop_reason: 'end_turn',
    usage: usage(1_000, 100),
    ...over,
  };
}

describe('what an exchange costs', () => {
  it.each<[string, Partial<ListedExchange>, number | 'unknown' | null]>([
    ['input and output', {}, 0.0045],
    [
      'the cache apart',
      { model: 'small', usage: usage(1_000, 100, 2_000, 500) },
      0.001 + 0.0005 + 0.001 + 0.001,
    ],
    ['a tenth and five quarters for the cache', { usage: usage(0, 0, 1_000_000, 1_000_000) }, 0.3 + 3.75],
    [
      'a cache that the input includes, once',
      { shape: 'chat_completions', model: 'small', usage: usage(3_000, 100, 2_000) },
      0.001 + 0.001 + 0.0005,
    ],
    ['nothing for the student', { served_by: 'student' }, null],
    ['nothing for what is no turn', { kind: 'other' }, null],
    ['nothing for a refusal', { status: 529, stop_reason: null, usage: usage(null, null) }, null],
    ['a model without a price', { model: 'other' }, 'unknown'],
    ['no model', { model: null }, 'unknown'],
    ['tokens that nobody told', { usage: usage(null, null) }, 'unknown'],
  ])('%s', (_, over, cost) => {
    const found = costOfExchange(exchange(over), PRICES);
    if (typeof cost === 'number') expect(found).toBeCloseTo(cost, 12);
    else expect(found).toBe(cost);
  });
});

describe('the figures of a span', () => {
  const at = (hours: number, over: Partial<ListedExchange> = {}) =>
    exchange({ started_at: new Date(FROM_MS + hours * HOUR_MS).toISOString(), ...over });

  it('are the sums of what began in it', () => {
    const recent = new RecentExchanges({ prices: PRICES });
    recent.add(at(-1));
    for (let turn = 1; turn <= 20; turn++) recent.add(at(1, { duration_ms: turn * 10, first_byte_ms: turn }));
    recent.add(
      at(13, {
        status: 529,
        stop_reason: null,
        usage: usage(null, null),
        duration_ms: 1_000,
        first_byte_ms: null,
      }),
    );
    recent.add(at(13, { served_by: 'student', duration_ms: 5, first_byte_ms: 5 }));
    recent.add(at(13, { kind: 'other', path: '/v1/models', duration_ms: 9_999, usage: usage(null, null) }));
    recent.add(at(13, { model: 'other' }));
    recent.add(at(24));
    const sum = recent.sum(FROM_MS, FROM_MS + 24 * HOUR_MS);
    expect(sum).toMatchObject({
      is_whole: true,
      exchanges: 24,
      turns: 23,
      errors: 1,
      student_turns: 1,
      input_tokens: 22_000,
      output_tokens: 2_200,
      unpriced_turns: 1,
      // Of 23 turns the 12th and the 22nd, by how long they took: 5, 10, 20 … 200, 100, 1000.
      latency_p50_ms: 100,
      latency_p95_ms: 200,
    });
    expect(sum.cost_usd).toBeCloseTo(20 * 0.0045, 12);
    expect(sum.series.reduce((all, part) => all + part.exchanges, 0)).toBe(24);
    const [busy, later] = sum.series.filter((part) => part.exchanges > 0);
    expect(busy).toMatchObject({
      at: '2026-01-02T01:00:00.000Z',
      exchanges: 20,
      latency_p50_ms: 100,
      errors: 0,
    });
    expect(later).toMatchObject({
      at: '2026-01-02T13:00:00.000Z',
      exchanges: 4,
      errors: 1,
      unpriced_turns: 1,
    });
  });

  it('say what is not known of money, and that older exchanges are forgotten', () => {
    const recent = new RecentExchanges({ max: 3 });
    for (let hour = 0; hour < 4; hour++) recent.add(at(hour));
    const sum = recent.sum(FROM_MS, FROM_MS + 24 * HOUR_MS);
    expect(sum).toMatchObject({ is_whole: false, exchanges: 3, cost_usd: null, unpriced_turns: 3 });
    expect(recent.sum(FROM_MS + 2 * HOUR_MS, FROM_MS + 24 * HOUR_MS)).toMatchObject({
      is_whole: true,
      exchanges: 2,
    });
    expect(new RecentExchanges().sum(FROM_MS, FROM_MS + HOUR_MS)).toMatchObject({
      exchanges: 0,
      cost_usd: 0,
      latency_p50_ms: null,
    });
  });
});
