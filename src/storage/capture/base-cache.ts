/**
 * Which earlier exchange a new one is stored against, and what is kept in memory for it. Runs on the capture writer's
 * actor thread. Bodies here are as they came, unmasked: they never leave this thread's memory.
 *
 * Looked for in this order: the last exchange of the same run; the exchanges whose body begins with the same 64, 16, 4
 * or 1 KiB; the last exchange on the same path (for its headers). Bounded in bytes; the one used least recently goes
 * first, and one that its successor repeats whole goes at once.
 */
import { crc32 } from 'node:zlib';
import { measureSharedPrefix, type PreparedBody, type SecretSet } from './preparation.ts';

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
  /** The last part of the record, as dictionary. */
  record: Buffer;
  secrets: SecretSet;
  bytes: number;
}

const LEVELS = [1_024, 4_096, 16_384, 65_536];
const MAX_PRINTS = 16_384;
const MAX_RUNS = 16_384;
/** Candidates kept for one fingerprint: the latest ones. */
const CANDIDATES = 4;

/** The base that was chosen and how many bytes both request bodies begin with. */
export interface ChosenBase {
  entry: BaseEntry;
  prefix: number;
}

function forgetOldest<K>(map: Map<K, unknown>, max: number): void {
  while (map.size > max) map.delete(map.keys().next().value!);
}

export class BaseCache {
  readonly #maxBytes: number;
  #bytes = 0;
  readonly #entries = new Map<number, BaseEntry>();
  readonly #runs = new Map<string, number>();
  readonly #prints = new Map<string, number[]>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  clear(): void {
    this.#bytes = 0;
    this.#entries.clear();
    this.#runs.clear();
    this.#prints.clear();
  }

  /** @param id of an exchange stored lately; undefined when it is no longer here */
  get(id: number): BaseEntry | undefined {
    const entry = this.#entries.get(id);
    if (entry !== undefined) {
      // Used: it goes last.
      this.#entries.delete(id);
      this.#entries.set(id, entry);
    }
    return entry;
  }

  /** The best base for a body, or null. */
  choose(runId: string | null, path: string, body: Buffer): ChosenBase | null {
    let best: ChosenBase | null = null;
    if (runId !== null) {
      const id = this.#runs.get(runId);
      const entry = id === undefined ? undefined : this.get(id);
      if (entry !== undefined) {
        best = { entry, prefix: measureSharedPrefix(entry.request, body) };
        if (best.prefix * 2 >= body.length) return best;
      }
    }
    for (let level = LEVELS.length - 1; level >= 0; level--) {
      const size = LEVELS[level]!;
      if (body.length < size || (best !== null && best.prefix >= size)) continue;
      const found = this.#chooseAmong(this.#prints.get(printBody(body, size)), body);
      if (found !== null && (best === null || found.prefix > best.prefix)) return found;
    }
    return best ?? this.#chooseAmong(this.#prints.get(path), body);
  }

  #chooseAmong(ids: number[] | undefined, body: Buffer): ChosenBase | null {
    if (ids === undefined) return null;
    let best: ChosenBase | null = null;
    for (let i = ids.length - 1; i >= 0; i--) {
      const entry = this.#entries.get(ids[i]!);
      if (entry === undefined) {
        ids.splice(i, 1);
        continue;
      }
      const prefix = measureSharedPrefix(entry.request, body);
      if (best === null || prefix > best.prefix) best = { entry, prefix };
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
    if (entry.bytes > this.#maxBytes / 4) return;
    this.#entries.set(entry.id, entry);
    this.#bytes += entry.bytes;
    if (runId !== null) {
      this.#runs.delete(runId);
      this.#runs.set(runId, entry.id);
      forgetOldest(this.#runs, MAX_RUNS);
    }
    const body = entry.request.raw;
    for (const size of LEVELS) {
      // Runs with a label are found by it; other runs share at most a system prompt with them.
      if (body.length < size || (runId !== null && size > 16_384)) break;
      this.#print(printBody(body, size), entry.id);
    }
    this.#print(path, entry.id);
    while (this.#bytes > this.#maxBytes) this.#drop(this.#entries.values().next().value!);
  }

  #print(key: string, id: number): void {
    const ids = this.#prints.get(key);
    if (ids === undefined) {
      this.#prints.set(key, [id]);
      forgetOldest(this.#prints, MAX_PRINTS);
      return;
    }
    ids.push(id);
    if (ids.length > CANDIDATES) ids.shift();
  }

  #drop(entry: BaseEntry): void {
    if (this.#entries.delete(entry.id)) this.#bytes -= entry.bytes;
  }
}

/** A name for the first bytes of a body. Only a hint: candidates are compared byte for byte. */
function printBody(body: Buffer, size: number): string {
  return `${size}:${crc32(body.subarray(0, size))}`;
}
