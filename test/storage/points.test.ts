/** `backup --follow` and `restore --to`: points in time of databases, captures and files that change meanwhile. */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { FolderStore } from '../../src/storage/bucket/folder-store.ts';
import { StoreError } from '../../src/storage/bucket/object-store.ts';
import { SealedObjects } from '../../src/storage/bucket/sealed-objects.ts';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { addLayer, type LayeredFile } from '../../src/storage/points/layered-file.ts';
import { readPiece } from '../../src/storage/points/page-layer.ts';
import { memoryPages, openDatabasePages } from '../../src/storage/points/page-source.ts';
import { listPoints, readPoint } from '../../src/storage/points/point.ts';
import { readPointNotes } from '../../src/storage/points/point-note.ts';
import { choosePruned } from '../../src/storage/points/point-pruning.ts';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';
import { makeExchange, readAllFiles } from './captured.ts';
import {
  DAY_MS,
  type Followed,
  listNames,
  makeFollowed,
  openFollower,
  pass,
  putRows,
  readRows,
  restoreTo,
} from './points.ts';

const textOf = (n: number) => `value ${n} `.repeat(40);
const PAGE = 4_096;
const NEVER = new AbortController().signal;

/** A main database with 2,000 rows. */
async function fill({ source }: Followed): Promise<LmdbTables> {
  const main = new LmdbTables(join(source.data_dir, 'main.mdb'), 'disk', source.data_key);
  await putRows(
    main,
    't',
    Array.from({ length: 2_000 }, (_, n) => [n, textOf(n)] as const),
  );
  mkdirSync(join(source.data_dir, 'secrets'));
  writeFileSync(join(source.data_dir, 'secrets', 'jwt'), 'secret');
  return main;
}

describe.each([
  ['without a data key', null],
  ['with a data key', randomBytes(32)],
])('points %s', (_, key) => {
  it('restore each state, with everything acknowledged before it and nothing later', async () => {
    const followed = makeFollowed(key);
    const main = await fill(followed);
    const follower = await openFollower(followed);
    const first = await pass(followed, follower);
    await putRows(main, 't', [[0, 'changed']]);
    const second = await pass(followed, follower);
    await putRows(main, 't', [[1, 'changed too']]);
    await main.transact((tx) => tx.write({ op: 'remove', table: 't', row: [2] }));
    const third = await pass(followed, follower);
    await follower.close();
    await main.close();

    const states = new Map<number | null, string[]>();
    for (const at of [first, second, third - 1, third, null])
      states.set(at, await readRows((await restoreTo(followed, at)).data_dir, 't', key));
    const whole = Array.from({ length: 2_000 }, (_, n) => textOf(n));
    expect(states.get(first)).toEqual(whole);
    expect(states.get(second)).toEqual(['changed', ...whole.slice(1)]);
    expect(states.get(third - 1)).toEqual(states.get(second));
    expect(states.get(third)).toEqual(['changed', 'changed too', ...whole.slice(3)]);
    expect(states.get(null)).toEqual(states.get(third));
  });

  it('contain the secrets, and a restored database accepts writes', async () => {
    const followed = makeFollowed(key);
    const main = await fill(followed);
    const follower = await openFollower(followed);
    await pass(followed, follower);
    await follower.close();
    await main.close();
    const { data_dir } = await restoreTo(followed, null);
    expect(readFileSync(join(data_dir, 'secrets', 'jwt'), 'utf8')).toBe('secret');
    const again = new LmdbTables(join(data_dir, 'main.mdb'), 'disk', key);
    for (let n = 0; n < 50; n++) await putRows(again, 't', [[n, 'written after']]);
    expect(again.get('t', [49])).toBe('written after');
    await again.close();
    expect(existsSync(`${data_dir}.fetched`)).toBe(false);
  });

  it('contain captured exchanges that are packed, in raw files or in sealed files', async () => {
    const followed = makeFollowed(key);
    const { capture_db: path, data_dir } = followed.source;
    mkdirSync(data_dir);
    const log = await CaptureLog.open({ path, redact: true, pressed_rate: 1, data_key: key });
    const prng = createPrng(5);
    const bodies: string[] = [];
    const append = async (count: number): Promise<void> => {
      const texts = Array.from({ length: count }, () =>
        Array.from({ length: 400 }, () => prng.below(1e9).toString(36)).join(' '),
      );
      await log.append(texts.map((text) => makeExchange({ request_body: Buffer.from(text) })));
      bodies.push(...texts);
    };
    const readBodies = async (): Promise<string[]> => {
      const { capture_db, lost_blocks } = await restoreTo(followed, null);
      expect(lost_blocks).toBe(0);
      const found: string[] = [];
      for (const file of [...listSealed(capture_db).map((sealed) => sealed.path), capture_db]) {
        const reader = CaptureReader.open(file, key === null ? {} : { data_key: key });
        for (const { id } of reader.exchanges()) found.push(reader.body(id, 'request')!.toString());
        reader.close();
      }
      return found;
    };
    await append(200);
    const follower = await openFollower(followed);
    await pass(followed, follower);
    const objects = new SealedObjects(null);
    if (key === null) {
      const [point] = await listPoints(followed.store);
      const { files } = (await readPoint(followed.store, objects, point!.name))!;
      expect(files.map(({ kind }) => kind)).toContain('raw');
    }
    expect(await readBodies()).toEqual(bodies);
    while ((await log.packSome(1_000)) > 0);
    await append(20);
    await pass(followed, follower);
    expect(await readBodies()).toEqual(bodies);
    await log.rotate();
    await append(20);
    await pass(followed, follower);
    await append(20);
    await pass(followed, follower);
    expect(await readBodies()).toEqual(bodies);
    // The sealed file is stored only once.
    expect((await listNames(followed.store, 'blobs/')).filter((name) => name.endsWith('/done'))).toHaveLength(
      1,
    );
    await follower.close();
    await log.close();
  });
});

