/**
 * A batch of exchanges on its way to the capture writer, laid out in memory that both threads see. Nothing of it waits in
 * the front thread's heap, where the collector would look at it again and again. Made on front threads, read on the actor
 * thread.
 *
 * A slab: records one behind the other. A record: [u32 bytes of the request's head][u32 of the answer's headers][u32 of the
 * request's body][u32 of the response's][u32 cells of the request][u32 of the response][numbers][request's head][answer's
 * headers][bodies]. A small exchange's bodies are copied in from the cells that they were gathered in, which are free at
 * once; those of larger ones stay there: of these the record holds the number of cells, and the cells follow the slabs in
 * the order of the records. The request's head is a msgpack array of what a client sends alike again and again, its
 * headers as one text (a line end between names and values; no header holds one), so that it is read once for all that
 * are equal byte by byte. All that differs from exchange to exchange stands outside of it.
 */
import { Packr } from 'msgpackr';
import { byteEngine } from '../../native/byte-engine.ts';
import type { CapturedExchange, FinishedExchange } from '../../src/domain/exchange.ts';
import { CAPTURE_FREE_SLABS, CAPTURE_SLAB_BYTES } from '../../src/limits.ts';
import type { BodyMemory } from './body-memory.ts';

/** Six lengths, the numbers (`writeNumbers`), and nothing yet of the head. */
const FIXED_BYTES = 24 + 56;
/** A body that stays in its cells is no shorter. */
const CELL_BODY_BYTES = 24 << 10;
/** An exchange that takes more than this part of a slab gets memory of its own. */
const OWN_MEMORY_SHARE = 0.5;

const packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

/** Shared memory that is used again: to get megabytes from the system for every batch costs more than to fill them. */
export class SlabPool {
  readonly #free: Uint8Array[] = [];

  /** @returns at least so many bytes of shared memory; what they hold is of no meaning */
  take(bytes: number): Uint8Array {
    if (bytes > CAPTURE_SLAB_BYTES * OWN_MEMORY_SHARE) return new Uint8Array(new SharedArrayBuffer(bytes));
    return this.#free.pop() ?? new Uint8Array(new SharedArrayBuffer(CAPTURE_SLAB_BYTES));
  }

  /** Gives a slab back. Nobody may look at it any more, on any thread. */
  give(slab: Uint8Array): void {
    if (slab.length === CAPTURE_SLAB_BYTES && this.#free.length < CAPTURE_FREE_SLABS) this.#free.push(slab);
  }
}

/** A batch as the writer gets it. */
export interface BatchMemory {
  slabs: readonly Uint8Array[];
  cells: readonly Uint8Array[];
}

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

  constructor(pool: SlabPool, memory: BodyMemory) {
    this.#pool = pool;
    this.#memory = memory;
  }

