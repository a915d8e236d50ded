/**
 * Chooses and merges segments of the full-text index. Merging keeps their number small, because a search
 * reads each of them. A merge rewrites an exchange only if its segment becomes at least four times as large.
 * Capture process.
 */
import type { DataKey } from '../../std/data-key.ts';
import { RUN_BLOCK, type SegmentContents } from './segment-format.ts';
import type { SegmentReader, WordList } from './segment-reader.ts';
import { SegmentWriter } from './segment-writer.ts';

/** Number of neighbouring segments that are merged at a time. */
const MERGED = 8;
/** Maximum share of the merged exchanges that the largest of these segments may have. */
const LARGEST_PART = 0.25;
/** Number of words between two pauses of a merge. */
const WORDS_AT_ONCE = 256;
/**
 * Merged segments with more exchanges than this are synced, because rebuilding them would take long. A segment from
 * which exchanges are erased is always synced.
 */
const SYNCED_EXCHANGES = 4_096;

interface Mergeable {
  first_id: number;
  last_id: number;
}

/**
 * Chooses the neighbours with the fewest exchanges for merging.
 * @param segments of one capture file, in the order of ids
 * @returns null if there is nothing to merge
 */
export function chooseMerge<Segment extends Mergeable>(segments: readonly Segment[]): Segment[] | null {
  let chosen: Segment[] | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (let at = 0; at + MERGED <= segments.length; at++) {
    const some = segments.slice(at, at + MERGED);
    const all = some.at(-1)!.last_id - some[0]!.first_id + 1;
    const sizes = some.map(({ first_id, last_id }) => last_id - first_id + 1);
    const isWhole = sizes.reduce((sum, size) => sum + size) === all;
    if (!isWhole || all >= least || Math.max(...sizes) > all * LARGEST_PART) continue;
    chosen = some;
    least = all;
  }
  return chosen;
}

interface MergeOptions {
  /** Path of the merged segment. */
  path: string;
  key: DataKey | null;
  level: number;
  /** Erased exchanges, which are omitted. */
  without?: ReadonlySet<number>;
  /** Marks of the first and the last exchange, if they have changed. */
  marks?: readonly [string, string];
}

/**
 * Merges neighbours, in pieces. An abandoned merge leaves a `.part` file, unless the caller ends the generator with
 * `return`.
 * @param sources neighbours in the order of ids
 * @throws SegmentDamage; a file system error
 */
export function* mergeSegments(
  sources: readonly SegmentReader[],
  { path, key, level, without = new Set(), marks }: MergeOptions,
): Generator<void, SegmentContents> {
  const first = sources[0]!.contents;
  const last = sources.at(-1)!.contents;
  const writer = new SegmentWriter({
    path,
    key,
    level,
    first_id: first.first_id,
    last_id: last.last_id,
    marks: marks ?? [first.marks[0], last.marks[1]],
    cut: sources.reduce((sum, { contents }) => sum + contents.cut, 0),
  });
  let isWhole = false;
  try {
    yield* mergeWords(sources, writer, without);
    for (const source of sources) {
      const { first_id, last_id } = source.contents;
      for (let id = first_id; id <= last_id; id += RUN_BLOCK) {
        for (const [at, key] of source.runsFrom(id).keys.entries())
          writer.addRun(without.has(id + at) ? 0 : key);
        yield;
      }
    }
    const isSynced = without.size > 0 || last.last_id - first.first_id >= SYNCED_EXCHANGES;
    const contents = writer.finish(isSynced);
    isWhole = true;
    return contents;
  } finally {
    if (!isWhole) writer.abandon();
  }
}

function* mergeWords(
  sources: readonly SegmentReader[],
  writer: SegmentWriter,
  without: ReadonlySet<number>,
): Generator<void> {
  const rests = sources.map((source) => source.words());
  const heads: (WordList | null)[] = rests.map(nextOf);
  for (let done = 1; ; done++) {
    let word: string | null = null;
    for (const head of heads) if (head !== null && (word === null || head.word < word)) word = head.word;
    if (word === null) return;
    const ids: number[] = [];
    for (const [at, head] of heads.entries()) {
      if (head?.word !== word) continue;
      for (const id of head.ids) if (!without.has(id)) ids.push(id);
      heads[at] = nextOf(rests[at]!);
    }
    if (ids.length > 0) writer.add(word, ids);
    if (done % WORDS_AT_ONCE === 0) yield;
  }
}

function nextOf(words: Iterator<WordList>): WordList | null {
  const next = words.next();
  return next.done === true ? null : next.value;
}
