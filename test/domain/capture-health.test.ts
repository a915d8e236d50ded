/** The state of capture in one word with the reason, and the cause of a failed write. */
import { describe, expect, it } from 'vitest';
import { findPlaceCause } from '../../src/domain/capture-cause.ts';
import { type JudgedFacts, judgeCapture } from '../../src/domain/capture-health.ts';

const WELL: JudgedFacts = {
  alive: true,
  killed: false,
  failing: null,
  oldest_append_ms: 0,
  dropping: [],
  packing_oldest_s: 0,
  unindexed_s: 0,
  set_aside: 0,
};

describe('the health of capture', () => {
  it.each<[string, Partial<JudgedFacts>, string, string[]]>([
    ['well', {}, 'ok', []],
    ['killed', { killed: true, alive: false, dropping: ['writer_killed'] }, 'stopped', ['writer_killed']],
    ['without its writer', { alive: false }, 'stopped', ['writer_down']],
    ['on a full disk', { failing: { cause: 'disk_full', for_ms: 5 } }, 'degraded', ['disk_full']],
    ['on a disk that fails', { failing: { cause: 'disk_error', for_ms: 5 } }, 'degraded', ['disk_error']],
    ['with a damaged file', { failing: { cause: 'damaged', for_ms: 5 } }, 'degraded', ['damaged']],
    ['with a writer that is busy', { failing: { cause: 'writer_busy', for_ms: 5 } }, 'ok', []],
    ['with a writer that takes its time', { oldest_append_ms: 9_999 }, 'ok', []],
    ['with a writer that hangs', { oldest_append_ms: 10_000 }, 'degraded', ['stuck']],
    ['dropping', { dropping: ['queue_full'] }, 'degraded', ['dropping']],
    ['with a file that was set aside', { set_aside: 1 }, 'degraded', ['set_aside']],
    ['with an index that keeps up', { unindexed_s: 10 }, 'ok', []],
    ['with an index that is behind', { unindexed_s: 11 }, 'degraded', ['indexing_behind']],
    ['with ten minutes to pack', { packing_oldest_s: 600 }, 'degraded', ['packing_behind']],
    [
      'in all ways at once',
      { alive: false, failing: { cause: 'disk_full', for_ms: 5 }, oldest_append_ms: 1e5, dropping: ['stop'] },
      'stopped',
      ['writer_down', 'disk_full', 'stuck', 'dropping'],
    ],
  ])('%s', (_how, facts, status, reasons) => {
    const health = judgeCapture({ ...WELL, ...facts });
    expect(health.status).toBe(status);
    expect(health.reasons.map(({ reason }) => reason)).toEqual(reasons);
    for (const { text } of health.reasons) expect(text).toMatch(/^[A-Z].{20,}/);
  });
});

describe('a failed write', () => {
  it.each([
    ['ENOSPC', 'disk_full'],
    ['EDQUOT', 'disk_full'],
    ['EFBIG', 'disk_full'],
    ['EIO', 'disk_error'],
    ['EROFS', 'disk_error'],
    ['EACCES', 'disk_error'],
    ['EMFILE', 'disk_error'],
    [-30796, 'damaged'],
    [-30782, 'disk_error'],
    ['truncated', 'damaged'],
    [-30781, null],
    ['ERR_OUT_OF_RANGE', null],
    ['ERR_BUFFER_TOO_LARGE', null],
    ['ZSTD_error_dictionary_wrong', null],
    [undefined, null],
  ] as const)('with code %s is of cause %s', (code, cause) => {
    expect(findPlaceCause(Object.assign(new Error('x'), { code }))).toBe(cause);
    expect(findPlaceCause(new Error('y', { cause: Object.assign(new Error('x'), { code }) }))).toBe(cause);
  });

  it('has no cause if it failed with something other than an error', () => {
    expect(findPlaceCause('ENOSPC')).toBeNull();
    expect(findPlaceCause(null)).toBeNull();
  });
});