  /** Takes the exchange, and its cells. */
  add(exchange: FinishedExchange): void {
    const head = packr.pack(makeHead(exchange));
    const answerHeaders = exchange.response_headers.join('\n');
    const answerBytes = Buffer.byteLength(answerHeaders, 'utf8');
    const requestBytes = exchange.request_kept_bytes;
    const responseBytes = exchange.response_kept_bytes;
    const requestCells = this.#countCells(exchange.request_cells, requestBytes);
    const responseCells = this.#countCells(exchange.response_cells, responseBytes);
    const bytes =
      FIXED_BYTES +
      head.length +
      answerBytes +
      (requestCells === 0 ? requestBytes : 0) +
      (responseCells === 0 ? responseBytes : 0);
    if (this.#slab === null || this.#used + bytes > this.#slab.length) this.#begin(bytes);
    const slab = this.#slab!;
    const view = this.#view!;
    let at = this.#used;
    view.setUint32(at, head.length, true);
    view.setUint32(at + 4, answerBytes, true);
    view.setUint32(at + 8, requestBytes, true);
    view.setUint32(at + 12, responseBytes, true);
    view.setUint32(at + 16, requestCells, true);
    view.setUint32(at + 20, responseCells, true);
    writeNumbers(exchange, view, at + 24);
    at += FIXED_BYTES;
    slab.set(head, at);
    at += head.length;
    slab.write(answerHeaders, at, answerBytes, 'utf8');
    at += answerBytes;
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

/** What is kept between batches for joining bodies. */
const JOINED_BYTES_KEPT = 8 << 20;

/** Reads batches, one at a time: the bodies of one are of no meaning once the next is read. */
export class BatchReader {
  /** Where bodies in several cells are joined. Shared, so that nobody takes it for memory that may be kept. */
  #joined = new Uint8Array(new SharedArrayBuffer(0));
  #used = 0;

  /** The exchanges of a batch. Both ends are this program, so the layout is taken as given. */
  read({ slabs, cells }: BatchMemory): CapturedExchange[] {
    const batch: CapturedExchange[] = [];
    this.#used = 0;
    let cellBytes = 0;
    for (const cell of cells) cellBytes += cell.length;
    if (this.#joined.length < cellBytes || this.#joined.length > Math.max(cellBytes, JOINED_BYTES_KEPT)) {
      this.#joined = new Uint8Array(new SharedArrayBuffer(cellBytes));
    }
    let nextCell = 0;
    for (const slab of slabs) {
      const view = new DataView(slab.buffer, slab.byteOffset, slab.length);
      // msgpack wants a Buffer to find its strings quickly.
      const bytes = Buffer.from(slab.buffer, slab.byteOffset, slab.length);
      let at = 0;
      while (at < slab.length) {
        const headBytes = view.getUint32(at, true);
        const answerBytes = view.getUint32(at + 4, true);
        const requestBytes = view.getUint32(at + 8, true);
        const responseBytes = view.getUint32(at + 12, true);
        const requestCells = view.getUint32(at + 16, true);
        const responseCells = view.getUint32(at + 20, true);
        const numbersAt = at + 24;
        const headAt = at + FIXED_BYTES;
        const answerAt = headAt + headBytes;
        const headEnd = answerAt + answerBytes;
        const head = readHead(bytes, headAt, answerAt);
        const answerHeaders = bytes.toString('utf8', answerAt, headEnd);
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
        batch.push(makeExchange(head, answerHeaders, view, numbersAt, requestBody, responseBody));
        at = end;
      }
    }
    return batch;
  }

  #join(cells: readonly Uint8Array[], from: number, count: number, bytes: number): Buffer {
    const first = cells[from]!;
    if (count === 1) return Buffer.from(first.buffer, first.byteOffset, bytes);
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
  run_id: CapturedExchange['run_id'],
  note: string,
  provider: string,
  kind: CapturedExchange['kind'],
  shape: CapturedExchange['shape'],
  method: string,
  path: string,
  query: string,
  served_by: CapturedExchange['served_by'],
  request_headers: string,
];

// All ways are written out: loops over names take longer than all else that is done here.

function makeHead(exchange: FinishedExchange): Head {
  return [
    exchange.run_id,
    exchange.note,
    exchange.provider,
    exchange.kind,
    exchange.shape,
    exchange.method,
    exchange.path,
    exchange.query,
    exchange.served_by,
    exchange.request_headers.join('\n'),
  ];
}

const ABORTED = 1;
const TRUNCATED = 2;

/** Seven numbers of eight bytes; NaN stands for null. */
function writeNumbers(exchange: FinishedExchange, view: DataView, at: number): void {
  view.setFloat64(at, exchange.started_at_ms, true);
  view.setFloat64(at + 8, exchange.first_byte_ms ?? Number.NaN, true);
  view.setFloat64(at + 16, exchange.duration_ms, true);
  view.setFloat64(at + 24, exchange.request_bytes, true);
  view.setFloat64(at + 32, exchange.response_bytes, true);
  view.setFloat64(at + 40, exchange.seq ?? Number.NaN, true);
  view.setUint32(at + 48, exchange.status, true);
  view.setUint32(at + 52, (exchange.aborted ? ABORTED : 0) | (exchange.truncated ? TRUNCATED : 0), true);
}

function readNumber(view: DataView, at: number): number | null {
  const number = view.getFloat64(at, true);
  return Number.isNaN(number) ? null : number;
}

function makeExchange(
  head: KnownHead,
  answerHeaders: string,
  view: DataView,
  at: number,
  requestBody: Uint8Array,
  responseBody: Uint8Array,
): CapturedExchange {
  const { fields } = head;
  const flags = view.getUint32(at + 52, true);
  return {
    run_id: fields[0],
    seq: readNumber(view, at + 40),
    note: fields[1],
    provider: fields[2],
    kind: fields[3],
    shape: fields[4],
    method: fields[5],
    path: fields[6],
    query: fields[7],
    status: view.getUint32(at + 48, true),
    started_at_ms: view.getFloat64(at, true),
    first_byte_ms: readNumber(view, at + 8),
    duration_ms: view.getFloat64(at + 16, true),
    aborted: (flags & ABORTED) !== 0,
    truncated: (flags & TRUNCATED) !== 0,
    served_by: fields[8],
    request_headers: head.request_headers,
    response_headers: splitPairs(answerHeaders),
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
  request_headers: string[];
}

/** The last heads by their checksums: a client sends the same one again and again. Of two with one checksum the last. */
const knownHeads = new Map<number, KnownHead>();
const MAX_KNOWN_HEADS = 1_024;
const MAX_KNOWN_BYTES = 8_192;

/** Equal heads give the same array of headers, mostly. */
function readHead(bytes: Buffer, from: number, to: number): KnownHead {
  const checksum = byteEngine.measureChecksum(bytes, from, to);
  const known = knownHeads.get(checksum);
  if (known !== undefined && bytes.compare(known.bytes, 0, known.bytes.length, from, to) === 0) return known;
  const fields = packr.unpack(bytes, { start: from, end: to }) as Head;
  const head = {
    bytes: Buffer.from(bytes.subarray(from, to)),
    fields,
    request_headers: splitPairs(fields[9]),
  };
  if (knownHeads.size >= MAX_KNOWN_HEADS) knownHeads.clear();
  if (to - from <= MAX_KNOWN_BYTES) knownHeads.set(checksum, head);
  return head;
}

function splitPairs(text: string): string[] {
  return text === '' ? [] : text.split('\n');
}
