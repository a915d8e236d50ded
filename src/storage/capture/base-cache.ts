/**
 * Chooses the earlier exchange (the base) against which a new one is stored, and keeps bases in memory. Runs in the
 * capture process. Secrets in the bodies of bases are not masked, so these bodies never leave the memory of this
 * thread. The cache looks for a base in this order: the last exchange of the same run; exchanges with the same bytes at
 * one of several places of the body, the farthest place first; the last exchanges on the same path (for their headers).
 * The cache is bounded in bytes. It drops the least recently used exchange first. It drops an exchange at once when its
 * successor repeats most of it, unless the exchange is the first of a chain. Each exchange has one memory area for all
 * its bytes, and the length of that area counts. A small Buffer of Node would instead keep its whole 8 KB pool in
 * memory. The areas of dropped exchanges are reused, and also count.
 */
import { crc32 } from 'node:zlib';
import { copyBytes } from '../../../native/byte-engine.ts';
import { LinkedMap } from '../../std/linked-map.ts';
import { RecentMap } from '../../std/recent-map.ts';
import { announceSpare } from '../../std/spare-memory.ts';
import { measureSharedPrefix, type PreparedBody } from './prepared-body.ts';
import type { SecretSet } from './secret-set.ts';

/** One stored exchange that others may be stored against. */
export interface BaseEntry {
  id: number;
  /** Number of exchanges that must be read before this one. */
  depth: number;
  /** Id of the exchange at the beginning of the chain of bases. */
  root: number;
  request: PreparedBody;
  /** Identifies the request body (`BodyPlace`). */
  request_self: object;
  /** null when it was too large to be kept. */
  response: PreparedBody | null;
  /** The last part of the record, as dictionary; null when there was no time for it. */
  record: Buffer | null;
  secrets: SecretSet;
  /** The memory area, from `takeMemory`, that holds the bodies and the record. */
  memory: Buffer;
}

/**
 * Places in a body at which the preceding bytes give a fingerprint. Each place is 1.5 times as far from the
 * beginning as the one before.
 */
const PLACES = Array.from({ length: 18 }, (_, i) => Math.round(1_024 * 1.5 ** i));
/**
 * Number of bytes of a fingerprint. A fingerprint is only a hint: candidates are compared byte for byte from the
 * beginning.
 */
const PRINT_BYTES = 256;
/** The factor is odd and has spread bits, so that the same bytes at another place give another fingerprint. */
const PLACE_FACTOR = 0x9e3779b1;
/** Largest integer that V8 stores in a map without a heap object. */
const SMALL_MASK = 0x3fff_ffff;
const MAX_PRINTS = 65_536;
const MAX_RUNS = 16_384;
/** Maximum number of candidates kept for one fingerprint: the latest ones. */
const CANDIDATES = 8;

/** Weight of one lookup in the moving average of successful lookups. */
const SHARE_WEIGHT = 1 / 64;
/** If the share of successful lookups is lower than this, only one exchange of `KEPT_OF` is worth keeping. */
const SHARE_MIN = 0.05;
const KEPT_OF = 8;

/**
 * The lengths of areas: eight lengths from each power of two to the next, so at most an eighth of a new area is unused.
 */
const CELL_BYTES_MIN = 1_024;
const CELL_STEPS_LOG = 3;
/** A free area is reused if its length is at most this many steps above the requested one. */
const CELLS_LONGER = 4;
/**
 * Free areas may take the bound divided by `FREE_PART`; the area of an exchange may take the bound divided by
 * `ENTRY_PART`.
 */
const FREE_PART = 4;
const ENTRY_PART = 4;
/** Estimated size of an entry's objects, its map entries, and the objects of one edit. */
const ENTRY_BYTES = 1_024;
const EDIT_BYTES = 384;

/** The chosen base, and the length of the common beginning of both request bodies. */
export interface ChosenBase {
  entry: BaseEntry;
  prefix: number;
  /**
   * Whether the base was chosen only because the path is the same. Such a base helps to compress the headers, but
   * hardly the body.
   */
  by_path: boolean;
}

export class BaseCache {
  readonly #maxBytes: number;
  #bytes = 0;
  readonly #entries = new LinkedMap<number, BaseEntry>();
  readonly #runs = new RecentMap<number, number>(MAX_RUNS);
  readonly #prints = new RecentMap<number, number[]>(MAX_PRINTS);
  readonly #paths = new RecentMap<number, number[]>(MAX_PRINTS);

  /** Free memory areas, by length. */
  readonly #free = new Map<number, Buffer[]>();
  #freeBytes = 0;

