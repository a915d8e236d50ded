/** A student's directory: a reader sees a complete version or none, also while versions are published. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeDraft } from '../../bench/made-manifest.ts';
import {
  checkForPublishing,
  checkForWaiting,
  listVersions,
  publishStudent,
  readStudentDirectory,
  readStudentManifest,
  STUDENT_VERSIONS,
  serveVersion,
  writePatterns,
} from '../../src/student/directory.ts';
import type { StudentManifest } from '../../src/student/model/manifest.ts';
import type { StudentModel } from '../../src/student/model/student-model.ts';
import { makeFolder } from '../storage/folder.ts';

const MODEL = makeModel({
  dimensions: 3,
  vectors: new Float32Array([0.25, -1, 3]),
  steps: [{ text: 'größer', value: null, at: 7 }],
});

function makeModel(group: Record<string, unknown>): StudentModel {
  return { format: 'svc_student_model_v2', support_min: 2, runs: 1, steps: 1, groups: [group] };
}

function publish(directory: string, group: Record<string, unknown> = MODEL.groups[0]!) {
  return publishStudent(directory, makeDraft(), makeModel(group));
}

describe('a student directory', () => {
  it('returns the published student unchanged, including floats', async () => {
    const directory = join(makeFolder(), 'deep', 'student');
    const written = await publish(directory);
    const { manifest, model } = await readStudentDirectory(directory);
    expect(manifest).toEqual(written);
    expect(manifest.version).toBe(1);
    expect(model).toEqual(MODEL);
    expect(readdirSync(directory).sort()).toEqual([
      'manifest.json',
      'manifest.v1.json',
      manifest.files.steps.name,
    ]);
  });

  it('keeps the newest versions and the one that serves, and removes older ones', async () => {
    const directory = makeFolder();
    const versions: StudentManifest[] = [];
    for (let at = 1; at <= STUDENT_VERSIONS.kept + 2; at++) versions.push(await publish(directory, { at }));
    const kept = versions.slice(-STUDENT_VERSIONS.kept);
    const expectKept = async (wanted: readonly StudentManifest[]) => {
      const found = await listVersions(directory);
      expect(found.map(({ manifest }) => manifest)).toEqual(wanted.toReversed());
      const steps = wanted.map(({ files }) => files.steps.name);
      const names = wanted.map(({ version }) => `manifest.v${version}.json`);
      expect(readdirSync(directory).sort()).toEqual(['manifest.json', ...names, ...steps].sort());
    };
    await expectKept(kept);
    expect((await readStudentDirectory(directory)).model.groups).toEqual([{ at: STUDENT_VERSIONS.kept + 2 }]);

    const oldest = kept[0]!;
    expect(await serveVersion(directory, oldest.version)).toEqual(oldest);
    expect((await readStudentDirectory(directory)).model.groups).toEqual([{ at: oldest.version }]);
    // A version that does not serve is published. The oldest version continues to serve, and the next oldest is
    // removed.
    const waiting = await publishStudent(directory, makeDraft(), makeModel({ at: 'new' }), { serves: false });
    expect(waiting.version).toBe(versions.length + 1);
    expect((await readStudentManifest(directory)).version).toBe(oldest.version);
    await expectKept([oldest, ...kept.slice(2), waiting]);
  });

  it('continues its numbers when its manifest was removed, and serves nothing meanwhile', async () => {
    const directory = makeFolder();
    await publish(directory);
    rmSync(join(directory, 'manifest.json'));
    await expect(readStudentDirectory(directory)).rejects.toMatchObject({ code: 'missing' });
    await checkForWaiting(directory);
    expect((await publish(directory, { at: 2 })).version).toBe(2);
    rmSync(join(directory, 'manifest.json'));
    expect((await serveVersion(directory, 1)).version).toBe(1);
  });

  it('keeps the student of an earlier release as a version', async () => {
    const directory = makeFolder();
    const first = await publish(directory);
    rmSync(join(directory, 'manifest.v1.json'));
    writeFileSync(join(directory, 'manifest.previous.json'), '{}');
    await publish(directory, { at: 2 });
    expect((await listVersions(directory)).map(({ version }) => version)).toEqual([2, 1]);
    expect(await serveVersion(directory, 1)).toEqual(first);
    expect(readdirSync(directory)).not.toContain('manifest.previous.json');
  });

  it('does not let an incomplete version serve', async () => {
    const directory = makeFolder();
    const first = await publish(directory);
    const second = await publish(directory, { at: 2 });
    writeFileSync(join(directory, first.files.steps.name), 'cut');
    await expect(serveVersion(directory, 1)).rejects.toMatchObject({ code: 'damaged' });
    await expect(serveVersion(directory, 7)).rejects.toMatchObject({ code: 'missing' });
    writeFileSync(join(directory, 'manifest.v1.json'), '{');
    await expect(serveVersion(directory, 1)).rejects.toMatchObject({ code: 'damaged' });
    expect(await readStudentManifest(directory)).toEqual(second);
    expect(await listVersions(directory)).toMatchObject([
      { version: 2, problem: '' },
      { version: 1, manifest: null, problem: expect.stringContaining('not JSON') },
    ]);
  });

  it('shows a reader one complete student while others are published', { tags: 'long' }, async () => {
    const directory = makeFolder();
    await publish(directory, { at: 0, again: 0 });
    let isPublishing = true;
    const writer = (async () => {
      for (let at = 1; at <= 40; at++) await publish(directory, { at, again: at });
      isPublishing = false;
    })();
    let last = 0;
    while (isPublishing) {
      const { manifest, model } = await readStudentDirectory(directory);
      const { at, again } = model.groups[0] as { at: number; again: number };
      expect(at).toBe(again);
      expect(manifest.version).toBe(at + 1);
      expect(at).toBeGreaterThanOrEqual(last);
      last = at;
    }
    await writer;
  });

  it('is not affected by the remains of an interrupted publication, which are removed later', async () => {
    const directory = makeFolder();
    const name = `steps-${'0'.repeat(16)}.bin`;
    const partial = `${name}.${'0'.repeat(8)}-0000-4000-8000-${'0'.repeat(12)}.partial`;
    writeFileSync(join(directory, name), 'of no student');
    writeFileSync(join(directory, partial), 'half');
    expect(await checkForPublishing(directory)).toBeNull();
    await publish(directory);
    expect(existsSync(join(directory, name))).toBe(false);
    expect(existsSync(join(directory, partial))).toBe(true);
    utimesSync(join(directory, partial), 0, 0);
    await publish(directory, { other: true });
    expect(existsSync(join(directory, partial))).toBe(false);
  });

  it('whose steps are damaged in any byte is refused, with the name of the file', async () => {
    const directory = makeFolder();
    const { files } = await publish(directory);
    const path = join(directory, files.steps.name);
    const good = readFileSync(path);
    for (let at = 0; at < good.length; at += 1) {
      const bad = Buffer.from(good);
      bad[at]! ^= 1;
      writeFileSync(path, bad);
      await expect(readStudentDirectory(directory)).rejects.toMatchObject({ code: 'damaged', path });
    }
    writeFileSync(path, good.subarray(0, -1));
    await expect(readStudentDirectory(directory)).rejects.toThrow(`${path}: has ${good.length - 1} bytes`);
    rmSync(path);
    await expect(readStudentDirectory(directory)).rejects.toThrow(`${path}: missing`);
    writeFileSync(path, good);
    expect((await readStudentDirectory(directory)).model).toEqual(MODEL);
  });

  it('that contains no students is refused with one line', async () => {
    const folder = makeFolder();
    const empty = join(folder, 'empty');
    mkdirSync(empty);
    writeFileSync(join(folder, 'file'), 'text');
    const pipe = join(folder, 'pipe', 'manifest.json');
    mkdirSync(dirname(pipe));
    execFileSync('mkfifo', [pipe]);
    mkdirSync(join(folder, 'folder', 'manifest.json'), { recursive: true });
    const cases: [string, string, string][] = [
      [join(folder, 'nowhere'), 'missing', 'no such directory; understudy distill --out makes one'],
      [empty, 'missing', 'no manifest.json in it'],
      [join(folder, 'file'), 'foreign', 'not a directory'],
      [dirname(pipe), 'unreadable', '/manifest.json: not a file'],
      [join(folder, 'folder'), 'unreadable', '/manifest.json: not a file'],
    ];
    for (const [directory, code, words] of cases) {
      const failure = await readStudentManifest(directory).catch((error: Error) => error);
      expect(failure).toMatchObject({ name: 'StudentDirectoryError', code });
      expect((failure as Error).message).toContain(
        words.startsWith('/') ? directory + words : `${directory}: ${words}`,
      );
      expect((failure as Error).message).not.toContain('\n');
    }
  });

  it('of a newer version, or with another manifest, cannot be read or written', async () => {
    const directory = makeFolder();
    for (const [text, code] of [
      ['{"format":"svc_student_v9"}', 'newer_format'],
      ['{"name":"some-package"}', 'foreign'],
      ['{"format":"svc_student_v1","ver', 'damaged'],
      ['x'.repeat(300_000), 'damaged'],
    ] as const) {
      writeFileSync(join(directory, 'manifest.json'), text);
      await expect(readStudentDirectory(directory)).rejects.toMatchObject({ code });
      await expect(publish(directory)).rejects.toMatchObject({ code });
      expect(readFileSync(join(directory, 'manifest.json'), 'utf8')).toBe(text);
    }
  });
});

describe('a model of another version', () => {
  it('is refused with an error that names the file and both versions', async () => {
    const directory = makeFolder();
    const model = { ...MODEL, format: 'svc_student_model_v9' } as unknown as StudentModel;
    const { files } = await publishStudent(directory, makeDraft(), model);
    await expect(readStudentDirectory(directory)).rejects.toMatchObject({
      code: 'newer_format',
      message: `${join(directory, files.steps.name)}: holds "svc_student_model_v9", this version takes svc_student_model_v2; distil again`,
    });
  });
});

describe('a directory for publication', () => {
  it('is refused if it contains only other files, which stay', async () => {
    const directory = makeFolder();
    writeFileSync(join(directory, 'thesis.txt'), 'mine');
    await expect(publish(directory)).rejects.toThrow(`${directory}: not empty ("thesis.txt")`);
    expect(readdirSync(directory)).toEqual(['thesis.txt']);
  });

  it('may contain other files as well as a student; these files stay', async () => {
    const directory = makeFolder();
    await publish(directory);
    writeFileSync(join(directory, 'notes.txt'), 'mine');
    await publish(directory, { other: 1 });
    await publish(directory, { other: 2 });
    expect(readFileSync(join(directory, 'notes.txt'), 'utf8')).toBe('mine');
  });

  it('does not change when it is inspected', async () => {
    const folder = makeFolder();
    expect(await checkForPublishing(join(folder, 'deep', 'student'))).toBeNull();
    expect(readdirSync(folder)).toEqual([]);
    const { version } = await publish(folder);
    const names = readdirSync(folder);
    expect(await checkForPublishing(folder)).toMatchObject({ version });
    expect(readdirSync(folder)).toEqual(names);
  });

  it('accepts patterns with a student or without, and keeps them', async () => {
    const directory = join(makeFolder(), 'student');
    const path = await writePatterns(directory, 'one\n');
    expect(readdirSync(directory)).toEqual(['patterns.jsonl']);
    await publish(directory);
    await publish(directory, { other: 1 });
    expect(readFileSync(path, 'utf8')).toBe('one\n');
    await writePatterns(directory, 'two\n');
    expect(readFileSync(path, 'utf8')).toBe('two\n');
    expect((await readStudentDirectory(directory)).manifest.version).toBe(2);
  });

  it('is refused if it is a file, or is below a file', async () => {
    const folder = makeFolder();
    writeFileSync(join(folder, 'file'), 'text');
    await expect(checkForPublishing(join(folder, 'file'))).rejects.toMatchObject({ code: 'foreign' });
    await expect(checkForPublishing(join(folder, 'file', 'below'))).rejects.toMatchObject({
      code: 'unwritable',
      message: expect.stringMatching(/below: cannot be made: .*\/file is not a folder$/),
    });
  });

  it('does not change when a file cannot be written', async () => {
    const directory = makeFolder();
    const before = await publish(directory);
    const { files } = await publish(makeFolder(), { other: true });
    mkdirSync(join(directory, files.steps.name));
    await expect(publish(directory, { other: true })).rejects.toMatchObject({ code: 'unwritable' });
    expect(await readStudentManifest(directory)).toEqual(before);
    expect(readdirSync(directory).filter((name) => name.endsWith('.partial'))).toEqual([]);
  });
});
