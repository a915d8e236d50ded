/**
 * Findings: an agent's notes about a code base. Prepares notes for storage, detects repeated notes, and computes which
 * paths a set of them covers. Pure; any thread.
 */

import { createHash } from 'node:crypto';
import { maskText, maskValue } from '../redaction/mask.ts';
import { isRawNumber, parseExact } from '../std/exact-json.ts';
import { FINDING_BOUNDS } from './finding-bounds.ts';

/** The owner of findings: an organization's code base. */
export interface Codebase {
  org_id: string;
  codebase_id: string;
}

/** A note as the caller sent it. */
interface FindingNote {
  content: string;
  file_path: string;
  finding_type: string;
  metadata: Readonly<Record<string, unknown>>;
}

/** A finding as it is stored. */
export interface Finding {
  finding_id: string;
  project_id: string;
  content: string;
  file_path: string;
  finding_type: string;
  /** JSON, kept as text so that no store interprets its keys. */
  metadata: string;
  /** RFC 3339 UTC with milliseconds. */
  created_at: string;
}

/** Narrows a recall or a listing; null: any value. */
export interface FindingFilter {
  file_path: string | null;
  finding_type: string | null;
}

/** Makes the stored form of a note: keys are masked first, then texts are cut, so that no half of a key remains. */
export function prepareFinding(note: FindingNote): Omit<Finding, 'finding_id' | 'project_id' | 'created_at'> {
  return {
    content: cutCharacters(maskKeys(note.content), FINDING_BOUNDS.content),
    file_path: prepareFilePath(note.file_path),
    finding_type: prepareFindingType(note.finding_type),
    metadata: JSON.stringify(maskValue(note.metadata)),
  };
}

/** Converts a path to the form in which paths are stored and compared. */
export function prepareFilePath(path: string): string {
  return cutCharacters(maskKeys(path), FINDING_BOUNDS.file_path);
}

export function prepareFindingType(type: string): string {
  return cutCharacters(maskKeys(type), FINDING_BOUNDS.finding_type);
}

/** Hashes a finding. The hash is equal for equal notes in one project, so that a repetition is recognized. */
export function hashFinding(finding: Omit<Finding, 'finding_id' | 'created_at'>): string {
  const { project_id, content, file_path, finding_type, metadata } = finding;
  const parts = [project_id, content, file_path, finding_type, sortKeys(parseExact(metadata))];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}

/** Converts a cosine to the score of a recall, 0 to 1. */
export function scoreOf(similarity: number): number {
  return Math.min(1, Math.max(0, similarity));
}

export function matchesFilter(
  finding: Pick<Finding, 'file_path' | 'finding_type'>,
  { file_path, finding_type }: FindingFilter,
): boolean {
  return (
    (file_path === null || finding.file_path === file_path) &&
    (finding_type === null || finding.finding_type === finding_type)
  );
}

/**
 * The paths of findings, and the check whether they cover a shorter path: `src/http/server.ts` covers itself,
 * `http/server.ts` and `server.ts`, but not `rver.ts`. Backslashes count as slashes; a leading `./` is
 * ignored.
 *
 * Paths are stored reversed, so that the covered paths become prefixes, which a binary search in a sorted
 * list finds. The cost does not depend on the form of the paths.
 */
export class PathCover {
  readonly #reversed: string[];

  constructor(paths: Iterable<string>) {
    const reversed = new Set<string>();
    for (const path of paths) if (path !== '') reversed.add(reversePath(path));
    this.#reversed = [...reversed].sort();
  }

  covers(path: string): boolean {
    const wanted = reversePath(path);
    if (wanted === '') return false;
    const longer = `${wanted}/`;
    return this.#firstFrom(wanted) === wanted || (this.#firstFrom(longer)?.startsWith(longer) ?? false);
  }

  /** Computes the share of the given paths that are covered; 1 for an empty list, 0 without findings. */
  coverage(paths: readonly string[]): number {
    if (paths.length === 0) return 1;
    return paths.filter((path) => this.covers(path)).length / paths.length;
  }

  /** Finds the first stored path that does not sort before the given one; undefined if all do. Both are reversed. */
  #firstFrom(reversed: string): string | undefined {
    let low = 0;
    let high = this.#reversed.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#reversed[middle]! < reversed) low = middle + 1;
      else high = middle;
    }
    return this.#reversed[low];
  }
}

/**
 * Reverses the UTF-8 bytes of a path, one character per byte. Bytes are reversed instead of characters because a native
 * function can do it. A slash is a single byte, so it stays a slash.
 */
function reversePath(path: string): string {
  let start = 0;
  while (path[start] === '.' && (path[start + 1] === '/' || path[start + 1] === '\\')) start += 2;
  const plain = path.includes('\\') ? path.replaceAll('\\', '/') : path;
  return Buffer.from(plain.slice(start)).reverse().toString('latin1');
}

function maskKeys(text: string): string {
  return maskText(text);
}

/** Copies a JSON value with the keys of every object sorted. */
function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null || isRawNumber(value)) return value;
  const sorted: Record<string, unknown> = {};
  for (const name of Object.keys(value).sort())
    define(sorted, name, sortKeys((value as Record<string, unknown>)[name]));
  return sorted;
}

/** Sets a field. Assignment of `__proto__` would change the object's prototype. */
function define(object: object, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

/** Cuts a text to this many code points. */
function cutCharacters(text: string, characters: number): string {
  if (text.length <= characters) return text;
  let at = 0;
  for (let count = 0; count < characters && at < text.length; count++)
    at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  return text.slice(0, at);
}
