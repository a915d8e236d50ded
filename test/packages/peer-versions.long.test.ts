/**
 * The versions of frameworks that integrations accept: the code and package.json name the same ranges, and the import
 * fails with any other version.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NPM_MS, packClients } from '../fixtures/npm.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');

it.each(['langchain', 'openai-agents', 'anthropic', 'claude-agent-sdk', 'ai-sdk'])(
  'the package %s declares the ranges that its code checks',
  (folder) => {
    const { exports, peerDependencies } = JSON.parse(read(`clients/${folder}/package.json`));
    const sources = Object.values<{ import?: { types: string } }>(exports).flatMap(({ import: entry }) =>
      entry === undefined ? [] : [entry.types.replace('./dist/types/', '').replace(/\.d\.mts$/, '.ts')],
    );
    const checked = sources.flatMap((source) => [
      ...read(source).matchAll(/^requirePeer\(INTEGRATION, '(.*)', '(.*)'\);$/gm),
    ]);
    const ranges = Object.fromEntries(checked.map(([, peer, range]) => [peer, range]));
    expect(Object.keys(ranges).sort()).toEqual(Object.keys(peerDependencies).sort());
    for (const [peer, range] of Object.entries(ranges)) {
      // The middleware needs a newer version of langchain than the rest of the integration.
      if (peer !== 'langchain') expect([peer, range]).toEqual([peer, peerDependencies[peer]]);
    }
  },
);

describe('an import in a project with the AI SDK', () => {
  let dir: string;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'understudy-peer-'));
    packClients(dir);
    for (const name of ['client', 'ai-sdk']) {
      const place = join(dir, 'node_modules/@understudy-gateway', name);
      mkdirSync(place, { recursive: true });
      execFileSync('tar', [
        'xzf',
        join(dir, `understudy-gateway-${name}-0.2.0.tgz`),
        '-C',
        place,
        '--strip',
        '1',
      ]);
    }
    mkdirSync(join(dir, 'node_modules/ai'));
    writeFileSync(join(dir, 'node_modules/ai/index.js'), '');
  }, NPM_MS);
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  it.each([
    ['4.3.19', 'mjs', false],
    ['4.3.19', 'cjs', false],
    ['5.0.0-beta.1', 'mjs', true],
    ['7.0.173', 'cjs', true],
    ['8.0.0', 'mjs', false],
  ])('%s, as .%s, is taken: %s', (version, kind, isTaken) => {
    const manifest = { name: 'ai', version, main: 'index.js' };
    writeFileSync(join(dir, 'node_modules/ai/package.json'), JSON.stringify(manifest));
    const file = join(dir, `agent.${kind}`);
    const name = `'@understudy-gateway/ai-sdk'`;
    writeFileSync(file, kind === 'mjs' ? `import ${name};` : `require(${name});`);
    const { status, stderr } = spawnSync(process.execPath, [file], { encoding: 'utf8' });
    expect(status, stderr).toBe(isTaken ? 0 : 1);
    if (isTaken) return;
    expect(stderr).toContain(
      `@understudy-gateway/ai-sdk 0.2.0 needs ai >=5.0.0 <8, but ai ${version} is installed`,
    );
  });
});
