/** Values keep their digits from a step's context to the answer: ids beyond 2^53, 10.50, 1.0, 1e5. */
import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import { parseExact } from '../../../src/std/exact-json.ts';
import { answersAgree } from '../../../src/student/model/agreement.ts';
import type { AnswerDigest } from '../../../src/student/model/answer.ts';
import type { StudentBlock } from '../../../src/student/model/decision.ts';
import type { LearnedStep } from '../../../src/student/model/learned-step.ts';
import { summarizeList } from '../../../src/student/model/list-summary.ts';
import { Student } from '../../../src/student/model/student.ts';
import { ToolSchemas } from '../../../src/student/serving/tool-schemas.ts';
import { fitStudent } from '../../../src/teaching/student-fit.ts';
import { drawsOf } from '../../long-parts.ts';
import { callAnswer, called, digest, textAnswer, user } from './made-steps.ts';

/** Neighbouring ids of 19 digits that are equal as doubles. */
const idOf = (i: number, field = 0): string => String(2_512_292_042_121_000_001n + BigInt(7 * i + field));

interface Made {
  task: (i: number) => string;
  /** JSON text of the tool's result; omitted: the step is the first one. */
  result?: (i: number) => string;
  answer: (i: number) => AnswerDigest;
}

function stepOf({ task, result }: Made, i: number) {
  const after = result === undefined ? [] : called('get_order', {}, result(i));
  return digest([user(task(i)), ...after]);
}

function learn(made: Made, runs = 40): Student {
  const steps = Array.from(
    { length: runs },
    (_, i): LearnedStep => ({ run_id: `run-${i}`, step: stepOf(made, i), answer: made.answer(i) }),
  );
  const packr = new Packr({ useRecords: false, moreTypes: true, variableMapSize: true });
  // The model in the form that it has after it was published and read again.
  const model = packr.unpack(packr.pack(fitStudent(steps)));
  return new Student(model, (dimensions) => new ExactIndex(dimensions));
}

/** @returns the answer as it would be on the wire, or why there is no answer */
function ask(student: Student, made: Made, i: number): string {
  const decision = student.decide(stepOf(made, i), 0.5);
  if (!decision.covered) return decision.reason;
  const [block] = decision.answer!.content as [StudentBlock];
  return block.type === 'text' ? block.text : JSON.stringify(block.input);
}

const call = (name: string, json: string): AnswerDigest => callAnswer(name, parseExact(json));

describe('an answer', () => {
  const cases: Record<string, { made: Made; is: (i: number) => string }> = {
    'takes an id from the words of the task': {
      made: {
        task: (i) => `Please look after order ${idOf(i)}, thanks.`,
        answer: (i) => call('get_order', `{"order_id":${idOf(i)}}`),
      },
      is: (i) => `{"order_id":${idOf(i)}}`,
    },
    'takes ids from a result': {
      made: {
        task: () => 'Please refund it.',
        result: (i) => `{"order":{"id":${idOf(i)},"payments":[{"id":${idOf(i, 1)},"total":${i}.50}]}}`,
        answer: (i) => call('refund', `{"order_id":${idOf(i)},"payment_id":${idOf(i, 1)},"amount":${i}.50}`),
      },
      is: (i) => `{"order_id":${idOf(i)},"payment_id":${idOf(i, 1)},"amount":${i}.50}`,
    },
    'takes an id out of a text, as text': {
      made: {
        task: () => 'Please refund it.',
        result: (i) => `{"order_id":${idOf(i)}}`,
        answer: (i) => call('refund', `{"order_id":"${idOf(i)}"}`),
      },
      is: (i) => `{"order_id":"${idOf(i)}"}`,
    },
    'takes a number with an exponent, and a number with a zero after the decimal point': {
      made: {
        task: () => 'Please refund it.',
        result: (i) => `{"size":${i + 2}e5,"share":${i + 1}.0}`,
        answer: (i) => call('refund', `{"size":${i + 2}e5,"share":${i + 1}.0}`),
      },
      is: (i) => `{"size":${i + 2}e5,"share":${i + 1}.0}`,
    },
    'keeps the notation of a constant': {
      made: {
        task: () => 'Please refund all.',
        answer: () => call('refund', '{"share":1.0,"account":90071992547409930001}'),
      },
      is: () => '{"share":1.0,"account":90071992547409930001}',
    },
    'is a text with ids': {
      made: {
        task: () => 'Please refund it.',
        result: (i) => `{"refund_id":${idOf(i)},"total":${i + 20}.0}`,
        answer: (i) => textAnswer(`Refund ${idOf(i)} over ${i + 20} EUR is made.`),
      },
      is: (i) => `Refund ${idOf(i)} over ${i + 20} EUR is made.`,
    },
    'is JSON with ids': {
      made: {
        task: () => 'Please refund it.',
        result: (i) => `{"refund_id":${idOf(i)},"total":${i + 20}.10}`,
        answer: (i) => textAnswer(`{"id":${idOf(i)},"total":${i + 20}.10}`),
      },
      is: (i) => `{"id":${idOf(i)},"total":${i + 20}.10}`,
    },
    'takes a list of ids': {
      made: {
        task: () => 'Please refund it.',
        result: (i) => `{"lines":[{"id":${idOf(i)}},{"id":${idOf(i, 1)}}],"ids":[${idOf(i)},${idOf(i, 1)}]}`,
        answer: (i) => call('refund', `{"ids":[${idOf(i)},${idOf(i, 1)}]}`),
      },
      is: (i) => `{"ids":[${idOf(i)},${idOf(i, 1)}]}`,
    },
  };
  it.each(Object.entries(cases))('%s', (_, { made, is }) => {
    const student = learn(made);
    for (const i of [41, 42, 43, 77]) expect(ask(student, made, i)).toBe(is(i));
  });

  it('has no rounded digits, for ids of 16 to 20 digits', () => {
    const made: Made = {
      task: (i) => `Order ${idOf(i)} of customer ${idOf(i, 2)}`,
      result: (i) => `{"order":${idOf(i)},"customer":${idOf(i, 2)},"note":"ref ${idOf(i, 4)}"}`,
      answer: (i) => call('refund', `{"order":${idOf(i)},"customer":${idOf(i, 2)},"ref":${idOf(i, 4)}}`),
    };
    const student = learn(made);
    const id = fc.bigInt({ min: 10n ** 15n, max: 10n ** 19n });
    fc.assert(
      fc.property(id, id, id, (order, customer, ref) => {
        const live: Made = {
          ...made,
          task: () => `Order ${order} of customer ${customer}`,
          result: () => `{"order":${order},"customer":${customer},"note":"ref ${ref}"}`,
        };
        const said = ask(student, live, 0);
        if (said.startsWith('{')) expect(said).toBe(`{"order":${order},"customer":${customer},"ref":${ref}}`);
      }),
      drawsOf(200),
    );
  });

  it('distinguishes two ids that are equal as doubles', () => {
    // The refunded order depends on whether the result belongs to the requested order.
    const made = (isOwn: (i: number) => boolean): Made => ({
      task: (i) => `Refund order ${idOf(i)}`,
      result: (i) => `{"order":${isOwn(i) ? idOf(i) : idOf(i, 1)}}`,
      answer: (i) => call(isOwn(i) ? 'refund' : 'cancel', '{"all":true}'),
    });
    const student = learn(made((i) => i % 2 === 0));
    for (const is of [true, false]) {
      const decision = student.decide(
        stepOf(
          made(() => is),
          91,
        ),
        0.5,
      );
      if (decision.covered)
        expect(decision.answer!.content).toMatchObject([{ name: is ? 'refund' : 'cancel' }]);
    }
  });
});

