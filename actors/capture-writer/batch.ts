/**
 * A batch of exchanges on its way to the capture writer, laid out in memory that the writer also sees. Nothing of it waits in
 * the server thread's heap, where the collector would look at it again and again. Server threads make it, and the capture
 * process reads it.
 *
 * A slab is records one after the other. A record is: [u32 bytes of the head][u32 which head][u32 bytes of the text][u32 characters
 * of the run's name in it][u32 bytes of the request's body][u32 of the response's][u32 cells of the request][u32 of the
 * response][numbers][head][text][bodies]. The bodies of a small exchange are copied in from their cells,
 * which are free at once. Those of a larger exchange stay in their cells: the record holds the number of cells, and the cells
 * follow the slabs in the order of the records.
 *
 * The head is a msgpack array of what a client sends alike again and again, with its headers as one text (a line end between
 * names and values; no header holds one). It is in a batch once, in the first record that has it. All records that are equal byte
 * by byte share it, so it is made once on this side and read once on the other. What differs from exchange to exchange is in
 * numbers and text: the run's name, the values of headers that vary with a line end after each, the answer's headers.
 */
import { Packr } from 'msgpackr';
import { byteEngine } from '../../native/byte-engine.ts';
import type { SetApart } from '../../src/domain/capture-cause.ts';
import type { CapturedExchange, FinishedExchange, RequestForm } from '../../src/domain/exchange.ts';
import { CAPTURE_FREE_SLABS, CAPTURE_SLAB_BYTES } from '../../src/limits.ts';
import { RecentMap } from '../../src/std/recent-map.ts';
import type { BodyMemory } from './body-memory.ts';
import type { MemoryPart } from './mapped-memory.ts';

/** Eight lengths and counts, then the numbers (`writeNumbers`). */
const NUMBERS_AT = 32;
const FIXED_BYTES = NUMBERS_AT + 56;
/** A UTF-16 unit takes no more in UTF-8. */
const CHARACTER_BYTES_MAX = 3;
/** A body that stays in its cells is no shorter. */
const CELL_BODY_BYTES = 24 << 10;
/** An exchange that takes more than this part of a slab gets memory of its own. */
const OWN_MEMORY_SHARE = 0.5;

const packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

/** Shared memory that is used again: to get megabytes from the system for every batch costs more than to fill them. */
export class SlabPool {
  readonly #part: MemoryPart | null;
  readonly #free: Uint8Array[] = [];

  /** @param part where slabs are cut from while it lasts; null: from memory of this process alone */
  constructor(part: MemoryPart | null = null) {
    this.#part = part;
  }

  /** @returns at least so many bytes of shared memory; what they hold is of no meaning */
  take(bytes: number): Uint8Array {
    if (bytes > CAPTURE_SLAB_BYTES * OWN_MEMORY_SHARE) return new Uint8Array(new SharedArrayBuffer(bytes));
    const free = this.#free.pop() ?? this.#part?.take(CAPTURE_SLAB_BYTES);
    return free ?? new Uint8Array(new SharedArrayBuffer(CAPTURE_SLAB_BYTES));
  }

