/**
 * Opens states that a power cut could have left, as a start of the service does, and reports what is missing. Own
 * process, because some states crash LMDB. Reads lines of {@link State} and answers each with a line of {@link
 * Verdict}.
 */
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { readGathered } from '../../src/domain/gathered-steps.ts';
import { RUN_GATHERED_STEPS, RUN_STEPS } from '../../src/domain/run-rows.ts';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { closeStores, databasePaths, openStores, tryStores } from '../../src/storage/lmdb/stores.ts';
import type { TableStores } from '../../src/storage/stores.ts';
import type { Row } from '../../src/storage/tables.ts';

/** A text that a row of a table must contain. */
export interface Promised {
  store: 'main' | 'runs';
  table: string;
  text: string;
}

export interface State {
  folder: string;
  promised: Promised[];
  /** Exchanges that must exist, from the first one on. */
  captured: number;
}

export interface Verdict {
  problems: string[];
}

for await (const line of createInterface({ input: process.stdin })) {
  const problems = await check(JSON.parse(line) as State);
  process.stdout.write(`${JSON.stringify({ problems } satisfies Verdict)}\n`);
}

async function check({ folder, promised, captured }: State): Promise<string[]> {
  return [...(await checkStores(folder, promised)), ...(await checkCaptures(folder, captured))];
}

async function checkStores(folder: string, promised: readonly Promised[]): Promise<string[]> {
  const problems: string[] = [];
  try {
    const paths = databasePaths(folder);
    await tryStores(paths);
    const stores = openStores(paths);
    const texts = new Map<string, string>();
    for (const { store, table, text } of promised) {
      const name = `${store}.${table}`;
      let rows = texts.get(name);
      if (rows === undefined) {
        const found = [...stores[store].range(table, { prefix: [] })];
        if (table === RUN_STEPS) found.push(...listGathered(stores));
        rows = found.map((row) => JSON.stringify(row)).join('\n');
        texts.set(name, rows);
      }
      if (!rows.includes(text)) problems.push(`${name} lacks ${text}`);
    }
    await closeStores(stores);
  } catch (thrown) {
    problems.push(`stores: ${(thrown as Error).message}`);
  }
  return problems;
}

/** The steps of finished runs, as rows of one step. */
function listGathered({ runs }: TableStores): Row[] {
  return [...runs.range<Uint8Array>(RUN_GATHERED_STEPS, { prefix: [] })].flatMap(({ row, value }) =>
    readGathered(value).map(({ step_index, step }) => ({
      row: [...row.slice(0, 2), step_index],
      value: step,
    })),
  );
}

async function checkCaptures(folder: string, captured: number): Promise<string[]> {
  const path = join(folder, 'capture.mdb');
  try {
    const log = await CaptureLog.open({ path, redact: true });
    await log.close();
    let next = 1;
    const problems: string[] = [];
    for (const file of [...listSealed(path).map((sealed) => sealed.path), path]) {
      const reader = CaptureReader.open(file);
      for (const { id, response } of reader.exchanges()) {
        if (id !== next) problems.push(`${file}: exchange ${id} where ${next} should stand`);
        const body = reader.body(id, 'response');
        if (body === undefined || body.byteLength !== response.bytes)
          problems.push(`${file}: the answer of ${id} is cut`);
        next = id + 1;
      }
      await reader.close();
    }
    if (next <= captured) problems.push(`${next - 1} exchanges of ${captured}`);
    return problems;
  } catch (thrown) {
    return [`captures: ${(thrown as Error).message}`];
  }
}
