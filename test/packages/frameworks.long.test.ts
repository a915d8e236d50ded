/**
 * Tests each integration with the oldest and the newest version of its framework, and with a version between them if
 * the framework's API changed. Each test has an empty project, the real packages, a fake provider and a scripted
 * service on loopback. The agents' answers are the same with and without Understudy.
 */

import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import { startService } from '../client/scripted-service.ts';
import { NPM_MS, npmBeside, packClients } from '../fixtures/npm.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const agents = fileURLToPath(new URL('agents/', import.meta.url));
const { devDependencies: newest } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** The provider's answers, chosen by the last message and the declared tools. */
const script: Script = ({ text, tools, tool_results }) => {
  if (text.includes('refused')) return { error: { status: 400, message: 'Not that.' } };
  if (text.includes('held'))
    return { text: 'one two three four five six seven eight nine ten', hold_after_frames: 8 };
  const isOuter = tools.includes('ask');
  if (tool_results.length > 0)
    return { text: `It said: ${tool_results.join('; ')}`, usage: { input: isOuter ? 2_000 : 20, output: 1 } };
  if (isOuter)
    return {
      tool_calls: [{ name: 'ask', input: { question: 'Where is it?' } }],
      usage: { input: 1_000, output: 1 },
    };
  if (!tools.includes('search')) return { text: 'Here.', usage: { input: 3, output: 2 } };
  const queries = [text.includes('bad') ? 'bad' : 'a', 'b'];
  return {
    text: 'Let me look.',
    tool_calls: queries.map((query) => ({ name: 'search', input: { query } })),
    usage: { input: 10, output: 1 },
  };
};

interface Project {
  name: string;
  /** Folder of the integration under `clients`, and name of the agent. */
  ours: string;
  framework: string;
  packages: Record<string, string>;
  env?: Record<string, string>;
  /** false: the framework does not report the tokens of streams. */
  hasStreamTokens?: boolean;
}

const pick = (...names: string[]) => Object.fromEntries(names.map((name) => [name, newest[name]]));

const PROJECTS: Project[] = [
  { name: 'ai 5', packages: { ai: '5.0.0', '@ai-sdk/openai': '2.0.0', zod: '3.25.76' } },
  { name: 'ai 6', packages: { ai: '6.0.326', '@ai-sdk/openai': '3.0.141', zod: '4.6.7' } },
  { name: 'ai 7', packages: { ...pick('ai', '@ai-sdk/openai'), zod: '4.6.7' } },
].map((project) => ({ ours: 'ai-sdk', framework: 'ai-sdk', ...project }));
PROJECTS.push(
  ...[
    {
      name: 'langchain 0.3',
      packages: {
        langchain: '0.3.37',
        '@langchain/core': '0.3.80',
        '@langchain/langgraph': '0.4.9',
        '@langchain/openai': '0.6.17',
        zod: '3.25.76',
      },
    },
    {
      name: 'langchain 1.0',
      // The checkpoints of this version do not load with an older core.
      packages: {
        ...pick('@langchain/core', '@langchain/langgraph', '@langchain/openai'),
        langchain: '1.0.1',
        zod: '4.6.7',
      },
    },
    {
      name: 'langchain 1',
      packages: {
        ...pick('langchain', '@langchain/core', '@langchain/langgraph', '@langchain/openai'),
        zod: '4.6.7',
      },
    },
  ].map((project) => ({ ours: 'langchain', framework: 'langchain', ...project })),
  ...[
    {
      name: '@openai/agents 0.3',
      packages: { '@openai/agents': '0.3.0', zod: '3.25.76' },
      env: { LEFT_OUT: 'aborted' },
      hasStreamTokens: false,
    },
    { name: '@openai/agents', packages: { ...pick('@openai/agents'), zod: '4.6.7' } },
  ].map((project) => ({ ours: 'openai-agents', framework: 'openai-agents', ...project })),
  ...[
    {
      name: '@anthropic-ai/sdk 0.30',
      packages: { '@anthropic-ai/sdk': '0.30.0' },
      env: { WAY: 'fetch', LEFT_OUT: 'aborted' },
    },
    { name: '@anthropic-ai/sdk 0.101', packages: { '@anthropic-ai/sdk': '0.101.0' } },
    { name: '@anthropic-ai/sdk', packages: pick('@anthropic-ai/sdk') },
  ].map((project) => ({ ours: 'anthropic', framework: 'claude-messages', ...project })),
);

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-frameworks-'));
  packClients(folder);
}, NPM_MS);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Creates a project with the packages and ours. @returns its folder */
async function install({ name, packages, ours }: Project): Promise<string> {
  const dir = join(folder, name.replaceAll(/\W+/g, '-').replace(/^-/, ''));
  mkdirSync(dir);
  writeFileSync(join(dir, 'package.json'), JSON.stringify({ name: 'agent', private: true }));
  const tarballs = [`../understudy-gateway-client-0.2.0.tgz`, `../understudy-gateway-${ours}-0.2.0.tgz`];
  const others = Object.entries(packages).map(([framework, version]) => `${framework}@${version}`);
  // npm refuses versions that a peer range excludes.
  await npmBeside(
    ['install', '--no-audit', '--no-fund', '--prefer-offline', ...others, ...tarballs],
    dir,
    {},
  );
  for (const file of ['trial.mjs', `${ours}.mjs`]) copyFileSync(join(agents, file), join(dir, file));
  return dir;
}

