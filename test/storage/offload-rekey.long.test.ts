/** A change of the data key with sealed files in a bucket: during traffic, and with the service stopped. */
import { randomBytes } from 'node:crypto';
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { rewriteOrderFile } from '../../src/storage/capture/rewrite-order.ts';
import { readNote } from '../../src/storage/offload/offload-note.ts';
import { fetchCaptures } from '../../src/storage/offload/remote-captures.ts';
import { rekeyCaptures } from '../../src/storage/ordered-rewrite.ts';
import { rekeyData } from '../../src/storage/rekey.ts';
import { claimWriter } from '../../src/storage/writer-claim.ts';
import { fillThree, readAll, Writer } from './erasing.ts';
import { makeFolder } from './folder.ts';
import { AT_ONCE, expectNoOthers, listObjects, type Offloaded, open, passAll } from './offloaded.ts';

async function fill(): Promise<Offloaded> {
  const folder = makeFolder();
  const at = {
    path: join(folder, 'data', 'capture.mdb'),
    key: randomBytes(32),
    place: join(folder, 'bucket'),
  };
  await fillThree(at, 'a secret', 24);
  return at;
}

const listFolders = ({ path }: Offloaded): string[] => readNote(path)!.files.map(({ folder }) => folder);

/** Expects that the bucket has no object of these folders. */
function expectRemoved({ place }: Offloaded, folders: readonly string[]): void {
  for (const name of listObjects(place)) for (const folder of folders) expect(name).not.toContain(folder);
}

/** Expects that a machine without captures reads all data from the bucket. */
async function compareRemotely({ place, key }: Offloaded, all: ReadonlyMap<number, string>): Promise<void> {
  const url = pathToFileURL(place).href;
  const [found] = await fetchCaptures({ place: url, gateway: null, folder: makeFolder(), data_key: key });
  let compared = 0;
  for (const { path } of listSealed(found!.db)) {
    const reader = CaptureReader.open(path, { data_key: key });
    for (const { id } of reader.summaries()) {
      const [, , request] = JSON.parse(all.get(id)!) as string[];
      expect(Buffer.from(reader.body(id, 'request')!).toString('latin1'), String(id)).toBe(request);
      compared++;
    }
    await reader.close();
  }
  expect(compared).toBeGreaterThan(5);
}

it('during traffic, files in the bucket are encrypted under the new key as well', async () => {
  const old = await fill();
  const next = { ...old, key: randomBytes(32) };
  const before = await readAll(old);
  const rekeying = { data_dir: join(old.path, '..'), capture_db: old.path, decode: decodeExchange };
  const writer = new Writer(old, 0, pathToFileURL(old.place).href);
  let folders: string[];
  try {
    await writer.next('offloaded');
    folders = listFolders(old);
    expect(folders).toHaveLength(2);
    await rekeyCaptures({ ...rekeying, data_key: old.key, to: next.key }, () => {});
    expectRemoved(old, folders);
    await writer.next('offloaded');
  } finally {
    await writer.kill();
  }
  expect(writer.lines.filter((line) => line.startsWith('failed'))).toEqual([]);
  const all = await readAll(old);
  for (const [id, was] of before) expect(all.get(id), String(id)).toBe(was);
  expect(await readAll(next)).toEqual(all);
  // Every file is in the bucket under the new key, so the command changes nothing.
  await rekeyData({ ...rekeying, from: old.key, to: next.key }, () => {});
  expect(await readAll(next)).toEqual(all);
  const log = await open(next, AT_ONCE);
  await passAll(log);
  await log.close();
  expectNoOthers(next);
  await compareRemotely(next, all);
});

it('during traffic, an unreachable bucket is named as the reason, and the order is carried out later', async () => {
  const old = await fill();
  const next = { ...old, key: randomBytes(32) };
  const before = await readAll(old);
  const rekeying = { data_dir: join(old.path, '..'), capture_db: old.path, decode: decodeExchange };
  const log = await open(old, AT_ONCE);
  await passAll(log);
  renameSync(old.place, `${old.place}.away`);
  const claim = await claimWriter(old.path, { patience_ms: 0 });
  const ordered = rekeyCaptures({ ...rekeying, data_key: old.key, to: next.key }, () => {});
  ordered.catch(() => {});
  await expect.poll(() => rewriteOrderFile(old.path, 'rekey').exists()).toBe(true);
  const why = await log.rewriteOrdered().catch((thrown: Error) => thrown.message);
  expect(why).toContain('is missing in');
  expect(rewriteOrderFile(old.path, 'rekey').isGiven()).toBe(false);
  rewriteOrderFile(old.path, 'rekey').noteFailure(String(why));
  await expect(ordered).rejects.toThrow(/cannot do that now \(.* is missing in .*\), and tries again later/);
  renameSync(`${old.place}.away`, old.place);
  await log.rewriteOrdered();
  await log.close();
  await claim.release();
  expect(await readAll(next)).toEqual(before);
});

it('with the service stopped, all bodies must be on the local disk, and are sent again', async () => {
  const old = await fill();
  const next = { ...old, key: randomBytes(32) };
  const before = await readAll(old);
  const rekeying = { data_dir: join(old.path, '..'), capture_db: old.path, decode: decodeExchange };
  const change = () => rekeyData({ ...rekeying, from: old.key, to: next.key }, () => {});
  const sending = await open(old, AT_ONCE);
  await passAll(sending);
  await sending.close();
  const folders = listFolders(old);
  await expect(change()).rejects.toThrow(
    /^the bodies of 2 capture files are in a bucket, .* CAPTURE_LOCAL_KEEP=all/,
  );
  expect(existsSync(join(old.path, '..', 'rekey.json'))).toBe(false);
  expect(await readAll(old)).toEqual(before);
  const home = await open(old, 'all');
  await passAll(home);
  await home.close();
  await change();
  const log = await open(next, AT_ONCE);
  await passAll(log);
  expect(log.stats().bucket).toMatchObject({
    offloaded_files: 2,
    waiting_files: 0,
    removing: 0,
    failure: null,
  });
  await log.close();
  expectRemoved(next, folders);
  expectNoOthers(next);
  expect(await readAll(next)).toEqual(before);
  await compareRemotely(next, before);
});
