/** Finds whole private keys in PEM (RFC 7468), with real or escaped newlines. Pure; any thread. */
import type { ByteRange } from './byte-range.ts';
import type { Work } from './work.ts';

/** End of the first line of every PEM private key. */
export const PEM_TAIL = Buffer.from('PRIVATE KEY-----', 'latin1');
const PEM_BEGIN = '-----BEGIN';
const PEM_END = Buffer.from('-----END', 'latin1');
/** Maximum length of a first line up to PEM_TAIL, and of a last line from PEM_END on. */
const FIRST_LINE_BYTES = 48;
const LAST_LINE_BYTES = 64;
/** Longest distance between the first and the last line if there is more than base64 between them, such as headers. */
const MIXED_BYTES = 8_064;

/** Bytes of a PEM body: base64, white space, and JSON's escapes of a newline. */
const PEM_BODY = new Uint8Array(256);
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \r\n\t') {
  PEM_BODY[char.charCodeAt(0)] = 1;
}

/** Adds the private keys whose first line ends in [from, to). */
export function findPrivateKeys(
  source: Uint8Array,
  from: number,
  to: number,
  found: ByteRange[],
  work: Work,
): void {
  const bytes = Buffer.isBuffer(source)
    ? source
    : Buffer.from(source.buffer, source.byteOffset, source.byteLength);
  let lastLine = -1;
  let hit = bytes.indexOf(PEM_TAIL, from);
  while (hit >= 0 && hit < to) {
    work.add(FIRST_LINE_BYTES);
    const lead = Math.max(0, hit - FIRST_LINE_BYTES);
    const begin = bytes.toString('latin1', lead, hit).lastIndexOf(PEM_BEGIN);
    let next = hit + PEM_TAIL.length;
    if (begin >= 0) {
      // Searches once for all first lines that precede the same last line.
      if (lastLine < next) lastLine = indexOrEnd(bytes, next);
      let end = next;
      while (end < bytes.length && PEM_BODY[bytes[end]!] === 1) end++;
      work.add(end - next);
      const isWhole = lastLine < bytes.length && (end >= lastLine || lastLine - hit < MIXED_BYTES);
      if (isWhole) end = endOfLastLine(bytes, lastLine);
      found.push({ start: lead + begin, end });
      next = Math.max(next, end);
    }
    hit = bytes.indexOf(PEM_TAIL, next);
  }
}

function indexOrEnd(bytes: Buffer, from: number): number {
  const at = bytes.indexOf(PEM_END, from);
  return at < 0 ? bytes.length : at;
}

/** Finds the end of the last line, such as `-----END RSA PRIVATE KEY-----`, even if the line is incomplete. */
function endOfLastLine(bytes: Buffer, start: number): number {
  const line = bytes.toString('latin1', start, Math.min(bytes.length, start + LAST_LINE_BYTES));
  const marks = /^-----END[A-Z0-9 ]*-{0,5}/.exec(line);
  return start + (marks === null ? PEM_END.length : marks[0].length);
}
