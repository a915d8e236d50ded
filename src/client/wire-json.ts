/**
 * JSON as the service takes it: half characters, as of an output that was cut, are no Unicode, and a request that holds one would
 * be refused as a whole. Pure; any thread.
 */

import { digitsOf, exactNumber } from '../std/exact-json.ts';

/** What stands for half a character. */
const REPLACEMENT = '\ufffd';

function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value) as string | undefined;
  } catch (thrown) {
    if (!(thrown instanceof TypeError)) throw thrown;
    return JSON.stringify(value, writeBigInt) as string | undefined;
  }
}

/** A `bigint` is a number with all its digits; where the engine cannot write such numbers (Node 20), their text. */
function writeBigInt(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = exactNumber(String(value));
  return digitsOf(number) === String(value) ? number : String(value);
}

/**
 * @returns as JSON.stringify, with `\ufffd` for each half character, in keys too; undefined for what is no JSON
 * @throws TypeError for what goes in a circle, and what the value's own `toJSON` throws
 */
export function writeJson(value: unknown): string | undefined {
  const json = stringify(value);
  // Half characters are written as escapes, in small letters, and whole ones as they are.
  if (!json?.includes('\\ud')) return json;
  return json.replaceAll(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (found) => (found === '\\\\' ? found : REPLACEMENT));
}
