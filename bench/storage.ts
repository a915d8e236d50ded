/**
 * Measures how many bytes a captured exchange takes on disk, compared with gzip of each body alone, and what writing
 * and reading cost. Own process. `node bench/storage.ts` or `npm run bench -- storage`.
 *
 * It counts the bytes of the file on disk after a flush, with all of LMDB's pages and the written index, and again
 * after sealing. gzip runs at its default level 6, with one stream for each body. It gets no headers, which favours
 * gzip.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { CapturedExchange } from '../src/domain/exchange.ts';
import { decodeExchange } from '../src/providers/decode.ts';
import { CaptureLog } from '../src/storage/capture/log.ts';
import { CaptureReader } from '../src/storage/capture/reader.ts';
import { saveResult, takeProvenance } from './results.ts';
import { makeRandom, makeRuns, type RunPlan, TextSource } from './storage-runs.ts';

const RUNS: RunPlan = {
  runs: 24,
  turns: 20,
  first_bytes: 60_000,
  last_bytes: 110_000,
  shared_bytes: 35_000,
  markers: false,
  labelled: true,
  seed: 7,
};

interface SizeCase {
  name: string;
  plan: RunPlan;
  /** Exchanges appended at once. */
  batch: number;
  /** Pause between appends. The log compresses more thoroughly while it has time. */
  pause_ms: number;
  redact: boolean;
}

const CASES: SizeCase[] = [
  {
    name: 'one agent, labelled runs, one exchange at a time',
    plan: RUNS,
    batch: 1,
    pause_ms: 20,
    redact: true,
  },
  { name: 'the same, bodies byte for byte', plan: RUNS, batch: 1, pause_ms: 20, redact: false },
  {
    name: 'moving cache markers and a clock in the prompt',
    plan: { ...RUNS, markers: true },
    batch: 1,
    pause_ms: 20,
    redact: true,
  },
  { name: 'no run label', plan: { ...RUNS, labelled: false }, batch: 1, pause_ms: 20, redact: true },
  {
    name: 'nothing shared between runs',
    plan: { ...RUNS, shared_bytes: 2_000 },
    batch: 1,
    pause_ms: 20,
    redact: true,
  },
  { name: 'one at a time without a pause', plan: RUNS, batch: 1, pause_ms: 0, redact: true },
  { name: 'in batches of 8 (heavy traffic)', plan: RUNS, batch: 8, pause_ms: 0, redact: true },
];

interface SizeFigures {
  name: string;
  exchanges: number;
  body_bytes: number;
  gzip_bytes: number;
  file_bytes: number;
  sealed_bytes: number;
  /** Size with gzip ÷ size of the file. */
  times_smaller: number;
  times_smaller_sealed: number;
  append_cpu_us: number;
  index_cpu_us: number;
  read_alone_ms: number;
  read_in_order_ms: number;
}

function cpuMicros(since?: NodeJS.CpuUsage): NodeJS.CpuUsage & { total: number } {
  const used = process.cpuUsage(since);
  return { ...used, total: used.user + used.system };
}

