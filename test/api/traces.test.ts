/**
 * Traces over the API's own pipeline, with a real host and journal behind it: the pattern maker's actor, adapter and
 * rows. Only the pattern store is a fake.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  PatternMakingAdapter,
  type PatternScope,
  type SinkPattern,
} from '../../actors/pattern-maker/adapter.ts';
import { PATTERN_MAKING_ADAPTER, patternMaker } from '../../actors/pattern-maker/behaviour.ts';
import { PatternMakerClient } from '../../actors/pattern-maker/client.ts';
import { TRACE_BODIES } from '../../actors/pattern-maker/protocol.ts';
import { PATTERN_MAKER_POLICY } from '../../actors/supervision.ts';
import { NOTHING_DELETED } from '../../src/api/deleted-scopes.ts';
import { compileDispatch } from '../../src/api/dispatch.ts';
import { guard } from '../../src/api/pipeline.ts';
import { traceHandlers } from '../../src/api/traces.ts';
import { bind } from '../../src/contract/handler.ts';
import { TRACES } from '../../src/contract/traces.ts';
import type { Tenant } from '../../src/domain/tenant.ts';
import { UNFINISHED_TRACES } from '../../src/domain/trace-rows.ts';
import { ActorClient } from '../../src/runtime/actor-client.ts';
import { ActorHost } from '../../src/runtime/host.ts';
import type { JournalStore } from '../../src/runtime/journal.ts';
import { createLinkEnds, MessagePortLink } from '../../src/runtime/message-port-link.ts';
import { loopScheduler } from '../../src/runtime/scheduler.ts';
import { TableAccounts } from '../../src/storage/accounts/table-accounts.ts';
import { TableTraceReads } from '../../src/storage/accounts/traces.ts';
import { LmdbJournal } from '../../src/storage/lmdb/journal.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { type MemoryDisk, MemoryJournal } from '../../src/storage/memory/journal.ts';
import { type MemoryTableDisk, MemoryTables } from '../../src/storage/memory/tables.ts';
import type { Tables } from '../../src/storage/tables.ts';
import { apiServices, STATIC_KEY } from '../fixtures/api-services.ts';
import { utcDay } from '../fixtures/one-day.ts';

const PLACEMENT = { hosts: 1, pins: {} };

/** A process over a disk that outlives it. */
class Process {
  readonly tables: Tables;
  readonly server: ActorClient;
  readonly patternMakers: PatternMakerClient;
  readonly handlers: ReturnType<typeof traceHandlers>;
  /** Patterns that the pattern store received. */
  readonly merged: [PatternScope, readonly SinkPattern[]][];
  readonly #host: ActorHost;
  readonly #journal: JournalStore;
  readonly #dispatch: ReturnType<typeof compileDispatch>;

