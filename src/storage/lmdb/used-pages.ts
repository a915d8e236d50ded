/**
 * Walks the trees of a database file without mapping it, so that a reference to a page beyond the file's end cannot
 * crash the process. Any thread.
 * The walk answers these questions. Does a file that is shorter than its head says still contain every page that its
 * trees use? LMDB does not write a page that a transaction allocated and freed, so the last pages of an intact file may
 * be missing (file-head.ts). Which bytes of the file are unused (page-wipe.ts, unused-bytes.ts)? Which pages does a
 * restore point need (../points/page-source.ts)?
 */
import { fstatSync, readSync } from 'node:fs';

// From liblmdb's mdb.c (MDB_page_header, MDB_node, MDB_ovpage, MDB_db), little-endian, 64 bits.
const FLAGS_AT = 18;
const LOWER_AT = 20;
const UPPER_AT = 22;
const NODES_AT = 24;
const IS_BRANCH = 0x01;
const IS_LEAF = 0x02;
const IS_FIXED_LEAF = 0x20;
const NODE_BYTES = 8;
const HAS_OVERFLOW = 0x01;
const HAS_TREE = 0x02;
const OVERFLOW_COUNT_AT = 16;
const ROOT_AT = 40;
/** The root of an empty tree: all bits set. */
const NO_PAGE = 0xffff_ffff_ffff_ffffn;

/** The roots of a head's trees, and the head's counts. */
export interface TreeRoots {
  page_size: number;
  /** The highest page that was ever allocated. */
  last_page: number;
  /** The roots of the free list and of the named tables. */
  roots: readonly bigint[];
}

/** A page of a tree, or the pages of one long value. */
interface UsedPages {
  first: number;
  count: number;
  /** Where the unused bytes begin and end: offsets from the start of the first page. */
  unused_from: number;
  unused_to: number;
  /** The page of a tree, until the next one is read; null for a long value, which is not read. */
  content: Buffer | null;
}

/** A tree uses a page that is missing or damaged. */
export class DamagedTreeError extends Error {
  override readonly name = 'DamagedTreeError';
}

/**
 * Checks whether the file contains every page that the trees of a head use.
 * @param file open for reading
 * @returns false if a tree uses a page beyond the file's end, or is damaged
 */
export function holdsAllUsedPages(file: number, head: TreeRoots): boolean {
  try {
    for (const _ of walkUsedPages(file, head, () => true));
    return true;
  } catch (thrown) {
    if (thrown instanceof DamagedTreeError) return false;
    throw thrown;
  }
}

/**
 * Yields the pages that the trees of a head use. Reads the pages one at a time as the caller iterates; does not read
 * the pages of long values.
 * @param file open for reading; no transaction may reuse a page of these trees meanwhile
 * @param enters called before a page of a tree is read: false skips the page and the pages below it
 * @throws DamagedTreeError; a file system error
 */
export function* walkUsedPages(
  file: number,
  { page_size, last_page, roots }: TreeRoots,
  enters: (page: number) => boolean,
): Generator<UsedPages> {
  const pages_there = Math.floor(fstatSync(file).size / page_size);
  const page = Buffer.alloc(page_size);
  const ahead: number[] = [];
  const follow = (number: bigint): void => {
    if (number === NO_PAGE) return;
    if (number >= BigInt(pages_there)) throw new DamagedTreeError('a page is missing');
    ahead.push(Number(number));
  };
  roots.forEach(follow);
  // Each page has one parent, so more visits than the file has pages mean a cycle.
  for (let seen = 0; ahead.length > 0; seen++) {
    const first = ahead.pop()!;
    if (!enters(first)) continue;
    if (seen > last_page || readSync(file, page, 0, page_size, first * page_size) < page_size)
      throw new DamagedTreeError('a cycle, or a page that is cut off');
    yield* readTreePage(page, first, pages_there, follow);
  }
}

/** Yields the page itself and its long values, and calls `follow` for the pages below it. */
function* readTreePage(
  page: Buffer,
  first: number,
  pages_there: number,
  follow: (number: bigint) => void,
): Generator<UsedPages> {
  const flags = page.readUInt16LE(FLAGS_AT);
  if (page.readBigUInt64LE(0) !== BigInt(first)) throw new DamagedTreeError('a page with another number');
  if ((flags & (IS_BRANCH | IS_LEAF)) === 0) throw new DamagedTreeError('a page of another kind');
  if ((flags & IS_FIXED_LEAF) !== 0) {
    yield { first, count: 1, unused_from: page.length, unused_to: page.length, content: page };
    return;
  }
  const lower = page.readUInt16LE(LOWER_AT);
  const upper = page.readUInt16LE(UPPER_AT);
  if (NODES_AT + lower > page.length || upper < lower || NODES_AT + upper > page.length)
    throw new DamagedTreeError('a page of wrong counts');
  yield {
    first,
    count: 1,
    unused_from: NODES_AT + lower,
    unused_to: NODES_AT + upper,
    content: page,
  };
  for (let i = 0; i < lower >> 1; i++) {
    const node = NODES_AT + page.readUInt16LE(NODES_AT + i * 2);
    if (node + NODE_BYTES > page.length) throw new DamagedTreeError('a row outside its page');
    if ((flags & IS_BRANCH) !== 0) {
      // In a branch page, the page number (48 bits) takes the place of the fields for size and flags.
      follow(BigInt(page.readUIntLE(node, 6)));
      continue;
    }
    const node_flags = page.readUInt16LE(node + 4);
    const data = node + NODE_BYTES + page.readUInt16LE(node + 6);
    if ((node_flags & HAS_TREE) !== 0) {
      if (data + ROOT_AT + 8 > page.length) throw new DamagedTreeError('a table outside its page');
      follow(page.readBigUInt64LE(data + ROOT_AT));
    } else if ((node_flags & HAS_OVERFLOW) !== 0) yield readLongValue(page, node, data, pages_there);
  }
}

/** Reads the overflow pages of a value that is too long for its row's page. */
function readLongValue(page: Buffer, node: number, data: number, pages_there: number): UsedPages {
  if (data + OVERFLOW_COUNT_AT + 8 > page.length) throw new DamagedTreeError('a value outside its page');
  const first = page.readBigUInt64LE(data);
  const count = page.readBigUInt64LE(data + OVERFLOW_COUNT_AT);
  if (first + count > BigInt(pages_there)) throw new DamagedTreeError('a page is missing');
  const unused_to = Number(count) * page.length;
  const unused_from = Math.min(NODES_AT + page.readUInt32LE(node), unused_to);
  return { first: Number(first), count: Number(count), unused_from, unused_to, content: null };
}
