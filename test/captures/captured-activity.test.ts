/** Sums over known exchanges: counts, tokens, latency and money, in total and for parts of the period. */
import { describe, expect, it } from 'vitest';
import { RecentExchanges } from '../../src/captures/captured-activity.ts';
import { priceExchange } from '../../src/captures/exchange-cost.ts';
import type { ListedExchange } from '../../src/captures/exchange-source.ts';
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
    cache_write_1h_tokens: null,
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

describe('the cost of an exchange', () => {
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
    ['tokens that were not reported', { usage: usage(null, null) }, 'unknown'],
  ])('%s', (_, over, cost) => {
    const { usd, is_unknown } = priceExchange(exchange(over), PRICES);
    const found = is_unknown ? 'unknown' : usd;
    if (typeof cost === 'number') expect(found).toBeCloseTo(cost, 12);
    else expect(found).toBe(cost);
  });
});

describe('the figures of a span', () => {
  const at = (hours: number, over: Partial<ListedExchange> = {}) =>
    exchange({ started_at: new Date(FROM_MS + hours * HOUR_MS).toISOString(), ...over });

  it('are the sums of the exchanges that began in it', () => {
    const { recent, add } = follow({ prices: PRICES });
    add(at(-1));
    for (let turn = 1; turn <= 20; turn++) add(at(1, { duration_ms: turn * 10, first_byte_ms: turn }));
    add(
      at(13, {
        status: 529,
        stop_reason: null,
        usage: usage(null, null),
        duration_ms: 1_000,
        first_byte_ms: null,
      }),
    );
    add(at(13, { served_by: 'student', duration_ms: 5, first_byte_ms: 5 }));
    add(at(13, { kind: 'other', path: '/v1/models', duration_ms: 9_999, usage: usage(null, null) }));
    add(at(13, { model: 'other' }));
    add(at(24));
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
      // The 12th and the 22nd of 23 turns, sorted by duration. The durations are 5, 10, 20 … 200, 100, 1000.
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

  it('count failed calls without a run, and list the newest ones', () => {
    const source = new Listed();
    const models = { kind: 'other', method: 'GET', path: '/v1/models', run_id: null, status: 401 } as const;
    source.add(at(-1, models));
    source.add(at(0.1, models));
    for (let second = 0; second < 2_040; second++) source.add(at(0.2 + second / 3_600));
    source.add(at(0.9, { status: 500 }));
    source.add(at(0.9, { ...models, status: 200 }));
    source.add(at(0.9, { ...models, status: 0, aborted: true }));
    const range = () => ({ first_id: 1, last_id: source.records.length });
    const first = new RecentExchanges();
    first.follow(source, range(), FROM_MS, () => true);
    const kept = new Map(first.takeChanges().figures.map(({ first_id, value }) => [first_id, value]));
    const recent = new RecentExchanges({ kept: { figures: (id) => kept.get(id) } });
    recent.follow(source, range(), FROM_MS, () => true);
    const list = (to_ms: number, hasTime = true) =>
      recent.listFailedWithoutRun(source, FROM_MS, to_ms, () => hasTime);
    const end_ms = FROM_MS + HOUR_MS;
    expect(recent.sum(FROM_MS, end_ms)).toMatchObject({ errors: 3, errors_without_run: 2 });
    expect(list(end_ms, false)).toEqual([]);
    const call = { method: 'GET', path: '/v1/models', provider: 'anthropic', aborted: false };
    const oldest = { ...call, exchange_id: 2, started_at: '2026-01-02T00:06:00.000Z', status: 401 };
    const newest = { ...call, exchange_id: 2_045, started_at: '2026-01-02T00:54:00.000Z', status: 0 };
    expect(list(end_ms)).toEqual([{ ...newest, aborted: true }, oldest]);
    expect(list(FROM_MS + HOUR_MS / 2)).toEqual([oldest]);
    // Parts that have not changed are not read again.
    const { read } = source;
    expect(list(end_ms, false)).toHaveLength(2);
    expect(source.read).toBe(read);
    for (let more = 0; more < 30; more++) source.add(at(0.95, models));
    recent.follow(source, range(), FROM_MS, () => true);
    expect(recent.sum(FROM_MS, end_ms).errors_without_run).toBe(32);
    expect(list(end_ms).map(({ exchange_id }) => exchange_id)).toEqual(
      Array.from({ length: 20 }, (_, i) => 2_075 - i),
    );
  });

  it('say for which part the cost is unknown', () => {
    const { recent, add } = follow();
    for (let hour = 0; hour < 4; hour++) add(at(hour));
    expect(recent.sum(FROM_MS, FROM_MS + 24 * HOUR_MS)).toMatchObject({ cost_usd: null, unpriced_turns: 4 });
    expect(new RecentExchanges().sum(FROM_MS, FROM_MS + HOUR_MS)).toMatchObject({
      is_whole: true,
      exchanges: 0,
      cost_usd: 0,
      latency_p50_ms: null,
    });
  });

  it('go back as far as requested, and say when older exchanges are missing', () => {
    const source = new Listed();
    for (let second = 0; second < 3_000; second++) source.add(at(second / 3_600));
    const range = { first_id: 1, last_id: 3_000 };
    const look = (recent: RecentExchanges, from_ms: number, hasTime = true) => {
      recent.follow(source, range, from_ms, () => hasTime);
      return recent.sum(from_ms, FROM_MS + HOUR_MS);
    };
    const recent = new RecentExchanges();
    // Reads back to the first part whose exchanges had all ended before that time, so ids from 1025 on.
    expect(look(recent, FROM_MS + 2_500_000)).toMatchObject({ is_whole: true, exchanges: 500 });
    expect(source.read).toBe(3_000 - 1_024);
    expect(look(recent, FROM_MS + 500_000, false)).toMatchObject({ is_whole: false, exchanges: 1_976 });
    expect(look(recent, FROM_MS + 500_000)).toMatchObject({ is_whole: true, exchanges: 2_500 });
    const small = new RecentExchanges({ max: 2_000 });
    expect(look(small, FROM_MS)).toMatchObject({ is_whole: false, exchanges: 1_976 });
    expect(look(small, FROM_MS + 2_500_000)).toMatchObject({ is_whole: true, exchanges: 500 });
  });

  it('are the same when they are read from stored parts', () => {
    const source = new Listed();
    for (let second = 0; second < 2_500; second++)
      source.add(at(second / 3_600, second % 7 === 0 ? { status: 500, first_byte_ms: null } : {}));
    const range = { first_id: 1, last_id: 2_500 };
    const first = new RecentExchanges({ prices: PRICES });
    first.follow(source, range, FROM_MS, () => true);
    const kept = new Map(first.takeChanges().figures.map(({ first_id, value }) => [first_id, value]));
    expect([...kept.keys()]).toEqual([1_025, 1]);
    const read = source.read;
    const second = new RecentExchanges({ prices: PRICES, kept: { figures: (id) => kept.get(id) } });
    second.follow(source, range, FROM_MS, () => true);
    expect(source.read - read).toBe(2_500 - 2_048);
    expect(second.sum(FROM_MS, FROM_MS + HOUR_MS)).toEqual(first.sum(FROM_MS, FROM_MS + HOUR_MS));
  });
});

/** Exchanges by id, with a count of the reads. */
class Listed {
  readonly records: ListedExchange[] = [];
  read = 0;

  add(record: ListedExchange): void {
    this.records.push({ ...record, id: this.records.length + 1 });
  }

  *summaries({ from_id = 1 }: { from_id?: number } = {}): Generator<ListedExchange> {
    for (const record of this.records.slice(from_id - 1)) {
      this.read++;
      yield record;
    }
  }
}

function follow(options: ConstructorParameters<typeof RecentExchanges>[0] = {}) {
  const source = new Listed();
  const recent = new RecentExchanges(options);
  const add = (record: ListedExchange) => {
    source.add(record);
    recent.follow(source, { first_id: 1, last_id: source.records.length }, FROM_MS, () => true);
  };
  return { recent, add };
}
