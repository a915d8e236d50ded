/** The common parts of golden answers: templates that reproduce each answer, and do not give another run's values. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fillTemplate } from '../../../src/student/model/answer-template.ts';
import type { StudentBlock } from '../../../src/student/model/decision.ts';
import { StepContext } from '../../../src/student/model/extraction.ts';
import type { StepDigest } from '../../../src/student/model/step.ts';
import { type AnswerExample, synthesizeAnswers } from '../../../src/teaching/answer-synthesis.ts';
import { called, digest, makeOrderStep, user } from './made-steps.ts';

function example(i: number, step: StepDigest, content: StudentBlock[]): AnswerExample {
  return { run_id: `run-${i}`, context: new StepContext(step), content };
}

function callOf(name: string, input: unknown): StudentBlock {
  return { type: 'tool_call', id: '', name, input };
}

/** Without the text beside calls, which may be left out. */
function withoutCommentary(content: readonly StudentBlock[]): readonly StudentBlock[] {
  const calls = content.filter((block) => block.type === 'tool_call');
  return calls.length > 0 ? calls : content;
}

const id = fc
  .tuple(fc.constantFrom('ORD', 'INV', 'T'), fc.integer({ min: 1_000, max: 999_999 }))
  .map(([a, n]) => `${a}-${n}`);
const word = fc.stringMatching(/^[a-z]{3,9}$/);
const name = fc
  .tuple(fc.stringMatching(/^[A-Z][a-z]{2,8}$/), fc.stringMatching(/^[A-Z][a-z]{2,8}$/))
  .map((two) => two.join(' '));
const record = fc.record({
  id,
  name,
  total: fc.integer({ min: 1, max: 999_999 }).map((cents) => cents / 100),
  when: fc
    .date({ min: new Date('2020-01-01'), max: new Date('2030-01-01'), noInvalidDate: true })
    .map((date) => date.toISOString().slice(0, 10)),
  note: word,
  folder: fc.tuple(word, word).map(([a, b]) => `/srv/${a}/${b}`),
});
type Made = typeof record extends fc.Arbitrary<infer T> ? T : never;

function stepOf(made: Made): StepDigest {
  return digest([
    user(`Hello, this is about ${made.id} of ${made.name}. Folder: ${made.folder}`),
    ...called(
      'get_order',
      { id: made.id },
      JSON.stringify({
        found: { id: made.id, total: made.total, when: made.when },
        note: made.note,
        tags: ['a', made.note],
      }),
    ),
  ]);
}

const ANSWERS: ((made: Made) => StudentBlock[])[] = [
  (made) => [callOf('refund', { order: made.id, amount: made.total, reason: 'late' })],
  (made) => [
    callOf('refund', { order: made.id.toLowerCase(), amount: made.total.toFixed(2), list: [made.note, 7] }),
  ],
  (made) => [callOf('run', { command: `cd ${made.folder} && make ${made.note}` })],
  (made) => [callOf('a', { x: made.id }), callOf('b', { y: { z: made.when, deep: [{ of: made.name }] } })],
  (made) => [
    {
      type: 'text',
      text: `Order ${made.id} of ${made.name} is paid: ${made.total.toFixed(2)} EUR (${made.when}).\n\nBye!`,
    },
  ],
  (made) => [{ type: 'text', text: `Looking at ${made.id}.` }, callOf('refund', { order: made.id })],
];

