/** Templates of texts that have no wording in common: the words of one text, with values that the other texts prove. */
import { describe, expect, it } from 'vitest';
import { fillTemplate } from '../../src/student/model/answer-template.ts';
import { StepContext } from '../../src/student/model/extraction.ts';
import { type LooseText, solveLooseTexts } from '../../src/teaching/loose-texts.ts';
import { called, digest, orderId, user } from '../student/model/made-steps.ts';

const GREETINGS = ['Hello', 'Hi', 'Dear', 'Good day'];
const THANKS = ['thank you for your letter', 'thanks for writing to us', 'we got your message'];
const ENDS = ['kind regards', 'best wishes', 'all the best', 'see you', 'yours'];
const PLACES = ['Lyon', 'Graz', 'Malmo', 'Porto'];

const makeContext = (i: number): StepContext =>
  new StepContext(
    digest([
      user(`Where is order ${orderId(i)}?`),
      ...called('track', {}, JSON.stringify({ due: `2026-03-${10 + (i % 18)}`, seen: PLACES[i % 4] })),
    ]),
  );
/** A report on a parcel; no two of 60 have the same words. */
const report = (i: number, due = `2026-03-${10 + (i % 18)}`): string =>
  `${GREETINGS[i % 4]}, ${THANKS[i % 3]}. Your parcel of order ${orderId(i)} was seen in ${PLACES[i % 4]} and comes on ${due}. We wish you a nice day, ${ENDS[i % 5]}.`;
const makeTexts = (count: number, textOf = report): LooseText[] =>
  Array.from({ length: count }, (_, i) => ({ run_id: `r${i}`, context: makeContext(i), text: textOf(i) }));
const fill = ([found]: ReturnType<typeof solveLooseTexts>, i: number): unknown => {
  const filled = fillTemplate({ calls: [], text: found!.node }, makeContext(i));
  return typeof filled === 'string' ? filled : filled.value;
};

const REGIONS = ['north', 'south', 'harbour', 'valley'];
const askAbout = (i: number, words: string): LooseText => ({
  run_id: `r${i}`,
  context: new StepContext(
    digest([
      user(`What did the region ${REGIONS[i % 4]} sell?`),
      ...called('query', {}, `[{"sum":${1_000 + 7 * i}}]`),
    ]),
  ),
  text: `${GREETINGS[i % 4]}, ${THANKS[i % 3]}. We sold ${1_000 + 7 * i} things in the ${words}, and we wish you a nice day, ${ENDS[i % 5]}.`,
});

describe('texts without a wording in common', () => {
  it('get a template with the words of one text and the values of the step', () => {
    const found = solveLooseTexts(makeTexts(40));
    expect(found).toHaveLength(1);
    expect(found[0]!.members).toHaveLength(40);
    const [filled] = fill(found, 77) as { text: string }[];
    expect(filled!.text).toContain(`order ${orderId(77)} was seen in ${PLACES[1]} and comes on 2026-03-15.`);
  });

  it('may omit a value, but have no template if a rule finds another value', () => {
    const without = (i: number): string => (i % 3 === 0 ? report(i).replace(/ of order \S+/, '') : report(i));
    expect(solveLooseTexts(makeTexts(40, without))).toHaveLength(1);
    // Every third text has a day that is not in the step.
    const other = (i: number): string => report(i, i % 3 === 0 ? '2026-04-01' : undefined);
    expect(solveLooseTexts(makeTexts(40, other))).toEqual([]);
  });

  it('take a word from the step if all texts do so, and have no template if no rule finds the word', () => {
    const texts = Array.from({ length: 40 }, (_, i) => askAbout(i, `region ${REGIONS[i % 4]}`));
    const found = solveLooseTexts(texts);
    expect(found).toHaveLength(1);
    const filled = [41, 42, 43].map((i) =>
      fillTemplate({ calls: [], text: found[0]!.node }, askAbout(i, '').context),
    );
    expect(JSON.stringify(filled)).toMatch(
      /1287 things in the region south.*1294 .* harbour.*1301 .* valley/,
    );
    const lists = Array.from({ length: 40 }, (_, i) => ({
      ...askAbout(i, ''),
      text: `In order: ${Array.from({ length: 1 + (i % 9) }, (_each, n) => `${100 + n} and`).join(' ')} ${1_000 + 7 * i}.`,
    }));
    expect(solveLooseTexts(lists)).toEqual([]);
  });

  it('are divided if they take a word from their steps that no rule finds', () => {
    const DEEDS = ['closed', 'reopened'];
    // The word is at another place in each result.
    const makeDeed = (i: number): LooseText => {
      const words = ['quiet', 'green', 'early', 'narrow', 'late'].slice(0, 1 + (i % 5));
      words.splice((i * 7) % (words.length + 1), 0, DEEDS[i % 2]!);
      const step = digest([
        user(`What about ticket ${orderId(i)}?`),
        ...called('look', {}, `We said: ${words.join(' ')}.`),
      ]);
      const text = `${GREETINGS[i % 4]}, ${THANKS[i % 3]}. I have ${DEEDS[i % 2]} the ticket ${orderId(i)} for you, and we wish you a nice day, ${ENDS[i % 5]}.`;
      return { run_id: `r${i}`, context: new StepContext(step), text };
    };
    const found = solveLooseTexts(Array.from({ length: 40 }, (_, i) => makeDeed(i)));
    expect(found.map(({ members }) => members.length)).toEqual([20, 20]);
    for (const { node, members } of found) {
      const deed = DEEDS[members[0]! % 2]!;
      expect(members.every((i) => DEEDS[i % 2] === deed)).toBe(true);
      const filled = fillTemplate({ calls: [], text: node }, makeDeed(77).context);
      expect(JSON.stringify(filled)).toContain(`I have ${deed} the ticket ${orderId(77)} for you`);
    }
  });

  it('get another template if their steps lack a value of the first one', () => {
    const makeShort = (i: number): LooseText => ({
      run_id: `s${i}`,
      context: new StepContext(digest([user(`Where is order ${orderId(i)}?`), ...called('track', {}, '{}')])),
      text: `${GREETINGS[i % 4]}, ${THANKS[i % 3]}. Your parcel of order ${orderId(i)} was not seen. We wish you a nice day, ${ENDS[i % 5]}.`,
    });
    const all = makeTexts(40).flatMap((text, i) => (i % 2 === 0 ? [text] : [makeShort(i)]));
    const found = solveLooseTexts(all);
    expect(found.map(({ members }) => members.length)).toEqual([20, 20]);
    const filled = fillTemplate({ calls: [], text: found[1]!.node }, makeShort(77).context);
    expect(JSON.stringify(filled)).toContain(`order ${orderId(77)} was not seen.`);
  });

  it('have no template if the step does not contain a value, or if too few runs have it', () => {
    const unknown = (i: number): string => report(i, `2027-01-${10 + ((i * 7) % 18)}`);
    expect(solveLooseTexts(makeTexts(40, unknown))).toEqual([]);
    expect(solveLooseTexts(makeTexts(4))).toEqual([]);
  });
});
