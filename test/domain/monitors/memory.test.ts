/** A run's memory that an earlier version wrote. */

import { describe, expect, it } from 'vitest';
import { FEATURE_BYTES } from '../../../src/domain/monitors/features.ts';
import { MEMORY_BYTES, makeMemory, RunMemory, restoreMemory } from '../../../src/domain/monitors/memory.ts';
import { MONITOR_NAMES } from '../../../src/domain/monitors/names.ts';

/** Offset of the streaks: after 20 counters and 8 averages of 4 bytes. */
const STREAKS_AT = 112;

const LAYOUT_CHANGED =
  'stored runs have the former layout: convert them (docs/architecture.md, "Where to begin")';

describe('runs that are already stored', () => {
  it('count monitors by position', () => {
    expect(MONITOR_NAMES.slice(0, 6), 'a new monitor must come last').toEqual([
      'verification_skip',
      'claim_contradiction',
      'cyclic_compression',
      'semantic_loop',
      'silent_topic_drift',
      'infinite_loop',
    ]);
  });

  it('have digests and memories of these sizes', () => {
    expect(FEATURE_BYTES, LAYOUT_CHANGED).toBe(652);
    expect(MEMORY_BYTES - MONITOR_NAMES.length * 4, LAYOUT_CHANGED).toBe(4656);
  });
});

describe('the memory of a stored run', () => {
  const memory = new RunMemory(makeMemory('Fix the failing test of the invoice parser'));
  for (const [at, name] of MONITOR_NAMES.entries())
    memory.setStreak(name, { length: at + 1, level: 1, calm: 0 });

  it('is read as it was stored, in its own buffer', () => {
    const restored = restoreMemory(memory.bytes);
    expect(restored).toEqual(memory.bytes);
    expect(restored.buffer).not.toBe(memory.bytes.buffer);
  });

  it('has an ended streak for a monitor that was added since', () => {
    const lastAt = STREAKS_AT + (MONITOR_NAMES.length - 1) * 4;
    const stored = Uint8Array.from([
      ...memory.bytes.subarray(0, lastAt),
      ...memory.bytes.subarray(lastAt + 4),
    ]);
    const restored = new RunMemory(restoreMemory(stored));
    const lengths = MONITOR_NAMES.map((_name, at) => (at < MONITOR_NAMES.length - 1 ? at + 1 : 0));
    expect(MONITOR_NAMES.map((name) => restored.streak(name).length)).toEqual(lengths);
    expect(restored.taskWords).toEqual(memory.taskWords);
    expect(restored.counters).toEqual(memory.counters);
  });

  it.each([MEMORY_BYTES + 4, MEMORY_BYTES - 1, MEMORY_BYTES - MONITOR_NAMES.length * 4, 0])(
    'is refused with %i bytes',
    (size) => {
      expect(() => restoreMemory(new Uint8Array(size))).toThrow(RangeError);
    },
  );
});
