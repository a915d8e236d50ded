/**
 * Loads the compiled addons (`compile.mjs`). Any thread.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

/** An addon that uses the processor's additional instructions. */
export interface Widths {
  /**
   * Limits the instructions in the whole process to those of this level, from 0 on. For tests, while no other thread
   * is in the addon.
   * @returns the level in use, which is lower if the processor has fewer instructions
   */
  setWidestLevel(level: number): number;
}

/** Beside the sources. The published package has them there, too, two folders above its built code. */
const PLACES = ['./build/', '../../native/build/'];

/**
 * @param file name of an addon
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
      // The binary belongs to another platform or libc, for example in a copied folder. The fallback does the same
      // work.
    }
  }
  return null;
}
