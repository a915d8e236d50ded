/**
 * A student in one directory is shared, and other directories follow it: versions, orders, removal, damage and
 * refusals.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { makeDraft } from '../../bench/made-manifest.ts';
import { DataKey } from '../../src/std/data-key.ts';
import { FolderStore } from '../../src/storage/bucket/folder-store.ts';
import { SealedObjects } from '../../src/storage/bucket/sealed-objects.ts';
import { publishStudent, readStudentDirectory, serveVersion } from '../../src/student/directory.ts';
import type { StudentModel } from '../../src/student/model/student-model.ts';
import { NO_ORDERS, readOrders, suspend, writeOrders } from '../../src/student/orders.ts';
import { StudentFollowing, type StudentPlace, StudentSharing } from '../../src/student/shared-student.ts';
import { runHere } from '../cli/here.ts';

let folder: string;
/** `taught`: the directory in which rounds publish. `gateways`: the directories of two gateways that follow it. */
let taught: string;
let gateways: string[];
let place: StudentPlace;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-shared-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  taught = join(folder, 'taught');
  gateways = ['a', 'b'].map((name) => join(folder, name));
  place = { store: new FolderStore(join(folder, 'place')), objects: new SealedObjects(null) };
});

function publish(mark: string) {
  const groups = [{ name: 'triage.0', mark, filler: randomBytes(100_000).toString('base64') }];
  const model = { format: 'svc_student_model_v2', support_min: 2, runs: 1, steps: 1, groups } as StudentModel;
  return publishStudent(taught, makeDraft(), model);
}

const readMark = async (directory: string) =>
  ((await readStudentDirectory(directory)).model.groups[0] as { mark?: string }).mark;
const suspendAll = (at_ms: number) => suspend(NO_ORDERS, { agent: null, kind: null, at_ms });

describe.each([
  ['without a data key', null],
  ['with a data key', new DataKey(randomBytes(32))],
])('%s', (_, key) => {
  it('each version, each order and a withdrawal reach every gateway', async () => {
    place = { ...place, objects: new SealedObjects(key) };
    const sharing = new StudentSharing(taught, place, 'source');
    const following = gateways.map((directory) => new StudentFollowing(directory, place));
    const lookAll = () => Promise.all(following.map((gateway) => gateway.look()));
    await publish('one');
    expect(await sharing.look()).toBe(true);
    expect(await lookAll()).toEqual(['student', 'student']);
    for (const gateway of gateways) expect(await readMark(gateway)).toBe('one');
    expect([await sharing.look(), ...(await lookAll())]).toEqual([false, null, null]);

    await writeOrders(taught, suspendAll(5));
    await sharing.look();
    expect(await lookAll()).toEqual(['orders', 'orders']);
    for (const gateway of gateways) expect(await readOrders(gateway)).toEqual(suspendAll(5));
    await writeOrders(taught, NO_ORDERS);
    await publish('two');
    await sharing.look();
    expect(await lookAll()).toEqual(['student', 'student']);
    for (const gateway of gateways) {
      expect(await readMark(gateway)).toBe('two');
      expect(await readOrders(gateway)).toEqual(NO_ORDERS);
    }
    await serveVersion(taught, 1);
    await sharing.look();
    await lookAll();
    expect(await readMark(gateways[1]!)).toBe('one');
    rmSync(join(taught, 'manifest.json'));
    await sharing.look();
    expect(await lookAll()).toEqual(['student', 'student']);
    expect(readdirSync(gateways[0]!)).not.toContain('manifest.json');
    const bytes = readdirSync(join(folder, 'place'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name)));
    expect(bytes.some((content) => content.includes('svc_s'))).toBe(key === null);
  });
});

it('a suspension arrives although a version cannot be fetched, and the version arrives later', async () => {
  const sharing = new StudentSharing(taught, place, 'source');
  const following = new StudentFollowing(gateways[0]!, place);
  await publish('one');
  await sharing.look();
  await following.look();
  await publish('two');
  await writeOrders(taught, suspendAll(7));
  await sharing.look();
  const { files } = await readStudentDirectory(taught).then(({ manifest }) => manifest);
  const path = join(folder, 'place', 'files', files.steps.sha256, '0');
  const whole = readFileSync(path);
  for (const harmed of [whole.subarray(1), Buffer.alloc(whole.length)]) {
    writeFileSync(path, harmed);
    await expect(following.look()).rejects.toThrow('the shared files do not match their manifest');
    expect(await readMark(gateways[0]!)).toBe('one');
    expect(await readOrders(gateways[0]!)).toEqual(suspendAll(7));
  }
  rmSync(path);
  await expect(following.look()).rejects.toThrow('is missing in');
  writeFileSync(path, whole);
  expect(await following.look()).toBe('student');
  expect(await readMark(gateways[0]!)).toBe('two');
});

it('the shared place keeps the same versions as the directory, and a new gateway gets the version that serves', async () => {
  const sharing = new StudentSharing(taught, place, 'source');
  for (let n = 1; n <= 11; n++) {
    await publish(`version ${n}`);
    await sharing.look();
  }
  expect(readdirSync(join(folder, 'place', 'files'))).toHaveLength(8);
  expect(readdirSync(join(folder, 'place', 'manifests'))).toHaveLength(1);
  await new StudentFollowing(gateways[0]!, place).look();
  expect(await readMark(gateways[0]!)).toBe('version 11');
  // The follower restores a directory that was changed by hand.
  rmSync(join(gateways[0]!, 'manifest.json'));
  expect(await new StudentFollowing(gateways[0]!, place).look()).toBe('student');
  expect(await new StudentFollowing(gateways[0]!, place).look()).toBe(null);
});

it('impossible commands are refused in one line', async () => {
  const run = (...argv: string[]) =>
    runHere(['student', ...argv], { DATA_DIR: join(folder, 'data'), SVC_DISTILL_DIR: taught });
  const at = join(folder, 'place');
  await publish('one');
  await new StudentSharing(taught, place, 'another source').look();
  expect(await run('share', '--place', at)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/has the student of another DATA_DIR: .+\n$/),
  });
  expect(await run('follow', '--place', join(folder, 'empty'))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('has no student yet: understudy student share'),
  });
  writeFileSync(join(at, 'serving.json'), '{}');
  expect(await run('follow', '--place', at)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('serving.json in'),
  });
  for (const [argv, words] of [
    [['share'], 'name the folder or bucket with --place'],
    [['list', '--place', at], '--place requires share or follow'],
    [['follow', 'word', '--place', at], 'belongs to no option'],
  ] as const)
    expect(await run(...argv)).toMatchObject({ code: 2, stderr: expect.stringContaining(words) });
});
