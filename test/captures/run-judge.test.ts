/**
 * Every reader of a run gives the same verdict: the list, one run, a trace, a round, and the dashboard's list.
 */
import { describe, expect, it } from 'vitest';
import { CapturedRuns } from '../../src/captures/captured-runs.ts';
import { summarizeRun, summarizeRuns } from '../../src/captures/inspect.ts';
import { RunChains } from '../../src/captures/run-chains.ts';
import type { SaidOfRuns } from '../../src/captures/run-entry.ts';
import { describeRun, traceRun } from '../../src/captures/trace.ts';
import type { GoldenReason } from '../../src/domain/golden.ts';
import { NO_WORDS, type RunMark, type RunWords } from '../../src/domain/run-mark.ts';
import { parseRunQuery } from '../../src/domain/run-query/parse.ts';
import { ChangedIds } from '../../src/std/changed-ids.ts';
import { readAnsweredTurns } from '../../src/teaching/golden-run.ts';
import { MadeSource } from './made-run.ts';

const TASK = 'Make the tests of the parser pass.';
/** The words of every run. */
function saying(wordsOf: () => RunWords): SaidOfRuns {
  return {
    wordsOf,
    marksOf: wordsOf,
    reportedOf: () => undefined,
    reported: () => [],
    changes: new ChangedIds(),
    allReportedOf: () => [],
    findText: () => null,
  };
}

type Block = Record<string, unknown>;

const text = (words: string): Block => ({ type: 'text', text: words });
const call = (id: string, name: string, input: object): Block => ({ type: 'tool_use', id, name, input });
const result = (id: string, words: string, is_error = false): Block => ({
  type: 'tool_result',
  tool_use_id: id,
  content: words,
  is_error,
});

/** Adds a run turn by turn. Each request repeats the previous answer, or `echo` in its place. */
function addRun(
  source: MadeSource,
  run_id: string,
  turns: readonly { content: Block[]; echo?: Block[]; results?: Block[] }[],
  seqs = true,
): void {
  const messages: object[] = [{ role: 'user', content: TASK }];
  turns.forEach(({ content, echo = content, results = [] }, at) => {
    const request = { model: 'claude-x', system: 'You mend code.', messages: [...messages] };
    const isCall = content.some(({ type }) => type === 'tool_use');
    const response = {
      id: `msg_${at}`,
      type: 'message',
      role: 'assistant',
      model: 'claude-x',
      content,
      stop_reason: isCall ? 'tool_use' : 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    };
    source.add({ run_id, seq: seqs ? at + 1 : null, request, response });
    messages.push({ role: 'assistant', content: echo });
    messages.push({ role: 'user', content: results.length > 0 ? results : [text('Go on.')] });
  });
}

const READ = {
  content: [call('toolu_1', 'read', { path: 'parser.ts' })],
  results: [result('toolu_1', 'code')],
};
const DONE = { content: [text('The tests of the parser pass.')] };

/** Adds a run whose agent repeats a failing test and then claims success. */
function addLoop(source: MadeSource, runId: string): void {
  const failing = Array.from({ length: 14 }, (_, at) => ({
    content: [call(`toolu_${at}`, 'bash', { command: 'npm test' })],
    results: [result(`toolu_${at}`, 'FAIL parser.test.ts\nExpected 3, received 4\n1 failed', true)],
  }));
  addRun(source, runId, [...failing, { content: [text('All tests pass now. The parser is fixed.')] }]);
}

const codesOf = (reasons: readonly GoldenReason[]) => [...new Set(reasons.map(({ code }) => code))].sort();

/** Checks that all readers give the same verdict on a run, and returns it with its reasons. */
async function judgeEverywhere(source: MadeSource, runId: string, words: RunWords = NO_WORDS) {
  const chains = new RunChains();
  await chains.addAll(source);
  const run = chains.find(runId)!;
  const list = (await summarizeRuns(source, new Map([[runId, words]]))).runs.find(
    ({ run_id }) => run_id === runId,
  )!;
  const alone = summarizeRun(source, runId, words)!;
  const lines = [
    ...traceRun(source, chains, describeRun(source, chains, run)!, { words, hasFile: () => false }),
  ];
  const { provenance } = JSON.parse(lines.join(''));
  const turns = readAnsweredTurns(source, chains, run, words);
  let next = turns.next();
  while (next.done !== true) next = turns.next();
  const captured = new CapturedRuns({ said: saying(() => words) });
  for (const record of source.records) captured.add(record);
  const row = captured.row(source, runId, () => true, 0)!;
  const goldens = [list.golden, alone.golden, provenance.supports_universal_claims, row.golden];
  expect(new Set([...goldens, next.value.length === 0]).size, JSON.stringify([goldens, next.value])).toBe(1);
  expect(codesOf(provenance.reasons)).toEqual(codesOf(alone.reasons));
  // If the records alone exclude a run, some readers skip its bodies and report fewer reasons.
  for (const codes of [codesOf(list.reasons), codesOf(row.reasons), next.value])
    for (const code of codes) expect(codesOf(alone.reasons)).toContain(code);
  return { golden: alone.golden, codes: codesOf(alone.reasons), reasons: alone.reasons };
}

