/** The answers of a list that follows single changes, compared with those of a new list. */
import { expect, it } from 'vitest';
import { CapturedRuns } from '../../src/captures/captured-runs.ts';
import type { SaidOfRuns } from '../../src/captures/run-entry.ts';
import type { ReportedRun } from '../../src/domain/reported-run.ts';
import { NO_MARKS, NO_WORDS, type RunMarks } from '../../src/domain/run-mark.ts';
import { parseRunQuery } from '../../src/domain/run-query/parse.ts';
import { ChangedIds } from '../../src/std/changed-ids.ts';
import { createPrng } from '../../src/std/prng.ts';
import { MadeSource } from './made-run.ts';

const NOW_MS = Date.UTC(2026, 0, 2, 0, 20);
const QUERIES = [
  '',
  'sort:started-asc',
  'sort:finished',
  'sort:turns has:error',
  'sort:feedback-asc',
  'status:ok',
  'status:failed,error',
  'status:running',
  'status:unknown -is:reported',
  'is:reported is:captured',
  '-is:captured',
  'is:bad',
  'is:golden',
  '-is:golden sort:tokens',
  'reason:failed_call,outcome',
  'tag:red,blue',
  'note:look',
  'agent:bot',
  'agent:cli sort:duration',
  'key:k-1',
  'project:p',
  'steps:>2',
  'monitor:infinite_loop>1',
  'has:session -has:tag',
  'session:s-1',
  'session:"s-2"',
  '-session:s',
  'parent:RUN-2',
  'task:question',
  '-task:"7"',
  'run:Run-2',
  'run:trace*,s-?',
  'run:"run-11"',
  'outcome:fail',
  'run-1',
  'red -failure',
  'text:"look here",cli',
  'since:15m',
  'finished:<10m',
  'failed:<10m',
  '-failed:<10m is:captured',
];
const VALUES = ['status', 'tag', 'agent', 'is', 'monitor', 'outcome', 'session'];

class Said {
  readonly runs = new Map<string, ReportedRun>();
  readonly marks = new Map<string, RunMarks>();
  readonly changes = new ChangedIds();

  report(run_id: string, change: Partial<ReportedRun>): void {
    const names = {
      org_id: 'o',
      project_id: 'p',
      agent_name: 'bot',
      model: 'm',
      framework: '',
      task: 'a task',
    };
    const more = { task_profile: '', codebase_id: '', experiment_id: '', arm: '', key_id: 'k-1' };
    const end = { is_finished: false, outcome: '', finished_ms: null, duration_ms: 1 };
    const counts = { steps: 1, tokens: 1, max_total_score: 0, fired: [0, 0, 0, 0, 0, 0] };
    const started_ms = Date.UTC(2026, 0, 2);
    const known = this.runs.get(run_id);
    if (known !== undefined) Object.assign(known, change);
    else this.runs.set(run_id, { run_id, started_ms, ...names, ...more, ...end, ...counts, ...change });
    this.changes.add(run_id);
  }

  remove(run_id: string): void {
    if (this.runs.delete(run_id)) this.changes.add(run_id);
  }

  mark(run_id: string, marks: RunMarks | null): void {
    if (marks === null) this.marks.delete(run_id);
    else this.marks.set(run_id, marks);
    this.changes.add(run_id);
  }

  get said(): SaidOfRuns {
    const marksOf = (runId: string) => this.marks.get(runId) ?? NO_MARKS;
    return {
      wordsOf: (runId) => ({ ...NO_WORDS, ...marksOf(runId) }),
      marksOf,
      reportedOf: (runId) => this.runs.get(runId),
      allReportedOf: (runId) => [this.runs.get(runId)].filter((run) => run !== undefined),
      reported: () => this.runs.values(),
      changes: this.changes,
      findText: () => null,
    };
  }
}

/** Answers of a list that has read all bodies. */
function answer(runs: CapturedRuns, source: MadeSource): unknown {
  while (runs.readUnread(source, Number.POSITIVE_INFINITY));
  const pages = QUERIES.map((q) => {
    const question = { limit: 60, after: null, query: parseRunQuery(q), now_ms: NOW_MS };
    const { runs: rows, matched, scanned } = runs.page(source, question, () => false);
    return {
      q,
      rows: rows.map(({ run_id, status, reported }) => [run_id, status, reported]),
      matched,
      scanned,
    };
  });
  const values = VALUES.map((field) =>
    runs.countValues({ field, contains: '', limit: 50, query: parseRunQuery('-is:good'), now_ms: NOW_MS }),
  );
  return { pages, values };
}

it.each([100, 20])('the table answers like a new one after every change, with at most %i runs', (max) => {
  const random = createPrng(11);
  const draw = (below: number) => random.below(below);
  const draws = <Item>(items: readonly Item[]): Item => items[draw(items.length)]!;
  const source = new MadeSource();
  const said = new Said();
  const runs = new CapturedRuns({ said: said.said, max });
  const startOf = () => Date.UTC(2026, 0, 2) + draw(1_200) * 1_000;
  const idOf = () => draws([`run-${draw(30)}`, `trace-${draw(8)}`, `s-${draw(4)}`]);
  const steps = [
    () => {
      const record = source.add({
        run_id: `run-${draw(30)}`,
        status: draws([200, 200, 500]),
        request: { model: 'm', messages: [{ role: 'user', content: `Question ${draw(9)}` }] },
      });
      if (draw(4) === 0) record.parent_run_id = `run-${draw(6)}`;
      record.started_at = new Date(startOf()).toISOString();
      if (draw(2) === 0) record.trace_id = `trace-${draw(8)}`;
      if (draw(3) === 0) record.session_id = `s-${draw(4)}`;
      if (draw(3) === 0) record.client = draws(['cli', 'bot']);
      runs.add(record);
    },
    () => said.report(idOf(), { started_ms: startOf(), steps: draw(5), fired: [0, 0, 0, 0, 0, draw(3)] }),
    () =>
      said.report(idOf(), { is_finished: true, outcome: draws(['success', 'failure']), finished_ms: NOW_MS }),
    () => said.remove(idOf()),
    () =>
      said.mark(idOf(), {
        mark: draws(['good', 'bad', null]),
        tags: draws([[], ['red'], ['red', 'blue']]),
        note: draws(['', 'look here']),
        feedback_score: draws([null, 0.5, 1]),
      }),
    () => said.mark(idOf(), null),
    () => said.changes.addAll(),
  ];
  for (let turn = 0; turn < 10; turn++) {
    for (let count = draw(16); count >= 0; count--) draws([steps[0]!, ...steps.slice(0, 6)])();
    if (turn === 6) steps[6]!();
    if (draw(2) === 0) runs.prepare(() => draw(5) > 0);
    const anew = new CapturedRuns({ said: said.said, max });
    for (const record of source.summaries()) anew.add(record);
    expect(answer(runs, source)).toEqual(answer(anew, source));
  }
});

it('the table forgets changes beyond its bound, and reports that', () => {
  const changes = new ChangedIds();
  const before = changes.end;
  changes.add('a');
  changes.add('b');
  expect(changes.since(before)).toEqual(['a', 'b']);
  expect(changes.since(changes.end)).toEqual([]);
  const { end } = changes;
  for (let at = 0; at < 20_000; at++) changes.add(`${at}`);
  expect(changes.since(end)).toBeNull();
  const last = changes.end;
  changes.add('c');
  expect(changes.since(last)).toEqual(['c']);
  changes.addAll();
  expect(changes.since(last)).toBeNull();
  expect(changes.since(changes.end)).toEqual([]);
});
