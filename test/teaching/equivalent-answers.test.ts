/** Wordings, unused arguments and paths that golden runs show to be interchangeable. */

import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../src/search/exact-index.ts';
import type { AnswerDigest } from '../../src/student/model/answer.ts';
import { hashString } from '../../src/student/model/json-values.ts';
import type { LearnedStep } from '../../src/student/model/learned-step.ts';
import { Student } from '../../src/student/model/student.ts';
import type { StudentAgent } from '../../src/student/model/student-model.ts';
import { findFreeArguments } from '../../src/teaching/free-arguments.ts';
import { fitStudent } from '../../src/teaching/student-fit.ts';
import { callAnswer, called, digest, textAnswer, tool, user } from '../student/model/made-steps.ts';

const TOOLS = { tools: ['get_order', 'get_customer', 'refund', 'note', 'search'].map(tool) };

/** A call with its result, or a last text. */
type Turn = { name: string; input: Record<string, unknown>; result: unknown } | string;

/** The steps of a run. */
function makeRun(run: string, task: string, turns: readonly Turn[]): LearnedStep[] {
  const messages = [user(task)];
  return turns.map((turn) => {
    const step = digest(messages, TOOLS);
    const answer: AnswerDigest =
      typeof turn === 'string' ? textAnswer(turn) : callAnswer(turn.name, turn.input);
    if (typeof turn !== 'string')
      messages.push(...called(turn.name, turn.input, JSON.stringify(turn.result)));
    return { run_id: run, step, answer };
  });
}

function makeStudent(steps: readonly LearnedStep[]): Student {
  return new Student(fitStudent(steps), (dimensions) => new ExactIndex(dimensions));
}

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const REASONS = [
  'Customer was unhappy with the item',
  'The item did please few at home',
  'Came back within the return window',
  'Wanted the money back for it',
];
const orderOf = (i: number): string => `ORD-${4_000 + 7 * i}`;

/** Refunds with a reason in varied words, closed by a text whose wording changes independently. */
function refundRun(i: number): LearnedStep[] {
  const order = orderOf(i);
  return makeRun(`run-${i}`, `Refund ${order}.`, [
    {
      name: 'get_order',
      input: { order_id: order },
      result: { order_id: order, total: 20 + i, state: 'delivered' },
    },
    {
      name: 'refund',
      input: { order_id: order, amount: 20 + i, reason: REASONS[(i * 7) % 4]! },
      result: { state: 'sent' },
    },
    i % 3 === 0
      ? `The refund for ${order} is on its way.`
      : `${order}: I have returned ${20 + i} to the customer.`,
  ]);
}

describe('an argument that nothing reads', () => {
  it('is prose that changes while the result does not', () => {
    const steps = range(20).flatMap((i) => refundRun(i));
    expect(findFreeArguments(steps)).toEqual([['refund', 'reason']]);
  });

  it('is free even if the step has words that name a field of the result', () => {
    const steps = range(20).flatMap((i) =>
      makeRun(`run-${i}`, i % 2 === 0 ? `Has ${orderOf(i)} closed?` : `Look at ${orderOf(i)}.`, [
        {
          name: 'note',
          input: { order_id: orderOf(i), text: REASONS[(i * 7) % 4]! },
          result: { closed: true },
        },
        'Done.',
      ]),
    );
    expect(findFreeArguments(steps)).toEqual([['note', 'text']]);
  });

  it('does not exist if the result depends on it, if it is a value, or if it is code', () => {
    const steps = range(20).flatMap((i) => {
      const order = orderOf(i);
      const words = REASONS[i % 4]!;
      return makeRun(`run-${i}`, `Look into ${order}.`, [
        { name: 'search', input: { words }, result: { found: [`page ${i % 4} tells what`, i] } },
        {
          name: 'note',
          input: { text: `x${i}`, command: `rm the file called ${i}`, steps: `run(${i}); then stop it` },
          result: {},
        },
        {
          name: 'refund',
          input: { to: `the customer number ${i} of ours`, reason: 'always in the same words' },
          result: {},
        },
        'Done.',
      ]);
    });
    expect(findFreeArguments(steps)).toEqual([]);
  });

  it('may be worded as in any golden run, and all else must be equal', () => {
    const student = makeStudent(range(24).flatMap((i) => refundRun(i)));
    const [, refund] = refundRun(50);
    const proposal = student.propose(refund!.step);
    const order_id = orderOf(50);
    const other = (over: Record<string, unknown>): boolean =>
      student.agrees(
        refund!.step,
        proposal,
        callAnswer('refund', { order_id, amount: 70, reason: REASONS[1], ...over }).content,
      );
    expect(proposal.answer?.content[0]).toMatchObject({ name: 'refund', input: { order_id, amount: 70 } });
    expect(REASONS).toContain((proposal.answer!.content[0] as { input: { reason: string } }).input.reason);
    expect(REASONS.map((reason) => other({ reason }))).toEqual([true, true, true, true]);
    expect(other({ amount: 71 })).toBe(false);
    expect(other({ order_id: orderOf(3) })).toBe(false);
  });
});

