/** Tools whose descriptions contain the current date. */
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import type { LearnedStep } from '../../../src/student/model/learned-step.ts';
import { digestStep } from '../../../src/student/model/step.ts';
import { plainExtras } from '../../../src/student/model/step-extras.ts';
import { Student } from '../../../src/student/model/student.ts';
import { fitStudent } from '../../../src/teaching/student-fit.ts';
import { callAnswer, makeRequest, tool, user } from './made-steps.ts';

const DAY_MS = 86_400_000;
const FIRST = Date.parse('2026-11-23T10:00:00Z');
const dayOf = (at_ms: number): string => new Date(at_ms).toISOString().slice(0, 10);

/** A step of an agent with a tool whose description names a day. */
function stepOn(at_ms: number, said = dayOf(at_ms), text = 'Trains to Graz, please.') {
  const search = { ...tool('search'), description: `Searches trains. Today is ${said}; later days alone.` };
  const request = makeRequest([user(text)], {
    system: [{ type: 'text', text: 'You look for trains.' }],
    tools: [search, tool('book')],
  });
  return digestStep(request, { ...plainExtras(), at_ms });
}

describe('a tool that names the current day', () => {
  it('is the same tool tomorrow, and another one if it names another day', () => {
    const tomorrow = FIRST + DAY_MS;
    expect(stepOn(tomorrow).scope).toBe(stepOn(FIRST).scope);
    expect(stepOn(FIRST, '2026-05-01').scope).not.toBe(stepOn(FIRST).scope);
    expect(stepOn(FIRST, '2026-05-01').scope).not.toBe(stepOn(FIRST, '2026-06-01').scope);
  });

  it('provides its day to answers', () => {
    const { sources } = stepOn(FIRST);
    expect(sources.find(({ name }) => name === 'system')?.value).toContain('2026-11-23');
  });
});

describe('days in answers', () => {
  /** Teaches a student on one day. @returns its answer on the next day */
  const askTomorrow = (inputOn: (at_ms: number) => object) => {
    const golden: LearnedStep[] = Array.from({ length: 30 }, (_, run) => ({
      run_id: `r${run}`,
      step: stepOn(FIRST, dayOf(FIRST), `Trains to Graz, request ${1_000 + 7 * run}.`),
      answer: callAnswer('search', inputOn(FIRST)),
    }));
    const student = new Student(fitStudent(golden), (dimensions) => new ExactIndex(dimensions));
    const { answer } = student.propose(stepOn(FIRST + DAY_MS, undefined, 'Trains to Graz, request 4711.'));
    const call = answer?.content.find((block) => block.type === 'tool_call');
    return call?.type === 'tool_call' ? call.input : null;
  };

  it('follow the day that the tool names', () => {
    expect(askTomorrow((at_ms) => ({ date: dayOf(at_ms) }))).toEqual({ date: '2026-11-24' });
  });

  it('are not repeated if they may be calculated from it', () => {
    expect(askTomorrow((at_ms) => ({ date: dayOf(at_ms + 2 * DAY_MS) }))).toBeNull();
  });

  it('are repeated if they are far from it', () => {
    expect(askTomorrow(() => ({ since: '2020-01-01' }))).toEqual({ since: '2020-01-01' });
  });
});
