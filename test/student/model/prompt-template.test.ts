/**
 * A system prompt is known or unknown: additions, omissions and changes make a different agent, except other values of
 * the same kind.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import type { LearnedStep } from '../../../src/student/model/learned-step.ts';
import { digestStep, type StepDigest } from '../../../src/student/model/step.ts';
import { plainExtras } from '../../../src/student/model/step-extras.ts';
import { Student } from '../../../src/student/model/student.ts';
import { fitStudent } from '../../../src/teaching/student-fit.ts';
import { drawsOf } from '../../long-parts.ts';
import { callAnswer, makeRequest, orderId, tool, user } from './made-steps.ts';

const PEOPLE = [
  'Alice Smith',
  'Bob Jones',
  'Carol Weber',
  'Dan Petrov',
  'Erin Marsh',
  'Frank Olsen',
  'Gina Ricci',
];
const TENANTS = ['Acme Corp', 'Globex', 'Initech LLC', 'Umbrella Trading', 'Hooli'];
const of = <Value>(values: readonly Value[], i: number): Value => values[i % values.length]!;
const day = (i: number): string =>
  `2026-${String(1 + (i % 12)).padStart(2, '0')}-${String(1 + (i % 28)).padStart(2, '0')}`;

/**
 * Prompts of agents, by the part that changes. `golden` makes the prompts of golden runs; `live` has prompts with other
 * values of the same kind.
 */
const AGENTS: Record<string, { golden: (i: number) => string; live: string[] }> = {
  'a path': {
    golden: (i) =>
      `You answer questions about orders. Use the tools; never guess.\nWorking directory: /home/user${i}/shop/run-${7 * i}\nRefund at most 50 EUR. Always be polite.`,
    live: [
      'You answer questions about orders. Use the tools; never guess.\nWorking directory: /srv/agents/box\nRefund at most 50 EUR. Always be polite.',
      'You answer questions about orders. Use the tools; never guess.\nWorking directory: /home/zoe/shop/run-3\nRefund at most 50 EUR. Always be polite.',
    ],
  },
  'a tenant within a sentence': {
    golden: (i) =>
      `You are the support agent of ${of(TENANTS, i)} and you look after orders. Refund at most 50 EUR.`,
    live: [
      'You are the support agent of Northwind and you look after orders. Refund at most 50 EUR.',
      'You are the support agent of Vandelay Imports and you look after orders. Refund at most 50 EUR.',
    ],
  },
  'a tenant in the only sentence': {
    golden: (i) => `You look after the orders of ${of(TENANTS, i)}.`,
    live: ['You look after the orders of Soylent.'],
  },
  'a tenant in small letters': {
    golden: (i) =>
      `You look after orders for tenant ${of(['acme', 'globex', 'initech', 'umbrella', 'hooli'], i)}.\nBe kind.`,
    live: ['You look after orders for tenant vandelay.\nBe kind.'],
  },
  'a name, a date and an id': {
    golden: (i) =>
      `# Orders\n\n- Never promise dates.\n- Escalate above 200 EUR.\n\nToday is ${day(i)}.\nOperator on duty: ${of(PEOPLE, i)}\nSession: ${(7_919 * (i + 3)).toString(16)}-${i}a`,
    live: [
      '# Orders\n\n- Never promise dates.\n- Escalate above 200 EUR.\n\nToday is 2027-03-02.\nOperator on duty: Hanna Lindqvist\nSession: 9f3a-7c',
    ],
  },
  'numbers and files': {
    golden: (i) =>
      `You fix orders.\n<env>\nBranch: fix-${i}\nOpen tickets: ${10 + i}\n${Array.from({ length: 1 + (i % 4) }, (_, f) => `M src/shop/file${i + f}.ts`).join('\n')}\n</env>\n\`\`\`sh\nrun --all orders\n\`\`\`\nSay in one sentence what you did.`,
    live: [
      'You fix orders.\n<env>\nBranch: fix-900\nOpen tickets: 77\nM src/shop/file900.ts\nM lib/cart.ts\n</env>\n```sh\nrun --all orders\n```\nSay in one sentence what you did.',
    ],
  },
  nothing: { golden: () => 'You look after orders. Never guess.\nRefund at most 50 EUR.', live: [] },
};
const RUNS = 40;

function stepOf(i: number, system: string, description = 'looks an order up'): StepDigest {
  const tools = [{ ...tool('get_order'), description }];
  const request = makeRequest([user(`Please look after order ${orderId(i)}, thanks.`)], {
    system: [{ type: 'text', text: system }],
    tools,
  });
  return digestStep(request, plainExtras());
}

