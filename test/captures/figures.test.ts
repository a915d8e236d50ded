/** Figures of captured traffic: by model, agent, tool and day, summed in parts, and equal to the figures elsewhere. */
import { describe, expect, it } from 'vitest';
import { RecentExchanges } from '../../src/captures/captured-activity.ts';
import { FigureCube } from '../../src/captures/figure-cube.ts';
import { summarizeRuns } from '../../src/captures/inspect.ts';
import { type FigureQuestion, LATENCY_PRECISION } from '../../src/domain/traffic-figures.ts';
import { createPrng } from '../../src/std/prng.ts';
import { MadeSource } from './made-run.ts';

const PRICES = {
  'claude-x': { input: 10, output: 50, cache_read: 1, cache_write: 12.5 },
  'gpt-y': { input: 2, output: 8 },
};
const DAY_MS = 24 * 3_600_000;
const FIRST_MS = Date.UTC(2026, 10, 1);

interface MadeTurn {
  model?: string;
  tools?: string[];
  client?: string;
  credential?: string;
  note?: string;
  day?: number;
  usage?: [number, number, number];
  duration_ms?: number;
  status?: number;
}

function addTurn(source: MadeSource, turn: MadeTurn = {}): void {
  const { model = 'claude-x', day = 0, usage: [input, read, output] = [100, 900, 10] } = turn;
  const record = source.add({
    run_id: `run-${day}`,
    note: turn.note ?? '',
    status: turn.status ?? 200,
    request: { model, messages: [{ role: 'user', content: 'Go.' }] },
    response:
      turn.status === undefined
        ? {
            type: 'message',
            role: 'assistant',
            model,
            content: [{ type: 'text', text: 'Done.' }],
            stop_reason: 'end_turn',
            usage: { input_tokens: input, output_tokens: output, cache_read_input_tokens: read },
          }
        : { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
  });
  record.started_at = new Date(FIRST_MS + day * DAY_MS + record.id * 1_000).toISOString();
  record.duration_ms = turn.duration_ms ?? 1_500;
  if (turn.tools !== undefined) record.tools = turn.tools;
  if (turn.client !== undefined) record.client = turn.client;
  if (turn.credential !== undefined) record.credential = turn.credential;
}

const rangeOf = (source: MadeSource) => ({ first_id: 1, last_id: source.records.length });
const ask = (source: MadeSource, question: Partial<FigureQuestion>) =>
  new FigureCube(PRICES).ask(
    source,
    rangeOf(source),
    { by: 'model', from_day: '2026-11-01', to_day: '2026-11-30', where: {}, ...question },
    () => true,
  );

describe('figures', () => {
  it('are grouped by model, the most expensive first, and include models without a price', () => {
    const source = new MadeSource();
    addTurn(source);
    addTurn(source);
    addTurn(source, { model: 'gpt-y', usage: [1_000, 0, 100] });
    addTurn(source, { model: 'unpriced-z', usage: [1_000, 1_000, 10] });
    addTurn(source, { status: 529 });
    const { rows, total, others, scanned, is_whole } = ask(source, {});
    expect({ scanned, is_whole, others }).toEqual({ scanned: 5, is_whole: true, others: null });
    expect(
      rows.map(({ name, turns, cost_usd, cache_share, errors }) => [
        name,
        turns,
        cost_usd,
        cache_share,
        errors,
      ]),
    ).toEqual([
      // Two turns, each with 100 input tokens at $10 a million, 900 from the cache at $1 and 10 output tokens at $50.
      // The failed turn also counts.
      ['claude-x', 3, expect.closeTo(2 * 0.0024, 9), 0.9, 1],
      ['gpt-y', 1, expect.closeTo(0.0028, 9), 0, 0],
      ['unpriced-z', 1, null, 0.5, 0],
    ]);
    expect(total).toMatchObject({
      exchanges: 5,
      turns: 5,
      errors: 1,
      unpriced_turns: 1,
      cache_read_tokens: 2_800,
    });
    expect(total.cost_usd).toBeCloseTo(0.0076, 9);
  });

  it('count a turn once for each tool that it called, and as "none" if it called no tool', () => {
    const source = new MadeSource();
    addTurn(source, { tools: ['Read', 'Bash'] });
    addTurn(source, { tools: ['Read'] });
    addTurn(source);
    const { rows, total } = ask(source, { by: 'tool' });
    expect(Object.fromEntries(rows.map(({ name, turns }) => [name, turns]))).toEqual({
      Read: 2,
      Bash: 1,
      null: 1,
    });
    expect(total.turns).toBe(3);
    expect(ask(source, { by: 'model', where: { tool: 'Bash' } }).total.turns).toBe(1);
  });

  it('are grouped by agent, note, credential or day, within the requested days', () => {
    const source = new MadeSource();
    addTurn(source, { client: 'claude-cli', note: 'night', credential: 'aaaaaaaaaaaa', day: 0 });
    addTurn(source, { client: 'codex_cli_rs', note: 'day', credential: 'bbbbbbbbbbbb', day: 1 });
    addTurn(source, { client: 'claude-cli', day: 2 });
    const names = (by: FigureQuestion['by']) =>
      ask(source, { by }).rows.map(({ name, turns }) => [name, turns]);
    expect(names('agent')).toEqual([
      ['claude-cli', 2],
      ['codex_cli_rs', 1],
    ]);
    expect(names('note').sort()).toEqual(
      [
        ['day', 1],
        ['night', 1],
        [null, 1],
      ].sort(),
    );
    expect(names('credential')).toHaveLength(3);
    expect(names('day')).toEqual([
      ['2026-11-01', 1],
      ['2026-11-02', 1],
      ['2026-11-03', 1],
    ]);
    expect(ask(source, { from_day: '2026-11-02', to_day: '2026-11-02' }).total.turns).toBe(1);
    expect(ask(source, { by: 'day', where: { agent: 'claude-cli' } }).total.turns).toBe(2);
  });

  it('have percentiles within their precision', () => {
    const source = new MadeSource();
    const random = createPrng(5);
    const latencies = Array.from({ length: 500 }, () => Math.exp(random.float() * 9));
    for (const duration_ms of latencies) addTurn(source, { duration_ms });
    latencies.sort((a, b) => a - b);
    const { latency_p50_ms: p50, latency_p95_ms: p95 } = ask(source, {}).total;
    expect(Math.abs(p50! / latencies[249]! - 1)).toBeLessThanOrEqual(LATENCY_PRECISION + 1e-9);
    expect(Math.abs(p95! / latencies[474]! - 1)).toBeLessThanOrEqual(LATENCY_PRECISION + 1e-9);
  });

  it('are the same with stored figures of complete parts, whose exchanges are not read again', () => {
    const source = new MadeSource();
    for (let at = 0; at < 5_000; at++)
      addTurn(source, { day: at % 3, client: `agent-${at % 4}`, tools: at % 2 === 0 ? ['read'] : [] });
    const question = { by: 'agent', from_day: '2026-11-01', to_day: '2026-11-30', where: {} } as const;
    const first = new FigureCube(PRICES);
    const report = first.ask(source, rangeOf(source), question, () => true);
    expect(first.hasChanges).toBe(true);
    const { parts } = first.takeChanges();
    expect(parts.map(({ first_id }) => first_id)).toEqual([1]);
    let from = Number.POSITIVE_INFINITY;
    const watched = {
      summaries: (filter: { from_id?: number } = {}) => {
        from = Math.min(from, filter.from_id ?? 1);
        return source.summaries(filter);
      },
    };
    const next = new FigureCube(PRICES, { figureParts: () => parts });
    expect(next.ask(watched, rangeOf(source), question, () => true)).toEqual(report);
    expect(from).toBe(4_097);
    // Deleted exchanges do not count, so the part is read again and stored again.
    const later = { ...rangeOf(source), first_id: 3_001 };
    const left = next.ask(source, later, question, () => true);
    expect(left.total.exchanges).toBe(2_000);
    expect(next.takeChanges()).toMatchObject({ parts_gone: [1], parts: [{ first_id: 1 }] });
  });

  it('say when older exchanges are not read yet, and read new ones once', () => {
    const source = new MadeSource();
    for (let i = 0; i < 5_000; i++) addTurn(source);
    const cube = new FigureCube(PRICES);
    const question: FigureQuestion = { by: 'model', from_day: '2026-11-01', to_day: '2026-11-30', where: {} };
    const first = cube.ask(source, rangeOf(source), question, () => false);
    expect([first.is_whole, first.scanned]).toEqual([false, 5_000 - 4_096]);
    const second = cube.ask(source, rangeOf(source), question, () => true);
    expect([second.is_whole, second.scanned]).toEqual([true, 5_000]);
    addTurn(source);
    expect(cube.ask(source, rangeOf(source), question, () => false)).toMatchObject({
      is_whole: true,
      scanned: 5_001,
    });
    // Deleted exchanges do not count.
    const range = { first_id: 101, last_id: 5_001 };
    expect(cube.ask(source, range, question, () => true).scanned).toBe(4_901);
  });

  it('are the same as on Home and in the list of runs', async () => {
    const source = new MadeSource();
    for (let i = 0; i < 200; i++)
      addTurn(source, {
        model: i % 3 === 0 ? 'gpt-y' : 'claude-x',
        day: i % 4,
        usage: [i, 7 * i, i % 13],
        ...(i % 17 === 0 ? { status: 500 } : {}),
      });
    const { total } = ask(source, {});
    const recent = new RecentExchanges({ prices: PRICES });
    recent.follow(source, rangeOf(source), FIRST_MS, () => true);
    const home = recent.sum(FIRST_MS, FIRST_MS + 30 * DAY_MS);
    for (const name of [
      'exchanges',
      'turns',
      'errors',
      'input_tokens',
      'output_tokens',
      'cache_read_tokens',
      'cache_write_tokens',
      'unpriced_turns',
    ] as const)
      expect([name, total[name]]).toEqual([name, home[name]]);
    expect(total.cost_usd).toBeCloseTo(home.cost_usd!, 9);
    const { runs } = await summarizeRuns(source);
    const sum = (name: 'input_tokens' | 'output_tokens' | 'cache_read_tokens' | 'turns'): number =>
      runs.reduce((all, run) => all + (run[name] ?? 0), 0);
    for (const name of ['input_tokens', 'output_tokens', 'cache_read_tokens', 'turns'] as const)
      expect([name, total[name]]).toEqual([name, sum(name)]);
    const days = ask(source, { by: 'day' });
    expect(days.rows.reduce((all, { cost_usd }) => all + cost_usd!, 0)).toBeCloseTo(total.cost_usd!, 9);
  });
});