describe('an argument that calls may leave out', () => {
  const WISHES = [
    'A quiet seat would be nice',
    'near the window if possible',
    'no early train',
    'Please keep it cheap',
  ];
  /** A call with or without a note. With `isTold`, the step says whether there is a note. */
  const noteRun = (i: number, isTold: boolean, state = () => 'kept'): LearnedStep[] => {
    const hasText = (i * 7) % 5 < 2;
    const order = orderOf(i);
    const text = `${WISHES[(i * 3) % 4]!}${' indeed'.repeat((i * 5) % 7)}`;
    return makeRun(`run-${i}`, `Note ${order}${isTold && hasText ? ' with a wish' : ''}.`, [
      { name: 'note', input: { order_id: order, ...(hasText ? { text } : {}) }, result: { state: state() } },
      { name: 'get_order', input: { order_id: order }, result: { order_id: order } },
      'Done.',
    ]);
  };
  const areSame = (steps: readonly LearnedStep[]): boolean[] => {
    const student = makeStudent(steps);
    const [step] = noteRun(91, false);
    const proposal = student.propose(step!.step);
    const order_id = orderOf(91);
    return [{ order_id }, { order_id, text: WISHES[0] }, { order_id: orderOf(3) }].map((input) =>
      student.agrees(step!.step, proposal, callAnswer('note', input).content),
    );
  };

  it('may be there or not, and all else must be equal', () => {
    const steps = range(60).flatMap((i) => noteRun(i, false));
    expect(findFreeArguments(steps)).toEqual([['note', 'text', 'optional']]);
    expect(areSame(steps)).toEqual([true, true, false]);
  });

  it('must be as in golden runs if the step says it', () => {
    expect(areSame(range(60).flatMap((i) => noteRun(i, true))).filter(Boolean).length).toBeLessThanOrEqual(1);
  });

  it('must be present if the result depends on it', () => {
    let calls = 0;
    const steps = range(60).flatMap((i) =>
      noteRun(i, false, () => ((i * 7) % 5 < 2 ? 'kept' : `none ${calls++ % 3}`)),
    );
    expect(findFreeArguments(steps)).toEqual([['note', 'text']]);
    expect(areSame(steps).filter(Boolean).length).toBeLessThanOrEqual(1);
  });
});

describe('wordings', () => {
  it('are one answer if nothing in the step distinguishes them', () => {
    const student = makeStudent(range(24).flatMap((i) => refundRun(i)));
    const last = refundRun(51)[2]!;
    const proposal = student.propose(last.step);
    expect(proposal.doubts!.disagreement).toBeLessThan(0.1);
    for (const i of [51, 52]) {
      const text = (refundRun(i)[2]!.answer.content[0] as { text: string }).text;
      const own = text.replaceAll(orderOf(i), orderOf(51)).replace(String(20 + i), '71');
      expect(student.agrees(last.step, proposal, textAnswer(own).content)).toBe(true);
    }
    const wrong = `${orderOf(51)}: I have returned 72 to the customer.`;
    expect(student.agrees(last.step, proposal, textAnswer(wrong).content)).toBe(false);
  });

  it('are different answers if they follow from the step', () => {
    const makeNoted = (i: number): LearnedStep[] => {
      const order = orderOf(i);
      const isLate = i % 2 === 0;
      return makeRun(`run-${i}`, `Look at ${order}.`, [
        {
          name: 'get_order',
          input: { order_id: order },
          result: { order_id: order, state: isLate ? 'late' : 'here' },
        },
        isLate ? `Order ${order} will come on another day.` : `Order ${order} lies at the desk.`,
      ]);
    };
    const student = makeStudent(range(24).flatMap(makeNoted));
    const [late, here] = [makeNoted(60)[1]!, makeNoted(61)[1]!];
    const proposal = student.propose(late.step);
    expect(student.agrees(late.step, proposal, late.answer.content)).toBe(true);
    const other = (here.answer.content[0] as { text: string }).text.replace(orderOf(61), orderOf(60));
    expect(student.agrees(late.step, proposal, textAnswer(other).content)).toBe(false);
  });
});

it('texts that name the content of other steps are never the answer', () => {
  const errors = ['disk full', 'no memory left', 'connection lost'];
  const makeAlert = (i: number): LearnedStep[] => {
    const error = errors[(i * 7) % 3]!;
    const id = orderOf(i);
    return makeRun(`run-${i}`, `Look at ${id}.`, [
      { name: 'search', input: { id }, result: { id, error } },
      i % 2 === 0 ? `Alert ${id} came from this: ${error}.` : `${id} was raised because of ${error}.`,
    ]);
  };
  const student = makeStudent(range(30).flatMap(makeAlert));
  for (const i of range(12)) {
    const [, last] = makeAlert(40 + i);
    const said = JSON.stringify(student.propose(last!.step).answer?.content ?? errors[((40 + i) * 7) % 3]);
    expect(said).toContain(errors[((40 + i) * 7) % 3]);
  }
});

