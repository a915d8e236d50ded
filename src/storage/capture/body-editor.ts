/**
 * From a body as it came to its stored copy: attachments taken out, secrets masked. An agent's next request begins with its
 * previous one, so the edits of the previous body are kept inside the common beginning (and end), and only what is new between
 * them is scanned, with a margin that is longer than any key. Capture process.
 */
import { byteEngine } from '../../../native/byte-engine.ts';
import { type ByteRange, mergeRanges } from '../../redaction/byte-range.ts';
import { MIN_CREDENTIAL_LENGTH } from '../../redaction/credentials.ts';
import { CHARACTERS, KINDS } from '../../redaction/key-shapes.ts';
import { MASK, SCAN_MARGIN_BYTES } from '../../redaction/mask.ts';
import { measureCutNeedle } from '../../redaction/needles.ts';
import { findSecrets, type Wanted } from '../../redaction/secret-search.ts';
import { type Work, WorkExceededError } from '../../redaction/work.ts';
import { leaveRest } from '../../std/own-memory.ts';
import {
  type FoundAttachment,
  findAttachments,
  MIN_BASE64_CHARS,
  mayHoldPlaceholder,
  wrapBinaryBody,
} from './attachments.ts';
import { isOfText, isSearchedInParts } from './body-kind.ts';
import { measureCommonSuffix } from './delta.ts';
import { applyEdits, type Edit, NO_FILES, type PreparedBody, plainBody } from './prepared-body.ts';
import { type SecretSet, wantedOf } from './secret-set.ts';
import { findSplitSecrets } from './stream-secrets.ts';

/** Masks in one body. A body that needs more is withheld. */
export const MASKS_PER_BODY = 100_000;
/** Images and documents that are taken out of one body. Further ones stay in it. */
const FILES_PER_BODY = 1_000;

const MASK_BYTES = Buffer.from(MASK, 'latin1');

/** What is looked for in a body. */
interface BodySearch {
  needles: SecretSet;
  shapes: boolean;
  contentType: string | null;
  /** The body may end inside a needle; its beginning is masked then, too. */
  cut: boolean;
  work: Work;
}

/** What of a body is scanned, and the edits that hold before and behind it. */
interface ScanSpan {
  from: number;
  to: number;
  before: readonly Edit[];
  after: readonly Edit[];
  /** Attachments stay inside what is known. */
  keeps_files: boolean;
}

/**
 * @param base an earlier body whose edits hold for this one as far as they are alike, or null
 * @param prefix bytes that both begin with
 * @throws {WorkExceededError} when it takes more than it may
 */
export function editBody(
  raw: Buffer,
  base: PreparedBody | null,
  prefix: number,
  search: BodySearch,
): PreparedBody {
  const { needles, shapes, contentType, cut, work } = search;
  if (raw.length === 0) return plainBody(raw);
  if (base !== null && prefix === raw.length && prefix === base.raw.length)
    return { ...base, raw, stored: base.stored === base.raw ? raw : base.stored, new_files: NO_FILES };
  const known = base !== null && prefix > SCAN_MARGIN_BYTES ? base : null;
  // What nearly every body is: text with nothing in it that the stored copy would have otherwise.
  if (known === null && shapes && !cut && isOfText(raw, contentType)) {
    if (byteEngine.isPlain(raw, needles.packed_all, MIN_BASE64_CHARS)) return plainBody(raw);
  }
  // Secrets in pieces can lie anywhere before and after what is new.
  const inParts = isSearchedInParts(raw, contentType);
  const whole = inParts ? null : wrapBinaryBody(raw, contentType);
  // A file with a secret in it is kept as a text is, masked.
  if (
    whole !== null &&
    !mayHoldPlaceholder(raw) &&
    findSecrets(raw, wantedOf(needles, shapes), work).length === 0
  ) {
    return applyEdits(raw, [{ ...whole, text: whole.placeholder, is_file: true }], [whole], false);
  }
  const edited =
    known === null || inParts ? null : editSpan(raw, narrowSpan(raw, known, prefix, cut), search, false);
  return edited ?? editSpan(raw, wholeSpan(raw), search, inParts)!;
}

function wholeSpan(raw: Buffer): ScanSpan {
  return { from: 0, to: raw.length, before: [], after: [], keeps_files: false };
}

/** What is new in a body between a beginning and an end that the base has as well. */
function narrowSpan(raw: Buffer, base: PreparedBody, prefix: number, cut: boolean): ScanSpan {
  // Back to where the token begins that the margin begins in: what is new may make a key of it.
  let from = findTokenStart(raw, prefix - SCAN_MARGIN_BYTES);
  for (const edit of base.edits) {
    if (edit.start < from && edit.end > from) from = edit.start;
  }
  const before = base.edits.filter((edit) => edit.end <= from);
  let to = raw.length;
  const after: Edit[] = [];
  const rest = Math.min(raw.length, base.raw.length) - prefix;
  const suffix =
    rest === 0 || cut ? 0 : measureCommonSuffix(base.raw, raw, base.raw.length, raw.length, rest);
  if (suffix > 2 * SCAN_MARGIN_BYTES) {
    const shift = raw.length - base.raw.length;
    to = raw.length - suffix + SCAN_MARGIN_BYTES;
    for (const edit of base.edits) {
      if (edit.start + shift < to && edit.end + shift > to) to = edit.end + shift;
    }
    for (const edit of base.edits) {
      if (edit.start + shift >= to) after.push({ ...edit, start: edit.start + shift, end: edit.end + shift });
    }
  }
  return { from, to, before, after, keeps_files: base.keeps_files };
}

