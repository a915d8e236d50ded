/** When two answers to one step are equivalent: what may be worded differently, and what never may. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readFacts } from '../../../src/student/model/agreement.ts';
import type { StudentBlock } from '../../../src/student/model/decision.ts';
import {
  differInLooks,
  type FreeArguments,
  Ground,
  KnownWordings,
  makesSomeLooksOf,
  type Wording,
} from '../../../src/student/model/equivalence.ts';
import { hashString } from '../../../src/student/model/json-values.ts';
import { drawsOf } from '../../long-parts.ts';
import { callAnswer, textAnswer } from './made-steps.ts';

const FREE: FreeArguments = [
  ['refund', 'reason'],
  ['send', 'body'],
];

const GROUND = new Ground({
  sources: [
    { name: 'task', value: 'Refund order ORD-7 of Maria Costa (maria@example.com), please.' },
    {
      name: 'result:get_order',
      value: { order_id: 'ORD-7', other: 'ORD-8', total: 45.2, currency: 'EUR', fee: 5, name: 'Maria Costa' },
    },
  ],
});

/** Makes the known words of golden texts: `ours` occur under one label, `others` under another. */
function known(place: string, ours: readonly string[], others: readonly string[] = []): KnownWordings {
  const wording = (label: number, texts: readonly string[]): Wording => ({
    label,
    place,
    words: texts.flatMap((text) => [...readFacts(text).words.keys()]).map((word) => hashString(word)),
    constants: [],
    grounded: ['warehouse', 'lamp', 'teapot'].map((word) => hashString(word)),
    style: [
      'way',
      'hi',
      'issu',
      'order',
      'way',
      'we',
      'need',
      'help',
      'help',
      'satisfi',
      'please',
      'did',
    ].map((word) => hashString(word)),
  });
  return new KnownWordings([wording(0, ours), wording(1, others)], FREE);
}

const GOLDEN = [
  'I have refunded 45.20 EUR for order ORD-7.',
  'Your refund of 45.20 EUR for ORD-7 is on its way, Maria.',
  'Hi Maria, we have issued a refund for your order ORD-7. Let me know if you need more help.',
];
const OTHER = ['Order ORD-7 went to the warehouse.'];

function saysTheSame(given: string, other: string): boolean {
  return known('', GOLDEN, OTHER).isSame(0, textAnswer(given).content, textAnswer(other).content, GROUND);
}

