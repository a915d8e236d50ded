/**
 * A batch of exchanges on its way to the capture writer, laid out in memory that both threads see. An exchange is
 * written there once, as it ends, and read from there by the writer: nothing of it waits in the front thread's heap,
 * where the collector would look at it again and again, and nothing is copied on the way over. Made on front threads,
 * read on the actor thread.
 *
 * A slab: records one behind the other. A record: [u32 head bytes][u32 bytes of the request's body][u32 of the
 * response's][head][bodies]. A head is a msgpack array: the exchange's fields by position, which packs in half the time
 * and unpacks in a quarter of what named fields take, then its headers, one text each (a line end between names and
 * values; no header holds one).
 */
import { Packr } from 'msgpackr';
import type { CapturedExchange, FinishedExchange } from '../../src/domain/exchange.ts';
import { CAPTURE_FREE_SLABS, CAPTURE_SLAB_BYTES } from '../../src/limits.ts';

const LENGTHS_BYTES = 12;
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

/** Exchanges in the order in which they were added. */
export class ExchangeBatch {
  readonly #pool: SlabPool;
  readonly #slabs: Uint8Array[] = [];
  readonly #usedBytes: number[] = [];
  #slab: Uint8Array | null = null;
  #view: DataView | null = null;
  #used = 0;

  constructor(pool: SlabPool) {
    this.#pool = pool;
  }

  /** Takes a copy of the exchange. */
  add(exchange: FinishedExchange): void {
    const head = packr.pack(makeHead(exchange));
    const requestBytes = countBytes(exchange.request_chunks);
    const responseBytes = countBytes(exchange.response_chunks);
    const bytes = LENGTHS_BYTES + head.length + requestBytes + responseBytes;
    if (this.#slab === null || this.#used + bytes > this.#slab.length) this.#begin(bytes);
    const slab = this.#slab!;
    const view = this.#view!;
    let at = this.#used;
    view.setUint32(at, head.length, true);
    view.setUint32(at + 4, requestBytes, true);
    view.setUint32(at + 8, responseBytes, true);
    at += LENGTHS_BYTES;
    slab.set(head, at);
    at += head.length;
    for (const chunk of exchange.request_chunks) {
      slab.set(chunk, at);
      at += chunk.length;
    }
    for (const chunk of exchange.response_chunks) {
      slab.set(chunk, at);
      at += chunk.length;
    }
    this.#used = at;
  }

  /** What goes to the writer: the written part of each slab. It must not change until the writer has answered. */
  takeSlabs(): Uint8Array[] {
    this.#end();
    return this.#slabs.map((slab, i) => slab.subarray(0, this.#usedBytes[i]));
  }

  /** The memory may be used for other exchanges. Only when the writer will surely not look at it any more. */
  release(): void {
    this.#end();
    for (const slab of this.#slabs.splice(0)) this.#pool.give(slab);
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

/**
 * The exchanges of a batch. Their bodies are views of the slabs. Both ends are this program, so the layout is taken as
 * given.
 */
export function readBatch(slabs: readonly Uint8Array[]): CapturedExchange[] {
  const batch: CapturedExchange[] = [];
  for (const slab of slabs) {
    const view = new DataView(slab.buffer, slab.byteOffset, slab.length);
    // msgpack wants a Buffer to find its strings quickly.
    const bytes = Buffer.from(slab.buffer, slab.byteOffset, slab.length);
    let at = 0;
    while (at < slab.length) {
      const headAt = at + LENGTHS_BYTES;
      const requestAt = headAt + view.getUint32(at, true);
      const responseAt = requestAt + view.getUint32(at + 4, true);
      const end = responseAt + view.getUint32(at + 8, true);
      const head = packr.unpack(bytes, { start: headAt, end: requestAt }) as Head;
      batch.push(makeExchange(head, bytes.subarray(requestAt, responseAt), bytes.subarray(responseAt, end)));
      at = end;
    }
  }
  return batch;
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

function countBytes(chunks: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const chunk of chunks) bytes += chunk.length;
  return bytes;
}
