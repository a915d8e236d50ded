/**
 * Every route of `/v1` that reads, tried with every kind of credential; then lists of several tenants compared with a
 * model, for any page sizes. The fixture checks each answer against its schema.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CHILD_KEY } from '../fixtures/api-child.ts';
import { type Answer, ControlPlaneChild, type Person, signToken } from '../fixtures/control-plane.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';

const api = new ControlPlaneChild({ VECTOR_STORE_URL: 'embedded:' });

/** A text in everything that the organization has written, and nowhere else. */
const MARK = 'only-ours';

interface Attempt {
  id: string;
  path(known: string): string;
  /** The id that is requested; '' for a list. */
  known: string;
  /** The answer to other tenants equals that for an unknown id: 404, or an empty report. */
  unknown_is: 404 | 200;
  /** All projects of the organization share the thing. */
  is_shared?: boolean;
}

interface Caller {
  credential: string;
  /** Only a JWT needs a query, which names the organization. Other credentials determine whose data is read. */
  query?: string;
  /** `ours`: all of the data. `none`: nothing. Otherwise the status of the refusal. */
  sees: 'ours' | 'none' | 401 | 404 | 422;
}

const attempts: Attempt[] = [];
const callers = new Map<string, Caller>();
let project: string;

async function write(credential: string, path: string, body: object): Promise<Answer['body']> {
  const answer = await api.call(credential, 'POST', path, body);
  expect(answer.status, `${path} ${answer.text}`).toBe(200);
  return answer.body;
}