it('a word belongs to the step if texts use it because the step has it, not by chance', () => {
  const listGrounded = (says: (i: number) => boolean): number[] => {
    const steps = range(40).flatMap((i) => {
      const words = i % 2 === 0 ? 'It broke, as expected.' : 'It broke.';
      const text = says(i)
        ? `We sent the expected refund for ${orderOf(i)}.`
        : `We sent a refund for ${orderOf(i)}.`;
      const refund = { name: 'refund', input: { order_id: orderOf(i) }, result: { state: 'sent' } };
      return makeRun(`run-${i}`, `Refund ${orderOf(i)}. ${words}`, [refund, text]);
    });
    const [agent] = fitStudent(steps).groups as unknown as StudentAgent[];
    const last = agent!.stages.find(({ stage }) => stage === 'refund')!;
    return last.wordings!.flatMap(({ grounded }) => grounded);
  };
  const word = hashString('expected');
  expect(listGrounded((i) => i % 2 === 0)).toContain(word);
  // Half of the steps have the word, and so do all four steps whose texts use it.
  expect(listGrounded((i) => i % 10 === 0)).not.toContain(word);
});

it('texts that give different reasons are different answers', () => {
  const makeFixed = (i: number): LearnedStep[] => {
    const id = orderOf(i);
    const isLimit = (i * 7) % 4 < 2;
    const code = `the function that was looked at is this: return a ${isLimit ? '<' : '+'} b; and it has ${i} callers`;
    return makeRun(`run-${i}`, `Look at ${id}.`, [
      { name: 'search', input: { id }, result: { id, code } },
      isLimit ? `${id} left out the largest value.` : `${id} skipped what comes at the beginning.`,
    ]);
  };
  const student = makeStudent(range(40).flatMap(makeFixed));
  for (const i of range(8)) {
    const [, last] = makeFixed(50 + i);
    const proposal = student.propose(last!.step);
    const other = makeFixed(50 + i + 2)[1]!;
    const text = (other.answer.content[0] as { text: string }).text.replace(orderOf(52 + i), orderOf(50 + i));
    const mine = (last!.answer.content[0] as { text: string }).text;
    expect(text).not.toBe(mine);
    const both = [mine, text].map((said) => student.agrees(last!.step, proposal, textAnswer(said).content));
    expect(both.filter(Boolean).length).toBeLessThanOrEqual(1);
  }
});

