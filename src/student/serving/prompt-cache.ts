/**
 * Simulates the provider's prompt cache in two histories of the same requests: in `alone` the upstream served every
 * step; in `beside` it served only the steps that the student left to it. The difference between the two histories
 * shows what a served step saves and what a cold cache costs. The student's thread.
 *
 * A request with markers (`cache_control`) writes its prefix up to each marker, and reads the longest prefix that an
 * earlier request wrote, at most LOOK_BACK_BLOCKS before a marker. A request without markers writes and reads any
 * prefix that ends with a message, as with providers that cache automatically. An entry is valid for five minutes after
 * its last use, or for an hour if the marker says so.
 *
 * Prefixes are compared by hash. The provider keeps a cache for each account, but the simulation has one cache for all
 * accounts.
 */

import type { NormalRequest, TurnBlock } from '../../domain/turn.ts';
import { RecentMap } from '../../std/recent-map.ts';
import { hashString } from '../model/json-values.ts';

/** Maximum number of prefixes that are remembered; the least recently written ones are forgotten. */
const PREFIXES = 100_000;
/**
 * Number of prefix ends kept for a request without markers: the first ones, which several conversations share, and the
 * last ones.
 */
const ENDS = { first: 3, last: 64 } as const;
const LOOK_BACK_BLOCKS = 20;
const LIFETIME_MS = { '5m': 300_000, '1h': 3_600_000 } as const;
/** Providers add tokens to each block for its type, role and id. */
const BLOCK_CHARACTERS = { text: 20, tool_call: 60, tool_result: 60 } as const;
/** Number of characters for which an image or document counts, whatever the size of its data. */
const MEDIA_CHARACTERS = 6_000;
const MEDIA_HASHED = 1_000;

/** The place where a prefix of a request ends. */
interface PrefixEnd {
  /** Identifies the prefix by content and length. */
  key: number;
  characters: number;
  /** Number of blocks before the end. */
  blocks: number;
  /** Lifetime that the marker at this end sets; null without a marker. */
  lifetime_ms: number | null;
}

/** The prefixes of one request, from the shortest to the longest. */
export interface RequestPrefixes {
  ends: PrefixEnd[];
  /** Length of the whole request. */
  characters: number;
  has_markers: boolean;
}

/** Characters of one request that were read from and written to a cache. */
export interface CacheUse {
  read: number;
  written: number;
  /** The part of the written characters that is valid for an hour. */
  written_1h: number;
}

interface Entry {
  lifetime_ms: number;
  /** When the entry was last used in each history; -Infinity if never. */
  alone_ms: number;
  beside_ms: number;
}

type History = 'alone_ms' | 'beside_ms';

/**
 * Reads where the prefixes of a request end.
 * @param isMarked whether the request as a whole asks for caching
 */
export function readPrefixes(request: NormalRequest, isMarked: boolean): RequestPrefixes {
  const reader = new PrefixReader();
  for (const { name, description, input_schema, settings } of request.tools) {
    reader.add(`${name} ${description} ${JSON.stringify(input_schema)}`);
    const marker = (settings as { cache_control?: { ttl?: string } | null } | null)?.cache_control;
    if (marker != null) reader.end(lifetimeOf(marker.ttl));
  }
  reader.end(null);
  reader.addBlocks(request.system);
  reader.end(null);
  for (const { content } of request.messages) {
    reader.addBlocks(content);
    reader.end(null);
  }
  return reader.finish(isMarked);
}

function lifetimeOf(ttl: string | null | undefined): number {
  return ttl === '1h' ? LIFETIME_MS['1h'] : LIFETIME_MS['5m'];
}

class PrefixReader {
  readonly #ends: PrefixEnd[] = [];
  #hash = 0;
  #characters = 0;
  #blocks = 0;

  add(words: string, characters = words.length): void {
    this.#hash = hashString(words, this.#hash);
    this.#characters += characters;
  }

  addBlocks(blocks: readonly TurnBlock[]): void {
    for (const block of blocks) {
      if (block.type === 'cache_point') this.end(lifetimeOf(block.ttl));
      else {
        this.#blocks++;
        this.#addBlock(block);
      }
    }
  }