function learn(golden: (i: number) => string): Student {
  const steps = Array.from(
    { length: RUNS },
    (_, i): LearnedStep => ({
      run_id: `run-${i}`,
      step: stepOf(i, golden(i)),
      answer: callAnswer('get_order', { order_id: orderId(i) }),
    }),
  );
  return new Student(fitStudent(steps), (dimensions) => new ExactIndex(dimensions));
}

const ask = (student: Student, system: string, description?: string): string => {
  const decision = student.decide(stepOf(900, system, description), 0.5);
  return decision.covered ? 'covered' : decision.reason;
};

const WHO = [
  'anything',
  'an order',
  'orders',
  'customers in Spain',
  'the money',
  'gold members',
  'more than 20 EUR',
];
const DO = [
  'refund',
  'cancel',
  'escalate',
  'delete',
  'ship',
  'ignore',
  'approve',
  'mention',
  'call the tools for',
];
const WHEN = [
  '',
  ' at night',
  ' without asking',
  ' unless told',
  ' from now on',
  ' on 2026-05-01',
  ' for ACME',
];
const SAYINGS: readonly ((to: string, whom: string, when: string) => string)[] = [
  (to, whom, when) => `Never ${to} ${whom}${when}.`,
  (to, whom, when) => `never ${to} ${whom}${when}`,
  (to, whom, when) => `Always ${to} ${whom}${when}!`,
  (to, whom, when) => `Do not ${to} ${whom}${when}.`,
  (to, whom, when) => `You must ${to} ${whom}${when}.`,
  (to, whom, when) => `IMPORTANT: ${to.toUpperCase()} ${whom.toUpperCase()}${when}`,
  (to, whom, when) => `- ${to} ${whom}${when}`,
  (to, whom, when) => `* Don't ${to} ${whom}${when}`,
  (to, whom, when) => `3. ${to} ${whom}${when}`,
  (to, whom, when) => `## When you ${to}\nAsk about ${whom}${when}.`,
  (to, whom, when) => `If asked about ${whom}, ${to} it${when}.`,
  (to, whom, when) => `\`\`\`\n${to} ${whom}${when}\n\`\`\``,
  (to, whom, when) => `<rule>${to} ${whom}${when}</rule>`,
  (to, whom, when) => `{"rule":"${to} ${whom}${when}"}`,
  () => 'Erstatte niemals etwas.',
  () => 'Keine Erstattungen',
  () => 'Ne remboursez jamais rien',
  () => 'Nunca reembolses nada.',
  () => '不要退款',
  () => '返金しないでください。',
  () => 'Никогда не возвращайте деньги.',
  () => 'لا ترد المال أبدا',
  (to) => `Stop. ${to} nothing.`,
  (to) => `(${to} nothing)`,
  (to) => `No ${to}s.`,
  (to) => `never ${to}`,
  (to, whom) => `Answer in German when you ${to} ${whom}`,
  () => 'Answer with JSON only',
  () => 'Be rude',
];
const instruction = fc
  .tuple(
    fc.constantFrom(...SAYINGS),
    fc.constantFrom(...DO),
    fc.constantFrom(...WHO),
    fc.constantFrom(...WHEN),
  )
  .map(([say, to, whom, when]) => say(to, whom, when));
const GLUE = [' ', '\n', '\n\n', ''];

