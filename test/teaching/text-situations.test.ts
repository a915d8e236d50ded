/** Situations of golden texts: differences that the step explains separate them, and other differences are style. */
import { describe, expect, it } from 'vitest';
import type { MarkColumn } from '../../src/student/model/relevance.ts';
import { findSituations, type SituatedText } from '../../src/teaching/text-situations.ts';

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const column = (key: number, count: number, has: (i: number) => boolean): MarkColumn => {
  const list = Uint8Array.from(range(count), (i) => (has(i) ? 1 : 0));
  return { key, kind: 1, has: list, count: list.reduce((sum, set) => sum + set, 0) };
};
/** Texts say that late orders will come and that others are ready, each in two ways that nothing explains. */
const isLate = (i: number): boolean => i % 2 === 0;
const makeTexts = (count: number): SituatedText[] =>
  range(count).map((step) => {
    const way = (step * 7) % 10 < 5;
    const words = isLate(step) ? [way ? 'arrive' : 'come'] : [way ? 'ready' : 'wait'];
    return { step, words: new Set(['order', ...words]) };
  });
const noise = (count: number): MarkColumn[] =>
  range(20).map((key) => column(key + 10, count, (i) => (i * (key + 3)) % 11 < 4));

describe('situations of texts', () => {
  it('are divided by values that explain the words; other differences of words are style', () => {
    const columns = [column(1, 120, isLate), ...noise(120)];
    const found = findSituations(makeTexts(120), columns, []);
    expect(found.map(({ texts, style, common }) => [texts.length, [...style].sort(), [...common]])).toEqual([
      [60, ['arrive', 'come'], ['order']],
      [60, ['ready', 'wait'], ['order']],
    ]);
  });

  it('are divided by a number, too', () => {
    const values = range(120).map((i): [number, number] => [isLate(i) ? 100 + i : i / 10, i]);
    const number = {
      id: 'days',
      from: 'result:get_order',
      path: ['days'],
      values: values.sort(([a], [b]) => a - b),
    };
    const found = findSituations(makeTexts(120), noise(120), [number]);
    expect(found.map(({ texts }) => texts.length)).toEqual([60, 60]);
    for (const { texts } of found) expect(new Set(texts.map(({ step }) => isLate(step))).size).toBe(1);
  });

  it('treat a rare word as style if no value nearly explains it', () => {
    const rare = [11, 24, 38];
    const texts = makeTexts(60).map(({ step, words }) => ({
      step,
      words: new Set([...words, ...(rare.includes(step) ? ['again'] : [])]),
    }));
    const styleWith = (columns: readonly MarkColumn[]): string[] =>
      findSituations(
        texts.map((text) => ({ ...text, words: new Set([...text.words].filter((word) => !isState(word))) })),
        columns,
        [],
      ).flatMap(({ style }) => [...style]);
    const isState = (word: string): boolean => ['arrive', 'come', 'ready', 'wait'].includes(word);
    expect(styleWith(noise(60))).toEqual(['again']);
    expect(styleWith([...noise(60), column(1, 60, (i) => rare.includes(i))])).toEqual([]);
    // The value explains all three texts, and occurs with one other text.
    expect(styleWith([...noise(60), column(1, 60, (i) => [...rare, 50].includes(i))])).toEqual([]);
    const value = (i: number): number => (rare.includes(i) ? 100 + i : i);
    const values = range(60).map((i): [number, number] => [value(i), i]);
    const days = {
      id: 'days',
      from: 'result:get_order',
      path: ['days'],
      values: values.sort(([a], [b]) => a - b),
    };
    expect(findSituations(texts, noise(60), [days]).flatMap(({ style }) => [...style])).not.toContain(
      'again',
    );
  });

  it('have no style without a minimum of texts', () => {
    const found = findSituations(makeTexts(12), [column(1, 12, isLate), ...noise(12)], []);
    expect(found.flatMap(({ style }) => [...style])).toEqual([]);
  });
});