describe('texts', () => {
  it('are equivalent if they contain the same values in words that golden runs used', () => {
    expect(saysTheSame(GOLDEN[0]!, GOLDEN[1]!)).toBe(true);
    expect(
      saysTheSame(GOLDEN[0]!, 'Hi Maria, a refund for ORD-7 is on its way. Let me know if you need help.'),
    ).toBe(true);
  });

  it('are not equivalent if one has another value in the same place', () => {
    expect(saysTheSame(GOLDEN[0]!, 'I have refunded 5 EUR for order ORD-7.')).toBe(false);
    expect(saysTheSame(GOLDEN[0]!, 'I have refunded 45.20 USD for order ORD-8.')).toBe(false);
    expect(saysTheSame(GOLDEN[0]!, 'I have refunded -45.20 EUR for order ORD-7.')).toBe(false);
    expect(saysTheSame(GOLDEN[1]!, 'Your refund of 45.20 EUR for ORD-7 is on its way to Chen.')).toBe(false);
  });

  it('are not equivalent if one of them has a value that the step does not contain', () => {
    expect(saysTheSame(GOLDEN[2]!, 'Hi Maria, we have issued a refund of 45.20 for your order ORD-7.')).toBe(
      true,
    );
    expect(saysTheSame(GOLDEN[2]!, 'Hi Maria, we have issued a refund of 46.20 for your order ORD-7.')).toBe(
      false,
    );
  });

  it('are not equivalent if one of them leaves out a part of an enumeration', () => {
    const ground = new Ground({
      sources: [{ name: 'result:list_events', value: ['09:00', '10:30', '12:00', '13:30', 'A-1', 'A-2'] }],
    });
    const same = (given: string, other: string): boolean =>
      known('', [given, other]).isSame(0, textAnswer(given).content, textAnswer(other).content, ground);
    const all = 'Need help at 09:00, 10:30, 12:00 and 13:30.';
    expect(same(all, 'Need help: 09:00, 10:30, 12:00, 13:30.')).toBe(true);
    expect(same(all, 'Need help at 09:00, 10:30 and 13:30.')).toBe(false);
    expect(same('Need help at 09:00, 10:30 and 13:30.', all)).toBe(false);
    // Fewer values do not count as an enumeration.
    expect(same('Need help with A-1 at 09:00.', 'Need help with A-1.')).toBe(true);
  });

  it('may name a time where the other names a date, but not another date or another time', () => {
    const values = ['2026-05-01', '2026-05-02', '09:30', '10:30'];
    const ground = new Ground({ sources: [{ name: 'result:get_event', value: values }] });
    const same = (given: string, other: string): boolean =>
      known('', [given, other]).isSame(0, textAnswer(given).content, textAnswer(other).content, ground);
    expect(same('Help at 09:30.', 'Help on 2026-05-01.')).toBe(true);
    expect(same('Help at 09:30.', 'Help at 10:30.')).toBe(false);
    expect(same('Help on 2026-05-02.', 'Help on 2026-05-01.')).toBe(false);
    expect(same('Help at 09:30.', 'Help on 2026-05-03.')).toBe(false);
  });

  it('take words from their step, not from the lists of the system prompt', () => {
    const said = textAnswer('Order ORD-7 went to the warehouse.').content;
    const system = { name: 'system', value: 'Orders go to the warehouse or to the shop.' };
    const isFromStep = (task: string): boolean => {
      const ground = new Ground({ sources: [system, { name: 'task', value: task }] });
      return known('', OTHER).isGrounded(0, said, ground);
    };
    expect(isFromStep('Send ORD-7 to the warehouse.')).toBe(true);
    expect(isFromStep('Send ORD-7 to the shop.')).toBe(false);
  });

  it('are not equivalent if one denies the outcome or names another outcome', () => {
    expect(saysTheSame(GOLDEN[0]!, 'I have not refunded 45.20 EUR for order ORD-7.')).toBe(false);
    expect(saysTheSame(GOLDEN[0]!, 'I have cancelled order ORD-7, your 45.20 EUR order.')).toBe(false);
  });

  it('are equivalent if one denies something that no golden report affirms, but only where texts are reports', () => {
    const reports = [
      'Refunded ORD-7, no action is left.',
      'Refunded ORD-7.',
      'The refund for ORD-7 was sent.',
    ];
    const facts = reports.map(readFacts);
    const wording: Wording = {
      label: 0,
      place: '',
      words: facts.flatMap(({ words }) => [...words.keys()]).map((word) => hashString(word)),
      constants: [],
      grounded: [],
      style: [],
      situated: ['action', 'left', 'sent', 'refund', 'complain'].map((word) => hashString(word)),
      affirmed: facts.flatMap(({ affirmed }) => [...affirmed]).map((word) => hashString(word)),
    };
    const same = (of: Wording, other: string): boolean =>
      new KnownWordings([of], []).isSame(
        0,
        textAnswer('Refunded ORD-7.').content,
        textAnswer(other).content,
        GROUND,
      );
    expect(same(wording, 'Refunded ORD-7, no action is left.')).toBe(true);
    expect(same(wording, 'ORD-7: the refund was not sent.')).toBe(false);
    expect(same(wording, 'Refunded ORD-7, no.')).toBe(false);
    expect(same(wording, 'ORD-7 failed, refund.')).toBe(false);
    // The texts are not equivalent if only one of them names an outcome.
    expect(same(wording, 'ORD-7: a refund is not possible.')).toBe(false);
    const { affirmed: _, ...answering } = wording;
    expect(same(answering, 'Refunded ORD-7, no action is left.')).toBe(false);
  });

  it('are not equivalent if a custom tool gets another text', () => {
    const none = new KnownWordings([], FREE);
    const [given, other] = ['text("a");', 'text("b");'].map((input) => callAnswer('exec', input).content);
    expect(none.isSame(0, given!, given!, GROUND)).toBe(true);
    expect(none.isSame(0, given!, other!, GROUND)).toBe(false);
    expect(none.haveSameValues(0, given!, other!, GROUND)).toBe(false);
  });

  it('are not equivalent if the words belong to another answer, or to no answer', () => {
    expect(saysTheSame(GOLDEN[0]!, 'I have refunded order ORD-7 to the warehouse.')).toBe(false);
    expect(saysTheSame(GOLDEN[0]!, 'Another person should quickly look into ORD-7 tomorrow morning.')).toBe(
      false,
    );
  });

  it('are not equivalent if the step does not contain a word that golden texts take from their steps', () => {
    const wordings = known('', [
      'The refund for ORD-7 is for a lamp.',
      'For ORD-7 a teapot was sent: refund.',
    ]);
    const isSame = (given: string, other: string): boolean =>
      wordings.isSame(
        0,
        textAnswer(given).content,
        textAnswer(other).content,
        new Ground({ sources: [{ name: 'task', value: 'ORD-7 is a lamp' }] }),
      );
    expect(isSame('The refund for ORD-7 is for a lamp.', 'For ORD-7 a lamp was sent: refund.')).toBe(true);
    expect(isSame('The refund for ORD-7 is for a lamp.', 'For ORD-7 a teapot was sent: refund.')).toBe(false);
  });

  it('that are JSON have no wordings', () => {
    expect(saysTheSame('{"order":"ORD-7","refunded":true}', '{"order":"ORD-7"}')).toBe(false);
  });
});