describe('a run', () => {
  it('whose steps continue each other is golden, labelled or not', async () => {
    for (const seqs of [true, false]) {
      const source = new MadeSource();
      addRun(source, 'run', [READ, DONE], seqs);
      expect(await judgeEverywhere(source, 'run')).toMatchObject({ golden: true, codes: [] });
    }
  });

  it('that repeats a failing test 14 times and then claims success is not golden', async () => {
    const source = new MadeSource();
    addLoop(source, 'run');
    const { codes, reasons } = await judgeEverywhere(source, 'run');
    expect(codes).toEqual(['monitor_fired']);
    const loop = reasons.find(({ words }) => words.startsWith('infinite_loop'));
    expect(loop!.words).toMatch(
      /^infinite_loop fired at \d of its last 5 steps \(exchange \d+\); 14 of its tool calls failed$/,
    );
  });

  it('whose answer the next request repeats with other arguments is not golden', async () => {
    const source = new MadeSource();
    const echo = [call('toolu_1', 'read', { path: 'lexer.ts' })];
    addRun(source, 'run', [{ ...READ, echo }, DONE]);
    const { codes, reasons } = await judgeEverywhere(source, 'run');
    expect(codes).toEqual(['reading_differs']);
    expect(reasons[0]!.difference).toEqual({
      exchange_id: 1,
      repeated_by: 2,
      read: 'read {"path":"parser.ts"} [toolu_1]',
      repeated: 'read {"path":"lexer.ts"} [toolu_1]',
    });
  });

  it('is golden if a person marks it good and its stored copy has no fault', async () => {
    const marked = (mark: RunMark): RunWords => ({ ...NO_WORDS, outcome: 'failure: Error', mark });
    const source = new MadeSource();
    addLoop(source, 'loop');
    expect(await judgeEverywhere(source, 'loop', marked('good'))).toMatchObject({ golden: true });
    expect((await judgeEverywhere(source, 'loop', marked('bad'))).codes).toContain('marked_bad');
    expect(
      (await judgeEverywhere(source, 'loop', { ...NO_WORDS, outcome: 'failure: Error' })).codes,
    ).toContain('outcome');
    const differs = new MadeSource();
    addRun(differs, 'run', [{ ...READ, echo: [call('toolu_1', 'read', {})] }, DONE]);
    expect((await judgeEverywhere(differs, 'run', marked('good'))).codes).toEqual(['reading_differs']);
  });

  it('that waits for a tool is unfinished, until a person marks it good', async () => {
    const source = new MadeSource();
    addRun(source, 'run', [READ]);
    expect((await judgeEverywhere(source, 'run')).codes).toEqual(['unfinished']);
    const good = await judgeEverywhere(source, 'run', { ...NO_WORDS, mark: 'good' });
    expect(good.golden).toBe(true);
  });
});

describe('the list of the dashboard', () => {
  it('reads the bodies of a run once, however often it is shown', () => {
    const source = new MadeSource();
    addRun(source, 'run', [READ, DONE]);
    const runs = new CapturedRuns();
    for (const record of source.records) runs.add(record);
    const show = () =>
      runs.page(source, { limit: 10, after: null, query: parseRunQuery(''), now_ms: 0 }, () => true).runs[0]!
        .golden;
    expect(show()).toBe(true);
    const { bodiesRead } = source;
    expect(bodiesRead).toBeGreaterThan(0);
    for (let again = 0; again < 5; again++) expect(show()).toBe(true);
    expect(source.bodiesRead).toBe(bodiesRead);
  });

  it('judges an excluded run again when a person marks it good', () => {
    const source = new MadeSource();
    addRun(source, 'run', [READ]);
    let mark: RunMark | null = null;
    const runs = new CapturedRuns({ said: saying(() => ({ ...NO_WORDS, mark })) });
    for (const record of source.records) runs.add(record);
    const show = () => runs.row(source, 'run', () => true, 0)!;
    expect(show()).toMatchObject({ golden: false, reasons: [{ code: 'unfinished' }] });
    mark = 'good';
    expect(show()).toMatchObject({ golden: true, reasons: [], overruled: [{ code: 'unfinished' }] });
    mark = null;
    expect(show()).toMatchObject({ golden: false, overruled: [] });
  });
});
