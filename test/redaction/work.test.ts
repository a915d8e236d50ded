/** The work for a text is bounded by its length, for any content. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadAddon } from '../../native/byte-engine.ts';
import { fallback } from '../../native/fallback.ts';
import { collectCredentials, credentialForms } from '../../src/redaction/credentials.ts';
import { isCredentialHeader } from '../../src/redaction/header-names.ts';
import { findKeyShapes } from '../../src/redaction/key-search.ts';
import { KEY_SHAPES } from '../../src/redaction/key-shapes.ts';
import { MASK } from '../../src/redaction/mask.ts';
import { isSecretQueryName, maskEmbeddedQueries, maskQuery } from '../../src/redaction/query.ts';
import { findSecrets } from '../../src/redaction/secret-search.ts';
import { Work, WorkExceededError } from '../../src/redaction/work.ts';
import { drawsOf } from '../long-parts.ts';

/** The parts of worst cases: near keys, labels without values, beginnings without ends. */
const PIECES = [
  ...new Set(KEY_SHAPES.flatMap(({ begins }) => begins)),
  ...['Bearer ', 'basic ', 'authorization: ', '"authorization"', '"api_key":"', 'secret_access_key', 'key='],
  ...[
    'client_secret=',
    'x-amz-signature=',
    'api_key=',
    'token=',
    'secret=',
    '=',
    '==',
    '\\n',
    '%0A',
    '\\u000a',
  ],
  ...[
    '\\/',
    '.',
    '..',
    '-',
    '_',
    '"',
    ' ',
    '\n',
    '%20',
    '+',
    '/',
    '\\',
    '%',
    "'",
    ':',
    'key',
    'st.prd.',
    'live_',
  ],
  ...[
    '-----BEGIN PRIVATE KEY-----',
    '-----END',
    '-----BEGIN',
    'PRIVATE KEY-----',
    'a1',
    'A',
    'abcdefghijklmnop',
  ],
  ...['AbCdEfGh01234567', '0123456789abcdef0123456789abcdef', 'x'.repeat(15), 'aaaaaaaaaaaaaaaa1/', 'eyJeyJ'],
];
/** Characters of tokens in other notations, and sequences that only begin like such a character. */
const ESCAPES = [
  '\\u002d',
  '\\\\u0041',
  '%41',
  '%2D',
  '%252D',
  '%25',
  '%',
  '\\',
  '\\"',
  '\0a\0',
  'a\0',
  '\0',
  '%41 ',
  '\\u00',
];
const KEYS = { needles: [], packed: new Uint8Array(0), shapes: true };
/** A repeated part, with or without another part before it and an end after it. */
const crafted = fc.record({
  before: fc.constantFrom('', ...PIECES),
  again: fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 5 }).map((parts) => parts.join('')),
  behind: fc.constantFrom('', ...PIECES),
});

/** Number of bytes that the search reads. */
function measure(text: string, engine?: typeof fallback): number {
  const work = new Work();
  const bytes = Buffer.from(text, 'latin1');
  findKeyShapes(bytes, 0, bytes.length, engine, work);
  return work.done;
}

const SIZE = 20_000;
/** Maximum number of examined bytes for each byte of a text. */
const WORK_PER_BYTE = 24;

describe('the search for keys', () => {
  it.each([
    ['native or not', undefined],
    ['in TypeScript', fallback],
  ] as const)(
    'reads each byte a limited number of times, however many parts look like the beginning of a key (%s)',
    { tags: 'long' },
    (_, engine) => {
      fc.assert(
        fc.property(crafted, ({ before, again, behind }) => {
          const times = Math.ceil(SIZE / again.length);
          const once = measure(`${before}${again.repeat(times)}${behind}`, engine);
          const twice = measure(`${before}${again.repeat(2 * times)}${behind}`, engine);
          expect(twice).toBeLessThanOrEqual(2.1 * once + 1_000);
          expect(once).toBeLessThanOrEqual(WORK_PER_BYTE * SIZE);
        }),
        drawsOf(1_500),
      );
    },
  );

  it('reads each word with escapes once for each encoding in it', { tags: 'long' }, () => {
    const measureAll = (text: string): number => {
      const work = new Work();
      findSecrets(Buffer.from(text, 'latin1'), KEYS, work);
      return work.done;
    };
    fc.assert(
      fc.property(
        crafted,
        fc.array(fc.constantFrom(...ESCAPES), { minLength: 1, maxLength: 3 }),
        (text, parts) => {
          const again = `${text.again}${parts.join(text.before)}`;
          const times = Math.ceil(SIZE / again.length);
          const once = measureAll(again.repeat(times));
          expect(measureAll(again.repeat(2 * times))).toBeLessThanOrEqual(2.1 * once + 1_000);
          expect(once).toBeLessThanOrEqual(2 * WORK_PER_BYTE * SIZE);
        },
      ),
      drawsOf(700),
    );
  });

  it('stops when it has read its maximum number of bytes', () => {
    const text = Buffer.from('eyJ'.repeat(1_000));
    expect(() => findKeyShapes(text, 0, text.length, undefined, new Work(500))).toThrow(WorkExceededError);
  });

  it.runIf(loadAddon() !== null)(
    'lets the engine read megabytes in which each character begins a key',
    () => {
      const engine = loadAddon()!;
      const marks = new Float64Array(3);
      for (const again of [
        'aaaaaaaaaaaaaaaa/',
        'aaaaaaaaaaaaaaaa+=',
        'skskskskskskskss ',
        'glglglglglglglglgl',
        '=y=',
      ]) {
        const bytes = Buffer.from(again.repeat(Math.ceil(8e6 / again.length)));
        let at = 0;
        // Linear work takes milliseconds. Quadratic work takes many minutes, so it runs into the test's time limit.
        while (at < bytes.length) {
          engine.findSuspects(bytes, at, bytes.length, marks);
          if (marks[0]! <= at) throw new Error(`no progress at ${at} of ${again}`);
          at = marks[0]!;
        }
        expect(at).toBe(bytes.length);
      }
    },
  );
});

