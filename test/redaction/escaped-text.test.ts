/** Secrets in texts whose characters are escaped, once or several times. */
import { describe, expect, it } from 'vitest';
import { findEscapedSecrets } from '../../src/redaction/escaped-text.ts';
import { Work } from '../../src/redaction/work.ts';

const escapeLetters = (text: string): string =>
  JSON.stringify(text)
    .slice(1, -1)
    .replace(/[ae]/g, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`);

describe('a secret with a backslash before an escaped letter', () => {
  it.each([1, 2, 3])('is found completely when it was escaped %i times', (times) => {
    const secret = '0059/+19e1a06f8~<&\\a12==';
    let written = escapeLetters(secret);
    for (let n = 1; n < times; n++) written = JSON.stringify(written).slice(1, -1);
    const bytes = Buffer.from(`"${written}"`);
    const found = findEscapedSecrets(
      bytes,
      (text) => {
        const start = text.indexOf(secret);
        return start < 0 ? [] : [{ start, end: start + secret.length }];
      },
      new Work(1_000_000),
      0,
      bytes.length,
    );
    expect(found).toEqual([{ start: 1, end: bytes.length - 1 }]);
  });
});
