/**
 * A batch of exchanges on its way to the capture writer, laid out in memory that both threads see. Nothing of it waits in
 * the front thread's heap, where the collector would look at it again and again. Made on front threads, read on the actor
 * thread.
 *
 * A slab: records one behind the other. A record: [u32 head bytes][u32 bytes of the request's body][u32 of the
 * response's][u32 cells of the request][u32 of the response][head][bodies]. A small exchange's bodies are copied in from
 * the cells that they were gathered in, which are free at once; those of larger ones stay there: of these the record holds
 * the number of cells, and the cells follow the slabs in the order of the records. A head is a msgpack array: the
 * exchange's fields by position, which packs in half the time and unpacks in a quarter of what named fields take, then its
 * headers, one text each (a line end between names and values; no header holds one).
 */
import { Packr } from 'msgpackr';
import { byteEngine } from '../../native/byte-engine.ts';
import type { CapturedExchange, FinishedExchange } from '../../src/domain/exchange.ts';
import { CAPTURE_FREE_SLABS, CAPTURE_SLAB_BYTES } from '../../src/limits.ts';
import type { BodyMemory } from './body-memory.ts';

const LENGTHS_BYTES = 20;
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
  #slab: Uint8Array | null = null;
  #view: DataView | null = null;
  #used = 0;

  constructor(pool: SlabPool, memory: BodyMemory) {
    this.#pool = pool;
    this.#memory = memory;
  }

  /** Takes the exchange, and its cells. */
  add(exchange: FinishedExchange): void {
    const head = packr.pack(makeHead(exchange));
    const requestBytes = exchange.request_kept_bytes;
    const responseBytes = exchange.response_kept_bytes;
    const requestCells = this.#countCells(exchange.request_cells, requestBytes);
    const responseCells = this.#countCells(exchange.response_cells, responseBytes);
    const bytes =
      LENGTHS_BYTES +
      head.length +
      (requestCells === 0 ? requestBytes : 0) +
      (responseCells === 0 ? responseBytes : 0);
    if (this.#slab === null || this.#used + bytes > this.#slab.length) this.#begin(bytes);
    const slab = this.#slab!;
    const view = this.#view!;
    let at = this.#used;
    view.setUint32(at, head.length, true);
    view.setUint32(at + 4, requestBytes, true);
    view.setUint32(at + 8, responseBytes, true);
    view.setUint32(at + 12, requestCells, true);
    view.setUint32(at + 16, responseCells, true);
    at += LENGTHS_BYTES;
    slab.set(head, at);
    at = this.#addBody(exchange.request_cells, requestBytes, requestCells > 0, slab, at + head.length);
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
    this.#slab = slab;
    this.#view = new DataView(slab.buffer, slab.byteOffset, slab.length);
  }

  #end(): void {
    if (this.#slab === null) return;
    this.#slabs.push(this.#slab);
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
        const headAt = at + LENGTHS_BYTES;
        const headEnd = headAt + view.getUint32(at, true);
        const requestBytes = view.getUint32(at + 4, true);
        const responseBytes = view.getUint32(at + 8, true);
        const requestCells = view.getUint32(at + 12, true);
        const responseCells = view.getUint32(at + 16, true);
        const head = packr.unpack(bytes, { start: headAt, end: headEnd }) as Head;
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
        batch.push(makeExchange(head, requestBody, responseBody));
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

/** An exchange's fields as they stand in its head. */
type Head = [
  run_id: CapturedExchange['run_id'],
  seq: CapturedExchange['seq'],
  note: string,
  provider: string,
  kind: CapturedExchange['kind'],
  shape: CapturedExchange['shape'],
  method: string,
  path: string,
  query: string,
  status: number,
  started_at_ms: number,
  first_byte_ms: CapturedExchange['first_byte_ms'],
  duration_ms: number,
  aborted: boolean,
  truncated: boolean,
  served_by: CapturedExchange['served_by'],
  request_headers: string,
  response_headers: string,
  request_bytes: number,
  response_bytes: number,
];

// Both ways are written out: loops over names take longer than all else that is done here.

function makeHead(exchange: FinishedExchange): Head {
  return [
    exchange.run_id,
    exchange.seq,
    exchange.note,
    exchange.provider,
    exchange.kind,
    exchange.shape,
    exchange.method,
    exchange.path,
    exchange.query,
    exchange.status,
    exchange.started_at_ms,
    exchange.first_byte_ms,
    exchange.duration_ms,
    exchange.aborted,
    exchange.truncated,
    exchange.served_by,
    exchange.request_headers.join('\n'),
    exchange.response_headers.join('\n'),
    exchange.request_bytes,
    exchange.response_bytes,
  ];
}

function makeExchange(head: Head, requestBody: Uint8Array, responseBody: Uint8Array): CapturedExchange {
  return {
    run_id: head[0],
    seq: head[1],
    note: head[2],
    provider: head[3],
    kind: head[4],
    shape: head[5],
    method: head[6],
    path: head[7],
    query: head[8],
    status: head[9],
    started_at_ms: head[10],
    first_byte_ms: head[11],
    duration_ms: head[12],
    aborted: head[13],
    truncated: head[14],
    served_by: head[15],
    request_headers: readRequestHeaders(head[16]),
    response_headers: splitPairs(head[17]),
    request_bytes: head[18],
    response_bytes: head[19],
    request_body: requestBody,
    response_body: responseBody,
  };
}

/** What the last requests' headers were read into: a client sends the same ones again and again. */
const knownHeaders = new Map<string, string[]>();
const MAX_KNOWN_HEADERS = 1_024;
const MAX_KNOWN_CHARACTERS = 8_192;

/** Equal texts give the same array, mostly. */
function readRequestHeaders(text: string): string[] {
  const known = knownHeaders.get(text);
  if (known !== undefined) return known;
  const headers = splitPairs(text);
  if (knownHeaders.size >= MAX_KNOWN_HEADERS) knownHeaders.clear();
  if (text.length <= MAX_KNOWN_CHARACTERS) knownHeaders.set(text, headers);
  return headers;
}

function splitPairs(text: string): string[] {
  return text === '' ? [] : text.split('\n');
}
