/** Handlers of `contract/usage.ts`. Server threads. */
import { isEnded } from '../auth/key-store.ts';
import { KEY_USAGE_SHOWN } from '../contract/limits.ts';
import type { USAGE_ROUTES } from '../contract/usage.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import type { UsageCounts } from '../domain/usage.ts';
import {
  type DayCounts,
  interventionsOf,
  readInterventionTotals,
  readUsage,
} from '../storage/accounts/usage.ts';
import type { KeyRecord } from '../storage/ports/keys.ts';
import type { Stores } from '../storage/ports/stores.ts';
import { chooseOrganization, chooseProject } from './access.ts';

/** Maximum number of keys that one answer ranks by their requests: the newest ones. */
const KEY_USAGE_READ = 1_000;

const DAY_MS = 86_400_000;

interface UsageServices {
  stores: Stores;
  /**
   * Waits until this thread can read the counts of other server threads; absent without other server threads.
   */
  settle?: () => Promise<void>;
}

export function usageHandlers({ stores, settle }: UsageServices): UserHandlersOf<typeof USAGE_ROUTES> {
  const { accounts } = stores;
  return {
    usageStats: async ({ user, query, now_ms }) => {
      const { org_id } = chooseOrganization(accounts, user, query.org_id, 'usage.read');
      const project_id = chooseProject(accounts, org_id, query.project_id);
      const { retrieve, evaluate } = await readInterventionTotals(stores, org_id, project_id);
      return {
        body: {
          key_count: accounts.keys.countLive(org_id, project_id, now_ms),
          member_count: accounts.organizations.countMembers(org_id),
          injections: { total: retrieve + evaluate, retrieve, evaluate },
        },
      };
    },

    keyUsage: ({ user, query, now_ms }) => {
      const { org_id } = chooseOrganization(accounts, user, query.org_id, 'usage.read');
      const project_id = chooseProject(accounts, org_id, query.project_id);
      const from = dayOf(now_ms - (query.days - 1) * DAY_MS);
      const keys = [...accounts.keys.list(org_id, project_id, { limit: KEY_USAGE_READ, offset: 0 }).items]
        .map((key) => describeKey(key, [...accounts.keys.listRequests(key.id, from)], now_ms))
        .filter(({ requests, revoked }) => requests > 0 || !revoked)
        .sort((a, b) => b.requests - a.requests)
        .slice(0, KEY_USAGE_SHOWN);
      return { body: { days: query.days, from, to: dayOf(now_ms), keys } };
    },

    usageSeries: async ({ user, query, now_ms }) => {
      const { org_id } = chooseOrganization(accounts, user, query.org_id, 'usage.read');
      const project_id = chooseProject(accounts, org_id, query.project_id);
      await settle?.();
      const series = await readUsage(stores, { org_id, project_id, days: query.days, nowMs: now_ms });
      const totals = show({} as UsageCounts);
      for (const day of series) {
        const shown = show(day);
        for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] += shown[name];
      }
      return {
        body: {
          days: query.days,
          from: series[0]!.date,
          to: series.at(-1)!.date,
          series: series.map((day) => ({ date: day.date, ...show(day) })),
          totals,
        },
      };
    },
  };
}

function describeKey(key: KeyRecord, series: { date: string; requests: number }[], now_ms: number) {
  const { id, name, prefix, last4, project_id } = key;
  const requests = series.reduce((sum, day) => sum + day.requests, 0);
  return { id, name, prefix, last4, project_id, revoked: isEnded(key, now_ms), requests, series };
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function show(counts: Partial<DayCounts>) {
  const { retrievals = 0, evaluations = 0, runs = 0, steps = 0, traces = 0, tokens = 0 } = counts;
  return { injections: interventionsOf(counts), retrievals, evaluations, runs, steps, traces, tokens };
}
