/**
 * Finds and masks secrets in streamed answers. A model that repeats a key sends it in pieces, in several events. In AWS
 * event streams, the text may also be base64, in frames with checksums. Pure; runs in the capture process. Server-sent
 * events: joins the string values of the JSON members that carry text, searches the joined text, and masks each piece
 * of a match in its place. AWS event stream (vnd.amazon.eventstream): does the same in the payloads of all frames.
 * Changed frames get new lengths and checksums, so that the stored copy can still be decoded. Layout of a frame: total
 * length, length of headers, CRC-32 of the two lengths, headers, payload, CRC-32 of all before it; numbers big-endian
 * (Amazon Transcribe developer guide, "Event stream encoding").
 */
import { crc32 } from 'node:zlib';
import { type ByteRange, mergeRanges } from '../../redaction/byte-range.ts';
import { CHARACTERS, KINDS } from '../../redaction/key-shapes.ts';
import { MASK } from '../../redaction/mask.ts';
import { findSecrets, type Wanted } from '../../redaction/secret-search.ts';
import { Work, WorkExceededError } from '../../redaction/work.ts';

/**
 * Maximum number of pieces of the streamed texts of a body, and of its frames. A body that exceeds one of them is
 * withheld.
 */
const STREAM_PIECES_MAX = 1_000_000;
const STREAM_FRAMES_MAX = 250_000;

/** JSON members whose string values are pieces of a text. The values of members with the same name form one text. */
const MEMBERS = [
  'text',
  'partial_json',
  'thinking',
  'content',
  'reasoning_content',
  'arguments',
  'delta',
  'completion',
  'input',
].map((name) => Buffer.from(`"${name}":`, 'latin1'));
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

interface Piece {
  /** Position of the piece in the joined text (`at`) and in the body (`start`), and its length. */
  at: number;
  start: number;
  size: number;
}

/**
 * Finds secrets that are spread over several string values.
 * @returns ranges of the body, one for each piece
 */
export function findSplitSecrets(body: Buffer, wanted: Wanted, work: Work = new Work()): ByteRange[] {
  if (wanted.needles.length === 0 && !wanted.shapes) return [];
  const texts = new Map<number, { pieces: Piece[]; size: number }>();
  let count = 0;
  work.add(body.length);
  let at = 0;
  while (at < body.length) {
    const quote = body.indexOf(QUOTE, at);
    if (quote < 0) break;
    at = quote + 1;
    const member = findMember(body, quote);
    if (member < 0) continue;
    let start = quote + MEMBERS[member]!.length;
    if (isSpace(body[start])) start++;
    if (body[start] !== QUOTE) continue;
    start++;
    const end = findStringEnd(body, start);
    // The string has no end, so no other string follows.
    if (end < 0) break;
    at = end + 1;
    if (end === start) continue;
    if (++count > STREAM_PIECES_MAX) throw new WorkExceededError();
    let joined = texts.get(member);
    if (joined === undefined) {
      joined = { pieces: [], size: 0 };
      texts.set(member, joined);
    }
    joined.pieces.push({ at: joined.size, start, size: end - start });
    joined.size += end - start;
  }
  const found: ByteRange[] = [];
  for (const { pieces, size } of texts.values()) {
    if (pieces.length < 2) continue;
    const bytes = Buffer.allocUnsafe(size);
    for (const piece of pieces) body.copy(bytes, piece.at, piece.start, piece.start + piece.size);
    for (const range of findSecrets(bytes, wanted, work)) addPieces(range, pieces, found);
  }
  return found;
}

/**
 * Finds the index of the member whose name, with its quotation marks and colon, is at `at`; -1 if no member is there.
 */
function findMember(body: Buffer, at: number): number {
  for (let number = 0; number < MEMBERS.length; number++) {
    const name = MEMBERS[number]!;
    if (body[at + 1] !== name[1] || body[at + 3] !== name[3]) continue;
    if (at + name.length <= body.length && body.compare(name, 0, name.length, at, at + name.length) === 0)
      return number;
  }
  return -1;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0xa0 || (byte !== undefined && byte >= 0x09 && byte <= 0x0d);
}

/** Finds the position of the closing quotation mark; -1 if it does not exist. */
function findStringEnd(body: Buffer, start: number): number {
  let at = start;
  for (;;) {
    const quote = body.indexOf(QUOTE, at);
    if (quote < 0) return -1;
    let escapes = quote;
    while (escapes > at && body[escapes - 1] === BACKSLASH) escapes--;
    if ((quote - escapes) % 2 === 0) return quote;
    at = quote + 1;
  }
}

/** Adds the ranges of the body that correspond to a range of the joined text. */
function addPieces(range: ByteRange, pieces: Piece[], found: ByteRange[]): void {
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (pieces[middle]!.at <= range.start) low = middle;
    else high = middle - 1;
  }
  for (let i = low; i < pieces.length && pieces[i]!.at < range.end; i++) {
    const { at, start, size } = pieces[i]!;
    const from = Math.max(range.start - at, 0);
    const to = Math.min(range.end - at, size);
    if (to > from) found.push({ start: start + from, end: start + to });
  }
}

/** Finds all ranges to mask in a text: whole secrets, and secrets in pieces. */
function findAll(text: Buffer, wanted: Wanted, work: Work): ByteRange[] {
  return mergeRanges(findSecrets(text, wanted, work).concat(findSplitSecrets(text, wanted, work)));
}

function maskRanges(text: Buffer, ranges: readonly ByteRange[], offset: number): Buffer {
  const parts: Buffer[] = [];
  let at = 0;
  for (const range of ranges) {
    parts.push(text.subarray(at, range.start - offset), Buffer.from(MASK, 'latin1'));
    at = range.end - offset;
  }
  parts.push(text.subarray(at));
  return Buffer.concat(parts);
}

