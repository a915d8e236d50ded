/**
 * The capture process behind the writer's adapter, without a gateway: memory that both map, the channel, and refusals.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { BatchReader, ExchangeBatch, findPlaces, SlabPool } from '../../actors/capture-writer/batch.ts';
import { BodyMemory, CAPTURE_FREE_CELL_BYTES } from '../../actors/capture-writer/body-memory.ts';
import {
  CAPTURE_SLAB_BYTES,
  closeMappedMemory,
  type MappedMemory,
  MemoryPart,
  makeMappedMemory,
} from '../../actors/capture-writer/mapped-memory.ts';
import { CaptureProcess, type CaptureProcessTold } from '../../actors/capture-writer/process.ts';
import { memoryEngine } from '../../native/memory-engine.ts';
import { createPrng } from '../../src/std/prng.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';

const MIB = 1 << 20;
const isNative = memoryEngine.makeMemory.toString().includes('native code');

function makeMemory(bytes: number, servers = 1): MappedMemory {
  const memory = makeMappedMemory(bytes, servers)!;
  onTestFinished(() => closeMappedMemory(memory));
  return memory;
}

function startProcess(
  db: string,
  memory: MappedMemory | null,
  entry = '../../src/threads/capture-process-entry.ts',
): { capture: CaptureProcess; told: CaptureProcessTold[] } {
  const told: CaptureProcessTold[] = [];
  const capture = new CaptureProcess({
    entry: new URL(entry, import.meta.url),
    options: {
      log_level: 'silent',
      db,
      redact: false,
      max_decoded_bytes: 64 * MIB,
      data_key: null,
      memory: memory === null ? null : { bytes: memory.bytes },
    },
    descriptor: memory?.descriptor ?? null,
    tell: (event) => told.push(event),
  });
  onTestFinished(() => void capture.close());
  return { capture, told };
}

/** Bodies that do not repeat. */
function makeBody(seed: number, bytes: number): Buffer {
  const prng = createPrng(seed);
  const body = Buffer.alloc(bytes);
  for (let at = 0; at + 4 <= bytes; at += 4) body.writeUInt32LE(Math.floor(prng.float() * 2 ** 32), at);
  return body;
}

/** Fills a batch with one exchange for each length. Its bodies lie in cells, as a tee leaves them there. */
function fill(batch: ExchangeBatch, memory: BodyMemory, sizes: readonly number[], seed: number): Buffer[] {
  return sizes.map((bytes, n) => {
    const body = makeBody(seed + n, bytes);
    const cells: Uint8Array[] = [];
    for (let at = 0; at < bytes; ) {
      const cell = memory.take(Math.min(bytes - at, MIB));
      const part = body.subarray(at, at + cell.length);
      memory.copy(part, cell, 0);
      cells.push(cell);
      at += part.length;
    }
    const { request_body, response_body, ...exchange } = makeExchange({ path: `/${seed + n}` });
    batch.add({
      ...exchange,
      request_form: { headers: exchange.request_headers, varying: [] },
      request_cells: cells,
      request_kept_bytes: bytes,
      response_cells: [],
      response_kept_bytes: 0,
    });
    return body;
  });
}

async function expectStored(db: string, bodies: readonly Buffer[]): Promise<void> {
  const reader = CaptureReader.open(db);
  try {
    for (const [at, body] of bodies.entries()) {
      expect(Buffer.compare(Buffer.from(reader.body(at + 1, 'request')!), body), `body ${at + 1}`).toBe(0);
    }
    expect(reader.range().last_id).toBe(bodies.length);
  } finally {
    await reader.close();
  }
}

const SIZES = [0, 10, 5_000, 30_000, 300_000, MIB, 3 * MIB + 17, 40_000];

