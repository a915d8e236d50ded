/**
 * Every route of `/v1` that deletes one thing, tried with every kind of credential, in a separate process: who may
 * delete it, what a stranger gets, the entry in the audit log, and that the deleted thing can be made again.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CHILD_KEY } from '../fixtures/api-child.ts';
import { type Answer, ControlPlaneChild, type Person, signToken } from '../fixtures/control-plane.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';

const api = new ControlPlaneChild({ VECTOR_STORE_URL: 'embedded:' });

/** A kind of thing that can be deleted. */
interface Kind {
  id: string;
  action: string;
  /** Creates a thing with the project's key. @returns its id */
  make(name: string): Promise<string>;
  path(id: string): string;
  /** The path of a list that contains the thing; null if the thing is read at its own path. */
  list: string | null;
  /** Whether a key of another project of the organization may delete the thing, too. */
  is_shared?: boolean;
}

interface Caller {
  credential: string;
  query: string;
  /** 204: the caller may delete the thing. 404: for the caller the thing does not exist. Others: refused. */
  status: 204 | 404 | 401 | 403 | 422;
}

let owner: Person;
let project: string;
let inside: string;
const callers = new Map<string, Caller>();

async function write(path: string, body: object): Promise<Answer['body']> {
  const answer = await api.call(inside, 'POST', path, body);
  expect(answer.status, `${path} ${answer.text}`).toBe(200);
  return answer.body;
}

const WORDS =
  'amber birch cedar delta ember fjord grove heath islet jetty knoll larch maple north oasis pearl'.split(
    ' ',
  );
let made = 0;

const KINDS: Kind[] = [
  {
    id: 'deleteRun',
    action: 'run.delete',
    make: async (run_id) => {
      await write('/v1/monitor/runs', { run_id, task: 'a task' });
      await write(`/v1/monitor/runs/${run_id}/steps`, { step_index: 0, action: 'look' });
      return run_id;
    },
    path: (id) => `/v1/monitor/runs/${id}`,
    list: null,
  },
  {
    id: 'deleteTrace',
    action: 'trace.delete',
    make: async (trace_id) => {
      await write('/v1/traces', { trace_id, outcome: 'success', steps: [] });
      return trace_id;
    },
    path: (id) => `/v1/traces/${id}`,
    list: null,
  },
  {
    id: 'delete_pattern',
    action: 'pattern.delete',
    make: async () => {
      // All situations differ, because similar patterns would be merged.
      const at = made++;
      const situation = `${WORDS[at % 16]} ${WORDS[(at >> 4) % 16]} ${at} ${WORDS[(at * 7 + 3) % 16]}${at}`;
      const { patterns } = await write('/v1/patterns', {
        tier: 'e1',
        patterns: [{ situation, dead_ends: '', unlock: 'u' }],
      });
      expect(patterns[0].created).toBe(true);
      return patterns[0].pattern_id;
    },
    path: (id) => `/v1/patterns/${id}`,
    list: null,
  },
  {
    id: 'delete_finding',
    action: 'finding.delete',
    make: async (content) => (await write('/v1/findings/base', { content })).finding_id,
    path: (id) => `/v1/findings/base/${id}`,
    list: null,
  },
  {
    id: 'deleteProfile',
    action: 'profile.delete',
    make: async (name) => (await write('/v1/monitor/profiles', { name, weights: {} })).name,
    path: (id) => `/v1/monitor/profiles/${id}`,
    list: '/v1/monitor/profiles',
    is_shared: true,
  },
];

async function isThere({ list, path }: Kind, id: string): Promise<boolean> {
  const answer = await api.call(inside, 'GET', list ?? path(id));
  return list === null ? answer.status === 200 : answer.text.includes(id);
}

