/** Finds what was compiled (`compile.mjs`). Any thread. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

/** An addon that uses what the processor has to offer. */
export interface Widths {
  /**
   * Uses no wider instructions than those of this level, from 0 on, in the whole process. For tests, while no other thread
   * is in the addon.
   * @returns the level that is used: the processor may have less
   */
  setWidestLevel(level: number): number;
}

/** Beside the sources; the published package keeps them there too, two folders above what was built. */
const PLACES = ['./build/', '../../native/build/'];

/**
 * @param file name of an addon
 * @returns the addon; null when it was not compiled, or for another platform, or lacks one of the functions
 */
export function loadFunctions<Functions>(file: string, names: readonly string[]): Functions | null {
  const require = createRequire(import.meta.url);
  for (const place of PLACES) {
    const path = fileURLToPath(new URL(place + file, import.meta.url));
    if (!existsSync(path)) continue;
    try {
      const addon = require(path) as Record<string, unknown>;
      if (names.every((name) => typeof addon[name] === 'function')) return addon as Functions;
    } catch {
      // Of another platform or libc, in a folder that was copied here: the fallback does the same.
    }
  }
  return null;
}
