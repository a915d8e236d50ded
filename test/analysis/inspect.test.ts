/** Runs summed up and read back as conversations. */
import { describe, expect, it } from 'vitest';
import { readRun, summarizeRun, summarizeRuns } from '../../src/analysis/inspect.ts';
import { addToolLoop, MadeSource } from './made-run.ts';

describe('summarizeRuns', () => {
  it('sums up a run and finds it golden', () => {
    const source = new MadeSource();
    addToolLoop(source, 'loop', true);
    const { runs, without_run } = summarizeRuns(source);
    expect(without_run).toBeNull();
    expect(runs).toEqual([
      {
        run_id: 'loop',
        notes: ['baseline'],
        providers: ['anthropic'],
        models: ['claude-x-20260101', 'claude-x'],
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
        golden: true,
        reasons: [],
      },
    ]);
    // Whether the call that failed was tried again, only the bodies tell.
    expect(source.bodiesRead).toBeGreaterThan(0);
    const whole = new MadeSource();
    addToolLoop(whole, 'loop', true);
    for (const [i, record] of whole.records.splice(0).entries()) {
      if (record.status === 200) whole.records.push({ ...record, seq: i === 0 ? 1 : i });
    }
    expect(summarizeRuns(whole).runs[0]?.golden).toBe(true);
    expect(whole.bodiesRead).toBe(0);
  });

  it('reads the bodies of an unlabelled run, and only of one that its records leave in question', () => {
    const source = new MadeSource();
    addToolLoop(source, 'found', false);
    expect(summarizeRuns(source).runs[0]).toMatchObject({ golden: true, reasons: [], first_seq: null });
    const aborted = new MadeSource();
    addToolLoop(aborted, 'found', false);
    aborted.add({ run_id: 'found', aborted: true, request: {}, response: '' });
    const [run] = summarizeRuns(aborted).runs;
    expect(run).toMatchObject({ golden: false, aborted: 1 });
    expect(aborted.bodiesRead).toBe(0);
  });

  it('does not call an unlabelled run golden when a turn of it is missing', () => {
    const source = new MadeSource();
    addToolLoop(source, 'found', false);
    // Neither the failed call nor its repetition was captured: the last request holds an answer that nobody saw.
    source.records.splice(1, 2);
    const [run] = summarizeRuns(source).runs;
    expect(run?.golden).toBe(false);
    expect(run?.reasons.map((reason) => reason.code)).toEqual(['unlinked']);
    // Nor one whose first request goes on from answers given before the capture began.
    const late = new MadeSource();
    addToolLoop(late, 'found', false);
    late.records.splice(0, 3);
    expect(summarizeRuns(late).runs[0]?.reasons[0]?.code).toBe('unlinked');
  });

  it('counts exchanges without a run apart and keeps runs by first appearance', () => {
    const source = new MadeSource();
    addToolLoop(source, 'b', true);
    source.add({ shape: null, path: '/v1/models' });
    addToolLoop(source, 'a', true);
    const table = summarizeRuns(source);
    expect(table.runs.map((run) => run.run_id)).toEqual(['b', 'a']);
    expect(table.without_run).toMatchObject({ run_id: null, exchanges: 1, turns: 0, golden: false });
  });

  it('looks into the last answer of a responses run for a call that still waits', () => {
    const source = new MadeSource();
    const output = [{ type: 'function_call', call_id: 'k', name: 'f', arguments: '{}' }];
    const shape = { shape: 'responses', path: '/v1/responses', run_id: 'r' } as const;
    source.add({
      ...shape,
      seq: 1,
      request: { input: 'Hi' },
      response: { id: 'resp_1', status: 'completed', output },
    });
    expect(summarizeRuns(source).runs[0]?.reasons[0]?.code).toBe('unfinished');
    source.add({
      ...shape,
      seq: 2,
      request: {
        previous_response_id: 'resp_1',
        input: [{ type: 'function_call_output', call_id: 'k', output: '1' }],
      },
      response: { id: 'resp_2', status: 'completed', output: [] },
    });
    expect(summarizeRuns(source).runs[0]?.golden).toBe(true);
    expect([...readRun(source, 'r')].map((step) => step.link)).toEqual(['starts', 'continues']);
  });
});

describe('readRun', () => {
  it('shows every message once and how the turns are linked', () => {
    const source = new MadeSource();
    addToolLoop(source, 'loop', true);
    source.add({ run_id: 'loop', seq: 5, shape: null, path: '/v1/messages/count_tokens' });
    const steps = [...readRun(source, 'loop')];
    expect(steps.map((step) => step.link)).toEqual(['starts', 'continues', 'repeats', 'continues', null]);
    expect(
      steps.map((step) => step.new_messages.map((message) => message.parts.map((part) => part.type))),
    ).toEqual([[['text']], [['tool_result']], [], [['tool_result']], []]);
    expect(steps.map((step) => step.new_system)).toEqual([['You mend code.'], null, null, null, null]);
    expect(steps[1]?.turn?.answer.error).toBe('overloaded_error: Overloaded');
  });

  it('has nothing to say of a run that is not there', () => {
    expect(summarizeRun(new MadeSource(), 'none')).toBeNull();
  });
});