describe('two paths', () => {
  const look = (name: string, id: string): Turn => ({ name, input: { id }, result: { id, found: true } });

  /** A run with two independent lookups in either order. */
  function eitherRun(i: number, isTold = false): LearnedStep[] {
    const order = orderOf(i);
    const isFirst = (i * 5) % 8 < 4;
    const looks = [look('get_order', order), look('get_customer', order)];
    const task = isTold ? `Look at ${order}, ${isFirst ? 'goods' : 'buyer'} first.` : `Look at ${order}.`;
    return makeRun(`run-${i}`, task, [...(isFirst ? looks : looks.reverse()), `Looked at ${order}.`]);
  }

  it('are one answer if runs make calls in either order', () => {
    const student = makeStudent(range(32).flatMap((i) => eitherRun(i)));
    const [first] = eitherRun(70);
    const proposal = student.propose(first!.step);
    expect(proposal.doubts!.disagreement).toBeLessThan(0.1);
    for (const name of ['get_order', 'get_customer'])
      expect(student.agrees(first!.step, proposal, callAnswer(name, { id: orderOf(70) }).content)).toBe(true);
    expect(student.agrees(first!.step, proposal, callAnswer('get_order', { id: orderOf(2) }).content)).toBe(
      false,
    );
    expect(student.agrees(first!.step, proposal, callAnswer('refund', { id: orderOf(70) }).content)).toBe(
      false,
    );
  });

  it('are two answers if the step says which comes first', () => {
    const student = makeStudent(range(32).flatMap((i) => eitherRun(i, true)));
    const told = eitherRun(70, true)[0]!;
    const proposal = student.propose(told.step);
    expect(student.agrees(told.step, proposal, told.answer.content)).toBe(true);
    const [other] = proposal.answer!.content.map((block) =>
      (block as { name: string }).name === 'get_order' ? 'get_customer' : 'get_order',
    );
    expect(student.agrees(told.step, proposal, callAnswer(other!, { id: orderOf(70) }).content)).toBe(false);
  });

  /** Some runs make the last call at once; others first make the named one. */
  function shortRun(i: number, first: string): LearnedStep[] {
    const order = orderOf(i);
    const pay: Turn = { name: 'refund', input: { id: order }, result: { ok: true } };
    const turns = (i * 5) % 8 < 5 ? [look(first, order), pay] : [pay];
    return makeRun(`run-${i}`, `Refund ${order}.`, [...turns, `Refunded ${order}.`]);
  }

  it('are one answer if some runs omit a lookup; the student then makes the lookup', () => {
    const student = makeStudent(range(40).flatMap((i) => shortRun(i, 'get_order')));
    const [first] = shortRun(70, 'get_order');
    const proposal = student.propose(first!.step);
    expect(proposal.answer!.content[0]).toMatchObject({ name: 'get_order' });
    expect(student.agrees(first!.step, proposal, callAnswer('refund', { id: orderOf(70) }).content)).toBe(
      true,
    );
  });

  it('are two answers if some runs omit a call that is not a lookup', () => {
    const student = makeStudent(range(40).flatMap((i) => shortRun(i, 'note')));
    const [first] = shortRun(70, 'note');
    const proposal = student.propose(first!.step);
    expect(student.agrees(first!.step, proposal, callAnswer('refund', { id: orderOf(70) }).content)).toBe(
      false,
    );
  });

  it('are two answers if runs take one or the other', () => {
    const oneOf = (i: number): LearnedStep[] => {
      const order = orderOf(i);
      const name = (i * 5) % 8 < 4 ? 'refund' : 'note';
      return makeRun(`run-${i}`, `Handle ${order}.`, [
        { name, input: { id: order }, result: { ok: true } },
        `Handled ${order}.`,
      ]);
    };
    const student = makeStudent(range(40).flatMap(oneOf));
    const [first] = oneOf(70);
    const proposal = student.propose(first!.step);
    const both = ['refund', 'note'].map((name) =>
      student.agrees(first!.step, proposal, callAnswer(name, { id: orderOf(70) }).content),
    );
    expect(both.filter(Boolean)).toHaveLength(1);
  });
});

