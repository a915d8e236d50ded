/** Handlers of `contract/api-keys.ts`. Server threads. */
import type { z } from 'zod';
import { makeApiKey } from '../auth/api-key.ts';
import { isEnded } from '../auth/key-store.ts';
import type { Revocations } from '../auth/revocations.ts';
import type { API_KEYS, apiKeyCreated, apiKeyOut } from '../contract/api-keys.ts';
import type { HandlerReply } from '../contract/handler.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import type { User } from '../domain/account.ts';
import type { Permission } from '../domain/permissions.ts';
import { CatalogueError } from '../errors.ts';
import { ulidAt } from '../std/id.ts';
import type { AccountReads, Accounts, AccountWork } from '../storage/ports/accounts.ts';
import type { KeyRecord } from '../storage/ports/keys.ts';
import { auditActor, chooseOrganization, chooseProject, requireRole } from './access.ts';
import { page } from './organizations.ts';

/** Proxies must not cache an answer that contains a key. */
const SHOWN_ONCE = [['cache-control', 'no-store']] as const;

interface ApiKeyServices {
  accounts: Accounts;
  revocations: Revocations;
}

export function apiKeyHandlers(services: ApiKeyServices): UserHandlersOf<typeof API_KEYS> {
  const { accounts, revocations } = services;
  return {
    listKeys: ({ user, query, now_ms }) => {
      const { org_id } = chooseOrganization(accounts, user, query.org_id, 'keys.read');
      const project_id = chooseProject(accounts, org_id, query.project_id);
      const { items, total } = accounts.keys.list(org_id, project_id, query);
      return page(
        items.map((key) => showKey(accounts, key, now_ms)),
        total,
      );
    },

    createKey: async ({ user, body, request, now_ms }) => ({
      headers: SHOWN_ONCE,
      body: await accounts.transact((tx) => {
        const { org_id } = chooseOrganization(tx, user, body.org_id, 'keys.create');
        const project_id = body.project_id ?? null;
        if (project_id !== null && tx.projects.find(project_id)?.org_id !== org_id)
          throw new CatalogueError('not_found');
        const { record, shown } = makeKey(
          { org_id, project_id, name: body.name, created_by: user.id },
          body.mode,
          now_ms,
        );
        tx.keys.insert(record);
        tx.audit.add(auditActor(user, request.address), now_ms, {
          org_id,
          action: 'key.create',
          target: record.id,
          after: describeKey(record),
        });
        return shown;
      }),
    }),

    rotateKey: async ({ user, params, body, request, now_ms }) => {
      const { org_id, shown } = await accounts.transact((tx) => {
        const key = requireKey(tx, user, params.key_id, 'keys.rotate');
        if (isEnded(key, now_ms))
          throw new CatalogueError('conflict', 'The key is revoked or has expired: make a new one');
        const { org_id, project_id, name } = key;
        const mode = key.prefix.startsWith('svc_test_') ? 'test' : 'live';
        const successor = makeKey({ org_id, project_id, name, created_by: user.id }, mode, now_ms);
        tx.keys.insert(successor.record);
        const at = endAfter(tx, key, body.overlap_seconds, now_ms);
        tx.audit.add(auditActor(user, request.address), now_ms, {
          org_id,
          action: 'key.rotate',
          target: key.id,
          before: describeKey(key),
          after: { ...describeKey(successor.record), successor: successor.record.id, ends_at: at },
        });
        return { org_id, shown: successor.shown };
      });
      revocations.announce(org_id);
      return { headers: SHOWN_ONCE, body: shown };
    },

    revokeKey: (call) => revokeKey(services, call),
  };
}

async function revokeKey(
  { accounts, revocations }: ApiKeyServices,
  { user, params, request, now_ms }: Parameters<UserHandlersOf<typeof API_KEYS>['revokeKey']>[0],
): Promise<HandlerReply> {
  const revoked = await accounts.transact((tx) => {
    const key = requireKey(tx, user, params.key_id, 'keys.revoke');
    if (key.revoked_at !== null) return key;
    const revoked_at = new Date(now_ms).toISOString();
    const ended = tx.keys.end(key.id, { revoked_at })!;
    tx.audit.add(auditActor(user, request.address), now_ms, {
      org_id: key.org_id,
      action: 'key.revoke',
      target: key.id,
      before: describeKey(key),
      after: { revoked_at },
    });
    return ended;
  });
  revocations.announce(revoked.org_id);
  return { body: showKey(accounts, revoked, now_ms) };
}

/**
 * Ends a rotated key after the overlap, or at once without an overlap. If the key already expires
 * sooner, that time stays.
 * @returns the end of the overlap, RFC 3339
 */
function endAfter(tx: AccountWork, key: KeyRecord, overlapSeconds: number, nowMs: number): string {
  const at = new Date(nowMs + overlapSeconds * 1_000).toISOString();
  const endsSooner = key.expires_at !== null && key.expires_at < at;
  if (overlapSeconds === 0) tx.keys.end(key.id, { revoked_at: at });
  else if (!endsSooner) tx.keys.end(key.id, { expires_at: at });
  return at;
}

/**
 * Finds a key of an organization to which the user belongs.
 * @throws CatalogueError `not_found`, the same for an unknown key and for a key of an organization to which the user
 *   does not belong; `forbidden` if the user's role lacks the permission
 */
function requireKey(accounts: AccountReads, user: User, key_id: string, permission: Permission): KeyRecord {
  const key = accounts.keys.find(key_id);
  if (key === undefined) throw new CatalogueError('not_found');
  requireRole(accounts, user, key.org_id, permission);
  return key;
}

function makeKey(
  fields: Pick<KeyRecord, 'org_id' | 'project_id' | 'name' | 'created_by'>,
  mode: 'live' | 'test',
  nowMs: number,
): { record: KeyRecord; shown: z.output<typeof apiKeyCreated> } {
  const { raw, hash, prefix, last4 } = makeApiKey(mode);
  const record: KeyRecord = {
    id: `key_${ulidAt(nowMs)}`,
    ...fields,
    hash,
    prefix,
    last4,
    created_at: new Date(nowMs).toISOString(),
    expires_at: null,
    revoked_at: null,
  };
  return { record, shown: { id: record.id, name: record.name, raw_key: raw, prefix, last4 } };
}

/** Returns the fields of a key that the audit log may contain. */
function describeKey({ name, prefix, last4, project_id }: KeyRecord): Record<string, unknown> {
  return { name, prefix, last4, project_id };
}

function showKey(accounts: AccountReads, key: KeyRecord, nowMs: number): z.output<typeof apiKeyOut> {
  const { id, name, prefix, last4, project_id, created_at } = key;
  return {
    id,
    name,
    prefix,
    last4,
    scope: project_id === null ? 'organization' : 'project',
    project_id,
    project_name: project_id === null ? null : (accounts.projects.find(project_id)?.name ?? null),
    created_at,
    last_used_at: accounts.keys.lastUseOf(id),
    revoked: isEnded(key, nowMs),
  };
}
