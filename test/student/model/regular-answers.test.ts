/** Answers that follow rules over more than one value: lists, sums, comparisons, pieces of texts. */
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import { createPrng } from '../../../src/std/prng.ts';
import type { AnswerDigest } from '../../../src/student/model/answer.ts';
import { kindOfAnswer, nameKind, toolsOfKind } from '../../../src/student/model/answer-kind.ts';
import type { LearnedStep } from '../../../src/student/model/learned-step.ts';
import { proposeSummaries, summarizeList } from '../../../src/student/model/list-summary.ts';
import { Student } from '../../../src/student/model/student.ts';
import { cutPart, proposeCuts } from '../../../src/student/model/text-parts.ts';
import { fitStudent } from '../../../src/teaching/student-fit.ts';
import { callAnswer, called, digest, textAnswer, tool, user } from './made-steps.ts';

const tools = ['look', 'remind', 'approve', 'refuse'].map(tool);

function learn(runs: number, make: (i: number) => Omit<LearnedStep, 'run_id'>): Student {
  const steps = Array.from({ length: runs }, (_, i) => ({ run_id: `run-${i}`, ...make(i) }));
  return new Student(fitStudent(steps), (dimensions) => new ExactIndex(dimensions));
}

function stepOf(result: object, task = 'Please look after this one.') {
  return digest([user(task), ...called('look', { at: 1 }, JSON.stringify(result))], { tools });
}

/** @returns the student's answer, or why it has no answer */
function ask(student: Student, result: object, task?: string) {
  const decision = student.decide(stepOf(result, task), 0.5);
  return decision.covered ? decision.answer!.content : decision.reason;
}

function calls(name: string, inputs: unknown[]): AnswerDigest {
  return {
    ...callAnswer(name, {}),
    content: inputs.map((input) => ({ type: 'tool_call', id: '', name, input })),
  };
}

interface Line {
  id: string;
  state: string;
  amount: number;
}
function makeLines(seed: number, count: number): Line[] {
  const random = createPrng(seed);
  return Array.from({ length: count }, (_, j) => ({
    id: `L-${10_000 + random.below(80_000)}`,
    state: j === 0 || random.chance(0.5) ? 'late' : 'fine',
    amount: Math.round(random.float() * 90_000) / 100,
  }));
}
const late = (lines: Line[]) => lines.filter(({ state }) => state === 'late');

describe('one call for each element of a list', () => {
  const made = (lines: Line[]) =>
    calls(
      'remind',
      late(lines).map(({ id, amount }) => ({ line: id, amount })),
    );
  const student = learn(40, (i) => {
    const lines = makeLines(i + 1, 1 + (i % 4));
    return { step: stepOf({ owner: `C${i}`, lines }), answer: made(lines) };
  });

  it('is made once for each element, in their order', () => {
    for (const count of [1, 2, 3, 4]) {
      const lines = makeLines(900 + count, count);
      expect(ask(student, { owner: 'C77', lines })).toEqual(made(lines).content);
    }
  });

  it('is not made for an empty list, nor for more elements than an answer may have calls', () => {
    const none = makeLines(5, 2).map((line) => ({ ...line, state: 'fine' }));
    expect(typeof ask(student, { owner: 'C77', lines: none })).toBe('string');
    const many = makeLines(6, 20).map((line) => ({ ...line, state: 'late' }));
    expect(typeof ask(student, { owner: 'C77', lines: many })).toBe('string');
  });

  it('is one kind of answer, for any number of calls', () => {
    const kind = kindOfAnswer(made(makeLines(1, 4).map((line) => ({ ...line, state: 'late' }))).content);
    expect(kind).toBe('remind (several)');
    expect(nameKind(['look', 'remind', 'remind', 'look'])).toBe('look + remind (several) + look');
    expect(toolsOfKind('look + remind (several)')).toEqual(['look', 'remind']);
    expect(nameKind([])).toBe('text');
  });

  it('has results on which the next answer may depend together', () => {
    const step = (i: number) => {
      const lines = makeLines(i + 1, 2 + (i % 3));
      const content = lines.map(({ id }, j) => ({
        type: 'tool_call' as const,
        id: `t${j}`,
        name: 'look',
        input: { id },
      }));
      const results = lines.map(({ amount }, j) => ({
        type: 'tool_result' as const,
        call_id: `t${j}`,
        name: 'look',
        is_error: false,
        content: [{ type: 'text' as const, text: JSON.stringify({ amount }) }],
      }));
      const sum = Math.round(100 * lines.reduce((all, { amount }) => all + amount, 0)) / 100;
      return {
        step: digest(
          [user('Please add them up.'), { role: 'assistant', content }, { role: 'tool', content: results }],
          { tools },
        ),
        answer: callAnswer('approve', { sum }),
      };
    };
    const adding = learn(30, step);
    for (const i of [100, 101, 102]) {
      const current = step(i);
      const decision = adding.decide(current.step, 0.5);
      expect(decision).toMatchObject({ covered: true, answer: { content: current.answer.content } });
    }
  });
});

