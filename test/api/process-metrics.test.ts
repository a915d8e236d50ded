/** The metrics of the whole process, if one of their sources fails. */
import { expect, it } from 'vitest';
import { ProcessMetrics } from '../../src/api/metrics.ts';

it('a source of metrics that throws hides only its own metrics', async () => {
  const fail = (): never => {
    throw new Error('not today');
  };
  const sources = {
    servers: () => [],
    actors: async () => [],
    capture: fail,
    verdicts: () => ({ differing_runs: 3 }),
    points: fail,
    today: fail,
    databases: fail,
    framing_guard: fail,
  };
  const text = await new ProcessMetrics(sources, '1.2.3').render();
  expect(text).toContain('understudy_info{version="1.2.3"} 1');
  expect(text).toMatch(/reading_differs_total 3\n/);
  expect(text).not.toContain('framing');
});