describe('amounts, recipients, ids and code', () => {
  const wordings = known('refund\nreason', ['Not satisfied with the lamp', 'The lamp did not please Maria']);
  const refund = (over: Record<string, unknown>): StudentBlock[] =>
    callAnswer('refund', {
      order_id: 'ORD-7',
      amount: 45.2,
      to: 'maria@example.com',
      reason: 'Not satisfied with the lamp',
      ...over,
    }).content;
  const isSame = (over: Record<string, unknown>): boolean =>
    wordings.isSame(0, refund({}), refund(over), GROUND);

  it('must be equal, even if the surrounding words may differ', () => {
    expect(isSame({ reason: 'The lamp did not please Maria' })).toBe(true);
    expect(isSame({ amount: 45.3 })).toBe(false);
    expect(isSame({ amount: '45.2' })).toBe(false);
    expect(isSame({ to: 'maria.c@example.com' })).toBe(false);
    expect(isSame({ order_id: 'ORD-8' })).toBe(false);
    expect(isSame({ order_id: 'ord-7' })).toBe(false);
    expect(isSame({ note: 'extra' })).toBe(false);
  });

  it('must be equal within the words, too', () => {
    expect(isSame({ reason: 'Not satisfied with the lamp of ORD-9' })).toBe(false);
    expect(isSame({ reason: 'Satisfied with the lamp' })).toBe(false);
    const body = (text: string): StudentBlock[] => callAnswer('send', { body: text }).content;
    const letters = known('send\nbody', [
      'Maria, your refund is 45.20 EUR for ORD-7',
      'The refund for ORD-7 is 45.20 EUR',
    ]);
    const first = body('Maria, your refund is 45.20 EUR for ORD-7');
    expect(letters.isSame(0, first, body('The refund for ORD-7 is 45.20 EUR'), GROUND)).toBe(true);
    expect(letters.isSame(0, first, body('The refund for ORD-7 is 5 EUR'), GROUND)).toBe(false);
    expect(letters.isSame(0, first, body('The refund for ORD-8 is 45.20 EUR'), GROUND)).toBe(false);
  });

  it('are compared exactly in arguments that are read', () => {
    const code = (command: string): StudentBlock[] => callAnswer('bash', { command }).content;
    expect(wordings.isSame(0, code('ls -l src'), code('ls -l  src'), GROUND)).toBe(false);
    const sql = (query: string): StudentBlock[] => callAnswer('query', { query }).content;
    expect(
      wordings.isSame(
        0,
        sql('select all names of the orders'),
        sql('select names of all the orders'),
        GROUND,
      ),
    ).toBe(false);
  });
});

