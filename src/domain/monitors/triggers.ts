/**
 * Trigger words of the lexicon's patterns: a pattern can match only a text that contains one of its words. One search
 * for all words rules out most patterns for most texts. If you change a pattern, change its words here;
 * `triggers.test.ts` generates matching texts and checks that they contain a word. Constants; any thread.
 */

/** One bit per pattern. */
export const TRIGGER = {
  failing: 1,
  denying: 1 << 1,
  partial: 1 << 2,
  pending: 1 << 3,
  claiming: 1 << 4,
  presupposing: 1 << 5,
  verifying: 1 << 6,
  enumerating: 1 << 7,
  recapping: 1 << 8,
  placeholder: 1 << 9,
} as const;

export type TriggerName = keyof typeof TRIGGER;

/** All bits, for a text that was not searched: every pattern may match it. */
export const ALL_TRIGGERS = 0xffffffff;

/**
 * Lower-case words of each pattern. Every match contains at least one of them, ignoring case. A word is a single
 * character, or 3 to {@link WORD_CHARACTERS} characters, in ASCII and without line breaks (a text may arrive in parts).
 */
export const TRIGGER_WORDS: Readonly<Record<TriggerName, readonly string[]>> = {
  failing: [
    'error',
    'exception',
    'fatal',
    'fail',
    'traceback',
    'panic:',
    'abort',
    'command not found',
    'no such file',
    'permission denied',
    'segmentation fault',
    ': ***',
    'exit code',
    'exit status',
    'exit with',
    'exited code',
    'exited status',
    'exited with',
  ],
  denying: [
    'not found',
    't fi',
    't fo',
    't be fi',
    't be fo',
    'no result',
    'no match',
    'no such',
    'no record',
    'no entries',
    'no data',
    'no item',
    'no file',
    'nothing ',
    ' unchanged',
    'no change',
    'no effect',
    't exist',
    'unable to ',
    'did not match',
    '0 results',
    '0 matches',
    'none found',
    'empty page',
    'empty list',
    'empty result',
    'unavailable',
    'access denied',
    '404',
    '403',
  ],
  partial: [
    'viewport shows ',
    'page 1 of ',
    'showing ',
    'truncated',
    ' more ',
    'first ',
    'has_more',
    'next_page',
    'output cut',
    'output limited',
  ],
  pending: [
    'status',
    'state',
    'phase',
    'pending',
    'queued',
    'running',
    'progress',
    'waiting',
    'processing',
    'building',
    'starting',
    'deploying',
    'containercreating',
    'podinitializing',
    'not ready',
    'not finished',
    'not complete',
    'not done',
    'not yet ',
    '%',
  ],
  claiming: [
    'success',
    'succeed',
    'fixed the ',
    ' pass',
    ' work',
    ' is green',
    ' fixed',
    ' resolved',
    ' solved',
    ' complete',
    ' done',
    ' finished',
    ' implemented',
  ],
  presupposing: [
    ' downloaded',
    ' provided',
    ' identified',
    ' obtained',
    ' retrieved',
    ' extracted',
    ' gathered',
    ' collected',
    ' found',
    ' located',
    ' mentioned',
    ' listed',
    ' opened',
    ' returned',
    ' saved',
    ' confirmed',
    ' revised',
    ' updated',
  ],
  verifying: [
    'verif',
    'confirm',
    'validat',
    'authenticat',
    'double-check',
    'cross-check',
    'ensure',
    'make sure',
  ],
  enumerating: [',', ';', ' and '],
  recapping: [
    'summar',
    'recap',
    'so far',
    'compact',
    'compress',
    'truncat',
    'condens',
    'trimm',
    'conversation',
    'context',
    'session',
    ' what we',
    ' what i',
  ],
  placeholder: [
    'path_to',
    'path/to',
    'your_',
    'your-',
    '<your',
    '[your',
    '{your',
    '<insert',
    '[insert',
    '{insert',
    '<enter',
    '[enter',
    '{enter',
    '<replace',
    '[replace',
    '{replace',
    '_here',
  ],
};

const CHARACTERS = 256;
const BUCKETS = 1_024;
const ENTRIES_AT = CHARACTERS + BUCKETS;
/** Fields of an entry: [bits, index of the bucket's next entry, number of characters, the characters]. */
const ENTRY = 8;
/** Longest word. */
const WORD_CHARACTERS = (ENTRY - 3) * 4;

/**
 * Encodes the words for the addon: the bits of each character, then the first entry of each bucket (0: empty), then the
 * entries. The hash of a word's first three characters selects its bucket.
 * @throws RangeError for a word that the search does not support
 */
export function packTriggers(words: Readonly<Record<TriggerName, readonly string[]>>): Uint32Array {
  const numbers: number[] = new Array(ENTRIES_AT).fill(0);
  for (const name of Object.keys(words) as TriggerName[]) {
    for (const word of words[name]) {
      if (!/^[\x01-\x09\x0b-@[-~]+$/.test(word) || word.length === 2 || word.length > WORD_CHARACTERS)
        throw new RangeError(`"${word}" cannot be looked for`);
      if (word.length === 1) {
        numbers[word.charCodeAt(0)]! |= TRIGGER[name];
        continue;
      }
      const key = word.charCodeAt(0) | (word.charCodeAt(1) << 8) | (word.charCodeAt(2) << 16);
      const bucket = CHARACTERS + (Math.imul(key, 0x9e3779b1) >>> 22);
      const characters = new Uint32Array(WORD_CHARACTERS / 4);
      new Uint8Array(characters.buffer).set(Buffer.from(word, 'latin1'));
      const entry = numbers.length;
      numbers.push(TRIGGER[name], numbers[bucket]!, word.length, ...characters);
      numbers[bucket] = entry;
    }
  }
  return Uint32Array.from(numbers);
}
