/** The rows of patterns in `main.mdb`: their tables, keys and values. Pure; actor threads and the command line. */
import { createHash } from 'node:crypto';
import type { NewPattern, Pattern, PatternScope, Tier } from './pattern.ts';

/** [tier, org_id, project_id, pattern_id] → Pattern without what the key says. */
export const PATTERNS = 'patterns';
/** [embedder, tier, org_id, project_id, pattern_id] → the situation's vector, 32-bit floats, least byte first. */
export const PATTERN_VECTORS = 'pattern_vectors';
/** [tier, org_id, project_id, trace, situation], both as digests → the outcome of that pattern of that trace. */
export const PATTERN_SOURCES = 'pattern_sources';
/** ['starters'] → which universal patterns of ours are in the store; ['embedder'] → whose vectors all patterns have. */
export const PATTERN_SETTINGS = 'pattern_settings';

/** What {@link PATTERN_SETTINGS} holds under ['starters']. */
export interface StarterRow {
  /** Digest of each that was created → its id. */
  created: Record<string, string>;
  /** Digest of all of them together. */
  version: string;
}

/** Key of the row of our own universal patterns. */
export const STARTERS_ROW = ['starters'] as const;

/** [ulid] → an import that the command line left, for the store to take. */
export const PATTERN_IMPORTS = 'pattern_imports';

export interface ImportRow {
  scope: PatternScope;
  patterns: NewPattern[];
}

type Key = readonly (string | number)[];

export type PatternRow = Omit<Pattern, 'pattern_id' | 'tier' | 'org_id' | 'project_id'>;

export interface SourceRow {
  pattern_id: string;
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

/** @param key of PATTERNS */
export function readPattern(key: Key, row: PatternRow): Pattern {
  const [tier, org_id, project_id, pattern_id] = key as [Tier, string, string, string];
  return { pattern_id, tier, org_id, project_id, ...row };
}

/** 32-bit floats lie in memory as they are stored. */
const IS_LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

export function encodeVector(vector: Float32Array): Buffer {
  const bytes = Buffer.copyBytesFrom(vector);
  return IS_LITTLE_ENDIAN ? bytes : bytes.swap32();
}

/** @returns undefined when it is none of so many dimensions */
export function decodeVector(bytes: unknown, dimensions: number): Float32Array | undefined {
  if (!(bytes instanceof Uint8Array) || bytes.length !== dimensions * 4) return undefined;
  const vector = new Float32Array(dimensions);
  const copy = Buffer.from(vector.buffer);
  copy.set(bytes);
  if (!IS_LITTLE_ENDIAN) copy.swap32();
  return vector;
}

/** Names of any length as the short part of a key: 22 characters of base64url, 128 bits. */
export function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 22);
}
