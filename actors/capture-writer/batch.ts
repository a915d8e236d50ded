/**
 * Encodes and decodes batches of exchanges for the capture writer, in memory that the capture process also maps. The
 * batch is not on the server thread's heap, where the garbage collector would scan it repeatedly. Server threads build
 * batches; the capture process reads them.
 *
 * A slab is a sequence of records. A record is: [u32 bytes of the head][u32 index of the head][u32 bytes of the
 * text][u32 characters of the run name in the text][u32 bytes of the request body][u32 bytes of the response body][u32
 * cells of the request][u32 cells of the response][numbers][head][text][bodies]. A body of less than `CELL_BODY_BYTES`
 * is copied from its cells, which are then free. A larger body stays in its cells: the record contains the number of
 * cells, and the cells are listed after the slabs, in the order of the records.
 *
 * The head is a msgpack array of the fields that a client repeats in many requests. Its headers are one text, with a
 * line break between names and values (no header contains a line break). The first record that uses a head contains it;
 * later records contain only its index. Encoded and decoded heads are cached. Fields that differ between exchanges are
 * in the numbers and the text: the run name, the values of varying headers (each followed by a line break), and the
 * response headers.
 */
import { crc32 } from 'node:zlib';
import { Packr } from 'msgpackr';
import { byteEngine } from '../../native/byte-engine.ts';
import type { SetApart } from '../../src/domain/capture-cause.ts';
import { END_CAUSES } from '../../src/domain/end-cause.ts';
import type { CapturedExchange, FinishedExchange, RequestForm } from '../../src/domain/exchange.ts';
import { RecentMap } from '../../src/std/recent-map.ts';
import { announceSpare } from '../../src/std/spare-memory.ts';
import type { BodyMemory } from './body-memory.ts';
import type { MemoryPart } from './mapped-memory.ts';
import { CAPTURE_SLAB_BYTES } from './mapped-memory.ts';

/**
 * Maximum number of free slabs that a server thread keeps: enough for the batches that were sent and the batch that is
 * being filled. Further free slabs are dropped.
 */
export const CAPTURE_FREE_SLABS = 6;

/** Offset of the numbers (`writeNumbers`), after eight lengths and counts. */
const NUMBERS_AT = 32;
const FIXED_BYTES = NUMBERS_AT + 64;
/** Maximum number of UTF-8 bytes of a UTF-16 code unit. */
const CHARACTER_BYTES_MAX = 3;
/** Bodies of at least this size stay in their cells. */
const CELL_BODY_BYTES = 24 << 10;
/** An exchange that needs more than this share of a slab gets separate memory. */
const OWN_MEMORY_SHARE = 0.5;

const packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

/** Reuses shared memory, because allocating megabytes for every batch costs more than filling them. */
export class SlabPool {
  readonly #part: MemoryPart | null;
  readonly #free: Uint8Array[] = [];

  /**
   * @param part the mapped memory from which slabs are taken until it is used up; null: only memory of this process is
   * used
   */
  constructor(part: MemoryPart | null = null) {
    this.#part = part;
    announceSpare(this);
  }

  releaseSpare(): void {
    for (const slab of this.#free.splice(0)) if (this.#isMapped(slab)) this.#part!.give(slab);
  }

  #isMapped(slab: Uint8Array): boolean {
    return this.#part !== null && this.#part.find(slab) >= 0;
  }

  /** Takes shared memory of at least `bytes` bytes, with undefined content. */
  take(bytes: number): Uint8Array {
    if (bytes > CAPTURE_SLAB_BYTES * OWN_MEMORY_SHARE) return new Uint8Array(new SharedArrayBuffer(bytes));
    const free = this.#free.pop() ?? this.#part?.take(CAPTURE_SLAB_BYTES);
    return free ?? new Uint8Array(new SharedArrayBuffer(CAPTURE_SLAB_BYTES));
  }