describe('a point', () => {
  it('is made only after a change, and stores only what changed', async () => {
    const followed = makeFollowed();
    const main = await fill(followed);
    const follower = await openFollower(followed);
    const now = () => (followed.clock.ms += 10_000);
    const { bytes: whole } = await follower.pass(now, NEVER);
    expect(await follower.pass(now, NEVER)).toMatchObject({ point: null, bytes: 0 });
    await putRows(main, 't', [[7, randomBytes(100).toString('hex')]]);
    const { bytes: change, point } = await follower.pass(now, NEVER);
    expect(point).not.toBe(null);
    expect(change).toBeGreaterThan(0);
    expect(change).toBeLessThan(whole / 5);
    expect(await listPoints(followed.store)).toHaveLength(2);
    const { from_ms } = await follower.pass(now, NEVER);
    // The place has all data up to now, even without a new point.
    expect(readPointNotes(followed.source.data_dir)).toEqual([{ place: followed.store.name, from_ms }]);
    await follower.close();
    await main.close();
  });

  it.each([
    ['without a data key', null],
    ['with a data key', randomBytes(32)],
  ])('has a database as of one moment, even if rows are written while it is read, %s', async (_, key) => {
    const followed = makeFollowed(key);
    const main = await fill(followed);
    const source = openDatabasePages(join(followed.source.data_dir, 'main.mdb'), key);
    const rewrite = (round: number) =>
      putRows(
        main,
        't',
        Array.from({ length: 2_000 }, (_, n) => [n, `round ${round} ${textOf(n)}`] as const),
      );
    for (let round = 0; round < 4; round++) await rewrite(round);
    const written = new Map<string, Uint8Array>();
    const put = async (name: string, bytes: Uint8Array): Promise<void> => void written.set(name, bytes);
    const layered = addLayer(
      null,
      source,
      { name: 'main.mdb', kind: 'database' },
      { layer: 'a', put },
      false,
    );
    for (let round = 4; round < 8; round++) await rewrite(round);
    const { entry } = await layered;
    await source.close();
    await main.close();
    const again = join(followed.folder, 'again');
    mkdirSync(again);
    writeFileSync(join(again, 'main.mdb'), readLayers(await layered, written, entry.bytes));
    expect(await readRows(again, 't', key)).toEqual(Array.from({ length: 2_000 }, (_, n) => textOf(n)));
  });

  it('contains nothing that was deleted before it', async () => {
    const followed = makeFollowed();
    const main = await fill(followed);
    const canary = 'Kanarienvogel-4711';
    await putRows(main, 'u', [
      [1, canary.repeat(3)],
      [2, canary.repeat(2_000)],
    ]);
    await main.transact((tx) => {
      for (const n of [1, 2]) tx.write({ op: 'remove', table: 'u', row: [n] });
    });
    await putRows(main, 't', [[3, 'later']]);
    expect(readFileSync(join(followed.source.data_dir, 'main.mdb')).includes(canary)).toBe(true);
    const follower = await openFollower(followed);
    await pass(followed, follower);
    await follower.close();
    await main.close();
    const { data_dir } = await restoreTo(followed, null);
    for (const { bytes } of readAllFiles(data_dir)) expect(bytes.includes(canary)).toBe(false);
  });

  it('reveals nothing under a data key, and does not open under another key or another name', async () => {
    const key = randomBytes(32);
    const followed = makeFollowed(key);
    const main = await fill(followed);
    const follower = await openFollower(followed);
    await pass(followed, follower);
    await putRows(main, 't', [[0, 'changed']]);
    await pass(followed, follower);
    await follower.close();
    await main.close();
    const place = join(followed.folder, 'place');
    for (const { path, bytes } of readAllFiles(place))
      for (const text of ['secret', 'value 1 ', 'main.mdb', 'layers'])
        if (!path.endsWith('about.json')) expect(bytes.includes(text), `${text} in ${path}`).toBe(false);
    await expect(restoreTo(followed, null, randomBytes(32))).rejects.toThrow('need their data key');
    await expect(restoreTo(followed, null, null)).rejects.toThrow('need their data key');
    const [old, young] = (await listPoints(followed.store)).map(({ name }) => join(place, name));
    writeFileSync(young!, readFileSync(old!));
    await expect(restoreTo(followed, null)).rejects.toThrow(StoreError);
  });

  it.each([
    [
      'changed',
      (path: string, bytes: Buffer) => {
        bytes[bytes.length >> 1]! ^= 1;
        writeFileSync(path, bytes);
      },
    ],
    ['cut off', (path: string, bytes: Buffer) => writeFileSync(path, bytes.subarray(0, bytes.length >> 1))],
    ['missing', (path: string) => rmSync(path)],
  ])('with an object that is %s is refused, and leaves nothing', async (_, harm) => {
    const followed = makeFollowed();
    const main = await fill(followed);
    await putRows(main, 't', [[0, randomBytes(3_000).toString('base64')]]);
    const follower = await openFollower(followed);
    await pass(followed, follower);
    await follower.close();
    await main.close();
    const layers = readAllFiles(join(followed.folder, 'place', 'layers'));
    expect(layers.length).toBeGreaterThan(0);
    for (const { path, bytes } of layers) {
      harm(path, Buffer.from(bytes));
      const failure = await restoreTo(followed, null).then(
        () => null,
        (thrown: Error) => thrown,
      );
      expect(failure?.message).toMatch(/damaged|missing/);
      expect(failure?.message).not.toContain('\n');
      writeFileSync(path, bytes);
    }
    expect(await readRows((await restoreTo(followed, null)).data_dir, 't')).toHaveLength(2_000);
  });
});

