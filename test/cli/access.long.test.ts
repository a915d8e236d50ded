/**
 * File permissions: with any umask, only the user who runs the service and the commands can read folders and files.
 */
import { chmodSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { WholeService } from '../fixtures/whole-service.ts';
import { makeFolder } from '../storage/folder.ts';
import { CliChild } from './child.ts';

/** The folder or file and everything below it, with permissions. */
function walk(path: string): { path: string; isFolder: boolean; mode: string }[] {
  const stat = lstatSync(path);
  const isFolder = stat.isDirectory();
  const own = { path, isFolder, mode: (stat.mode & 0o777).toString(8) };
  return isFolder ? [own, ...readdirSync(path).flatMap((name) => walk(join(path, name)))] : [own];
}

// This umask removes no permissions.
describe('under umask 000', () => {
  it('the files of a service and of the commands are closed to other users', async () => {
    const folder = makeFolder();
    await using service = new WholeService(join(folder, 'data'), {}, '000');
    await service.start();
    await service.use('whatever it is about');
    // A running service also has lock files and redo logs.
    const running = walk(service.dir);
    const out = (name: string) => join(folder, name);
    await service.run('backup', '--out', out('copy'));
    await service.run('trace', '--out', out('traces.jsonl'));
    await service.run('patterns', 'export', '--tier', 'e2', out('patterns.jsonl'));
    // There are too few runs for a student, but what `distill` has read is stored beside the output folder.
    await service.try('distill', '--out', out('student'));
    expect(await service.stop()).toBe(0);
    const left = readdirSync(folder).flatMap((name) => walk(join(folder, name)));
    const found = [...running, ...left];
    for (const kind of [
      'main.mdb',
      'main.mdb-lock',
      'runs.mdb-safe',
      'capture.mdb-safe',
      'runs.1.redo',
      'capture.mdb',
      'jwt-secret',
      'manifest.json',
      'traces.jsonl',
      'patterns.jsonl',
      'digests.mdb',
    ])
      expect(
        found.some(({ path }) => path.endsWith(`/${kind}`)),
        kind,
      ).toBe(true);
    const sealed = (path: string) => /capture\.\d+-\d+\.mdb$/.test(path) && path.startsWith(service.dir);
    expect(found.filter(({ path }) => sealed(path)).length).toBeGreaterThan(0);
    expect(found.filter(({ path }) => /\.files\/[0-9a-f]{64}$/.test(path)).length).toBeGreaterThan(0);
    const loose = found.filter(
      ({ path, isFolder, mode }) => mode !== (isFolder ? '700' : sealed(path) ? '400' : '600'),
    );
    expect(loose).toEqual([]);
    expect(service.stderr).not.toContain('chmod');
  });
});

describe('files that an earlier version left open to other users', () => {
  it('are reported once at the start with the command that closes them, and stay unchanged', async () => {
    const data = makeFolder();
    chmodSync(data, 0o755);
    mkdirSync(join(data, 'secrets'), { mode: 0o755 });
    writeFileSync(join(data, 'notes.txt'), 'a stranger', { mode: 0o644 });
    const first = new CliChild(['serve', '--port', '0'], { env: { DATA_DIR: data } });
    await using _first = first;
    await first.waitForOutput(/http:\/\/[\d.]+:\d+/);
    first.process.kill('SIGTERM');
    await first.ended;
    chmodSync(join(data, 'main.mdb'), 0o644);
    const second = new CliChild(['serve', '--port', '0'], { env: { DATA_DIR: data } });
    await using _second = second;
    await second.waitForOutput(/http:\/\/[\d.]+:\d+/);
    second.process.kill('SIGTERM');
    const lines = (await second.ended).stderr.split('\n').filter((line) => line.includes('chmod'));
    expect(lines).toHaveLength(1);
    const line = JSON.parse(lines[0]!) as { msg: string; places: number; first: string };
    // The three are the folder, the secrets and the database, without the file that is not the service's.
    expect(line).toMatchObject({ level: 40, places: 3, first: data });
    expect(line.msg).toContain(`chmod -R go= ${data}`);
    expect(lstatSync(join(data, 'main.mdb')).mode & 0o777).toBe(0o644);
  });
});
