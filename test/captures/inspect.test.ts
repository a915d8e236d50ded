/** Summaries of runs, and runs read back as conversations. */
import { describe, expect, it } from 'vitest';
import type { ListedExchange } from '../../src/captures/exchange-source.ts';
import { readRun, summarizeRun, summarizeRuns } from '../../src/captures/inspect.ts';
import { addToolLoop, MadeSource } from './made-run.ts';

/** A source that must be released between calls, but never during a listing. */
class PagedSource extends MadeSource {
  releases = 0;
  #listings = 0;

  override *summaries(filter?: { run_id?: string; from_id?: number }): Iterable<ListedExchange> {
    this.#listings += 1;
    try {
      yield* super.summaries(filter);
    } finally {
      this.#listings -= 1;
    }
  }

  async release(): Promise<void> {
    expect(this.#listings).toBe(0);
    this.releases += 1;
  }
}

describe('summarizeRuns', () => {
  it('summarizes a run and finds it golden', async () => {
    const source = new MadeSource();
    addToolLoop(source, 'loop', true);
    const { runs, without_run } = await summarizeRuns(source);
    expect(without_run).toBeNull();
    expect(runs).toEqual([
      {
        run_id: 'loop',
        session_id: null,
        parent_run_id: null,
        kind: null,
        notes: ['baseline'],
        providers: ['anthropic'],
        models: ['claude-x-20260101', 'claude-x'],
        tools: ['read_file'],
        client: null,
        trace_id: null,
        exchanges: 4,
        turns: 4,
        student_turns: 0,
        started_at: '2026-01-02T03:04:01.000Z',
        finished_at: '2026-01-02T03:04:05.500Z',
        input_tokens: 300,
        output_tokens: 60,
        cache_read_tokens: 21,
        cache_write_tokens: 9,
        errors: 1,
        aborted: 0,
        first_seq: 1,
        last_seq: 4,
        gaps: [],
        outcome: null,
        keys: [],
        request_tags: [],
        mark: null,
        tags: [],
        note: '',
        feedback_score: null,
        overruled: [],
        golden: true,
        reasons: [],
      },
    ]);
    // Only the bodies show whether the failed call was retried.
    expect(source.bodiesRead).toBeGreaterThan(0);
  });

  it('reads the bodies of an unlabelled run only if its records do not decide whether it is golden', async () => {
    const source = new MadeSource();
    addToolLoop(source, 'found', false);
    expect((await summarizeRuns(source)).runs[0]).toMatchObject({
      golden: true,
      reasons: [],
      first_seq: null,
    });
    const aborted = new MadeSource();
    addToolLoop(aborted, 'found', false);
    aborted.add({ run_id: 'found', aborted: true, request: {}, response: '' });
    const [run] = (await summarizeRuns(aborted)).runs;
    expect(run).toMatchObject({ golden: false, aborted: 1 });
    expect(aborted.bodiesRead).toBe(0);
  });

  it('does not call an unlabelled run golden if one of its turns is missing', async () => {
    const source = new MadeSource();
    addToolLoop(source, 'found', false);
    // Neither the failed call nor its retry was captured, so the last request contains an answer that was not captured.
    source.records.splice(1, 2);
    const [run] = (await summarizeRuns(source)).runs;
    expect(run?.golden).toBe(false);
    expect(run?.reasons.map((reason) => reason.code)).toEqual(['unlinked']);
    // A run is not golden either if its first request continues answers from before the capture.
    const late = new MadeSource();
    addToolLoop(late, 'found', false);
    late.records.splice(0, 3);
    expect((await summarizeRuns(late)).runs[0]?.reasons[0]?.code).toBe('unlinked');
  });

  it('judges any number of runs, reads each body once, and releases the source in between', {
    tags: 'long',
  }, async () => {
    const RUNS = 4_500;
    const source = new PagedSource();
    const name = (run: number) => `run-${run}`;
    const ask = (run: number) => ({ role: 'user', content: `task ${run}` });
    const said = (text: string) => ({
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text }],
      stop_reason: 'end_turn',
    });
    for (let run = 0; run < RUNS; run += 1) {
      source.add({ run_id: name(run), request: { messages: [ask(run)] }, response: said(`first ${run}`) });
    }
    for (let run = 0; run < RUNS; run += 1) {
      // Every seventh run continues a different answer from the one it was given.
      const answer = { role: 'assistant', content: run % 7 === 0 ? 'another' : `first ${run}` };
      const messages = [ask(run), answer, { role: 'user', content: 'go on' }];
      source.add({ run_id: name(run), request: { messages }, response: said('done') });
    }
    const { runs } = await summarizeRuns(source);
    expect(runs.map((run) => run.run_id)).toEqual(Array.from({ length: RUNS }, (_, run) => name(run)));
    expect(runs.map((run) => run.golden)).toEqual(Array.from({ length: RUNS }, (_, run) => run % 7 !== 0));
    // Each run has two exchanges with two bodies each.
    expect(source.bodiesRead).toBe(4 * RUNS);
    expect(source.releases).toBeGreaterThan(10);
  });