  /** The share of recent lookups that found a base with a useful body. */
  #share = 1;
  #skipped = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    announceSpare(this);
  }

  /** Drops the free memory areas. The bases stay, because agents' turns come minutes apart. */
  releaseSpare(): void {
    this.#free.clear();
    this.#freeBytes = 0;
  }

  /** Drops these exchanges, because their stored form has changed. */
  forget(ids: ReadonlySet<number>): void {
    for (const id of ids) {
      const entry = this.#entries.peek(id);
      if (entry !== undefined) this.#drop(entry);
    }
  }

  /** Number of bytes that the cache has in memory. */
  get bytes(): number {
    return this.#bytes + this.#freeBytes;
  }

  clear(): void {
    this.#bytes = 0;
    this.releaseSpare();
    this.#entries.clear();
    this.#runs.clear();
    this.#prints.clear();
    this.#paths.clear();
  }

  /** Returns an exchange, and counts that as use; undefined if the cache does not have the exchange. */
  get(id: number): BaseEntry | undefined {
    return this.#entries.get(id);
  }

  /**
   * Whether a further exchange is likely to be useful. If the traffic does not repeat, only some exchanges are kept, to
   * notice when it begins to.
   */
  isWorthKeeping(): boolean {
    if (this.#share >= SHARE_MIN) return true;
    this.#skipped = (this.#skipped + 1) % KEPT_OF;
    return this.#skipped === 0;
  }

  /**
   * Returns a memory area of at least this length for one exchange. The area may be that of a dropped exchange, whose
   * bodies must not be read any more.
   * @returns null if the length exceeds the bound for one exchange
   */
  takeMemory(bytes: number): Buffer | null {
    if (bytes > this.#maxBytes / ENTRY_PART) return null;
    const wanted = roundCell(bytes);
    let cell = wanted;
    for (let longer = 0; longer <= CELLS_LONGER; longer++) {
      const memory = this.#free.get(cell)?.pop();
      if (memory !== undefined) {
        this.#freeBytes -= cell;
        return memory;
      }
      cell = roundCell(cell + 1);
    }
    return Buffer.allocUnsafeSlow(wanted);
  }

  /**
   * Passes the memory area of a base to the successor that repeats it, and drops the base. The common beginning is
   * already in the area.
   * @returns null if the area is too short, the base is the first of its chain, or the base was dropped already
   */
  takeOver(base: BaseEntry, bytes: number): Buffer | null {
    if (base.memory.length < bytes || base.id === base.root || !this.#forget(base)) return null;
    return base.memory;
  }

  /**
   * Chooses the best base for a body; null if the cache has none.
   * @param pressed true: only the last of the exchanges on the same path is tried, to save time
   */
  choose(runId: string | null, path: string, body: Buffer, pressed: boolean): ChosenBase | null {
    const chosen = this.#find(runId, path, body, pressed);
    const helps = chosen !== null && chosen.prefix * 4 >= body.length;
    this.#share += ((helps ? 1 : 0) - this.#share) * SHARE_WEIGHT;
    return chosen;
  }

  #find(runId: string | null, path: string, body: Buffer, pressed: boolean): ChosenBase | null {
    let best: ChosenBase | null = null;
    if (runId !== null) {
      const id = this.#runs.get(printText(runId));
      const entry = id === undefined ? undefined : this.get(id);
      if (entry !== undefined) {
        best = { entry, prefix: measureSharedPrefix(entry.request, body), by_path: false };
        if (best.prefix * 2 >= body.length) return best;
      }
    }
    for (let place = PLACES.length - 1; place >= 0; place--) {
      const at = PLACES[place]!;
      if (body.length < at) continue;
      const found = this.#chooseAmong(this.#prints.get(printBody(body, place)), body);
      if (found === null) continue;
      // A match this far into the body is better than a longer common beginning, because a time of day in the system
      // prompt makes common beginnings short. Such a match is preferred to the run's last request only if at least half
      // of the body is a common beginning.
      if (best === null || found.prefix * 2 >= body.length) return found;
    }
    if (best !== null) return best;
    const ids = this.#paths.get(printText(path));
    const last = this.#chooseAmong(pressed ? ids?.slice(-1) : ids, body);
    return last === null ? null : { ...last, by_path: true };
  }

  #chooseAmong(ids: number[] | undefined, body: Buffer): ChosenBase | null {
    if (ids === undefined) return null;
    let best: ChosenBase | null = null;
    for (let i = ids.length - 1; i >= 0; i--) {
      const entry = this.#entries.peek(ids[i]!);
      if (entry === undefined) {
        ids.splice(i, 1);
        continue;
      }
      const prefix = measureSharedPrefix(entry.request, body);
      if (best === null || isBetter(prefix, entry, best)) best = { entry, prefix, by_path: false };
    }
    if (best !== null) this.get(best.entry.id);
    return best;
  }

  /**
   * Keeps an exchange as a possible base.
   * @param replaced a base whose body the new exchange repeats; it is dropped, unless it is the first of the chain
   */
  add(entry: BaseEntry, runId: string | null, path: string, replaced: BaseEntry | null): void {
    if (replaced !== null && replaced.id !== entry.root) this.#drop(replaced);
    this.#entries.set(entry.id, entry);
    this.#bytes += countHeld(entry);
    if (runId !== null) this.#runs.set(printText(runId), entry.id);
    const body = entry.request.raw;
    for (let place = 0; place < PLACES.length && PLACES[place]! <= body.length; place++) {
      note(this.#prints, printBody(body, place), entry.id);
    }
    note(this.#paths, printText(path), entry.id);
    while (this.bytes > this.#maxBytes) this.#drop(this.#entries.oldest!);
  }

  /** Removes an entry without freeing its memory area. @returns whether the cache had the entry */
  #forget(entry: BaseEntry): boolean {
    if (!this.#entries.delete(entry.id)) return false;
    this.#bytes -= countHeld(entry);
    return true;
  }

  #drop(entry: BaseEntry): void {
    if (!this.#forget(entry)) return;
    const { memory } = entry;
    const free = this.#free.get(memory.length);
    if (free === undefined) this.#free.set(memory.length, [memory]);
    else free.push(memory);
    this.#freeBytes += memory.length;
    while (this.#freeBytes > this.#maxBytes / FREE_PART) this.#release();
  }

  /** Drops one free area of the length that takes the most memory. */
  #release(): void {
    let most: Buffer[] = [];
    let mostBytes = 0;
    for (const [cell, free] of this.#free) {
      if (cell * free.length <= mostBytes) continue;
      most = free;
      mostBytes = cell * free.length;
    }
    this.#freeBytes -= most.pop()!.length;
  }
}

/** Counts the bytes that `copyBody` needs for a body. */
export function countCopied(body: PreparedBody): number {
  return isAsItCame(body) ? body.raw.length : body.raw.length + body.stored.length;
}

/**
 * Copies a body into the area, starting at the offset.
 * @param known number of bytes at the beginning that the area already has
 */
export function copyBody(body: PreparedBody, memory: Buffer, at: number, known = 0): PreparedBody {
  const end = at + body.raw.length;
  const raw = memory.subarray(at, end);
  copyBytes(known === 0 ? body.raw : body.raw.subarray(known), raw, known);
  if (isAsItCame(body)) return { ...body, raw, stored: raw };
  const stored = memory.subarray(end, end + body.stored.length);
  copyBytes(body.stored, stored, 0);
  return { ...body, raw, stored };
}

/** Whether the body is stored unchanged. */
export function isAsItCame(body: PreparedBody): boolean {
  return body.stored === body.raw;
}

function countHeld({ memory, request, response }: BaseEntry): number {
  return ENTRY_BYTES + memory.length + countEdits(request) + (response === null ? 0 : countEdits(response));
}

function countEdits({ edits }: PreparedBody): number {
  let bytes = 0;
  for (const { text } of edits) bytes += EDIT_BYTES + text.length;
  return bytes;
}

/** Rounds a number of bytes up to the next length of areas. */
function roundCell(bytes: number): number {
  if (bytes <= CELL_BYTES_MIN) return CELL_BYTES_MIN;
  const step = 1 << (31 - Math.clz32(bytes - 1) - CELL_STEPS_LOG);
  return Math.ceil(bytes / step) * step;
}

/**
 * Whether a base is better than another: its common beginning is clearly longer, or nearly as long with a shorter
 * chain.
 */
function isBetter(prefix: number, entry: BaseEntry, than: ChosenBase): boolean {
  const margin = than.prefix / 32;
  if (prefix > than.prefix + margin) return true;
  return prefix >= than.prefix - margin && entry.depth < than.entry.depth;
}

/** Adds an id to a bounded list of a bounded map. */
function note<K>(map: RecentMap<K, number[]>, key: K, id: number): void {
  const ids = map.get(key);
  if (ids === undefined) {
    map.set(key, [id]);
    return;
  }
  ids.push(id);
  if (ids.length > CANDIDATES) ids.shift();
}

/**
 * Computes a fingerprint of the bytes before a place. V8 keeps so small a number in a map without a heap object.
 * Fingerprints that are equal by chance only cost a comparison.
 */
function printBody(body: Buffer, place: number): number {
  const at = PLACES[place]!;
  const print = crc32(body.subarray(at - PRINT_BYTES, at));
  return (print ^ Math.imul(place, PLACE_FACTOR)) & SMALL_MASK;
}

const scratch = Buffer.allocUnsafeSlow(1_024);

/**
 * Computes a fingerprint of a name. The name itself is not kept, because it may be a slice, for which V8 keeps a much
 * longer string in memory.
 */
function printText(text: string): number {
  return crc32(scratch.subarray(0, scratch.write(text, 0, 'latin1'))) & SMALL_MASK;
}
