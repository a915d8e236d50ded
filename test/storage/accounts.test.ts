/** The records of the control plane: what each change checks and leaves behind, in each store. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { invitationStatus } from '../../src/domain/account.ts';
import type { Role } from '../../src/domain/role.ts';
import { TableKeyWork } from '../../src/storage/accounts/keys.ts';
import { TableAccounts } from '../../src/storage/accounts/table-accounts.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import { MemoryTruth } from '../../src/storage/memory/truth.ts';
import type { Accounts } from '../../src/storage/ports/accounts.ts';
import type { Tables } from '../../src/storage/tables.ts';
import { SharedBox } from './shared/shared-box.ts';

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

function makeKey(number: number, expires_at: string | null) {
  return {
    id: `key_${number}`,
    org_id: 'org',
    project_id: null,
    name: 'ci',
    hash: `hash of ${number}`,
    prefix: 'svc',
    last4: '1234',
    created_by: null,
    created_at: new Date(NOW).toISOString(),
    expires_at,
    revoked_at: null,
  };
}

describe.each([
  { name: 'LMDB', open: (): Tables => new LmdbTables(join(folder, 'main.mdb'), 'disk') },
  { name: 'memory', open: (): Tables => new MemoryTables() },
  {
    name: 'a view of shared rows',
    open: async (): Promise<Tables> =>
      SharedBox.prepareTables(join(folder, 'view.mdb'), new MemoryTruth()).open(),
  },
])('accounts in $name', ({ open }) => {
  let tables: Tables;
  let accounts: Accounts;
  beforeEach(async () => {
    tables = await open();
    accounts = new TableAccounts(tables);
  });
  afterEach(() => tables.close());

  const organization = () =>
    accounts.transact((tx) => tx.organizations.create({ name: 'Ours', created_by: 'usr_a' }, NOW));
  const join_ = (org_id: string, user_id: string, role: Role) =>
    accounts.transact((tx) => tx.organizations.addMember({ org_id, user_id, role }, NOW));

  it('know a user by issuer and subject together', async () => {
    const signIn = {
      issuer: 'https://id',
      subject: 'x'.repeat(5_000),
      email: 'A@b.co',
      name: 'Ann',
      email_verified: true,
      issued_at_s: null,
    };
    const user = await accounts.transact((tx) => tx.users.create(signIn, NOW));
    expect(accounts.users.findId(signIn, NOW)).toBe(user.id);
    expect(accounts.users.findId({ ...signIn, issuer: 'https://other' }, NOW)).toBeUndefined();
    expect(accounts.users.find(user.id)).toEqual({
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
    expect(accounts.organizations.roleOf(id, 'usr_a')).toBe('owner');
    expect(accounts.organizations.listOf('usr_a').map((found) => found.organization.id)).toEqual([id]);
    expect(accounts.organizations.listOf('usr_b')).toEqual([]);
  });

  it('refuse to add a member twice', async () => {
    const { id } = await organization();
    await expect(join_(id, 'usr_a', 'viewer')).rejects.toMatchObject({ code: 'conflict' });
    expect(accounts.organizations.roleOf(id, 'usr_a')).toBe('owner');
  });

  it('keep at least one owner after any changes in any order', async () => {
    const people = ['usr_a', 'usr_b', 'usr_c'];
    const attempt = fc.record({
      who: fc.constantFrom(...people),
      role: fc.constantFrom<Role | 'gone'>('owner', 'admin', 'viewer', 'gone'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(attempt, { maxLength: 12 }), async (attempts) => {
        const { id } = await organization();
        for (const who of people.slice(1)) await join_(id, who, 'owner');
        // All transactions run at once. A later one sees the results of the earlier ones.
        await Promise.allSettled(
          attempts.map(({ who, role }) =>
            accounts.transact((tx) => {
              const member = tx.organizations.findMember(id, who);
              if (member === undefined) return;
              if (role === 'gone') tx.organizations.removeMember(member);
              else tx.organizations.changeRole(member, role);
            }),
          ),
        );
        const { items } = accounts.organizations.listMembers(id, ALL);
        expect(items.filter(({ role }) => role === 'owner').length).toBeGreaterThan(0);
        for (const { user_id } of items)
          expect(accounts.organizations.listOf(user_id).map((found) => found.organization.id)).toContain(id);
      }),
      { numRuns: 25 },
    );
  });

  it('list members newest first and count them', async () => {
    const { id } = await organization();
    await accounts.transact((tx) =>
      tx.organizations.addMember({ org_id: id, user_id: 'usr_b', role: 'viewer' }, NOW + 1_000),
    );
    await join_(id, 'usr_c', 'viewer');
    expect(accounts.organizations.listMembers(id, ALL).items.map(({ user_id }) => user_id)).toEqual([
      'usr_b',
      'usr_c',
      'usr_a',
    ]);
    expect(accounts.organizations.listMembers(id, { limit: 1, offset: 1 })).toMatchObject({
      items: [{ user_id: 'usr_c' }],
      total: 3,
    });
    expect(accounts.organizations.countMembers(id)).toBe(3);
  });

  it('find a project by its id alone, until it is removed', async () => {
    const [first, second] = await accounts.transact((tx) =>
      ['one', 'two'].map((name) => tx.projects.create({ org_id: 'org_a', name, created_by: null }, NOW)),
    );
    expect(accounts.projects.find(first!.id)).toEqual(first);
    expect(accounts.projects.list('org_a', ALL)).toEqual({ items: [second, first], total: 2 });
    expect(accounts.projects.list('org_b', ALL).total).toBe(0);
    await accounts.transact((tx) => tx.projects.remove(first!, NOW));
    expect(accounts.projects.find(first!.id)).toBeUndefined();
    expect(accounts.projects.list('org_a', ALL).items).toEqual([second]);
  });

  it('return the pending invitation if the address is invited again, in upper or lower case', async () => {
    const fields = { org_id: 'org_a', email: 'Bo@x.co', role: 'member', invited_by: 'usr_a' } as const;
    const first = await accounts.transact((tx) => tx.invitations.invite(fields, NOW));
    const again = await accounts.transact((tx) =>
      tx.invitations.invite({ ...fields, email: 'bO@x.co', role: 'admin' }, NOW + 5),
    );
    expect(first.created).toBe(true);
    expect(again).toEqual({ invitation: first.invitation, created: false });
    expect(
      (await accounts.transact((tx) => tx.invitations.invite({ ...fields, org_id: 'org_b' }, NOW))).created,
    ).toBe(true);
    expect(
      accounts.invitations
        .listPending('BO@X.CO', NOW)
        .map(({ org_id }) => org_id)
        .sort(),
    ).toEqual(['org_a', 'org_b']);
  });

  it('let an invitation expire or be revoked, and allow a new one after the expiry', async () => {
    const fields = { org_id: 'org_a', email: 'bo@x.co', role: 'member', invited_by: 'usr_a' } as const;
    const { invitation } = await accounts.transact((tx) => tx.invitations.invite(fields, NOW));
    const late = NOW + 7 * DAY_MS;
    expect(invitationStatus(invitation, late - 1)).toBe('pending');
    expect(invitationStatus(invitation, late)).toBe('expired');
    expect(accounts.invitations.listPending('bo@x.co', late)).toEqual([]);
    const next = await accounts.transact((tx) => tx.invitations.invite(fields, late));
    expect(next.created).toBe(true);
    await accounts.transact((tx) => tx.invitations.settle(next.invitation, 'revoked'));
    expect(accounts.invitations.find('org_a', next.invitation.id)?.status).toBe('revoked');
    expect(accounts.invitations.listPending('bo@x.co', late)).toEqual([]);
    expect(accounts.invitations.list('org_a', ALL).items.map(({ id }) => id)).toEqual([
      next.invitation.id,
      invitation.id,
    ]);
    expect(accounts.invitations.find('org_b', next.invitation.id)).toBeUndefined();
  });

  it('refuse a key beyond 5,000 until an earlier key has ended, and read no list of keys before', async () => {
    const insert = (first: number, last: number, expires_at: string | null = null) =>
      accounts.transact((tx) => {
        for (let key = first; key <= last; key++) tx.keys.insert(makeKey(key, expires_at));
      });
    await insert(1, 2, new Date(NOW).toISOString());
    await insert(3, 4_999);
    // With room for one more key, an insert reads no list of keys.
    await tables.transact((tx) => {
      const range = () => {
        throw new Error('a range is read');
      };
      const work = { get: tx.get.bind(tx), write: tx.write.bind(tx), range };
      new TableKeyWork(work).insert(makeKey(5_000, null));
    });
    // Two keys have expired.
    await insert(5_001, 5_002);
    await expect(insert(5_003, 5_003)).rejects.toMatchObject({ code: 'conflict' });
    const revoked_at = new Date(NOW).toISOString();
    await accounts.transact(({ keys }) => keys.end('key_3', { revoked_at }));
    await insert(5_003, 5_003);
    expect(accounts.keys.countLive('org', null, NOW)).toBe(5_000);
  });

  it('log changes with actor, action and address for each organization', async () => {
    const actor = { type: 'user', id: 'usr_a', address: '127.0.0.1' } as const;
    await accounts.transact((tx) => {
      tx.audit.add(actor, NOW, {
        org_id: 'org_a',
        action: 'project.create',
        target: 'proj_1',
        after: { name: 'x' },
      });
      tx.audit.add(actor, NOW, { org_id: 'org_b', action: 'project.create', target: 'proj_2' });
      tx.audit.add(actor, NOW, {
        org_id: 'org_a',
        action: 'project.delete',
        target: 'proj_1',
        before: { name: 'x' },
      });
    });
    const { items, total } = accounts.audit.list('org_a', ALL);
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
      await accounts.transact((tx) => tx.feedback.add({ user_id: 'usr_a', message, page: null }, NOW));
    expect(accounts.feedback.list(ALL).items.map(({ message }) => message)).toEqual(['better', 'good']);
  });
});
