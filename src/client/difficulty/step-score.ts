/**
 * Estimates the difficulty of a step from its text alone: four weighted signals, mapped to (0, 1).
 * The score of the Python client differs by at most 1e-9; `clients/cases/difficulty.json` tests
 * both. Pure; any thread.
 *
 * The regular expressions use only ASCII letters, and no character class that the two languages
 * define differently (`\s`, and `\w` for Unicode). They have no nested repetition, so their cost is
 * linear in the length of the text.
 */

/** The four signals of a text, each in [0, 1]. */
interface StepSignals {
  /** Share of words that express uncertainty; saturates at one word in twenty. */
  hedging: number;
  /** Number of words; saturates at 500. */
  length: number;
  /** Share of words about failures; saturates at one word in twenty. */
  error_language: number;
  /** Number of file paths, dotted identifiers and quoted strings; saturates at 10. */
  entities: number;
}

const WEIGHTS: Readonly<StepSignals> = {
  hedging: 0.3,
  length: 0.25,
  error_language: 0.25,
  entities: 0.2,
};

const WORDS_MAX = 500;
const ENTITIES_MAX = 10;
/** One matching word in this many words gives the full signal. Ordinary prose rarely has more. */
const WORDS_A_HIT = 20;
/**
 * Maximum number of code points that are judged, from the beginning of the text. The agent waits while the score is
 * computed.
 */
const CHARACTERS_MAX = 32_768;
/** Score of a text without words. */
const UNKNOWN_SCORE = 0.5;

/** Word separators: white space as both languages define it, listed explicitly. */
const WORD = /[^\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;

const HEDGE = new RegExp(
  `\\b(?:${[
    'maybe|perhaps|possibly|probably|presumably|supposedly|apparently|might|unsure|uncertain|unclear|unlikely',
    'not[ \\t\\r\\n]+(?:sure|certain|clear)',
    "(?:do[ \\t\\r\\n]+not|don['’]t)[ \\t\\r\\n]+know|no[ \\t\\r\\n]+idea",
    'i[ \\t\\r\\n]+(?:guess|suspect|wonder|assume|doubt)|confused|confusing|puzzled|puzzling|wondering',
    'hm{2,}|reconsider(?:s|ed|ing)?|rethink(?:ing)?|second[ \\t\\r\\n]+thoughts?|alternatively',
    'on[ \\t\\r\\n]+the[ \\t\\r\\n]+other[ \\t\\r\\n]+hand',
  ].join('|')})\\b`,
  'gi',
);

/** Also matches names such as `TypeError` and `java.io.IOException`. */
const ERROR_WORD = new RegExp(
  `\\b(?:${[
    '[a-z0-9_]*(?:error|exception)s?|tracebacks?|fail(?:s|ed|ing|ures?)?|fatal|panic(?:s|ked)?',
    'crash(?:es|ed|ing)?|abort(?:s|ed)?|timeouts?|timed[ \\t\\r\\n]+out|denied|refused|segfaults?',
    'not[ \\t\\r\\n]+found|unable[ \\t\\r\\n]+to|invalid|unexpected(?:ly)?|broken',
  ].join('|')})\\b`,
  'gi',
);

/** A part of a path between two slashes. */
const PART = '[A-Za-z0-9_.@+-]+';
/**
 * Matches quoted strings first, so that a path in quotes is one entity. Then it matches paths that begin with a root, a
 * home directory or a drive, and relative paths that have three parts or an extension (so not `and/or`). At last it
 * matches dotted identifiers (but not `e.g.`).
 */
const ENTITY = new RegExp(
  [
    '"[^"\\n]{1,200}"',
    '`[^`\\n]{1,200}`',
    '“[^”\\n]{1,200}”',
    "(?<![A-Za-z0-9_])'[^'\\n]{1,200}'(?![A-Za-z0-9_])",
    `(?<![A-Za-z0-9_.~/\\\\@+-])(?:~|\\.{1,2}|[A-Za-z]:)?(?:[/\\\\]${PART})+`,
    `(?<![A-Za-z0-9_.@+-])${PART}(?:[/\\\\]${PART}){2,}`,
    `(?<![A-Za-z0-9_.@+-])${PART}[/\\\\][A-Za-z0-9_@+-]*\\.[A-Za-z0-9_.@+-]*[A-Za-z0-9_]`,
    '(?<![A-Za-z0-9_.])(?!(?:e\\.g|i\\.e)(?![A-Za-z0-9_]))[A-Za-z_][A-Za-z0-9_]*(?:\\.[A-Za-z_][A-Za-z0-9_]*)+',
  ].join('|'),
  'gu',
);

/**
 * Estimates the difficulty of a step.
 * @param text the text of a step: a thought, an input, an observation, or all of these
 * @returns a score in [0, 1]; 0.5 if there is nothing to judge. Never throws, whatever the argument
 */
export function scoreStep(text: string): number {
  const signals = measureSignals(text);
  if (signals === null) return UNKNOWN_SCORE;
  const raw =
    WEIGHTS.hedging * signals.hedging +
    WEIGHTS.length * signals.length +
    WEIGHTS.error_language * signals.error_language +
    WEIGHTS.entities * signals.entities;
  return 1 / (1 + Math.exp(-6 * (raw - 0.5)));
}

/** Measures the signals of a text; null for a text without words, or a value that is not a text. */
export function measureSignals(text: string): StepSignals | null {
  if (typeof text !== 'string') return null;
  const judged = cutText(text, CHARACTERS_MAX);
  const words = countMatches(judged, WORD);
  if (words === 0) return null;
  return {
    hedging: Math.min(1, (countMatches(judged, HEDGE) * WORDS_A_HIT) / words),
    length: Math.min(words, WORDS_MAX) / WORDS_MAX,
    error_language: Math.min(1, (countMatches(judged, ERROR_WORD) * WORDS_A_HIT) / words),
    entities: countMatches(judged, ENTITY, ENTITIES_MAX) / ENTITIES_MAX,
  };
}

function countMatches(text: string, pattern: RegExp, most = Number.POSITIVE_INFINITY): number {
  let count = 0;
  pattern.lastIndex = 0;
  while (count < most && pattern.test(text)) count += 1;
  return count;
}

/** Returns the first code points of a text. The Python client counts code points, too. */
function cutText(text: string, codePoints: number): string {
  if (text.length <= codePoints) return text;
  let units = 0;
  for (let count = 0; count < codePoints && units < text.length; count += 1) {
    units += text.codePointAt(units)! > 0xffff ? 2 : 1;
  }
  return text.slice(0, units);
}
