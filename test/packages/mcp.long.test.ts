/**
 * The package of the MCP server: it is packed and put into an empty project without any part of the service. The
 * protocol's official client calls it over standard input and output on each Node.
 */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LESSON, McpService } from '../fixtures/mcp-service.ts';
import { NPM_MS, npm, npmBeside, packClients } from '../fixtures/npm.ts';

const CLIENT = '@modelcontextprotocol/sdk@1.32.2';
const QUIETLY = ['--no-audit', '--no-fund', '--prefer-offline'];
const FINDING = { content: 'The parser drops trailing commas', file_path: 'src/parser.ts' };

const AGENT = `
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
const { PATH, SVC_API_KEY, SVC_BASE_URL } = process.env;
const client = new Client({ name: 'agent', version: '1' });
await client.connect(
  new StdioClientTransport({
    command: 'node_modules/.bin/understudy-mcp',
    args: ['--codebase', 'acme/' + process.argv[2]],
    env: { PATH, SVC_API_KEY, SVC_BASE_URL },
  }),
);
const call = async (name, given) => {
  const { isError = false, structuredContent } = await client.callTool({ name, arguments: given });
  return isError ? 'failed' : structuredContent;
};
const { tools } = await client.listTools();
const learned = await call('retrieve_patterns', { context: 'unit tests of the date parser fail by one day', top_k: 1 });
const stored = await call('record_finding', ${JSON.stringify(FINDING)});
const recalled = await call('recall_findings', { query: 'what happens to trailing commas in the parser?' });
console.log(JSON.stringify({
  server: client.getServerVersion(),
  tools: tools.map(({ name }) => name),
  learned: learned.traces.map(({ fields }) => fields.unlock),
  stored,
  recalled: recalled.findings,
  unknown: await call('read_run', { run_id: 'no-such-run' }),
}));
await client.close();
`;

let dir: string;
let service: McpService;
/** The packages that npm has installed in the project. */
let installed: string[];

beforeAll(async () => {
  service = await new McpService().start();
  await service.api.post('/v1/traces', LESSON, { authorization: `Bearer ${service.key}` });
  dir = mkdtempSync(join(tmpdir(), 'understudy-mcp-'));
  packClients(dir);
  writeFileSync(join(dir, 'package.json'), JSON.stringify({ name: 'agent', private: true }));
  writeFileSync(join(dir, 'agent.mjs'), AGENT);
  npm(['install', ...QUIETLY, './understudy-gateway-mcp-0.2.0.tgz'], dir);
  installed = readdirSync(join(dir, 'node_modules'), { recursive: true, encoding: 'utf8' });
  npm(['install', ...QUIETLY, CLIENT], dir);
}, 3 * NPM_MS);

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true, force: true });
});

/** Runs a shell command with this Node first in PATH. */
const onNode = (major: string, line: string, env: Record<string, string>) =>
  npmBeside(['exec', '--yes', '--package', `node@${major}`, '--call', line], dir, env);

describe('the package of the MCP server', () => {
  it('includes the protocol library, and no native code', () => {
    const packages = installed.filter((name) => /^(@[^/]+\/)?[^/@.]+$/.test(name));
    expect(packages.sort()).toEqual([
      '@modelcontextprotocol/core',
      '@modelcontextprotocol/server',
      '@understudy-gateway/mcp',
      'zod',
    ]);
    expect(installed.filter((name) => /\.node$|binding\.gyp$/.test(name))).toEqual([]);
  });

  it.each(['20', '22', '24'])('provides its tools on Node %s', async (major) => {
    const env = { SVC_API_KEY: service.key, SVC_BASE_URL: service.api.url };
    const said = await onNode(major, `node --version && node agent.mjs on-${major}`, env);
    const [version = '', told = ''] = said.trim().split('\n');
    expect(version).toMatch(new RegExp(`^v${major}\\.`));
    const { stored, ...rest } = JSON.parse(told);
    expect(rest).toEqual({
      server: expect.objectContaining({ name: 'understudy', version: '0.2.0' }),
      tools: ['retrieve_patterns', 'recall_findings', 'record_finding', 'search_runs', 'read_run'],
      learned: [expect.stringContaining('Date.UTC')],
      recalled: [expect.objectContaining({ ...FINDING, finding_id: stored.finding_id })],
      unknown: 'failed',
    });
  });

  it.each([
    ['22', '', 'understudy-mcp: SVC_API_KEY=(not shown): set it to an API key of the service\n'],
    ['22', ' --bogus', 'understudy-mcp: there is no option --bogus\nSee: understudy-mcp --help\n'],
    ['18', '', expect.stringMatching(/^understudy-mcp needs Node 20 or newer, and this is v18\.[\d.]+\.\n$/)],
  ])('says on Node %s in one line what it does not support: understudy-mcp%s', async (major, flags, line) => {
    const failed = onNode(major, `node node_modules/.bin/understudy-mcp${flags} 2>told.txt || cat told.txt`, {
      SVC_API_KEY: '',
    });
    expect(await failed).toEqual(line);
  });
});