describe('another path', () => {
  const looked = { name: 'get_order', result: { found: true } };
  /** All calls of an answer at once. */
  type Calls = readonly { name: string; input: Record<string, unknown>; result: unknown }[];

  function makeParallel(i: number, answers: readonly Calls[]): LearnedStep[] {
    const messages = [user(`Look at ${orderOf(i)}.`)];
    const steps = answers.map((calls): LearnedStep => {
      const content = calls.flatMap(({ name, input }) => callAnswer(name, input).content);
      const learned = {
        run_id: `run-${i}`,
        step: digest(messages, TOOLS),
        answer: { ...callAnswer('', {}), content },
      };
      for (const { name, input, result } of calls)
        messages.push(...called(name, input, JSON.stringify(result)));
      return learned;
    });
    return [...steps, { run_id: `run-${i}`, step: digest(messages, TOOLS), answer: textAnswer('Looked.') }];
  }

  /** @returns whether each of these answers is equivalent to the one that the student proposes first */
  function judge(makeOne: (i: number) => LearnedStep[], others: readonly AnswerDigest['content'][]) {
    const student = makeStudent(range(60).flatMap(makeOne));
    const [first] = makeOne(99);
    const proposal = student.propose(first!.step);
    const agrees = others.map((other) => student.agrees(first!.step, proposal, other));
    return { content: proposal.answer?.content, agrees };
  }

  const of = (i: number, name: string, more: Record<string, unknown> = {}) => {
    const input = { id: orderOf(i), ...more };
    return { ...looked, name, input };
  };
  const both = (...names: string[]): AnswerDigest['content'] =>
    names.flatMap((name) => callAnswer(name, { id: orderOf(99) }).content);

  it('is the same answer if it makes the same calls and only adds lookups', () => {
    // Nothing in the step determines which customer is looked up.
    const look = (i: number) => of(i, 'get_customer', { id: `C-${(i * 37) % 101}` });
    const makeOne = (i: number): LearnedStep[] =>
      makeParallel(i, [i % 12 === 5 ? [of(i, 'note'), look(i)] : [of(i, 'note')], [of(i, 'search')]]);
    const { content, agrees } = judge(makeOne, [
      both('note', 'get_customer'),
      both('get_customer', 'note'),
      both('note', 'refund'),
      both('get_customer'),
    ]);
    expect(content).toMatchObject([{ name: 'note' }]);
    expect(agrees).toEqual([true, true, false, false]);
  });

  it('is the same answer if simultaneous calls are in another order', () => {
    const makeOne = (i: number): LearnedStep[] => {
      const looks = [of(i, 'get_order'), of(i, 'get_customer')];
      return makeParallel(i, [(i * 5) % 8 < 4 ? looks : looks.reverse(), [of(i, 'search')]]);
    };
    const { content, agrees } = judge(makeOne, [
      both('get_order', 'get_customer'),
      both('get_customer', 'get_order'),
    ]);
    // The calls have the same order in each round, so that their evidence belongs to one kind of answer.
    expect(content).toMatchObject([{ name: 'get_customer' }, { name: 'get_order' }]);
    expect(agrees).toEqual([true, true]);
  });

  it('is the same answer if a lookup differs only in how much it shows', () => {
    const limits = [{ limit: 20 }, { limit: 50 }, {}];
    const makeOne = (i: number): LearnedStep[] =>
      makeParallel(i, [[of(i, 'search', limits[(i * 7) % 3])], [of(i, 'note')]]);
    const search = (input: Record<string, unknown>) =>
      callAnswer('search', { id: orderOf(99), ...input }).content;
    const { agrees } = judge(makeOne, [
      search({ limit: 20 }),
      search({ limit: 50 }),
      search({}),
      search({ limit: 20, id: orderOf(1) }),
    ]);
    expect(agrees).toEqual([true, true, true, false]);
  });

  it('is another answer if the step names how much the lookup shows', () => {
    const makeOne = (i: number): LearnedStep[] =>
      makeParallel(i, [[of(i, 'search', { limit: 20 })], [of(i, 'note')]]);
    const student = makeStudent(range(60).flatMap(makeOne));
    const agrees = (task: string, limit: number): boolean => {
      const step = digest([user(task)], TOOLS);
      const content = callAnswer('search', { id: orderOf(99), limit }).content;
      return student.agrees(step, student.propose(step), content);
    };
    // No golden run has these limits.
    expect([30, 70].map((limit) => agrees(`Look at ${orderOf(99)}.`, limit))).toEqual([true, true]);
    expect([30, 70].map((limit) => agrees(`Look at ${orderOf(99)}, 70 results.`, limit))).toEqual([
      true,
      false,
    ]);
    const note = callAnswer('note', { id: orderOf(99), limit: 20 }).content;
    const [noted] = makeOne(99);
    expect(student.agrees(noted!.step, student.propose(noted!.step), note)).toBe(false);
  });

  it('is the same answer if few runs omit a lookup', () => {
    const makeLook = (i: number): LearnedStep[] =>
      makeParallel(i, [...(i % 12 === 5 ? [] : [[of(i, 'get_order')]]), [of(i, 'note')], [of(i, 'search')]]);
    const looks = judge(makeLook, [both('note'), both('refund')]);
    expect(looks.content).toMatchObject([{ name: 'get_order' }]);
    expect(looks.agrees).toEqual([true, false]);
  });

  it('is the same answer if it uses another lookup and continues alike, and another answer if not', () => {
    const makeOne = (isAlike: boolean) => (i: number) => {
      const isOther = (i * 5) % 12 < 3;
      const end = isAlike || !isOther ? 'note' : 'refund';
      return makeParallel(i, [
        [of(i, isOther ? 'get_customer' : 'get_order')],
        [of(i, end)],
        [of(i, 'search', { of: end })],
      ]);
    };
    expect(judge(makeOne(true), [both('get_order'), both('get_customer')]).agrees).toEqual([true, true]);
    expect(judge(makeOne(false), [both('get_order'), both('get_customer')]).agrees).toEqual([true, false]);
  });

  it('is another answer if runs with the other lookup use fewer tools that change something', () => {
    const makeOne =
      (isAlike: boolean) =>
      (i: number): LearnedStep[] => {
        const isOther = i % 2 === 1;
        const refunds = i % 6 === 0 || (isAlike && i % 6 === 1);
        return makeParallel(i, [
          [of(i, isOther ? 'get_customer' : 'get_order')],
          ...(refunds ? [[of(i, 'refund')]] : []),
          [of(i, 'note')],
        ]);
      };
    const answers = [both('get_order'), both('get_customer')];
    expect(judge(makeOne(true), answers).agrees).toEqual([true, true]);
    expect(judge(makeOne(false), answers).agrees.filter(Boolean)).toHaveLength(1);
  });

  it('is the same answer if few runs first make another lookup; the student then makes the usual one', () => {
    const makeOne = (i: number): LearnedStep[] =>
      makeParallel(i, [...(i % 6 === 5 ? [[of(i, 'search')]] : []), [of(i, 'get_order')], [of(i, 'note')]]);
    const { content, agrees } = judge(makeOne, [both('get_order'), both('search')]);
    expect(content).toMatchObject([{ name: 'get_order' }]);
    expect(agrees).toEqual([true, true]);
  });

  it('is the same answer if few runs first make another lookup, each in different words', () => {
    const words = (i: number) => of(i, 'search', { words: `page ${(i * 37) % 101}` });
    const makeOne = (i: number): LearnedStep[] =>
      makeParallel(i, [...(i % 12 === 5 ? [[words(i)]] : []), [of(i, 'get_order')], [of(i, 'note')]]);
    const { content, agrees } = judge(makeOne, [
      callAnswer('search', { words: 'something else' }).content,
      [...both('get_order'), ...callAnswer('search', { words: 'something else' }).content],
      callAnswer('get_order', { id: orderOf(1) }).content,
      [...both('get_order'), ...callAnswer('get_order', { id: orderOf(1) }).content],
      both('note'),
      both('get_customer'),
    ]);
    expect(content).toMatchObject([{ name: 'get_order' }]);
    expect(agrees).toEqual([true, true, false, true, false, false]);
  });

  it('is the same answer if enough runs make another lookup instead, each in different words', () => {
    const words = (i: number) => of(i, 'search', { words: `page ${(i * 37) % 101}` });
    const makeOne =
      (runs: number, end: string) =>
      (i: number): LearnedStep[] => {
        const isOther = i % 12 === 5 && i < 12 * runs;
        return makeParallel(i, [
          [isOther ? words(i) : of(i, 'get_order')],
          [of(i, isOther ? end : 'note')],
          [of(i, 'get_customer')],
        ]);
      };
    const other = [callAnswer('search', { words: 'something else' }).content];
    expect(judge(makeOne(5, 'note'), other).agrees).toEqual([true]);
    expect(judge(makeOne(3, 'note'), other).agrees).toEqual([false]);
    expect(judge(makeOne(5, 'refund'), other).agrees).toEqual([false]);
  });

  it('is another answer if runs that make another lookup instead use fewer tools that change something', () => {
    const makeOne =
      (isAlike: boolean) =>
      (i: number): LearnedStep[] => {
        const isOther = i % 5 === 2;
        const search = of(i, 'search', { words: `page ${(i * 37) % 101}` });
        const refunds = isAlike ? (i * 7) % 4 < 2 : i % 5 < 2;
        return makeParallel(i, [
          [isOther ? search : of(i, 'get_order')],
          ...(refunds ? [[of(i, 'refund')]] : []),
          [of(i, 'note')],
        ]);
      };
    const other = [callAnswer('search', { words: 'something else' }).content];
    expect([true, false].map((isAlike) => judge(makeOne(isAlike), other).agrees[0])).toEqual([true, false]);
  });

  it('is the same answer if two runs make another lookup instead of one that takes no arguments', () => {
    const words = (i: number) => of(i, 'search', { words: `page ${(i * 37) % 101}` });
    const makeOne =
      (runs: number, end: string, input: Record<string, unknown> = {}) =>
      (i: number): LearnedStep[] => {
        const isOther = i % 12 === 5 && i < 12 * runs;
        return makeParallel(i, [
          [isOther ? words(i) : { name: 'get_order', input, result: { found: true } }],
          [of(i, isOther ? end : 'note')],
          [of(i, 'get_customer')],
        ]);
      };
    const other = [callAnswer('search', { words: 'something else' }).content];
    expect(judge(makeOne(2, 'note'), other).agrees).toEqual([true]);
    expect(judge(makeOne(1, 'note'), other).agrees).toEqual([false]);
    expect(judge(makeOne(2, 'refund'), other).agrees).toEqual([false]);
    expect(judge(makeOne(2, 'note', { all: true }), other).agrees).toEqual([false]);
  });

  it('is the same answer if nearly all runs that start with another lookup make the usual one next', () => {
    const words = (i: number) => of(i, 'search', { words: `page ${(i * 37) % 101}` });
    const makeOne =
      (made: number) =>
      (i: number): LearnedStep[] => {
        const isOther = i % 12 === 5;
        const later = isOther && Math.floor(i / 12) >= made ? [] : [[of(i, 'get_order')]];
        return makeParallel(i, [
          ...(isOther ? [[words(i)], ...later] : [[of(i, 'get_order')]]),
          [of(i, 'note')],
          [of(i, 'get_customer')],
        ]);
      };
    const other = [callAnswer('search', { words: 'something else' }).content];
    expect(judge(makeOne(5), other).agrees).toEqual([true]);
    expect(judge(makeOne(4), other).agrees).toEqual([true]);
    expect(judge(makeOne(2), other).agrees).toEqual([false]);
  });

  it('is another answer if the argument that differs is an amount, or if the tool does more than look up', () => {
    for (const [name, key] of [
      ['search', 'amount'],
      ['note', 'limit'],
    ] as const) {
      const makeOne = (i: number): LearnedStep[] =>
        makeParallel(i, [[of(i, name, { [key]: [20, 50][(i * 5) % 8 < 4 ? 0 : 1] })], [of(i, 'get_order')]]);
      const { agrees } = judge(
        makeOne,
        [20, 50].map((value) => callAnswer(name, { id: orderOf(99), [key]: value }).content),
      );
      expect(agrees.filter(Boolean).length).toBeLessThanOrEqual(1);
    }
  });

  it('is another answer if the step says so', () => {
    const makeOne = (i: number): LearnedStep[] => {
      const isTold = i % 6 === 3;
      const steps = makeParallel(i, [
        [of(i, 'get_order')],
        isTold ? [of(i, 'note'), of(i, 'get_customer')] : [of(i, 'note')],
        [of(i, 'search')],
      ]);
      // The result of the first lookup.
      const messages = [
        user(`Look at ${orderOf(i)}.`),
        ...called('get_order', { id: orderOf(i) }, JSON.stringify({ flag: isTold ? 'vip' : 'plain' })),
      ];
      return [steps[0]!, { ...steps[1]!, step: digest(messages, TOOLS) }, ...steps.slice(2)];
    };
    const student = makeStudent(range(60).flatMap(makeOne));
    const [, told] = makeOne(99);
    const [, plain] = makeOne(100);
    const own = (i: number, ...names: string[]) =>
      names.flatMap((name) => callAnswer(name, { id: orderOf(i) }).content);
    expect(student.propose(told!.step).answer?.content).toMatchObject([
      { name: 'note' },
      { name: 'get_customer' },
    ]);
    const proposal = student.propose(plain!.step);
    expect(proposal.answer?.content).toMatchObject([{ name: 'note' }]);
    expect(student.agrees(plain!.step, proposal, own(100, 'note', 'get_customer'))).toBe(false);
  });

  it('is another answer if it omits a call that changes something', () => {
    const makeOne = (i: number): LearnedStep[] =>
      makeParallel(i, [i % 12 === 5 ? [of(i, 'note'), of(i, 'refund')] : [of(i, 'note')], [of(i, 'search')]]);
    const { content, agrees } = judge(makeOne, [both('note', 'refund')]);
    expect(content).toMatchObject([{ name: 'note' }]);
    expect(agrees).toEqual([false]);
  });
});

