/** Texts that clients add to a user's messages are distinguished from the user's own. */
import { expect, it } from 'vitest';
import { isClientWords, stripClientWords } from '../../src/domain/client-words.ts';

it.each([
  ['<system-reminder>be nice</system-reminder>\nFix it.', 'Fix it.'],
  [
    'Fix it.\n<system-reminder>one</system-reminder> Now.<system-reminder>two</system-reminder>',
    'Fix it.\n Now.',
  ],
  ['<environment_context>\n<cwd>/a</cwd>\n</environment_context>', ''],
  ['Fix it. <system-reminder>not closed', 'Fix it.'],
  ['What does <system> mean?', 'What does <system> mean?'],
])('the client’s words are removed from %j', (text, rest) => {
  expect(stripClientWords(text)).toBe(rest);
});

it('a text that contains only the client’s words is recognized', () => {
  expect(isClientWords(' <system-reminder>\na\n</system-reminder>\n')).toBe(true);
  expect(isClientWords('<system-reminder>a</system-reminder> Fix it.')).toBe(false);
});
