/**
 * Clients that two generators make from the API's OpenAPI document: they compile with `strict`, and each logs and reads
 * a run with the service. In an empty project, with the generators from npm. `npm run test:openapi` makes a Python
 * client.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { NPM_MS, npm } from '../fixtures/npm.ts';

const GENERATORS = [
  'openapi-typescript@7.13.0',
  'openapi-fetch@0.17.0',
  '@hey-api/openapi-ts@0.99.0',
  'typescript@5.9.3',
];
const folder = mkdtempSync(join(tmpdir(), 'understudy-generated-'));
const api = new ApiChild({ AUTH_DB_URL: 'embedded:' });
const bin = (path: string) => join(folder, 'node_modules', path);
function node(...words: string[]): string {
  const done = spawnSync(process.execPath, words, { cwd: folder, encoding: 'utf8', timeout: NPM_MS });
  expect(done.status, done.stdout + done.stderr).toBe(0);
  return done.stdout;
}

const FETCH = `
import createClient from 'openapi-fetch';
import type { paths } from './schema';
const [url = '', key = ''] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { authorization: \`Bearer \${key}\` } });
const started = await client.POST('/v1/monitor/runs', { body: { run_id: 'a', task: 't', org_id: 'acme' } });
const params = { path: { id: 'a' } };
await client.POST('/v1/monitor/runs/{id}/steps', { params, body: { step_index: 1, action: 'act', org_id: 'acme' } });
const read = await client.GET('/v1/monitor/runs/{id}', { params: { ...params, query: { org_id: 'acme' } } });
console.log(started.data?.status, read.data?.steps);
`;

const HEY = `
import { client } from './hey/client.gen';
import { logStep, readRun, startRun } from './hey/sdk.gen';
const [url = '', key = ''] = process.argv.slice(2);
client.setConfig({ baseUrl: url, auth: key });
const started = await startRun({ body: { run_id: 'b', task: 't', org_id: 'acme' } });
await logStep({ path: { id: 'b' }, body: { step_index: 1, action: 'act', org_id: 'acme' } });
const read = await readRun({ path: { id: 'b' }, query: { org_id: 'acme' } });
console.log(started.data?.status, read.data?.steps);
`;

beforeAll(async () => {
  await api.start();
  const document = await (await fetch(`${api.url}/openapi.json`)).text();
  writeFileSync(join(folder, 'openapi.json'), document);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', private: true }));
  npm(['install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts', ...GENERATORS], folder);
  writeFileSync(join(folder, 'fetch.ts'), FETCH);
  writeFileSync(join(folder, 'hey.ts'), HEY);
}, 2 * NPM_MS);
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

it('generated clients compile and work', { timeout: NPM_MS }, () => {
  node(
    bin('openapi-typescript/bin/cli.js'),
    'openapi.json',
    '-o',
    'schema.d.ts',
    '--default-non-nullable=false',
  );
  node(bin('@hey-api/openapi-ts/bin/run.js'), '-i', 'openapi.json', '-o', 'hey', '-s');
  const strict = [
    '--noEmit',
    '--strict',
    '--module',
    'esnext',
    '--target',
    'es2022',
    '--lib',
    'es2023,dom,dom.iterable',
  ];
  const flags = ['--moduleResolution', 'bundler', '--skipLibCheck'];
  writeFileSync(join(folder, 'process.d.ts'), 'declare const process: { argv: string[] };');
  node(bin('typescript/bin/tsc'), ...strict, ...flags, 'fetch.ts', 'hey.ts', 'process.d.ts');
  for (const name of ['fetch', 'hey']) {
    const files = { entryPoints: [`${name}.ts`], outfile: `${name}.mjs` };
    buildSync({ absWorkingDir: folder, ...files, bundle: true, format: 'esm', platform: 'node' });
    expect(node(`${name}.mjs`, api.url, CHILD_KEY), name).toBe('running 1\n');
  }
});
