/** Starts that must fail: each ends soon, with one line that says why, and leaves nothing running. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { ensureCaptureFile } from '../../src/storage/capture/layout.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { makeFolder } from '../storage/folder.ts';
import { CliChild } from './child.ts';
import { runHere } from './here.ts';

// The tests create files only for this user, as the command does. Otherwise a start would log a second line.
let umask: number;
beforeAll(() => {
  umask = process.umask(0o077);
});
afterAll(() => void process.umask(umask));

async function refuse(env: Record<string, string>, argv: string[] = ['up'], bytesMax?: string) {
  const child = new CliChild(argv, {
    env: { PORT: '0', GW_PORT: '0', ...env },
    ...(bytesMax === undefined ? {} : { file_bytes_max: bytesMax }),
  });
  // A start that succeeds unexpectedly would never end by itself.
  onTestFinished(() => child[Symbol.asyncDispose]());
  return lineOf(await child.ended);
}

/** Like `refuse`, but in the test's own process, for refusals whose kind another case runs as a process. */
async function refuseHere(env: Record<string, string>, argv: string[] = ['up']) {
  return lineOf(await runHere(argv, { PORT: '0', GW_PORT: '0', ...env }));
}

function lineOf(ended: { code: number | null; stdout: string; stderr: string }) {
  expect(ended.stdout).toBe('');
  const lines = ended.stderr.trim().split('\n');
  expect(lines, ended.stderr).toHaveLength(1);
  return { code: ended.code, line: lines[0]! };
}