describe('a batch reaches the capture process', () => {
  it.runIf(isNative)('in shared memory, which is used again for the next batches', async () => {
    const db = join(makeFolder(), 'capture.mdb');
    const mapped = makeMemory(64 * MIB);
    const part = new MemoryPart(mapped, 0, 1);
    const { capture } = startProcess(db, mapped);
    const memory = new BodyMemory(part);
    const slabs = new SlabPool(part);
    const bodies: Buffer[] = [];
    for (let round = 0; round < 6; round++) {
      const batch = new ExchangeBatch(slabs, memory);
      bodies.push(...fill(batch, memory, SIZES, 100 * round));
      const places = findPlaces(batch.take(), part);
      expect(places).not.toBeNull();
      await capture.append({ ...places!, from: 0, exchanges: batch.count, queue_fill: 0 });
      batch.release();
    }
    await capture.close();
    await expectStored(db, bodies);
  });

  it('through the channel if there is no shared memory', { tags: 'long' }, async () => {
    const db = join(makeFolder(), 'capture.mdb');
    const { capture } = startProcess(db, null);
    const memory = new BodyMemory();
    const bodies: Buffer[] = [];
    for (let round = 0; round < 3; round++) {
      const batch = new ExchangeBatch(new SlabPool(), memory);
      bodies.push(...fill(batch, memory, SIZES, 100 * round));
      await capture.append({ ...batch.take(), from: 0, exchanges: batch.count, queue_fill: 0 });
      batch.release();
    }
    expect(await capture.state()).toMatchObject({ damaged: 0, process: { restarts: 0, silent_ms: 0 } });
    await capture.close();
    await expectStored(db, bodies);
  });
});

it('a file that is not a database is refused with a reason and not changed', async () => {
  const db = join(makeFolder(), 'capture.mdb');
  writeFileSync(db, 'notes '.repeat(4_000));
  const { capture, told } = startProcess(db, null);
  await expect(capture.open()).rejects.toThrow('not a capture database');
  await expect(
    capture.append({ slabs: [], cells: [], from: 0, exchanges: 0, queue_fill: 0 }),
  ).rejects.toThrow('not a capture database');
  expect(readFileSync(db, 'utf8')).toBe('notes '.repeat(4_000));
  expect(told).toEqual([]);
});

describe('a process that ends during an append', () => {
  /** Starts a capture process that stores some exchanges of its first batch and ends. */
  const startEnding = (stored: number): CaptureProcess =>
    startProcess(join(makeFolder(), `stores-${stored}`), null, '../fixtures/ending-capture-process.ts')
      .capture;
  const batch = { slabs: [], cells: [], from: 0, exchanges: 3, queue_fill: 0 };

  it('has stored the batch if all its exchanges have ids', async () => {
    await expect(startEnding(3).append(batch)).resolves.toEqual({ first_id: 1, last_id: 3 });
  });

  it('gets the batch again if it has stored nothing', async () => {
    await expect(startEnding(0).append(batch)).resolves.toEqual({ first_id: 1, last_id: 3 });
  });

  it('leaves unknown what is stored if some exchanges have ids', async () => {
    await expect(startEnding(2).append(batch)).rejects.toMatchObject({
      code: 'lost_with_writer',
      message: 'the capture process stored 2 of 3 exchanges and ended',
    });
  });
});