describe('templates', () => {
  it('return each golden answer from its own context', () => {
    fc.assert(
      fc.property(
        fc.array(record, { minLength: 3, maxLength: 7 }),
        fc.constantFrom(...ANSWERS),
        (made, answerOf) => {
          const examples = made.map((order, i) => example(i, stepOf(order), answerOf(order)));
          for (const { template, members } of synthesizeAnswers(examples, 2)) {
            for (const i of members) {
              const filled = fillTemplate(template, examples[i]!.context);
              expect(typeof filled).not.toBe('string');
              if (typeof filled === 'string') continue;
              expect(withoutCommentary(filled.value)).toEqual(withoutCommentary(examples[i]!.content));
            }
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('explain all golden answers with one template when each value can be found', () => {
    const made = ['Ada Lovelace', 'Alan Turing', 'Grace Hopper', 'Edsger Dijkstra'].map((name, i) => ({
      id: `ORD-${4_410 + 37 * i}`,
      name,
      total: 12.5 + 31 * i,
      when: `2026-0${i + 1}-1${i}`,
      note: ['red', 'green', 'blue', 'grey'][i]!,
      folder: `/srv/shop${i}/app`,
    }));
    for (const answerOf of ANSWERS) {
      const classes = synthesizeAnswers(
        made.map((order, i) => example(i, stepOf(order), answerOf(order))),
        2,
      );
      expect(classes.map(({ members }) => members.length)).toEqual([4]);
      const other: Made = {
        id: 'INV-99123',
        name: 'Katherine Johnson',
        total: 7,
        when: '2027-12-31',
        note: 'teal',
        folder: '/srv/other/x1',
      };
      const filled = fillTemplate(classes[0]!.template, new StepContext(stepOf(other)));
      expect(typeof filled === 'string' ? filled : withoutCommentary(filled.value)).toEqual(
        withoutCommentary(answerOf(other)),
      );
    }
  });

  it('do not give a run the id of golden runs that share the id by chance', () => {
    fc.assert(
      fc.property(
        fc.array(record, { minLength: 3, maxLength: 6 }),
        record,
        fc.constantFrom(...ANSWERS),
        (made, live, answerOf) => {
          // Several runs have the same order by chance. The value must still count as a value of these runs.
          const shared = made.map((order) => ({ ...order, id: made[0]!.id, total: made[0]!.total }));
          fc.pre(live.id !== made[0]!.id);
          const examples = shared.map((order, i) => example(i, stepOf(order), answerOf(order)));
          for (const { template } of synthesizeAnswers(examples, 2)) {
            const filled = fillTemplate(template, new StepContext(stepOf(live)));
            if (typeof filled === 'string') continue;
            const said = JSON.stringify(filled.value).toLowerCase();
            const words = said.split(/[^a-z0-9-]+/);
            expect(words).not.toContain(made[0]!.id.toLowerCase());
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('do not take a value for a constant if all golden runs have it in their own context', () => {
    // Both runs have the same order by chance, and not because a rule says so.
    const examples = [0, 1].map((i) => {
      const { step, answer } = makeOrderStep(i, { status: 'pending', order: 'ORD-5555' });
      return example(i, step, answer.content);
    });
    const [only] = synthesizeAnswers(examples, 2);
    const { step } = makeOrderStep(9, { status: 'pending', order: 'ORD-8888' });
    const filled = fillTemplate(only!.template, new StepContext(step));
    expect(typeof filled === 'string' ? filled : filled.value).toEqual([
      callOf('cancel', { order_id: 'ORD-8888' }),
    ]);
  });

  it('require that the answer comes from several runs', () => {
    const step = digest([user('Do it.')]);
    const once = example(0, step, [callOf('refund', { code: 'ZX-1' })]);
    expect(synthesizeAnswers([once, { ...once }], 2)).toEqual([]);
    expect(synthesizeAnswers([once, { ...once, run_id: 'another' }], 2)).toHaveLength(1);
  });

  it('name a missing value instead of inventing it', () => {
    const examples = [0, 2, 4].map((i) => {
      const { step, answer } = makeOrderStep(i);
      return example(i, step, answer.content);
    });
    const [only] = synthesizeAnswers(examples, 2);
    const empty = digest([user('Please look after my order.'), ...called('get_order', {}, '{}')]);
    expect(fillTemplate(only!.template, new StepContext(empty))).toBe('missing_value');
  });

  it('accept keys of objects that have a meaning in JavaScript', () => {
    const hostile = JSON.parse('{"constructor": "x", "toString": 1, "hasOwnProperty": {"a": "ORD-1234"}}');
    const examples = [0, 1].map((i) =>
      example(i, digest([user('About ORD-1234 please')]), [callOf('refund', hostile)]),
    );
    const [only] = synthesizeAnswers(examples, 2);
    const filled = fillTemplate(only!.template, new StepContext(digest([user('About ORD-77777 please')])));
    expect(JSON.stringify(typeof filled === 'string' ? filled : filled.value[0])).toContain(
      '"a":"ORD-77777"',
    );
  });
});
