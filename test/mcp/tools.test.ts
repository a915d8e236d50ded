/** The tools as the official client of the Model Context Protocol sees them, over HTTP and over the command's pipes. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Client } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runHere } from '../cli/here.ts';
import { CHILD_KEY } from '../fixtures/api-child.ts';
import { callTool, ERAS, type Era, LESSON, listTools, McpService } from '../fixtures/mcp-service.ts';
import { longFrom } from '../long-parts.ts';

let service: McpService;
beforeAll(async () => {
  service = await new McpService().start();
  const taught = await service.api.post('/v1/traces', LESSON, { authorization: `Bearer ${service.key}` });
  expect(taught.body).toMatchObject({ patterns_created: 1 });
});
afterAll(() => service[Symbol.asyncDispose]());

const over = {
  HTTP: (era: Era, codebase?: string) =>
    service.connect(
      service.key,
      era,
      codebase === undefined ? '' : `?codebase_id=${encodeURIComponent(codebase)}`,
    ),
  'standard input and output': (era: Era, codebase?: string) =>
    service.spawn({ SVC_API_KEY: service.key, SVC_BASE_URL: service.api.url }, era, [
      ...(codebase === undefined ? [] : ['--codebase', codebase]),
    ]),
};

const ways = Object.entries(over).flatMap(([name, open]) => ERAS.map((era) => ({ name, era, open })));

for (const [at, { name, era, open }] of ways.entries())
  describe(`the tools over ${name}, ${era}`, longFrom(at, 2), () => {
    let client: Client;
    beforeAll(async () => {
      client = await open(era);
    });

    it('describe themselves and their purpose', async () => {
      expect(client.getServerVersion()).toMatchObject({ name: 'understudy', title: 'Understudy' });
      expect(client.getInstructions()).toContain('retrieve_patterns');
      expect(client.getServerCapabilities()).toEqual({ tools: { listChanged: false } });
      const tools = await listTools(client);
      expect([...tools.keys()]).toEqual([
        'retrieve_patterns',
        'recall_findings',
        'record_finding',
        'search_runs',
        'read_run',
      ]);
      for (const tool of tools.values()) {
        expect(tool.description!.length).toBeGreaterThan(80);
        expect(JSON.stringify(tool)).not.toContain('$ref');
        expect(tool.outputSchema).toMatchObject({ type: 'object' });
        for (const [field, schema] of Object.entries(tool.inputSchema.properties!))
          expect((schema as { description?: string }).description, field).toBeTruthy();
      }
      expect(tools.get('recall_findings')!.inputSchema.required).toEqual(['query', 'codebase_id']);
      expect(tools.get('retrieve_patterns')!.annotations).toMatchObject({ readOnlyHint: true });
      expect(tools.get('record_finding')!.annotations).toMatchObject({
        readOnlyHint: false,
        destructiveHint: false,
      });
    });

    it('retrieve what was learned on a similar task', async () => {
      const { is_error, data, text } = await callTool(client, 'retrieve_patterns', {
        context: 'unit tests of the date parser fail by one day',
      });
      expect(is_error, text).toBe(false);
      expect(data.traces[0].fields.unlock).toContain('Date.UTC');
      expect(JSON.parse(text)).toEqual(data);
      const nothing = await callTool(client, 'retrieve_patterns', {
        context: 'bake a cake of seven layers',
        top_k: 1,
      });
      expect(nothing.data).toEqual({ traces: [] });
    });

    it('record a finding once, and recall it', async () => {
      const codebase_id = `repo/${era}`;
      const given = { content: 'The parser drops trailing commas', file_path: 'src/parser.ts', codebase_id };
      const first = await callTool(client, 'record_finding', given);
      expect(first.data.finding_id).toMatch(/^find_/);
      const again = await callTool(client, 'record_finding', given);
      expect(again.data).toEqual(first.data);
      const question = { query: 'what happens to trailing commas in the parser?', codebase_id };
      const { data } = await callTool(client, 'recall_findings', question);
      expect(data.findings).toMatchObject([
        {
          content: given.content,
          file_path: 'src/parser.ts',
          finding_type: 'note',
          finding_id: first.data.finding_id,
        },
      ]);
      const elsewhere = await callTool(client, 'recall_findings', { ...question, file_path: 'src/lexer.ts' });
      expect(elsewhere.data).toEqual({ findings: [] });
    });

    it('search runs and read one of them', async () => {
      const run_id = `stuck-${era}`;
      const tell = (path: string, body: object) =>
        service.api.post(`/v1/monitor/runs${path}`, body, { authorization: `Bearer ${service.key}` });
      await tell('', { run_id, agent_name: `clerk-${era}`, task: 'Answer the mail', model: 'm' });
      const observation = 'x'.repeat(5_000);
      for (let step_index = 0; step_index < 40; step_index++)
        await tell(`/${run_id}/steps`, {
          step_index,
          action: 'look',
          action_input: `${step_index}`,
          observation,
        });
      await tell(`/${run_id}/finish`, { outcome: 'failure: no stamp' });
      const found = await callTool(client, 'search_runs', { query: `status:failed agent:clerk-${era}` });
      expect(found.data, found.text).toMatchObject({
        source: 'reported',
        matched: 1,
        is_whole: true,
        runs: [
          { run_id, status: 'failed', why: 'the agent reported: failure: no stamp', task: 'Answer the mail' },
        ],
      });
      const parts: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await callTool(client, 'read_run', {
          run_id,
          ...(cursor === undefined ? {} : { cursor }),
        });
        expect(page.text.length).toBeLessThan(60_000);
        expect(page.data, page.text).toMatchObject({ run: { run_id } });
        parts.push(...page.data.parts);
        cursor = page.data.next_cursor ?? undefined;
      } while (cursor !== undefined);
      expect(parts).toHaveLength(40);
      for (const [at, part] of parts.entries())
        expect(part).toMatch(new RegExp(`^step ${at}: look ${at}\nresult: x`));
      const wrong = await callTool(client, 'search_runs', { query: 'statsu:failed' });
      expect(wrong).toMatchObject({ is_error: true });
      expect(wrong.text).toMatch(/did you mean "status"\?.*Correct the arguments/);
      expect(await callTool(client, 'read_run', { run_id: 'none' })).toMatchObject({ is_error: true });
    });

    it('use a code base that is set for all calls', async () => {
      const set = await open(era, 'owner/näme');
      const tools = await listTools(set);
      expect(tools.get('recall_findings')!.inputSchema.required).toEqual(['query']);
      const content = 'Tests run with make check';
      await callTool(set, 'record_finding', { content });
      const named = await callTool(client, 'recall_findings', { query: content, codebase_id: 'owner/näme' });
      expect(named.data.findings).toMatchObject([{ content }]);
    });

    it.each([
      ['an argument that is missing', 'recall_findings', { codebase_id: 'a' }, /query/],
      ['one of another type', 'retrieve_patterns', { context: 7 }, /context/],
      ['one that is too long', 'record_finding', { codebase_id: 'a', content: 'x'.repeat(8_001) }, /8000/],
      ['one that is too large', 'retrieve_patterns', { context: 'a', top_k: 51 }, /50/],
      [
        'what the API alone refuses',
        'record_finding',
        { codebase_id: 'line\nbreak', content: 'x' },
        /codebase_id.*Correct the arguments/,
      ],
      ['half a letter', 'retrieve_patterns', { context: '\ud83d' }, /context.*Correct the arguments/],
    ])('tell the model about %s', async (_, name, input, words) => {
      const { is_error, text } = await callTool(client, name, input);
      expect(is_error).toBe(true);
      expect(text).toMatch(words);
    });

    it('refuse an unknown tool', async () => {
      await expect(client.callTool({ name: 'drop_tables', arguments: {} })).rejects.toThrow(/drop_tables/);
    });
  });

describe('another organization', () => {
  it('finds no runs of the first organization', async () => {
    const run_id = 'secret-run';
    const authorization = `Bearer ${service.key}`;
    await service.api.post('/v1/monitor/runs', { run_id, agent_name: 'spy' }, { authorization });
    const otherClient = await service.connect(service.other_key);
    expect((await callTool(otherClient, 'search_runs', { query: 'agent:spy' })).data).toMatchObject({
      matched: 0,
      runs: [],
    });
    expect(await callTool(otherClient, 'read_run', { run_id })).toMatchObject({ is_error: true });
  });

  it('neither finds nor reads what the first organization stored, except universal patterns', async () => {
    const mine = await service.connect(service.key);
    const otherClient = await service.connect(service.other_key);
    const codebase_id = 'shared/name';
    const secret = 'The signing key is rotated on Mondays';
    await callTool(mine, 'record_finding', { codebase_id, content: secret });
    expect((await callTool(otherClient, 'recall_findings', { codebase_id, query: secret })).data).toEqual({
      findings: [],
    });
    // Naming the project does not help a caller with a key of another project, not even in the address.
    const naming = await service.connect(service.other_key, 'legacy', '?org_id=acme&project_id=default');
    expect((await callTool(naming, 'recall_findings', { codebase_id, query: secret })).data).toEqual({
      findings: [],
    });
    const context = 'unit tests of the date parser fail by one day';
    // Only universal patterns are returned.
    const { data: read } = await callTool(naming, 'retrieve_patterns', { context });
    expect(read.traces.filter(({ tier }: { tier: string }) => tier !== 'e3')).toEqual([]);
    await callTool(naming, 'record_finding', { codebase_id, content: 'planted by a stranger' });
    const { data } = await callTool(mine, 'recall_findings', { codebase_id, query: 'planted by a stranger' });
    expect(JSON.stringify(data)).not.toContain('planted');
  });

  it("is reached with the operator's key, by its name in the address or the flags", async () => {
    const codebase_id = 'operator/base';
    const content = 'Builds need 8 GB of memory';
    const mine = await service.connect(service.key);
    await callTool(mine, 'record_finding', { codebase_id, content });
    const ask = { codebase_id, query: content };
    const operator = await service.connect(CHILD_KEY);
    expect((await callTool(operator, 'recall_findings', ask)).data).toEqual({ findings: [] });
    const named = await service.connect(CHILD_KEY, 'legacy', '?org_id=acme');
    expect((await callTool(named, 'recall_findings', ask)).data.findings).toMatchObject([{ content }]);
    const env = { SVC_API_KEY: CHILD_KEY };
    const piped = await service.spawn(env, 'legacy', ['--url', service.api.url, '--org', 'acme']);
    expect((await callTool(piped, 'recall_findings', ask)).data.findings).toMatchObject([{ content }]);
  });

  it('keeps the findings of its projects apart', async () => {
    const [red, blue] = await Promise.all(
      ['red', 'blue'].map((project) =>
        service.connect(CHILD_KEY, 'legacy', `?org_id=acme&project_id=${project}`),
      ),
    );
    const codebase_id = 'two/projects';
    await callTool(red!, 'record_finding', { codebase_id, content: 'Red uses port 7000' });
    const ask = { codebase_id, query: 'Red uses port 7000' };
    expect((await callTool(blue!, 'recall_findings', ask)).data).toEqual({ findings: [] });
    expect((await callTool(red!, 'recall_findings', ask)).data.findings).toHaveLength(1);
  });
});

describe('understudy mcp', () => {
  it('tells the model that the service does not answer, and continues', async () => {
    const closed = createServer().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const { port } = closed.address() as AddressInfo;
    closed.close();
    const client = await service.spawn({
      SVC_API_KEY: 'k',
      SVC_BASE_URL: `http://127.0.0.1:${port}`,
    });
    for (let call = 0; call < 2; call++) {
      const { is_error, text } = await callTool(client, 'retrieve_patterns', { context: 'anything' });
      expect({ is_error, text }).toEqual({
        is_error: true,
        text: `Understudy does not answer: Cannot reach http://127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}. Go on without it.`,
      });
    }
  });

  it('tells the model about a wrong key', { tags: 'long' }, async () => {
    const client = await service.spawn({
      SVC_API_KEY: 'svc_live_wrong',
      SVC_BASE_URL: service.api.url,
    });
    const { is_error, text } = await callTool(client, 'retrieve_patterns', { context: 'anything' });
    expect(is_error).toBe(true);
    expect(text).toContain('the user has to set another one');
    expect(text).not.toContain('svc_live_wrong');
  });

  const answers = [
    ['something else', 200, '<html>', 'not from the API of Understudy'],
    ['too many', 429, '{"detail":"Too many requests"}', 'wait 7 s'],
    ['a failure', 503, '{"detail":"Temporarily unavailable"}', 'cannot answer now (Temporarily unavailable)'],
    ['a gateway in between', 502, 'Bad gateway', 'cannot answer now (HTTP 502)'],
    ['a full code base', 409, '{"detail":"It is full"}', 'a person has to delete some first'],
    ['a role that may not', 403, '{"detail":"Forbidden"}', 'a key that may'],
    ['a redirect', 302, '', 'HTTP 302'],
  ] as const;
  for (const [at, [what, status, body, words]] of answers.entries())
    it(`tells the model of ${what}`, longFrom(at, 2), async () => {
      const seen: string[] = [];
      const server = createServer((request, response) => {
        seen.push(`${request.method} ${request.url} ${request.headers.authorization}`);
        response.writeHead(status, { 'retry-after': '7', location: '/elsewhere' }).end(body);
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      try {
        const { port } = server.address() as AddressInfo;
        const url = `http://127.0.0.1:${port}/behind/a/path/`;
        const client = await service.spawn({ SVC_API_KEY: 'the-key', SVC_BASE_URL: url });
        const { is_error, text } = await callTool(client, 'recall_findings', {
          query: 'q',
          codebase_id: 'a/b?c',
        });
        expect(is_error).toBe(true);
        expect(text).toContain(words);
        expect(seen).toEqual(['POST /behind/a/path/v1/findings/a%2Fb%3Fc/recall Bearer the-key']);
      } finally {
        server.close();
      }
    });

  it.each([
    ['without a key', [], {}, 'SVC_API_KEY'],
    ['with an invalid address', ['--url', 'ftp://x'], { SVC_API_KEY: 'k' }, '--url="ftp://x"'],
    ['with a bad variable', [], { SVC_API_KEY: 'k', SVC_BASE_URL: 'nowhere' }, 'SVC_BASE_URL="nowhere"'],
  ])('does not start %s', async (_, flags, env, words) => {
    const { code, stdout, stderr } = await runHere(['mcp', ...flags], env as Record<string, string>);
    expect({ code, stdout }).toEqual({ code: 78, stdout: '' });
    expect(stderr).toContain(words);
  });

  it('does not show an invalid key', async () => {
    const { code, stderr } = await runHere(['mcp'], { SVC_API_KEY: 'two words' });
    expect(code).toBe(78);
    expect(stderr).toContain('(not shown)');
    expect(stderr).not.toContain('two words');
  });
});
