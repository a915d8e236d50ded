/** What a tool of `/mcp` answers and what is logged if the endpoint behind the tool fails or is missing. */

import { describe, expect, it } from 'vitest';
import { compileDispatch } from '../../src/api/dispatch.ts';
import { mcpHandlers } from '../../src/api/mcp.ts';
import { guard } from '../../src/api/pipeline.ts';
import type { Endpoint } from '../../src/contract/endpoint.ts';
import { FINDINGS } from '../../src/contract/findings.ts';
import { type BoundEndpoint, bind, type Handler } from '../../src/contract/handler.ts';
import { MCP } from '../../src/contract/mcp.ts';
import { CatalogueError } from '../../src/errors.ts';
import { apiServices, STATIC_KEY } from '../fixtures/api-services.ts';

interface Told {
  code: string;
  path: string;
  cause: unknown;
}

/** Calls `recall_findings` with an endpoint that behaves as the test says. */
async function recall(handler?: Handler<Endpoint>) {
  const { checks } = apiServices();
  const endpoints: BoundEndpoint[] = handler === undefined ? [] : [{ endpoint: FINDINGS.recall, handler }];
  const routes = bind(MCP, mcpHandlers({ version: '1', endpoints, operator_routes: [], checks })).map(
    (bound) => guard(bound, checks),
  );
  const told: Told[] = [];
  const dispatch = compileDispatch(routes, {
    report: ({ code, cause }, { path }) => told.push({ code, path, cause }),
  });
  const reply = await dispatch({
    method: 'POST',
    path: '/mcp',
    query: '',
    headers: new Map([
      ['authorization', `Bearer ${STATIC_KEY}`],
      ['content-type', 'application/json'],
      ['accept', 'application/json, text/event-stream'],
    ]),
    body: Buffer.from(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'recall_findings', arguments: { codebase_id: 'a', query: 'q' } },
      }),
    ),
  });
  expect(reply.status).toBe(200);
  const { result } = JSON.parse(String(reply.body));
  return { is_error: result.isError === true, text: result.content[0].text as string, told };
}

describe('a tool of /mcp', () => {
  it('hides from the model why its endpoint failed, and logs it', async () => {
    const cause = new Error('the table "findings" is torn at page 7');
    const { is_error, text, told } = await recall(() => {
      throw cause;
    });
    expect(is_error).toBe(true);
    expect(text).toBe(
      'Understudy cannot answer now (Internal Server Error). Go on without it; it may answer later.',
    );
    expect(told).toEqual([{ code: 'internal', path: '/mcp', cause }]);
  });

  it('tells the model that its endpoint did not answer in time', async () => {
    const { is_error, text, told } = await recall(async () => {
      throw new CatalogueError('deadline_exceeded', undefined, { cause: new Error('slow disk') });
    });
    expect(is_error).toBe(true);
    expect(text).toContain('No answer in time');
    expect(told.map(({ code }) => code)).toEqual(['deadline_exceeded']);
  });

  it('tells the model that its endpoint accepts no more content, and logs nothing', async () => {
    const { text, told } = await recall(() => {
      throw new CatalogueError('conflict', 'The code base holds 10000 findings');
    });
    expect(text).toBe(
      'The code base holds 10000 findings: a person has to delete some first. Go on without it.',
    );
    expect(told).toEqual([]);
  });

  it('reports an error if its endpoint returns another shape', async () => {
    const { is_error, text } = await recall(() => ({ body: { findings: 'none' } }));
    expect(is_error).toBe(true);
    expect(text).toContain('not from the API of Understudy');
  });

  it('tells the model that its endpoint is missing', async () => {
    const { is_error, text } = await recall();
    expect(is_error).toBe(true);
    expect(text).toContain('Not Found');
  });
});
