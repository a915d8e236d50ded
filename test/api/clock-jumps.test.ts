/** The caches of the dashboard's routes after an operator sets the wall clock forward or back. */
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../src/std/clock.ts';
import { memoryControlPlane } from '../fixtures/control-plane-memory.ts';

const NOON = Date.parse('2026-11-21T12:00:00Z');
const HOUR_MS = 3_600_000;

describe('bootstrap', () => {
  it.each([-HOUR_MS, 0, 24 * HOUR_MS])(
    'is at most ten seconds old when the wall clock jumps by %i ms',
    async (jump) => {
      const now = { wall_ms: NOON, monotonic_ms: 5 };
      const clock: Clock = { wallMs: () => now.wall_ms, monotonicMs: () => now.monotonic_ms };
      const plane = memoryControlPlane(undefined, clock);
      const [{ id: org }] = (await plane.call('ann', 'GET', '/organizations/')).body;
      const invitations = async () => (await plane.call('bob', 'GET', '/auth/bootstrap')).body.invitations;
      expect(await invitations()).toEqual([]);
      await plane.call('ann', 'POST', `/organizations/${org}/invite`, { email: 'bob@example.com' });
      now.wall_ms += jump;
      now.monotonic_ms += 9_999;
      expect(await invitations()).toEqual([]);
      now.monotonic_ms += 1;
      expect(await invitations()).toHaveLength(1);
    },
  );
});
