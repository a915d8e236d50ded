/** Random messages and arguments at `/mcp`: always an answer of the protocol, never an error of the server. */

import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { McpService } from '../fixtures/mcp-service.ts';
import { drawsOf } from '../long-parts.ts';

const service = new McpService();
beforeAll(() => service.start());
afterAll(() => service[Symbol.asyncDispose]());

const TOOLS = ['retrieve_patterns', 'recall_findings', 'record_finding', 'search_runs', 'read_run'];
const FIELDS = [
  'context',
  'query',
  'codebase_id',
  'content',
  'file_path',
  'finding_type',
  'top_k',
  '__proto__',
];
const METHODS = [
  'tools/call',
  'tools/list',
  'initialize',
  'ping',
  'resources/read',
  'notifications/cancelled',
];
/** The protocol's code for an internal error of the server. */
const INTERNAL_ERROR = -32_603;

const anything = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('', '\u0000', '\ud83d', '../..', 'a'.repeat(9_000), -1, 0, 5, 1e308, null),
);
const input = fc.oneof(anything, fc.dictionary(fc.constantFrom(...FIELDS), anything));
const params = fc.oneof(
  { weight: 5, arbitrary: fc.record({ name: fc.constantFrom(...TOOLS), arguments: input }) },
  { weight: 1, arbitrary: fc.record({ name: anything, arguments: input, _meta: anything }) },
  { weight: 1, arbitrary: anything },
);
const message = fc.record(
  {
    jsonrpc: fc.oneof({ weight: 9, arbitrary: fc.constant('2.0') }, anything),
    id: fc.oneof({ weight: 9, arbitrary: fc.integer() }, anything),
    method: fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom('tools/call', ...METHODS) },
      { weight: 1, arbitrary: anything },
    ),
    params,
  },
  { requiredKeys: ['jsonrpc', 'method'] },
);
const address = fc
  .dictionary(fc.constantFrom('codebase_id', 'org_id', 'project_id', 'x'), fc.string(), { maxKeys: 2 })
  .map((fields) => `/mcp?${new URLSearchParams(fields)}`);

it('hostile messages get an answer that reports no server error', { tags: 'long' }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(message, anything), address, async (sent, path) => {
      const response = await fetch(`${service.api.url}${path}`, {
        method: 'POST',
        headers: {
          accept: 'application/json, text/event-stream',
          'content-type': 'application/json',
          authorization: `Bearer ${service.key}`,
        },
        body: JSON.stringify(sent),
      });
      const text = await response.text();
      expect(response.status, text).toBeLessThan(500);
      if (text === '') return;
      // A stream of events, if the client accepts one; each message in it is also such an answer.
      for (const [, json] of text.startsWith('{') ? [['', text]] : text.matchAll(/^data: (\{.*)$/gm)) {
        const { error, result } = JSON.parse(json!);
        expect(error?.code, text).not.toBe(INTERNAL_ERROR);
        if (result?.isError === true)
          expect(result.content[0].text).not.toContain('Understudy cannot answer now');
      }
    }),
    drawsOf(300),
  );
});

it('the service lists its tools after hostile messages', async () => {
  const client = await service.connect(service.key);
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(TOOLS);
});
