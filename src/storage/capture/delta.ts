/**
 * Describes how a body is made from an earlier one (the base): ranges copied from the base, and literal bytes. Runs in
 * the capture process (make) and in readers on any thread (apply).
 * An agent's next request is usually its previous one with an addition near the end. So the common beginning and end
 * must be found fast, which the byte engine (`native/`) does. If much remains between them (a time stamp near the
 * beginning, moved cache markers), anchors of 32 bytes are looked up in the rest of the base to find further common
 * ranges.
 */
import { byteEngine } from '../../../native/byte-engine.ts';

/** Triples: offset in the base, number of bytes to copy, number of literal bytes that follow. */
export type DeltaOps = number[];

export interface Delta {
  ops: DeltaOps;
  /** The literal ranges of the target, in order. */
  literals: Buffer[];
  literal_bytes: number;
}

/** Measures the length of the longest common beginning of `a` from `aFrom` and `b` from `bFrom`, at most `limit`. */
export function measureCommonPrefix(a: Buffer, b: Buffer, aFrom = 0, bFrom = 0, limit = Infinity): number {
  return byteEngine.measureCommonPrefix(a, b, aFrom, bFrom, limit);
}

/** Measures the length of the longest common end of `a` up to `aTo` and `b` up to `bTo`, at most `limit`. */
export function measureCommonSuffix(a: Buffer, b: Buffer, aTo: number, bTo: number, limit: number): number {
  return byteEngine.measureCommonSuffix(a, b, aTo, bTo, limit);
}

/**
 * In shorter remainders no further common ranges are searched. The compressor finds them, because the previous exchange
 * is its dictionary.
 */
const RESYNC_FROM_BYTES = 4_096;
const ANCHOR_BYTES = 32;
/** Describing a shorter copy would take more bytes than it saves. */
const MIN_COPY_BYTES = 64;
/**
 * Maximum number of bytes of the base in which the anchors of one body are looked up, which takes a few milliseconds.
 */
const RESYNC_SCAN_BYTES = 16 << 20;

/**
 * Describes how to make `target` from `base`.
 * @param prefix length of a common beginning that is already known; omitted: it is measured
 */
export function makeDelta(base: Buffer, target: Buffer, prefix?: number): Delta {
  const delta: Delta = { ops: [], literals: [], literal_bytes: 0 };
  const start = prefix ?? measureCommonPrefix(base, target);
  const rest = Math.min(base.length, target.length) - start;
  const end = rest === 0 ? 0 : measureCommonSuffix(base, target, base.length, target.length, rest);
  const targetEnd = target.length - end;
  const baseEnd = base.length - end;
  let copyFrom = 0;
  let copyBytes = start;
  let literalFrom = start;
  const push = (literalTo: number): void => {
    const size = literalTo - literalFrom;
    if (copyBytes === 0 && size === 0) return;
    delta.ops.push(copyFrom, copyBytes, size);
    if (size > 0) {
      delta.literals.push(target.subarray(literalFrom, literalTo));
      delta.literal_bytes += size;
    }
  };
  if (targetEnd - start >= RESYNC_FROM_BYTES && baseEnd - start >= ANCHOR_BYTES) {
    let at = start;
    let baseAt = start;
    let stride = 64;
    let budget = RESYNC_SCAN_BYTES;
    while (at + ANCHOR_BYTES <= targetEnd && baseAt + ANCHOR_BYTES <= baseEnd && budget > 0) {
      const anchor = target.subarray(at, at + ANCHOR_BYTES);
      const hit = base.indexOf(anchor, baseAt);
      budget -= (hit < 0 || hit > baseEnd ? baseEnd : hit) - baseAt;
      if (hit < 0 || hit + ANCHOR_BYTES > baseEnd) {
        at += stride;
        stride = Math.min(stride * 2, 1_024);
        continue;
      }
      const back = measureCommonSuffix(target, base, at, hit, Math.min(at - literalFrom, hit - baseAt));
      const size = back + measureCommonPrefix(target, base, at, hit, Math.min(targetEnd - at, baseEnd - hit));
      if (size < MIN_COPY_BYTES) {
        at += stride;
        continue;
      }
      push(at - back);
      copyFrom = hit - back;
      copyBytes = size;
      literalFrom = at - back + size;
      at = literalFrom;
      baseAt = hit - back + size;
      stride = 64;
    }
  }
  push(targetEnd);
  if (end > 0) delta.ops.push(baseEnd, end, 0);
  return delta;
}

/**
 * Makes the target.
 * @param literals all literal bytes, in order
 * @throws {RangeError} if the ops do not fit the base and the literals
 */
export function applyDelta(base: Buffer, ops: DeltaOps, literals: Buffer): Buffer {
  let size = 0;
  for (let i = 0; i < ops.length; i += 3) size += ops[i + 1]! + ops[i + 2]!;
  const out = Buffer.allocUnsafe(size);
  let at = 0;
  let taken = 0;
  for (let i = 0; i < ops.length; i += 3) {
    const from = ops[i]!;
    const copy = ops[i + 1]!;
    const literal = ops[i + 2]!;
    if (from + copy > base.length || taken + literal > literals.length)
      throw new RangeError('delta does not fit');
    base.copy(out, at, from, from + copy);
    at += copy;
    literals.copy(out, at, taken, taken + literal);
    at += literal;
    taken += literal;
  }
  return out;
}
