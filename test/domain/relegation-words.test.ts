/** Relegation's decisions in words: each refusal has an explanation, and says what would change it. */
import { expect, it } from 'vitest';
import { describeDecision, describeRemedy, tellInSentences } from '../../src/domain/relegation-words.ts';
import { FALLBACK_REASONS } from '../../src/student/serving/protocol.ts';

it.each([...FALLBACK_REASONS, 'would_serve'])(
  'the reason %s has an explanation, and says what would change it',
  (reason) => {
    expect(describeDecision(reason)).toMatch(/^\S.*[^.]$/);
    expect(describeRemedy(reason)).toMatch(/^would be served \S.*[^.]$/);
    expect(tellInSentences(reason)).toMatch(/^[A-Z].*\. It would be served .*\.$/);
  },
);

it('a served step needs no explanation, and an unknown reason is only named', () => {
  expect(tellInSentences('served')).toBe('The student served it.');
  expect(tellInSentences('of_a_later_version')).toBe('The upstream served it: of a later version.');
  expect(describeDecision('of_a_later_version')).toBeNull();
});
