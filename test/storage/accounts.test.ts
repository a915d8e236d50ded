/** The records of the control plane: what each change checks and leaves behind, on both kinds of tables. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { invitationStatus } from '../../src/domain/account.ts';
import type { Role } from '../../src/domain/role.ts';
import { listAudit, writeAudit } from '../../src/storage/accounts/audit.ts';
import { listFeedback, writeFeedback } from '../../src/storage/accounts/feedback.ts';
import {
  getInvitation,
  invite,
  listInvitations,
  pendingFor,
  settleInvitation,
} from '../../src/storage/accounts/invitations.ts';
import {
  addMember,
  changeRole,
  countMembers,
  createOrganization,
  getMember,
  listMembers,
  organizationsOf,
  removeMember,
  roleOf,
} from '../../src/storage/accounts/organizations.ts';
import {
  createProject,
  getProject,
  listProjects,
  removeProject,
} from '../../src/storage/accounts/projects.ts';
import { createUser, findUserId, getUser } from '../../src/storage/accounts/users.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import type { Tables } from '../../src/storage/tables.ts';

const NOW = Date.parse('2026-03-01T10:00:00.000Z');
const DAY_MS = 86_400_000;
const ALL = { limit: 200, offset: 0 };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'accounts-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe.each([
  { name: 'LMDB', open: (): Tables => new LmdbTables(join(folder, 'main.mdb'), 'disk') },
  { name: 'memory', open: (): Tables => new MemoryTables() },
])('accounts in $name', ({ open }) => {
  let tables: Tables;
  beforeEach(() => {
    tables = open();
  });
  afterEach(() => tables.close());

  const organization = () =>
    tables.transact((tx) => createOrganization(tx, { name: 'Ours', created_by: 'usr_a' }, NOW));
  const join_ = (org_id: string, user_id: string, role: Role) =>
    tables.transact((tx) => addMember(tx, { org_id, user_id, role }, NOW));

  it('know a user by issuer and subject together', async () => {
    const signIn = {
      issuer: 'https://id',
      subject: 'x'.repeat(5_000),
      email: 'A@b.co',
      name: 'Ann',
      email_verified: true,
      issued_at_s: null,
    };
    const user = await tables.transact((tx) => createUser(tx, signIn, NOW));
    expect(findUserId(tables, signIn, NOW)).toBe(user.id);
    expect(findUserId(tables, { ...signIn, issuer: 'https://other' }, NOW)).toBeUndefined();
    expect(getUser(tables, user.id)).toEqual({
      id: user.id,
      email: 'A@b.co',
      email_verified: true,
      display_name: 'Ann',
      account_type: 'developer',
      onboarded: false,
      created_at: '2026-03-01T10:00:00.000Z',
    });
  });

  it('make the founder of an organization its owner', async () => {
    const { id } = await organization();
    expect(roleOf(tables, id, 'usr_a')).toBe('owner');
    expect(organizationsOf(tables, 'usr_a').map((found) => found.organization.id)).toEqual([id]);
    expect(organizationsOf(tables, 'usr_b')).toEqual([]);
  });

  it('refuse to add a member twice', async () => {
    const { id } = await organization();
    await expect(join_(id, 'usr_a', 'viewer')).rejects.toMatchObject({ code: 'conflict' });
    expect(roleOf(tables, id, 'usr_a')).toBe('owner');
  });

  it('keep an owner, whatever changes in whatever order', async () => {
    const people = ['usr_a', 'usr_b', 'usr_c'];
    const attempt = fc.record({
      who: fc.constantFrom(...people),
      role: fc.constantFrom<Role | 'gone'>('owner', 'admin', 'viewer', 'gone'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(attempt, { maxLength: 12 }), async (attempts) => {
        const { id } = await organization();
        for (const who of people.slice(1)) await join_(id, who, 'owner');
        // All transactions at once: a later one sees the results of the earlier ones.
        await Promise.allSettled(
          attempts.map(({ who, role }) =>
            tables.transact((tx) => {
              const member = getMember(tx, id, who);
              if (member === undefined) return;
              if (role === 'gone') removeMember(tx, member);
              else changeRole(tx, member, role);
            }),
          ),
        );
        const { items } = listMembers(tables, id, ALL);
        expect(items.filter(({ role }) => role === 'owner').length).toBeGreaterThan(0);
        for (const { user_id } of items)
          expect(organizationsOf(tables, user_id).map((found) => found.organization.id)).toContain(id);
      }),
      { numRuns: 25 },
    );
  });

  it('list members newest first and count them', async () => {
    const { id } = await organization();
    await tables.transact((tx) =>
      addMember(tx, { org_id: id, user_id: 'usr_b', role: 'viewer' }, NOW + 1_000),
    );
    await join_(id, 'usr_c', 'viewer');
    expect(listMembers(tables, id, ALL).items.map(({ user_id }) => user_id)).toEqual([
      'usr_b',
      'usr_c',
      'usr_a',
    ]);
    expect(listMembers(tables, id, { limit: 1, offset: 1 })).toMatchObject({
      items: [{ user_id: 'usr_c' }],
      total: 3,
    });
    expect(countMembers(tables, id)).toBe(3);
  });

  it('find a project by its id alone, until it is removed', async () => {
    const [first, second] = await tables.transact((tx) =>
      ['one', 'two'].map((name) => createProject(tx, { org_id: 'org_a', name, created_by: null }, NOW)),
    );
    expect(getProject(tables, first!.id)).toEqual(first);
    expect(listProjects(tables, 'org_a', ALL)).toEqual({ items: [second, first], total: 2 });
    expect(listProjects(tables, 'org_b', ALL).total).toBe(0);
    await tables.transact((tx) => removeProject(tx, first!, NOW));
    expect(getProject(tables, first!.id)).toBeUndefined();
    expect(listProjects(tables, 'org_a', ALL).items).toEqual([second]);
  });

  it('return a pending invitation again, in whatever case the address is written', async () => {
    const fields = { org_id: 'org_a', email: 'Bo@x.co', role: 'member', invited_by: 'usr_a' } as const;
    const first = await tables.transact((tx) => invite(tx, fields, NOW));
    const again = await tables.transact((tx) =>
      invite(tx, { ...fields, email: 'bO@x.co', role: 'admin' }, NOW + 5),
    );
    expect(first.created).toBe(true);
    expect(again).toEqual({ invitation: first.invitation, created: false });
    expect((await tables.transact((tx) => invite(tx, { ...fields, org_id: 'org_b' }, NOW))).created).toBe(
      true,
    );
    expect(
      pendingFor(tables, 'BO@X.CO', NOW)
        .map(({ org_id }) => org_id)
        .sort(),
    ).toEqual(['org_a', 'org_b']);
  });

  it('let an invitation expire, be accepted or be revoked, and then allow a new one', async () => {
    const fields = { org_id: 'org_a', email: 'bo@x.co', role: 'member', invited_by: 'usr_a' } as const;
    const { invitation } = await tables.transact((tx) => invite(tx, fields, NOW));
    const late = NOW + 7 * DAY_MS;
    expect(invitationStatus(invitation, late - 1)).toBe('pending');
    expect(invitationStatus(invitation, late)).toBe('expired');
    expect(pendingFor(tables, 'bo@x.co', late)).toEqual([]);
    const next = await tables.transact((tx) => invite(tx, fields, late));
    expect(next.created).toBe(true);
    await tables.transact((tx) => settleInvitation(tx, next.invitation, 'revoked'));
    expect(getInvitation(tables, 'org_a', next.invitation.id)?.status).toBe('revoked');
    expect(pendingFor(tables, 'bo@x.co', late)).toEqual([]);
    expect(listInvitations(tables, 'org_a', ALL).items.map(({ id }) => id)).toEqual([
      next.invitation.id,
      invitation.id,
    ]);
    expect(getInvitation(tables, 'org_b', next.invitation.id)).toBeUndefined();
  });

  it('log changes with actor, action and address for each organization', async () => {
    const actor = { type: 'user', id: 'usr_a', address: '127.0.0.1' } as const;
    await tables.transact((tx) => {
      writeAudit(tx, actor, NOW, {
        org_id: 'org_a',
        action: 'project.create',
        target: 'proj_1',
        after: { name: 'x' },
      });
      writeAudit(tx, actor, NOW, { org_id: 'org_b', action: 'project.create', target: 'proj_2' });
      writeAudit(tx, actor, NOW, {
        org_id: 'org_a',
        action: 'project.delete',
        target: 'proj_1',
        before: { name: 'x' },
      });
    });
    const { items, total } = listAudit(tables, 'org_a', ALL);
    expect(total).toBe(2);
    expect(items[1]).toEqual({
      id: expect.stringMatching(/^aud_[0-9A-Z]{26}$/),
      org_id: 'org_a',
      actor: 'usr_a',
      actor_type: 'user',
      action: 'project.create',
      target: 'proj_1',
      before: null,
      after: { name: 'x' },
      address: '127.0.0.1',
      created_at: '2026-03-01T10:00:00.000Z',
    });
  });

  it('store feedback, and list it newest first', async () => {
    for (const message of ['good', 'better'])
      await tables.transact((tx) => writeFeedback(tx, { user_id: 'usr_a', message, page: null }, NOW));
    expect(listFeedback(tables, ALL).items.map(({ message }) => message)).toEqual(['better', 'good']);
  });
});
