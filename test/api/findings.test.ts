/**
 * Findings over the API's own pipeline, with a real actor host behind it: tenants, bounds, crashes, failing disks and
 * failing models. Only the model is a fake, which hashes words.
 */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FindingsClient } from '../../actors/findings-index/client.ts';
import { FINDINGS_PER_CODEBASE, packVector } from '../../actors/findings-index/protocol.ts';
import { NOTHING_DELETED } from '../../src/api/deleted-scopes.ts';
import { compileDispatch } from '../../src/api/dispatch.ts';
import { findingsHandlers } from '../../src/api/findings.ts';
import { FindingsEmbedding } from '../../src/api/findings-embedding.ts';
import { guard } from '../../src/api/pipeline.ts';
import { Authenticator, type CredentialKind } from '../../src/auth/authenticator.ts';
import { FINDING_METADATA_CHARACTERS, FINDING_PATHS, FINDINGS } from '../../src/contract/findings.ts';
import { bind } from '../../src/contract/handler.ts';
import type { Codebase } from '../../src/domain/finding.ts';
import {
  codebaseRow,
  FINDINGS_CODEBASES,
  FINDINGS_INDEXED,
  FINDINGS as FINDINGS_TABLE,
  findingRow,
} from '../../src/domain/finding-rows.ts';
import { TableAccounts } from '../../src/storage/accounts/table-accounts.ts';
import { type MemoryTableDisk, MemoryTables } from '../../src/storage/memory/tables.ts';
import type { TableTransaction } from '../../src/storage/tables.ts';
import { apiServices } from '../fixtures/api-services.ts';
import { FindingsHost } from '../fixtures/findings-host.ts';
import { WordEmbedder } from '../fixtures/word-embedder.ts';

/** Tables that fail on demand, before or after a write. */
class FailingTables extends MemoryTables {
  failing: 'no' | 'before' | 'after' = 'no';
  writes = 0;
  /** How many turns of the event loop a transaction takes. Transactions run in order. */
  turns = 0;
  #last: Promise<unknown> = Promise.resolve();

  override transact<Value>(work: (transaction: TableTransaction) => Value): Promise<Value> {
    this.writes++;
    const done = this.#last.then(() => this.#transact(work));
    this.#last = done.catch(() => {});
    return done;
  }

  async #transact<Value>(work: (transaction: TableTransaction) => Value): Promise<Value> {
    for (let turn = 0; turn < this.turns; turn++) await new Promise((resolve) => setImmediate(resolve));
    if (this.failing === 'before') throw new Error('the disk is full');
    const value = await super.transact(work);
    if (this.failing === 'after') throw new Error('the answer was lost');
    return value;
  }
}

/** `org/project` or `org` is a key with that scope; `static` is the operator's key. */
const SCOPED_KEYS: CredentialKind = {
  verify: (token) => {
    if (token === 'static') return { type: 'static', id: 'static:test' };
    const [org_id, project_id] = token.split('/');
    return { type: 'key', id: `key_${token}`, org_id: org_id!, project_id: project_id ?? null };
  },
};

type Body = Record<string, unknown> & { findings?: Record<string, unknown>[] };

/** A process with its actors, over a disk that outlives it. */
class Process implements AsyncDisposable {
  readonly tables: FailingTables;
  readonly embedder: WordEmbedder;
  readonly embedding: FindingsEmbedding;
  readonly client: FindingsClient;
  readonly #host: FindingsHost;
  readonly #dispatch: ReturnType<typeof compileDispatch>;

  constructor(disk: MemoryTableDisk = new Map(), embedder = new WordEmbedder()) {
    this.tables = new FailingTables(disk);
    this.embedder = embedder;
    this.#host = new FindingsHost(this.tables, embedder);
    this.client = this.#host.client;
    this.embedding = new FindingsEmbedding(this.client, embedder, undefined, { retry_ms: 1, batch: 3 });
    const handlers = findingsHandlers({
      findings: this.client,
      embedder,
      embedding: this.embedding,
      deleted: NOTHING_DELETED,
    });
    const checks = { ...apiServices().checks, authenticator: new Authenticator([SCOPED_KEYS]) };
    const routes = bind(FINDINGS, handlers).map((bound) => guard(bound, checks));
    this.#dispatch = compileDispatch(routes, {
      report: (error) => {
        if (error.code === 'internal') throw error.cause ?? error;
      },
    });
  }

  async send(key: string, method: string, path: string, body?: unknown) {
    const [route, query = ''] = path.split('?');
    const reply = await this.#dispatch({
      method,
      path: route!,
      query,
      address: '127.0.0.1',
      headers: new Map([
        ['authorization', `Bearer ${key}`],
        ['content-type', 'application/json'],
      ]),
      body: Buffer.from(typeof body === 'string' ? body : (JSON.stringify(body) ?? '')),
    });
    const headers = Object.fromEntries(reply.headers);
    return { status: reply.status, headers, body: JSON.parse(String(reply.body)) as Body };
  }

  /** A request that must succeed. */
  async ok(key: string, method: string, path: string, body?: unknown): Promise<Body> {
    const reply = await this.send(key, method, path, body);
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    return reply.body;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#host.close();
    await this.embedding.close();
  }
}

