/**
 * Reads OpenTelemetry's environment variables: addresses, headers and attributes in the format of its specification.
 * Pure; main thread, at startup.
 */

/** Pairs `name=value`, separated by commas, values percent-encoded. @returns null for other text */
export function readPairs(text: string): [name: string, value: string][] | null {
  const pairs: [string, string][] = [];
  for (const part of text.split(',')) {
    if (part.trim() === '') continue;
    const at = part.indexOf('=');
    const name = part.slice(0, Math.max(0, at)).trim();
    if (name === '') return null;
    try {
      pairs.push([name, decodeURIComponent(part.slice(at + 1).trim())]);
    } catch {
      return null;
    }
  }
  return pairs;
}

/** Appends the path for traces to the address for all signals, whatever that address contains. */
export function joinTracesPath(base: string): string {
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`;
  return url.href;
}
