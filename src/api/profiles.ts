/** Handlers of `contract/profiles.ts`, and the look-up of a run's profile. Server threads. */
import { isDeepStrictEqual } from 'node:util';
import type { HandlersOf } from '../contract/handler.ts';
import type { PROFILES } from '../contract/profiles.ts';
import { type SchemaViolation, valueViolation } from '../contract/violation.ts';
import {
  BUILT_IN_PROFILES,
  findBuiltInProfile,
  type MonitorProfile,
  makeProfile,
} from '../domain/monitors/profiles.ts';
import { CatalogueError } from '../errors.ts';
import { ID_CHARACTERS } from '../limits.ts';
import type { AccountReads, Accounts } from '../storage/ports/accounts.ts';
import { readCursor, writeCursor } from './cursor.ts';
import { tenantAuditActor, writeTenantAudit } from './tenant-audit.ts';

/** Parts of a cursor: whether a name belongs to the built-in or to the custom profiles. */
const BUILT_IN = 0;
const OWN = 1;
const BUILT_IN_NAMES = Object.values(BUILT_IN_PROFILES).map(({ name }) => name);

export function profileHandlers(services: { stores: { accounts: Accounts } }): HandlersOf<typeof PROFILES> {
  const { accounts } = services.stores;
  return {
    listProfiles: ({ tenant, query }) => {
      const { org_id } = tenant;
      const place = readCursor(query.cursor, ['number', { max: ID_CHARACTERS }]);
      const begun = place === null ? -1 : BUILT_IN_NAMES.indexOf(place[1] as string);
      const builtIn = place?.[0] === OWN ? [] : BUILT_IN_NAMES.slice(begun + 1);
      const own = accounts.profiles.list(org_id, place?.[0] === OWN ? (place[1] as string) : null);
      const all = [
        ...builtIn.map((name) => ({ ...findBuiltInProfile(name)!, is_built_in: true })),
        ...own.map((profile) => ({ ...profile, is_built_in: false })),
      ];
      const profiles = all.slice(0, query.limit);
      const last = profiles.at(-1);
      const isLast = last === undefined || all.length <= query.limit;
      return {
        body: {
          profiles,
          next_cursor: isLast ? null : writeCursor([last.is_built_in ? BUILT_IN : OWN, last.name]),
        },
      };
    },

    putProfile: async ({ tenant, body, request }) => {
      const { org_id } = tenant;
      const actor = tenantAuditActor(tenant, request);
      if (findBuiltInProfile(body.name) !== null) {
        throw new CatalogueError('conflict', 'This name belongs to a built-in profile');
      }
      const profile = makeProfile(body.name, present(body.weights), present(body.thresholds ?? {}));
      await accounts.transact((transaction) => {
        const before = transaction.profiles.find(org_id, body.name);
        if (isDeepStrictEqual(before, profile)) return;
        transaction.profiles.put(org_id, profile);
        writeTenantAudit(transaction, tenant, actor, {
          action: 'profile.put',
          target: body.name,
          before: before === undefined ? null : describeProfile(before),
          after: describeProfile(profile),
        });
      });
      return { body: profile };
    },

    deleteProfile: async ({ tenant, params, request }) => {
      const actor = tenantAuditActor(tenant, request);
      const { name } = params;
      if (findBuiltInProfile(name) !== null)
        throw new CatalogueError('conflict', 'A built-in profile cannot be deleted');
      await accounts.transact((transaction) => {
        const before = transaction.profiles.find(tenant.org_id, name);
        if (before === undefined) throw new CatalogueError('not_found', 'Profile not found');
        transaction.profiles.remove(tenant.org_id, name);
        writeTenantAudit(transaction, tenant, actor, {
          action: 'profile.delete',
          target: name,
          before: describeProfile(before),
        });
      });
      return { status: 204 };
    },
  };
}

function describeProfile({ weights, thresholds }: MonitorProfile) {
  return { weights, thresholds };
}

/** Returns the numbers unchanged, with a type that excludes undefined: JSON contains no such value. */
function present<Name extends string>(
  numbers: { [N in Name]?: number | undefined },
): Partial<Record<Name, number>> {
  return numbers as Partial<Record<Name, number>>;
}

/**
 * Finds the profile that a body's `task_profile` names. A custom profile is read from storage each time, which takes
 * microseconds and is up to date on every thread.
 * @returns undefined if no profile has that name
 */
export function lookUpProfile(
  accounts: Pick<AccountReads, 'profiles'>,
  orgId: string,
  name: string,
): MonitorProfile | undefined {
  return findBuiltInProfile(name) ?? accounts.profiles.find(orgId, name);
}

/** Like {@link lookUpProfile}. @throws SchemaViolation if no profile has that name */
export function findProfile(
  accounts: Pick<AccountReads, 'profiles'>,
  orgId: string,
  name: string,
): MonitorProfile {
  const profile = lookUpProfile(accounts, orgId, name);
  if (profile === undefined) throw unknownProfile(name);
  return profile;
}

/** Makes the 422 for an unknown profile name. */
export function unknownProfile(name: string): SchemaViolation {
  return valueViolation(['body', 'task_profile'], 'unknown profile', name);
}