describe('a lookup by another key', () => {
  const emailOf = (i: number): string => `buyer${(i * 37) % 9_973}@shop.example`;
  const numberOf = (i: number): string => `C-${20_000 + 13 * i}`;
  const isByNumber = (i: number): boolean => i % 7 === 3;
  type Find = (i: number, query: string) => unknown;
  const record = (i: number) => ({ number: numberOf(i), email: emailOf(i), city: 'Ghent' });

  /** One run in seven searches by the customer's number, the others by the e-mail address. */
  function makeOne(i: number, name: string, find: Find): LearnedStep[] {
    const query = isByNumber(i) ? numberOf(i) : emailOf(i);
    return makeRun(`run-${i}`, `Mail from ${emailOf(i)}, customer ${numberOf(i)}.`, [
      { name, input: { query }, result: find(i, query) },
      { name: 'refund', input: { customer: numberOf(i) }, result: { ok: true } },
      'Done.',
    ]);
  }

  /** @returns whether a search for this text is equivalent to the student's search */
  function judge(query: string, find: Find, name = 'search'): boolean {
    const student = makeStudent(range(60).flatMap((i) => makeOne(i, name, find)));
    const [first] = makeOne(99, name, find);
    const proposal = student.propose(first!.step);
    expect(proposal.answer!.content).toMatchObject([{ name, input: { query: emailOf(99) } }]);
    return student.agrees(first!.step, proposal, callAnswer(name, { query }).content);
  }

  it('is the same answer if the found record has both keys', () => {
    expect(judge(numberOf(99), (i) => [record(i)])).toBe(true);
    expect(judge(numberOf(99), (i) => ({ total: 1, customers: [record(i)] }))).toBe(true);
    expect(judge(numberOf(98), (i) => [record(i)])).toBe(false);
  });

  it('is the same answer although some searches find nothing', () => {
    const find: Find = (i, query) => (i % 10 === 0 && query === emailOf(i) ? [] : [record(i)]);
    expect(judge(numberOf(99), find)).toBe(true);
  });

  it('is another answer if a search finds several records, or the record lacks the key', () => {
    const several: Find = (i, query) =>
      query === numberOf(i) ? [record(i), { ...record(i), city: 'Bruges' }] : [record(i)];
    const lacking: Find = (i, query) => [
      query === numberOf(i) ? { ...record(i), email: 'unknown' } : record(i),
    ];
    expect([several, lacking].map((find) => judge(numberOf(99), find))).toEqual([false, false]);
  });

  it('is another answer if the record names the usual key in a field by which no run searched', () => {
    const find: Find = (i, query) => [
      query === numberOf(i) ? { number: numberOf(i), parent: emailOf(i) } : record(i),
    ];
    expect(judge(numberOf(99), find)).toBe(false);
  });

  it('is another answer if the tool may change something, or if a mark tells which key follows', () => {
    expect(judge(numberOf(99), (i) => [record(i)], 'note')).toBe(false);
    const told = (i: number): LearnedStep[] =>
      makeOne(i, 'search', (of) => [record(of)]).map((learned, at) =>
        at > 0 || !isByNumber(i)
          ? learned
          : {
              ...learned,
              step: digest(
                [user(`Mail from ${emailOf(i)}, customer ${numberOf(i)}. Search by number only.`)],
                TOOLS,
              ),
            },
      );
    const student = makeStudent(range(60).flatMap(told));
    const [first] = told(100);
    const agrees = student.agrees(
      first!.step,
      student.propose(first!.step),
      callAnswer('search', { query: numberOf(100) }).content,
    );
    expect(agrees).toBe(false);
  });
});