  /** @param sinkWorks false: the store never answers */
  constructor(
    { tables, journal }: Storage,
    merged: [PatternScope, readonly SinkPattern[]][],
    sinkWorks = true,
  ) {
    this.merged = merged;
    this.tables = tables;
    this.#journal = journal;
    const known = new Set(merged.flatMap(([, patterns]) => patterns.map(({ situation }) => situation)));
    const port = new PatternMakingAdapter({
      readBody: (key) => this.tables.get<Uint8Array>(TRACE_BODIES, [key]),
      embedder: null,
      sink: {
        merge: (scope, patterns) => {
          merged.push([scope, patterns]);
          if (!sinkWorks) return new Promise(() => {});
          const answers = patterns.map(({ situation }) => {
            const created = !known.has(situation);
            known.add(situation);
            return { pattern_id: `pat_${[...known].indexOf(situation)}`, created };
          });
          return Promise.resolve(answers);
        },
      },
      writer: null,
    });
    this.#host = new ActorHost({
      index: 0,
      placement: PLACEMENT,
      kinds: [{ behaviour: patternMaker, policy: PATTERN_MAKER_POLICY }],
      scheduler: loopScheduler,
      journal: this.#journal,
      performIo: (name, operation, input, done) => {
        expect(name).toBe(PATTERN_MAKING_ADAPTER);
        const work = operation === 'distil' ? port.distil(input as never) : port.merge(input as never);
        work.then(
          (value) => done(null, value),
          (thrown) => done(thrown, undefined),
        );
      },
      performCompute: () => {},
      report: (report) => {
        throw new Error(`an actor failed: ${JSON.stringify(report)}`);
      },
    });
    this.server = new ActorClient(PLACEMENT, loopScheduler);
    const [left, right] = createLinkEnds();
    this.server.attach(0, new MessagePortLink(left));
    this.#host.attachClient(new MessagePortLink(right));
    const services = { ...apiServices(), asker: this.server };
    const stores = { accounts: new TableAccounts(this.tables) };
    this.handlers = traceHandlers({ asker: this.server, stores, deleted: NOTHING_DELETED });
    const routes = bind(TRACES, this.handlers).map((bound) => guard(bound, services.checks));
    this.#dispatch = compileDispatch(routes, {
      report: (error) => {
        if (error.status >= 500 && error.code !== 'unavailable') throw error;
      },
    });
    this.patternMakers = new PatternMakerClient(this.server, new TableTraceReads(this.tables));
  }

  async send(method: string, path: string, body?: unknown, key = STATIC_KEY): Promise<[number, unknown]> {
    const [route, query = ''] = path.split('?');
    const bytes = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
    const reply = await this.#dispatch({
      method,
      path: route!,
      query,
      address: '127.0.0.1',
      headers: new Map([
        ['authorization', `Bearer ${key}`],
        ['content-type', 'application/json'],
      ]),
      body: Buffer.from(bytes),
    });
    return [reply.status, JSON.parse(String(reply.body))];
  }

  /** Polls until the trace is finished or failed. */
  async settled(path: string): Promise<unknown> {
    for (;;) {
      const [status, body] = await this.send('GET', path);
      if (status !== 200 || /done|failed/.test((body as { status: string }).status)) return body;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Ends the process as a kill does, so that it sends nothing more. */
  async end(): Promise<void> {
    this.server.close();
    this.#host.close();
    await this.#journal.close();
    await this.tables.close();
  }
}

/** Storage that one process has open. */
interface Storage {
  tables: Tables;
  journal: JournalStore;
}

const folders: string[] = [];

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'traces-'));
  folders.push(folder);
  return folder;
}

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Opens the storage as the next process would. */
type Disk = () => Storage;

function memoryDisk(): Disk {
  const disk: MemoryDisk = new Map();
  return () => ({ tables: new MemoryTables(tableDisk), journal: new MemoryJournal(disk, tableDisk) });
}

function lmdbDisk(): Disk {
  const path = join(makeFolder(), 'main.mdb');
  return () => ({ tables: new LmdbTables(path, 'disk'), journal: new LmdbJournal(path, 'disk') });
}

const STEPS = [
  {
    thought: 'Let me look at the order.',
    action: 'get_order',
    action_input: '{"order_id":"4711008"}',
    observation: 'Error: order not found',
    is_error: true,
    tokens_used: 12,
  },
  {
    thought: 'Order ids begin with #W, so I should add that.',
    action: 'get_order',
    action_input: '{"order_id":"#W4711008"}',
    observation: '{"status":"delivered"}',
    tokens_used: 9,
  },
  { action: 'respond', action_input: 'Your order was delivered.', observation: '' },
];

const LEGACY = {
  trace_id: 't-1',
  outcome: 'success',
  steps: STEPS,
  task: 'Find out where the order of a customer is.',
};

