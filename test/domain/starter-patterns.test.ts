/** The universal patterns: complete, bounded, different from each other. */

import { describe, expect, it } from 'vitest';
import { MONITOR_NAMES } from '../../src/domain/monitors/names.ts';
import { PATTERN_BOUNDS } from '../../src/domain/pattern.ts';
import { STARTER_PATTERNS } from '../../src/domain/starter-patterns.ts';

describe('starter patterns', () => {
  it('are within the bounds of a pattern and have text in every field', () => {
    expect(STARTER_PATTERNS.length).toBeGreaterThanOrEqual(40);
    for (const { situation, dead_ends, unlock, model, failure_type } of STARTER_PATTERNS) {
      expect(situation.length).toBeGreaterThan(40);
      expect(situation.length).toBeLessThanOrEqual(PATTERN_BOUNDS.situation);
      expect(dead_ends).toMatch(/^- \w/);
      expect(dead_ends.length).toBeLessThanOrEqual(PATTERN_BOUNDS.dead_ends);
      expect(unlock.length).toBeGreaterThan(80);
      expect(unlock.length).toBeLessThanOrEqual(PATTERN_BOUNDS.unlock);
      expect(model).toBe('');
      expect(['', ...MONITOR_NAMES]).toContain(failure_type);
    }
  });

  it('cover every monitor', () => {
    const types = new Set(STARTER_PATTERNS.map(({ failure_type }) => failure_type));
    for (const name of MONITOR_NAMES) expect(types).toContain(name);
  });

  it('are about different situations', () => {
    const words = STARTER_PATTERNS.map(
      ({ situation }) => new Set(situation.toLowerCase().match(/\p{L}{4,}/gu)),
    );
    for (const [index, mine] of words.entries()) {
      for (const others of words.slice(index + 1)) {
        const common = [...mine].filter((word) => others.has(word)).length;
        expect(common / Math.min(mine.size, others.size)).toBeLessThan(0.6);
      }
    }
  });
});
