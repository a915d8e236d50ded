/**
 * Loads the compiled addons (`compile.mjs`). Any thread.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

/** An addon that uses instructions beyond the baseline of the architecture. */
export interface Widths {
  /**
   * Limits the addon, in the whole process, to the instructions of this level; level 0 is the baseline. Only for tests,
   * while no other thread runs a function of the addon.
   * @returns the level in use, which is lower if the processor has fewer instructions
   */
  setWidestLevel(level: number): number;
}

/** Folders that may contain the addons: beside this source, or two folders above the built code in a package. */
const PLACES = ['./build/', '../../native/build/'];

/**
 * Loads an addon.
 * @param file name of the addon
 * @returns the addon; null if it was not compiled, was compiled for another platform, or lacks one of the functions
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
      // The binary belongs to another platform or libc, for example in a copied folder. The caller uses its fallback.
    }
  }
  return null;
}
