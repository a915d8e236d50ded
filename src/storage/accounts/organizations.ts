/**
 * Organizations and their members. Any thread.
 */
import type { Member, Organization } from '../../domain/account.ts';
import type { Role } from '../../domain/role.ts';
import { CatalogueError } from '../../errors.ts';
import { ulidAt } from '../../std/id.ts';
import type { Membership, OrganizationReads, OrganizationWork } from '../ports/organizations.ts';
import type { Listing, Page } from '../ports/page.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { TableDeletionWork } from './deletions.ts';
import { countRow, countRows } from './page.ts';
import { requireRoom } from './room.ts';
import { TableSearchWork } from './saved-searches.ts';

/** Maximum number of organizations of a user, and of members of an organization. Further ones are refused with 409. */
const ORGS_PER_USER_MAX = 500;
const MEMBERS_PER_ORG_MAX = 5_000;

const ORGANIZATIONS = 'organizations';
/** [org, user] → Member, counted by organization. */
const MEMBERS = 'members';
/** [org, joined_at, user] → null. */
const MEMBERS_BY_TIME = 'members_by_time';
/** [user, org] → role, counted by user. */
const MEMBERSHIPS = 'memberships';

export class TableOrganizationReads implements OrganizationReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  find(id: string): Organization | undefined {
    return this.#reader.get<Organization>(ORGANIZATIONS, [id]);
  }

  roleOf(org_id: string, user_id: string): Role | undefined {
    return this.#reader.get<Member>(MEMBERS, [org_id, user_id])?.role;
  }

  findMember(org_id: string, user_id: string): Member | undefined {
    return this.#reader.get<Member>(MEMBERS, [org_id, user_id]);
  }

  isOnlyOwner(org_id: string, user_id: string): boolean {
    const owners = readMembers(this.#reader, org_id).filter(({ role }) => role === 'owner');
    return owners.length === 1 && owners[0]!.user_id === user_id;
  }

  listMembers(org_id: string, { limit, offset }: Page): Listing<Member> {
    const total = this.countMembers(org_id);
    if (offset >= total) return { items: [], total };
    const items: Member[] = [];
    for (const { row } of this.#reader.range(MEMBERS_BY_TIME, {
      prefix: [org_id],
      reverse: true,
      offset,
      limit,
    })) {
      const member = this.findMember(org_id, String(row[2]));
      if (member !== undefined) items.push(member);
    }
    return { items, total };
  }

  countMembers(org_id: string): number {
    return countRows(this.#reader, MEMBERS, [org_id]);
  }

  listOf(user_id: string): Membership[] {
    const found = [];
    for (const { row } of this.#reader.range(MEMBERSHIPS, { prefix: [user_id], reverse: true })) {
      const org_id = String(row[1]);
      const organization = this.find(org_id);
      const member = this.findMember(org_id, user_id);
      if (organization !== undefined && member !== undefined)
        found.push({ organization, role: member.role, joined_at: member.joined_at });
    }
    return found;
  }
}

export class TableOrganizationWork extends TableOrganizationReads implements OrganizationWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  create({ name, created_by }: { name: string; created_by: string }, nowMs: number): Organization {
    const organization: Organization = {
      id: `org_${ulidAt(nowMs)}`,
      name,
      created_by,
      created_at: new Date(nowMs).toISOString(),
    };
    this.put(organization);
    this.addMember({ org_id: organization.id, user_id: created_by, role: 'owner' }, nowMs);
    return organization;
  }

  put(organization: Organization): void {
    this.#tx.write({ op: 'put', table: ORGANIZATIONS, row: [organization.id], value: organization });
  }

  addMember(member: Omit<Member, 'joined_at'>, nowMs: number): Member {
    if (this.roleOf(member.org_id, member.user_id) !== undefined)
      throw new CatalogueError('conflict', 'Already a member of this organization');
    requireRoom(countRows(this.#tx, MEMBERS, [member.org_id]), MEMBERS_PER_ORG_MAX, 'members');
    requireRoom(countRows(this.#tx, MEMBERSHIPS, [member.user_id]), ORGS_PER_USER_MAX, 'organizations');
    const added = { ...member, joined_at: new Date(nowMs).toISOString() };
    putMember(this.#tx, added);
    this.#tx.write({ op: 'put', table: MEMBERS_BY_TIME, row: timeRow(added), value: null });
    countRow(this.#tx, MEMBERS, [added.org_id], 1);
    countRow(this.#tx, MEMBERSHIPS, [added.user_id], 1);
    return added;
  }

  changeRole(member: Member, role: Role): Member {
    if (member.role === 'owner' && role !== 'owner') keepAnOwner(this.#tx, member);
    const changed = { ...member, role };
    putMember(this.#tx, changed);
    return changed;
  }

  removeMember(member: Member): void {
    if (member.role === 'owner') keepAnOwner(this.#tx, member);
    new TableSearchWork(this.#tx).removeAllOf(member);
    takeOut(this.#tx, member);
  }

  remove(org_id: string, nowMs: number): string[] {
    const members = readMembers(this.#tx, org_id);
    for (const member of members) takeOut(this.#tx, member);
    this.#tx.write({ op: 'remove', table: ORGANIZATIONS, row: [org_id] });
    new TableDeletionWork(this.#tx).note({ org_id, project_id: null }, nowMs);
    return members.map(({ user_id }) => user_id);
  }
}

function takeOut(tx: TableTransaction, member: Member): void {
  tx.write({ op: 'remove', table: MEMBERS, row: [member.org_id, member.user_id] });
  tx.write({ op: 'remove', table: MEMBERSHIPS, row: [member.user_id, member.org_id] });
  tx.write({ op: 'remove', table: MEMBERS_BY_TIME, row: timeRow(member) });
  countRow(tx, MEMBERS, [member.org_id], -1);
  countRow(tx, MEMBERSHIPS, [member.user_id], -1);
}

function putMember(tx: TableTransaction, member: Member): void {
  tx.write({ op: 'put', table: MEMBERS, row: [member.org_id, member.user_id], value: member });
  tx.write({ op: 'put', table: MEMBERSHIPS, row: [member.user_id, member.org_id], value: member.role });
}

function keepAnOwner(tx: TableTransaction, leaving: Member): void {
  const others = readMembers(tx, leaving.org_id).filter(
    ({ role, user_id }) => role === 'owner' && user_id !== leaving.user_id,
  );
  if (others.length === 0)
    throw new CatalogueError(
      'conflict',
      'The last owner of an organization can be neither removed nor demoted',
    );
}

function readMembers(tables: TableReader, org_id: string): Member[] {
  return [...tables.range<Member>(MEMBERS, { prefix: [org_id] })].map(({ value }) => value);
}

function timeRow({ org_id, joined_at, user_id }: Member) {
  return [org_id, joined_at, user_id];
}
