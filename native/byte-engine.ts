/**
 * The byte functions: from the addon if it was compiled (`compile.mjs`), otherwise from the TypeScript fallback. Any
 * thread.
 */

import type { ByteEngine } from './byte-functions.ts';
import { fallback } from './fallback.ts';
import { loadFunctions, type Widths } from './load-functions.ts';

/** For copies of at least this length, a call of the addon is faster than `set`. */
const NATIVE_COPY_BYTES = 1_024;

/** Copies bytes; both memories may be shared. @throws {RangeError} if they do not fit */
export function copyBytes(from: Uint8Array, into: Uint8Array, at: number): void {
  if (from.length < NATIVE_COPY_BYTES) into.set(from, at);
  else byteEngine.copyBytes(from, into, at);
}

/** Encodes needles for `findAnyNeedle`: for each its length (u32, little endian) and its bytes. */
export function packNeedles(needles: readonly Uint8Array[]): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const needle of needles) {
    const size = Buffer.alloc(4);
    size.writeUInt32LE(needle.length);
    parts.push(size, needle);
  }
  return Buffer.concat(parts);
}

/** Loads the addon; null if it was not compiled, was compiled for another platform, or lacks one of the functions. */
export function loadAddon(): (ByteEngine & Widths) | null {
  const names = Object.keys({ ...fallback, setWidestLevel: null }).filter((name) => name !== 'kind');
  const addon = loadFunctions<ByteEngine & Widths>('bytes.node', names);
  return addon === null ? null : { ...addon, kind: 'native' };
}

/** The functions in use: the addon's if it could be loaded, otherwise the fallback's. */
export const byteEngine: ByteEngine = loadAddon() ?? fallback;
