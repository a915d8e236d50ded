/**
 * Writes JSON that the service accepts. A cut text may contain a lone surrogate, which is not valid
 * Unicode, and the service refuses a whole request that contains one. Pure; any thread.
 */

import { digitsOf, exactNumber } from '../std/exact-json.ts';

/** The character that replaces a lone surrogate. */
const REPLACEMENT = '\ufffd';

function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value) as string | undefined;
  } catch (thrown) {
    if (!(thrown instanceof TypeError)) throw thrown;
    return JSON.stringify(value, writeBigInt) as string | undefined;
  }
}

/**
 * A `bigint` is written as a number with all its digits, or as text if the engine cannot write such numbers (Node
 * 20).
 */
function writeBigInt(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = exactNumber(String(value));
  return digitsOf(number) === String(value) ? number : String(value);
}

/**
 * Writes a value as JSON, with `\ufffd` in place of each lone surrogate, including those in keys.
 * @returns undefined for a value that JSON cannot represent
 * @throws TypeError for a circular value, and anything that the value's `toJSON` throws
 */
export function writeJson(value: unknown): string | undefined {
  const json = stringify(value);
  // JSON.stringify writes lone surrogates as lower-case escapes, and pairs unchanged.
  if (!json?.includes('\\ud')) return json;
  return json.replaceAll(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (found) => (found === '\\\\' ? found : REPLACEMENT));
}