async function measureSize(size: SizeCase): Promise<SizeFigures> {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-bench-'));
  const path = join(folder, 'capture.mdb');
  try {
    const log = await CaptureLog.open({ path, redact: size.redact, decode: decodeExchange });
    let bodyBytes = 0;
    let gzipBytes = 0;
    let count = 0;
    let appendMicros = 0;
    let batch: CapturedExchange[] = [];
    const append = async (): Promise<void> => {
      if (size.pause_ms > 0) await new Promise((resolve) => setTimeout(resolve, size.pause_ms));
      const before = process.cpuUsage();
      await log.append(batch);
      appendMicros += cpuMicros(before).total;
      batch = [];
    };
    for (const exchange of makeRuns(size.plan)) {
      bodyBytes += exchange.request_body.length + exchange.response_body.length;
      gzipBytes += gzipSync(exchange.request_body).length + gzipSync(exchange.response_body).length;
      count++;
      batch.push(exchange);
      if (batch.length === size.batch) await append();
    }
    if (batch.length > 0) await append();
    const beforeIndex = process.cpuUsage();
    while ((await log.indexSome(decodeExchange, 50)) > 0);
    const indexMicros = cpuMicros(beforeIndex).total;
    await log.flush();
    const fileBytes = statSync(path).size;

    const reader = CaptureReader.open(path);
    let start = performance.now();
    for (let id = 1; id <= count; id++) reader.body(id, 'request');
    const inOrderMs = (performance.now() - start) / count;
    await reader.close();
    // The last turns have the longest chains. Each is read by a new reader.
    let aloneMs = 0;
    for (let id = count - size.plan.runs + 1; id <= count; id++) {
      const alone = CaptureReader.open(path);
      start = performance.now();
      alone.body(id, 'request');
      aloneMs += performance.now() - start;
      await alone.close();
    }
    const { sealed } = await log.rotate();
    const sealedBytes = statSync(sealed!).size;
    await log.close();
    return {
      name: size.name,
      exchanges: count,
      body_bytes: bodyBytes,
      gzip_bytes: gzipBytes,
      file_bytes: fileBytes,
      sealed_bytes: sealedBytes,
      times_smaller: gzipBytes / fileBytes,
      times_smaller_sealed: gzipBytes / sealedBytes,
      append_cpu_us: appendMicros / count,
      index_cpu_us: indexMicros / count,
      read_alone_ms: aloneMs / size.plan.runs,
      read_in_order_ms: inOrderMs,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface CpuFigures {
  name: string;
  exchanges: number;
  cpu_us: number;
}

/** Measures the processor time of append alone, with batches that were made in advance. */
async function measureCpu(
  name: string,
  warm: CapturedExchange[][],
  batches: CapturedExchange[][],
): Promise<CpuFigures> {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-bench-'));
  try {
    const log = await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true });
    for (const batch of warm) await log.append(batch);
    const before = process.cpuUsage();
    for (const batch of batches) await log.append(batch);
    const used = cpuMicros(before).total;
    await log.close();
    const count = batches.reduce((sum, batch) => sum + batch.length, 0);
    return { name, exchanges: count, cpu_us: used / count };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Makes batches of exchanges like the template, with the bodies and the runs that `make` returns. */
function makeBatches(
  template: CapturedExchange,
  count: number,
  size: number,
  make: (i: number) => { request: Buffer; response: Buffer; run: string | null },
): CapturedExchange[][] {
  let i = 0;
  return Array.from({ length: count }, () =>
    Array.from({ length: size }, () => {
      const { request, response, run } = make(i++);
      return {
        ...template,
        run_id: run,
        started_at_ms: template.started_at_ms + i * 13,
        request_body: request,
        response_body: response,
      };
    }),
  );
}

async function measureCpus(): Promise<CpuFigures[]> {
  const [template] = [...makeRuns({ ...RUNS, runs: 1, turns: 2 })];
  const source = new TextSource(99, 7);
  const json = (bytes: number): Buffer =>
    Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: source.text(bytes) }] }));
  const fixed = { request: json(4_096), response: json(4_096), run: null };
  const figures: CpuFigures[] = [];
  const same = makeBatches(template!, 260, 64, () => fixed);
  figures.push(
    await measureCpu('4 KB, the same body each time, batches of 64', same.slice(0, 60), same.slice(60)),
  );
  const fresh = makeBatches(template!, 90, 64, () => ({
    request: json(4_096),
    response: json(4_096),
    run: null,
  }));
  figures.push(await measureCpu('4 KB, all new text, batches of 64', fresh.slice(0, 40), fresh.slice(40)));
  const single = makeBatches(template!, 1_500, 1, () => fixed);
  figures.push(
    await measureCpu('4 KB, the same body, one at a time', single.slice(0, 500), single.slice(500)),
  );

  // Requests of 300 KB with 3 KB of new text, from four runs side by side.
  const random = makeRandom(5);
  const texts = Array.from({ length: 4 }, () => [source.text(297_000)]);
  const grow = (i: number): { request: Buffer; response: Buffer; run: string | null } => {
    const parts = texts[i % 4]!;
    parts.push(source.text(3_000));
    if (parts.length > 8) parts.splice(1, 4);
    const body = Buffer.from(JSON.stringify({ model: 'm', messages: parts, at: random() }));
    return { request: body, response: json(2_000), run: `run-${i % 4}` };
  };
  const big = makeBatches(template!, 60, 8, grow);
  figures.push(await measureCpu('300 KB, 3 KB of it new, batches of 8', big.slice(0, 20), big.slice(20)));
  const bigSingle = makeBatches(template!, 300, 1, grow);
  figures.push(
    await measureCpu('300 KB, 3 KB of it new, one at a time', bigSingle.slice(0, 100), bigSingle.slice(100)),
  );
  return figures;
}

/** Measures all variants, prints the figures, and writes the result file if `save` is set. */
export async function runStorageBench(options: { save: boolean } = { save: true }): Promise<object> {
  const sizes: SizeFigures[] = [];
  console.log('bytes per exchange on disk, compared with gzip of its bodies; processor time per exchange');
  for (const size of CASES) {
    const figures = await measureSize(size);
    sizes.push(figures);
    const each = (bytes: number): string => (bytes / figures.exchanges / 1_000).toFixed(2);
    console.log(
      `  ${figures.name.padEnd(50)} bodies ${each(figures.body_bytes)} KB, gzip ${each(figures.gzip_bytes)} KB, ` +
        `stored ${each(figures.file_bytes)} KB, sealed ${each(figures.sealed_bytes)} KB: ` +
        `${figures.times_smaller.toFixed(1)} times smaller (sealed ${figures.times_smaller_sealed.toFixed(1)}); ` +
        `append ${figures.append_cpu_us.toFixed(0)} µs, index ${figures.index_cpu_us.toFixed(0)} µs, ` +
        `read alone ${figures.read_alone_ms.toFixed(1)} ms, in order ${figures.read_in_order_ms.toFixed(2)} ms`,
    );
  }
  console.log('processor time of append alone, µs per exchange (redaction on)');
  const cpu = await measureCpus();
  for (const { name, cpu_us } of cpu) console.log(`  ${name.padEnd(50)} ${cpu_us.toFixed(1)}`);
  const result = { suite: 'storage', ...takeProvenance(), sizes, cpu };
  if (options.save) console.log(`written to ${saveResult(result)}`);
  return result;
}

if (import.meta.main) await runStorageBench({ save: process.argv.includes('--save') });