beforeAll(async () => {
  await api.start();
  owner = await api.person('eraser-owner');
  const { org_id } = owner;
  const create = async (path: string, body: object) => (await api.call(owner.token, 'POST', path, body)).body;
  project = (await create(`/projects/?org_id=${org_id}`, { name: 'one' })).id;
  const other = (await create(`/projects/?org_id=${org_id}`, { name: 'two' })).id;
  const newKey = async (project_id?: string) =>
    (await create('/api-keys/', { name: 'k', org_id, project_id })) as { id: string; raw_key: string };
  inside = (await newKey(project)).raw_key;
  const revoked = await newKey();
  await api.call(owner.token, 'DELETE', `/api-keys/${revoked.id}`);
  const stranger = await api.person('eraser-stranger');
  const foreign = await api.call(stranger.token, 'POST', '/api-keys/', {
    name: 'k',
    org_id: stranger.org_id,
  });
  const [there, home] = [`org_id=${org_id}&project_id=${project}`, `org_id=${stranger.org_id}`];
  const add = (who: string, credential: string, query: string, status: Caller['status']) =>
    callers.set(who, { credential, query, status });
  add('stranger', '', '', 401);
  add('nonsense', 'nonsense', '', 401);
  add('a forged token', await signToken(owner.name, { secret: 'another' }), there, 401);
  add('an expired token', await signToken(owner.name, { expires_in_s: -1 }), there, 401);
  add('a revoked key', revoked.raw_key, '', 401);
  add("another project's key", (await newKey(other)).raw_key, '', 404);
  add("another project's key that names this one", (await newKey(other)).raw_key, there, 404);
  add("a stranger's key", foreign.body.raw_key, there, 404);
  add('a stranger', stranger.token, there, 404);
  add('a stranger at home', stranger.token, home, 404);
  add('a static key elsewhere', CHILD_KEY, '', 404);
  add('a user who names no organization', owner.token, '', 422);
  for (const [role, status] of [
    ['viewer', 403],
    ['member', 204],
    ['admin', 204],
  ] as const) {
    const person = await api.person(`eraser-${role}`);
    await api.join(owner, org_id, person, role);
    add(`a ${role}`, person.token, there, status);
  }
  add('the owner', owner.token, there, 204);
  add("the project's key", inside, '', 204);
  add("the organization's key", (await newKey()).raw_key, `project_id=${project}`, 204);
  add('a static key', CHILD_KEY, there, 204);
});
afterAll(() => api[Symbol.asyncDispose]());

function remove({ credential, query }: Caller, path: string): Promise<Answer> {
  return api.call(credential, 'DELETE', query === '' ? path : `${path}?${query}`);
}

const readable = ({ status, text, headers }: Answer) => ({
  status,
  text,
  headers: [...headers].filter(([name]) => !/^(date|x-request-id|ratelimit|x-ratelimit)/.test(name)),
});