/** The same run as calls in Messages style. */
const V2 = {
  manifest: { trace_id: 't-2', task: LEGACY.task, model: 'm-9', outcome: 'success' },
  calls: [
    {
      seq: 0,
      request: { model: 'm-9', messages: [{ role: 'user', content: LEGACY.task }] },
      response: {
        content: [
          { type: 'text', text: 'Let me look at the order.' },
          { type: 'tool_use', id: 'c1', name: 'get_order', input: { order_id: '4711008' } },
        ],
      },
    },
    {
      seq: 1,
      request: {
        messages: [
          { role: 'user', content: LEGACY.task },
          { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'get_order', input: {} }] },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 'c1', is_error: true, content: 'Error: order not found' },
            ],
          },
        ],
      },
      response: {
        content: [
          { type: 'text', text: 'Order ids begin with #W, so I should add that.' },
          { type: 'tool_use', id: 'c2', name: 'get_order', input: { order_id: '#W4711008' } },
        ],
      },
    },
    {
      seq: 2,
      request: {
        messages: [
          { role: 'assistant', content: [{ type: 'tool_use', id: 'c2', name: 'get_order', input: {} }] },
          {
            role: 'user',
            content: [{ type: 'tool_result', tool_use_id: 'c2', content: '{"status":"delivered"}' }],
          },
        ],
      },
      response: { content: 'Your order was delivered.' },
    },
  ],
};

let disk: Disk;
let tableDisk: MemoryTableDisk;
let merged: [PatternScope, readonly SinkPattern[]][];
let process: Process;

async function restart(sinkWorks = true): Promise<void> {
  await process.end();
  process = new Process(disk(), merged, sinkWorks);
}

beforeEach(() => {
  tableDisk = new Map();
  merged = [];
  disk = memoryDisk();
  process = new Process(disk(), merged);
});

afterEach(() => process.end());