  /**
   * Returns a slab to the pool. No thread may read it afterwards. Memory of another length than a slab's is left to the
   * garbage collector.
   */
  give(slab: Uint8Array): void {
    if (slab.length !== CAPTURE_SLAB_BYTES) return;
    if (this.#free.length < CAPTURE_FREE_SLABS) this.#free.push(slab);
    else if (this.#isMapped(slab)) this.#part!.give(slab);
  }
}

/** The memory of a batch. */
export interface BatchMemory {
  slabs: readonly Uint8Array[];
  cells: readonly Uint8Array[];
}

/** A batch as locations in the mapped memory: offset and length of each slab, then of each cell. */
export interface BatchPlaces {
  slabs: number;
  places: readonly number[];
}

/** Finds the locations of a batch in the mapped memory; null if any slab or cell is in other memory. */
export function findPlaces({ slabs, cells }: BatchMemory, part: MemoryPart): BatchPlaces | null {
  const places: number[] = [];
  for (const bytes of [...slabs, ...cells]) {
    const at = part.find(bytes);
    if (at < 0) return null;
    places.push(at, bytes.length);
  }
  return { slabs: slabs.length, places };
}

/** Views the batch at the given locations. */
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
  /** Number of exchanges. */
  count = 0;
  /** Index of the first exchange that earlier appends neither stored nor set apart. */
  from = 0;
  /** Exchanges that cannot be stored because of their content. */
  readonly set_apart: SetApart[] = [];
  /** Sequence number of this batch in the process. */
  readonly #number = nextBatch++;
  #heads = 0;

  constructor(pool: SlabPool, memory: BodyMemory) {
    this.#pool = pool;
    this.#memory = memory;
  }

  /** Adds the exchange and takes ownership of its cells. */
  add(exchange: FinishedExchange): void {
    this.count++;
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

  /** Counts the cells that keep the body; 0 if the body is copied into the slab. */
  #countCells(cells: readonly Uint8Array[], bytes: number): number {
    return bytes >= CELL_BODY_BYTES && cells.every((cell) => this.#memory.has(cell)) ? cells.length : 0;
  }

  /** Copies a body into the slab, or adds its cells to the batch. @returns the next write position in the slab */
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

  /**
   * Returns the memory to send: the written part of each slab, and the cells. The memory must not change until the
   * writer has answered.
   */
  take(): BatchMemory {
    this.#end();
    return { slabs: this.#slabs.map((slab, i) => slab.subarray(0, this.#usedBytes[i])), cells: this.#cells };
  }

  /** Frees the memory for other exchanges. Call it only when the writer does not read the memory any more. */
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

/** Size of the memory for joining bodies that is kept between batches. Memory for longer bodies is larger, and not kept. */
const JOINED_BYTES = 8 << 20;

/** Reads batches one at a time. Bodies are valid until the next read. */
export class BatchReader {
  /**
   * Memory in which bodies of several cells are joined. A SharedArrayBuffer, so that code which keeps received bytes
   * copies them.
   */
  #joined = new Uint8Array(new SharedArrayBuffer(0));
  #used = 0;

  /** Decodes the exchanges of a batch. Writer and reader are the same program, so the layout is not validated. */
  read({ slabs, cells }: BatchMemory): CapturedExchange[] {
    const batch: CapturedExchange[] = [];
    this.#used = this.#joined.length > JOINED_BYTES ? this.#joined.length : 0;
    let nextCell = 0;
    const heads: KnownHead[] = [];
    for (const slab of slabs) {
      const view = new DataView(slab.buffer, slab.byteOffset, slab.length);
      // A Buffer, because msgpackr decodes strings faster from a Buffer.
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

/** The fields of a head, which are equal in many requests. */
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

// The fields are written one by one, because a loop over their names would take most of the time of this code.

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

/** A head and its encoding. */
interface EncodedHead {
  fields: Head;
  bytes: Uint8Array;
  /** The last batch that contains this head, and the head's index in it. */
  batch: number;
  index: number;
}

/** The most recent heads of a request form. They are freed together with the form. */
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
/** Number of the flags' bit at which the end cause begins: its index plus one; 0: no cause. */
const END_CAUSE_AT = 8;

/** Writes seven 64-bit floats, in which NaN represents null, and two 32-bit integers: the status and the flags. */
function writeNumbers(exchange: FinishedExchange, view: DataView, at: number): void {
  view.setFloat64(at, exchange.started_at_ms, true);
  view.setFloat64(at + 8, exchange.first_byte_ms ?? Number.NaN, true);
  view.setFloat64(at + 16, exchange.duration_ms, true);
  view.setFloat64(at + 24, exchange.request_bytes, true);
  view.setFloat64(at + 32, exchange.response_bytes, true);
  view.setFloat64(at + 40, exchange.seq ?? Number.NaN, true);
  view.setFloat64(at + 56, exchange.arrival ?? Number.NaN, true);
  view.setUint32(at + 48, exchange.status, true);
  view.setUint32(
    at + 52,
    (exchange.aborted ? ABORTED : 0) |
      (exchange.truncated ? TRUNCATED : 0) |
      (exchange.run_id === null ? 0 : HAS_RUN) |
      (exchange.end_cause === undefined ? 0 : (END_CAUSES.indexOf(exchange.end_cause) + 1) << END_CAUSE_AT),
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
  const arrival = readNumber(view, at + 56);
  const end = flags >> END_CAUSE_AT;
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
    arrival: arrival ?? undefined,
    first_byte_ms: readNumber(view, at + 8),
    duration_ms: view.getFloat64(at + 16, true),
    aborted: (flags & ABORTED) !== 0,
    // V8 is slow at reading outside of a list and at spreading an object, so this code does neither.
    end_cause: end === 0 ? undefined : END_CAUSES[end - 1],
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

/** A head's bytes and its decoded fields. */
interface KnownHead {
  bytes: Buffer;
  fields: Head;
  form: RequestForm;
}

const MAX_KNOWN_HEADS = 1_024;
const MAX_KNOWN_BYTES = 8_192;
/** Recent heads by checksum, because clients repeat heads. If two heads share a checksum, the later one is kept. */
const knownHeads = new RecentMap<number, KnownHead>(MAX_KNOWN_HEADS);

/** Decodes a head. Equal heads get the same form while the head is in the cache; long heads are not cached. */
function readHead(bytes: Buffer, from: number, to: number): KnownHead {
  const checksum = crc32(bytes.subarray(from, to));
  const known = knownHeads.get(checksum);
  if (known !== undefined && bytes.compare(known.bytes, 0, known.bytes.length, from, to) === 0) {
    // Makes the entry recent again, so that it is not evicted in the middle of a batch.
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
