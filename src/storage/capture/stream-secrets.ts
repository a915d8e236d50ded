/**
 * Secrets in streamed answers, which come in pieces: a model that repeats a key sends it over several events, and in
 * AWS event streams the text may be base64 besides, in frames that carry checksums. Pure; runs on the capture writer's
 * actor thread.
 *
 * Server-sent events: the string values of the members that carry text are put together in their order, the whole is
 * searched, and what is found is masked piece by piece where it stands.
 * AWS event stream (vnd.amazon.eventstream): the same over all payloads; frames that change get new lengths and
 * checksums, so that the stored copy can still be decoded. Layout of a frame: total length, length of headers, CRC-32
 * of both, headers, payload, CRC-32 of all before it; numbers big-endian (Amazon Transcribe developer guide, "Event
 * stream encoding").
 */
import { crc32 } from 'node:zlib';
import { type ByteRange, findKeyShapes, findNeedles, MASK, mergeRanges } from '../../domain/redaction.ts';

/** Members whose strings are pieces of one text, and the string. Groups of one name are one text. */
const PIECE =
  /"(text|partial_json|thinking|content|reasoning_content|arguments|delta|completion|input)":\s?"((?:[^"\\]|\\.)*)"/g;

interface Piece {
  /** Where it begins in the text put together, and in the body. */
  at: number;
  start: number;
  size: number;
}

/**
 * Secrets that are spread over several string values.
 * @param needles byte strings to look for
 * @param shapes look for the shapes of keys too
 * @returns ranges of the body, one for each piece
 */
export function findSplitSecrets(body: Buffer, needles: readonly Buffer[], shapes: boolean): ByteRange[] {
  if (needles.length === 0 && !shapes) return [];
  const texts = new Map<string, { text: string; pieces: Piece[] }>();
  const source = body.toString('latin1');
  PIECE.lastIndex = 0;
  for (let match = PIECE.exec(source); match !== null; match = PIECE.exec(source)) {
    const piece = match[2]!;
    if (piece === '') continue;
    let joined = texts.get(match[1]!);
    if (joined === undefined) {
      joined = { text: '', pieces: [] };
      texts.set(match[1]!, joined);
    }
    const start = match.index + match[0].length - 1 - piece.length;
    joined.pieces.push({ at: joined.text.length, start, size: piece.length });
    joined.text += piece;
  }
  const found: ByteRange[] = [];
  for (const { text, pieces } of texts.values()) {
    if (pieces.length < 2) continue;
    const bytes = Buffer.from(text, 'latin1');
    const ranges = findNeedles(bytes, needles);
    if (shapes) ranges.push(...findKeyShapes(bytes));
    for (const range of ranges) addPieces(range, pieces, found);
  }
  return found;
}

/** The parts of the body that a range of the text put together stands for. */
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

/** Everything that is to be masked in a text: whole secrets and such as come in pieces. */
function findAll(text: Buffer, needles: readonly Buffer[], shapes: boolean): ByteRange[] {
  const ranges = [...findNeedles(text, needles), ...findSplitSecrets(text, needles, shapes)];
  if (shapes) ranges.push(...findKeyShapes(text));
  return mergeRanges(ranges);
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
/** InvokeModelWithResponseStream wraps each event in base64. */
const WRAPPED = /^(\{[^{}]*"bytes"\s*:\s*")([A-Za-z0-9+/=]*)("[\s\S]*)$/;

interface Frame {
  bytes: Buffer;
  headers: Buffer;
  /** The payload, or the event inside it. */
  text: Buffer;
  /** Before and after the base64 of the event; null when the payload is the event. */
  wrap: [before: string, after: string] | null;
}

function readFrames(body: Buffer): { frames: Frame[]; rest: Buffer } {
  const frames: Frame[] = [];
  let at = 0;
  while (at + PRELUDE_BYTES + CHECKSUM_BYTES <= body.length) {
    const total = body.readUInt32BE(at);
    const headerBytes = body.readUInt32BE(at + 4);
    const whole = total >= PRELUDE_BYTES + headerBytes + CHECKSUM_BYTES && at + total <= body.length;
    if (!whole || crc32(body.subarray(at, at + 8)) !== body.readUInt32BE(at + 8)) break;
    const bytes = body.subarray(at, at + total);
    const payload = bytes.subarray(PRELUDE_BYTES + headerBytes, total - CHECKSUM_BYTES);
    const wrapped = WRAPPED.exec(payload.toString('latin1'));
    frames.push({
      bytes,
      headers: bytes.subarray(PRELUDE_BYTES, PRELUDE_BYTES + headerBytes),
      text: wrapped === null ? payload : Buffer.from(wrapped[2]!, 'base64'),
      wrap: wrapped === null ? null : [wrapped[1]!, wrapped[3]!],
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
 * An AWS event stream without secrets; the very buffer given when there is none in it.
 * What follows the last whole frame is masked as plain text.
 */
export function maskEventStream(body: Buffer, needles: readonly Buffer[], shapes: boolean): Buffer {
  const { frames, rest } = readFrames(body);
  const newline = Buffer.from('\n', 'latin1');
  const text = Buffer.concat(frames.flatMap((frame) => [frame.text, newline]));
  const ranges = findAll(text, needles, shapes);
  const restRanges = findAll(rest, needles, shapes);
  if (ranges.length === 0 && restRanges.length === 0) return body;
  const parts: Buffer[] = [];
  let offset = 0;
  let next = 0;
  for (const frame of frames) {
    const end = offset + frame.text.length;
    const own: ByteRange[] = [];
    // A range may reach from one payload into the next (a private key, say): each masks its part.
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
