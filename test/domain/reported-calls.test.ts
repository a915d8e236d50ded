/** Which reports of tool calls are the same call, in any records and any order. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  type CallReport,
  countNamesOf,
  type ReportCounts,
  type ReportKind,
  takeReport,
} from '../../src/domain/reported-calls.ts';

/** The number of calls that result from the reports. */
function countCalls(reports: readonly Omit<CallReport, 'key'>[]): number {
  const known: ReportCounts = new Map();
  let calls = 0;
  reports.forEach((report, at) => {
    const keyed = { ...report, key: `k${at}` };
    const names = countNamesOf(keyed);
    const counts: ReportCounts = new Map([...known].filter(([name]) => names.includes(name)));
    if (!takeReport(keyed, counts)) calls += 1;
    for (const [name, count] of counts) known.set(name, count);
  });
  return calls;
}

const report = (told_by: ReportKind, call: string, tool = 'look') => ({ told_by, call, tool });

it.each<[string, Omit<CallReport, 'key'>[], number]>([
  ['spans with one id for all calls', Array.from({ length: 4 }, () => report('span', 'same')), 4],
  [
    'spans and events with one id for all calls',
    Array.from({ length: 8 }, (_, at) => report(at < 4 ? 'span' : 'event', 'same')),
    4,
  ],
  ['a span and an event of one call', [report('span', 'c1'), report('event', 'c1')], 1],
  ['a wrapper without an id, then the messages', [report('span', ''), report('message', 'c1')], 1],
  ['the messages, then a wrapper without an id', [report('message', 'c1'), report('span', '')], 1],
  [
    'a wrapped tool beside one that is not wrapped',
    [
      report('message', 'c1', 'other'),
      report('span', ''),
      report('message', 'c2'),
      report('message', 'c3', 'other'),
    ],
    3,
  ],
  [
    'a span with an id, the messages, then a wrapper of another call',
    [report('span', 'c1'), report('message', 'c1'), report('span', ''), report('message', 'c2')],
    2,
  ],
  ['spans without ids', [report('span', ''), report('span', '')], 2],
])('reports are counted as calls: %s', (_what, reports, calls) => {
  expect(countCalls(reports)).toBe(calls);
});

it('each call counts once in any order of the reports, with ids that repeat, and with reports without an id', () => {
  const call = fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd'), tool: fc.constantFrom('x', 'y') });
  const kinds = fc.constantFrom<ReportKind[]>(
    ['span'],
    ['span', 'event'],
    ['span', 'message'],
    ['event', 'message', 'span'],
  );
  fc.assert(
    fc.property(
      fc.array(call, { maxLength: 12 }),
      kinds,
      fc.boolean(),
      fc.infiniteStream(fc.nat()),
      (calls, by, isBare, order) => {
        // The report of a wrapper has no id, but the messages beside it contain the ids.
        const reports = by.flatMap((kind) =>
          calls.map(({ id, tool }) =>
            report(kind, isBare && kind === 'span' && by.includes('message') ? '' : `${id}${tool}`, tool),
          ),
        );
        const shuffled = reports
          .map((report) => ({ report, at: order.next().value as number }))
          .sort((a, b) => a.at - b.at)
          .map(({ report }) => report);
        expect(countCalls(shuffled)).toBe(calls.length);
      },
    ),
  );
});
