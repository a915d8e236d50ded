/** Handlers of `contract/profiles.ts`, and the look-up of a run's profile. Server threads. */
import { isDeepStrictEqual } from 'node:util';
import type { HandlersOf } from '../contract/handler.ts';
import type { PROFILES } from '../contract/profiles.ts';
import { valueViolation } from '../contract/violation.ts';
import {
  BUILT_IN_PROFILES,
  findBuiltInProfile,
  type MonitorProfile,
  makeProfile,
} from '../domain/monitors/profiles.ts';
import { CatalogueError } from '../errors.ts';
import { PROFILES_PER_ORG_MAX } from '../limits.ts';
import type { TableReader, Tables } from '../storage/tables.ts';
import { tenantAuditActor, writeTenantAudit } from './tenant-audit.ts';

/** In `main.mdb`: one row a custom profile, key `[org_id, name]`, value the whole profile. */
const PROFILES_TABLE = 'profiles';

export function profileHandlers(services: { stores: { main: Tables } }): HandlersOf<typeof PROFILES> {
  const { main } = services.stores;
  return {
    listProfiles: ({ tenant }) => {
      const own = [...main.range<MonitorProfile>(PROFILES_TABLE, { prefix: [tenant.org_id] })];
      const profiles = [
        ...Object.values(BUILT_IN_PROFILES).map((profile) => ({ ...profile, is_built_in: true })),
        ...own.map(({ value }) => ({ ...value, is_built_in: false })),
      ];
      return { body: { profiles } };
    },

    putProfile: async ({ tenant, body, request }) => {
      const { org_id } = tenant;
      const actor = tenantAuditActor(tenant, request);
      if (findBuiltInProfile(body.name) !== null) {
        throw new CatalogueError('conflict', 'A built-in profile has this name');
      }
      const profile = makeProfile(body.name, present(body.weights), present(body.thresholds ?? {}));
      await main.transact((transaction) => {
        const row = [org_id, body.name];
        const before = transaction.get<MonitorProfile>(PROFILES_TABLE, row);
        if (before === undefined) checkRoom(transaction, org_id);
        else if (isDeepStrictEqual(before, profile)) return;
        transaction.write({ op: 'put', table: PROFILES_TABLE, row, value: profile });
        writeTenantAudit(transaction, tenant, actor, {
          action: 'profile.put',
          target: body.name,
          before: before === undefined ? null : describeProfile(before),
          after: describeProfile(profile),
        });
      });
      return { body: profile };
    },
  };
}

function describeProfile({ weights, thresholds }: MonitorProfile) {
  return { weights, thresholds };
}

/** Without the fields that are there and undefined, which no JSON has, but a schema's type. */
function present<Name extends string>(
  numbers: { [N in Name]?: number | undefined },
): Partial<Record<Name, number>> {
  return numbers as Partial<Record<Name, number>>;
}

function checkRoom(profiles: TableReader, orgId: string): void {
  let count = 0;
  for (const _ of profiles.range(PROFILES_TABLE, { prefix: [orgId], limit: PROFILES_PER_ORG_MAX })) count++;
  if (count < PROFILES_PER_ORG_MAX) return;
  throw new CatalogueError('conflict', `An organization may have ${PROFILES_PER_ORG_MAX} profiles`);
}

/**
 * The profile that a body's `task_profile` names. A custom one is read from storage each time: that takes microseconds
 * and is right on every thread at once.
 * @throws SchemaViolation when there is none
 */
export function findProfile(main: TableReader, orgId: string, name: string): MonitorProfile {
  const profile = findBuiltInProfile(name) ?? main.get<MonitorProfile>(PROFILES_TABLE, [orgId, name]);
  if (profile !== undefined) return profile;
  throw valueViolation(['body', 'task_profile'], 'unknown profile', name);
}
