/**
 * Which earlier exchange a new one is stored against, and what is kept in memory for it. Runs in the
 * capture process. Bodies here are as they came, unmasked: they never leave this thread's memory.
 *
 * It looks in this order: the last exchange of the same run; exchanges whose body looks the same at a given place, the
 * farthest place first; the last exchange on the same path (for its headers). It is bounded in bytes. The least recently used
 * exchange goes first, and one that its successor repeats whole goes at once.
 *
 * All bytes of an exchange lie in one memory that holds nothing else, and its length is what counts: a small
 * Buffer would keep the 8 KB pool alive that Node cuts it from. Dropped memory is reused, and also counts.
 */
import { crc32 } from 'node:zlib';
import { copyBytes } from '../../../native/byte-engine.ts';
import { LinkedMap } from '../../std/linked-map.ts';
import { RecentMap } from '../../std/recent-map.ts';
import { measureSharedPrefix, type PreparedBody } from './prepared-body.ts';
import type { SecretSet } from './secret-set.ts';

/** One stored exchange that others may be stored against. */
export interface BaseEntry {
  id: number;
  /** Exchanges that must be read before this one can be. */
  depth: number;
  /** The exchange at the beginning of the chain. */
  root: number;
  request: PreparedBody;
  /** null when it was too large to be kept. */
  response: PreparedBody | null;
  /** The last part of the record, as dictionary; null when there was no time for it. */
  record: Buffer | null;
  secrets: SecretSet;
  /** All that the bodies and the record are in, from `takeMemory`. */
  memory: Buffer;
}

/** Places in a body where the bytes before are taken as its fingerprint: each half as far again as the one before. */
const PLACES = Array.from({ length: 18 }, (_, i) => Math.round(1_024 * 1.5 ** i));
/** Bytes of a fingerprint. Only a hint: candidates are compared byte for byte from the beginning. */
const PRINT_BYTES = 256;
/** Odd, with its bits far apart: the same bytes at another place are another fingerprint. */
const PLACE_FACTOR = 0x9e3779b1;
/** V8 keeps whole numbers up to this in its maps without a heap object for each. */
const SMALL_MASK = 0x3fff_ffff;
const MAX_PRINTS = 65_536;
const MAX_RUNS = 16_384;
/** Candidates kept for one fingerprint: the latest ones. */
const CANDIDATES = 8;

/** Weight of one lookup in the share of those that found something. */
const SHARE_WEIGHT = 1 / 64;
/** Below this share, only one in so many exchanges is kept. */
const SHARE_MIN = 0.05;
const KEPT_OF = 8;

/** Memory is taken in lengths of which eight come between a power of two and the next: at most an eighth is left over. */
const CELL_BYTES_MIN = 1_024;
const CELL_STEPS_LOG = 3;
/** Free memory that is so many lengths longer than what is asked for will do. */
const CELLS_LONGER = 4;
/** Part of the bound that memory which waits to be used again may take, and one exchange. */
const FREE_PART = 4;
const ENTRY_PART = 4;
/** Objects of an entry, its places in the maps, and the objects of one edit. */
const ENTRY_BYTES = 1_024;
const EDIT_BYTES = 384;

/** The base that was chosen and how many bytes both request bodies begin with. */
export interface ChosenBase {
  entry: BaseEntry;
  prefix: number;
  /** Chosen for its path alone: its headers help, its body hardly. */
  by_path: boolean;
}

export class BaseCache {
  readonly #maxBytes: number;
  #bytes = 0;
  readonly #entries = new LinkedMap<number, BaseEntry>();
  readonly #runs = new RecentMap<number, number>(MAX_RUNS);
  readonly #prints = new RecentMap<number, number[]>(MAX_PRINTS);
  readonly #paths = new RecentMap<number, number[]>(MAX_PRINTS);

  /** Memory of what was dropped, by its length. */
  readonly #free = new Map<number, Buffer[]>();
  #freeBytes = 0;

  /** Of the latest lookups, the share that found a base whose body helps. */
  #share = 1;
  #skipped = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** All that is held. */
  get bytes(): number {
    return this.#bytes + this.#freeBytes;
  }

  clear(): void {
    this.#bytes = 0;
    this.#free.clear();
    this.#freeBytes = 0;
    this.#entries.clear();
    this.#runs.clear();
    this.#prints.clear();
    this.#paths.clear();
  }

  /** @param id of an exchange stored lately; undefined when it is no longer here */
  get(id: number): BaseEntry | undefined {
    return this.#entries.get(id);
  }

  /** Whether to keep one more is likely to be of use: of traffic that never repeats, some are kept to notice when it does. */
  isWorthKeeping(): boolean {
    if (this.#share >= SHARE_MIN) return true;
    this.#skipped = (this.#skipped + 1) % KEPT_OF;
    return this.#skipped === 0;
  }

  /**
   * Memory of at least this length for what is kept of one exchange. It may have belonged to a dropped exchange, which
   * must not be read afterwards.
   * @returns null when it is more than may be kept
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
   * The memory of a base that its successor repeats, for the successor; the base is dropped then. What both begin with lies
   * there already.
   * @returns null when it is too short, or others build on the base
   */
  takeOver(base: BaseEntry, bytes: number): Buffer | null {
    if (base.memory.length < bytes || base.id === base.root || !this.#forget(base)) return null;
    return base.memory;
  }

  /**
   * The best base for a body, or null.
   * @param pressed of those on the same path only the last one is looked at
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
      // To look the same so far into the body says more than a long common beginning: a clock in the system prompt
      // ends that early. Against the run's own last request only a better beginning counts.
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
   * @param replaced a base whose body this one repeats: it is dropped, unless others build on it
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

  /** @returns whether it was there */
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

  /** Gives up free memory of the length of which there is most. */
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

/** Bytes of a body that is kept, as `copyBody` writes it. */
export function countCopied(body: PreparedBody): number {
  return isAsItCame(body) ? body.raw.length : body.raw.length + body.stored.length;
}

/**
 * The same body in that memory, from there on.
 * @param known so many of its first bytes are there already
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

/** Nothing of it is stored otherwise than it came. */
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

/** The length of memory for so many bytes. */
function roundCell(bytes: number): number {
  if (bytes <= CELL_BYTES_MIN) return CELL_BYTES_MIN;
  const step = 1 << (31 - Math.clz32(bytes - 1) - CELL_STEPS_LOG);
  return Math.ceil(bytes / step) * step;
}

/** A clearly longer beginning; of nearly equal ones, the one with the shorter chain under it. */
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

/** A fingerprint, short enough that a map looks it up as it is: two that are alike by chance cost a comparison. */
function printBody(body: Buffer, place: number): number {
  const at = PLACES[place]!;
  const print = crc32(body.subarray(at - PRINT_BYTES, at));
  return (print ^ Math.imul(place, PLACE_FACTOR)) & SMALL_MASK;
}

const scratch = Buffer.allocUnsafeSlow(1_024);

/** The same for a name, of which nothing is kept: a string may hold on to a much longer one that it was cut from. */
function printText(text: string): number {
  return crc32(scratch.subarray(0, scratch.write(text, 0, 'latin1'))) & SMALL_MASK;
}