describe('a summary of a list', () => {
  it('counts elements, adds up their values or joins them', () => {
    const lines = [
      { id: 'a', state: 'late', amount: 0.1, quantity: 3 },
      { id: 'b', state: 'fine', amount: 0.2, quantity: 1 },
      { id: 'c', state: 'late', amount: 0.2, quantity: 2 },
    ];
    const filter = { key: 'state', is: 'late' };
    expect(summarizeList(lines, { pick: 'count', filter })).toBe(2);
    expect(summarizeList(lines, { pick: 'sum', key: 'amount' })).toBe(0.5);
    expect(summarizeList(lines, { pick: 'sum', key: 'amount', times: 'quantity' })).toBe(0.9);
    expect(summarizeList(lines, { pick: 'join', key: 'id', by: ', ', last: ' and ' })).toBe('a, b and c');
    expect(summarizeList([{ id: {} }], { pick: 'join', key: 'id', by: ', ', last: ', ' })).toBeUndefined();
    expect(summarizeList([{ amount: 'x' }], { pick: 'sum', key: 'amount' })).toBeUndefined();
    expect(proposeSummaries(lines, 'a, c').map(({ part }) => part)).toContainEqual({
      pick: 'join',
      key: 'id',
      by: ', ',
      last: ', ',
      filter,
    });
  });

  it('is part of a closing text of fixed wording', () => {
    const text = (lines: Line[]) =>
      `Of ${lines.length} lines ${late(lines).length} are late: ${late(lines)
        .map(({ id }) => id)
        .join(', ')}.`;
    const student = learn(40, (i) => {
      const lines = makeLines(i + 1, 2 + (i % 4));
      return { step: stepOf({ lines }), answer: textAnswer(text(lines)) };
    });
    const lines = makeLines(777, 4);
    expect(ask(student, { lines })).toEqual([{ type: 'text', text: text(lines) }]);
  });
});

describe('a comparison of two numbers', () => {
  const random = createPrng(8);
  const number = () => Math.round(random.float() * 100_000) / 100;
  const answer = (claimed: number, left: number) =>
    callAnswer(claimed <= left ? 'approve' : 'refuse', { amount: claimed });

  it('decides the answer', () => {
    const student = learn(60, () => {
      const [claimed, left] = [number(), number()];
      return { step: stepOf({ claimed, left }), answer: answer(claimed, left) };
    });
    for (const [claimed, left] of [
      [300.5, 700.25],
      [700.25, 300.5],
      [510.1, 490.2],
    ] as const)
      expect(ask(student, { claimed, left })).toEqual(answer(claimed, left).content);
  });

  it('makes a step too far if it has the opposite result in all golden runs', () => {
    const student = learn(60, () => {
      const [claimed, left] = [number(), number()].sort((a, b) => a - b) as [number, number];
      return { step: stepOf({ claimed, left }), answer: callAnswer('approve', { amount: claimed }) };
    });
    expect(ask(student, { claimed: 300.5, left: 700.25 })).toEqual(
      callAnswer('approve', { amount: 300.5 }).content,
    );
    expect(ask(student, { claimed: 700.25, left: 300.5 })).toBe('too_far');
  });

  it('may compare the sum of a list with a total', () => {
    const make = (seed: number, isRight: boolean) => {
      const lines = makeLines(seed, 3).map(({ amount }) => ({ amount, quantity: 1 + (seed % 3) }));
      const sum = Math.round(100 * lines.reduce((all, line) => all + line.amount * line.quantity, 0)) / 100;
      const total = isRight ? sum : Math.round(100 * (sum + 5 + (seed % 17))) / 100;
      return { lines, total };
    };
    const say = (isRight: boolean) => callAnswer(isRight ? 'approve' : 'refuse', {});
    const student = learn(60, (i) => ({ step: stepOf(make(i + 1, i % 2 === 0)), answer: say(i % 2 === 0) }));
    expect(ask(student, make(801, true))).toEqual(say(true).content);
    expect(ask(student, make(802, false))).toEqual(say(false).content);
  });
});

