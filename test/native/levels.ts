/** Runs tests of an addon with each width of instructions that this machine's processor has. Test thread. */
import { afterAll, beforeAll } from 'vitest';
import type { Widths } from '../../native/load-functions.ts';

const WIDEST = 2 ** 32 - 1;

/** Levels from 0 on that differ on this machine; empty if the addon was not compiled. */
export function listLevels(addon: Widths | null): number[] {
  return addon === null ? [] : [...Array(addon.setWidestLevel(WIDEST) + 1).keys()];
}

/** Uses the level for all tests of the `describe` that calls this function. */
export function useLevel(addon: Widths | null, level: number): void {
  beforeAll(() => {
    addon?.setWidestLevel(level);
  });
  afterAll(() => {
    addon?.setWidestLevel(WIDEST);
  });
}