/** A note with metadata of this depth. */
const nested = (depth: number): string =>
  `{"content": "x", "metadata": ${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`;

/** Writes the rows of findings as an earlier process would have left them. */
async function fillCodebase(
  api: Process,
  codebase: Codebase,
  count: number,
  makeContent: (seq: number) => string,
): Promise<void> {
  const texts = Array.from({ length: count }, (_, seq) => makeContent(seq));
  const vectors = await api.embedder.embed(texts);
  await api.tables.transact((transaction) => {
    for (const [seq, content] of texts.entries()) {
      const facts = {
        finding_id: `find_${seq}`,
        project_id: 'default',
        file_path: `${seq}`,
        finding_type: 'note',
        created_at: '2026-01-01T00:00:00.000Z',
      };
      const row = findingRow(codebase, seq);
      const vector = packVector(vectors[seq]!);
      const indexed = { ...facts, hash: `${seq}`, embedder_id: api.embedder.id, vector };
      transaction.write({
        op: 'put',
        table: FINDINGS_TABLE,
        row,
        value: { ...facts, content, metadata: '{}' },
      });
      transaction.write({ op: 'put', table: FINDINGS_INDEXED, row, value: indexed });
    }
    const value = { next_seq: count, count, embedder_id: api.embedder.id };
    transaction.write({ op: 'put', table: FINDINGS_CODEBASES, row: codebaseRow(codebase), value });
  });
}

const contents = (body: Body): unknown[] => body.findings!.map(({ content }) => content);