describe('answers that differ only in lookups', () => {
  const answer = (...calls: [string, Record<string, unknown>][]): StudentBlock[] =>
    calls.flatMap(([name, input]) => callAnswer(name, input).content);
  const order: [string, Record<string, unknown>] = ['get_order', { id: 'ORD-7' }];
  const customer: [string, Record<string, unknown>] = ['get_customer', { id: 'C-1' }];
  const refund: [string, Record<string, unknown>] = ['refund', { id: 'ORD-7', amount: 45.2 }];

  it('name the tools of these lookups', () => {
    expect(differInLooks(answer(order), answer(customer))).toEqual(['get_order', 'get_customer']);
    expect(differInLooks(answer(order, customer), answer(customer))).toEqual(['get_order']);
    expect(differInLooks(answer(refund), answer(refund, order))).toEqual(['get_order']);
    expect(differInLooks(answer(order, customer), answer(customer, order))).toEqual([]);
  });

  it('are different answers if more than a lookup differs, or a lookup has other arguments', () => {
    const other = answer(['get_order', { id: 'ORD-8' }]);
    expect(differInLooks(answer(order), other)).toBe(null);
    expect(differInLooks(answer(order), answer(refund))).toBe(null);
    expect(differInLooks(answer(refund), answer(order))).toBe(null);
    expect(differInLooks(answer(refund, order), answer(order, refund))).toBe(null);
    expect(differInLooks(answer(refund), answer(['refund', { id: 'ORD-7', amount: 45 }]))).toBe(null);
    expect(differInLooks(textAnswer('Done.').content, answer(order))).toBe(null);
    const update = answer(['query_ledger', { sql: 'UPDATE orders SET total = 0' }]);
    expect(differInLooks(answer(order), update)).toBe(null);
  });

  it('may use tools that only read according to their descriptions', () => {
    const hours: [string, Record<string, unknown>] = ['doctor_hours', { department: 'eyes' }];
    expect(differInLooks(answer(order), answer(order, hours))).toBe(null);
    expect(differInLooks(answer(order), answer(order, hours), new Set(['doctor_hours']))).toEqual([
      'doctor_hours',
    ]);
  });
});

describe('an answer that makes some of the calls of another answer', () => {
  const answer = (...names: string[]): StudentBlock[] =>
    names.flatMap((name) => callAnswer(name, { id: 'ORD-7' }).content);

  it('can continue with the other calls if its own ones only read', () => {
    expect(makesSomeLooksOf(answer('get_order', 'refund'), answer('get_order'))).toBe(true);
    expect(makesSomeLooksOf(answer('get_order', 'get_customer'), answer('get_customer'))).toBe(true);
    expect(makesSomeLooksOf(answer('hours', 'refund'), answer('hours'), new Set(['hours']))).toBe(true);
  });

  it('is another answer if a call changes something, has other arguments, or is missing', () => {
    expect(makesSomeLooksOf(answer('get_order', 'refund'), answer('refund'))).toBe(false);
    expect(makesSomeLooksOf(answer('hours', 'refund'), answer('hours'))).toBe(false);
    expect(makesSomeLooksOf(answer('get_order'), callAnswer('get_order', { id: 'ORD-8' }).content)).toBe(
      false,
    );
    expect(makesSomeLooksOf(answer('get_order'), answer('get_order', 'get_customer'))).toBe(false);
    expect(makesSomeLooksOf(answer('get_order'), textAnswer('Done.').content)).toBe(false);
  });
});

describe('the values of a step', () => {
  const text = fc
    .array(
      fc.constantFrom('a', 'B', 'ab', 'é', '7', '12', '.', ',', ' ', '\n', '-', '\u{1d49c}', 'Σ', '中'),
      { maxLength: 12 },
    )
    .map((parts) => parts.join(''))
    .filter((value) => value !== '');

  it('are the same whether its text is searched or its words are listed', () => {
    fc.assert(
      fc.property(text, text, fc.array(text, { minLength: 1, maxLength: 6 }), (task, result, values) => {
        const step = {
          sources: [
            { name: 'task', value: task },
            { name: 'result:a', value: { result } },
          ],
        };
        const searched = values.map((value) => new Ground(step).holds(value));
        const listed = new Ground(step);
        for (let n = 0; n < 40; n++) listed.holds(`other ${n}`);
        expect(values.map((value) => listed.holds(value))).toEqual(searched);
      }),
      drawsOf(1_000),
    );
  });
});
