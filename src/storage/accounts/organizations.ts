/**
 * Organizations and their members. Functions that run in a transaction. Any thread.
 */
import type { Member, Organization } from '../../domain/account.ts';
import type { Role } from '../../domain/role.ts';
import { CatalogueError } from '../../errors.ts';
import { ulidAt } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { noteDeletion } from './deletions.ts';
import { countRow, countRows, type Listing, type Page } from './page.ts';
import { requireRoom } from './room.ts';
import { removeSearchesOf } from './saved-searches.ts';

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

export function getOrganization(tables: TableReader, id: string): Organization | undefined {
  return tables.get<Organization>(ORGANIZATIONS, [id]);
}

/** Makes an organization that the user owns. */
export function createOrganization(
  tx: TableTransaction,
  { name, created_by }: { name: string; created_by: string },
  nowMs: number,
): Organization {
  const organization: Organization = {
    id: `org_${ulidAt(nowMs)}`,
    name,
    created_by,
    created_at: new Date(nowMs).toISOString(),
  };
  putOrganization(tx, organization);
  addMember(tx, { org_id: organization.id, user_id: created_by, role: 'owner' }, nowMs);
  return organization;
}

export function putOrganization(tx: TableTransaction, organization: Organization): void {
  tx.write({ op: 'put', table: ORGANIZATIONS, row: [organization.id], value: organization });
}

export function roleOf(tables: TableReader, org_id: string, user_id: string): Role | undefined {
  return tables.get<Member>(MEMBERS, [org_id, user_id])?.role;
}

export function getMember(tables: TableReader, org_id: string, user_id: string): Member | undefined {
  return tables.get<Member>(MEMBERS, [org_id, user_id]);
}

/**
 * @throws CatalogueError `conflict` if the user is a member already, or if the user or the organization has reached
 *   its limit
 */
export function addMember(tx: TableTransaction, member: Omit<Member, 'joined_at'>, nowMs: number): Member {
  if (roleOf(tx, member.org_id, member.user_id) !== undefined)
    throw new CatalogueError('conflict', 'Already a member of this organization');
  requireRoom(countRows(tx, MEMBERS, [member.org_id]), MEMBERS_PER_ORG_MAX, 'members');
  requireRoom(countRows(tx, MEMBERSHIPS, [member.user_id]), ORGS_PER_USER_MAX, 'organizations');
  const added = { ...member, joined_at: new Date(nowMs).toISOString() };
  putMember(tx, added);
  tx.write({ op: 'put', table: MEMBERS_BY_TIME, row: timeRow(added), value: null });
  countRow(tx, MEMBERS, [added.org_id], 1);
  countRow(tx, MEMBERSHIPS, [added.user_id], 1);
  return added;
}

/** @throws CatalogueError `conflict` when the organization would be left without an owner */
export function changeRole(tx: TableTransaction, member: Member, role: Role): Member {
  if (member.role === 'owner' && role !== 'owner') keepAnOwner(tx, member);
  const changed = { ...member, role };
  putMember(tx, changed);
  return changed;
}

/** @throws CatalogueError `conflict` when the organization would be left without an owner */
export function removeMember(tx: TableTransaction, member: Member): void {
  if (member.role === 'owner') keepAnOwner(tx, member);
  removeSearchesOf(tx, member);
  takeOut(tx, member);
}

function takeOut(tx: TableTransaction, member: Member): void {
  tx.write({ op: 'remove', table: MEMBERS, row: [member.org_id, member.user_id] });
  tx.write({ op: 'remove', table: MEMBERSHIPS, row: [member.user_id, member.org_id] });
  tx.write({ op: 'remove', table: MEMBERS_BY_TIME, row: timeRow(member) });
  countRow(tx, MEMBERS, [member.org_id], -1);
  countRow(tx, MEMBERSHIPS, [member.user_id], -1);
}

/**
 * Removes the record and all memberships, and notes that the organization's data is to be removed.
 * @returns the ids of its members
 */
export function removeOrganization(tx: TableTransaction, org_id: string, nowMs: number): string[] {
  const members = readMembers(tx, org_id);
  for (const member of members) takeOut(tx, member);
  tx.write({ op: 'remove', table: ORGANIZATIONS, row: [org_id] });
  noteDeletion(tx, { org_id, project_id: null }, nowMs);
  return members.map(({ user_id }) => user_id);
}

/** Whether the user is the only owner of the organization. */
export function isOnlyOwner(tables: TableReader, org_id: string, user_id: string): boolean {
  const owners = readMembers(tables, org_id).filter(({ role }) => role === 'owner');
  return owners.length === 1 && owners[0]!.user_id === user_id;
}

/** Newest first; of two that joined at the same moment, the greater id first. */
export function listMembers(tables: TableReader, org_id: string, { limit, offset }: Page): Listing<Member> {
  const total = countMembers(tables, org_id);
  if (offset >= total) return { items: [], total };
  const items: Member[] = [];
  for (const { row } of tables.range(MEMBERS_BY_TIME, { prefix: [org_id], reverse: true, offset, limit })) {
    const member = getMember(tables, org_id, String(row[2]));
    if (member !== undefined) items.push(member);
  }
  return { items, total };
}

export function countMembers(tables: TableReader, org_id: string): number {
  return countRows(tables, MEMBERS, [org_id]);
}

/** The user's organizations, newest first. */
export function organizationsOf(
  tables: TableReader,
  user_id: string,
): { organization: Organization; role: Role; joined_at: string }[] {
  const found = [];
  for (const { row } of tables.range(MEMBERSHIPS, { prefix: [user_id], reverse: true })) {
    const org_id = String(row[1]);
    const organization = getOrganization(tables, org_id);
    const member = getMember(tables, org_id, user_id);
    if (organization !== undefined && member !== undefined)
      found.push({ organization, role: member.role, joined_at: member.joined_at });
  }
  return found;
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
