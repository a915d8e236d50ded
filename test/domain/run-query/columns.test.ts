/** Columns that store the names of runs: with many different names, and with names that change often. */
import { expect, it } from 'vitest';
import { RunColumns } from '../../../src/domain/run-query/columns.ts';
import { compileRunQuery, type RunReader } from '../../../src/domain/run-query/match.ts';
import { parseRunQuery } from '../../../src/domain/run-query/parse.ts';

interface Run {
  agent: readonly string[] | null;
}

const READER: RunReader<Run> = {
  names: { agent: ({ agent }) => agent },
  numbers: {},
  started: () => 0,
  finished: () => null,
  choices: {},
};

function makeColumns(runs: readonly Run[]): RunColumns<Run> {
  const source = { reader: READER, statusOf: () => ({ status: 'ok', later: 'ok', later_ms: 0 }) as const };
  const columns = new RunColumns<Run>({ ...source, keyOf: () => 0 }, (slot) => runs[slot] ?? null);
  columns.follow(runs.length);
  return columns;
}

function expectSameAnswers(columns: RunColumns<Run>, runs: readonly Run[]): void {
  for (const text of [
    'agent:bot-77',
    'agent:"BOT-77"',
    'agent:bot-*9',
    '-agent:other',
    'agent:"line break"',
  ]) {
    const query = parseRunQuery(text);
    const direct = compileRunQuery(query, READER, 0);
    const test = compileRunQuery(query, columns.reader(READER, 0), 0);
    expect(runs.map((_, slot) => test(slot))).toEqual(runs.map(direct));
  }
}

it('a column copies the names of each run if they are all different', () => {
  const runs = Array.from({ length: 9_000 }, (_, at): Run => ({ agent: [`Bot-${at}`] }));
  runs[3] = { agent: null };
  runs[4] = { agent: [] };
  runs[5] = { agent: ['Bot-77', 'other', 'line\nbreak'] };
  const columns = makeColumns(runs);
  expectSameAnswers(columns, runs);
  const reader = columns.reader(READER, 0);
  expect(reader.nameLists!('agent')).toBeNull();
  expect(reader.lowerNames!('agent')!(5)).toEqual(['bot-77', 'other', 'line\nbreak']);
});

it('a column stores each name once while few names are in use, however many were used before', () => {
  const runs = Array.from({ length: 100 }, (_, at): Run => ({ agent: [`Bot-${at}`] }));
  const columns = makeColumns(runs);
  for (let turn = 0; turn < 200; turn++) {
    for (let slot = 0; slot < runs.length; slot++) {
      runs[slot]!.agent = [`Bot-${slot}`, `${turn}`];
      columns.touch(slot);
    }
    if (turn % 2 === 0) expect(columns.reader(READER, 0).nameLists!('agent')).not.toBeNull();
    else while (columns.prepare(() => true));
  }
  expect(columns.reader(READER, 0).nameLists!('agent')!.lists.length).toBeLessThan(8_192);
  expectSameAnswers(columns, runs);
});

it('columns are filled in advance, a limited number of runs at a time', () => {
  let read = 0;
  const runs = Array.from({ length: 3_000 }, (_, at): Run => ({ agent: [`Bot-${at % 9}`] }));
  const columns = new RunColumns<Run>(
    {
      reader: { ...READER, numbers: { cost: () => ++read } },
      statusOf: () => ({ status: 'ok', later: 'ok', later_ms: 0 }),
      keyOf: () => 0,
    },
    (slot) => runs[slot]!,
  );
  columns.follow(runs.length);
  let pieces = 0;
  for (let isMore = true; isMore; pieces++) {
    let left = 1;
    isMore = columns.prepare(() => left-- > 0);
  }
  expect(pieces).toBeGreaterThan(5);
  expect(read).toBe(runs.length);
  columns.reader({ ...READER, numbers: { cost: () => 0 } }, 0).numbers.cost!(7);
  expect(read).toBe(runs.length);
});
