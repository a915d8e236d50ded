/**
 * The packages that agents install: they are packed, put into an empty project together with packages that have
 * optional parts, type-checked, and run as ES modules and as CommonJS on each Node, without any part of the service.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CLIENT_KEY, ClientService } from '../fixtures/client-service.ts';
import { NPM_MS, npm, npmBeside, packClients } from '../fixtures/npm.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));
const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** A package with an optional binary. */
const SHARP = 'sharp@0.34.4';
const QUIETLY = ['--no-audit', '--no-fund', '--prefer-offline'];

/** Every package that agents install. */
const OURS = ['client', 'langchain', 'openai-agents', 'anthropic', 'claude-agent-sdk', 'ai-sdk'];

/** The same agent for both kinds of module; only its imports differ. */
const IMPORTS = {
  mts: `import { type Intervention, type Run, Understudy, UnderstudyError } from '@understudy-gateway/client';
import { installedTransports } from '@understudy-gateway/client/label';
import { currentRun } from '@understudy-gateway/client';
import { createRequire } from 'node:module';
const other: typeof import('@understudy-gateway/client') = createRequire(import.meta.url)('@understudy-gateway/client');`,
  cts: `import { type Intervention, type Run, Understudy, UnderstudyError } from '@understudy-gateway/client';
import { installedTransports } from '@understudy-gateway/client/label';
import { currentRun } from '@understudy-gateway/client';
const other: typeof import('@understudy-gateway/client') = require('@understudy-gateway/client');`,
} as const;

const AGENT = `
async function main(): Promise<void> {
  const understudy = new Understudy({ fsmThresholds: { fastWindow: 2 }, modelRouting: { SLOW: 'large' } });
  const runId = process.argv[2]!;
  const known: string = await understudy.run({ runId, task: 'try the package' }, async (run: Run) => {
    run.step({ action: 'look', actionInput: { at: 1 }, isError: false, tokens: 3 });
    const said: Intervention | null = run.intervention();
    const { state, model } = run.difficulty('certain');
    // Both kinds of module see the run that the code is in.
    const isShared = currentRun() === run && other.currentRun() === run;
    return [await run.patterns(), said, state, model, isShared].join();
  });
  // @ts-expect-error a run has a name
  const nameless = () => understudy.api.startRun({ body: {} });
  const refused = await understudy.api.startRun({ body: { run_id: '' } }).catch((thrown: unknown) => thrown);
  const isTyped: boolean = refused instanceof UnderstudyError;
  const found: number = (await understudy.findings('base').recall('anything')).length;
  await understudy.close({ timeoutMs: 120_000 });
  const natives = (process.report.getReport() as { sharedObjects: string[] }).sharedObjects;
  console.log(JSON.stringify({
    known,
    isTyped,
    found,
    transports: installedTransports(),
    sent: understudy.stats().steps.sent,
    natives: natives.filter((name) => name.endsWith('.node')),
    callable: typeof nameless,
  }));
}
void main();
`;

let dir: string;
let service: ClientService;
/** The packages of the project before our packages were added. */
let before: string[];

beforeAll(async () => {
  service = await ClientService.start();
  dir = mkdtempSync(join(tmpdir(), 'understudy-agent-'));
  packClients(dir);
  writeFileSync(join(dir, 'package.json'), JSON.stringify({ name: 'agent', private: true }));
  const others = ['esbuild', 'typescript', '@types/node', '@langchain/core', 'langchain'];
  const versions = others.map((name) => `${name}@${devDependencies[name]}`);
  npm(['install', ...QUIETLY, ...versions, SHARP], dir);
  before = listPackages();
  npm(['install', ...QUIETLY, ...OURS.map((name) => `./understudy-gateway-${name}-0.2.0.tgz`)], dir);
}, 3 * NPM_MS);

afterAll(async () => {
  await service.stop();
  rmSync(dir, { recursive: true, force: true });
});

describe('an agent in an empty project', () => {
  it('installs our packages alone, without the optional parts of others', () => {
    const ours = OURS.map((name) => `@understudy-gateway/${name}`);
    expect(listPackages().filter((name) => !before.includes(name))).toEqual(ours.sort());
    expect(before.filter((name) => !listPackages().includes(name))).toEqual([]);
    const run = (program: string, ...argv: string[]) =>
      execFileSync(join(dir, 'node_modules', '.bin', program), argv, { encoding: 'utf8' });
    expect(run('esbuild', '--version').trim()).toBe(devDependencies.esbuild);
    expect(run('tsc', '--version')).toContain(devDependencies.typescript);
    const made =
      "require('sharp')({ create: { width: 1, height: 1, channels: 3, background: 'red' } }).png().toBuffer()";
    const script = `${made}.then(({ length }) => console.log(length > 0))`;
    expect(execFileSync(process.execPath, ['-e', script], { cwd: dir, encoding: 'utf8' })).toBe('true\n');
  });

  it.each(['mts', 'cts'] as const)('passes the type check of the package, as .%s', (kind) => {
    writeFileSync(join(dir, `agent.${kind}`), IMPORTS[kind] + AGENT);
    const compilerOptions = {
      target: 'es2022',
      lib: ['es2022'],
      module: 'nodenext',
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      types: ['node'],
    };
    writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [`agent.${kind}`] }));
    execFileSync(process.execPath, [tsc, '-p', '.'], { cwd: dir, encoding: 'utf8' });
  });

  it.each([
    ['20', 'mjs'],
    ['20', 'cjs'],
    ['22', 'mjs'],
    ['22', 'cjs'],
    ['24', 'mjs'],
    ['24', 'cjs'],
  ])('runs on Node %s as .%s', async (major, kind) => {
    const run = `on-node-${major}-${kind}`;
    const env = { SVC_API_KEY: CLIENT_KEY, SVC_BASE_URL: service.url };
    const call = `node --version && node agent.${kind} ${run}`;
    const argv = ['exec', '--yes', '--package', `node@${major}`, '--call', call];
    const [version = '', said = ''] = (await npmBeside(argv, dir, env)).trim().split('\n');
    expect(version).toMatch(new RegExp(`^v${major}\\.`));
    expect(JSON.parse(said)).toEqual({
      known: ',,FAST,,true',
      isTyped: true,
      found: 0,
      transports: [],
      sent: 1,
      natives: [],
      callable: 'function',
    });
    expect(await service.readRun(run, 'success')).toMatchObject({ status_code: 200, steps: 1 });
  });

  it.each(['mjs', 'cjs'])('uses the framework that the agent has, as .%s', (kind) => {
    const name = `handler.${kind}`;
    const load = (from: string) => (kind === 'mjs' ? `await import('${from}')` : `require('${from}')`);
    writeFileSync(
      join(dir, name),
      `const { BaseCallbackHandler } = ${load('@langchain/core/callbacks/base')};
const { UnderstudyHandler } = ${load('@understudy-gateway/langchain')};
console.log(new UnderstudyHandler() instanceof BaseCallbackHandler);`,
    );
    expect(execFileSync(process.execPath, [name], { cwd: dir, encoding: 'utf8' })).toBe('true\n');
  });
});

/** Names of the packages at the top level of node_modules. */
function listPackages(): string[] {
  const modules = join(dir, 'node_modules');
  return readdirSync(modules)
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(modules, name)).map((part) => `${name}/${part}`) : [name],
    )
    .sort();
}