describe('findings', () => {
  it('are stored, recalled by meaning, listed, covered, invalidated and cleared', async () => {
    await using api = new Process();
    const path = '/v1/findings/my-repo';
    const stored = await api.ok('org', 'POST', path, {
      content: 'the retry loop in the http client never sleeps',
      file_path: 'src/http/client.ts',
      finding_type: 'bug',
      metadata: { line: 42, tags: ['retry'] },
    });
    expect(stored).toEqual({
      finding_id: expect.stringMatching(/^find_[0-9A-HJKMNP-TV-Z]{26}$/),
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    await api.ok('org', 'POST', path, {
      content: 'configuration is read once at start',
      file_path: 'src/config.ts',
    });
    await api.ok('org', 'POST', path, { content: 'cats sleep all day' });

    const recalled = await api.ok('org', 'POST', `${path}/recall`, {
      query: 'why does the retry loop never sleep',
    });
    expect(recalled.findings![0]).toEqual({
      ...stored,
      project_id: 'default',
      content: 'the retry loop in the http client never sleeps',
      file_path: 'src/http/client.ts',
      finding_type: 'bug',
      metadata: { line: 42, tags: ['retry'] },
      score: expect.any(Number),
    });
    const scores = recalled.findings!.map(({ score }) => score as number);
    expect(scores).toEqual([...scores].sort((a, b) => b - a));
    for (const score of scores) expect(score).toBeGreaterThanOrEqual(0.25);
    const exact = await api.ok('org', 'POST', `${path}/recall`, {
      query: 'cats sleep all day',
      top_k: 1,
      score_threshold: 0.99,
    });
    expect(contents(exact)).toEqual(['cats sleep all day']);

    const listed = await api.send('org', 'GET', `${path}?limit=2`);
    expect(listed.headers['x-total-count']).toBe('3');
    expect(listed.body.total).toBe(3);
    expect(contents(listed.body)).toEqual(['cats sleep all day', 'configuration is read once at start']);
    expect(listed.body.findings![0]).toMatchObject({ file_path: '', finding_type: 'note', metadata: {} });
    expect(listed.body.findings![0]).not.toHaveProperty('score');

    const file_paths = ['client.ts', 'http/client.ts', 'config.ts', 'nothing.ts'];
    expect(await api.ok('org', 'POST', `${path}/coverage`, { file_paths })).toEqual({ coverage: 0.75 });
    expect(await api.ok('org', 'POST', `${path}/coverage`, { file_paths: [] })).toEqual({ coverage: 1 });
    expect(await api.ok('org', 'POST', '/v1/findings/other/coverage', { file_paths })).toEqual({
      coverage: 0,
    });

    expect(await api.ok('org', 'POST', `${path}/invalidate`, { file_paths: ['client.ts'] })).toEqual({
      deleted: 0,
    });
    expect(
      await api.ok('org', 'POST', `${path}/invalidate`, {
        file_paths: ['src/http/client.ts', 'x', 'src/http/client.ts'],
      }),
    ).toEqual({ deleted: 1 });
    expect((await api.ok('org', 'GET', path)).total).toBe(2);
    expect(await api.ok('org', 'DELETE', path)).toEqual({ cleared: true });
    expect(await api.ok('org', 'DELETE', path)).toEqual({ cleared: true });
    expect(await api.ok('org', 'GET', path)).toEqual({ findings: [], total: 0, next_cursor: null });
    expect(await api.ok('org', 'POST', `${path}/coverage`, { file_paths })).toEqual({ coverage: 0 });
  });

  it('leave an audit entry when they are deleted, but not when they are stored', async () => {
    await using api = new Process();
    for (const file_path of ['a.ts', 'b.ts', 'c.ts'])
      await api.ok('acme/web', 'POST', '/v1/findings/shop', { content: `about ${file_path}`, file_path });
    await api.ok('acme/web', 'POST', '/v1/findings/shop/invalidate', { file_paths: ['a.ts', 'none.ts'] });
    await api.ok('acme/web', 'POST', '/v1/findings/shop/invalidate', { file_paths: ['a.ts'] });
    await api.ok('acme', 'DELETE', '/v1/findings/shop');
    await api.ok('acme', 'DELETE', '/v1/findings/shop');
    const { items } = new TableAccounts(api.tables).audit.list('acme', { limit: 10, offset: 0 });
    expect(items).toMatchObject([
      {
        action: 'findings.clear',
        actor: 'key_acme',
        target: 'shop',
        after: { deleted: 2, project_id: null },
      },
      {
        action: 'findings.invalidate',
        actor: 'key_acme/web',
        actor_type: 'key',
        target: 'shop',
        after: { deleted: 1, project_id: 'web' },
        address: '127.0.0.1',
      },
    ]);
  });

  it('that are stored twice become one, also at the same time', async () => {
    await using api = new Process();
    const body = { content: 'one', file_path: 'a.ts', metadata: { a: 1, b: 2 } };
    const again = { ...body, metadata: { b: 2, a: 1 } };
    const first = await api.ok('org', 'POST', '/v1/findings/c', body);
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, at) => api.ok('org', 'POST', '/v1/findings/c', at % 2 ? body : again)),
    );
    for (const reply of replies) expect(reply).toEqual(first);
    const fresh = await Promise.all(
      Array.from({ length: 10 }, () => api.ok('org', 'POST', '/v1/findings/c', { content: 'two' })),
    );
    expect(new Set(fresh.map(({ finding_id }) => finding_id)).size).toBe(1);
    expect((await api.ok('org', 'GET', '/v1/findings/c')).total).toBe(2);
    await api.ok('org', 'DELETE', '/v1/findings/c');
    expect(await api.ok('org', 'POST', '/v1/findings/c', body)).not.toEqual(first);
  });

  it('outlive the process, and are listed and recalled after a restart without new embeddings', async () => {
    const disk: MemoryTableDisk = new Map();
    let before: Body;
    {
      await using api = new Process(disk);
      for (let i = 0; i < 30; i++)
        await api.ok('org', 'POST', '/v1/findings/c', {
          content: `finding number ${i}`,
          file_path: `f${i % 3}.ts`,
        });
      await api.ok('org', 'POST', '/v1/findings/c/invalidate', { file_paths: ['f1.ts'] });
      before = await api.ok('org', 'GET', '/v1/findings/c');
    }
    await using api = new Process(disk);
    expect(await api.ok('org', 'GET', '/v1/findings/c')).toEqual(before);
    expect(before.total).toBe(20);
    const { findings } = await api.ok('org', 'POST', '/v1/findings/c/recall', { query: 'finding number 17' });
    expect(findings![0]).toMatchObject({ content: 'finding number 17' });
    expect(api.embedder.embedded, 'vectors are kept').toBe(1);
    await api.ok('org', 'POST', '/v1/findings/c', { content: 'after' });
    expect((await api.ok('org', 'GET', '/v1/findings/c?limit=1')).findings![0]).toMatchObject({
      content: 'after',
    });
  });

  it('are listed newest first, from `offset` on and at most `limit` of them, if they match the filters exactly', async () => {
    await using api = new Process();
    for (let i = 0; i < 7; i++)
      await api.ok('org', 'POST', '/v1/findings/c', {
        content: `${i}`,
        file_path: i % 2 ? 'odd.ts' : 'even.ts',
        finding_type: i < 4 ? 'bug' : 'note',
      });
    const list = async (query: string) => {
      const body = await api.ok('org', 'GET', `/v1/findings/c?${query}`);
      return [contents(body).join(''), body.total];
    };
    expect(await list('')).toEqual(['6543210', 7]);
    expect(await list('limit=3&offset=2')).toEqual(['432', 7]);
    expect(await list('limit=3&offset=6')).toEqual(['0', 7]);
    expect(await list('offset=7')).toEqual(['', 7]);
    expect(await list('offset=99999999999')).toEqual(['', 7]);
    expect(await list('limit=0&offset=-5')).toEqual(['6', 7]);
    expect(await list('limit=100000')).toEqual(['6543210', 7]);
    expect(await list('file_path=odd.ts')).toEqual(['531', 3]);
    expect(await list('finding_type=bug&file_path=even.ts')).toEqual(['20', 2]);
    expect(await list('file_path=dd.ts')).toEqual(['', 0]);
    expect(await list('file_path=&finding_type=')).toEqual(['6543210', 7]);
    expect(await list('file_path=odd.ts&finding_type=')).toEqual(['531', 3]);
    expect((await api.send('org', 'GET', '/v1/findings/c?limit=x')).status).toBe(422);
    const recalled = await api.ok('org', 'POST', '/v1/findings/c/recall', {
      query: '0 1 2 3 4 5 6',
      score_threshold: 0,
      top_k: 50,
      file_path: 'odd.ts',
      finding_type: 'bug',
    });
    expect(contents(recalled).sort()).toEqual(['1', '3']);
    const unfiltered = await api.ok('org', 'POST', '/v1/findings/c/recall', {
      query: '0 1 2 3 4 5 6',
      score_threshold: 0,
      top_k: 50,
      file_path: '',
      finding_type: '',
    });
    expect(contents(unfiltered)).toHaveLength(7);
  });

  it('that are invalid are refused and not stored; long texts are cut', async () => {
    await using api = new Process();
    const path = '/v1/findings/c';
    const refused: [string, string, unknown, number][] = [
      ['POST', path, {}, 422],
      ['POST', path, { content: '' }, 422],
      ['POST', path, { content: null }, 422],
      ['POST', path, { content: 5 }, 422],
      ['POST', path, '{"content": "\\ud800"}', 422],
      ['POST', path, { content: 'x', file_path: 7 }, 422],
      ['POST', path, { content: 'x', metadata: [] }, 422],
      ['POST', path, { content: 'x', metadata: 'm' }, 422],
      ['POST', path, { content: 'x', metadata: { a: 'y'.repeat(FINDING_METADATA_CHARACTERS) } }, 422],
      ['POST', path, nested(40), 422],
      ['POST', path, nested(5_000), 400],
      ['POST', path, '[]', 422],
      ['POST', path, '{"content": "x"', 400],
      ['POST', `/v1/findings/${'c'.repeat(257)}`, { content: 'x' }, 422],
      ['POST', '/v1/findings/a%00b', { content: 'x' }, 422],
      ['POST', '/v1/findings/%ff', { content: 'x' }, 404],
      ['POST', '/v1/findings/a/b/c', { content: 'x' }, 404],
      ['PATCH', path, { content: 'x' }, 405],
      ['POST', `${path}/recall`, {}, 422],
      ['POST', `${path}/recall`, { query: 'x', top_k: 0 }, 422],
      ['POST', `${path}/recall`, { query: 'x', top_k: 51 }, 422],
      ['POST', `${path}/recall`, { query: 'x', top_k: 1.5 }, 422],
      ['POST', `${path}/recall`, { query: 'x', score_threshold: 1.1 }, 422],
      ['POST', `${path}/recall`, { query: 'x', score_threshold: -0.1 }, 422],
      ['POST', `${path}/invalidate`, {}, 422],
      ['POST', `${path}/invalidate`, { file_paths: 'a' }, 422],
      ['POST', `${path}/invalidate`, { file_paths: [1] }, 422],
      ['POST', `${path}/coverage`, { file_paths: Array(FINDING_PATHS + 1).fill('a') }, 422],
      ['DELETE', `${path}/recall`, undefined, 405],
    ];
    for (const [method, route, body, status] of refused) {
      const reply = await api.send('org', method, route, body);
      expect(reply.status, `${method} ${route} ${JSON.stringify(body)?.slice(0, 80)}`).toBe(status);
      expect(reply.body).toHaveProperty('detail');
    }
    expect(api.tables.writes).toBe(0);
    const details = async (body: unknown) =>
      (await api.send('org', 'POST', path, body)).body.detail as Record<string, unknown>[];
    expect(await details({})).toMatchObject([{ type: 'missing', loc: ['body', 'content'] }]);
    expect(await details({ content: '' })).toMatchObject([
      { type: 'string_too_short', loc: ['body', 'content'], ctx: { min_length: 1 } },
    ]);
    expect(await details({ content: 5 })).toMatchObject([{ type: 'string_type', loc: ['body', 'content'] }]);
    expect(await details({ content: 'x', metadata: { a: 'y'.repeat(20_000) } })).toMatchObject([
      { type: 'value_error', loc: ['body', 'metadata'] },
    ]);

    const stored = await api.ok('org', 'POST', `/v1/findings/${'c'.repeat(256)}`, {
      content: '😀'.repeat(8_001),
      file_path: '漢'.repeat(600),
      finding_type: 't'.repeat(100),
      metadata: null,
    });
    const { findings } = await api.ok(
      'org',
      'GET',
      `/v1/findings/${'c'.repeat(256)}?file_path=${encodeURIComponent('漢'.repeat(600))}`,
    );
    expect(findings).toMatchObject([
      {
        finding_id: stored.finding_id,
        content: '😀'.repeat(8_000),
        file_path: '漢'.repeat(512),
        finding_type: 't'.repeat(64),
        metadata: {},
      },
    ]);
    await api.ok('org', 'POST', `${path}/recall`, { query: 'q '.repeat(5_000), top_k: 50 });
    await api.ok('org', 'POST', `${path}/coverage`, { file_paths: Array(FINDING_PATHS).fill('a') });
    const odd = encodeURIComponent('ein Ordner/é 漢 😀');
    await api.ok('org', 'POST', `/v1/findings/${odd}`, { content: 'x' });
    expect((await api.ok('org', 'GET', `/v1/findings/${odd}`)).total).toBe(1);
  });

  it('are stored without the keys in them', async () => {
    const disk: MemoryTableDisk = new Map();
    await using api = new Process(disk);
    const secret = ['sk-ant-', 'api03-', 'Qw7'.repeat(30), 'AA'].join('');
    await api.ok('org', 'POST', '/v1/findings/c', {
      content: `the key is ${secret}`,
      file_path: `x/${secret}`,
      finding_type: secret,
      metadata: { [secret]: secret, deep: [{ token: secret }] },
    });
    const stored = JSON.stringify([...disk].map(([table, rows]) => [table, ...rows]));
    expect(stored).not.toContain(secret.slice(0, 30));
    expect(JSON.stringify(await api.ok('org', 'GET', '/v1/findings/c'))).not.toContain(secret.slice(0, 30));
  });

  it('are limited: a new one replaces the one unused for longest', {
    tags: 'long',
  }, async () => {
    await using api = new Process();
    const codebase = { org_id: 'org', codebase_id: 'c' };
    await fillCodebase(api, codebase, FINDINGS_PER_CODEBASE, (seq) => `word${seq}`);
    const total = async (path = '') =>
      (await api.ok('org', 'GET', `/v1/findings/c?limit=1${path === '' ? '' : `&file_path=${path}`}`)).total;
    // The oldest finding is recalled and the second one is read by its id, so the third one is removed.
    const recalled = await api.ok('org', 'POST', '/v1/findings/c/recall', { query: 'word0', file_path: '0' });
    expect(recalled.findings).toHaveLength(1);
    await api.ok('org', 'GET', '/v1/findings/c/find_1');
    await api.ok('org', 'POST', '/v1/findings/c', { content: 'more' });
    expect(await Promise.all(['', '0', '1', '2', '3'].map(total))).toEqual([
      FINDINGS_PER_CODEBASE,
      1,
      1,
      0,
      1,
    ]);
    // Each of the concurrent writes removes one old finding.
    const notes = Array.from({ length: 20 }, (_, n) => ({ content: `beside${n}` }));
    await Promise.all(notes.map((note) => api.ok('org', 'POST', '/v1/findings/c', note)));
    expect(await Promise.all(['', '22', '23'].map(total))).toEqual([FINDINGS_PER_CODEBASE, 0, 1]);
    // After an invalidation there is room for a new finding without removing another.
    await api.ok('org', 'POST', '/v1/findings/c/invalidate', { file_paths: ['9000'] });
    await api.ok('org', 'POST', '/v1/findings/c', { content: 'after' });
    expect(await Promise.all(['', '23'].map(total))).toEqual([FINDINGS_PER_CODEBASE, 1]);
    await api.ok('org', 'DELETE', '/v1/findings/c');
    expect((await api.ok('org', 'GET', '/v1/findings/c')).total).toBe(0);
  });
});

