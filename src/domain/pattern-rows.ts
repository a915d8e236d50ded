/** The rows of patterns in `main.mdb`: their tables, keys and values. Pure; any thread. */
import { createHash } from 'node:crypto';
import { BLOCK_NUMBERS, convertNumbers, countBlocks, NUMBER_BITS } from '../std/block-numbers.ts';
import type { NewPattern, Pattern, PatternScope, Tier } from './pattern.ts';

/** [tier, org_id, project_id, pattern_id] → Pattern without the fields in the key. */
export const PATTERNS = 'patterns';
/** [embedder, tier, org_id, project_id, pattern_id] → the situation's vector, encoded by `encodeVector`. */
export const PATTERN_VECTORS = 'pattern_vectors';
/**
 * [tier, org_id, project_id, trace, situation], the last two parts as digests → the outcome for this pattern of this
 * trace.
 */
export const PATTERN_SOURCES = 'pattern_sources';
/**
 * ['starters'] → which starter patterns (starter-patterns.ts) are stored; ['embedder'] → which embedder made all
 * patterns' vectors; ['rule'] → how far stored patterns were checked for values of single runs; ['vectors'] → how far
 * stored vectors were packed.
 */
export const PATTERN_SETTINGS = 'pattern_settings';

/** The value of {@link PATTERN_SETTINGS} under ['starters']. */
export interface StarterRow {
  /** Digest of each created pattern → its id. */
  created: Record<string, string>;
  /** Digest of all starter patterns together. */
  version: string;
}

/** Key of the row about starter patterns. */
export const STARTERS_ROW = ['starters'] as const;

/** [ulid] → an import that the command line has written for the store to process. */
export const PATTERN_IMPORTS = 'pattern_imports';

export interface ImportRow {
  scope: PatternScope;
  patterns: NewPattern[];
}

type Key = readonly (string | number)[];

export type PatternRow = Omit<Pattern, 'pattern_id' | 'tier' | 'org_id' | 'project_id'>;

/** What became of one pattern of a trace. */
export interface SourceRow {
  /** The pattern that was created, or the near-duplicate into which it was merged. */
  pattern_id: string;
  /** false: it was merged. */
  created: boolean;
}

export function patternKey({ tier, org_id, project_id }: PatternScope, patternId: string): Key {
  return [tier, org_id, project_id, patternId];
}

export function vectorKey(embedderId: string, scope: PatternScope, patternId: string): Key {
  return [digest(embedderId), ...patternKey(scope, patternId)];
}

export function sourceKey(scope: PatternScope, traceId: string, situation: string): Key {
  return [scope.tier, scope.org_id, scope.project_id, digest(traceId), digest(situation)];
}

export function putPattern(pattern: Pattern): { op: 'put'; table: string; row: Key; value: PatternRow } {
  const { pattern_id, tier, org_id, project_id, ...value } = pattern;
  return { op: 'put', table: PATTERNS, row: patternKey({ tier, org_id, project_id }, pattern_id), value };
}

/**
 * Makes a pattern from its key and row.
 * @param key of PATTERNS
 */
export function readPattern(key: Key, row: PatternRow): Pattern {
  const [tier, org_id, project_id, pattern_id] = key as [Tier, string, string, string];
  return { pattern_id, tier, org_id, project_id, ...row };
}

/** Size of the factor at the start of an encoded vector. Three vectors of 1,024 numbers fit on a page of LMDB. */
const VECTOR_HEAD_BYTES = 4;

/**
 * Encodes a vector: the factor as a 32-bit float, then one byte for each block of numbers, then a 9-bit integer for
 * each number, least bits first. To decode a number, take its integer, halve it as often as the byte of its block says,
 * and divide it by the factor. The factor is chosen so that the product of the packed and the original vector is exact.
 */
export function encodeVector(vector: Float32Array): Buffer {
  const bytes = Buffer.alloc(packedBytes(vector.length));
  const wholes = new Int16Array(vector.length);
  let at = numbersAt(vector.length);
  const factor = convertNumbers(vector, wholes, bytes.subarray(VECTOR_HEAD_BYTES, at));
  bytes.writeFloatLE(factor, 0);
  let bits = 0;
  let count = 0;
  for (const whole of wholes) {
    bits |= (whole & (2 ** NUMBER_BITS - 1)) << count;
    for (count += NUMBER_BITS; count >= 8; count -= 8) {
      bytes[at++] = bits & 255;
      bits >>>= 8;
    }
  }
  if (count > 0) bytes[at] = bits & 255;
  return bytes;
}

/**
 * Decodes a vector.
 * @returns undefined if the bytes are not a vector with this number of dimensions
 */
export function decodeVector(bytes: unknown, dimensions: number): Float32Array | undefined {
  if (!(bytes instanceof Uint8Array)) return undefined;
  if (bytes.length !== packedBytes(dimensions)) return decodeFloats(bytes, dimensions);
  const vector = new Float32Array(dimensions);
  const factor = new DataView(bytes.buffer, bytes.byteOffset).getFloat32(0, true);
  if (factor === 0) return vector;
  let bits = 0;
  let count = 0;
  let at = numbersAt(dimensions);
  for (let start = 0; start < dimensions; start += BLOCK_NUMBERS) {
    const divisor = factor * 2 ** bytes[VECTOR_HEAD_BYTES + start / BLOCK_NUMBERS]!;
    const end = Math.min(dimensions, start + BLOCK_NUMBERS);
    for (let place = start; place < end; place++) {
      for (; count < NUMBER_BITS; count += 8) bits |= bytes[at++]! << count;
      // The highest bit is the sign.
      vector[place] = ((bits << (32 - NUMBER_BITS)) >> (32 - NUMBER_BITS)) / divisor;
      bits >>>= NUMBER_BITS;
      count -= NUMBER_BITS;
    }
  }
  return vector;
}

/** Encodes a vector and decodes it again, so that it has the same rounding as a stored one. */
export function roundVector(vector: Float32Array): Float32Array {
  return decodeVector(encodeVector(vector), vector.length)!;
}

/**
 * Whether a row contains the 32-bit floats of versions up to 0.1, least byte first. The length of a packed
 * vector is not a multiple of four.
 */
export function isUnpackedVector(bytes: Uint8Array): boolean {
  return bytes.length % 4 === 0;
}

function decodeFloats(bytes: Uint8Array, dimensions: number): Float32Array | undefined {
  if (!isUnpackedVector(bytes) || bytes.length !== dimensions * 4) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return roundVector(Float32Array.from({ length: dimensions }, (_, at) => view.getFloat32(at * 4, true)));
}

/** Computes the offset of the 9-bit integers in an encoded vector. */
function numbersAt(dimensions: number): number {
  return VECTOR_HEAD_BYTES + countBlocks(dimensions);
}

function packedBytes(dimensions: number): number {
  const bytes = numbersAt(dimensions) + Math.ceil((dimensions * NUMBER_BITS) / 8);
  return bytes % 4 === 0 ? bytes + 1 : bytes;
}

/** Hashes a name of any length to a short part of a key: 22 characters of base64url, 132 bits. */
export function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 22);
}
