/** The verdict on a captured run, with a reported outcome and a person's mark. */
import { describe, expect, it } from 'vitest';
import type { GoldenCode, GoldenReason } from '../../src/domain/golden.ts';
import { changeMarks, isGoldenWith, NO_MARKS, RUN_TAGS, weighWords } from '../../src/domain/run-mark.ts';

const reason = (code: GoldenCode): GoldenReason => ({ code, words: code });
const codes = (reasons: readonly GoldenReason[]) => reasons.map(({ code }) => code);

describe('weighWords', () => {
  it('counts a reported failure against a run', () => {
    expect(weighWords([], { outcome: 'failure: Error', mark: null })).toMatchObject({
      golden: false,
      reasons: [{ code: 'outcome' }],
    });
    for (const outcome of ['success', null])
      expect(weighWords([], { outcome, mark: null })).toEqual({ golden: true, reasons: [], overruled: [] });
  });

  it('treats a run that a person marked bad as bad, whatever else it shows', () => {
    const weighed = weighWords([], { outcome: 'success', mark: 'bad' });
    expect([weighed.golden, codes(weighed.reasons)]).toEqual([false, ['marked_bad']]);
  });

  it('treats a run that a person marked good as successful, but not as more complete', () => {
    const went = (['failed_call', 'unfinished', 'monitor_fired'] as const).map(reason);
    const good = { outcome: 'failure: Error', mark: 'good' } as const;
    const weighed = weighWords(went, good);
    expect([weighed.golden, codes(weighed.reasons)]).toEqual([true, []]);
    expect(codes(weighed.overruled)).toEqual(['failed_call', 'unfinished', 'monitor_fired', 'outcome']);
    const lacks = (
      ['no_turn', 'aborted', 'truncated', 'undecodable', 'seq_gap', 'seq_missing', 'seq_repeated'] as const
    ).map(reason);
    const more = (['unlinked', 'shape', 'side_call', 'reading_differs'] as const).map(reason);
    const kept = weighWords([...lacks, ...more], good);
    expect(codes(kept.reasons)).toEqual(codes([...lacks, ...more]));
    expect(kept.golden).toBe(false);
  });

  it('agrees with isGoldenWith', () => {
    const found = [[], ['failed_call'], ['failed_call', 'truncated'], ['unlinked']] as const;
    for (const codes of found)
      for (const outcome of [null, 'success', 'failure: Error'])
        for (const mark of [null, 'good', 'bad'] as const) {
          const reasons = codes.map(reason);
          expect(isGoldenWith(reasons, { outcome, mark })).toBe(
            weighWords(reasons, { outcome, mark }).golden,
          );
        }
  });
});

describe('changeMarks', () => {
  const marked = { mark: 'good', tags: ['a', 'b'], note: 'fine', feedback_score: 1 } as const;

  it('keeps what a change omits, and removes what it sets to null', () => {
    expect(changeMarks(marked, {})).toEqual(marked);
    expect(changeMarks(marked, { note: null, feedback_score: null, mark: null, tags: null })).toEqual(
      NO_MARKS,
    );
    expect(changeMarks(marked, { note: ' ' }).note).toBe('');
    expect(changeMarks(marked, { feedback_score: 0 }).feedback_score).toBe(0);
  });

  it('replaces, adds and removes tags, each once and without surrounding space', () => {
    expect(changeMarks(marked, { tags: [' c', 'c', ' '] }).tags).toEqual(['c']);
    expect(changeMarks(marked, { add_tags: ['b', 'c'], remove_tags: ['a '] }).tags).toEqual(['b', 'c']);
    const many = Array.from({ length: RUN_TAGS.count }, (_, at) => `tag ${at}`);
    expect(changeMarks(marked, { tags: many }).tags).toHaveLength(RUN_TAGS.count);
    expect(() => changeMarks(marked, { add_tags: many })).toThrow('at most 32 tags');
  });
});