describe('a place of points', () => {
  it('accepts one DATA_DIR, one key and one process', async () => {
    const followed = makeFollowed();
    const main = await fill(followed);
    const follower = await openFollower(followed);
    await expect(openFollower(followed)).rejects.toThrow('follows to this place already');
    await follower.close();
    await main.close();
    const other = makeFollowed();
    const second = await fill(other);
    await expect(openFollower({ ...other, store: followed.store })).rejects.toThrow('of another DATA_DIR');
    await second.close();
    const keyed = { ...followed, source: { ...followed.source, data_key: randomBytes(32) } };
    await expect(openFollower(keyed)).rejects.toThrow('under another data key');
    await expect(restoreTo(other, null)).rejects.toThrow('has no points');
    await expect(restoreTo(followed, null)).rejects.toThrow('has no complete point yet');
    const again = await openFollower(followed);
    await pass(followed, again);
    await again.close();
    await expect(restoreTo(followed, null, null, true)).rejects.toThrow('has no captures');
  });

  it('that was unreachable gets the same point later', async () => {
    const followed = makeFollowed();
    const main = await fill(followed);
    let refuses = 0;
    const store = new (class extends FolderStore {
      override async put(name: string, bytes: Uint8Array): Promise<void> {
        if (refuses > 0 && refuses-- > 0) throw new StoreError('cannot be reached');
        await super.put(name, bytes);
      }
    })(join(followed.folder, 'place'));
    const away = { ...followed, store };
    const follower = await openFollower(away);
    const first = await pass(away, follower);
    await putRows(main, 't', [[0, 'before']]);
    refuses = 1;
    await expect(pass(away, follower)).rejects.toThrow('cannot be reached');
    await putRows(main, 't', [[0, 'after']]);
    await pass(away, follower);
    expect((await readRows((await restoreTo(away, null)).data_dir, 't'))[0]).toBe('before');
    await pass(away, follower);
    expect((await readRows((await restoreTo(away, null)).data_dir, 't'))[0]).toBe('after');
    expect((await readRows((await restoreTo(away, first)).data_dir, 't'))[0]).toBe(textOf(0));
    await expect(restoreTo(away, first - 20_000)).rejects.toThrow('no point at or before that time');
    await follower.close();
    await main.close();
  });

  it('has a complete point or none if the follower is killed before any of its objects', {
    tags: 'long',
  }, async () => {
    const followed = makeFollowed();
    const main = await fill(followed);
    mkdirSync(`${followed.source.capture_db}.files`);
    writeFileSync(join(`${followed.source.capture_db}.files`, 'a'.repeat(64)), 'picture');
    await main.close();
    const follow = (place: string, killedAt: number) =>
      spawnSync(process.execPath, [
        ...STRIPPED_FLAGS,
        join(import.meta.dirname, 'killed-follower.ts'),
        followed.source.data_dir,
        place,
        String(killedAt),
      ]);
    let kills = 0;
    for (;;) {
      const place = join(followed.folder, `place-${kills}`);
      const killed = { ...followed, store: new FolderStore(place) };
      const { signal, status, stderr } = follow(place, kills + 1);
      if (signal === null) {
        expect(status, stderr.toString()).toBe(0);
        break;
      }
      expect(signal).toBe('SIGKILL');
      kills++;
      await expect(restoreTo(killed, null)).rejects.toThrow(/no points|no complete point/);
      const follower = await openFollower(killed);
      await pass(killed, follower);
      // The objects of the killed process belong to no point, and are removed when they are old.
      const before = await listNames(killed.store, 'layers/');
      await follower.prune(Date.now() + DAY_MS / 12);
      const after = await listNames(killed.store, 'layers/');
      expect(after.length).toBeLessThanOrEqual(before.length);
      expect(new Set(after.map((name) => name.split('/')[1])).size).toBe(1);
      await follower.close();
      expect(await readRows((await restoreTo(killed, null)).data_dir, 't')).toHaveLength(2_000);
    }
    // The objects are about.json, the database, the attachment and the list of attachments, the secret and its mark,
    // and the point.
    expect(kills).toBeGreaterThanOrEqual(7);
  });

  it('removes old points and attachments that no point contains, and keeps attachments that came back', async () => {
    const followed = makeFollowed();
    const main = await fill(followed);
    const files = `${followed.source.capture_db}.files`;
    mkdirSync(files);
    const [left, back] = ['a', 'b'].map((letter) => letter.repeat(64));
    for (const name of [left, back]) writeFileSync(join(files, name!), `picture ${name}`);
    const log = await CaptureLog.open({ path: followed.source.capture_db, redact: true });
    const follower = await openFollower(followed, DAY_MS);
    const first = await pass(followed, follower);
    for (const name of [left, back]) rmSync(join(files, name!));
    await pass(followed, follower);
    writeFileSync(join(files, back!), `picture ${back}`);
    await pass(followed, follower);
    await follower.prune(followed.clock.ms);
    expect(await listNames(followed.store, 'attachments/')).toHaveLength(2);
    const { capture_db } = await restoreTo(followed, first);
    expect(readFileSync(join(`${capture_db}.files`, left!), 'utf8')).toBe(`picture ${left}`);
    const captures = await restoreTo(followed, first, null, true);
    expect(
      readdirSync(captures.data_dir)
        .filter((name) => !name.endsWith('-lock'))
        .sort(),
    ).toEqual(['capture.mdb', 'capture.mdb.files']);
    expect(readdirSync(`${captures.capture_db}.files`)).toHaveLength(2);
    followed.clock.ms += 2 * DAY_MS;
    await putRows(main, 't', [[0, 'two days later']]);
    await pass(followed, follower);
    await follower.prune(followed.clock.ms);
    expect(await listPoints(followed.store)).toHaveLength(1);
    expect(await listNames(followed.store, 'attachments/')).toEqual([`attachments/${back}`]);
    expect((await readRows((await restoreTo(followed, null)).data_dir, 't'))[0]).toBe('two days later');
    await follower.close();
    await log.close();
    await main.close();
  });
});

