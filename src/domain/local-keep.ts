/** How long captures stay on the local disk when they are also in a bucket (CAPTURE_LOCAL_KEEP). Pure. */

export type LocalKeep =
  /** All files stay: the bucket is only a second copy. */
  | 'all'
  /** A file stays until this long after its last exchange. */
  | { age_ms: number }
  /** The newest sealed files stay, as many as together have at most this many bytes. */
  | { bytes: number };

interface KeptFile {
  /** When its last exchange ended. */
  to_ms: number;
  /** Bytes on the local disk. */
  bytes: number;
}

/**
 * Lists the files that may be removed from the local disk, oldest first.
 * @param files oldest first
 */
export function listDue<File extends KeptFile>(
  files: readonly File[],
  keep: LocalKeep,
  nowMs: number,
): File[] {
  if (keep === 'all') return [];
  if ('age_ms' in keep) return files.filter(({ to_ms }) => to_ms < nowMs - keep.age_ms);
  let left = keep.bytes;
  return [...files]
    .reverse()
    .filter(({ bytes }) => {
      left -= bytes;
      return left < 0;
    })
    .reverse();
}
