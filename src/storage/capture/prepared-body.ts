/** One body as it came and as it is stored: the edits between the two. Capture process. */
import type { FoundAttachment } from './attachments.ts';
import { measureCommonPrefix } from './delta.ts';

/** A range of the body as it came, and what stands there in the stored copy. */
export interface Edit {
  start: number;
  end: number;
  text: Buffer;
  is_file: boolean;
}

/** One body, both as it came (in memory only) and as it is stored. */
export interface PreparedBody {
  raw: Buffer;
  /** `raw` itself when nothing had to be changed. */
  stored: Buffer;
  edits: Edit[];
  /** Holds our placeholder's beginning by itself: attachments stay inside. */
  keeps_files: boolean;
  has_files: boolean;
  /** Attachments that came with this body and were not in its base, until they are saved. */
  new_files: readonly FoundAttachment[];
}

export const NO_FILES: readonly FoundAttachment[] = Object.freeze([]);

/** A body that is stored as it came. */
export function plainBody(raw: Buffer): PreparedBody {
  return { raw, stored: raw, edits: [], keeps_files: false, has_files: false, new_files: NO_FILES };
}

/**
 * @param edits in their order, of which none overlaps another
 * @param files those of them that are attachments and new
 */
export function applyEdits(
  raw: Buffer,
  edits: Edit[],
  files: FoundAttachment[],
  keepsFiles: boolean,
): PreparedBody {
  if (edits.length === 0) return { ...plainBody(raw), keeps_files: keepsFiles };
  const parts: Buffer[] = [];
  let at = 0;
  let hasFiles = false;
  for (const edit of edits) {
    parts.push(raw.subarray(at, edit.start), edit.text);
    at = edit.end;
    hasFiles = hasFiles || edit.is_file;
  }
  parts.push(raw.subarray(at));
  return {
    raw,
    stored: Buffer.concat(parts),
    edits,
    keeps_files: keepsFiles,
    has_files: hasFiles,
    new_files: files,
  };
}

/** Bytes that two bodies begin with alike. */
export function measureSharedPrefix(base: PreparedBody, raw: Buffer): number {
  return measureCommonPrefix(base.raw, raw);
}

/** A body as its stored copy reads: secrets masked, attachments in their places. Uses `raw`'s memory. */
export function readBack({ raw, stored, edits, has_files }: PreparedBody): Buffer {
  if (!has_files) return stored;
  return applyEdits(
    raw,
    edits.filter((edit) => !edit.is_file),
    [],
    false,
  ).stored;
}