describe('choosePruned', () => {
  it('keeps all of an hour, one a minute of a day, one an hour of the requested time, and the newest', () => {
    const now = Date.parse('2026-03-08T00:00:00.000Z');
    const points = [];
    for (let at = now - 10 * DAY_MS; at <= now; at += 10_000)
      points.push({ name: String(at), at_ms: at, lineage: '' });
    const pruned = new Set(choosePruned(points, now, 7 * DAY_MS).map(({ name }) => name));
    const ages = points.filter(({ name }) => !pruned.has(name)).map(({ at_ms }) => now - at_ms);
    const count = (from: number, to: number) => ages.filter((age) => age >= from && age < to).length;
    expect(count(0, 3_600_001)).toBe(361);
    expect(count(3_600_001, DAY_MS + 1)).toBe(23 * 60);
    expect(count(DAY_MS + 1, 7 * DAY_MS + 1)).toBe(6 * 24);
    expect(count(7 * DAY_MS + 1, Number.POSITIVE_INFINITY)).toBe(0);
    expect(choosePruned(points.slice(0, 1), now, 7 * DAY_MS)).toEqual([]);
  });
});

describe('the layers of a file', () => {
  it.each([true, false])('restore each of its states after any changes (%s)', async (keepsBase) => {
    const states = fc.array(fc.tuple(fc.nat(4), fc.nat(4_095), fc.nat(2), fc.nat(1_000)), {
      minLength: 130,
      maxLength: 130,
    });
    await fc.assert(
      fc.asyncProperty(states, async (drawn) => {
        const written = new Map<string, Uint8Array>();
        let content = Buffer.alloc(0);
        let known: LayeredFile | null = null;
        for (const [growth, rest, value, place] of drawn) {
          const pages = Math.max(0, Math.ceil(content.length / PAGE) + growth - 2);
          const next = Buffer.alloc(pages === 0 ? 0 : pages * PAGE - rest);
          content.copy(next);
          if (pages > 0) next.fill(value, (place % pages) * PAGE, next.length);
          content = next;
          known = await addLayer(
            known,
            memoryPages(content),
            { name: 'attachments', kind: 'attachments' },
            {
              layer: `layer-${written.size}`,
              put: async (name, bytes) => void written.set(name, bytes),
            },
            keepsBase,
          );
          expect(readLayers(known, written, content.length).equals(content)).toBe(true);
          expect(known.entry.layers.length).toBeLessThanOrEqual(62);
        }
      }),
      { numRuns: 1 },
    );
  });
});

/** The result of restoring the layers. */
function readLayers({ entry }: LayeredFile, written: ReadonlyMap<string, Uint8Array>, bytes: number): Buffer {
  const made = Buffer.alloc(Math.max(bytes, 500 * PAGE));
  for (const { name, pieces } of entry.layers)
    for (let piece = 0; piece < pieces; piece++)
      readPiece(Buffer.from(written.get(`${name}/${piece}`)!), PAGE, (page, content) => {
        made.fill(0, page * PAGE, (page + 1) * PAGE);
        content?.copy(made, page * PAGE);
      });
  return made.subarray(0, bytes);
}
