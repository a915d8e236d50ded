/** Values in the wording of a prompt: they are part of an agent's rule if all golden runs share them. */
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import type { LearnedStep } from '../../../src/student/model/learned-step.ts';
import { findDates } from '../../../src/student/model/prompt-dates.ts';
import { digestStep, type StepDigest } from '../../../src/student/model/step.ts';
import { plainExtras } from '../../../src/student/model/step-extras.ts';
import { Student } from '../../../src/student/model/student.ts';
import { fitStudent } from '../../../src/teaching/student-fit.ts';
import { callAnswer, makeRequest, orderId, user } from './made-steps.ts';

const DAY = Date.UTC(2026, 10, 23, 15);
const later = (days: number) => DAY + days * 86_400_000;

interface Said {
  system?: string;
  task?: string;
  at_ms?: number | null;
}

function stepOf(i: number, { system = 'You help.', task = '', at_ms = DAY }: Said = {}): StepDigest {
  const request = makeRequest([user(`${task}Please look after order ${orderId(i)}, thanks.`)], {
    system: [{ type: 'text', text: system }],
  });
  return digestStep(request, { ...plainExtras(), at_ms });
}

function learn(runs: number, said: (i: number) => Said): Student {
  const steps = Array.from(
    { length: runs },
    (_, i): LearnedStep => ({
      run_id: `run-${i}`,
      step: stepOf(i, said(i)),
      answer: callAnswer('get_order', { order_id: orderId(i) }),
    }),
  );
  return new Student(fitStudent(steps), (dimensions) => new ExactIndex(dimensions));
}

/** @returns `covered`, or why not */
function ask(student: Student, said: Said): string {
  const decision = student.decide(stepOf(900, said), 0.5);
  return decision.covered ? 'covered' : decision.reason;
}

describe('a value that all golden runs shared in the system prompt', () => {
  const rules: [string, string, string][] = [
    ['a limit', 'Refund up to 200 EUR.', 'Refund up to 500 EUR.'],
    ['a currency', 'Refund up to $200 at once.', 'Refund up to £200 at once.'],
    ['an account', 'Pay from DE89370400440532013000 only.', 'Pay from DE02120300000000202051 only.'],
    ['an account in groups', 'Pay from DE89 3704 0044 only.', 'Pay from DE89 3704 0045 only.'],
    ['a date', 'Refuse orders before 2024-05-01.', 'Refuse orders before 2025-05-01.'],
    ['a date in words', 'Orders before May 1, 2024 are old.', 'Orders before June 1, 2024 are old.'],
    ['a weekday', 'Ship on Monday alone.', 'Ship on Friday alone.'],
    ['a year', 'The rules of 2024 hold.', 'The rules of 2025 hold.'],
    ['an id', 'Use the queue q-7f3a91.', 'Use the queue q-7f3a92.'],
    ['a version', 'Call the API in version v2.', 'Call the API in version v3.'],
    ['a time', 'Nothing is sent after 17:30 at night.', 'Nothing is sent after 19:30 at night.'],
    ['a limit beside a date', 'Today is 2026-11-23: up to 200 EUR.', 'Today is 2026-11-23: up to 500 EUR.'],
    ['one line of several', 'Gold: 10 %\nGold: 20 %', 'Gold: 10 %\nGold: 30 %'],
  ];
  it.each(rules)('is part of the rule: %s', (_, golden, other) => {
    const student = learn(12, () => ({ system: `You help.\n${golden}\nBe kind.` }));
    expect(ask(student, { system: `You help.\n${golden}\nBe kind.` })).toBe('covered');
    expect(ask(student, { system: `You help.\n${other}\nBe kind.` })).toBe('other_value');
  });

  it('is not a rule if golden runs show that it changes', () => {
    const system = (i: number) =>
      `You help.\nSession: ${(7_919 * (i + 3)).toString(16)}\nTicket T-${40 + i} is yours.`;
    const student = learn(12, (i) => ({ system: system(i) }));
    expect(ask(student, { system: system(500) })).toBe('covered');
  });

  it('is part of the rule even if another value in the same sentence changes', () => {
    const system = (session: string, limit: number) =>
      `You help.\nSession ${session} may refund ${limit} EUR.`;
    const student = learn(12, (i) => ({ system: system(`s-${100 + i}`, 200) }));
    expect(ask(student, { system: system('s-999', 200) })).toBe('covered');
    expect(ask(student, { system: system('s-999', 500) })).toBe('other_value');
  });

  it('counts even in a line beyond the bound of lines', () => {
    const lines = (last: number) =>
      Array.from({ length: 400 }, (_, i) => `Rule for shelf ${i}: ${i === 399 ? last : 5} boxes.`).join('\n');
    const student = learn(12, () => ({ system: lines(5) }));
    expect(ask(student, { system: lines(5) })).toBe('covered');
    expect(ask(student, { system: lines(6) })).toBe('other_value');
  });
});