  #addBlock(block: Exclude<TurnBlock, { type: 'cache_point' }>): void {
    switch (block.type) {
      case 'text':
      case 'refusal':
        return this.add(block.text, block.text.length + BLOCK_CHARACTERS.text);
      // Providers drop the thinking of earlier turns.
      case 'thinking':
        return;
      case 'tool_call': {
        const words = `${block.name} ${JSON.stringify(block.input)}`;
        return this.add(words, words.length + BLOCK_CHARACTERS.tool_call);
      }
      case 'tool_result':
        this.#characters += BLOCK_CHARACTERS.tool_result - BLOCK_CHARACTERS.text;
        for (const part of block.content) if (part.type !== 'cache_point') this.#addBlock(part);
        return;
      case 'media':
        return this.add(`${block.data.length} ${block.data.slice(-MEDIA_HASHED)}`, MEDIA_CHARACTERS);
      case 'other':
        return this.add(JSON.stringify(block.value));
    }
  }

  end(lifetime_ms: number | null): void {
    const before = this.#ends.at(-1);
    if (this.#characters === 0) return;
    if (before?.characters === this.#characters) {
      before.lifetime_ms ??= lifetime_ms;
      return;
    }
    // Length and hash together, within the 53 bits of a number.
    const key = (this.#characters % 0x20_0000) * 0x1_0000_0000 + this.#hash;
    this.#ends.push({ key, characters: this.#characters, blocks: this.#blocks, lifetime_ms });
  }

  finish(isMarked: boolean): RequestPrefixes {
    const ends = this.#ends;
    if (isMarked) this.end(LIFETIME_MS['5m']);
    const last = ends.at(-1);
    if (isMarked && last !== undefined) last.lifetime_ms ??= LIFETIME_MS['5m'];
    const from = Math.max(ENDS.first, ends.length - ENDS.last);
    return {
      ends: ends.filter(({ lifetime_ms }, at) => at < ENDS.first || at >= from || lifetime_ms !== null),
      characters: this.#characters,
      has_markers: ends.some(({ lifetime_ms }) => lifetime_ms !== null),
    };
  }
}

/** The provider's cache in both histories. */
export class PromptCache {
  readonly #entries = new RecentMap<number, Entry>(PREFIXES);
  readonly #openedMs: number;

  /** @param nowMs the current time, by the clock that the other calls use */
  constructor(nowMs: number) {
    this.#openedMs = nowMs;
  }

  /**
   * Whether the simulation knows which part of a request the provider has cached: it has seen a prefix of the request,
   * or the conversation is new and this thread runs for longer than the provider holds a prefix by default.
   * @param isUnderWay whether the conversation has an answer already
   */
  knows({ ends }: RequestPrefixes, nowMs: number, isUnderWay: boolean): boolean {
    if (ends.some(({ key }) => (this.#entries.get(key)?.alone_ms ?? -Infinity) > -Infinity)) return true;
    return !isUnderWay && nowMs - this.#openedMs > LIFETIME_MS['5m'];
  }

  /** What the provider would read and write for a request in one of the histories; changes nothing. */
  use(prefixes: RequestPrefixes, nowMs: number, history: 'alone' | 'beside'): CacheUse {
    const end = this.#findHeld(prefixes, nowMs, `${history}_ms`);
    const read = end?.characters ?? 0;
    const { ends, has_markers, characters } = prefixes;
    let written = read;
    let hourly = 0;
    for (const { characters: to, lifetime_ms } of ends) {
      if (to <= written || (has_markers && lifetime_ms === null)) continue;
      if (lifetime_ms === LIFETIME_MS['1h']) hourly += to - written;
      written = to;
    }
    if (!has_markers) written = Math.max(written, characters);
    return { read, written: written - read, written_1h: hourly };
  }

  /** The longest prefix that the cache holds and the request may read. */
  #findHeld({ ends, has_markers }: RequestPrefixes, nowMs: number, history: History): PrefixEnd | null {
    for (let at = ends.length - 1; at >= 0; at--) {
      const end = ends[at]!;
      const entry = this.#entries.get(end.key);
      if (entry === undefined || nowMs - entry[history] > entry.lifetime_ms) continue;
      const isNear = ends.some(
        ({ blocks, lifetime_ms }, later) =>
          later >= at && lifetime_ms !== null && blocks - end.blocks <= LOOK_BACK_BLOCKS,
      );
      if (!has_markers || isNear) return end;
    }
    return null;
  }

  /**
   * Records that the upstream or the student served the request. A request that the student served changes only the
   * history `alone`.
   */
  note(prefixes: RequestPrefixes, nowMs: number, by: 'upstream' | 'student'): void {
    const histories: History[] = by === 'upstream' ? ['alone_ms', 'beside_ms'] : ['alone_ms'];
    for (const history of histories) {
      const held = this.#findHeld(prefixes, nowMs, history);
      if (held !== null) this.#entries.get(held.key)![history] = nowMs;
    }
    for (const { key, lifetime_ms } of prefixes.ends) {
      if (prefixes.has_markers && lifetime_ms === null) continue;
      const entry = this.#entries.get(key) ?? { lifetime_ms: 0, alone_ms: -Infinity, beside_ms: -Infinity };
      entry.lifetime_ms = lifetime_ms ?? LIFETIME_MS['5m'];
      for (const history of histories) entry[history] = nowMs;
      this.#entries.set(key, entry);
    }
  }
}
