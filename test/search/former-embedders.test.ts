/** Finding the embedder that was used before the present one: with the real pool, models on the disk, and a service. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ComputePool } from '../../src/runtime/compute-pool.ts';
import { COMPUTE_DEADLINE_MS, DirectChannel } from '../../src/runtime/direct-channel.ts';
import { type EmbedderRecord, listFormerEmbedders, sourceOf } from '../../src/search/former-embedders.ts';
import { type EmbeddingChoice, findModelDir, openEmbedder } from '../../src/search/open-embedder.ts';
import { writeToyModel } from './toy-model.ts';

const ENTRY = new URL('../../src/threads/compute-thread-entry.ts', import.meta.url);
const SHIPPED: EmbeddingChoice = { model_dir: null, remote: null };

const toyDir = mkdtempSync(join(tmpdir(), 'toy-model-'));
writeToyModel(toyDir);
const toy: EmbeddingChoice = { model_dir: toyDir, remote: null };

let pool: ComputePool;
let line: DirectChannel;
beforeAll(() => {
  // The pool of a process whose operator chose the toy model.
  pool = new ComputePool({
    entry: ENTRY,
    threads: 1,
    options: { model_dir: toyDir },
    queue_calls_max: 16,
    call_deadline_ms: COMPUTE_DEADLINE_MS,
  });
  line = new DirectChannel(pool.run, { call_deadline_ms: COMPUTE_DEADLINE_MS, calls_max: 16 });
});
afterAll(async () => {
  line.close();
  await pool.close();
  rmSync(toyDir, { recursive: true, force: true });
});

/** A store's record of texts that were embedded with that choice. */
async function recordOf(choice: EmbeddingChoice): Promise<EmbedderRecord> {
  const own = new ComputePool({
    entry: ENTRY,
    threads: 1,
    options: { model_dir: findModelDir(choice) },
    queue_calls_max: 16,
    call_deadline_ms: COMPUTE_DEADLINE_MS,
  });
  try {
    const embedder = await openEmbedder(choice, own.run, 1);
    const { id } = embedder;
    await embedder.close();
    return { id, source: sourceOf(choice) };
  } finally {
    await own.close();
  }
}

describe('a former embedder', () => {
  it('is the model that was in use, and is loaded together with the present one until it is released', async () => {
    const record = await recordOf(SHIPPED);
    const [open, standIn] = listFormerEmbedders(toy, record, line.run);
    const former = await open!();
    const present = await openEmbedder(toy, line.run, 1);
    expect([former.id, former.dimensions]).toEqual([record.id, 1_024]);
    expect(present.dimensions).toBe(3);
    const [[ofFormer], [ofPresent]] = await Promise.all([
      former.embed(['red fox']),
      present.embed(['red fox']),
    ]);
    expect([ofFormer!.length, ofPresent!.length]).toEqual([1_024, 3]);
    for (let round = 0; round < 4; round++) {
      const again = await standIn!();
      expect(await again.embed(['red fox'])).toEqual([ofFormer]);
      await again.close();
    }
    await former.close();
    await expect(former.embed(['x'])).rejects.toMatchObject({ code: 'unavailable' });
    expect(await present.embed(['red fox'])).toEqual([ofPresent]);
  });

  it('is not another model that has taken its folder', async () => {
    const record = { ...(await recordOf(toy)), id: 'onnx:0000' };
    const [open] = listFormerEmbedders(SHIPPED, record, line.run);
    await expect(open!()).rejects.toThrow('there is another model in its place');
  });

  it('does not exist when its folder is gone', async () => {
    const record: EmbedderRecord = { id: 'onnx:1', source: { kind: 'onnx', dir: '/nowhere' } };
    const [open, standIn] = listFormerEmbedders(toy, record, line.run);
    await expect(open!()).rejects.toThrow('embedding model in /nowhere: there is no such folder');
    const model = await standIn!();
    expect(model.dimensions).toBe(1_024);
    await model.close();
  });

  it('is the shipped model if nothing is recorded, and null if that is the present one', () => {
    expect(listFormerEmbedders(toy, null, line.run)).toHaveLength(1);
    expect(listFormerEmbedders(SHIPPED, null, line.run)).toHaveLength(0);
  });

  it('may be another model of the same service; the key is sent to no other service', async () => {
    const keys: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      keys.push(request.headers.authorization);
      response.end('{"data":[{"embedding":[3,4]}]}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
      const now: EmbeddingChoice = { model_dir: null, remote: { url, key: 'secret-key', model: 'new' } };
      const source = { kind: 'remote', url: `${url}/`, model: 'old' } as const;
      const [open] = listFormerEmbedders(now, { id: `remote:${url}#old`, source }, line.run);
      const former = await open!();
      expect(former.id).toBe(`remote:${url}#old`);
      expect(keys).toEqual(['Bearer secret-key']);
      await former.close();
      const elsewhere = { ...source, url: url.replace('/v1', '/v2') };
      for (const choice of [now, SHIPPED]) {
        const [refused] = listFormerEmbedders(choice, { id: 'remote:x#old', source: elsewhere }, line.run);
        await expect(refused!()).rejects.toThrow('its service is not configured any more');
      }
      expect(keys).toHaveLength(1);
      expect(JSON.stringify(sourceOf(now))).not.toContain('secret-key');
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  });
});
