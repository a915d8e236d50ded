/**
 * Makes the stored copy of a body: replaces attachments by placeholders and masks secrets. An agent's next request
 * begins with its previous one. So the edits of the previous body are reused in the common beginning and end. Only the
 * bytes between the common parts are scanned, with a margin on both sides that is longer than any key. Capture process.
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

/** Maximum number of masks in one body. A body that needs more is withheld. */
export const MASKS_PER_BODY = 100_000;
/** Maximum number of images and documents that are stored separately per body. Further ones stay in the body. */
const FILES_PER_BODY = 1_000;

const MASK_BYTES = Buffer.from(MASK, 'latin1');

/** What to search for in a body. */
interface BodySearch {
  needles: SecretSet;
  shapes: boolean;
  contentType: string | null;
  /** Whether the body may end in the middle of a secret. Then the beginning of a secret at its end is masked, too. */
  cut: boolean;
  work: Work;
}

/** The range of a body to scan, and the reused edits before and after it. */
interface ScanSpan {
  from: number;
  to: number;
  before: readonly Edit[];
  after: readonly Edit[];
  /** True: the base kept all its attachments in the body, so this body does, too. False: `editSpan` decides. */
  keeps_files: boolean;
}

/**
 * Makes the stored copy of a body.
 * @param base an earlier body, whose edits are reused where both bodies are equal; null: none
 * @param prefix length of the common beginning
 * @throws {WorkExceededError} if the search exceeds its work limit
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
  // The usual case: text without anything to mask or replace.
  if (known === null && shapes && !cut && isOfText(raw, contentType)) {
    if (byteEngine.isPlain(raw, needles.packed_all, MIN_BASE64_CHARS)) return plainBody(raw);
  }
  // In an event stream, a secret can be split into parts that lie far from the new bytes.
  const inParts = isSearchedInParts(raw, contentType);
  const whole = inParts ? null : wrapBinaryBody(raw, contentType);
  // A file that contains a secret stays in the body, with the secret masked.
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

/** Returns the range of a body between the common beginning and the common end that it shares with the base. */
function narrowSpan(raw: Buffer, base: PreparedBody, prefix: number, cut: boolean): ScanSpan {
  // The range begins at the start of a token, because new bytes may complete a key.
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
 * Edits the bytes of the span.
 * @param inParts secrets may be split into parts
 * @returns null if the surrounding edits cannot be reused: then the whole body must be scanned
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
 * Chooses the attachments that are stored separately, and makes the edits of all attachments that change.
 * @param found attachments, in the order of their places in the body
 * @param files receives those that are stored separately
 * @returns an edit for each attachment that is stored separately or contains a secret
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
      // Further attachments stay in the body.
      if (files.length === FILES_PER_BODY) continue;
      files.push(file);
      edits.push({ start, end, text: file.placeholder, is_file: true });
    } else {
      // The file stays in the body in standard base64, whatever the original variant: masking has changed the
      // content anyway.
      const text = leaveRest(Buffer.from(maskRanges(content, inside).toString('base64'), 'latin1'));
      edits.push({ start, end, text, is_file: false });
    }
  }
  return edits;
}

/**
 * Adds a mask for each secret that begins at or after `from` and does not overlap an attachment.
 * @param edits the edits of the attachments, in order
 * @returns false if a secret extends beyond the scanned bytes
 * @throws {WorkExceededError} if the body would have more masks than allowed
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

/** Finds the start of the token that contains `at`. */
function findTokenStart(bytes: Buffer, at: number): number {
  let start = at;
  while (start > 0 && (KINDS[bytes[start - 1]!]! & CHARACTERS.token) !== 0) start--;
  return start;
}

/** Finds the end of the bytes if it is the beginning of a secret, and too long to be an ordinary word. */
function findCutNeedle(bytes: Buffer, needles: readonly Buffer[], work: Work): ByteRange[] {
  let longest = 0;
  for (const needle of needles) longest = Math.max(longest, measureCutNeedle(bytes, needle, work));
  return longest < MIN_CREDENTIAL_LENGTH ? [] : [{ start: bytes.length - longest, end: bytes.length }];
}

/** Returns the bytes with each range replaced by the mask. */
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