/**
 * Edits what is in the span.
 * @param inParts secrets may come in pieces
 * @returns null when the edits around it do not hold: the whole body has to be scanned then
 * @throws {WorkExceededError}
 */
function editSpan(raw: Buffer, span: ScanSpan, search: BodySearch, inParts: boolean): PreparedBody | null {
  const { from, to, before, after } = span;
  const { needles, shapes, cut, work } = search;
  const wanted = wantedOf(needles, shapes);
  let keepsFiles = span.keeps_files;
  if (!keepsFiles && mayHoldPlaceholder(from === 0 && to === raw.length ? raw : raw.subarray(from, to))) {
    if (before.length + after.length > 0) return null;
    keepsFiles = true;
  }
  const files: FoundAttachment[] = [];
  const edits = keepsFiles ? [] : takeOutFiles(findAttachments(raw, from, to), wanted, work, files);
  let secrets = findSecrets(raw, wanted, work, from, to);
  if (cut) secrets.push(...findCutNeedle(raw, needles.bytes, work));
  if (inParts) secrets = secrets.concat(findSplitSecrets(raw, wanted, work));
  if (!addMasks(edits, mergeRanges(secrets), from, to)) return null;
  if (edits.length > 1) edits.sort((a, b) => a.start - b.start);
  const last = edits.at(-1);
  const tail = last === undefined ? after : after.filter((edit) => edit.start >= last.end);
  return applyEdits(
    raw,
    before.length + tail.length === 0 ? edits : [...before, ...edits, ...tail],
    files,
    keepsFiles,
  );
}

/**
 * @param found attachments in their order
 * @param files takes those that go out of the body
 * @returns an edit for each that goes out, or has a secret in it
 */
function takeOutFiles(
  found: readonly FoundAttachment[],
  wanted: Wanted,
  work: Work,
  files: FoundAttachment[],
): Edit[] {
  const edits: Edit[] = [];
  for (const file of found) {
    const { start, end, content } = file;
    const inside = findSecrets(content, wanted, work);
    if (inside.length === 0) {
      // Further ones stay in the body.
      if (files.length === FILES_PER_BODY) continue;
      files.push(file);
      edits.push({ start, end, text: file.placeholder, is_file: true });
    } else {
      // It stays in the body, in standard base64 whatever it was in: what it said is gone anyway.
      const text = leaveRest(Buffer.from(maskRanges(content, inside).toString('base64'), 'latin1'));
      edits.push({ start, end, text, is_file: false });
    }
  }
  return edits;
}

/**
 * Adds a mask for each secret that does not lie in an attachment.
 * @param edits those of attachments, in their order
 * @returns false when a secret goes on into what was not looked at
 * @throws {WorkExceededError} when there are more than one body may have
 */
function addMasks(edits: Edit[], secrets: readonly ByteRange[], from: number, to: number): boolean {
  const attachments = edits.slice();
  let next = 0;
  for (const range of secrets) {
    if (range.start < from) continue;
    if (range.end > to) return false;
    while (next < attachments.length && attachments[next]!.end <= range.start) next++;
    if (next < attachments.length && attachments[next]!.start < range.end) continue;
    if (edits.length >= MASKS_PER_BODY) throw new WorkExceededError();
    edits.push({ start: range.start, end: range.end, text: MASK_BYTES, is_file: false });
  }
  return true;
}

/** Where the token begins that goes on at `at`. */
function findTokenStart(bytes: Buffer, at: number): number {
  let start = at;
  while (start > 0 && (KINDS[bytes[start - 1]!]! & CHARACTERS.token) !== 0) start--;
  return start;
}

/** The longest beginning of a needle that the bytes end with, if it is long enough to be told from a word. */
function findCutNeedle(bytes: Buffer, needles: readonly Buffer[], work: Work): ByteRange[] {
  let longest = 0;
  for (const needle of needles) longest = Math.max(longest, measureCutNeedle(bytes, needle, work));
  return longest < MIN_CREDENTIAL_LENGTH ? [] : [{ start: bytes.length - longest, end: bytes.length }];
}

/** The bytes with the mask in place of each range. */
function maskRanges(bytes: Buffer, ranges: ByteRange[]): Buffer {
  const parts: Buffer[] = [];
  let at = 0;
  for (const { start, end } of mergeRanges(ranges)) {
    parts.push(bytes.subarray(at, start), MASK_BYTES);
    at = end;
  }
  parts.push(bytes.subarray(at));
  return Buffer.concat(parts);
}
