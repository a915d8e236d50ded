/** The list of relegation's steps: the decision, both answers, and pages that end when the time for them is over. */
import { expect, it } from 'vitest';
import type { RelegatedStepFilter } from '../../src/domain/captured-run.ts';
import { describeDecision } from '../../src/domain/relegation-words.ts';
import { UNCOVERED_REASONS } from '../../src/student/model/decision.ts';
import { FALLBACK_REASONS } from '../../src/student/serving/protocol.ts';
import { type RelegatedStep, RelegatedSteps } from '../../src/teaching/relegated-steps.ts';
import { MadeSource } from '../captures/made-run.ts';

const call = (order_id: string) => ({ type: 'tool_call', id: '', name: 'get_order', input: { order_id } });

function addStep(source: MadeSource, decision: string | null, answer: object[] | null, upstream = 'ORD-1') {
  const record = source.add({
    run_id: 'run',
    request: { model: 'm', messages: [{ role: 'user', content: 'Where is it?' }] },
    response: {
      id: 'msg',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [{ type: 'tool_use', id: 'toolu_1', name: 'get_order', input: { order_id: upstream } }],
      stop_reason: 'tool_use',
      usage: { input_tokens: 1, output_tokens: 1 },
    },
  });
  if (decision === null) return;
  record.relegation = { decision, student_version: 2, agent: 'a1', kind: 'get_order', score: 0.1, answer };
  if (decision === 'served') record.served_by = 'student';
}

function makeSource(): MadeSource {
  const source = new MadeSource();
  addStep(source, null, null);
  addStep(source, 'too_far', null);
  addStep(source, 'audit', [call('ORD-1')]);
  addStep(source, 'audit', [call('ORD-2')]);
  addStep(source, 'served', null);
  addStep(source, 'would_serve', [call('ORD-9')], 'ORD-8');
  addStep(source, 'timeout', null);
  return source;
}

function readAll(
  steps: RelegatedSteps,
  source: MadeSource,
  filter: RelegatedStepFilter,
  { limit = 10, hasTime = () => true }: { limit?: number; hasTime?: (found: number) => boolean } = {},
): { found: RelegatedStep[]; pages: number } {
  const found: RelegatedStep[] = [];
  let before: number | null = null;
  for (let pages = 1; ; pages++) {
    const page = steps.page(source, source.records.length, { limit, before, filter }, hasTime);
    expect(page.steps.length).toBeLessThanOrEqual(limit);
    found.push(...page.steps);
    if (page.next === null) return { found, pages };
    before = page.next;
  }
}

const idsOf = (found: RelegatedStep[]) => found.map(({ exchange_id }) => exchange_id);

it.each<[NonNullable<RelegatedStepFilter['outcome']> | 'any', number[]]>([
  ['any', [7, 6, 5, 4, 3, 2]],
  ['refused', [7, 2]],
  ['compared', [6, 4, 3]],
  ['disagreed', [6, 4]],
  ['served', [5]],
])(
  'the list has the steps with the outcome %s, newest first, with pages of any size and in any amount of time',
  (outcome, ids) => {
    const filter = outcome === 'any' ? {} : { outcome };
    for (const limit of [1, 2, 10])
      for (const hasTime of [() => true, () => false]) {
        const source = makeSource();
        const steps = new RelegatedSteps();
        const first = readAll(steps, source, filter, { limit, hasTime });
        expect(idsOf(first.found)).toEqual(ids);
        // Results are cached, so the second reading returns the same.
        const again = readAll(steps, source, filter, { limit, hasTime });
        expect(again.found).toEqual(first.found);
      }
  },
);

it('both answers are shown side by side, differing values first', () => {
  const { found } = readAll(new RelegatedSteps(), makeSource(), { outcome: 'disagreed' });
  expect(found[0]!.comparison).toEqual({
    agree: false,
    reading_differs: false,
    values: [
      { place: 'call 1.order_id', student: 'ORD-9', upstream: 'ORD-8' },
      { place: 'call 1', student: 'get_order', upstream: 'get_order' },
    ],
  });
  expect(found[1]!.relegation).toEqual({
    decision: 'audit',
    words: 'the student would have served it, but an audit compares the upstream’s answer',
    remedy: 'would be served if it was not audited: GW_RELEGATION_AUDIT sets the share of audits',
    student_version: 2,
    agent: 'a1',
    kind: 'get_order',
    score: 0.1,
  });
});

it('a search takes longer while a page is empty, so that a rare outcome takes few pages', () => {
  const mayBeEmpty = (found: number) => found === 0;
  const { found, pages } = readAll(
    new RelegatedSteps(),
    makeSource(),
    { outcome: 'served' },
    { hasTime: mayBeEmpty },
  );
  expect(idsOf(found)).toEqual([5]);
  expect(pages).toBe(2);
  expect(
    readAll(new RelegatedSteps(), makeSource(), { outcome: 'served' }, { hasTime: () => false }).pages,
  ).toBe(7);
});

it('a search reads a limited number of exchanges, the newest', () => {
  const { found } = readAll(new RelegatedSteps(3), makeSource(), {});
  expect(idsOf(found)).toEqual([7, 6, 5]);
});

it('every stored decision has an explanation', () => {
  for (const reason of [...FALLBACK_REASONS, ...UNCOVERED_REASONS])
    expect(describeDecision(reason), reason).not.toBeNull();
});

it('each exchange is examined once, in advance, so that a page finds a rare decision at once', () => {
  const source = new MadeSource();
  for (let at = 0; at < 700; at++) {
    if (at === 300) addStep(source, 'served', null);
    else source.add({ run_id: 'run' });
  }
  const read: number[] = [];
  const exchange = source.exchange.bind(source);
  source.exchange = (id) => {
    read.push(id);
    return exchange(id);
  };
  const steps = new RelegatedSteps();
  let left = 400;
  expect(steps.readAhead(source, 700, () => left-- > 0)).toBe(true);
  expect(read).toHaveLength(400);
  while (steps.readAhead(source, 700, () => true));
  expect(new Set(read).size).toBe(700);
  expect(read).toHaveLength(700);
  const { found } = readAll(steps, source, {});
  expect(idsOf(found)).toEqual([301]);
  // A page reads only the exchanges that it shows.
  expect(read.slice(700)).toEqual([301]);
});