describe('a number beyond all golden ones', () => {
  it('may be beyond an unknown threshold, so the student declines', () => {
    const student = learn(60, (i) => ({
      step: stepOf({ value: 20 + ((i * 37) % 60) * 40 + 0.5 }),
      answer: callAnswer('approve', {}),
    }));
    expect(ask(student, { value: 1_333.25 })).toEqual(callAnswer('approve', {}).content);
    expect(ask(student, { value: 2_700.25 })).toEqual(callAnswer('approve', {}).content);
    expect(ask(student, { value: 5_900.25 })).toBe('too_far');
  });

  it('is accepted if numbers grow from run to run', () => {
    const student = learn(60, (i) => ({
      step: stepOf({ counter: 1_000.5 + 10 * i }),
      answer: callAnswer('approve', {}),
    }));
    expect(ask(student, { counter: 3_000.5 })).toEqual(callAnswer('approve', {}).content);
  });
});

describe('pieces of addresses, paths and names', () => {
  it('are cut out of them', () => {
    for (const [text, value] of [
      ['https://git.example.com/acme/web/pull/123', 'acme'],
      ['https://git.example.com/acme/web/pull/123', '123'],
      ['refs/heads/fix-12', 'fix-12'],
      ['src/a/b/report.final.pdf', 'src/a/b'],
      ['src/a/b/report.pdf', 'report'],
      ['app.billing.Handler', 'billing'],
      ['mailto:a@b.example?subject=x', 'a@b.example'],
    ] as const) {
      const cuts = proposeCuts(text, value);
      expect(cuts.length).toBeGreaterThan(0);
      for (const cut of cuts) expect(cutPart(text, cut)).toBe(value);
    }
    expect(proposeCuts('nothing here', 'not')).toEqual([]);
    expect(cutPart('plain', [{ at: '/', nth: 0 }])).toBeUndefined();
  });

  it('go into answers, from prose as well', () => {
    const words = ['amber', 'birch', 'cedar', 'delta', 'ember', 'fjord', 'grove'];
    const make = (i: number) => {
      const [owner, repo] = [words[i % 7]!, `${words[(3 * i + 1) % 7]}${i}`];
      return {
        task: `Who reviews https://git.example.com/${owner}/${repo}/pull/${100 + i}, please?`,
        result: { head: `refs/heads/topic-${i}` },
        answer: callAnswer('approve', { owner, repo, number: 100 + i, branch: `topic-${i}` }),
      };
    };
    const student = learn(40, (i) => {
      const { task, result, answer } = make(i);
      return { step: stepOf(result, task), answer };
    });
    const live = make(555);
    expect(ask(student, live.result, live.task)).toEqual(live.answer.content);
  });
});

describe('a command made of values from tasks in several wordings', () => {
  const WORDINGS = [
    (name: string) => `Release ${name} today.`,
    (name: string) => `We need ${name} out soon.`,
    (name: string) => `Is ${name} ready? Then ship it.`,
  ];
  const NAMES = ['form-core', 'chart-view', 'queue-kit', 'mail-core', 'cache-kit', 'form-kit', 'chart-core'];
  const taskOf = (i: number, name = NAMES[(i * 5) % NAMES.length]!) => WORDINGS[i % WORDINGS.length]!(name);
  const student = learn(42, (i) => ({
    step: digest([user(taskOf(i))], { tools }),
    answer: callAnswer('look', { command: `cat packages/${NAMES[(i * 5) % NAMES.length]!}/package.json` }),
  }));

  it('is made of the values of a new task in a known wording', () => {
    for (const i of [0, 1, 2])
      expect(student.propose(digest([user(taskOf(i, 'mail-view'))], { tools })).answer?.content).toEqual([
        {
          type: 'tool_call',
          id: '',
          name: 'look',
          input: { command: 'cat packages/mail-view/package.json' },
        },
      ]);
  });

  it('is missing if the wording is new', () => {
    const { answer } = student.propose(digest([user('mail-view should go out.')], { tools }));
    expect(answer).toBeNull();
  });
});

it('a name continues after `&`', () => {
  const firsts = ['Everfix', 'Copperline', 'Gable', 'Dale', 'Flintlock', 'Hearthside'];
  const lasts = ['Works', 'Trades', 'Repairs', 'Crafts', 'Services'];
  const ends = ['today', 'if they are free', 'because it leaks', 'before Monday', 'and tell me', 'or wait'];
  const ask = (firm: string, i: number) =>
    digest([user(`Please remind ${firm} ${ends[(i * 5) % 6]}.`)], { tools });
  const student = learn(40, (i) => {
    const firm = `${firsts[i % 6]} ${lasts[i % 5]}`;
    return { step: ask(firm, i), answer: callAnswer('remind', { firm }) };
  });
  for (const firm of ['Larch & Partners', 'Larch Partners'])
    expect(student.propose(ask(firm, 3)).answer?.content).toMatchObject([{ input: { firm } }]);
});
