/**
 * JSON as the service takes it: half characters, as of an output that was cut, are no Unicode, and a request that holds one would
 * be refused as a whole. Pure; any thread.
 */

/** What stands for half a character. */
const REPLACEMENT = '\ufffd';

/**
 * @returns as JSON.stringify, with `\ufffd` for each half character, in keys too; undefined for what is no JSON
 * @throws TypeError for what goes in a circle, and what the value's own `toJSON` throws
 */
export function writeJson(value: unknown): string | undefined {
  const json = JSON.stringify(value) as string | undefined;
  // Half characters are written as escapes, in small letters, and whole ones as they are.
  if (!json?.includes('\\ud')) return json;
  return json.replaceAll(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (found) => (found === '\\\\' ? found : REPLACEMENT));
}