  it('reads only as many of the newest runs as it needs to find the requested number', async () => {
    const source = new MadeSource();
    const RUNS = 2_000;
    const said = (stop_reason: string) => ({ type: 'message', role: 'assistant', content: [], stop_reason });
    for (let run = 1; run <= RUNS; run += 1)
      source.add({
        run_id: `run-${run}`,
        request: { messages: [{ role: 'user', content: `task ${run}` }] },
        response: said(run % 3 === 0 ? 'end_turn' : 'max_tokens'),
      });
    const { runs, left_out_runs } = await summarizeRuns(source, new Map(), { golden: true, limit: 5 });
    expect(runs.map(({ run_id }) => run_id)).toEqual(
      [1_986, 1_989, 1_992, 1_995, 1_998].map((run) => `run-${run}`),
    );
    expect(left_out_runs).toBe(RUNS - 256);
    const latest = await summarizeRuns(source, new Map(), { limit: 3 });
    expect(latest.runs.map(({ run_id }) => run_id)).toEqual(['run-1998', 'run-1999', 'run-2000']);
    expect(latest.left_out_runs).toBe(RUNS - 3);
    const all = await summarizeRuns(source, new Map(), { golden: true });
    expect([all.runs.length, all.left_out_runs]).toEqual([Math.floor(RUNS / 3), 0]);
  });

  it('counts exchanges without a run separately, and orders runs by first appearance', async () => {
    const source = new MadeSource();
    addToolLoop(source, 'b', true);
    source.add({ shape: null, path: '/v1/models' });
    addToolLoop(source, 'a', true);
    const table = await summarizeRuns(source);
    expect(table.runs.map((run) => run.run_id)).toEqual(['b', 'a']);
    expect(table.without_run).toMatchObject({ run_id: null, exchanges: 1, turns: 0, golden: false });
  });

  it('checks the last answer of a responses run for a pending call', async () => {
    const source = new MadeSource();
    const output = [{ type: 'function_call', call_id: 'k', name: 'f', arguments: '{}' }];
    const shape = { shape: 'responses', path: '/v1/responses', run_id: 'r' } as const;
    source.add({
      ...shape,
      seq: 1,
      request: { input: 'Hi' },
      response: { id: 'resp_1', status: 'completed', output },
    });
    expect((await summarizeRuns(source)).runs[0]?.reasons[0]?.code).toBe('unfinished');
    source.add({
      ...shape,
      seq: 2,
      request: {
        previous_response_id: 'resp_1',
        input: [{ type: 'function_call_output', call_id: 'k', output: '1' }],
      },
      response: { id: 'resp_2', status: 'completed', output: [] },
    });
    expect((await summarizeRuns(source)).runs[0]?.golden).toBe(true);
    expect([...readRun(source, 'r')].map((step) => step.link)).toEqual(['starts', 'continues']);
  });
});

describe('a run that is read', () => {
  it('shows every message once and how the turns are linked', () => {
    const source = new MadeSource();
    addToolLoop(source, 'loop', true);
    source.add({ run_id: 'loop', seq: 5, shape: null, path: '/v1/messages/count_tokens' });
    const steps = [...readRun(source, 'loop')];
    expect(steps.map((step) => step.link)).toEqual(['starts', 'continues', 'repeats', 'continues', null]);
    expect(
      steps.map((step) => step.new_messages.map((message) => message.content.map((block) => block.type))),
    ).toEqual([[['text']], [['tool_result']], [], [['tool_result']], []]);
    expect(steps.map((step) => step.new_system)).toEqual([['You mend code.'], null, null, null, null]);
    expect(steps[1]?.turn?.answer.error).toBe('overloaded_error: Overloaded');
  });

  it('has no summary if it is missing', () => {
    expect(summarizeRun(new MadeSource(), 'none')).toBeNull();
  });
});
