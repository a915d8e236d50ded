/**
 * Reads everything that is stored in a DATA_DIR, as the service would, and prints what it read and which damage was
 * reported. Own process, because some damage crashes LMDB. Takes lines with a folder, answers each with a line of
 * {@link Content}.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { open } from 'lmdb';
import { loadEmbeddedSecret } from '../../src/auth/embedded-secret.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { Environment } from '../../src/storage/lmdb/environment.ts';
import { onDamagedValue, SEALING } from '../../src/storage/lmdb/sealed-table.ts';
import { databasePaths, tryStores } from '../../src/storage/lmdb/stores.ts';

export interface Content {
  /** A digest of each value that was read, by its place. */
  read: Record<string, string>;
  /** Errors, by place. */
  told: Record<string, string>;
}

/** What was read so far from the current folder, and the damage that was found. */
let content: Content = { read: {}, told: {} };
onDamagedValue((path, table) => {
  content.told[`${path} ${table}`] = 'a damaged value';
});

const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('base64').slice(0, 12);

for await (const line of createInterface({ input: process.stdin })) {
  content = { read: {}, told: {} };
  const folder = line;
  await trying('secret', async () => {
    content.read.secret = digest(Buffer.from(loadEmbeddedSecret(folder)));
  });
  await trying('stores', () => readStores(folder));
  await trying('captures', () => readCaptures(folder));
  process.stdout.write(`${JSON.stringify(content)}\n`);
}

async function trying(place: string, read: () => Promise<void>): Promise<void> {
  try {
    await read();
  } catch (thrown) {
    content.told[place] = (thrown as Error).message;
  }
}

async function readStores(folder: string): Promise<void> {
  const paths = databasePaths(folder);
  await tryStores(paths);
  for (const [store, path, durability] of [
    ['main', paths.main, 'disk'],
    ['runs', paths.runs, 'process'],
  ] as const) {
    const environment = Environment.open(path, durability);
    try {
      const names = [...(environment.root as unknown as ReturnType<typeof open>).getKeys()]
        .map((name) => String(name).replace(/\0$/, ''))
        .filter((name) => name !== SEALING);
      for (const name of names)
        for (const { key, value } of environment.named(name).getRange({}))
          content.read[`${store} ${name} ${key.toString('base64')}`] = digest(value);
    } finally {
      await environment.close();
    }
  }
}

async function readCaptures(folder: string): Promise<void> {
  const path = join(folder, 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange });
  while ((await log.indexSome(decodeExchange, 1_000)) > 0);
  await log.close();
  for (const file of [...listSealed(path).map((sealed) => sealed.path), path]) {
    const reader = CaptureReader.open(file);
    for (const record of reader.exchanges()) {
      content.read[`exchange ${record.id}`] = digest(Buffer.from(JSON.stringify(record)));
      for (const side of ['request', 'response'] as const) {
        const place = `exchange ${record.id} ${side}`;
        try {
          const body = reader.body(record.id, side);
          content.read[place] = body === undefined ? 'none' : digest(body);
        } catch (thrown) {
          content.told[place] = (thrown as Error).message;
        }
      }
    }
    await reader.close();
  }
}
