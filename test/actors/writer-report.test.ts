/**
 * The log lines that say why exchanges are not stored: one per cause and minute, each with advice, and none with the
 * content of an exchange.
 */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { WriterEvent } from '../../actors/capture-writer/adapter.ts';
import { WriterReport } from '../../actors/capture-writer/report.ts';
import { DROP_CAUSES, type SetApart } from '../../src/domain/capture-cause.ts';
import { DropReport } from '../../src/gateway/capture/drop-report.ts';

interface Line {
  level: string;
  fields: Record<string, unknown>;
  message: string;
}

let lines: Line[];
const note =
  (level: string) =>
  (fields: object, message: string): void =>
    void lines.push({ level, fields: fields as Record<string, unknown>, message });
const log = { info: note('info'), error: note('error') };

beforeEach(() => {
  lines = [];
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => void vi.useRealTimers());

const BAD: SetApart = {
  ...{ cause: 'unstorable', provider: 'anthropic', is_turn: true, aborted: false },
  ...{ path: '/v1/messages', bytes: 5_340_000, error: 'RangeError', at: ['at judgeRun (redaction.ts:1:1)'] },
};

it('skipped exchanges are logged at once, and then their number once a minute', () => {
  const { tell } = new WriterReport('/data/capture.mdb', log);
  const event: WriterEvent = { type: 'set_apart', exchanges: [BAD, BAD] };
  for (let times = 0; times < 5; times++) tell(event);
  expect(lines).toHaveLength(1);
  const { cause: _cause, provider: _provider, is_turn: _turn, aborted: _aborted, ...told } = BAD;
  expect(lines[0]!.fields).toEqual({ db: '/data/capture.mdb', cause: 'unstorable', exchanges: 2, ...told });
  vi.advanceTimersByTime(60_000);
  tell(event);
  expect(lines[1]!.fields).toMatchObject({ exchanges: 10 });
});

it.each(['disk_full', 'disk_error', 'damaged'] as const)('the log says what to do about %s', (cause) => {
  const { tell } = new WriterReport('/data/capture.mdb', log);
  tell({ type: 'failing', cause, reason: 'why' });
  tell({ type: 'stored_again' });
  tell({ type: 'failing', cause, reason: 'why' });
  expect(lines.map(({ level }) => level)).toEqual(['error', 'info']);
  expect(lines[0]).toMatchObject({ fields: { cause, reason: 'why' } });
  expect(lines[0]!.message).toMatch(/^exchanges cannot be stored: .*(Make|Check|Move) /);
});

it('drops are logged by cause', () => {
  const drops = new DropReport(log);
  const silent = new Set(['unstorable', 'stop']);
  for (let times = 1; times <= 3; times++) for (const cause of DROP_CAUSES) drops.tell(cause, times);
  expect(lines.map(({ fields }) => fields)).toEqual(
    DROP_CAUSES.filter((cause) => !silent.has(cause)).map((cause) => ({ cause, exchanges: 1 })),
  );
  for (const { message } of lines) expect(message).toMatch(/^exchanges are dropped: .{30,}/);
  lines.length = 0;
  vi.advanceTimersByTime(60_000);
  drops.tell('queue_full', 4);
  expect(lines.map(({ fields }) => fields)).toEqual([{ cause: 'queue_full', exchanges: 9 }]);
});