it('a count that no step contains is not part of the wording', () => {
  // The ids contain these digits, too.
  const COUNTS = [3, 4, 5];
  const makeCounted = (i: number): LearnedStep[] => {
    const id = orderOf(i);
    // Nothing in the step contains the count.
    const count = COUNTS[(i * 7) % 3]!;
    return makeRun(`run-${i}`, `Fill ${id}.`, [
      { name: 'note', input: { id }, result: { id, missing: 0 } },
      i % 2 === 0
        ? `${id}: ${count} strings are filled now.`
        : `I have filled ${count} strings of ${id} now.`,
    ]);
  };
  const student = makeStudent(range(60).flatMap(makeCounted));
  const [, last] = makeCounted(80);
  const proposal = student.propose(last!.step);
  const agreed = COUNTS.filter((count) =>
    student.agrees(
      last!.step,
      proposal,
      textAnswer(`I have filled ${count} strings of ${orderOf(80)} now.`).content,
    ),
  );
  expect(agreed).toHaveLength(1);
});

it('a text may omit a count of calls, but may not contain another count', () => {
  const countOf = (i: number): number => 1 + ((i * 5) % 4);
  const listTexts = (i: number, count: number): string[] => [
    `I asked for changes in ${orderOf(i)}.`,
    `Asked for changes in ${orderOf(i)}: ${count} comments.`,
    `${orderOf(i)} has ${count} comments now; I asked for changes.`,
  ];
  const reviewRun = (i: number): LearnedStep[] =>
    makeRun(`run-${i}`, `Review ${orderOf(i)}.`, [
      ...range(countOf(i)).map((at) => ({
        name: 'note',
        input: { id: orderOf(i), line: 3 * at + i },
        result: { id: orderOf(i) },
      })),
      { name: 'refund', input: { id: orderOf(i) }, result: { done: true } },
      listTexts(i, countOf(i))[(i * 7) % 3]!,
    ]);
  const student = makeStudent(range(36).flatMap(reviewRun));
  for (const i of [50, 51, 52, 53]) {
    const { step } = reviewRun(i).at(-1)!;
    const proposal = student.propose(step);
    const judge = (count: number): boolean[] =>
      listTexts(i, count).map((text) => student.agrees(step, proposal, textAnswer(text).content));
    expect(proposal.score).toBeLessThan(0.2);
    expect(judge(countOf(i))).toEqual([true, true, true]);
    expect(judge(countOf(i) + 1)).toEqual([true, false, false]);
  }
});