const PRELUDE_BYTES = 12;
const CHECKSUM_BYTES = 4;
/** AWS Bedrock's InvokeModelWithResponseStream sends each event as base64 in a member of this name. */
const WRAPPING = Buffer.from('"bytes"', 'latin1');
const OPENING = 0x7b;
const CLOSING = 0x7d;

interface Frame {
  bytes: Buffer;
  headers: Buffer;
  /** The payload, or the event inside it. */
  text: Buffer;
  /** The payload's bytes before and after the event's base64; null if the payload is the event itself. */
  wrap: [before: string, after: string] | null;
}

/**
 * Finds the range of the event's base64 in a payload: the last member of that name in the outermost object; null if it
 * does not exist.
 */
function findWrapped(payload: Buffer): ByteRange | null {
  if (payload[0] !== OPENING) return null;
  let found: ByteRange | null = null;
  let done = 1;
  for (let name = payload.indexOf(WRAPPING, 1); name >= 0; name = payload.indexOf(WRAPPING, done)) {
    for (; done < name; done++) if (payload[done] === OPENING || payload[done] === CLOSING) return found;
    done = name + WRAPPING.length;
    let at = done;
    while (isSpace(payload[at])) at++;
    if (payload[at] !== 0x3a) continue;
    at++;
    while (isSpace(payload[at])) at++;
    if (payload[at] !== QUOTE) continue;
    const start = at + 1;
    at = start;
    while (isBase64(payload[at])) at++;
    if (payload[at] === QUOTE) found = { start, end: at };
    done = at;
  }
  return found;
}

const { base64: BASE64, equals: EQUALS } = CHARACTERS;

/** Whether the byte is a character of standard base64 or padding. */
function isBase64(byte: number | undefined): boolean {
  if (byte === undefined || byte === 0x2d || byte === 0x5f) return false;
  return (KINDS[byte]! & (BASE64 | EQUALS)) !== 0;
}

function readFrames(body: Buffer): { frames: Frame[]; rest: Buffer } {
  const frames: Frame[] = [];
  let at = 0;
  while (at + PRELUDE_BYTES + CHECKSUM_BYTES <= body.length) {
    const total = body.readUInt32BE(at);
    const headerBytes = body.readUInt32BE(at + 4);
    const whole = total >= PRELUDE_BYTES + headerBytes + CHECKSUM_BYTES && at + total <= body.length;
    if (!whole || crc32(body.subarray(at, at + 8)) !== body.readUInt32BE(at + 8)) break;
    if (frames.length >= STREAM_FRAMES_MAX) throw new WorkExceededError();
    const bytes = body.subarray(at, at + total);
    const payload = bytes.subarray(PRELUDE_BYTES + headerBytes, total - CHECKSUM_BYTES);
    const wrapped = findWrapped(payload);
    frames.push({
      bytes,
      headers: bytes.subarray(PRELUDE_BYTES, PRELUDE_BYTES + headerBytes),
      text:
        wrapped === null
          ? payload
          : Buffer.from(payload.toString('latin1', wrapped.start, wrapped.end), 'base64'),
      wrap:
        wrapped === null
          ? null
          : [payload.toString('latin1', 0, wrapped.start), payload.toString('latin1', wrapped.end)],
    });
    at += total;
  }
  return { frames, rest: body.subarray(at) };
}

function writeFrame(frame: Frame, text: Buffer): Buffer {
  const payload =
    frame.wrap === null
      ? text
      : Buffer.from(`${frame.wrap[0]}${text.toString('base64')}${frame.wrap[1]}`, 'latin1');
  const out = Buffer.alloc(PRELUDE_BYTES + frame.headers.length + payload.length + CHECKSUM_BYTES);
  out.writeUInt32BE(out.length, 0);
  out.writeUInt32BE(frame.headers.length, 4);
  out.writeUInt32BE(crc32(out.subarray(0, 8)), 8);
  frame.headers.copy(out, PRELUDE_BYTES);
  payload.copy(out, PRELUDE_BYTES + frame.headers.length);
  out.writeUInt32BE(crc32(out.subarray(0, out.length - CHECKSUM_BYTES)), out.length - CHECKSUM_BYTES);
  return out;
}

/**
 * Masks the secrets in an AWS event stream. Returns the same buffer if it contains no secret. Bytes after the last
 * complete frame are masked as plain text.
 */
export function maskEventStream(body: Buffer, wanted: Wanted, work: Work = new Work()): Buffer {
  const { frames, rest } = readFrames(body);
  const newline = Buffer.from('\n', 'latin1');
  const text = Buffer.concat(frames.flatMap((frame) => [frame.text, newline]));
  const ranges = findAll(text, wanted, work);
  const restRanges = findAll(rest, wanted, work);
  if (ranges.length === 0 && restRanges.length === 0) return body;
  const parts: Buffer[] = [];
  let offset = 0;
  let next = 0;
  for (const frame of frames) {
    const end = offset + frame.text.length;
    const own: ByteRange[] = [];
    // A range (of a private key, for example) may extend over several payloads. The part of each payload is masked
    // there.
    for (let i = next; i < ranges.length && ranges[i]!.start < end; i++) {
      own.push({ start: Math.max(ranges[i]!.start, offset), end: Math.min(ranges[i]!.end, end) });
      if (ranges[i]!.end <= end) next = i + 1;
    }
    parts.push(own.length === 0 ? frame.bytes : writeFrame(frame, maskRanges(frame.text, own, offset)));
    offset = end + 1;
  }
  parts.push(restRanges.length === 0 ? rest : maskRanges(rest, restRanges, 0));
  return Buffer.concat(parts);
}