describe('a large code base', () => {
  it('gives the same results while its graph is being built and afterwards', { tags: 'long' }, async () => {
    await using api = new Process(new Map(), new WordEmbedder('words', 1_024));
    const codebase = { org_id: 'org', codebase_id: 'c' };
    const words = (seq: number) =>
      Array.from({ length: 8 }, (_, at) => `w${(seq * 7919 + at * 104_729 + seq * at * 31) % 5_003}`);
    await fillCodebase(api, codebase, 2_500, (seq) => words(seq).join(' '));
    const missed: number[] = [];
    for (let round = 0; round < 400; round++) {
      const seq = (round * 911) % 2_500;
      const { findings } = await api.ok('org', 'POST', '/v1/findings/c/recall', {
        query: words(seq).slice(0, 6).join(' '),
        file_path: round % 2 === 0 ? `${seq}` : null,
      });
      if (findings![0]?.content !== words(seq).join(' ')) missed.push(round);
    }
    expect(missed).toEqual([]);
  });
});

describe('tenants', () => {
  it('see and change only their own findings', { tags: 'long' }, async () => {
    const keys = ['a', 'a/p', 'a/q', 'b', 'b/p', 'static'] as const;
    const codebases = ['c', 'd'] as const;
    const action = fc.record({
      key: fc.constantFrom(...keys),
      codebase: fc.constantFrom(...codebases),
      /** The scope in the body, which counts only for keys without a scope. */
      org_id: fc.constantFrom(undefined, 'a', 'b'),
      project_id: fc.constantFrom(undefined, 'p', 'q'),
      act: fc.constantFrom('store', 'store', 'store', 'invalidate', 'clear', 'look'),
      word: fc.constantFrom('red', 'green', 'blue'),
    });
    interface Known {
      org: string;
      project: string;
      codebase: string;
      word: string;
    }
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 1, maxLength: 30 }), async (actions) => {
        await using api = new Process();
        let model: Known[] = [];
        for (const { key, codebase, org_id, project_id, act, word } of actions) {
          const [keyOrg, keyProject] = key === 'static' ? [] : key.split('/');
          const org = keyOrg ?? org_id ?? 'default';
          const scope = keyProject ?? project_id ?? null;
          const isSeen = (known: Known): boolean =>
            known.org === org && known.codebase === codebase && (scope === null || known.project === scope);
          const path = `/v1/findings/${codebase}`;
          const named = { org_id, project_id };
          const query = new URLSearchParams(JSON.parse(JSON.stringify(named)) as Record<string, string>);
          if (act === 'store') {
            await api.ok(key, 'POST', path, { ...named, content: word, file_path: `${word}.ts` });
            const added = { org, project: scope ?? 'default', codebase, word };
            if (!model.some((known) => JSON.stringify(known) === JSON.stringify(added))) model.push(added);
          } else if (act === 'invalidate') {
            const gone = model.filter((known) => isSeen(known) && known.word === word);
            const body = { ...named, file_paths: [`${word}.ts`] };
            expect(await api.ok(key, 'POST', `${path}/invalidate`, body)).toEqual({ deleted: gone.length });
            model = model.filter((known) => !gone.includes(known));
          } else if (act === 'clear') {
            await api.ok(key, 'DELETE', `${path}?${query}`);
            model = model.filter((known) => !isSeen(known));
          }
          const seen = model.filter(isSeen);
          const words = seen.map((known) => known.word);
          const listed = await api.ok(key, 'GET', `${path}?${query}`);
          expect(listed.total).toBe(seen.length);
          expect(contents(listed)).toEqual([...words].reverse());
          const recalled = await api.ok(key, 'POST', `${path}/recall`, { ...named, query: word, top_k: 50 });
          expect(contents(recalled)).toEqual(words.filter((other) => other === word));
          const file_paths = ['red.ts', 'green.ts'];
          const covered = file_paths.filter((file) => words.some((other) => `${other}.ts` === file));
          expect(await api.ok(key, 'POST', `${path}/coverage`, { ...named, file_paths })).toEqual({
            coverage: covered.length / 2,
          });
        }
      }),
      { numRuns: 60 },
    );
  });

  it('cannot be confused by their names', async () => {
    await using api = new Process();
    const pairs = [
      ['a', 'b'],
      ['a/b', 'c'],
      ['a"', 'b'],
      ['["a","b"]', 'c'],
      ['ab', ''],
    ].filter(([, codebase]) => codebase !== '');
    for (const [org_id, codebase] of pairs) {
      const path = `/v1/findings/${encodeURIComponent(codebase!)}`;
      await api.ok('static', 'POST', path, { org_id, content: `of ${org_id}` });
    }
    for (const [org_id, codebase] of pairs) {
      const path = `/v1/findings/${encodeURIComponent(codebase!)}?org_id=${encodeURIComponent(org_id!)}`;
      expect(contents(await api.ok('static', 'GET', path))).toEqual([`of ${org_id}`]);
    }
  });
});

