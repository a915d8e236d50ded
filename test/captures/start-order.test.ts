/** Pages that are read in order of start equal the same pages from a search through all runs. */
import { expect, it } from 'vitest';
import { CapturedRuns } from '../../src/captures/captured-runs.ts';
import type { SaidOfRuns } from '../../src/captures/run-entry.ts';
import type { ReportedRun } from '../../src/domain/reported-run.ts';
import { NO_MARKS, NO_WORDS } from '../../src/domain/run-mark.ts';
import type { PagePlace } from '../../src/domain/run-query/page.ts';
import { parseRunQuery } from '../../src/domain/run-query/parse.ts';
import { ChangedIds } from '../../src/std/changed-ids.ts';
import { createPrng } from '../../src/std/prng.ts';
import { MadeSource } from './made-run.ts';

const NOW_MS = Date.UTC(2026, 0, 3);
/** A query that matches every run, but is answered only by a search. */
const EVERY_RUN = '-run:absent';

class Reported {
  readonly runs = new Map<string, ReportedRun>();
  readonly changes = new ChangedIds();

  add(run_id: string, started_ms: number): void {
    const names = { org_id: 'o', project_id: 'p', agent_name: 'a', model: 'm', framework: '', task: '' };
    const more = { task_profile: '', codebase_id: '', experiment_id: '', arm: '', key_id: '' };
    const end = { is_finished: true, outcome: 'success', finished_ms: started_ms + 1, duration_ms: 1 };
    const counts = { steps: 1, tokens: 1, max_total_score: 0, fired: [] };
    this.runs.set(run_id, { run_id, started_ms, ...names, ...more, ...end, ...counts });
    this.changes.add(run_id);
  }

  remove(run_id: string): void {
    if (this.runs.delete(run_id)) this.changes.add(run_id);
  }

  get said(): SaidOfRuns {
    return {
      wordsOf: () => NO_WORDS,
      marksOf: () => NO_MARKS,
      reportedOf: (runId) => this.runs.get(runId),
      allReportedOf: (runId) => [this.runs.get(runId)].filter((run) => run !== undefined),
      reported: () => this.runs.values(),
      changes: this.changes,
      findText: () => null,
    };
  }
}

function readPages(runs: CapturedRuns, source: MadeSource, q: string): unknown[] {
  const pages: unknown[] = [];
  for (let after: PagePlace | null = null; ; ) {
    const question = { limit: 7, after, query: parseRunQuery(q), now_ms: NOW_MS };
    const { next, runs: rows, ...counts } = runs.page(source, question, () => false);
    pages.push({ next, run_ids: rows.map(({ run_id }) => run_id), ...counts });
    if (next === null) return pages;
    after = next;
  }
}

it('pages are the same as those of a search while runs arrive, get an earlier start, are reported or are dropped', () => {
  const random = createPrng(5);
  const draw = (below: number) => random.below(below);
  const source = new MadeSource();
  const reported = new Reported();
  const runs = new CapturedRuns({ said: reported.said, max: 30 });
  const startOf = () => Date.UTC(2026, 0, 2) + draw(40) * 1_000;
  for (let turn = 0; turn < 45; turn++) {
    for (let added = draw(4); added > 0; added--) {
      const record = source.add({ run_id: `run-${draw(90)}` });
      record.started_at = new Date(startOf()).toISOString();
      if (draw(3) === 0) record.trace_id = `trace-${draw(20)}`;
      runs.add(record);
    }
    if (draw(2) === 0) reported.add(draw(2) === 0 ? `run-${draw(90)}` : `trace-${draw(20)}`, startOf());
    if (draw(6) === 0) reported.remove(`run-${draw(90)}`);
    expect(readPages(runs, source, '')).toEqual(readPages(runs, source, EVERY_RUN));
  }
  expect(runs.left_out).toBeGreaterThan(0);
});