describe('POST /v1/traces', () => {
  it('makes patterns of a legacy trace before it answers', async () => {
    const answer = [200, { trace_id: 't-1', status: 'accepted', patterns_created: 1 }];
    expect(await process.send('POST', '/v1/traces', LEGACY)).toEqual(answer);
    const [scope, patterns] = merged[0]!;
    expect(scope).toEqual({ org_id: 'default', project_id: null });
    expect(patterns).toHaveLength(1);
    expect(patterns[0]).toMatchObject({ source_trace_id: 't-1', model: '', failure_type: '' });
    expect(patterns[0]!.situation).toContain('Find out where the order of a customer is.');
    expect(patterns[0]!.dead_ends).toContain('order not found');
    expect(patterns[0]!.unlock).toContain('`order_id` = an order id with `#W` in front of it');
    expect(await process.send('GET', '/v1/traces/t-1')).toEqual([
      200,
      {
        trace_id: 't-1',
        project_id: null,
        status: 'done',
        pattern_ids: ['pat_0'],
        patterns_created: 1,
        error: null,
        submitted_at: expect.any(String),
        finished_at: expect.any(String),
      },
    ]);
    // The same trace again, under the alias, with its keys in another order.
    const { steps, ...rest } = LEGACY;
    expect(await process.send('POST', '/traces/', { steps, ...rest })).toEqual(answer);
    expect(merged).toHaveLength(1);
  });

  it('queues a v2 trace, and returns its state later', async () => {
    const answer = [202, { trace_id: 't-2', status: 'queued' }];
    const day = utcDay();
    expect(await process.send('POST', '/v1/traces', V2)).toEqual(answer);
    expect(await process.settled('/v1/traces/t-2')).toMatchObject({ status: 'done', pattern_ids: ['pat_0'] });
    expect(merged[0]![1][0]).toMatchObject({ model: 'm-9', source_trace_id: 't-2' });
    expect(merged[0]![1][0]!.unlock).toContain('`order_id` = an order id with `#W` in front of it');
    expect(JSON.stringify(merged[0]![1])).not.toContain('4711008');
    expect(await process.send('POST', '/v1/traces', V2)).toEqual(answer);
    const usage = [...process.tables.range('usage', { prefix: ['default'] })];
    expect(usage).toEqual([{ row: ['default', expect.any(String), 'default'], value: { traces: 1 } }]);
    expect([day, utcDay()]).toContain(usage[0]!.row[1]);
    expect([...process.tables.range(TRACE_BODIES, { prefix: [] })]).toEqual([]);
  });

  it('refuses another body under the same id', async () => {
    await process.send('POST', '/v1/traces', LEGACY);
    const [status, body] = await process.send('POST', '/v1/traces', { ...LEGACY, outcome: 'failure' });
    expect([status, body]).toEqual([409, { detail: 'This trace_id was submitted with a different body' }]);
  });

  it('makes no patterns of a run without a failure, or of one that failed to the end', async () => {
    const [first, ...others] = STEPS;
    for (const [trace_id, steps] of [
      ['good', others],
      ['bad', [first, first, first]],
      ['empty', []],
    ] as const) {
      const answer = await process.send('POST', '/v1/traces', { trace_id, outcome: 'success', steps });
      expect(answer).toEqual([200, { trace_id, status: 'accepted', patterns_created: 0 }]);
    }
    expect(merged).toEqual([]);
  });

  it('names the missing fields of a body', async () => {
    const lacks = async (body: unknown) => {
      const [status, answer] = await process.send('POST', '/v1/traces', body);
      expect(status).toBe(422);
      return (answer as { detail: { type: string; loc: unknown }[] }).detail.map(({ type, loc }) => [
        type,
        loc,
      ]);
    };
    expect(await lacks({})).toEqual([
      ['missing', ['body', 'trace_id']],
      ['missing', ['body', 'steps']],
    ]);
    expect(await lacks({ manifest: {} })).toEqual([['missing', ['body', 'manifest', 'trace_id']]]);
    expect(await lacks({ manifest: { trace_id: 'x' } })).toEqual([['missing', ['body', 'calls']]]);
    expect(await lacks({ calls: [] })).toEqual([['missing', ['body', 'manifest']]]);
    expect(await lacks({ trace_id: '', steps: [{ action: 7 }, 'x'] })).toEqual([
      ['string_too_short', ['body', 'trace_id']],
      ['string_type', ['body', 'steps', 0, 'action']],
      ['model_attributes_type', ['body', 'steps', 1]],
    ]);
    expect(await lacks('[]')).toHaveLength(1);
    const [status] = await process.send('POST', '/v1/traces', '{"trace_id": ');
    expect(status).toBe(400);
    expect((await process.send('POST', '/v1/traces', LEGACY, 'wrong'))[0]).toBe(401);
  });

  it('accepts hostile content of calls without harm', async () => {
    const nest = (depth: number) => `${'{"a":['.repeat(depth)}1${']}'.repeat(depth)}`;
    const strange = [
      null,
      7,
      'text',
      [],
      { messages: 'no' },
      {
        messages: [
          null,
          7,
          { role: 7, content: { a: 1 } },
          { role: 'assistant', content: [null, 1, { type: 'tool_use', input: JSON.parse(nest(200)) }] },
        ],
      },
      {
        choices: [
          { message: { content: null, tool_calls: [{ function: { name: 'f', arguments: '{"a":' } }, null] } },
        ],
      },
      { choices: 'x', content: [{ type: 'tool_result', content: [[[]]] }] },
    ];
    const calls = strange.flatMap((request) => strange.map((response) => ({ request, response })));
    const body = `{"manifest":{"trace_id":"h","metadata":{"__proto__x":1}},"calls":${JSON.stringify(calls)}}`;
    expect(await process.send('POST', '/v1/traces', body)).toEqual([
      202,
      { trace_id: 'h', status: 'queued' },
    ]);
    expect(await process.settled('/v1/traces/h')).toMatchObject({ status: 'done', error: null });
  });

  it('stores no secret, neither in the queue nor in patterns', async () => {
    const key = `sk-ant-api03-${'Zq9x'.repeat(8)}`;
    const leaky = structuredClone(LEGACY);
    leaky.steps[0]!.observation = `Error: key ${key} may not read orders`;
    leaky.steps[1]!.action_input = `{"order_id":"#W1","password":"hunter2-hunter2"}`;
    await process.send('POST', '/v1/traces', leaky);
    expect(merged[0]![1][0]!.dead_ends).toContain('[redacted]');
    const stored =
      JSON.stringify([...tableDisk].map(([name, rows]) => [name, [...rows]])) + JSON.stringify(merged);
    expect(stored).not.toContain(key);
    expect(stored).not.toContain('hunter2');
  });
});