describe('a start that fails', () => {
  it('names the file that is not a database', { tags: 'long' }, async () => {
    for (const [name, ask] of [
      ['main.mdb', refuse],
      ['runs.mdb', refuseHere],
    ] as const) {
      const DATA_DIR = makeFolder();
      writeFileSync(join(DATA_DIR, name), Buffer.alloc(20_000, 'no database '));
      const { code, line } = await ask({ DATA_DIR }, ['serve']);
      expect(code).toBe(1);
      expect(line).toContain(`${join(DATA_DIR, name)} is not a database`);
    }
  });

  it('gives the same reason as other commands on the database', async () => {
    const DATA_DIR = makeFolder();
    const main = join(DATA_DIR, 'main.mdb');
    writeFileSync(main, Buffer.alloc(20_000, 'no database '));
    for (const argv of [
      ['keys', 'create', '--org', 'acme', '--name', 'ci'],
      ['keys', 'revoke', 'key_1'],
      ['feedback'],
      ['patterns', 'export', '--tier', 'e2', '-'],
    ]) {
      const { code, line } = await (argv[1] === 'create' ? refuse : refuseHere)({ DATA_DIR }, argv);
      expect(code).toBe(1);
      expect(line).toContain(`${main} is not a database`);
    }
    const { code, line } = await refuseHere({ DATA_DIR: main }, [
      'keys',
      'create',
      '--org',
      'acme',
      '--name',
      'ci',
    ]);
    expect(code).toBe(1);
    expect(line).toBe(
      `understudy: ${main}/main.mdb cannot be opened: ${main} is not a folder; DATA_DIR names the folder`,
    );
  });

  it('says that there is no student yet, and what makes one', { tags: 'long' }, async () => {
    const SVC_DISTILL_DIR = join(makeFolder(), 'student');
    const { code, line } = await refuse({ DATA_DIR: makeFolder(), SVC_DISTILL_DIR }, ['gateway']);
    expect(code).toBe(1);
    expect(line).toBe(
      `understudy: ${SVC_DISTILL_DIR}: no such directory; understudy distill --out makes one`,
    );
  });

  it('says that a named pipe is not a student’s manifest', { tags: 'long' }, async () => {
    const SVC_DISTILL_DIR = makeFolder();
    const pipe = join(SVC_DISTILL_DIR, 'manifest.json');
    execFileSync('mkfifo', [pipe]);
    const { code, line } = await refuseHere({ DATA_DIR: makeFolder(), SVC_DISTILL_DIR }, ['gateway']);
    expect(code).toBe(1);
    expect(line).toBe(`understudy: ${pipe}: not a file`);
  });

  it('says that DATA_DIR is not a folder and cannot become one', async () => {
    const file = join(makeFolder(), 'file');
    writeFileSync(file, '');
    const reasons = {
      [file]: `${file} is not a folder`,
      [join(file, 'below')]: `${file} is not a folder`,
      // No user can create folders in /proc, whatever their rights.
      '/proc/understudy': 'nothing can be made in /proc',
      '/proc/understudy/data': 'nothing can be made in /proc',
    };
    for (const [DATA_DIR, reason] of Object.entries(reasons)) {
      // The line and the status are those of every other command.
      expect(await (DATA_DIR === file ? refuse : refuseHere)({ DATA_DIR })).toEqual({
        code: 1,
        line: `understudy: ${reason}: correct the path, or set another DATA_DIR (now ${DATA_DIR})`,
      });
    }
  });

  it('says which port is in use', { tags: 'long' }, async () => {
    const other = createServer();
    onTestFinished(() => void other.close());
    await new Promise<void>((resolve) => {
      other.listen(0, '127.0.0.1', resolve);
    });
    const taken = String((other.address() as { port: number }).port);
    for (const more of [{ GW_PORT: taken }, { PORT: taken, SERVER_THREADS: '2' }]) {
      const ask = 'GW_PORT' in more ? refuse : refuseHere;
      const { code, line } = await ask({ DATA_DIR: makeFolder(), ...more });
      expect(code).toBe(1);
      expect(line).toContain(`cannot listen on 127.0.0.1:${taken}: the port is in use`);
    }
  });

  it('names the folder that has no embedding model, and says what a model consists of', {
    tags: 'long',
  }, async () => {
    const broken = makeFolder();
    writeFileSync(join(broken, 'model.onnx'), 'no graph');
    writeFileSync(join(broken, 'tokenizer.json'), '{}');
    const reasons = {
      [join(broken, 'none')]: 'there is no such folder',
      [broken]: 'tokenizer.json cannot be used',
    };
    for (const [EMBEDDING_MODEL_DIR, reason] of Object.entries(reasons)) {
      const ask = EMBEDDING_MODEL_DIR === broken ? refuse : refuseHere;
      const { code, line } = await ask({ DATA_DIR: makeFolder(), EMBEDDING_MODEL_DIR }, ['serve']);
      expect(code).toBe(78);
      expect(line).toContain(`EMBEDDING_MODEL_DIR=${JSON.stringify(EMBEDDING_MODEL_DIR)}: must be a folder`);
      expect(line).toContain(reason);
    }
  });

  it('says that the packages for the embedding model are not installed', { tags: 'long' }, async () => {
    const hook = `import { registerHooks } from 'node:module';
      registerHooks({ resolve(name, context, next) {
        if (name === 'onnxruntime-node') throw new Error('Cannot find package ' + name);
        return next(name, context);
      } });`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(hook)}`;
    for (const SERVER_THREADS of ['1', '2']) {
      const env = { DATA_DIR: makeFolder(), NODE_OPTIONS, SERVER_THREADS };
      const { code, line } = await refuse(env, ['serve']);
      expect(code).toBe(1);
      expect(line).toContain('onnxruntime-node, which runs the model, cannot be loaded');
      expect(line).toContain('npm install --ignore-scripts');
    }
  });

  it('says that the embedding service refuses, and does not show its key', { tags: 'long' }, async () => {
    const service = createHttpServer((_request, response) => response.writeHead(401).end('{"error":"no"}'));
    onTestFinished(() => void service.close());
    await new Promise<void>((resolve) => {
      service.listen(0, '127.0.0.1', resolve);
    });
    const { port } = service.address() as { port: number };
    const env = { EMBEDDING_API_URL: `http://127.0.0.1:${port}/v1`, EMBEDDING_API_KEY: 'the-key' };
    for (const SERVER_THREADS of ['1', '2']) {
      const ask = SERVER_THREADS === '1' ? refuse : refuseHere;
      const { code, line } = await ask({ DATA_DIR: makeFolder(), SERVER_THREADS, ...env }, ['serve']);
      expect(code).toBe(1);
      expect(line).toBe('understudy: the embedding service answered 401');
    }
  });

  it('says which capture database cannot be opened, why, and what to do', { tags: 'long' }, async () => {
    const folder = makeFolder();
    const file = join(folder, 'notes.txt');
    writeFileSync(file, 'no database '.repeat(2_000));
    const cut = join(folder, 'cut.mdb');
    await ensureCaptureFile(cut, 1);
    truncateSync(cut, 6_000);
    const pipe = join(folder, 'pipe.mdb');
    execFileSync('mkfifo', [pipe]);
    const reasons = {
      [folder]: /not a file/,
      [file]: /not a capture database/,
      [cut]: /cut off/,
      [pipe]: /not a file/,
      [join(file, 'below.mdb')]: /notes\.txt is not a folder/,
      // No user can create files there, whatever their permissions.
      '/proc/capture.mdb': /nothing can be written into its folder/,
      '/proc/understudy/capture.mdb': /nothing can be made in \/proc\./,
    };
    for (const [db, reason] of Object.entries(reasons)) {
      const ask = db === cut ? refuse : refuseHere;
      const { code, line } = await ask({ DATA_DIR: folder }, ['gateway', '--db', db]);
      expect(code).toBe(1);
      expect(line).toContain(`understudy: the capture database ${db} cannot be opened: `);
      expect(line).toMatch(reason);
      expect(line).toContain('--db');
      expect(line).not.toContain('Error: ');
    }
    expect(readFileSync(file, 'utf8')).toBe('no database '.repeat(2_000));
  });

  const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
  it.skipIf(!hasPrlimit)('says that there is no space for a database', { tags: 'long' }, async () => {
    const DATA_DIR = makeFolder();
    const db = join(DATA_DIR, 'capture.mdb');
    // Limits the size of files, as on a full disk: at first there is not even space for LMDB's lock files.
    for (const bytesMax of ['0', '20000']) {
      const { code, line } = await refuse({ DATA_DIR }, ['gateway', '--db', db], bytesMax);
      expect(code).toBe(1);
      expect(line).toContain(`the capture database ${db} cannot be opened: `);
      expect(existsSync(db)).toBe(false);
    }
    const { code, line } = await refuse({ DATA_DIR }, ['serve'], '4096');
    expect(code).toBe(1);
    expect(line).toContain(`${join(DATA_DIR, 'main.mdb')} and`);
  });

  it('ends at once on a signal, before the start and during it', { tags: 'long' }, async () => {
    const DATA_DIR = makeFolder();
    const given = { DATA_DIR, PORT: '0', GW_PORT: '0' };
    const config = loadConfig({ listener: 'gateway' }, given);
    const { startUnderstudy } = await import('../../src/main.ts');
    const reason = new Error('enough');
    const parts = { api: true, gateway: true };
    await expect(startUnderstudy(config, parts, AbortSignal.abort(reason))).rejects.toBe(reason);

    const OTHER = makeFolder();
    await using child = new CliChild(['up'], { env: { ...given, DATA_DIR: OTHER } });
    // The databases exist, so the start has begun to handle signals.
    await vi.waitUntil(() => existsSync(join(OTHER, 'main.mdb')), { timeout: PATIENCE_MS, interval: 5 });
    child.process.kill('SIGTERM');
    const ended = await child.ended;
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(ended.stderr).toMatch(/^SIGTERM: (?:the start is given up|finishing requests in flight.*)\n$/);
  });

  it('says that an address does not belong to this machine', { tags: 'long' }, async () => {
    const { line } = await refuseHere({ DATA_DIR: makeFolder(), HOST: '203.0.113.7' });
    expect(line).toContain("the address is not this machine's");
  });
});