beforeAll(async () => {
  await api.start();
  const owner = await api.person('reader-owner');
  const { org_id } = owner;
  const create = async (path: string, body: object) => (await api.call(owner.token, 'POST', path, body)).body;
  project = (await create(`/projects/?org_id=${org_id}`, { name: 'one' })).id;
  const other = (await create(`/projects/?org_id=${org_id}`, { name: 'two' })).id;
  const newKey = async (project_id?: string) =>
    (await create('/api-keys/', { name: 'k', org_id, project_id })) as { id: string; raw_key: string };
  const inside = await newKey(project);

  await write(inside.raw_key, '/v1/monitor/runs', {
    run_id: `run-${MARK}`,
    task: MARK,
    experiment_id: `exp-${MARK}`,
    arm: 'on',
  });
  await write(inside.raw_key, `/v1/monitor/runs/run-${MARK}/steps`, { step_index: 0, action: MARK });
  const told = { 'session.id': `run-${MARK}`, tool_name: `told-${MARK}`, tool_use_id: 't', success: 'true' };
  const attributes = Object.entries(told).map(([key, stringValue]) => ({ key, value: { stringValue } }));
  const logRecords = [{ body: { stringValue: 'claude_code.tool_result' }, attributes }];
  await write(inside.raw_key, '/otel/v1/logs', { resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
  await write(inside.raw_key, '/v1/traces', { trace_id: `trace-${MARK}`, outcome: 'success', steps: [] });
  const { patterns } = await write(inside.raw_key, '/v1/patterns', {
    tier: 'e1',
    patterns: [{ situation: `a thing that is ${MARK}`, dead_ends: '', unlock: MARK }],
  });
  const { finding_id } = await write(inside.raw_key, `/v1/findings/base-${MARK}`, { content: MARK });
  await write(inside.raw_key, '/v1/monitor/profiles', { name: `profile-${MARK}`, weights: {} });
  const single = (id: string, path: Attempt['path'], known: string, unknown_is: 404 | 200 = 404) =>
    attempts.push({ id, path, known, unknown_is });
  const list = (id: string, path: string) => single(id, () => path, '', 200);
  list('listRuns', '/v1/monitor/runs');
  list('listRunValues', '/v1/monitor/run-values?field=experiment');
  single('readRun', (run) => `/v1/monitor/runs/${run}`, `run-${MARK}`);
  single('listRunSteps', (run) => `/v1/monitor/runs/${run}/steps`, `run-${MARK}`);
  single('readRunMarks', (run) => `/v1/runs/${run}/marks`, `run-${MARK}`);
  list('listTraces', '/v1/traces');
  single('readTrace', (trace) => `/v1/traces/${trace}`, `trace-${MARK}`);
  list('list_patterns', `/v1/patterns?tier=e1&project_id=${project}`);
  single(
    'read_pattern',
    (pattern) => `/v1/patterns/${pattern}?project_id=${project}`,
    patterns[0].pattern_id,
  );
  list('listExperiments', '/v1/monitor/experiments');
  single('reportExperiment', (known) => `/v1/monitor/experiments/${known}/report`, `exp-${MARK}`, 200);
  list('list_codebases', '/v1/findings');
  single('list_findings', (known) => `/v1/findings/${known}`, `base-${MARK}`, 200);
  list('exportRuns', '/v1/export/runs?format=jsonl');
  list('exportTraces', '/v1/export/traces?format=jsonl');
  list('exportPatterns', `/v1/export/patterns?format=jsonl&tier=e1&project_id=${project}`);
  single('exportFindings', (known) => `/v1/export/findings/${known}?format=jsonl`, `base-${MARK}`, 200);
  attempts.push({
    id: 'listProfiles',
    path: () => '/v1/monitor/profiles',
    known: '',
    unknown_is: 200,
    is_shared: true,
  });
  single('read_finding', (finding) => `/v1/findings/base-${MARK}/${finding}`, finding_id);

  const revoked = await newKey();
  await api.call(owner.token, 'DELETE', `/api-keys/${revoked.id}`);
  const stranger = await api.person('reader-stranger');
  const strangerKey = (
    await api.call(stranger.token, 'POST', '/api-keys/', { name: 'k', org_id: stranger.org_id })
  ).body.raw_key as string;
  const jwt = (person: Person): Caller => ({
    credential: person.token,
    query: `org_id=${org_id}&project_id=${project}`,
    sees: 'ours',
  });
  for (const [name, caller] of Object.entries<Caller>({
    stranger: { credential: '', sees: 401 },
    nonsense: { credential: 'nonsense', sees: 401 },
    'a forged token': { credential: await signToken(owner.name, { secret: 'another' }), sees: 401 },
    'an expired token': { credential: await signToken(owner.name, { expires_in_s: -1 }), sees: 401 },
    'a revoked key': { credential: revoked.raw_key, sees: 401 },
    'a mistyped key': { credential: `${inside.raw_key.slice(0, -4)}zzzz`, sees: 401 },
    "the project's key": { credential: inside.raw_key, sees: 'ours' },
    "the organization's key": {
      credential: (await newKey()).raw_key,
      query: `project_id=${project}`,
      sees: 'ours',
    },
    "another project's key": { credential: (await newKey(other)).raw_key, sees: 'none' },
    // The project in the query is ignored.
    "another project's key that names this one": {
      credential: (await newKey(other)).raw_key,
      query: `project_id=${project}&org_id=${org_id}`,
      sees: 'none',
    },
    "a stranger's key": { credential: strangerKey, query: `org_id=${org_id}`, sees: 'none' },
    'a stranger': { credential: stranger.token, query: `org_id=${org_id}`, sees: 404 },
    'a stranger at home': { credential: stranger.token, query: `org_id=${stranger.org_id}`, sees: 'none' },
    'a static key': { credential: CHILD_KEY, query: `org_id=${org_id}`, sees: 'ours' },
    'a static key elsewhere': { credential: CHILD_KEY, sees: 'none' },
    'a user who names no organization': { credential: owner.token, sees: 422 },
    'the owner': jwt(owner),
  }))
    callers.set(name, caller);
  for (const role of ['admin', 'member', 'viewer']) {
    const person = await api.person(`reader-${role}`);
    await api.join(owner, org_id, person, role);
    callers.set(`a ${role}`, jwt(person));
  }
});
afterAll(() => api[Symbol.asyncDispose]());

function ask({ credential, query }: Caller, path: string): Promise<Answer> {
  const more = query === undefined ? '' : `${path.includes('?') ? '&' : '?'}${query}`;
  return api.call(credential, 'GET', path + more);
}

const readable = ({ status, text, headers }: Answer) => ({
  status,
  text,
  headers: [...headers].filter(([name]) => !/^(date|x-request-id|ratelimit|x-ratelimit)/.test(name)),
});

describe('every route of /v1 that reads', () => {
  it('is covered by these tests', async () => {
    const declared = (await loadDeclaredEndpoints()).filter(
      ({ auth, method, path, hidden }) =>
        auth === 'bearer' && method === 'GET' && path.startsWith('/v1/') && hidden !== true,
    );
    // The stream has separate tests: test/api/stream-credentials.test.ts.
    const ids = declared.map(({ id }) => id).filter((id) => id !== 'live_stream');
    expect(attempts.map(({ id }) => id).sort()).toEqual(ids.sort());
  });

  it('shows each principal only its own data, and answers all other ids as unknown ones', async () => {
    for (const { id, path, known, unknown_is, is_shared } of attempts) {
      for (const [who, caller] of callers) {
        const where = `${id} as ${who}`;
        const answer = await ask(caller, path(known));
        const sees = is_shared && who.startsWith("another project's") ? 'ours' : caller.sees;
        if (typeof sees === 'number') {
          expect(answer.status, where).toBe(sees);
          expect(answer.text, where).not.toContain(MARK);
        } else if (sees === 'ours') {
          expect(answer.status, `${where} ${answer.text}`).toBe(200);
          expect(answer.text, where).toContain(MARK);
        } else {
          expect(answer.status, `${where} ${answer.text}`).toBe(unknown_is);
          if (known === '') {
            expect(answer.text, where).not.toContain(MARK);
            continue;
          }
          // The answers are equal except for the id, which a report repeats.
          const unknown = await ask(caller, path(known.replace(/.$/, '~')));
          const [foreign, none] = [answer, unknown].map(readable);
          const same = foreign!.text.replaceAll(known, known.replace(/.$/, '~'));
          expect({ ...foreign, text: same, headers: [] }, where).toEqual({ ...none, headers: [] });
        }
      }
    }
  });
});

describe('lists of several tenants', () => {
  const KINDS = ['run', 'trace', 'finding', 'experiment', 'pattern', 'profile'] as const;
  const PROJECTS = ['p1', 'p2', undefined];
  const write1 = fc.record({
    org: fc.nat({ max: 1 }),
    project: fc.constantFrom(...PROJECTS),
    kind: fc.constantFrom(...KINDS),
  });
  const SITUATIONS = [
    'the printer is out of cyan ink',
    'a violin concerto in four movements',
    'tax law of medieval Venice',
    'TypeError: undefined is not a function',
    'sourdough that does not rise',
    'orbital period of a moon',
  ];
  let worlds = 0;

  async function readAll(path: string, field: string, limit: number): Promise<Record<string, string>[]> {
    const items: Record<string, string>[] = [];
    let cursor = '';
    do {
      const answer = await api.call(
        CHILD_KEY,
        'GET',
        `${path}&limit=${limit}&cursor=${encodeURIComponent(cursor)}`,
      );
      expect(answer.status, answer.text).toBe(200);
      expect(answer.body[field].length).toBeLessThanOrEqual(limit);
      items.push(...answer.body[field]);
      cursor = answer.body.next_cursor ?? '';
    } while (cursor !== '');
    return items;
  }

  async function compareLists(numRuns: number): Promise<void> {
    await fc.assert(
      fc.asyncProperty(
        fc.array(write1, { minLength: 1, maxLength: 25 }),
        fc.integer({ min: 1, max: 6 }),
        async (writes, limit) => {
          const world = ++worlds;
          const orgs = [`org-${world}-a`, `org-${world}-b`];
          const made: { org: string; project: string | undefined; kind: string; id: string }[] = [];
          for (const [at, { org, project, kind }] of writes.entries()) {
            const id = `${kind}-${at}`;
            const place = { org_id: orgs[org]!, ...(project === undefined ? {} : { project_id: project }) };
            if (kind === 'trace')
              await write(CHILD_KEY, '/v1/traces', { ...place, trace_id: id, outcome: 'success', steps: [] });
            else if (kind === 'finding')
              await write(CHILD_KEY, '/v1/findings/base', { ...place, content: id });
            else if (kind === 'profile')
              await write(CHILD_KEY, '/v1/monitor/profiles', { org_id: orgs[org], name: id, weights: {} });
            else if (kind === 'pattern') {
              const patterns = [{ situation: SITUATIONS[at % SITUATIONS.length], dead_ends: '', unlock: id }];
              const added = await write(CHILD_KEY, '/v1/patterns', { ...place, tier: 'e1', patterns });
              // An equal pattern is merged into the first one.
              if (added.created === 0) continue;
              const { pattern_id } = added.patterns[0];
              made.push({ org: orgs[org]!, project: project ?? 'default', kind, id: pattern_id });
              continue;
            } else
              await write(CHILD_KEY, '/v1/monitor/runs', {
                ...place,
                run_id: id,
                ...(kind === 'experiment' ? { experiment_id: id, arm: 'on' } : {}),
              });
            // Runs and findings without a project belong to the project `default`.
            const projectId = kind === 'trace' ? project : (project ?? 'default');
            made.push({ org: orgs[org]!, project: projectId, kind, id });
          }
          made.reverse();
          for (const org of orgs) {
            for (const project of ['p1', 'p2', 'default', undefined]) {
              const query = `?org_id=${org}${project === undefined ? '' : `&project_id=${project}`}`;
              const mine = (...kinds: string[]) =>
                made
                  .filter((record) => record.org === org && kinds.includes(record.kind))
                  .filter((record) => project === undefined || record.project === project)
                  .map(({ id }) => id);
              const ids = (items: Record<string, string>[], name: string) => items.map((item) => item[name]);
              const runs = await readAll(`/v1/monitor/runs${query}`, 'runs', limit);
              // Runs that began in the same millisecond are ordered by id.
              expect(ids(runs, 'run_id').sort()).toEqual(mine('run', 'experiment').sort());
              const times = ids(runs, 'started_at');
              expect(times).toEqual([...times].sort().reverse());
              const traces = await readAll(`/v1/traces${query}`, 'traces', limit);
              expect(ids(traces, 'trace_id').sort()).toEqual(mine('trace').sort());
              const findings = await readAll(`/v1/findings/base${query}`, 'findings', limit);
              expect(ids(findings, 'content')).toEqual(mine('finding'));
              const bases = await readAll(`/v1/findings${query}`, 'codebases', limit);
              expect(ids(bases, 'codebase_id')).toEqual(mine('finding').length > 0 ? ['base'] : []);
              const experiments = await readAll(`/v1/monitor/experiments${query}`, 'experiments', limit);
              expect(ids(experiments, 'experiment_id')).toEqual(mine('experiment').sort().reverse());
              if (project !== undefined) {
                const patterns = await readAll(`/v1/patterns${query}&tier=e1`, 'patterns', limit);
                expect(ids(patterns, 'pattern_id')).toEqual(mine('pattern').sort().reverse());
              }
              const profiles = await readAll(`/v1/monitor/profiles?org_id=${org}`, 'profiles', limit);
              const own = profiles.filter(({ is_built_in }) => !is_built_in);
              const named = made.filter((record) => record.org === org && record.kind === 'profile');
              expect(ids(own, 'name')).toEqual(named.map(({ id }) => id).sort());
              // A time splits each list into two parts without common rows.
              const cut =
                runs[runs.length >> 1]?.started_at ?? traces[0]?.submitted_at ?? findings[0]?.created_at;
              if (cut === undefined) continue;
              for (const [path, field, name, time] of [
                ['/v1/monitor/runs', 'runs', 'run_id', 'started_at'],
                ['/v1/traces', 'traces', 'trace_id', 'submitted_at'],
                ['/v1/findings/base', 'findings', 'content', 'created_at'],
              ] as const) {
                const all = { runs, traces, findings }[field];
                const [late, early] = [
                  await readAll(`${path}${query}&from=${cut}`, field, limit),
                  await readAll(`${path}${query}&to=${cut}`, field, limit),
                ];
                expect(ids([...late, ...early], name), path).toEqual(ids(all, name));
                expect(late.every((item) => item[time]! >= cut)).toBe(true);
                expect(early.every((item) => item[time]! < cut)).toBe(true);
              }
            }
          }
          // One tenant's cursor does not give access to another tenant's list.
          const [mine, foreign] = orgs;
          for (const [path, field, name] of [
            ['/v1/monitor/runs', 'runs', 'run_id'],
            ['/v1/traces', 'traces', 'trace_id'],
            ['/v1/findings/base', 'findings', 'finding_id'],
            ['/v1/monitor/experiments', 'experiments', 'experiment_id'],
            ['/v1/findings', 'codebases', 'codebase_id'],
          ] as const) {
            const first = await api.call(CHILD_KEY, 'GET', `${path}?org_id=${mine}&limit=1`);
            const cursor = first.body.next_cursor;
            if (cursor === null) continue;
            const answer = await api.call(CHILD_KEY, 'GET', `${path}?org_id=${foreign}&cursor=${cursor}`);
            expect(answer.status).toBe(200);
            const own = await readAll(`${path}?org_id=${foreign}`, field, 50);
            const known = new Set(own.map((item) => JSON.stringify(item)));
            for (const item of answer.body[field])
              expect(known.has(JSON.stringify(item)), `${path} ${item[name]}`).toBe(true);
          }
        },
      ),
      { numRuns },
    );
  }

  it('contain what each tenant wrote, once, newest first, at any page size', () => compareLists(3));

  it('contain what each tenant wrote, in many more random cases', { tags: 'long' }, () => compareLists(12));

  it('refuse bad cursors and times with an error that names the parameter', async () => {
    const paths = [
      '/v1/monitor/runs',
      '/v1/traces',
      '/v1/patterns',
      '/v1/monitor/experiments',
      '/v1/findings',
      '/v1/findings/base',
      '/v1/monitor/profiles',
    ];
    const wrong = [
      'no-cursor',
      Buffer.from('[1e999]').toString('base64url'),
      Buffer.from('{}').toString('base64url'),
    ];
    const odd = Buffer.from(JSON.stringify(['\ud800'.repeat(9), -1, null])).toString('base64url');
    for (const path of paths) {
      for (const cursor of [...wrong, odd, 'A'.repeat(4_000)]) {
        const { status, body } = await api.call(CHILD_KEY, 'GET', `${path}?cursor=${cursor}`);
        expect(status, `${path} ${cursor.slice(0, 40)}`).toBe(422);
        expect(body.detail[0].loc).toEqual(['query', 'cursor']);
      }
      if (path === '/v1/monitor/experiments' || path === '/v1/findings' || path === '/v1/monitor/profiles')
        continue;
      for (const name of ['from', 'to']) {
        const { status, body } = await api.call(CHILD_KEY, 'GET', `${path}?${name}=yesterday`);
        expect(status, `${path} ${name}`).toBe(422);
        expect(body.detail[0].loc).toEqual(['query', name]);
      }
    }
  });
});