async function runAgent(dir: string, { ours, env = {} }: Project, baseUrl: string | null) {
  const provider = await startFakeProvider({ script });
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [`${ours}.mjs`], {
      cwd: dir,
      env: {
        PATH: process.env.PATH,
        PROVIDER_URL: provider.url,
        // The SDK looks for this variable before it reads its options.
        OPENAI_API_KEY: 'provider-key',
        ...env,
        ...(baseUrl === null ? {} : { SVC_BASE_URL: baseUrl }),
      },
    });
    return { outcomes: JSON.parse(stdout), asked: provider.requests.length };
  } finally {
    await provider.close();
  }
}

const searches = (first = 'found a') => [
  expect.objectContaining({ action: 'search', observation: expect.stringContaining(first), tokens: 11 }),
  expect.objectContaining({ action: 'search', observation: expect.stringContaining('found b'), tokens: 0 }),
];
const said = (tokens: number) => expect.objectContaining({ action: 'respond', tokens });

describe.each(PROJECTS)('a package with $name', (project) => {
  it('logs each path of the agent, and changes no path', async () => {
    const dir = await install(project);
    const service = await startService(200, {});
    const alone = await runAgent(dir, project, null);
    const watched = await runAgent(dir, project, service.url);
    expect(watched).toEqual(alone);

    const starts = service.asked.filter(({ path }) => path === '/v1/monitor/runs').map(({ body }) => body!);
    expect(new Set(starts.map(({ framework }) => framework))).toEqual(new Set([project.framework]));
    const outcomeOf = (run: string) =>
      service.asked.find(({ path }) => path === `/v1/monitor/runs/${run}/finish`)?.body?.outcome;
    const stepsOf = (run: string) =>
      service.asked.filter(({ path }) => path === `/v1/monitor/runs/${run}/steps`).map(({ body }) => body!);

    expect(stepsOf('whole')).toEqual([said(5)]);
    expect(stepsOf('tools')).toEqual([...searches(), said(21)]);
    const failed = stepsOf('failing').filter(({ is_error }) => is_error === true);
    expect(failed).toMatchObject([{ action: 'search' }]);
    expect(stepsOf('failing')).toHaveLength(3);
    const streamed = stepsOf('streamed');
    if (project.hasStreamTokens === false) expect(streamed.map(({ tokens }) => tokens)).toEqual([0, 0, 0]);
    else expect(streamed).toEqual([...searches(), said(21)]);
    expect(streamed.map(({ action }) => action)).toEqual(['search', 'search', 'respond']);
    expect(stepsOf('later').at(-1)).toMatchObject({ action: 'respond' });
    expect(stepsOf('refused')).toEqual([]);
    expect(stepsOf('aborted')).toEqual([]);
    const nested = stepsOf('nested').map(({ action, tokens }) => [action, tokens]);
    expect(nested).toEqual([
      ['search', 11],
      ['search', 0],
      ['respond', 21],
      ['ask', 1_001],
      ['respond', 2_001],
    ]);
    for (const run of ['whole', 'tools', 'failing', 'streamed', 'later', 'nested'])
      expect([run, outcomeOf(run)]).toEqual([run, 'success']);
    expect(outcomeOf('refused')).toBe(`failure: ${nameOf(alone.outcomes.refused.error)}`);
  });
});

function nameOf({ name, kind }: { name: string; kind: string }): string {
  return name === 'Error' ? kind : name;
}
