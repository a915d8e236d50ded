/**
 * Requests that were read recently. An agent's next request begins with the bytes of its previous one, so only the
 * bytes after this common part are parsed. The items of the conversation in the common part are taken from the previous
 * request. The storage knows how many bytes two requests share. Used by normal-turn.ts when exchanges are read for the
 * index: capture process with its sealing thread, command line. The student's thread and the capture reader load this
 * file, but cache nothing.
 *
 * The result is what `JSON.parse` gives for the whole body. Several requests share its items, so a reader must not
 * change them. Bounds: REMEMBERED_BYTES of bodies; beyond that, the request that was used least recently is dropped.
 * Requests shorter than SHORT_BYTES are not kept, because reading them takes little time, nor are those longer than a
 * quarter of REMEMBERED_BYTES.
 */
import { LinkedMap } from '../std/linked-map.ts';
import { findEnds, findItems } from './json-items.ts';
import { type JsonObject, parseJson } from './json-reading.ts';
import type { BodyPlace } from './stored-exchange.ts';

const REMEMBERED_BYTES = 32 << 20;
const SHORT_BYTES = 8_192;

/** A request as it was read. */
interface ReadRequest {
  bytes: number;
  /** The request's members before the list, the list, and the members after it. */
  before: JsonObject;
  name: string;
  items: readonly unknown[];
  after: JsonObject;
  /** Offset after the bracket that opens the list, and after each item. */
  from: number;
  ends: readonly number[];
  /** The body from the bracket that closes the list on. */
  rest: Buffer;
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

export class RepeatedRequests {
  readonly #read = new LinkedMap<object, { place: object; request: ReadRequest }>();
  #bytes = 0;

  /**
   * Parses a request body; numbers become doubles.
   * @param body JSON as it was stored
   * @param place what the storage knows about the body
   * @throws what `parseJson` throws
   */
  parse(body: Uint8Array, place: BodyPlace): unknown {
    if (body.byteLength < SHORT_BYTES) return parseJson(new TextDecoder().decode(body), true);
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    const same = this.#read.get(place.self);
    if (same !== undefined) return join(same.request);
    const base = place.repeats === null ? undefined : this.#read.get(place.repeats);
    const resumed = base === undefined ? null : resume(base.request, bytes, place.repeated_bytes);
    if (resumed !== null) {
      // The new request contains all items of the earlier one, except for at most the last two, which clients change.
      if (resumed.known >= base!.request.items.length - 2) this.#drop(base!.place);
      this.#keep(place.self, resumed.request);
      return join(resumed.request);
    }
    const value = parseJson(new TextDecoder().decode(body), true);
    const request = divide(bytes, value);
    if (request !== null) this.#keep(place.self, request);
    return value;
  }

  /** Forgets all requests. */
  clear(): void {
    this.#read.clear();
    this.#bytes = 0;
  }

  #keep(place: object, request: ReadRequest): void {
    if (request.bytes > REMEMBERED_BYTES / 4) return;
    this.#read.set(place, { place, request });
    this.#bytes += request.bytes;
    while (this.#bytes > REMEMBERED_BYTES) this.#drop(this.#read.oldest!.place);
  }

  #drop(place: object): void {
    const kept = this.#read.peek(place);
    if (kept === undefined) return;
    this.#read.delete(place);
    this.#bytes -= kept.request.bytes;
  }
}

function join({ before, name, items, after }: ReadRequest): JsonObject {
  return { ...before, [name]: items, ...after };
}

/** Divides a parsed body at its list; null if the parts would not give the same value again. */
function divide(body: Buffer, value: unknown): ReadRequest | null {
  const found = findItems(body);
  if (found === null) return null;
  const { name, from, ends, to, members } = found;
  const whole = value as JsonObject;
  const names = Object.keys(whole);
  const items = whole[name];
  // A name that occurs twice has its last value in its first place.
  if (names.length !== members || !names.every(keepsPlace)) return null;
  if (!Array.isArray(items) || items.length !== ends.length) return null;
  const at = names.indexOf(name);
  const pick = (some: string[]): JsonObject => Object.fromEntries(some.map((each) => [each, whole[each]]));
  return {
    bytes: body.length,
    before: pick(names.slice(0, at)),
    name,
    items,
    after: pick(names.slice(at + 1)),
    from,
    ends,
    rest: copyRest(body, to),
  };
}

/** Whether a member stays where it is written: JavaScript puts names that are numbers first. */
function keepsPlace(name: string): boolean {
  const first = name.charCodeAt(0);
  return !(first >= 0x30 && first <= 0x39) && name !== '__proto__';
}

/**
 * Reads what a body adds to an earlier one.
 * @param repeated number of bytes with which both bodies begin
 * @returns null if the body must be read as a whole
 */
function resume(
  base: ReadRequest,
  body: Buffer,
  repeated: number,
): { request: ReadRequest; known: number } | null {
  if (repeated < base.from) return null;
  let known = base.ends.length;
  while (known > 0 && base.ends[known - 1]! > repeated) known -= 1;
  const start = known === 0 ? base.from : base.ends[known - 1]!;
  const ends = base.ends.slice(0, known);
  const to = findEnds(body, start, ends);
  if (to < 0) return null;
  try {
    const items = base.items.slice(0, known);
    if (ends.length > known) {
      // The bytes between the known items and the new ones are read, too: they must be a comma.
      const begin = known === 0 ? '{"":[' : '{"":[{}';
      const added = parseJson(`${begin}${utf8.decode(body.subarray(start, to))}]}`, true) as JsonObject;
      const list = added[''] as unknown[];
      for (let i = known === 0 ? 0 : 1; i < list.length; i++) items.push(list[i]);
    } else if (to !== start) return null;
    const isSameRest = base.rest.equals(body.subarray(to));
    const after = isSameRest ? base.after : readRest(base, utf8.decode(body.subarray(to + 1)));
    if (after === null || items.length !== ends.length) return null;
    const rest = isSameRest ? base.rest : copyRest(body, to);
    return { request: { ...base, bytes: body.length, items, ends, after, rest }, known };
  } catch {
    return null;
  }
}

/**
 * Reads the members after the list. @returns null if a member has the same name as the list or as an earlier member, or
 * a name that JavaScript moves to the front
 * @throws SyntaxError, RangeError
 */
function readRest({ before, name }: ReadRequest, rest: string): JsonObject | null {
  const members = /^\s*,\s*(?=")/.exec(rest);
  const after = parseJson(`{${members === null ? rest : rest.slice(members[0].length)}`, true) as JsonObject;
  const isFine = (each: string): boolean => keepsPlace(each) && each !== name && !Object.hasOwn(before, each);
  return Object.keys(after).every(isFine) ? after : null;
}

/** Copies the rest, because a view of it would keep the memory of the whole body. */
function copyRest(body: Buffer, from: number): Buffer {
  const rest = Buffer.allocUnsafeSlow(body.length - from);
  body.copy(rest, 0, from);
  return rest;
}
