/**
 * What agents import of the packed tarball: installed into an empty project without what is optional, checked with its types, and
 * run by Node 20 and 22, with nothing else of the package and no other package there.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CLIENT_KEY, ClientService } from '../fixtures/client-service.ts';
import { NPM_MS, npm, npmBeside, packProject } from '../fixtures/npm.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));

const AGENT = `
import { type Intervention, type Run, Understudy, UnderstudyError } from 'understudy/client';
import { installedTransports } from 'understudy/label';

const understudy = new Understudy({ fsmThresholds: { fastWindow: 2 }, modelRouting: { SLOW: 'large' } });
const runId = process.argv[2]!;
const known: string = await understudy.run({ runId, task: 'try the package' }, async (run: Run) => {
  run.step({ action: 'look', actionInput: { at: 1 }, isError: false, tokens: 3 });
  const said: Intervention | null = run.intervention();
  const { state, model } = run.difficulty('certain');
  return [await run.patterns(), said, state, model].join();
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
`;

let dir: string;
let service: ClientService;

beforeAll(async () => {
  service = await ClientService.start();
  dir = mkdtempSync(join(tmpdir(), 'understudy-agent-'));
  const tarball = packProject(dir);
  writeFileSync(join(dir, 'package.json'), JSON.stringify({ name: 'agent', private: true, type: 'module' }));
  const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const types = `@types/node@${devDependencies['@types/node']}`;
  const flags = ['--omit=optional', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'];
  npm(['install', ...flags, `./${tarball}`, types], dir);
}, 3 * NPM_MS);

afterAll(async () => {
  await service.stop();
  rmSync(dir, { recursive: true, force: true });
});

describe('an agent in an empty project', () => {
  it('is checked with the types of the package, those of its declarations too', () => {
    writeFileSync(join(dir, 'agent.ts'), AGENT);
    const compilerOptions = {
      target: 'es2022',
      lib: ['es2022'],
      module: 'nodenext',
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      types: ['node'],
    };
    writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['agent.ts'] }));
    execFileSync(process.execPath, [tsc, '-p', '.'], { cwd: dir, encoding: 'utf8' });
  });

  it.each(['20', '22'])('runs on Node %s, with none of the service there', async (major) => {
    stripPackage();
    const run = `on-node-${major}`;
    const env = { SVC_API_KEY: CLIENT_KEY, SVC_BASE_URL: service.url };
    const argv = [
      'exec',
      '--yes',
      '--package',
      `node@${major}`,
      '--call',
      `node --version && node agent.js ${run}`,
    ];
    const [version = '', said = ''] = (await npmBeside(argv, dir, env)).trim().split('\n');
    expect(version).toMatch(new RegExp(`^v${major}\\.`));
    expect(JSON.parse(said)).toEqual({
      known: ',,FAST,',
      isTyped: true,
      found: 0,
      transports: [],
      sent: 1,
      natives: [],
      callable: 'function',
    });
    expect(await service.readRun(run, 'success')).toMatchObject({ status_code: 200, steps: 1 });
  });
});

/** Leaves of node_modules only what agents import. */
function stripPackage(): void {
  const modules = join(dir, 'node_modules');
  for (const name of readdirSync(modules)) {
    if (name !== 'understudy') rmSync(join(modules, name), { recursive: true });
  }
  const installed = join(modules, 'understudy');
  const agents = ['client', 'label', 'integrations', 'std'];
  for (const name of readdirSync(installed)) {
    if (name !== 'dist' && name !== 'package.json') rmSync(join(installed, name), { recursive: true });
  }
  for (const name of readdirSync(join(installed, 'dist'))) {
    if (name !== 'src') rmSync(join(installed, 'dist', name), { recursive: true });
  }
  for (const name of readdirSync(join(installed, 'dist/src'))) {
    if (!agents.includes(name)) rmSync(join(installed, 'dist/src', name), { recursive: true });
  }
}