describe('every route of /v1 that deletes one thing', () => {
  it('is covered by these tests', async () => {
    const declared = (await loadDeclaredEndpoints()).filter(
      ({ auth, method, path }) => auth === 'bearer' && method === 'DELETE' && path.startsWith('/v1/'),
    );
    // Other tests cover two routes: test/api/findings.test.ts the deletion of all findings of a code base, and
    // test/api/run-records.test.ts that of the marks of a run.
    const others = ['clear_findings', 'clearRunMarks'];
    const ids = declared.map(({ id }) => id).filter((id) => !others.includes(id));
    expect(KINDS.map(({ id }) => id).sort()).toEqual(ids.sort());
  });

  it.each(KINDS)(
    '$id works only for those who own the thing, and leaves an audit entry each time',
    async (kind) => {
      let id = await kind.make('thing-0');
      let deleted = 0;
      for (const [who, caller] of callers) {
        const where = `${kind.id} as ${who}`;
        const isSharer = kind.is_shared === true && who.startsWith("another project's");
        const status = isSharer ? 204 : caller.status;
        const unknown = await remove(caller, kind.path('thing-none'));
        const answer = await remove(caller, kind.path(id));
        expect(answer.status, `${where} ${answer.text}`).toBe(status);
        if (status !== 204) {
          expect(readable(answer), where).toEqual(readable(unknown));
          expect(await isThere(kind, id), where).toBe(true);
          continue;
        }
        expect(answer.text, where).toBe('');
        expect(unknown.status, where).toBe(404);
        expect(await isThere(kind, id), where).toBe(false);
        const again = await remove(caller, kind.path(id));
        expect(readable(again), where).toEqual(readable(unknown));
        deleted++;
        id = await kind.make(`thing-${deleted}`);
      }
      const log = await api.call(owner.token, 'GET', `/organizations/${owner.org_id}/audit-log?limit=200`);
      const entries = log.body.filter(({ action }: { action: string }) => action === kind.action);
      expect(entries).toHaveLength(deleted);
      expect(entries.every(({ address }: { address: string }) => address === '127.0.0.1')).toBe(true);
      expect(new Set(entries.map(({ actor_type }: { actor_type: string }) => actor_type))).toEqual(
        new Set(['key', 'user', 'operator']),
      );
    },
  );

  it('frees the name for a new thing that has nothing of the first', async () => {
    const usage = () => api.call(owner.token, 'GET', `/usage?org_id=${owner.org_id}`);
    for (const kind of KINDS.filter(({ id }) => id === 'deleteRun' || id === 'deleteTrace')) {
      await kind.make('again');
      const before = (await usage()).text;
      expect((await api.call(inside, 'DELETE', kind.path('again'))).status).toBe(204);
      expect((await usage()).text).toBe(before);
      await kind.make('again');
    }
    const { body } = await api.call(inside, 'GET', '/v1/monitor/runs/again/steps');
    expect(body.steps).toHaveLength(1);
    const list = await api.call(inside, 'GET', '/v1/monitor/runs');
    expect(list.body.runs.filter(({ run_id }: { run_id: string }) => run_id === 'again')).toHaveLength(1);
  });

  it('does not affect a run that started with the deleted profile; a new run cannot use it', async () => {
    await write('/v1/monitor/profiles', { name: 'strict', weights: { semantic_loop: 3 } });
    await write('/v1/monitor/runs', { run_id: 'profiled', task_profile: 'strict' });
    expect((await api.call(inside, 'DELETE', '/v1/monitor/profiles/strict')).status).toBe(204);
    await write('/v1/monitor/runs/profiled/steps', { step_index: 0 });
    // A repeated start gets its first answer. A different start is checked again, and the profile is gone.
    const begun = { run_id: 'profiled', task_profile: 'strict' };
    expect((await api.call(inside, 'POST', '/v1/monitor/runs', begun)).status).toBe(200);
    const other = { ...begun, task: 'another' };
    expect((await api.call(inside, 'POST', '/v1/monitor/runs', other)).status).toBe(422);
    const refused = await api.call(inside, 'POST', '/v1/monitor/runs', {
      run_id: 'late',
      task_profile: 'strict',
    });
    expect(refused.status).toBe(422);
    expect((await api.call(inside, 'DELETE', '/v1/monitor/profiles/coding')).status).toBe(409);
  });

  it('does not delete patterns that all tenants share, unless the operator deletes one that it added', async () => {
    const universal = await api.call(CHILD_KEY, 'POST', '/v1/patterns', {
      tier: 'e3',
      patterns: [{ situation: 'zebra yonder xylem willow', dead_ends: '', unlock: 'u' }],
    });
    const [{ pattern_id }] = universal.body.patterns;
    expect((await api.call(inside, 'DELETE', `/v1/patterns/${pattern_id}`)).status).toBe(403);
    expect((await api.call(CHILD_KEY, 'DELETE', `/v1/patterns/${pattern_id}`)).status).toBe(204);
    const starters = await api.call(CHILD_KEY, 'GET', '/v1/patterns?tier=e3&limit=1');
    const [starter] = starters.body.patterns;
    expect((await api.call(CHILD_KEY, 'DELETE', `/v1/patterns/${starter.pattern_id}`)).status).toBe(409);
  });

  it('stays in effect when the process is killed right after the answer', { tags: 'long' }, async () => {
    const ids = new Map<Kind, string>();
    for (const kind of KINDS) ids.set(kind, await kind.make('killed'));
    for (const [kind, id] of ids) expect((await api.call(inside, 'DELETE', kind.path(id))).status).toBe(204);
    await api.kill();
    await api.start();
    for (const [kind, id] of ids) expect(await isThere(kind, id), kind.id).toBe(false);
    await KINDS[0]!.make('killed');
    expect((await api.call(inside, 'GET', '/v1/monitor/runs/killed/steps')).body.steps).toHaveLength(1);
  });
});