  /** Gives a slab back. Nobody may look at it any more, on any thread. */
  give(slab: Uint8Array): void {
    if (slab.length !== CAPTURE_SLAB_BYTES) return;
    if (this.#free.length < CAPTURE_FREE_SLABS) this.#free.push(slab);
    else if (this.#part !== null && this.#part.find(slab) >= 0) this.#part.give(slab);
  }
}

/** A batch as the writer gets it. */
export interface BatchMemory {
  slabs: readonly Uint8Array[];
  cells: readonly Uint8Array[];
}

/** The same as places in the mapped memory: offset and length of each slab, then of each cell. */
export interface BatchPlaces {
  slabs: number;
  places: readonly number[];
}

/** @returns where all of a batch lies in the mapped memory; null when some of it does not */
export function findPlaces({ slabs, cells }: BatchMemory, part: MemoryPart): BatchPlaces | null {
  const places: number[] = [];
  for (const bytes of [...slabs, ...cells]) {
    const at = part.find(bytes);
    if (at < 0) return null;
    places.push(at, bytes.length);
  }
  return { slabs: slabs.length, places };
}

/** The batch that lies at such places. */
export function viewPlaces({ slabs, places }: BatchPlaces, memory: Uint8Array): BatchMemory {
  const views: Uint8Array[] = [];
  for (let at = 0; at < places.length; at += 2)
    views.push(new Uint8Array(memory.buffer, memory.byteOffset + places[at]!, places[at + 1]!));
  return { slabs: views.slice(0, slabs), cells: views.slice(slabs) };
}

let nextBatch = 0;

/** Exchanges in the order in which they were added. */
export class ExchangeBatch {
  readonly #pool: SlabPool;
  readonly #memory: BodyMemory;
  readonly #cells: Uint8Array[] = [];
  readonly #slabs: Uint8Array[] = [];
  readonly #usedBytes: number[] = [];
  #slab: Buffer | null = null;
  #view: DataView | null = null;
  #used = 0;
  /** Exchanges before this one are stored, or set apart: the place failed in the middle of an earlier try. */
  from = 0;
  /** Exchanges that are not stored because of what they hold. */
  readonly set_apart: SetApart[] = [];
  /** Tells batches apart. */
  readonly #number = nextBatch++;
  #heads = 0;

  constructor(pool: SlabPool, memory: BodyMemory) {
    this.#pool = pool;
    this.#memory = memory;
  }

  /** Takes the exchange, and its cells. */
  add(exchange: FinishedExchange): void {
    const head = encodeHead(exchange);
    const isNewHead = head.batch !== this.#number;
    const headBytes = isNewHead ? head.bytes.length : 0;
    const text = makeText(exchange);
    const requestBytes = exchange.request_kept_bytes;
    const responseBytes = exchange.response_kept_bytes;
    const requestCells = this.#countCells(exchange.request_cells, requestBytes);
    const responseCells = this.#countCells(exchange.response_cells, responseBytes);
    const bytesMax =
      FIXED_BYTES +
      headBytes +
      text.length * CHARACTER_BYTES_MAX +
      (requestCells === 0 ? requestBytes : 0) +
      (responseCells === 0 ? responseBytes : 0);
    if (this.#slab === null || this.#used + bytesMax > this.#slab.length) this.#begin(bytesMax);
    const slab = this.#slab!;
    const view = this.#view!;
    const start = this.#used;
    let at = start + FIXED_BYTES;
    if (isNewHead) {
      head.batch = this.#number;
      head.index = this.#heads++;
      slab.set(head.bytes, at);
      at += headBytes;
    }
    const textBytes = slab.write(text, at, 'utf8');
    at += textBytes;
    view.setUint32(start, headBytes, true);
    view.setUint32(start + 4, head.index, true);
    view.setUint32(start + 8, textBytes, true);
    view.setUint32(start + 12, exchange.run_id?.length ?? 0, true);
    view.setUint32(start + 16, requestBytes, true);
    view.setUint32(start + 20, responseBytes, true);
    view.setUint32(start + 24, requestCells, true);
    view.setUint32(start + 28, responseCells, true);
    writeNumbers(exchange, view, start + NUMBERS_AT);
    at = this.#addBody(exchange.request_cells, requestBytes, requestCells > 0, slab, at);
    this.#used = this.#addBody(exchange.response_cells, responseBytes, responseCells > 0, slab, at);
  }

  /** How many cells a body stays in; 0 for one that is copied into the slab. */
  #countCells(cells: readonly Uint8Array[], bytes: number): number {
    return bytes >= CELL_BODY_BYTES && cells.every((cell) => this.#memory.has(cell)) ? cells.length : 0;
  }

  /** @returns where the next may be written in the slab */
  #addBody(
    cells: readonly Uint8Array[],
    bytes: number,
    stays: boolean,
    slab: Uint8Array,
    at: number,
  ): number {
    if (stays) {
      this.#cells.push(...cells);
      return at;
    }
    let to = at;
    for (const cell of cells) {
      const part = cell.subarray(0, Math.min(cell.length, at + bytes - to));
      this.#memory.copy(part, slab, to);
      to += part.length;
      this.#memory.give(cell);
    }
    return to;
  }

  /** What goes to the writer: the written part of each slab, and the cells. It must not change until the writer has answered. */
  take(): BatchMemory {
    this.#end();
    return { slabs: this.#slabs.map((slab, i) => slab.subarray(0, this.#usedBytes[i])), cells: this.#cells };
  }

  /** The memory may be used for other exchanges. Only when the writer will surely not look at it any more. */
  release(): void {
    this.#end();
    for (const slab of this.#slabs.splice(0)) this.#pool.give(slab);
    for (const cell of this.#cells.splice(0)) this.#memory.give(cell);
    this.#usedBytes.length = 0;
  }

  #begin(bytes: number): void {
    this.#end();
    const slab = this.#pool.take(bytes);
    this.#slab = Buffer.from(slab.buffer, slab.byteOffset, slab.length);
    this.#slabs.push(slab);
    this.#view = new DataView(slab.buffer, slab.byteOffset, slab.length);
  }

  #end(): void {
    if (this.#slab === null) return;
    this.#usedBytes.push(this.#used);
    this.#slab = null;
    this.#view = null;
    this.#used = 0;
  }
}

/** Memory for joining bodies is taken in such pieces, or larger ones; one is kept between batches. */
const JOINED_BYTES = 8 << 20;

/** Reads batches, one at a time: the bodies of one are of no meaning once the next is read. */
export class BatchReader {
  /** Where bodies in several cells are joined. Shared, so that nobody takes it for memory that may be kept. */
  #joined = new Uint8Array(new SharedArrayBuffer(0));
  #used = 0;

  /** The exchanges of a batch. Both ends are this program, so the layout is taken as given. */
  read({ slabs, cells }: BatchMemory): CapturedExchange[] {
    const batch: CapturedExchange[] = [];
    this.#used = this.#joined.length > JOINED_BYTES ? this.#joined.length : 0;
    let nextCell = 0;
    const heads: KnownHead[] = [];
    for (const slab of slabs) {
      const view = new DataView(slab.buffer, slab.byteOffset, slab.length);
      // msgpack wants a Buffer to find its strings quickly.
      const bytes = Buffer.from(slab.buffer, slab.byteOffset, slab.length);
      let at = 0;
      while (at < slab.length) {
        const textAt = at + FIXED_BYTES + view.getUint32(at, true);
        const headIndex = view.getUint32(at + 4, true);
        const headEnd = textAt + view.getUint32(at + 8, true);
        const runCharacters = view.getUint32(at + 12, true);
        const requestBytes = view.getUint32(at + 16, true);
        const responseBytes = view.getUint32(at + 20, true);
        const requestCells = view.getUint32(at + 24, true);
        const responseCells = view.getUint32(at + 28, true);
        const numbersAt = at + NUMBERS_AT;
        const head = heads[headIndex] ?? readHead(bytes, at + FIXED_BYTES, textAt);
        heads[headIndex] = head;
        const text = bytes.toString('utf8', textAt, headEnd);
        const requestEnd = headEnd + (requestCells === 0 ? requestBytes : 0);
        const end = requestEnd + (responseCells === 0 ? responseBytes : 0);
        const requestBody =
          requestCells === 0
            ? bytes.subarray(headEnd, requestEnd)
            : this.#join(cells, nextCell, requestCells, requestBytes);
        nextCell += requestCells;
        const responseBody =
          responseCells === 0
            ? bytes.subarray(requestEnd, end)
            : this.#join(cells, nextCell, responseCells, responseBytes);
        nextCell += responseCells;
        batch.push(makeExchange(head, text, runCharacters, view, numbersAt, requestBody, responseBody));
        at = end;
      }
    }
    return batch;
  }

  #join(cells: readonly Uint8Array[], from: number, count: number, bytes: number): Buffer {
    const first = cells[from]!;
    if (count === 1) return Buffer.from(first.buffer, first.byteOffset, bytes);
    if (this.#joined.length - this.#used < bytes) {
      this.#joined = new Uint8Array(new SharedArrayBuffer(Math.max(bytes, JOINED_BYTES)));
      this.#used = 0;
    }
    const start = this.#used;
    for (let i = 0; i < count; i++) {
      const cell = cells[from + i]!;
      const part = cell.subarray(0, Math.min(cell.length, start + bytes - this.#used));
      byteEngine.copyBytes(part, this.#joined, this.#used);
      this.#used += part.length;
    }
    return Buffer.from(this.#joined.buffer, start, bytes);
  }
}

/** What is equal in many requests, as it stands in the head. */
type Head = [
  note: string,
  provider: string,
  kind: CapturedExchange['kind'],
  shape: CapturedExchange['shape'],
  method: string,
  path: string,
  query: string,
  served_by: CapturedExchange['served_by'],
  request_headers: string,
  varying: readonly number[],
];

// All ways are written out: loops over names take longer than all else that is done here.

function makeHead(exchange: FinishedExchange): Head {
  const { headers, varying } = exchange.request_form;
  return [
    exchange.note,
    exchange.provider,
    exchange.kind,
    exchange.shape,
    exchange.method,
    exchange.path,
    exchange.query,
    exchange.served_by,
    headers.join('\n'),
    varying,
  ];
}

function isHeadOf(head: Head, exchange: FinishedExchange): boolean {
  return (
    head[5] === exchange.path &&
    head[6] === exchange.query &&
    head[4] === exchange.method &&
    head[3] === exchange.shape &&
    head[2] === exchange.kind &&
    head[1] === exchange.provider &&
    head[0] === exchange.note &&
    head[7] === exchange.served_by
  );
}

/** A head as it is written. */
interface EncodedHead {
  fields: Head;
  bytes: Uint8Array;
  /** In which batch it was written last, and as which of its heads. */
  batch: number;
  index: number;
}

/** Those made of one form, the last few; gone when the form is. */
const encodedHeads = new WeakMap<RequestForm, EncodedHead[]>();
const MAX_HEADS_OF_FORM = 8;

function encodeHead(exchange: FinishedExchange): EncodedHead {
  const form = exchange.request_form;
  let heads = encodedHeads.get(form);
  if (heads === undefined) {
    heads = [];
    encodedHeads.set(form, heads);
  }
  for (const head of heads) if (isHeadOf(head.fields, exchange)) return head;
  const fields = makeHead(exchange);
  const head = { fields, bytes: Uint8Array.from(packr.pack(fields)), batch: -1, index: 0 };
  if (heads.length >= MAX_HEADS_OF_FORM) heads.shift();
  heads.push(head);
  return head;
}

function makeText(exchange: FinishedExchange): string {
  const { request_headers } = exchange;
  let text = exchange.run_id ?? '';
  for (const at of exchange.request_form.varying) text += `${request_headers[at]}\n`;
  return text + exchange.response_headers.join('\n');
}

const ABORTED = 1;
const TRUNCATED = 2;
const HAS_RUN = 4;

/** Seven numbers of eight bytes; NaN stands for null. */
function writeNumbers(exchange: FinishedExchange, view: DataView, at: number): void {
  view.setFloat64(at, exchange.started_at_ms, true);
  view.setFloat64(at + 8, exchange.first_byte_ms ?? Number.NaN, true);
  view.setFloat64(at + 16, exchange.duration_ms, true);
  view.setFloat64(at + 24, exchange.request_bytes, true);
  view.setFloat64(at + 32, exchange.response_bytes, true);
  view.setFloat64(at + 40, exchange.seq ?? Number.NaN, true);
  view.setUint32(at + 48, exchange.status, true);
  view.setUint32(
    at + 52,
    (exchange.aborted ? ABORTED : 0) |
      (exchange.truncated ? TRUNCATED : 0) |
      (exchange.run_id === null ? 0 : HAS_RUN),
    true,
  );
}

function readNumber(view: DataView, at: number): number | null {
  const number = view.getFloat64(at, true);
  return Number.isNaN(number) ? null : number;
}

function makeExchange(
  { fields, form }: KnownHead,
  text: string,
  runCharacters: number,
  view: DataView,
  at: number,
  requestBody: Uint8Array,
  responseBody: Uint8Array,
): CapturedExchange {
  const flags = view.getUint32(at + 52, true);
  let requestHeaders = form.headers;
  let answerAt = runCharacters;
  if (form.varying.length > 0) {
    const headers = form.headers.slice();
    for (const place of form.varying) {
      const end = text.indexOf('\n', answerAt);
      headers[place] = text.slice(answerAt, end);
      answerAt = end + 1;
    }
    requestHeaders = headers;
  }
  return {
    run_id: (flags & HAS_RUN) === 0 ? null : text.slice(0, runCharacters),
    seq: readNumber(view, at + 40),
    note: fields[0],
    provider: fields[1],
    kind: fields[2],
    shape: fields[3],
    method: fields[4],
    path: fields[5],
    query: fields[6],
    status: view.getUint32(at + 48, true),
    started_at_ms: view.getFloat64(at, true),
    first_byte_ms: readNumber(view, at + 8),
    duration_ms: view.getFloat64(at + 16, true),
    aborted: (flags & ABORTED) !== 0,
    truncated: (flags & TRUNCATED) !== 0,
    served_by: fields[7],
    request_headers: requestHeaders,
    request_form: form,
    response_headers: splitPairs(answerAt === 0 ? text : text.slice(answerAt)),
    request_bytes: view.getFloat64(at + 24, true),
    response_bytes: view.getFloat64(at + 32, true),
    request_body: requestBody,
    response_body: responseBody,
  };
}

/** A head and what was read out of it. */
interface KnownHead {
  bytes: Buffer;
  fields: Head;
  form: RequestForm;
}

const MAX_KNOWN_HEADS = 1_024;
const MAX_KNOWN_BYTES = 8_192;
/** The last heads by their checksums: a client sends the same one again and again. Of two with one checksum the last. */
const knownHeads = new RecentMap<number, KnownHead>(MAX_KNOWN_HEADS);

/** Equal heads give the same form as long as they are known; a long one never is. */
function readHead(bytes: Buffer, from: number, to: number): KnownHead {
  const checksum = byteEngine.measureChecksum(bytes, from, to);
  const known = knownHeads.get(checksum);
  if (known !== undefined && bytes.compare(known.bytes, 0, known.bytes.length, from, to) === 0) {
    // One in use is not forgotten in the middle of a batch.
    if (knownHeads.getRecent(checksum) === undefined) knownHeads.set(checksum, known);
    return known;
  }
  const fields = packr.unpack(bytes, { start: from, end: to }) as Head;
  const head = {
    bytes: Buffer.from(bytes.subarray(from, to)),
    fields,
    form: { headers: splitPairs(fields[8]), varying: fields[9] },
  };
  if (to - from <= MAX_KNOWN_BYTES) knownHeads.set(checksum, head);
  return head;
}

function splitPairs(text: string): string[] {
  return text === '' ? [] : text.split('\n');
}