describe('agreement', () => {
  const agree = (left: string, other: string): boolean =>
    answersAgree(call('refund', left), call('refund', other));

  it('compares numbers by their exact values, not by their notation', () => {
    expect(agree('{"id":2512292042121000001}', '{"id":2512292042121000002}')).toBe(false);
    expect(agree('{"id":2512292042121000001}', '{"id":2512292042121000001}')).toBe(true);
    expect(agree('{"a":1.0,"b":10.50}', '{"b":10.5,"a":1}')).toBe(true);
    expect(agree('{"a":1e5}', '{"a":100000}')).toBe(true);
    expect(agree('{"a":"1.0"}', '{"a":1.0}')).toBe(false);
  });

  it('compares numbers within texts, too', () => {
    const said = (id: string) => textAnswer(`The refund ${id} was made.`);
    expect(answersAgree(said(idOf(1)), said(idOf(1)))).toBe(true);
    expect(answersAgree(said('2512292042121000001'), said('2512292042121000002'))).toBe(false);
    expect(answersAgree(textAnswer(`{"id":${idOf(1)}}`), textAnswer(`{"id":${idOf(2)}}`))).toBe(false);
  });
});

it('a student does not sum what a double rounds', () => {
  const list = (json: string) => parseExact(json) as unknown[];
  expect(summarizeList(list('[{"a":9007199254740993},{"a":1}]'), { pick: 'sum', key: 'a' })).toBeUndefined();
  expect(summarizeList(list('[{"a":10.50},{"a":1.0}]'), { pick: 'sum', key: 'a' })).toBe(11.5);
  const joined = { pick: 'join', key: 'a', by: ', ', last: ', ' } as const;
  expect(summarizeList(list('[{"a":9007199254740993},{"a":1.0}]'), joined)).toBe('9007199254740993, 1.0');
});

it('a student treats a number with its digits as a number where a schema requires one', () => {
  const schema = {
    type: 'object',
    properties: { id: { type: 'integer' }, share: { type: 'number', maximum: 1 } },
    required: ['id'],
  };
  const accepts = (json: string) => new ToolSchemas().accepts(schema, parseExact(json));
  expect(accepts(`{"id":${idOf(1)},"share":1.0}`)).toBe(true);
  expect(accepts('{"id":1.50}')).toBe(false);
  expect(accepts(`{"id":${idOf(1)},"share":1.5}`)).toBe(false);
  expect(accepts(`{"id":"${idOf(1)}"}`)).toBe(false);
});
