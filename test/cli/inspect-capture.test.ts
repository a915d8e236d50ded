/** `understudy inspect` on made-up runs in real capture files. recorded.long.test.ts has recorded traffic. */
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runInspect } from '../../src/cli/inspect.ts';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeExchange, type StoredExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { addToolLoop, MadeSource } from '../captures/made-run.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'inspect-capture-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function captured(stored: StoredExchange, change: Partial<CapturedExchange> = {}): CapturedExchange {
  return {
    run_id: null,
    seq: null,
    note: '',
    provider: 'anthropic',
    kind: stored.shape === null ? 'other' : 'turn',
    method: 'POST',
    query: '',
    started_at_ms: Date.UTC(2026, 0, 2),
    first_byte_ms: 12.5,
    duration_ms: 250,
    aborted: false,
    served_by: 'upstream',
    request_bytes: stored.request_body.byteLength,
    response_bytes: stored.response_body.byteLength,
    ...stored,
    request_headers: [...stored.request_headers],
    response_headers: [...stored.response_headers],
    ...change,
  };
}

async function write(name: string, exchanges: CapturedExchange[], indexed: boolean): Promise<string> {
  const file = path.join(folder, name);
  const log = await CaptureLog.open({ path: file, redact: false });
  for (let i = 0; i < exchanges.length; i += 100) await log.append(exchanges.slice(i, i + 100));
  if (indexed) while ((await log.indexSome(decodeExchange, 1000)) > 0);
  await log.close();
  return file;
}

async function inspect(...argv: string[]): Promise<{ status: number; out: Buffer; err: string }> {
  const chunks: Buffer[] = [];
  let err = '';
  const status = await runInspect(argv, {
    out: async (data) => void chunks.push(Buffer.from(data as Uint8Array)),
    err: (text) => {
      err += text;
    },
    is_terminal: false,
    has_color: false,
  });
  return { status, out: Buffer.concat(chunks), err };
}

/** The tool loop of the made-up tests as a gateway captures it. */
function captureLoop(runId: string | null): CapturedExchange[] {
  const source = new MadeSource();
  addToolLoop(source, runId, runId !== null);
  return source.records.map(({ id, seq, note }) => captured(source.copy(id)!, { run_id: runId, seq, note }));
}

describe('inspect on a capture file', () => {
  it('says how many exchanges its sums do not count because they are not indexed', async () => {
    const fresh = await write('fresh.mdb', captureLoop('mend-1'), false);
    for (const flags of [['--by', 'model'], ['--cache']]) {
      const { status, out, err } = await inspect('--db', fresh, ...flags);
      expect([status, err]).toEqual([0, '']);
      expect(out.toString()).toContain('4 exchanges not indexed yet, and therefore not counted.');
      const json = JSON.parse((await inspect('--db', fresh, ...flags, '--json')).out.toString());
      expect(json.not_indexed).toBe(4);
    }
    const indexed = await write('indexed.mdb', captureLoop('mend-1'), true);
    const { out } = await inspect('--db', indexed, '--by', 'model');
    expect(out.toString()).not.toContain('not counted');
    expect(JSON.parse((await inspect('--db', indexed, '--cache', '--json')).out.toString()).not_indexed).toBe(
      0,
    );
  });

  it('shows labelled runs and runs without a label, and both are golden', async () => {
    const models = captured(
      {
        ...captureLoop(null)[0]!,
        shape: null,
        path: '/v1/models',
        request_body: Buffer.alloc(0),
        response_body: Buffer.from('{"data":[],"has_more":false}'),
      },
      { kind: 'other', method: 'GET' },
    );
    const file = await write('loops.mdb', [...captureLoop('mend-1'), models, ...captureLoop(null)], true);
    const { status, out } = await inspect('--db', file, '--json');
    expect(status).toBe(0);
    const table = JSON.parse(out.toString());
    expect(table.without_run).toMatchObject({ exchanges: 1, turns: 0 });
    expect(table.runs).toHaveLength(2);
    expect(table.runs[0]).toMatchObject({ run_id: 'mend-1', exchanges: 4, golden: true, errors: 2 });
    expect(table.runs[1]).toMatchObject({ exchanges: 4, golden: true, reasons: [], first_seq: null });
    const run = await inspect('--db', file, '--run', table.runs[1].run_id);
    expect(run.out.toString()).toContain('assistant Done: one line.\n  stop      end_turn\n');
    const text = await inspect('--db', file);
    expect(text.out.toString()).toContain(
      '2 runs, 8 turns in 8 exchanges, 2 golden.\n1 exchange without a run',
    );
  });

  it('says how many exchanges are not indexed yet, and shows what is known of one', async () => {
    const file = await write('unread.mdb', captureLoop('mend-1'), false);
    const table = JSON.parse((await inspect('--db', file, '--json')).out.toString());
    expect(table).toMatchObject({ runs: [], without_run: null, not_indexed: 4 });
    expect((await inspect('--db', file)).out.toString()).toContain('4 exchanges not indexed yet');
    const record = JSON.parse((await inspect('--db', file, '--exchange', '1', '--json')).out.toString());
    expect(record).toMatchObject({ id: 1, run_id: 'mend-1', model: null, not_indexed: true });
  });

  it('does not call a run golden if one of its exchanges was lost on the way to the disk', async () => {
    const lost = await write(
      'lost.mdb',
      captureLoop(null).filter((_, i) => i !== 2),
      true,
    );
    const [run] = JSON.parse((await inspect('--db', lost, '--json')).out.toString()).runs;
    expect(run.golden).toBe(false);
    expect(run.reasons.map((reason: { code: string }) => reason.code)).toContain('unlinked');
  });

  it('returns the bytes, and names a file that is not a database or is cut off', async () => {
    const [first] = captureLoop('mend-1');
    const file = await write('bytes.mdb', [first!], true);
    for (const side of ['request', 'response'] as const) {
      const { out } = await inspect('--db', file, '--exchange', '1', '--raw', side);
      expect(out).toEqual(Buffer.from(first![`${side}_body`]));
    }
    const other = path.join(folder, 'other.mdb');
    writeFileSync(other, 'no database at all');
    expect(await inspect('--db', other)).toMatchObject({
      status: 1,
      err: expect.stringContaining('other.mdb'),
    });
    truncateSync(file, 20_000);
    expect(await inspect('--db', file)).toMatchObject({
      status: 1,
      err: expect.stringContaining('bytes.mdb'),
    });
  });
});
