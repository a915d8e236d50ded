/**
 * Whether a database file that is shorter than its head says still holds every page that its trees use. Any thread.
 *
 * LMDB does not write a page that a transaction took and gave back: after many rows were removed at once, the last pages
 * of a healthy file are free, and were never written. Only the trees tell such a file from one that was cut off. The walk
 * reads the file instead of mapping it, so that no page behind its end can end the process.
 */
import { fstatSync, readSync } from 'node:fs';

// From liblmdb's mdb.c (MDB_page_header, MDB_node, MDB_ovpage, MDB_db), little-endian, 64 bits.
const FLAGS_AT = 18;
const LOWER_AT = 20;
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

/** A newest head: where its trees begin, and what it counts. */
export interface TreeRoots {
  page_size: number;
  /** The highest page that was ever taken. */
  last_page: number;
  /** Of the free list and of the named tables. */
  roots: readonly bigint[];
}

/**
 * @param file open for reading
 * @returns false when a tree uses a page behind the file's end, or is damaged
 */
export function holdsAllUsedPages(file: number, { page_size, last_page, roots }: TreeRoots): boolean {
  const pages_there = Math.floor(fstatSync(file).size / page_size);
  const page = Buffer.alloc(page_size);
  const ahead: number[] = [];
  /** @returns false when it lies behind the end */
  const follow = (number: bigint): boolean => {
    if (number === NO_PAGE) return true;
    if (number >= BigInt(pages_there)) return false;
    ahead.push(Number(number));
    return true;
  };
  if (!roots.every(follow)) return false;
  // Each page has one parent: more of them than the file has pages would be a circle.
  for (let seen = 0; ahead.length > 0; seen++) {
    const number = ahead.pop()!;
    if (seen > last_page || readSync(file, page, 0, page_size, number * page_size) < page_size) return false;
    if (!followPage(page, pages_there, follow)) return false;
  }
  return true;
}

function followPage(page: Buffer, pages_there: number, follow: (number: bigint) => boolean): boolean {
  const flags = page.readUInt16LE(FLAGS_AT);
  if ((flags & (IS_BRANCH | IS_LEAF)) === 0) return false;
  if ((flags & IS_FIXED_LEAF) !== 0) return true;
  const nodes = page.readUInt16LE(LOWER_AT) >> 1;
  if (NODES_AT + nodes * 2 > page.length) return false;
  for (let i = 0; i < nodes; i++) {
    const node = NODES_AT + page.readUInt16LE(NODES_AT + i * 2);
    if (node + NODE_BYTES > page.length) return false;
    if ((flags & IS_BRANCH) !== 0) {
      // The page's number takes the place of the size and of the flags: 48 bits.
      if (!follow(BigInt(page.readUIntLE(node, 6)))) return false;
      continue;
    }
    const node_flags = page.readUInt16LE(node + 4);
    const data = node + NODE_BYTES + page.readUInt16LE(node + 6);
    if ((node_flags & HAS_TREE) !== 0) {
      if (data + ROOT_AT + 8 > page.length || !follow(page.readBigUInt64LE(data + ROOT_AT))) return false;
    } else if ((node_flags & HAS_OVERFLOW) !== 0) {
      if (data + OVERFLOW_COUNT_AT + 8 > page.length) return false;
      const end = page.readBigUInt64LE(data) + page.readBigUInt64LE(data + OVERFLOW_COUNT_AT);
      if (end > BigInt(pages_there)) return false;
    }
  }
  return true;
}
