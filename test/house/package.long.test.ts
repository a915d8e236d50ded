/** The package as it would be published: packed, installed into a separate project, and used there. */

import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CliChild } from '../cli/child.ts';
import { NPM_MS, npm, packProject } from '../fixtures/npm.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
let dir: string;
let installed: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'understudy-package-'));
  const tarball = packProject(dir);
  writeFileSync(join(dir, 'package.json'), JSON.stringify({ name: 'another-project', private: true }));
  // Without the flag, onnxruntime-node fetches hundreds of megabytes for GPUs.
  const skip = '--onnxruntime-node-install=skip';
  npm(['install', '--no-audit', '--no-fund', '--prefer-offline', skip, `./${tarball}`], dir);
  installed = join(dir, 'node_modules', 'understudy-gateway');
}, 3 * NPM_MS);

afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe('the installed package', () => {
  it('contains what runs and what users should read, and nothing else', () => {
    const top = readdirSync(installed).filter((name) => name !== 'node_modules');
    expect(top.sort()).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'SECURITY.md',
      'deploy',
      'dist',
      'docs',
      'embedded.env',
      'native',
      'package.json',
      'src',
    ]);
    expect(readdirSync(join(installed, 'src'), { recursive: true }).sort()).toEqual([
      'cli',
      join('cli', 'needs-node.mjs'),
      join('cli', 'understudy.mjs'),
      'search',
      join('search', 'default-model'),
      join('search', 'default-model', 'model.onnx'),
      join('search', 'default-model', 'tokenizer.json'),
      join('search', 'default-model', 'tokenizer_config.json'),
    ]);
    expect(existsSync(join(installed, 'dist/src/main.js'))).toBe(true);
    expect(existsSync(join(installed, 'dist/src/main.d.ts'))).toBe(true);
    expect(existsSync(join(installed, 'dist/src/demo'))).toBe(false);
  });

  it('contains the native code, compiled at the installation', () => {
    expect(readdirSync(join(installed, 'native')).sort()).toEqual([
      'arguments.h',
      'build',
      'bytes',
      'bytes.cc',
      'compile.mjs',
      'graph',
      'graph.cc',
      'memory.cc',
      'sockets',
      'sockets.cc',
      'texts',
      'texts.cc',
      'uwebsockets-binary.mjs',
      'uwebsockets.sha256',
      'vectors',
      'vectors.cc',
    ]);
    const engine = join(installed, 'dist/native/byte-engine.js');
    const script = `console.log((await import(${JSON.stringify(engine)})).byteEngine.kind)`;
    const kind = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    expect(kind).toBe('native\n');
    expect(existsSync(join(installed, 'native/build/graph.node'))).toBe(true);
  });

  it('needs no TypeScript file at run time', () => {
    const names = readdirSync(join(installed, 'dist'), { recursive: true, encoding: 'utf8' });
    for (const name of names.filter((name) => name.endsWith('.js'))) {
      expect(readFileSync(join(installed, 'dist', name), 'utf8'), name).not.toMatch(/\bfrom '\.[^']*\.ts'/);
    }
  });

  it('puts its command on the project’s path', () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    expect(npm(['exec', '--no', '--', 'understudy', '--version'], dir)).toBe(`${version}\n`);
  });

  it('runs the gateway in the project', async () => {
    const data = join(dir, 'data');
    await using child = new CliChild(['gateway', '--port', '0'], {
      env: { DATA_DIR: data },
      entry: join(dir, 'node_modules', '.bin', 'understudy'),
      cwd: dir,
    });
    const [, gateway = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->(?:.*\n)*\n$/m);
    expect(await (await fetch(`${gateway}/__gw/stats`)).json()).toMatchObject({
      status: 'ok',
      writer: { alive: true },
    });
    child.process.kill('SIGTERM');
    expect((await child.ended).code).toBe(0);
  });

  it('runs the API in the project, with its model and its dashboard', async () => {
    await using child = new CliChild(['serve', '--port', '0'], {
      env: { DATA_DIR: join(dir, 'api'), SVC_KEYS: 'k', VECTOR_STORE_URL: 'embedded:' },
      entry: join(dir, 'node_modules', '.bin', 'understudy'),
      cwd: dir,
    });
    const [, api = ''] = await child.waitForOutput(/^ {2}API +(http:\/\/\S+)\n(?:.*\n)*\n$/m);
    expect(await (await fetch(`${api}/`)).text()).toContain('<title>Understudy</title>');
    expect(await (await fetch(`${api}/docs/guides/gateway`)).text()).toContain('<h1 id="the-gateway">');
    const post = async (path: string, body: object) => {
      const headers = { authorization: 'Bearer k', 'content-type': 'application/json' };
      const response = await fetch(api + path, { method: 'POST', headers, body: JSON.stringify(body) });
      return { status: response.status, body: (await response.json()) as Record<string, never> };
    };
    expect((await post('/v1/findings/base', { content: 'The parser drops trailing commas' })).status).toBe(
      200,
    );
    const { body } = await post('/v1/findings/base/recall', { query: 'trailing commas in the parser' });
    expect(body.findings).toHaveLength(1);
    expect((await post('/v1/traces/retrieve', { context: 'anything' })).status).toBe(200);
    child.process.kill('SIGTERM');
    expect((await child.ended).code).toBe(0);
  });
});
