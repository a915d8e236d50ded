/** The control plane over HTTP: users, organizations, projects, keys, permissions, and what other tenants learn. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Router } from '../../src/api/dispatch.ts';
import { isAllowed, type Permission } from '../../src/domain/permissions.ts';
import type { Role } from '../../src/domain/role.ts';
import { runHere } from '../cli/here.ts';
import { CHILD_KEY } from '../fixtures/api-child.ts';
import { type Answer, ControlPlaneChild, type Person, signToken } from '../fixtures/control-plane.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';
import { onOneDay, utcDay } from '../fixtures/one-day.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { sharedFile } from '../fixtures/shared.ts';

const api = new ControlPlaneChild();
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const id = (prefix: string) => expect.stringMatching(new RegExp(`^${prefix}_[0-9A-HJKMNP-TV-Z]{26}$`));

let people = 0;
const newPerson = () => api.person(`p${++people}`);

describe('feedback', () => {
  it('is stored without the secrets in it', async () => {
    const { token } = await newPerson();
    const key = `svc_live_${'aB1'.repeat(12)}`;
    const said = { message: `401 with ${key}; password: hunter22`, page: '/keys?token=short' };
    expect((await api.call(token, 'POST', '/feedback/', said)).status).toBe(200);
    const { stdout } = await runHere(['feedback', '--json'], { DATA_DIR: api.dir });
    expect(JSON.parse(stdout).feedback[0]).toMatchObject({
      message: '401 with [redacted]; password: [redacted]',
      page: '/keys?token=[redacted]',
    });
  });
});

describe('a person', () => {
  it('becomes one user with one organization, even if twenty first requests arrive at once', async () => {
    const token = await signToken('newcomer');
    const answers = await Promise.all(Array.from({ length: 20 }, () => api.call(token, 'GET', '/auth/me')));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers[0]!.body).toEqual({
      id: id('usr'),
      email: 'newcomer@example.com',
      display_name: 'newcomer',
      account_type: 'developer',
      onboarded: false,
    });
    const bootstrap = (await api.call(token, 'GET', '/auth/bootstrap')).body;
    expect(bootstrap).toEqual({
      profile: answers[0]!.body,
      organizations: [{ id: id('org'), name: 'newcomer', created_by: answers[0]!.body.id, created_at: TIME }],
      role: 'owner',
      subscription: {
        plan: 'free',
        status: 'none',
        current_period_start: null,
        current_period_end: null,
        cancel_at_period_end: false,
        intervention_cap: 50_000,
      },
      invitations: [],
    });
  });

  it('can change its profile, except for the fields that the service sets', async () => {
    const { token, id: user } = await newPerson();
    const patch = (body: unknown) => api.call(token, 'PATCH', '/auth/me', body);
    expect((await patch({ display_name: 'New', account_type: 'team', onboarded: true })).body).toMatchObject({
      display_name: 'New',
      account_type: 'team',
      onboarded: true,
    });
    expect((await patch({ display_name: null })).body.display_name).toBeNull();
    for (const [key, value] of Object.entries({
      id: 'usr_x',
      email: 'x@y.co',
      is_admin: true,
      __proto__x: 1,
    })) {
      const refused = await patch({ [key]: value });
      expect(refused.status).toBe(422);
      expect(refused.body.detail[0]).toMatchObject({ type: 'extra_forbidden', loc: ['body', key] });
    }
    expect((await patch({ account_type: 'king' })).body.detail[0].type).toBe('literal_error');
    expect((await api.call(token, 'GET', '/auth/me')).body).toMatchObject({ id: user, account_type: 'team' });
  });

  it('sees its change in bootstrap at once', async () => {
    const { token } = await newPerson();
    const bootstrap = async () => (await api.call(token, 'GET', '/auth/bootstrap')).body;
    expect((await bootstrap()).organizations).toHaveLength(1);
    await api.call(token, 'POST', '/organizations/', { name: 'Second' });
    expect((await bootstrap()).organizations.map(({ name }: { name: string }) => name)).toContain('Second');
    await api.call(token, 'PATCH', '/auth/me', { onboarded: true });
    expect((await bootstrap()).profile.onboarded).toBe(true);
  });
});

describe('an invitation', () => {
  it('adds a member with its role', async () => {
    const [owner, guest] = [await newPerson(), await newPerson()];
    const invite = (email: string, role?: string) =>
      api.call(owner.token, 'POST', `/organizations/${owner.org_id}/invite`, { email, role });
    const invited = await invite(guest.email.toUpperCase(), 'admin');
    expect(invited.body).toMatchObject({
      id: id('inv'),
      org_id: owner.org_id,
      role: 'admin',
      status: 'pending',
      invited_by: owner.id,
      organization_name: owner.name,
      inviter_name: owner.name,
      created_at: TIME,
      expires_at: TIME,
    });
    expect((await invite(guest.email)).text).toBe(invited.text);
    const shown = (await api.call(guest.token, 'GET', '/auth/bootstrap')).body.invitations;
    expect(shown.map((invitation: { id: string }) => invitation.id)).toEqual([invited.body.id]);

    const accept = `/organizations/invitations/${invited.body.id}/accept`;
    expect((await api.call(owner.token, 'POST', accept)).status).toBe(404);
    expect((await api.call(guest.token, 'POST', accept)).body.id).toBe(owner.org_id);
    expect((await api.call(guest.token, 'POST', accept)).status).toBe(404);
    expect((await invite(guest.email)).status).toBe(409);
    const members = await api.call(guest.token, 'GET', `/organizations/${owner.org_id}/members`);
    expect(members.headers.get('x-total-count')).toBe('2');
    expect(members.body).toEqual(
      expect.arrayContaining([
        { user_id: guest.id, email: guest.email, role: 'admin', joined_at: TIME },
        { user_id: owner.id, email: owner.email, role: 'owner', joined_at: TIME },
      ]),
    );
  });

  it('that was revoked adds no member', async () => {
    const [owner, guest] = [await newPerson(), await newPerson()];
    const base = `/organizations/${owner.org_id}`;
    const invited = await api.call(owner.token, 'POST', `${base}/invite`, { email: guest.email });
    const path = `${base}/invitations/${invited.body.id}`;
    expect((await api.call(owner.token, 'DELETE', path)).body.status).toBe('revoked');
    expect(
      (await api.call(guest.token, 'POST', `/organizations/invitations/${invited.body.id}/accept`)).status,
    ).toBe(404);
    expect((await api.call(owner.token, 'DELETE', path)).body.status).toBe('revoked');
  });

  it('is neither shown to nor accepted from a user whose address is not verified', async () => {
    const owner = await newPerson();
    const name = 'unproven';
    const invited = await api.call(owner.token, 'POST', `/organizations/${owner.org_id}/invite`, {
      email: `${name}@example.com`,
    });
    const liar = await api.person(name, { claims: { email_verified: false } });
    expect((await api.call(liar.token, 'GET', '/auth/bootstrap')).body.invitations).toEqual([]);
    const accept = `/organizations/invitations/${invited.body.id}/accept`;
    expect((await api.call(liar.token, 'POST', accept)).status).toBe(404);
  });
});

describe('an organization', () => {
  it('keeps an owner when members leave', async () => {
    const [owner, second] = [await newPerson(), await newPerson()];
    const member = (person: Person) => `/organizations/${owner.org_id}/members/${person.id}`;
    expect((await api.call(owner.token, 'DELETE', member(owner))).status).toBe(409);
    expect((await api.call(owner.token, 'PATCH', member(owner), { role: 'admin' })).status).toBe(409);
    await api.join(owner, owner.org_id, second, 'admin');
    expect((await api.call(second.token, 'PATCH', member(second), { role: 'owner' })).status).toBe(403);
    expect((await api.call(second.token, 'DELETE', member(owner))).status).toBe(403);
    expect((await api.call(owner.token, 'PATCH', member(second), { role: 'owner' })).body.role).toBe('owner');
    // Both owners leave at once: only one of them can.
    const left = await Promise.all(
      [owner, second].map((person) => api.call(person.token, 'DELETE', member(person))),
    );
    expect(left.map(({ status }) => status).sort()).toEqual([200, 409]);
  });

  it('shows its admins who changed what, one entry for each change', async () => {
    const owner = await newPerson();
    const base = `/organizations/${owner.org_id}`;
    await api.call(owner.token, 'PATCH', base, { name: 'Renamed' });
    await api.call(owner.token, 'PATCH', base, { name: 'Renamed' });
    const key = (await api.call(owner.token, 'POST', '/api-keys/', { name: 'ci' })).body;
    await api.call(owner.token, 'DELETE', `/api-keys/${key.id}`);
    await api.call(owner.token, 'DELETE', `/api-keys/${key.id}`);
    expect((await api.call(owner.token, 'GET', base)).body).toMatchObject({
      id: owner.org_id,
      name: 'Renamed',
    });
    const log = await api.call(owner.token, 'GET', `${base}/audit-log`);
    expect(log.body.map((entry: { action: string }) => entry.action)).toEqual([
      'key.revoke',
      'key.create',
      'organization.rename',
      'organization.create',
    ]);
    expect(log.body[2]).toEqual({
      id: id('aud'),
      org_id: owner.org_id,
      actor: owner.id,
      actor_type: 'user',
      action: 'organization.rename',
      target: owner.org_id,
      before: { name: owner.name },
      after: { name: 'Renamed' },
      address: '127.0.0.1',
      created_at: TIME,
    });
    expect(log.text).not.toContain(key.raw_key);
  });
});

describe('a saved search', () => {
  it('is stored for its user in one organization until the user deletes it or leaves', async () => {
    const [owner, guest, stranger] = [await newPerson(), await newPerson(), await newPerson()];
    await api.join(owner, owner.org_id, guest, 'viewer');
    const at = `/organizations/${owner.org_id}/searches`;
    const save = (person: Person, query: string) => api.call(person.token, 'POST', at, { query });
    const list = async (person: Person) => (await api.call(person.token, 'GET', at)).body;
    const first = (await save(guest, ' status:failed "date parser" ')).body;
    expect(first).toEqual({ id: id('srch'), query: 'status:failed "date parser"', saved_at: TIME });
    expect((await save(guest, first.query)).body).toEqual(first);
    const second = (await save(guest, 'sort:cost')).body;
    expect(await list(guest)).toEqual([first, second]);
    expect(await list(owner)).toEqual([]);
    const own = `/organizations/${guest.org_id}/searches`;
    expect((await api.call(guest.token, 'GET', own)).body).toEqual([]);

    expect((await api.call(owner.token, 'DELETE', `${at}/${first.id}`)).body).toEqual({ removed: false });
    expect((await api.call(stranger.token, 'GET', at)).status).toBe(404);
    expect((await save(stranger, 'sort:cost')).status).toBe(404);
    expect((await api.call(guest.token, 'DELETE', `${at}/${first.id}`)).body).toEqual({ removed: true });
    expect(await list(guest)).toEqual([second]);
    await api.call(owner.token, 'DELETE', `/organizations/${owner.org_id}/members/${guest.id}`);
    expect((await api.call(guest.token, 'GET', at)).status).toBe(404);
    await api.join(owner, owner.org_id, guest, 'viewer');
    expect(await list(guest)).toEqual([]);
  });

  it('is refused with the reason: no query, a secret, too many', async () => {
    const { token, org_id } = await newPerson();
    const save = (query: string) => api.call(token, 'POST', `/organizations/${org_id}/searches`, { query });
    for (const query of ['', '  ', 'modle:opus', `"svc_live_${'aB1'.repeat(12)}"`, 'x'.repeat(2_001)])
      expect((await save(query)).status, query).toBe(422);
    expect((await save('modle:opus')).text).toContain('did you mean');
    for (let at = 0; at < 50; at++) expect((await save(`turns:${at}`)).status).toBe(200);
    expect((await save('turns:50')).status).toBe(409);
    expect((await save('turns:49')).status).toBe(200);
  });
});

describe('an API key', () => {
  const start = (key: string, body: object = {}) =>
    api.call(key, 'POST', '/v1/monitor/runs', { run_id: `run-${Math.random()}`, ...body });

  it('is shown once, works on /v1 in its own organization, and stops at once when it is revoked', async () => {
    const owner = await newPerson();
    const made = await api.call(owner.token, 'POST', '/api-keys', { name: 'ci', hash: 'x', org_id: null });
    expect(made.body).toEqual({
      id: id('key'),
      name: 'ci',
      raw_key: expect.stringMatching(/^svc_live_[0-9A-Za-z]{36}$/),
      prefix: made.body.raw_key.slice(0, 12),
      last4: made.body.raw_key.slice(-4),
    });
    expect((await start(made.body.raw_key, { org_id: 'another-org' })).status).toBe(200);
    // The last use is stored after the answer, not before it.
    const listed = await vi.waitFor(async () => {
      const answer = await api.call(owner.token, 'GET', '/api-keys/');
      expect(answer.body[0].last_used_at).toEqual(TIME);
      return answer;
    }, PATIENCE_MS);
    expect(listed.text).not.toContain(made.body.raw_key);
    expect(listed.body).toEqual([
      {
        id: made.body.id,
        name: 'ci',
        prefix: made.body.prefix,
        last4: made.body.last4,
        scope: 'organization',
        project_id: null,
        project_name: null,
        created_at: TIME,
        last_used_at: TIME,
        revoked: false,
      },
    ]);
    expect((await api.call(owner.token, 'DELETE', `/api-keys/${made.body.id}/`)).body.revoked).toBe(true);
    expect((await start(made.body.raw_key)).status).toBe(401);
    expect((await api.call(owner.token, 'GET', '/api-keys/')).body[0].revoked).toBe(true);
  });

  it('is rotated: at once, or with an overlap', async () => {
    const owner = await newPerson();
    const old = (await api.call(owner.token, 'POST', '/api-keys/', { name: 'ci', mode: 'test' })).body;
    expect(old.raw_key).toMatch(/^svc_test_/);
    const next = (await api.call(owner.token, 'POST', `/api-keys/${old.id}/rotate`, { overlap_seconds: 60 }))
      .body;
    expect((await start(old.raw_key)).status).toBe(200);
    expect((await start(next.raw_key)).status).toBe(200);
    expect(next.raw_key).toMatch(/^svc_test_/);
    const last = (await api.call(owner.token, 'POST', `/api-keys/${next.id}/rotate`, {})).body;
    expect((await start(next.raw_key)).status).toBe(401);
    expect((await start(last.raw_key)).status).toBe(200);
    expect((await api.call(owner.token, 'POST', `/api-keys/${next.id}/rotate`, {})).status).toBe(409);
    const over = await api.call(owner.token, 'POST', `/api-keys/${last.id}/rotate`, {
      overlap_seconds: 604_801,
    });
    expect(over.status).toBe(422);
  });

  it('of a project ends with the project, and remains listed', async () => {
    const owner = await newPerson();
    const project = (
      await api.call(owner.token, 'POST', `/projects/?org_id=${owner.org_id}`, { name: 'one' })
    ).body;
    expect(project).toEqual({
      id: id('proj'),
      org_id: owner.org_id,
      name: 'one',
      created_by: owner.id,
      created_at: TIME,
      key_count: 0,
    });
    const key = (await api.call(owner.token, 'POST', '/api-keys/', { name: 'p', project_id: project.id }))
      .body;
    const listed = async () => (await api.call(owner.token, 'GET', `/projects?org_id=${owner.org_id}`)).body;
    expect(await listed()).toEqual([{ ...project, key_count: 1 }]);
    const answer = await api.call(owner.token, 'GET', `/projects/${project.id}`);
    expect(answer.body).toEqual({ ...project, key_count: 1 });
    expect((await start(key.raw_key)).status).toBe(200);
    expect((await api.call(owner.token, 'DELETE', `/projects/${project.id}`)).body).toEqual({
      deleted: true,
      keys_revoked: 1,
    });
    expect((await start(key.raw_key)).status).toBe(401);
    expect(await listed()).toEqual([]);
    const [shown] = (await api.call(owner.token, 'GET', '/api-keys/')).body;
    expect(shown).toMatchObject({
      id: key.id,
      scope: 'project',
      project_id: project.id,
      project_name: null,
      revoked: true,
    });
  });

  it('counts its usage for its organization and project', () =>
    onOneDay(async () => {
      const owner = await newPerson();
      const project = (
        await api.call(owner.token, 'POST', `/projects/?org_id=${owner.org_id}`, { name: 'one' })
      ).body;
      const inside = (
        await api.call(owner.token, 'POST', '/api-keys/', { name: 'p', project_id: project.id })
      ).body;
      const all = (await api.call(owner.token, 'POST', '/api-keys/', { name: 'o' })).body;
      for (const { raw_key } of [inside, inside, all]) expect((await start(raw_key)).status).toBe(200);
      const usage = async (query: string) => (await api.call(owner.token, 'GET', `/usage/?${query}`)).body;
      const today = utcDay();
      expect(await usage('days=7')).toMatchObject({ days: 7, to: today, totals: { runs: 3, steps: 0 } });
      expect((await usage('')).series).toHaveLength(30);
      expect((await usage(`days=1&project_id=${project.id}`)).series).toEqual([
        expect.objectContaining({ date: today, runs: 2 }),
      ]);
      const stats = (await api.call(owner.token, 'GET', `/usage/stats?project_id=${project.id}`)).body;
      expect(stats).toEqual({
        key_count: 1,
        member_count: 1,
        injections: { total: 0, retrieve: 0, evaluate: 0 },
      });
    }));
});

describe('lists of the control plane', () => {
  it('have pages, newest first, with the total', async () => {
    const owner = await newPerson();
    const names = Array.from({ length: 7 }, (_, n) => `p${n}`);
    for (const name of names)
      await api.call(owner.token, 'POST', `/projects/?org_id=${owner.org_id}`, { name });
    const list = async (query: string) =>
      api.call(owner.token, 'GET', `/projects/?org_id=${owner.org_id}&${query}`);
    const shown = async (query: string) => (await list(query)).body.map((key: { name: string }) => key.name);
    expect(await shown('limit=3')).toEqual(['p6', 'p5', 'p4']);
    expect(await shown('limit=3&offset=5')).toEqual(['p1', 'p0']);
    expect(await shown('limit=0')).toEqual(['p6']);
    expect(await shown('offset=-5&limit=9999')).toHaveLength(7);
    expect((await list('limit=1&offset=100')).headers.get('x-total-count')).toBe('7');
    expect((await list('limit=x')).status).toBe(422);
  });
});

describe('every route', () => {
  interface Attempt {
    name: string;
    permission: Permission;
    /** @returns a request about a new object, which the owner creates for each try */
    request(): Promise<[method: string, path: string, body?: unknown]>;
  }

  let owner: Person;
  const members = new Map<Role, Person>();
  const credentials = new Map<string, string>();
  let attempts: Attempt[];

  beforeAll(async () => {
    owner = await newPerson();
    const { org_id } = owner;
    members.set('owner', owner);
    for (const role of ['admin', 'member', 'viewer'] as const) {
      const person = await newPerson();
      await api.join(owner, org_id, person, role);
      members.set(role, person);
    }
    const bystander = await newPerson();
    await api.join(owner, org_id, bystander, 'viewer');
    const create = async (path: string, body: object) =>
      (await api.call(owner.token, 'POST', path, body)).body;
    const project = await create(`/projects/?org_id=${org_id}`, { name: 'one' });
    const newProject = async () => (await create(`/projects/?org_id=${org_id}`, { name: 'gone' })).id;
    const newKey = () => create('/api-keys/', { name: 'k', org_id });
    const base = `/organizations/${org_id}`;
    const newInvitation = async () =>
      (await create(`${base}/invite`, { email: `i${++people}@example.com` })).id;
    const always = (method: string, path: string, body?: unknown) => async () =>
      [method, path, body] as [string, string, unknown];
    attempts = [
      {
        name: 'rename organization',
        permission: 'organization.rename',
        request: always('PATCH', base, { name: 'Ours' }),
      },
      {
        name: 'delete the organization',
        permission: 'organization.delete',
        request: async () => {
          const { id: doomed } = await create('/organizations/', { name: 'Doomed' });
          for (const [role, person] of members)
            if (role !== 'owner') await api.join(owner, doomed, person, role);
          return ['DELETE', `/organizations/${doomed}`];
        },
      },
      { name: 'list members', permission: 'members.read', request: always('GET', `${base}/members`) },
      {
        name: 'change role',
        permission: 'members.change_role',
        request: always('PATCH', `${base}/members/${bystander.id}`, { role: 'viewer' }),
      },
      {
        name: 'make an owner',
        permission: 'owners.change',
        request: always('PATCH', `${base}/members/${owner.id}`, { role: 'owner' }),
      },
      {
        name: 'remove a member',
        permission: 'members.remove',
        request: async () => {
          const guest = await newPerson();
          await api.join(owner, org_id, guest, 'viewer');
          return ['DELETE', `${base}/members/${guest.id}`];
        },
      },
      {
        name: 'invite',
        permission: 'invitations.create',
        request: always('POST', `${base}/invite`, { email: 'asked@example.com' }),
      },
      {
        name: 'list invitations',
        permission: 'invitations.read',
        request: always('GET', `${base}/invitations`),
      },
      {
        name: 'revoke an invitation',
        permission: 'invitations.revoke',
        request: async () => ['DELETE', `${base}/invitations/${await newInvitation()}`],
      },
      { name: 'read the organization', permission: 'organization.read', request: always('GET', base) },
      { name: 'audit log', permission: 'audit.read', request: always('GET', `${base}/audit-log`) },
      {
        name: 'list projects',
        permission: 'projects.read',
        request: always('GET', `/projects/?org_id=${org_id}`),
      },
      {
        name: 'create a project',
        permission: 'projects.create',
        request: always('POST', `/projects/?org_id=${org_id}`, { name: 'two' }),
      },
      {
        name: 'read a project',
        permission: 'projects.read',
        request: always('GET', `/projects/${project.id}`),
      },
      {
        name: 'rename a project',
        permission: 'projects.rename',
        request: always('PATCH', `/projects/${project.id}`, { name: 'one' }),
      },
      {
        name: 'delete a project',
        permission: 'projects.delete',
        request: async () => ['DELETE', `/projects/${await newProject()}`],
      },
      { name: 'list keys', permission: 'keys.read', request: always('GET', `/api-keys/?org_id=${org_id}`) },
      {
        name: 'create a key',
        permission: 'keys.create',
        request: always('POST', '/api-keys/', { name: 'k', org_id }),
      },
      {
        name: 'rotate a key',
        permission: 'keys.rotate',
        request: async () => ['POST', `/api-keys/${(await newKey()).id}/rotate`, {}],
      },
      {
        name: 'revoke a key',
        permission: 'keys.revoke',
        request: async () => ['DELETE', `/api-keys/${(await newKey()).id}`],
      },
      {
        name: 'usage stats',
        permission: 'usage.read',
        request: always('GET', `/usage/stats?org_id=${org_id}`),
      },
      { name: 'usage', permission: 'usage.read', request: always('GET', `/usage/?org_id=${org_id}`) },
      {
        name: 'usage of keys',
        permission: 'usage.read',
        request: always('GET', `/usage/keys?org_id=${org_id}`),
      },
      {
        name: 'subscription',
        permission: 'billing.read',
        request: always('GET', `/billing/subscription?org_id=${org_id}`),
      },
      {
        name: 'intervention usage',
        permission: 'billing.read',
        request: always('GET', `/billing/intervention-usage?org_id=${org_id}`),
      },
      {
        name: 'saved searches',
        permission: 'searches.keep',
        request: always('GET', `${base}/searches`),
      },
      {
        name: 'save a search',
        permission: 'searches.keep',
        request: always('POST', `${base}/searches`, { query: 'sort:cost' }),
      },
      {
        name: 'forget a search',
        permission: 'searches.keep',
        request: always('DELETE', `${base}/searches/srch_none`),
      },
      {
        name: 'checkout',
        permission: 'billing.change',
        request: always('POST', `/billing/create-checkout-session?lookup_key=pro&org_id=${org_id}`),
      },
      {
        name: 'portal',
        permission: 'billing.change',
        request: always('POST', `/billing/create-portal-session?org_id=${org_id}`),
      },
    ];

    const orgKey = await newKey();
    const revoked = await newKey();
    await api.call(owner.token, 'DELETE', `/api-keys/${revoked.id}`);
    const projectKey = await create('/api-keys/', { name: 'p', org_id, project_id: project.id });
    const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
    const unsigned = `${encode({ alg: 'none' })}.${encode({ sub: `sub-${owner.name}`, exp: 4e9 })}.`;
    for (const [name, credential] of [
      ['anonymous', ''],
      ['nonsense', 'nonsense'],
      ['a forged token', await signToken(owner.name, { secret: 'another' })],
      ['an expired token', await signToken(owner.name, { expires_in_s: -1 })],
      ['an unsigned token', unsigned],
      ['a revoked key', revoked.raw_key],
      ['a mistyped key', `${orgKey.raw_key.slice(0, -1)}${orgKey.raw_key.endsWith('0') ? '1' : '0'}`],
      ['a static key', CHILD_KEY],
      ["the organization's key", orgKey.raw_key],
      ["the project's key", projectKey.raw_key],
      ['a stranger', (await newPerson()).token],
    ] as const)
      credentials.set(name, credential);
    const gone = await newPerson();
    await api.join(owner, org_id, gone, 'admin');
    await api.call(owner.token, 'DELETE', `${base}/members/${gone.id}`);
    credentials.set('a former admin', gone.token);
  });

  it('is covered by these tests', async () => {
    const declared = await loadDeclaredEndpoints();
    const router = new Router(declared.map((endpoint) => ({ endpoint, handle: () => Promise.reject() })));
    const tried = new Set<string>();
    for (const { name, permission, request } of attempts) {
      const [method, path] = await request();
      const { endpoint } = router.find(method, path.split('?')[0]!).route;
      tried.add(endpoint.id);
      // Changing an owner requires more than the permission of the route.
      if (permission !== 'owners.change') expect(endpoint.permission, name).toBe(permission);
    }
    const all = declared.filter(({ permission }) => permission !== undefined && permission !== 'signed in');
    expect([...tried].sort()).toEqual(all.map(({ id }) => id).sort());
  });

  it('about the own account is open to every user, and to no key', async () => {
    const own: [method: string, path: string, body?: unknown][] = [
      ['GET', '/auth/me'],
      ['PATCH', '/auth/me', { onboarded: true }],
      ['GET', '/auth/bootstrap'],
      ['GET', '/organizations/'],
      ['POST', '/organizations/', { name: 'Another' }],
      ['POST', '/feedback/', { message: 'Good' }],
    ];
    for (const [method, path, body] of own) {
      for (const [who, credential] of credentials) {
        const { status } = await api.call(credential, method, path, body);
        const isKey = /key$/.test(who) && !/revoked|mistyped/.test(who);
        const expected = isKey ? 403 : /stranger|former/.test(who) ? 200 : 401;
        expect(status, `${method} ${path} as ${who}`).toBe(expected);
      }
      for (const [role, { token }] of members)
        expect((await api.call(token, method, path, body)).status, `${method} ${path} as ${role}`).toBe(200);
    }
    for (const [who, credential] of credentials) {
      if (/stranger|former/.test(who)) continue;
      const isKey = /key$/.test(who) && !/revoked|mistyped/.test(who);
      expect((await api.call(credential, 'DELETE', '/auth/me')).status, who).toBe(isKey ? 403 : 401);
    }
    const leaver = await newPerson();
    expect((await api.call(leaver.token, 'DELETE', '/auth/me')).status).toBe(204);
  });

  it('allows each principal exactly what the role table says', async () => {
    for (const { name, permission, request } of attempts) {
      // A refused request changes nothing, so all principals without the permission send the same request.
      const refused = await request();
      for (const [who, credential] of credentials) {
        const [method, path, body] = refused;
        const { status } = await api.call(credential, method, path, body);
        const expected =
          /key$/.test(who) && !/revoked|mistyped/.test(who) ? 403 : /stranger|former/.test(who) ? 404 : 401;
        expect(status, `${name} as ${who}`).toBe(expected);
      }
      for (const [role, { token }] of members) {
        const [method, path, body] = isAllowed(role, permission) ? await request() : refused;
        const { status } = await api.call(token, method, path, body);
        // Billing is not configured here, and callers with the permission get an error that says so.
        const done = permission === 'billing.change' ? 503 : permission === 'organization.delete' ? 204 : 200;
        expect(status, `${name} as ${role}`).toBe(isAllowed(role, permission) ? done : 403);
      }
    }
  });

  it('gives byte for byte the same answer to an id of another tenant as to an unknown id', async () => {
    const stranger = await newPerson();
    const there = await api.call(owner.token, 'GET', `/projects/?org_id=${owner.org_id}`);
    const project = there.body[0].id as string;
    const [key] = (await api.call(owner.token, 'GET', `/api-keys/?org_id=${owner.org_id}`)).body;
    const pairs: [method: string, path: (id: string) => string, known: string, body?: unknown][] = [
      ['PATCH', (id) => `/organizations/${id}`, owner.org_id, { name: 'x' }],
      ['GET', (id) => `/organizations/${id}`, owner.org_id],
      ['DELETE', (id) => `/organizations/${id}`, owner.org_id],
      ['GET', (id) => `/organizations/${id}/members`, owner.org_id],
      ['GET', (id) => `/organizations/${id}/audit-log`, owner.org_id],
      ['POST', (id) => `/organizations/${id}/invite`, owner.org_id, { email: 'a@b.co' }],
      ['GET', (id) => `/projects/?org_id=${id}`, owner.org_id],
      ['POST', (id) => `/projects/?org_id=${id}`, owner.org_id, { name: 'x' }],
      ['GET', (id) => `/projects/${id}`, project],
      ['PATCH', (id) => `/projects/${id}`, project, { name: 'x' }],
      ['DELETE', (id) => `/projects/${id}`, project],
      ['DELETE', (id) => `/api-keys/${id}`, key.id],
      ['POST', (id) => `/api-keys/${id}/rotate`, key.id, {}],
      ['GET', (id) => `/api-keys/?org_id=${id}`, owner.org_id],
      ['GET', (id) => `/api-keys/?project_id=${id}`, project],
      ['GET', (id) => `/usage/?org_id=${id}`, owner.org_id],
      ['GET', (id) => `/usage/?project_id=${id}`, project],
      ['GET', (id) => `/usage/keys?org_id=${id}`, owner.org_id],
      ['GET', (id) => `/usage/keys?project_id=${id}`, project],
      ['GET', (id) => `/usage/stats?project_id=${id}`, project],
      ['GET', (id) => `/billing/subscription?org_id=${id}`, owner.org_id],
      ['DELETE', (id) => `/organizations/${owner.org_id}/members/${id}`, owner.id],
    ];
    const readable = ({ status, text, headers }: Answer) => ({
      status,
      text,
      headers: [...headers].filter(([name]) => !/^(date|x-request-id|ratelimit)/.test(name)),
    });
    for (const [method, path, known, body] of pairs) {
      const unknown = `${known.slice(0, -4)}ZZZZ`;
      const [foreign, none] = [
        await api.call(stranger.token, method, path(known), body),
        await api.call(stranger.token, method, path(unknown), body),
      ];
      expect(foreign.status, `${method} ${path(known)}`).toBe(404);
      expect(readable(foreign)).toEqual(readable(none));
    }
  });

  it('ignores fields of a body that only the service may set', async () => {
    const { token, id: user } = await newPerson();
    const organization = await api.call(token, 'POST', '/organizations/', {
      name: 'Mine',
      id: 'org_mine',
      created_by: 'usr_other',
      created_at: '1999-01-01',
      plan: 'enterprise',
      role: 'owner',
    });
    expect(organization.body).toEqual({ id: id('org'), name: 'Mine', created_by: user, created_at: TIME });
    const project = await api.call(token, 'POST', `/projects/?org_id=${organization.body.id}`, {
      name: 'P',
      org_id: owner.org_id,
      key_count: 9,
    });
    expect(project.body).toMatchObject({ org_id: organization.body.id, key_count: 0 });
    const moved = await api.call(token, 'PATCH', `/projects/${project.body.id}`, {
      name: 'P',
      org_id: owner.org_id,
    });
    expect(moved.body.org_id).toBe(organization.body.id);
  });
});

