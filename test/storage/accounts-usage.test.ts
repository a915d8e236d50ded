/** Reports of usage are right with and without cached days. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { usageWrites } from '../../src/domain/usage.ts';
import {
  interventionsOf,
  readInterventions,
  readInterventionTotals,
  readUsage,
} from '../../src/storage/accounts/usage.ts';
import type { TableStores } from '../../src/storage/stores.ts';
import { memoryStores } from '../fixtures/api-services.ts';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const DAY_MS = 86_400_000;
const PROJECTS = ['default', 'proj_a', 'proj_b'];

interface Counted {
  days_ago: number;
  project_id: string;
  org_id: string;
  store: 'main' | 'runs';
  steps: number;
  injections_retrieve: number;
  injections_evaluate: number;
}

const counted = fc.record<Counted>({
  // Mistakes are likely at the edges of the cache, of a report and of a month.
  days_ago: fc.oneof(
    fc.integer({ min: 0, max: 400 }),
    fc.constantFrom(0, 6, 7, 8, 20, 21, 29, 30, 364, 365, 372),
  ),
  project_id: fc.constantFrom(...PROJECTS),
  org_id: fc.constantFrom('org_a', 'org_ab'),
  store: fc.constantFrom('main', 'runs'),
  steps: fc.integer({ min: 0, max: 9 }),
  injections_retrieve: fc.integer({ min: 0, max: 3 }),
  injections_evaluate: fc.integer({ min: 0, max: 3 }),
});

async function count(stores: TableStores, { days_ago, project_id, org_id, store, ...counts }: Counted) {
  await stores[store].transact((tx) => {
    for (const write of usageWrites(org_id, NOW - days_ago * DAY_MS, project_id, counts)) tx.write(write);
  });
}

describe('usage', () => {
  it('sums what was counted, day by day and in total', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(counted, { maxLength: 40 }),
        fc.constantFrom(1, 7, 8, 9, 30, 365),
        fc.option(fc.constantFrom(...PROJECTS), { nil: null }),
        async (all, days, project_id) => {
          const stores = memoryStores();
          const ask = (nowMs = NOW) => readUsage(stores, { org_id: 'org_a', project_id, days, nowMs });
          const [old, recent] = [
            all.filter((event) => event.days_ago > 7),
            all.filter((event) => event.days_ago <= 7),
          ];
          for (const event of old) await count(stores, event);
          // This report caches the old days. The days after them are recent.
          await ask();
          for (const event of recent) await count(stores, event);
          const ours = all.filter(
            (event) => event.org_id === 'org_a' && (project_id === null || event.project_id === project_id),
          );
          for (const again of [await ask(), await ask()]) {
            expect(again).toHaveLength(days);
            again.forEach(({ date, steps, ...rest }, index) => {
              const ago = days - 1 - index;
              expect(date).toBe(new Date(NOW - ago * DAY_MS).toISOString().slice(0, 10));
              const here = ours.filter((event) => event.days_ago === ago);
              expect(steps).toBe(here.reduce((sum, event) => sum + event.steps, 0));
              expect(interventionsOf(rest)).toBe(
                here.reduce((sum, event) => sum + interventionsOf(event), 0),
              );
            });
          }
          const totals = await readInterventionTotals(stores, 'org_a', project_id);
          expect(totals).toEqual({
            retrieve: ours.reduce((sum, event) => sum + event.injections_retrieve, 0),
            evaluate: ours.reduce((sum, event) => sum + event.injections_evaluate, 0),
          });
          const month = [Date.UTC(2026, 10), Date.UTC(2026, 11)] as const;
          expect(await readInterventions(stores, 'org_a', ...month)).toBe(
            all
              .filter((event) => event.org_id === 'org_a' && event.days_ago <= 20)
              .reduce((sum, event) => sum + interventionsOf(event), 0),
          );
          // On the next day, one more day counts as old.
          if (days > 1) expect((await ask(NOW + DAY_MS)).at(-2)).toEqual((await ask()).at(-1));
        },
      ),
      { numRuns: 60 },
    );
  });
});
