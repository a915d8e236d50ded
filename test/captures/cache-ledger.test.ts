/** Sums of cache misses by day, agent and cause: equal to the doctor's findings, examined once, and stored in parts. */
import { expect, it } from 'vitest';
import { CacheDoctor } from '../../src/captures/cache-doctor.ts';
import { CacheLedger, OTHER_AGENTS } from '../../src/captures/cache-ledger.ts';
import { CacheSum } from '../../src/captures/cache-sum.ts';
import { MadeSource } from './made-run.ts';

const PRICES = { 'claude-x': { input: 10, output: 50, cache_read: 1, cache_write: 12.5 } };
const MARK = { cache_control: { type: 'ephemeral' } };
const START_MS = Date.UTC(2026, 0, 2, 23, 0);
const DAY_MS = 86_400_000;
const ALWAYS = () => true;

interface MadeTurn {
  run: string;
  tools: string[];
  /** Number of the turn in its run, from 0 on. */
  turn: number;
  at_ms: number;
  /** Tokens from the cache; null: the answer does not say. */
  read: number | null;
  /** The earlier turn of the run. */
  follows?: number;
  fails?: boolean;
}

function addTurn(source: MadeSource, { run, tools, turn, at_ms, read, follows, fails }: MadeTurn): number {
  const messages: object[] = [];
  for (let at = 0; at <= turn; at++) {
    if (at > 0)
      messages.push({ role: 'assistant', content: [{ type: 'text', text: `Done ${run} ${at - 1}.` }] });
    messages.push({
      role: 'user',
      content: [{ type: 'text', text: `Do ${run} ${at}.`, ...(at === turn ? MARK : {}) }],
    });
  }
  const record = source.add({
    run_id: run,
    ...(fails ? { status: 529 } : {}),
    request: { model: 'claude-x', tools: tools.map((name) => ({ name, input_schema: {} })), messages },
    response: fails
      ? { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
      : {
          type: 'message',
          role: 'assistant',
          model: 'claude-x',
          content: [{ type: 'text', text: `Done ${run} ${turn}.` }],
          stop_reason: 'end_turn',
          usage: {
            input_tokens: 5,
            output_tokens: 10,
            ...(read === null
              ? {}
              : { cache_read_input_tokens: read, cache_creation_input_tokens: 9_000 - read }),
          },
        },
  });
  record.started_at = new Date(at_ms).toISOString();
  if (follows !== undefined) record.follows = follows;
  return record.id;
}

/** Two agents whose runs alternate: one sends its tools in changing order, the other one does not. */
function twoAgents(): MadeSource {
  const source = new MadeSource();
  const last = new Map<string, number>();
  for (let turn = 0; turn < 4; turn++)
    for (const run of ['mend-1', 'mend-2', 'sort-1']) {
      const isMend = run !== 'sort-1';
      const tools = isMend ? (turn % 2 === 0 ? ['Read', 'Edit'] : ['Edit', 'Read']) : ['Sort'];
      const at_ms = START_MS + turn * 30 * 60_000 + last.size * 1_000;
      const before = last.get(run);
      const made = { run, tools, turn, at_ms, ...(before === undefined ? {} : { follows: before }) };
      if (turn === 2) last.set(run, addTurn(source, { ...made, read: 0, fails: true }));
      const now = last.get(run);
      const again = { ...made, ...(now === undefined ? {} : { follows: now }) };
      last.set(run, addTurn(source, { ...again, at_ms: at_ms + 1, read: isMend || turn === 0 ? 0 : 9_000 }));
    }
  return source;
}

const rangeOf = ({ records }: MadeSource) => ({ first_id: 1, last_id: records.length });
const ALL = { from_day: '2026-01-01', to_day: '2026-12-31', agent: null };

it('the ledger has the sums of what the doctor finds run by run, even with little time', () => {
  const source = twoAgents();
  const sum = new CacheSum();
  const doctor = new CacheDoctor(source, PRICES);
  for (const run of ['mend-1', 'mend-2', 'sort-1'])
    for (const look of doctor.examineRun(run)) sum.add(look, run);
  expect(sum.report()).toMatchObject({ turns: 12, misses: 6 });
  const ledger = new CacheLedger(PRICES);
  let asked = 0;
  for (let isWhole = false; !isWhole; asked++) {
    let left = 1;
    isWhole = ledger.follow(source, rangeOf(source), ALL.from_day, () => left-- > 0);
    expect(ledger.sum(ALL, isWhole).is_whole).toBe(isWhole);
  }
  expect(asked).toBe(source.records.length);
  expect(ledger.sum(ALL, true)).toMatchObject(sum.report());
});

it('the ledger separates agents and days', () => {
  const source = twoAgents();
  const ledger = new CacheLedger(PRICES);
  ledger.follow(source, rangeOf(source), ALL.from_day, ALWAYS);
  const whole = ledger.sum(ALL, true);
  expect(whole.days).toBe(2);
  expect(whole.by_agent).toMatchObject([
    { agent: '2 tools: Edit, Read', turns: 8, misses: 6 },
    { agent: '1 tool: Sort', turns: 4, misses: 0, cost_usd: null },
  ]);
  expect(whole.by_day).toMatchObject([
    { day: '2026-01-02', turns: 6, misses: 2 },
    { day: '2026-01-03', turns: 6, misses: 4 },
  ]);
  expect(whole.causes).toMatchObject([{ cause: 'tools_reordered', misses: 6, runs: ['mend-1', 'mend-2'] }]);
  const day = ledger.sum({ from_day: '2026-01-02', to_day: '2026-01-02', agent: '1 tool: Sort' }, true);
  expect(day).toMatchObject({ turns: 2, misses: 0, causes: [], by_day: [{ day: '2026-01-02' }] });
  expect(day.by_agent).toHaveLength(2);
});

it('the ledger examines each exchange once, and only those of the period', { tags: 'long' }, () => {
  const source = new MadeSource();
  for (let at = 0; at < 2_100; at++)
    addTurn(source, {
      run: `run-${at}`,
      tools: ['Read'],
      turn: 0,
      at_ms: START_MS + (at * DAY_MS) / 1_024,
      read: 0,
    });
  const ledger = new CacheLedger(PRICES);
  const range = rangeOf(source);
  const last = ledger.sum(ALL, ledger.follow(source, range, '2026-01-04', ALWAYS));
  // The oldest part, which ended before that day, is not read.
  expect(last.turns).toBe(2_100 - 1_024);
  const read = source.bodiesRead;
  expect(ledger.follow(source, range, '2026-01-04', ALWAYS)).toBe(true);
  expect(source.bodiesRead).toBe(read);
  expect(ledger.follow(source, range, '2026-01-01', ALWAYS)).toBe(true);
  expect(ledger.sum(ALL, true).turns).toBe(2_100);

  const stored = ledger.takeChanges().cache.map(({ first_id, value }) => ({ first_id, value }));
  expect(stored.map(({ first_id }) => first_id)).toEqual([1_025, 1]);
  const next = new CacheLedger(PRICES, { cacheParts: () => stored });
  const before = source.bodiesRead;
  next.follow(source, range, '2026-01-01', ALWAYS);
  expect(next.sum(ALL, true)).toEqual(ledger.sum(ALL, true));
  // The last part is not full and thus not stored. Read again: both bodies of its 52 exchanges and of the 32 before.
  expect(source.bodiesRead - before).toBe(2 * (52 + 32));

  const kept = { first_id: 1_001, last_id: 2_100 };
  next.follow(source, kept, '2026-01-01', ALWAYS);
  expect(next.sum(ALL, true).turns).toBe(1_100);
  expect(next.takeChanges()).toMatchObject({ cache: [{ first_id: 1 }], cache_gone: [1] });
});

it('the ledger counts turns whose answers have no cache figures', () => {
  const source = new MadeSource();
  for (const [at, read] of [0, null, null].entries())
    addTurn(source, { run: `run-${at}`, tools: ['Read'], turn: 0, at_ms: START_MS + at, read });
  const ledger = new CacheLedger(PRICES);
  ledger.follow(source, rangeOf(source), ALL.from_day, ALWAYS);
  expect(ledger.sum(ALL, true)).toMatchObject({ turns: 3, untold_turns: 2, misses: 0, cost_usd: null });
});

it('the ledger counts agents beyond its bound as one', () => {
  const source = new MadeSource();
  for (let at = 0; at < 600; at++)
    addTurn(source, { run: `run-${at}`, tools: [`Tool${at}`], turn: 0, at_ms: START_MS, read: 0 });
  const ledger = new CacheLedger(PRICES);
  ledger.follow(source, rangeOf(source), ALL.from_day, ALWAYS);
  const { turns } = ledger.sum({ ...ALL, agent: OTHER_AGENTS }, true);
  expect(turns).toBe(600 - 512);
  expect(ledger.sum(ALL, true)).toMatchObject({ turns: 600 });
});