describe('simultaneous requests', () => {
  it('have the same results as some sequence of them, and the answers match what is stored', {
    tags: 'long',
  }, async () => {
    const action = fc.record({
      act: fc.constantFrom(
        'store',
        'store',
        'store',
        'store',
        'invalidate',
        'clear',
        'recall',
        'list',
        'pause',
      ),
      project: fc.constantFrom('org/p', 'org/q'),
      word: fc.constantFrom('red', 'green', 'blue', 'white'),
      failing: fc.constantFrom('no', 'no', 'no', 'no', 'before', 'after' as const),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(action, { minLength: 2, maxLength: 60 }),
        fc.integer({ min: 0, max: 3 }),
        async (actions, turns) => {
          const disk: MemoryTableDisk = new Map();
          await using api = new Process(disk);
          api.tables.turns = turns;
          const stores: Promise<{ status: number; id: unknown; key: string; word: string }>[] = [];
          const others: Promise<{ status: number }>[] = [];
          const deleted = new Set<string>();
          for (const { act, project, word, failing } of actions) {
            if (act === 'pause') {
              api.tables.failing = failing;
              await Promise.all([stores[0], others.at(-1)]);
              continue;
            }
            if (act === 'store') {
              const sent = api.send(project, 'POST', '/v1/findings/c', { content: word, file_path: word });
              stores.push(
                sent.then(({ status, body }) => ({ status, id: body.finding_id, key: project, word })),
              );
            } else if (act === 'invalidate') {
              deleted.add(`${project} ${word}`);
              others.push(api.send(project, 'POST', '/v1/findings/c/invalidate', { file_paths: [word] }));
            } else if (act === 'clear') {
              for (const each of ['red', 'green', 'blue', 'white']) deleted.add(`${project} ${each}`);
              others.push(api.send(project, 'DELETE', '/v1/findings/c'));
            } else if (act === 'recall') {
              others.push(api.send(project, 'POST', '/v1/findings/c/recall', { query: word }));
            } else {
              others.push(api.send(project, 'GET', '/v1/findings/c'));
            }
          }
          const acknowledged = (await Promise.all(stores)).filter(({ status }) => status === 200);
          for (const { status } of await Promise.all(others)) expect([200, 503]).toContain(status);
          api.tables.failing = 'no';
          const now = await api.ok('org', 'GET', '/v1/findings/c');
          const keys = now.findings!.map(({ project_id, content }) => `${project_id} ${content}`);
          expect(new Set(keys).size, 'no finding is there twice').toBe(keys.length);
          for (const { id, key, word } of acknowledged) {
            if (deleted.has(`${key} ${word}`)) continue;
            expect(now.findings!.map(({ finding_id }) => finding_id)).toContain(id);
          }
          await using next = new Process(disk);
          expect(await next.ok('org', 'GET', '/v1/findings/c'), 'the rows say the same').toEqual(now);
          const row = next.tables.get<{ count: number }>(FINDINGS_CODEBASES, ['org', 'c']);
          expect(row?.count ?? 0).toBe(now.total);
          for (const finding of now.findings!) {
            const recalled = await api.ok('org', 'POST', '/v1/findings/c/recall', {
              query: finding.content,
              top_k: 50,
              score_threshold: 0.99,
            });
            expect(recalled.findings!.map(({ finding_id }) => finding_id)).toContain(finding.finding_id);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('write in parallel', async () => {
    await using api = new Process();
    await api.ok('org', 'GET', '/v1/findings/c');
    api.tables.turns = 3;
    const stores = Array.from({ length: 40 }, (_, at) =>
      api.ok('org', 'POST', '/v1/findings/c', { content: `number ${at}` }),
    );
    await stores[0];
    expect(api.tables.writes, 'all are on their way when the first has ended').toBe(40);
    const during = await api.ok('org', 'GET', '/v1/findings/c');
    expect(during.total as number, 'a question does not wait for them').toBeLessThan(40);
    await Promise.all(stores);
    expect((await api.ok('org', 'GET', '/v1/findings/c')).total).toBe(40);
  });
});

describe('in case of a failure', () => {
  it('a finding is stored without its vector while the model is down, and found once the model answers', async () => {
    await using api = new Process();
    api.embedder.isUp = false;
    for (let i = 0; i < 10; i++)
      await api.ok('org', 'POST', '/v1/findings/c', { content: `finding number ${i}` });
    expect((await api.ok('org', 'GET', '/v1/findings/c')).total).toBe(10);
    expect(
      (await api.send('org', 'POST', '/v1/findings/c/recall', { query: 'finding number 3' })).status,
    ).toBe(503);
    api.embedder.isUp = true;
    await api.embedding.settled();
    const recalled = await api.ok('org', 'POST', '/v1/findings/c/recall', {
      query: 'finding number 3',
      top_k: 1,
    });
    expect(contents(recalled)).toEqual(['finding number 3']);
    expect([...api.client.outdated()]).toEqual([]);
  });

  it('a changed model embeds all findings again in the background, from the start of the process', async () => {
    const disk: MemoryTableDisk = new Map();
    {
      await using api = new Process(disk);
      for (const codebase of ['c', 'd'])
        for (let i = 0; i < 8; i++)
          await api.ok('org', 'POST', `/v1/findings/${codebase}`, { content: `finding number ${i}` });
      expect([...api.client.outdated()]).toEqual([]);
    }
    await using api = new Process(disk, new WordEmbedder('words-2', 32));
    expect([...api.client.outdated()].map(({ codebase_id }) => codebase_id)).toEqual(['c', 'd']);
    expect(
      contents(await api.ok('org', 'POST', '/v1/findings/c/recall', { query: 'finding number 3' })),
    ).toEqual([]);
    api.embedding.tendAll();
    await api.embedding.settled();
    expect([...api.client.outdated()]).toEqual([]);
    for (const codebase of ['c', 'd']) {
      const recalled = await api.ok('org', 'POST', `/v1/findings/${codebase}/recall`, {
        query: 'finding number 3',
        top_k: 1,
      });
      expect(contents(recalled)).toEqual(['finding number 3']);
    }
    expect(api.embedder.embedded).toBe(16 + 3);
  });

  it('a failed write gets a 503 and has either changed nothing or all; the next request sees which', async () => {
    await using api = new Process();
    await api.ok('org', 'POST', '/v1/findings/c', { content: 'kept', file_path: 'kept.ts' });
    const total = async () => (await api.ok('org', 'GET', '/v1/findings/c')).total;
    const tries: [string, string, unknown][] = [
      ['POST', '/v1/findings/c', { content: 'new' }],
      ['POST', '/v1/findings/c/invalidate', { file_paths: ['kept.ts'] }],
      ['DELETE', '/v1/findings/c', undefined],
    ];
    api.tables.failing = 'before';
    for (const [method, path, body] of tries) {
      const reply = await api.send('org', method, path, body);
      expect(reply.status).toBe(503);
      expect(reply.headers['retry-after']).toBe('1');
      expect(JSON.stringify(reply.body)).not.toContain('disk');
      expect(await total()).toBe(1);
    }
    api.tables.failing = 'after';
    expect((await api.send('org', 'POST', '/v1/findings/c', { content: 'new' })).status).toBe(503);
    api.tables.failing = 'no';
    expect(await total()).toBe(2);
    await api.ok('org', 'POST', '/v1/findings/c', { content: 'new' });
    expect(await total(), 'the retry of a store that happened').toBe(2);
    api.tables.failing = 'after';
    expect(
      (await api.send('org', 'POST', '/v1/findings/c/invalidate', { file_paths: ['kept.ts'] })).status,
    ).toBe(503);
    api.tables.failing = 'no';
    expect(await total()).toBe(1);
    const recalled = await api.ok('org', 'POST', '/v1/findings/c/recall', {
      query: 'kept new',
      score_threshold: 0,
    });
    expect(contents(recalled)).toEqual(['new']);
  });
});