const CASES = sharedFile('spec/validation-cases.json');
describe.skipIf(!CASES.is_there)(`the recorded validation cases ${CASES.needed}`, () => {
  it('get the same answers over the wire', async () => {
    const { token } = await newPerson();
    // biome-ignore lint/suspicious/noExplicitAny: recorded JSON
    const cases: any[] = JSON.parse(readFileSync(CASES.path, 'utf8'));
    for (const recorded of cases.filter(({ path }) => !path.startsWith('/v1/'))) {
      const { method, path, content_type, body_text, status, detail } = recorded;
      const response = await fetch(api.url + path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(content_type === null ? {} : { 'content-type': content_type }),
        },
        ...(body_text === null ? {} : { body: body_text }),
      });
      const answer = (await response.json()) as { detail: { type: string; loc: unknown; ctx?: object }[] };
      const what = `${method} ${path} ${String(body_text).slice(0, 80)}`;
      if (status === 200) {
        // The user is not a member of `o1`, so the check of the permission comes first.
        expect([200, 404, 422], what).toContain(response.status);
        expect(response.status !== 422 || /days=-1/.test(path), what).toBe(true);
        continue;
      }
      expect(response.status, what).toBe(status);
      if (!Array.isArray(detail)) continue;
      const shape = (violation: { type: string; loc: unknown; ctx?: object }) => ({
        type: violation.type,
        loc: violation.loc,
        ctx: violation.ctx && Object.keys(violation.ctx),
      });
      expect(answer.detail.map(shape), what).toEqual(detail.map(shape));
    }
  });
});

describe('an organization or a project that does not exist', () => {
  it.each(['', '\0', ' ', 'x\u202ey', 'org_01'])('gets a 404, whatever its name: %j', async (name) => {
    const { token, org_id } = await newPerson();
    const named = encodeURIComponent(name);
    for (const path of [
      `/api-keys/?org_id=${named}`,
      `/api-keys/?org_id=${org_id}&project_id=${named}`,
      `/projects/?org_id=${named}`,
      `/usage/?org_id=${named}`,
      `/usage/stats?project_id=${named}`,
      `/billing/subscription?org_id=${named}`,
      `/billing/intervention-usage?org_id=${named}`,
    ])
      expect((await api.call(token, 'GET', path)).status, path).toBe(404);
    for (const body of [{ org_id: name }, { org_id, project_id: name }])
      expect((await api.call(token, 'POST', '/api-keys/', { name: 'k', ...body })).status).toBe(404);
    const project = await api.call(token, 'POST', `/projects/?org_id=${named}`, { name: 'p' });
    expect(project.status).toBe(404);
  });
});