describe('an unbroken run of megabytes', () => {
  const SIX_MB = 6 << 20;
  it.each([
    ['of a token', `eyJ${'hbGciOiJIUzI1NiJ9'.repeat(SIX_MB / 16)}`, false],
    ['of a token with its dots', `eyJ${'hbGciOiJIUzI1NiJ9'.repeat(SIX_MB / 16)}.e30.c2ln`, true],
    ['behind sk-', `sk-${'A1b2C3d4'.repeat(SIX_MB / 8)}`, true],
    ['behind sk-ant-', `sk-ant-api03-${'A1b2C3d4'.repeat(SIX_MB / 8)}`, true],
    ['behind AIza', `AIza${'A1b2C3d4'.repeat(SIX_MB / 8)}`, true],
    ['behind a scheme', `Bearer ${'A1b2C3d4'.repeat(SIX_MB / 8)}`, true],
    ['of a private key', `-----BEGIN PRIVATE KEY-----\n${'A1b2C3d4'.repeat(SIX_MB / 8)}`, true],
  ])('%s is judged, and masked whole where it is a key', { tags: 'long' }, (_, text, isKey) => {
    const bytes = Buffer.from(`{"text":"${text}"}`);
    const found = findKeyShapes(bytes);
    if (!isKey) expect(found).toEqual([]);
    else expect(found).toEqual([{ start: text.startsWith('Bearer') ? 16 : 9, end: bytes.length - 2 }]);
  });
});

describe('names and values of headers and queries', () => {
  const SIZES = 120_000;

  it('of any length are judged, and very long names are treated as those of credentials', () => {
    for (const part of ['a', 'x-', 'token', '_token', '-key', 'a.', 'Aa', '1', '%74', '%2574', 'key']) {
      const name = part.repeat(SIZES / part.length);
      expect(isCredentialHeader(`${name}!`)).toBe(true);
      expect(isSecretQueryName(`${name}!`)).toBe(true);
      expect(maskQuery(`${name}=secret`)).toBe(`${name}=${MASK}`);
    }
  });

  it('are tokens after any preceding word, and counts are not', () => {
    expect(isCredentialHeader(`x-${'a'.repeat(200)}token`)).toBe(true);
    expect(isCredentialHeader(`x-${'a'.repeat(200)}-token-count`)).toBe(false);
  });

  it('are parsed within the time limit of a test, whatever they repeat', () => {
    for (const part of ['?', '&', '?a', '&a=', '=', '?token=', '&token', ';', '%', '?key=a&', 'a?'])
      expect(maskEmbeddedQueries(`${part.repeat(SIZES)}x`).length).toBeGreaterThan(0);
    expect(maskEmbeddedQueries(`${'?'.repeat(SIZES)}key=abc`)).toBe(`${'?'.repeat(SIZES)}key=${MASK}`);
  });

  it('yield a limited number of secrets and forms', () => {
    for (const part of ['a=12345678;', 'Bearer ', '"', '%22', 'a b', '=', 'signature=abcdefgh,', '\\'])
      for (const name of ['cookie', 'authorization', 'x-api-key']) {
        const found = collectCredentials([name, part.repeat(60_000 / part.length)], '');
        expect(found.length).toBeLessThanOrEqual(64);
        const characters = found.flatMap(credentialForms).reduce((sum, form) => sum + form.length, 0);
        expect(characters).toBeLessThan(2_000_000);
      }
  });
});
