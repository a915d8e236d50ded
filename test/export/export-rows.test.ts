/** Lists as files: formulas in CSV, and Parquet that another library can read. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { columnsIn, type ExportRow } from '../../src/export/columns.ts';
import { type ExportFormat, exportRows } from '../../src/export/export-rows.ts';

const COLUMNS = columnsIn(
  z.object({
    rows: z.array(
      z.object({
        id: z.string(),
        count: z.int(),
        cost: z.number().nullable(),
        ok: z.boolean(),
        begun_at: z.string().nullable(),
        tags: z.array(z.string()),
        kind: z.enum(['a', 'b']).nullable(),
      }),
    ),
  }),
  'rows',
);
const ROW = {
  id: 'r1',
  count: 3,
  cost: -0.5,
  ok: true,
  begun_at: '2026-11-28T12:00:00.250Z',
  tags: ['x', 'y "z"'],
  kind: 'a',
};
const EMPTY = { id: '', count: 0, cost: null, ok: false, begun_at: null, tags: [], kind: null };

async function* pagesOf(...pages: ExportRow[][]) {
  yield* pages;
}

async function write(format: ExportFormat, ...pages: ExportRow[][]): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of exportRows(format, COLUMNS, pagesOf(...pages))) pieces.push(piece);
  return Buffer.concat(pieces);
}

function toArrayBuffer(bytes: Buffer): ArrayBuffer {
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
}

it('columns come from the schema, in its order', () => {
  expect(COLUMNS.map(({ name, kind }) => `${name} ${kind}`)).toEqual([
    'id text',
    'count integer',
    'cost number',
    'ok flag',
    'begun_at time',
    'tags json',
    'kind text',
  ]);
});

describe('CSV', () => {
  it('quotes values that need it, and leaves missing ones empty', async () => {
    expect((await write('csv', [ROW], [EMPTY])).toString()).toBe(
      'id,count,cost,ok,begun_at,tags,kind\r\n' +
        'r1,3,-0.5,true,2026-11-28T12:00:00.250Z,"[""x"",""y \\""z\\""""]",a\r\n' +
        ',0,,false,,[],\r\n',
    );
  });

  it('contains no cell that is a formula', async () => {
    for (const begin of ['=', '+', '-', '@', '\t', '\r', '\n']) {
      const text = (await write('csv', [{ ...EMPTY, id: `${begin}1+1` }])).toString();
      expect(text.split('\r\n')[1]!.replace(/^"/, '').startsWith("'"), JSON.stringify(begin)).toBe(true);
    }
  });
});

it('JSON lines contain the rows', async () => {
  const lines = (await write('jsonl', [ROW, EMPTY])).toString().trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toEqual([ROW, EMPTY]);
});

describe('Parquet', () => {
  const many = Array.from({ length: 12 }, (_, page) =>
    Array.from({ length: 1_000 }, (_, at) => ({ ...ROW, id: `run ${page}-${at}`, count: page * 1_000 + at })),
  );

  it('has no value where an integer is larger than its type', async () => {
    const rows = await parquetReadObjects({
      file: toArrayBuffer(await write('parquet', [{ ...ROW, count: 1e20 }, ROW])),
    });
    expect(rows.map(({ count }) => count)).toEqual([null, 3n]);
  });

  it('is written in row groups, and a second reader reads every value', async () => {
    const file = toArrayBuffer(await write('parquet', ...many));
    expect(parquetMetadata(file).row_groups.map(({ num_rows }) => Number(num_rows))).toEqual([
      5_000, 5_000, 2_000,
    ]);
    const rows = await parquetReadObjects({ file });
    expect(rows).toHaveLength(12_000);
    expect(rows[11_999]).toEqual({
      ...ROW,
      id: 'run 11-999',
      count: 11_999n,
      begun_at: new Date(ROW.begun_at),
      tags: JSON.stringify(ROW.tags),
    });
    const [empty] = await parquetReadObjects({ file: toArrayBuffer(await write('parquet', [EMPTY])) });
    expect(empty).toEqual({ ...EMPTY, count: 0n, tags: '[]' });
  });

  it('has its columns even without rows', async () => {
    const { schema, num_rows } = parquetMetadata(toArrayBuffer(await write('parquet')));
    expect([Number(num_rows), schema.slice(1).map(({ name }) => name)]).toEqual([
      0,
      COLUMNS.map(({ name }) => name),
    ]);
  });

  const hasPyarrow = spawnSync('python3', ['-c', 'import pyarrow.parquet']).status === 0;
  it.skipIf(!hasPyarrow)('can be read by pyarrow', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'understudy-parquet-'));
    try {
      const path = join(dir, 'runs.parquet');
      writeFileSync(path, await write('parquet', ...many));
      const code =
        'import sys, pyarrow.parquet as p; t = p.read_table(sys.argv[1]); print(t.num_rows, t["count"][-1], t["cost"][0], t["begun_at"][0])';
      const told = execFileSync('python3', ['-c', code, path]).toString();
      expect(told).toBe('12000 11999 -0.5 2026-11-28 12:00:00.250000+00:00\n');
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