describe.runIf(isNative)('mapped memory', () => {
  it('gives each server its own part, and nothing beyond it', () => {
    const memory = makeMemory(32 * MIB, 2);
    const parts = [0, 1].map((server) => new MemoryPart(memory, server, 2));
    const taken = parts.map((part) => {
      const places: number[] = [];
      for (let run = part.take(CAPTURE_SLAB_BYTES); run !== null; run = part.take(CAPTURE_SLAB_BYTES)) {
        run.fill(1);
        places.push(part.find(run));
      }
      return places;
    });
    const all = taken.flat();
    expect(new Set(all).size).toBe(all.length);
    expect(all.length * CAPTURE_SLAB_BYTES).toBe(memory.bytes);
    expect(Math.max(...taken[0]!)).toBeLessThan(Math.min(...taken[1]!));
    expect(parts[0]!.find(new Uint8Array(8))).toBe(-1);
  });

  it('gives out returned memory again, filled with zeros', () => {
    const part = new MemoryPart(makeMemory(32 * MIB), 0, 1);
    const run = part.take(MIB)!;
    run.fill(7);
    const at = part.find(run);
    part.give(run);
    const again = part.take(MIB)!;
    expect(part.find(again)).toBe(at);
    expect(again.every((byte) => byte === 0)).toBe(true);
  });

  it('is freed for a quiet thread, except for what lies beside cells in use', () => {
    const part = new MemoryPart(makeMemory(32 * MIB), 0, 1);
    const memory = new BodyMemory(part);
    const large = [memory.take(MIB), memory.take(MIB)];
    const small = Array.from({ length: 200 }, () => memory.take(8_192));
    for (const cell of [...large, ...small]) cell.fill(7);
    const used = [large[1]!, small[150]!];
    for (const cell of [...large, ...small]) if (!used.includes(cell)) memory.give(cell);
    memory.releaseSpare();
    expect(used.every((cell) => cell.every((byte) => byte === 7))).toBe(true);
    // Freed: the first large cell, and the run of the first 128 small cells.
    expect(large[0]!.every((byte) => byte === 0)).toBe(true);
    expect(small.slice(0, 128).every((cell) => cell[0] === 0)).toBe(true);
    expect(small.slice(128).every((cell) => cell[0] === 7)).toBe(true);
    for (const cell of used) memory.give(cell);
    memory.releaseSpare();
    expect([...large, ...small].every((cell) => cell[0] === 0)).toBe(true);
    // A cell that is returned twice is not handed out twice.
    memory.give(small[0]!);
    const again = Array.from({ length: 300 }, () => memory.take(8_192));
    expect(new Set(again.map((cell) => part.find(cell))).size).toBe(300);
  });

  it('frees the slabs that a quiet thread does not use', () => {
    const part = new MemoryPart(makeMemory(32 * MIB), 0, 1);
    const pool = new SlabPool(part);
    const slabs = [pool.take(1_000), pool.take(1_000)];
    for (const slab of slabs) slab.fill(7);
    pool.give(slabs[0]!);
    pool.releaseSpare();
    expect(slabs.map((slab) => slab[0])).toEqual([0, 7]);
    expect(part.find(pool.take(1_000))).toBe(part.find(slabs[0]!));
  });

  it('frees what bodies no longer use, except for a reserve', () => {
    const part = new MemoryPart(makeMemory(CAPTURE_FREE_CELL_BYTES), 0, 1);
    const memory = new BodyMemory(part);
    const most = CAPTURE_FREE_CELL_BYTES / MIB;
    const cells = Array.from({ length: most + 8 }, () => memory.take(MIB));
    const small = Array.from({ length: 256 }, () => memory.take(100));
    expect([...cells, ...small].every((cell) => part.find(cell) >= 0)).toBe(true);
    for (const cell of [...cells, ...small]) memory.give(cell);
    // Free again: eight runs beyond the reserve, and as much as the two runs of the small cells.
    const runs = Array.from({ length: 10 }, () => part.find(part.take(MIB)!));
    const known = new Set([...cells, ...small].map((cell) => Math.floor(part.find(cell) / MIB) * MIB));
    expect(new Set(runs).size).toBe(10);
    expect(runs.every((run) => known.has(run))).toBe(true);
  });

  it('loses nothing when bodies come and go in any order, many more at times than the reserve', () => {
    const part = new MemoryPart(makeMemory(CAPTURE_FREE_CELL_BYTES), 0, 1);
    const memory = new BodyMemory(part);
    const prng = createPrng(1);
    const inUse: Uint8Array[] = [];
    for (let burst = 0; burst < 30; burst++) {
      while (inUse.length < 3_600) inUse.push(memory.take(100_000));
      expect(inUse.every((cell) => memory.has(cell))).toBe(true);
      while (inUse.length > 400) {
        const at = prng.below(inUse.length);
        memory.give(inUse[at]!);
        inUse[at] = inUse.at(-1)!;
        inUse.pop();
      }
    }
  });

  it('serves bodies of another length when those before are done', () => {
    const part = new MemoryPart(makeMemory(32 * MIB), 0, 1);
    const memory = new BodyMemory(part);
    for (const bytes of [8_192, MIB, 100_000, 500_000]) {
      const cells: Uint8Array[] = [];
      for (let taken = 0; taken < 40 * MIB; taken += bytes) cells.push(memory.take(bytes));
      expect(cells.every((cell) => memory.has(cell))).toBe(true);
      for (const cell of cells) memory.give(cell);
    }
  });

  it('has slabs when cells have used it up, so that batches need no pipe', () => {
    const part = new MemoryPart(makeMemory(32 * MIB), 0, 1);
    const memory = new BodyMemory(part);
    const slabs = new SlabPool(part);
    const last = { cell: memory.take(MIB) };
    while (memory.has(last.cell)) last.cell = memory.take(MIB);
    const batch = new ExchangeBatch(slabs, memory);
    const bodies = fill(batch, memory, [300_000, 10, 40_000], 1);
    const taken = batch.take();
    const places = findPlaces(taken, part);
    expect(places).not.toBeNull();
    const [exchange] = new BatchReader().read(taken);
    expect(Buffer.compare(exchange!.request_body, bodies[0]!)).toBe(0);
    batch.release();
  });
});