describe.each([
  ['memory', memoryDisk],
  ['LMDB', lmdbDisk],
])('a crash over %s', (_name, makeDisk) => {
  beforeEach(async () => {
    disk = makeDisk();
    await restart();
  });

  it('loses no queued trace, and repeats its patterns with the same content', async () => {
    await restart(false);
    expect((await process.send('POST', '/v1/traces', V2))[0]).toBe(202);
    // The store has received the patterns, and the process ends before it reports that.
    while (merged.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect([...process.tables.range(UNFINISHED_TRACES, { prefix: [] })]).toHaveLength(1);
    await restart();
    // The first call resumes nothing, because another box may be working on the trace.
    expect(await process.patternMakers.resume(true)).toBe(0);
    expect(await process.patternMakers.resume(true)).toBe(1);
    expect(await process.settled('/v1/traces/t-2')).toMatchObject({ status: 'done', pattern_ids: ['pat_0'] });
    expect(merged[1]).toEqual(merged[0]);
    expect([...process.tables.range(UNFINISHED_TRACES, { prefix: [] })]).toEqual([]);
    expect(await process.patternMakers.resume()).toBe(0);
  });

  it('returns the result of a legacy trace when it is sent again after a restart', async () => {
    await restart(false);
    const lost = process.send('POST', '/v1/traces', LEGACY);
    while (merged.length === 0) await new Promise((resolve) => setImmediate(resolve));
    await restart();
    expect((await lost)[0]).toBe(503);
    expect(await process.send('POST', '/v1/traces', LEGACY)).toEqual([
      200,
      // The patterns were created before the restart, so the repeated request creates none.
      { trace_id: 't-1', status: 'accepted', patterns_created: 0 },
    ]);
  });
});

describe('the traces of a tenant', () => {
  const tenant = (org_id: string, project_id: string | null): Tenant => ({
    org_id,
    project_id,
    actor: { type: 'key', id: 'key_1' },
  });
  const submit = (who: Tenant, body: object) =>
    process.handlers.submitTrace({ tenant: who, params: {}, query: {}, body, request: {} } as never);
  const find = async (who: Tenant, trace_id: string) => {
    try {
      const reply = await process.handlers.readTrace({ tenant: who, params: { trace_id } } as never);
      return (reply.body as { status: string }).status;
    } catch (thrown) {
      return (thrown as { status: number }).status;
    }
  };

  it('are visible only to that tenant', async () => {
    const body = TRACES.submitTrace.body.parse(LEGACY);
    await submit(tenant('a', 'p1'), body);
    expect(merged[0]![0]).toEqual({ org_id: 'a', project_id: 'p1' });
    expect(await find(tenant('a', 'p1'), 't-1')).toBe('done');
    expect(await find(tenant('a', null), 't-1')).toBe('done');
    expect(await find(tenant('a', 'p2'), 't-1')).toBe(404);
    expect(await find(tenant('b', null), 't-1')).toBe(404);
    expect(await find(tenant('b', 'p1'), 't-1')).toBe(404);
    // The answer does not even reveal that the id is taken.
    const other = TRACES.submitTrace.body.parse({ ...LEGACY, outcome: 'failure' });
    expect((await submit(tenant('a', 'p2'), other)).body).toMatchObject({ status: 'accepted' });
    expect((await submit(tenant('b', null), other)).body).toMatchObject({ status: 'accepted' });
  });

  it('belong to the project in the body if the credential names no project', async () => {
    await submit(tenant('a', null), TRACES.submitTrace.body.parse({ ...LEGACY, project_id: 'p9' }));
    expect(merged[0]![0]).toEqual({ org_id: 'a', project_id: 'p9' });
    await submit(tenant('a', 'p1'), TRACES.submitTrace.body.parse({ ...LEGACY, project_id: 'p9' }));
    expect(merged[1]![0]).toEqual({ org_id: 'a', project_id: 'p1' });
  });

  it('are hidden over HTTP from requests that name another organization', async () => {
    await process.send('POST', '/v1/traces', { ...LEGACY, org_id: 'mine' });
    expect((await process.send('GET', '/v1/traces/t-1?org_id=mine'))[0]).toBe(200);
    expect(await process.send('GET', '/v1/traces/t-1?org_id=other')).toEqual([404, { detail: 'Not Found' }]);
    expect((await process.send('GET', '/v1/traces/t-1'))[0]).toBe(404);
  });
});
