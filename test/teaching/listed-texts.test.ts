/** Texts that tell something about each element of a list. */
import { describe, expect, it } from 'vitest';
import { fillTemplate } from '../../src/student/model/answer-template.ts';
import { StepContext } from '../../src/student/model/extraction.ts';
import { type AnswerExample, synthesizeAnswers } from '../../src/teaching/answer-synthesis.ts';
import { called, digest, textAnswer, user } from '../student/model/made-steps.ts';

interface Meeting {
  title: string;
  from: string;
  to: string;
}

const TOPICS = ['budget', 'hiring', 'audit', 'launch', 'roadmap'];
const listDay = (i: number): Meeting[] =>
  Array.from({ length: 1 + (i % 5) }, (_, n) => ({
    title: `${['Call', 'Review'][(i + n) % 2]}: ${TOPICS[(i * 3 + n * 2) % 5]}`,
    from: `${9 + n}:${i % 2 === 0 ? '00' : '15'}`,
    to: `${9 + n}:${30 + (i % 20)}`,
  }));
const makeContext = (i: number): StepContext =>
  new StepContext(
    digest([
      user(`What is on day ${i}?`),
      ...called('list', { day: i }, JSON.stringify({ events: listDay(i) })),
    ]),
  );
const tellEach = (day: readonly Meeting[], by = '; ', last = by): string => {
  const told = day.map(({ title, from, to }) => `${from} to ${to} ${title}`);
  const end = told.pop()!;
  return told.length === 0 ? end : `${told.join(by)}${last}${end}`;
};
const makeExamples = (textOf: (i: number) => string): AnswerExample[] =>
  Array.from({ length: 30 }, (_, i) => ({
    run_id: `r${i}`,
    context: makeContext(i),
    content: textAnswer(textOf(i)).content,
  }));

/** What the most frequent answer says about another day. */
function tellDay(examples: readonly AnswerExample[], i: number): string {
  const [first] = synthesizeAnswers(examples, 2);
  const filled = first === undefined ? 'no class' : fillTemplate(first.template, makeContext(i));
  if (typeof filled === 'string') return filled;
  const [block] = filled.value;
  return block?.type === 'text' ? block.text : '';
}

describe('a text about each element of a list', () => {
  it('tells all elements of another list', () => {
    const examples = makeExamples((i) => `You have these meetings: ${tellEach(listDay(i))}.`);
    for (const i of [60, 61, 64])
      expect(tellDay(examples, i)).toBe(`You have these meetings: ${tellEach(listDay(i))}.`);
  });

  it('has a class for each wording around the list', () => {
    const wordings = (i: number): string[] => [
      `${tellEach(listDay(i))}.`,
      `There are ${listDay(i).length} meetings: ${tellEach(listDay(i))}.`,
    ];
    const classes = synthesizeAnswers(
      makeExamples((i) => wordings(i)[(i >> 1) % 2]!),
      2,
    );
    expect(classes.map(({ members }) => members.length)).toEqual([16, 14]);
    const told = classes.map(({ template }) => JSON.stringify(fillTemplate(template, makeContext(63))));
    for (const text of wordings(63)) expect(told.join('\n')).toContain(JSON.stringify(text));
  });

  it('may have another separator before the last element', () => {
    const tell = (i: number): string => `Your day: ${tellEach(listDay(i), ', ', ' and ')}.`;
    expect(tellDay(makeExamples(tell), 63)).toBe(tell(63));
  });

  it('has no such template if texts leave elements out, or if the list does not explain what they tell', () => {
    const tellsAll = (textOf: (i: number) => string): boolean =>
      JSON.stringify(synthesizeAnswers(makeExamples(textOf), 2)).includes('"is":"items"');
    expect(tellsAll((i) => `You have these meetings: ${tellEach(listDay(i))}.`)).toBe(true);
    expect(tellsAll((i) => `You have these meetings: ${tellEach(listDay(i).slice(-3))}.`)).toBe(false);
    expect(tellsAll((i) => `You have these meetings: ${tellEach(listDay(i + 7))}.`)).toBe(false);
  });
});
