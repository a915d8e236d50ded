/** When an alert fires and recovers, the messages that it then sends, and when a message is repeated. */
import { describe, expect, it } from 'vitest';
import {
  type AlertDelivery,
  type AlertRow,
  type AlertRule,
  beginState,
  isDue,
  nameTarget,
  nextAttempt,
  stepAlert,
  tellNews,
} from '../../src/domain/alert.ts';
import { isQuiet, isTimeZone } from '../../src/domain/quiet-hours.ts';

const rule: AlertRule = {
  name: 'failures',
  is_on: true,
  measure: 'runs',
  query: 'status:failed',
  of_query: '',
  provider: '',
  fires: 'above',
  threshold: 2,
  window_s: 3_600,
  quiet: null,
  interval_s: 600,
  destinations: [],
};

/** Checks the values of these minutes in order. @returns the messages of each check */
function look(given: AlertRule, values: readonly [minute: number, value: number | null][]) {
  let state = beginState(0);
  return values.map(([minute, value]) => {
    const step = stepAlert(given, state, { value, problem: '' }, minute * 60_000);
    state = step.state;
    return step.tell;
  });
}

describe('an alert', () => {
  it('reports once that the value crossed the threshold, and once that the value is back', () => {
    expect(
      look(rule, [
        [0, 2],
        [1, 3],
        [2, 9],
        [3, 2],
        [4, 0],
      ]),
    ).toEqual([null, 'fired', null, 'recovered', null]);
  });

  it('fires below a threshold if the rule says so', () => {
    expect(
      look({ ...rule, fires: 'below' }, [
        [0, 2],
        [1, 1],
        [2, 2],
      ]),
    ).toEqual([null, 'fired', 'recovered']);
  });

  it('does not change while the value is unknown', () => {
    expect(
      look(rule, [
        [0, 3],
        [1, null],
        [2, 3],
        [3, null],
        [4, 1],
      ]),
    ).toEqual(['fired', null, null, null, 'recovered']);
  });

  it('waits for the interval before another report, and drops a crossing that has ended by then', () => {
    expect(
      look(rule, [
        [0, 3],
        [1, 0],
        [2, 3],
        [3, 0],
        [5, 3],
        [9, 3],
        [10, 3],
      ]),
    ).toEqual(['fired', 'recovered', null, null, null, null, 'fired']);
  });

  it('is not silenced by a clock that is set back', () => {
    expect(
      look(rule, [
        [1_000, 3],
        [1_001, 0],
        [10, 3],
      ]),
    ).toEqual(['fired', 'recovered', 'fired']);
  });

  it('reports nothing in quiet hours, and at their end only crossings that have not ended', () => {
    const quiet = { from: '00:00', to: '01:00', time_zone: 'UTC' };
    expect(
      look({ ...rule, quiet }, [
        [10, 3],
        [20, 0],
        [30, 3],
        [60, 3],
        [24 * 60 + 10, 0],
        [25 * 60, 0],
      ]),
    ).toEqual([null, null, null, 'fired', null, 'recovered']);
  });

  it('says what happened in one line', () => {
    const row: AlertRow = { ...rule, id: 'alr_1', org_id: '', created_at: '', updated_at: '' };
    const event = { id: 'ale_1', type: 'fired', at: '2026-01-01T00:00:00.000Z', value: 3 } as const;
    expect(tellNews(row, event).text).toBe(
      'Alert: failures: runs 3 (fires above 2; status:failed, last 1 h)',
    );
    const share: AlertRow = { ...row, measure: 'share', threshold: 0.05, window_s: 300 };
    expect(tellNews(share, { ...event, type: 'recovered', value: 0.0312 }).text).toBe(
      'Recovered: failures: share of runs 3.1 % (fires above 5 %; status:failed of all runs, last 5 min)',
    );
    const disk: AlertRow = { ...row, measure: 'disk_left', fires: 'below', threshold: 0.1 };
    expect(tellNews(disk, { ...event, value: null }).text).toBe(
      'Alert: failures: disk left not known (fires below 10 %)',
    );
  });

  it('names only the host of a webhook', () => {
    const url = 'https://hooks.example.com/services/T0/B0/token';
    expect(nameTarget({ kind: 'slack', url, to: [] })).toBe('hooks.example.com');
    expect(nameTarget({ kind: 'email', url: '', to: ['a@x.y', 'b@x.y'] })).toBe('a@x.y, b@x.y');
  });
});

describe('quiet hours', () => {
  it.each([
    ['22:00', '07:00', 'UTC', '2026-06-01T21:59:00Z', false],
    ['22:00', '07:00', 'UTC', '2026-06-01T22:00:00Z', true],
    ['22:00', '07:00', 'UTC', '2026-06-01T06:59:59Z', true],
    ['22:00', '07:00', 'UTC', '2026-06-01T07:00:00Z', false],
    ['22:00', '07:00', 'Europe/Berlin', '2026-06-01T20:30:00Z', true],
    ['22:00', '07:00', 'Europe/Berlin', '2026-01-01T20:30:00Z', false],
    ['09:00', '17:00', 'Asia/Kolkata', '2026-01-01T03:30:00Z', true],
    ['09:00', '17:00', 'Asia/Kolkata', '2026-01-01T11:30:00Z', false],
    ['08:00', '08:00', 'UTC', '2026-01-01T03:00:00Z', true],
  ])('from %s to %s in %s at %s: %s', (from, to, time_zone, at, is) => {
    expect(isQuiet({ from, to, time_zone }, Date.parse(at))).toBe(is);
  });

  it('begin and end in the time zone of the rule', () => {
    expect(['Europe/Berlin', 'UTC', 'Europe/Atlantis', ''].map(isTimeZone)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});

describe('an alert’s message', () => {
  const delivery = { attempts: 1, made_ms: 1_000_000, due_ms: 1_000_000 } as AlertDelivery;

  it('is retried after growing pauses, and given up after a day', () => {
    const pause = (attempts: number) => nextAttempt({ ...delivery, attempts }, 1_000_000)! - 1_000_000;
    expect([1, 2, 3, 4, 5, 6, 7, 99].map(pause)).toEqual([
      10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 3_600_000, 3_600_000,
    ]);
    expect(nextAttempt(delivery, 1_000_000 + 86_400_000)).toBeNull();
    expect(nextAttempt(delivery, 1_000_000 - 86_400_000)).toBeNull();
  });

  it('is due even if the clock was set back', () => {
    expect(isDue(delivery, 999_999)).toBe(false);
    expect(isDue(delivery, 1_000_000)).toBe(true);
    expect(isDue({ ...delivery, due_ms: 10_000_000 }, 1_000_000)).toBe(true);
  });
});
