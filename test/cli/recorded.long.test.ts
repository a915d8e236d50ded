/** `understudy trace` and `inspect` on all recorded traffic, stored as by a gateway. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CaptureFiles } from '../../src/captures/capture-files.ts';
import { summarizeRun } from '../../src/captures/inspect.ts';
import { runInspect } from '../../src/cli/inspect.ts';
import { runTrace } from '../../src/cli/trace.ts';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { haveRecordings, type Recording, readRecordings } from '../providers/recordings.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'recorded-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function tell(
  command: typeof runInspect | typeof runTrace,
  ...argv: string[]
): Promise<{ status: number; out: Buffer }> {
  const chunks: Buffer[] = [];
  const io = {
    out: async (data: string | Uint8Array) => void chunks.push(Buffer.from(data as Uint8Array)),
    err: () => {},
    is_terminal: false,
    has_color: false,
  };
  const status = await command(argv, io, { said_in: [] });
  return { status, out: Buffer.concat(chunks) };
}

const inspect = (...argv: string[]) => tell(runInspect, ...argv);

/** A recorded exchange as a gateway would have captured it. */
function captureRecording({ line, kind, stored }: Recording): CapturedExchange {
  return {
    run_id: null,
    seq: null,
    note: '',
    provider: line.provider,
    kind,
    method: line.method,
    query: '',
    started_at_ms: Date.UTC(2026, 0, 2),
    first_byte_ms: 12,
    duration_ms: 250,
    aborted: false,
    served_by: 'upstream',
    request_bytes: stored.request_body.byteLength,
    response_bytes: stored.response_body.byteLength,
    ...stored,
    request_headers: [...stored.request_headers],
    response_headers: [...stored.response_headers],
  };
}

function* recordedExchanges(): Generator<CapturedExchange> {
  for (const name of ['mirascope', 'pydantic-ai'] as const)
    for (const recording of readRecordings(name)) yield captureRecording(recording);
}

describe.skipIf(!haveRecordings)('trace of recorded traffic (../shared/recordings)', () => {
  it('contains every run, and judges each as inspect does', async () => {
    const db = path.join(folder, 'recorded.mdb');
    const log = await CaptureLog.open({ path: db, redact: true, decode: decodeExchange });
    let batch: CapturedExchange[] = [];
    let written = 0;
    for (const exchange of recordedExchanges()) {
      batch.push(exchange);
      if (batch.length < 100) continue;
      await log.append(batch);
      written += batch.length;
      if (written === 1000) await log.rotate();
      batch = [];
    }
    await log.append(batch);
    while ((await log.indexSome(decodeExchange, 1_000)) > 0);
    await log.close();
    const out = path.join(folder, 'recorded.jsonl');
    expect((await tell(runTrace, '--db', db, '--out', out)).status).toBe(0);
    const lines = readFileSync(out, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const files = await CaptureFiles.open(db);
    let turns = 0;
    let compared = 0;
    let filesNamed = 0;
    for (const [i, line] of lines.entries()) {
      turns += line.turns.length;
      filesNamed += JSON.stringify(line).includes('"source":"file"') ? 1 : 0;
      if (i % 10 === 0 || line.turns.length > 4) {
        const summary = summarizeRun(files, line.run_id)!;
        expect(line.provenance.supports_universal_claims).toBe(summary.golden);
        expect(line.provenance.exchanges).toBe(summary.exchanges);
        expect(line.provenance.reasons).toEqual(summary.reasons);
        compared += 1;
      }
    }
    await files.close();
    expect(compared).toBeGreaterThan(100);
    expect(turns).toBeGreaterThan(2400);
    expect(filesNamed).toBeGreaterThan(10);
    const golden = lines.filter((line) => line.provenance.supports_universal_claims);
    expect(golden.length).toBeGreaterThan(100);
  });
});

describe.skipIf(!haveRecordings)('inspect of recorded traffic (../shared/recordings)', () => {
  it('shows every run and exchange', async () => {
    const exchanges = [...recordedExchanges()];
    const file = path.join(folder, 'indexed.mdb');
    const log = await CaptureLog.open({ path: file, redact: false });
    for (let i = 0; i < exchanges.length; i += 100) await log.append(exchanges.slice(i, i + 100));
    while ((await log.indexSome(decodeExchange, 1_000)) > 0);
    await log.close();
    const table = JSON.parse((await inspect('--db', file, '--json')).out.toString());
    const inRuns = table.runs.reduce((sum: number, run: { exchanges: number }) => sum + run.exchanges, 0);
    expect(inRuns + table.without_run.exchanges).toBe(exchanges.length);
    expect(table.runs.filter((run: { turns: number }) => run.turns > 1).length).toBeGreaterThan(200);
    const longest = table.runs.toSorted((a: { turns: number }, b: { turns: number }) => b.turns - a.turns);
    for (const run of longest.slice(0, 40)) {
      const document = JSON.parse(
        (await inspect('--db', file, '--run', run.run_id, '--json')).out.toString(),
      );
      // The table judges by the records alone. The run's own page may find further reasons, and shows its cost.
      expect(document.run).toMatchObject({ ...run, reasons: expect.arrayContaining(run.reasons) });
      expect(document.steps).toHaveLength(run.exchanges);
      expect((await inspect('--db', file, '--run', run.run_id)).status).toBe(0);
    }
    for (const id of [1, 500, exchanges.length]) {
      const { out } = await inspect('--db', file, '--exchange', `${id}`, '--raw', 'response');
      expect(out).toEqual(Buffer.from(exchanges[id - 1]!.response_body));
    }
  });
});