describe('a prompt that names the day', () => {
  const days: [string, (at_ms: number) => string][] = [
    ['as ISO', (at) => `Today is ${new Date(at).toISOString().slice(0, 10)}.`],
    ['with the time', (at) => `Now: ${new Date(at).toISOString()}`],
    [
      'in words',
      (at) =>
        `Current date: ${new Date(at).toLocaleDateString('en-US', { dateStyle: 'full', timeZone: 'UTC' })}`,
    ],
    [
      'in words, the day first',
      (at) =>
        `It is ${new Date(at).toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' })} now.`,
    ],
    ['with slashes', (at) => `Date: ${new Date(at).toLocaleDateString('en-US', { timeZone: 'UTC' })}`],
    ['with dots', (at) => `Date: ${new Date(at).toLocaleDateString('de-DE', { timeZone: 'UTC' })}`],
    [
      'by its weekday',
      (at) => `Today is ${new Date(at).toLocaleDateString('en-US', { weekday: 'long', timeZone: 'UTC' })}.`,
    ],
    ['in seconds', (at) => `The task began at ${Math.floor(at / 1_000)} sharp.`],
  ];
  it.each(days)('serves on later days, though all golden runs are of one day: %s', (_, today) => {
    const student = learn(12, () => ({ system: `You help.\n${today(DAY)}`, at_ms: DAY }));
    for (const days of [1, 9, 40, 300])
      expect(ask(student, { system: `You help.\n${today(later(days))}`, at_ms: later(days) })).toBe(
        'covered',
      );
  });

  it('is another agent if it names a day other than today', () => {
    const student = learn(12, () => ({ system: 'You help.\nToday is 2026-11-23.', at_ms: DAY }));
    expect(ask(student, { system: 'You help.\nToday is 2024-02-01.', at_ms: later(5) })).toBe('other_value');
  });

  it('is the same agent only with the same words, if the time of the request is unknown', () => {
    const student = learn(12, () => ({ system: 'You help.\nToday is 2026-11-23.', at_ms: null }));
    expect(ask(student, { system: 'You help.\nToday is 2026-11-23.', at_ms: later(5) })).toBe('covered');
    expect(ask(student, { system: 'You help.\nToday is 2026-11-24.', at_ms: later(1) })).toBe('other_value');
  });

  it('keeps a rule about a day that happens to be near', () => {
    const student = learn(12, () => ({ system: 'You help.\nThe sale ends on 2026-12-24.', at_ms: DAY }));
    const at_ms = Date.UTC(2026, 11, 24);
    expect(ask(student, { system: 'You help.\nThe sale ends on 2026-12-24.', at_ms })).toBe('covered');
    expect(ask(student, { system: 'You help.\nThe sale ends on 2026-12-23.', at_ms })).toBe('other_value');
  });
});

describe('a value in the fixed wording of the task', () => {
  it('is part of the rule', () => {
    const task = (limit: number, ticket: number) => `Ticket ${ticket}.\nRefund at most ${limit} EUR.\n`;
    const student = learn(12, (i) => ({ task: task(200, 3_000 + i) }));
    expect(ask(student, { task: task(200, 7_777) })).toBe('covered');
    expect(ask(student, { task: task(500, 7_777) })).toBe('other_value');
  });

  it('is not learned while few golden runs have that wording', () => {
    const task = (i: number, nights: number) => (i % 3 === 0 ? `Stay for ${nights} nights.\n` : '');
    const student = learn(12, (i) => ({ task: task(i, 2) }));
    expect(ask(student, { task: task(0, 3) })).not.toBe('other_value');
  });
});

it('a word is not treated as a date', () => {
  expect(findDates('You may refund it. Sum up the rest, then mark it as done.')).toEqual([]);
  expect(findDates('The band marches in 2026, and the cat sat down.')).toEqual([]);
});