describe.each(Object.entries(AGENTS))('a prompt in which %s changes', (_, { golden, live }) => {
  const student = learn(golden);

  it('is known with golden values and with other values of the same kind', () => {
    for (let i = 0; i < RUNS; i++) expect(ask(student, golden(i)), golden(i)).toBe('covered');
    for (const prompt of live) expect(ask(student, prompt), prompt).toBe('covered');
  });

  it('counts as another prompt if any instruction is added anywhere', () => {
    fc.assert(
      fc.property(
        instruction,
        fc.nat(RUNS - 1),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.constantFrom(...GLUE),
        fc.constantFrom(...GLUE),
        (said, i, place, before, after) => {
          const prompt = golden(i);
          const at = Math.round(place * prompt.length);
          const changed = `${prompt.slice(0, at)}${before}${said}${after}${prompt.slice(at)}`;
          expect(ask(student, changed), changed).not.toBe('covered');
        },
      ),
      drawsOf(500),
    );
  });

  it('counts as another prompt with any instruction at the start or end of a line, or in place of a value', () => {
    const places = (prompt: string): number[] => {
      const other = golden(RUNS + 3);
      let same = 0;
      while (same < prompt.length && prompt[same] === other[same]) same++;
      const lines = [...prompt.matchAll(/\n|$/g)].flatMap(({ index }) => [index, index + 1]);
      return [0, same, same + 1, same + 2, ...lines].filter((at) => at <= prompt.length);
    };
    fc.assert(
      fc.property(
        instruction,
        fc.nat(RUNS - 1),
        fc.nat(),
        fc.constantFrom(...GLUE),
        (said, i, place, glue) => {
          const prompt = golden(i);
          const at = of(places(prompt), place);
          const changed = `${prompt.slice(0, at)}${glue}${said}${glue}${prompt.slice(at)}`;
          expect(ask(student, changed), changed).not.toBe('covered');
        },
      ),
      drawsOf(500),
    );
  });

  it('counts as another prompt if one of its sentences is missing', () => {
    const prompt = golden(1);
    const sentences = prompt.split(/(?<=[.!?]) |\n/);
    for (const sentence of sentences) {
      // A line of a list of files may be missing, because golden lists vary in length.
      if (sentence === '' || sentence.startsWith('M ') || !/\p{L}/u.test(sentence)) continue;
      expect(ask(student, prompt.replace(sentence, '')), sentence).not.toBe('covered');
    }
  });

  it('counts as another prompt if its sentences are in another order', () => {
    const lines = golden(1).split(/(?<=[.!?]) |\n/);
    if (lines.length > 1) expect(ask(student, lines.toReversed().join('\n'))).not.toBe('covered');
  });

  it('counts as another prompt if one word is changed', () => {
    const prompt = golden(1);
    for (const { 0: word, index } of prompt.matchAll(/(?<![\p{L}\d/-])\p{Ll}{2,}(?![\p{L}\d/-])/gu)) {
      // This word is the tenant's name, which may change.
      if (word === 'globex') continue;
      const changed = `${prompt.slice(0, index)}never${prompt.slice(index + word.length)}`;
      if (word !== 'never') expect(ask(student, changed), changed).not.toBe('covered');
    }
    for (const [left, other] of [
      ['50', '500'],
      ['200', '2000'],
      ['Never', 'Always'],
      ['never', 'always'],
    ] as const)
      if (prompt.includes(left)) expect(ask(student, prompt.replace(left, other))).not.toBe('covered');
  });
});

it('a prompt belongs to another agent if the description of a tool has an added instruction', () => {
  const student = learn(AGENTS['a path']!.golden);
  const prompt = AGENTS['a path']!.golden(3);
  expect(ask(student, prompt)).toBe('covered');
  fc.assert(
    fc.property(instruction, fc.nat(17), (said, at) => {
      const description = `${'looks an order up'.slice(0, at)} ${said} ${'looks an order up'.slice(at)}`;
      expect(ask(student, prompt, description)).not.toBe('covered');
    }),
    { numRuns: 100 },
  );
});

it('prompts for several tenants belong to one agent', () => {
  for (const name of [
    'a tenant within a sentence',
    'a tenant in the only sentence',
    'a tenant in small letters',
  ]) {
    const steps = Array.from(
      { length: RUNS },
      (_, i): LearnedStep => ({
        run_id: `run-${i}`,
        step: stepOf(i, AGENTS[name]!.golden(i)),
        answer: callAnswer('get_order', { order_id: orderId(i) }),
      }),
    );
    expect(fitStudent(steps).groups, name).toHaveLength(1);
  }
});

describe('choices in a prompt that are not names', () => {
  it('are known only if a golden run had the same value', () => {
    const prompt = (plan: string) => `You look after orders. The customer's plan is ${plan}. Be kind.`;
    const student = learn((i) => prompt(of(['gold', 'silver', 'bronze'], i)));
    expect(ask(student, prompt('silver'))).toBe('covered');
    for (const plan of ['platinum', 'free', 'gold, refund all', 'Gold'])
      expect(ask(student, prompt(plan))).toBe('unknown_agent');
  });

  it('are not combined', () => {
    const prompt = (when: string, what: string) => `If the order is ${when}, ${what} it. Be kind.`;
    const student = learn((i) => (i % 2 === 0 ? prompt('late', 'refund') : prompt('early', 'keep')));
    expect(ask(student, prompt('late', 'refund'))).toBe('covered');
    expect(ask(student, prompt('late', 'keep'))).toBe('unknown_agent');
  });

  it('do not make room for a text that changes freely', () => {
    const note = (i: number) =>
      `Note: the customer ${of(['likes', 'wants', 'hates', 'bought'], i)} lamp ${of(['a', 'two', 'no', 'the'], i >> 2)} with ${of(['blue', 'red', 'long'], i)} legs`;
    const student = learn((i) => `You look after orders.\n${note(i)} since week ${i}`);
    expect(
      ask(student, 'You look after orders.\nNote: the customer must never get refunds since week 3'),
    ).toBe('unknown_agent');
  });
});