it('another template of the same answer counts only if it gives the same values', () => {
  // Texts in one wording name the gross sum, texts in the other the net sum. In nearly all golden steps both are equal.
  const makePaid = (i: number, isTaxed = i % 20 === 7 || i % 20 === 12): LearnedStep[] => {
    const id = orderOf(i);
    const [net, gross] = [20 + i, isTaxed ? 25 + i : 20 + i];
    return makeRun(`run-${i}`, `Pay ${id}.`, [
      { name: 'get_order', input: { id }, result: { id, net, gross } },
      i % 2 === 0 ? `${id} is paid: ${gross} in all.` : `I have paid ${net} in all for ${id}.`,
    ]);
  };
  const student = makeStudent(range(80).flatMap((i) => makePaid(i)));
  const judge = (isTaxed: boolean) => {
    const [, last] = makePaid(90, isTaxed);
    const proposal = student.propose(last!.step);
    const texts = [
      `${orderOf(90)} is paid: ${isTaxed ? 115 : 110} in all.`,
      `I have paid 110 in all for ${orderOf(90)}.`,
    ];
    return texts.map((text) => student.agrees(last!.step, proposal, textAnswer(text).content));
  };
  expect(judge(false)).toEqual([true, true]);
  expect(judge(true).toSorted()).toEqual([false, true]);
});

it('a model lists the arguments that are free', () => {
  const agent = fitStudent(range(20).flatMap((i) => refundRun(i))).groups[0] as unknown as StudentAgent;
  expect(agent.free).toEqual([['refund', 'reason']]);
});
