/**
 * A body as received and as stored, with the edits between the two. Capture process.
 */
import type { FoundAttachment } from './attachments.ts';
import { measureCommonPrefix } from './delta.ts';

/** A range of the received body, and its replacement in the stored copy. */
export interface Edit {
  start: number;
  end: number;
  text: Buffer;
  is_file: boolean;
}

/** A body as received (in memory only) and as stored. */
export interface PreparedBody {
  raw: Buffer;
  /** `raw` itself if nothing was changed. */
  stored: Buffer;
  edits: Edit[];
  /** Whether the received body contains the beginning of a placeholder. Its attachments then stay inside. */
  keeps_files: boolean;
  has_files: boolean;
  /**
   * Attachments that the search of this body found, without those of edits that were reused from an earlier body
   * (`editBody`). Empty once they are saved.
   */
  new_files: readonly FoundAttachment[];
}

export const NO_FILES: readonly FoundAttachment[] = Object.freeze([]);

/** Returns a body that is stored unchanged. */
export function plainBody(raw: Buffer): PreparedBody {
  return { raw, stored: raw, edits: [], keeps_files: false, has_files: false, new_files: NO_FILES };
}

/**
 * Makes a body from the received bytes and the edits.
 * @param edits in order, without overlaps
 * @param files the attachments that become `new_files`
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

/** Measures the length of the common beginning of two bodies. */
export function measureSharedPrefix(base: PreparedBody, raw: Buffer): number {
  return measureCommonPrefix(base.raw, raw);
}

/** Makes a body as readers get it, with masked secrets and with its attachments. May use the memory of `raw`. */
export function readBack({ raw, stored, edits, has_files }: PreparedBody): Buffer {
  if (!has_files) return stored;
  return applyEdits(
    raw,
    edits.filter((edit) => !edit.is_file),
    [],
    false,
  ).stored;
}
