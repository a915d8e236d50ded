/** Traces of made-up runs: the form of a line, the new parts of each turn, and whether a run is golden. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RunChains } from '../../src/captures/run-chains.ts';
import { describeRun, type TraceOptions, traceRun } from '../../src/captures/trace.ts';
import type { ApiShape } from '../../src/domain/exchange.ts';
import { NO_WORDS } from '../../src/domain/run-mark.ts';
import { drawsOf } from '../long-parts.ts';
import { addToolLoop, type MadeExchange, MadeSource } from './made-run.ts';

const NOTHING: TraceOptions = { words: NO_WORDS, hasFile: () => false };

/** The lines of all runs, parsed. */
function traceAll(source: MadeSource, options: TraceOptions = NOTHING) {
  const chains = new RunChains();
  for (const record of source.summaries()) chains.add(record);
  return [...chains.runs].map((chained) => {
    const run = describeRun(source, chains, chained)!;
    const line = [...traceRun(source, chains, run, options)].join('');
    expect(line.endsWith('\n')).toBe(true);
    expect(line.indexOf('\n')).toBe(line.length - 1);
    return JSON.parse(line);
  });
}

const said = (text: string, stop = 'end_turn') => ({
  type: 'message',
  model: 'claude-x-1',
  content: [{ type: 'text', text }],
  stop_reason: stop,
  usage: { input_tokens: 5, output_tokens: 1 },
});

function turn(seq: number | null, messages: unknown[], response: unknown, more: Partial<MadeExchange> = {}) {
  const request = { model: 'claude-x', system: 'Be brief.', tools: [{ name: 'read_file' }], messages };
  return { run_id: 'r', seq, request, response, ...more };
}

const user = (content: unknown) => ({ role: 'user', content });
const assistant = (content: unknown) => ({ role: 'assistant', content });

describe('traceRun', () => {
  it('has exactly the fields of svc_trace_v1, in their order', () => {
    const source = new MadeSource();
    addToolLoop(source, 'mend-1', true);
    const [line] = traceAll(source);
    expect(Object.keys(line)).toEqual(
      'format run_id session_id parent_run_id kind provider model task note started_at finished_at outcome mark turns provenance'.split(
        ' ',
      ),
    );
    for (const turn of line.turns) {
      expect(Object.keys(turn)).toEqual(
        'seq exchange_id system messages_added tools content stop_reason usage latency_ms served_by'.split(
          ' ',
        ),
      );
    }
    expect(Object.keys(line.provenance)).toEqual(
      'exchanges first_seq last_seq gaps complete supports_universal_claims reasons'.split(' '),
    );
    expect(line).toMatchObject({
      format: 'svc_trace_v1',
      run_id: 'mend-1',
      provider: 'anthropic',
      model: 'claude-x-20260101',
      task: 'Mend the parser.',
      note: 'baseline',
      started_at: '2026-01-02T03:04:01.000Z',
      finished_at: '2026-01-02T03:04:05.500Z',
      outcome: null,
      mark: null,
    });
  });

  it('contains each message once, the retried call once, and is golden with its proof', () => {
    const source = new MadeSource();
    addToolLoop(source, 'mend-1', true);
    const [{ turns, provenance }] = traceAll(source);
    expect(turns.map((turn: { exchange_id: number }) => turn.exchange_id)).toEqual([1, 3, 4]);
    expect(turns[0].messages_added).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Mend the parser.' }] },
    ]);
    expect(turns[1].messages_added).toEqual([
      {
        role: 'tool',
        content: [
          {
            type: 'tool_result',
            call_id: 'toolu_1',
            name: 'read_file',
            is_error: false,
            content: [{ type: 'text', text: 'export const x = 1;' }],
          },
        ],
      },
    ]);
    expect(turns[2].messages_added).toHaveLength(1);
    expect(turns[2].messages_added[0].content[0]).toMatchObject({ call_id: 'toolu_2', is_error: true });
    expect(turns.map((turn: { system: unknown }) => turn.system)).toEqual([
      [{ type: 'text', text: 'You mend code.' }],
      null,
      null,
    ]);
    expect(turns[0].content[1]).toEqual({
      type: 'tool_call',
      id: 'toolu_1',
      name: 'read_file',
      input: { path: 'parser.ts' },
    });
    expect(turns[2]).toMatchObject({
      stop_reason: 'end_turn',
      latency_ms: 1500,
      served_by: 'upstream',
      seq: 4,
    });
    expect(provenance).toEqual({
      exchanges: 4,
      first_seq: 1,
      last_seq: 4,
      gaps: [],
      complete: true,
      supports_universal_claims: true,
      reasons: [],
    });
  });

  it('proves an unlabelled run by its conversation, and not one that lacks a turn', () => {
    const whole = new MadeSource();
    addToolLoop(whole, 'conv_1', false);
    expect(traceAll(whole)[0].provenance).toMatchObject({
      first_seq: null,
      last_seq: null,
      complete: true,
      supports_universal_claims: true,
    });
    const made = new MadeSource();
    made.add(turn(null, [user('a')], said('one')));
    made.add(
      turn(null, [user('a'), assistant('one'), user('b'), assistant('two'), user('c')], said('three')),
    );
    const { turns, provenance } = traceAll(made)[0];
    expect(provenance).toMatchObject({ complete: false, supports_universal_claims: false });
    expect(provenance.reasons.map(({ code }: { code: string }) => code)).toEqual(['unlinked']);
    // The missing answer is taken from the client's next request.
    expect(turns[1].messages_added.map(({ role }: { role: string }) => role)).toEqual([
      'user',
      'assistant',
      'user',
    ]);
  });

  it('names gaps, aborts and failures', () => {
    const source = new MadeSource();
    source.add(turn(1, [user('a')], said('one')));
    source.add(turn(4, [user('a'), assistant('one'), user('b')], '', { status: 200, aborted: true }));
    source.add(
      turn(5, [user('a'), assistant('one'), user('c')], { error: { message: 'no' } }, { status: 500 }),
    );
    const { turns, provenance } = traceAll(source)[0];
    expect(turns).toHaveLength(1);
    expect(provenance).toMatchObject({
      exchanges: 3,
      first_seq: 1,
      last_seq: 5,
      gaps: [[2, 3]],
      complete: false,
    });
    const codes = provenance.reasons.map(({ code }: { code: string }) => code);
    expect(codes).toEqual(['seq_gap', 'aborted', 'failed_call']);
    for (const { words } of provenance.reasons) expect(words).toMatch(/\w+ \w+/);
  });

  it('is not golden if a call still waits for a tool, even if the answer says that the run has ended', () => {
    const source = new MadeSource();
    source.add({
      run_id: 'forced',
      seq: 1,
      shape: 'chat_completions',
      path: '/v1/chat/completions',
      request: { model: 'gpt', messages: [user('a')] },
      response: {
        model: 'gpt',
        choices: [
          {
            finish_reason: 'stop',
            message: { tool_calls: [{ id: 'c', function: { name: 'f', arguments: '{}' } }] },
          },
        ],
      },
    });
    const { turns, provenance } = traceAll(source)[0];
    expect(turns[0].stop_reason).toBe('tool_use');
    expect(provenance.reasons.map(({ code }: { code: string }) => code)).toEqual(['unfinished']);
  });

  it('is not golden if the monitor run with its id has failed', () => {
    const source = new MadeSource();
    addToolLoop(source, 'mend-1', true);
    const failed = traceAll(source, { ...NOTHING, words: { ...NO_WORDS, outcome: 'failure_tests' } })[0];
    expect(failed.outcome).toBe('failure_tests');
    expect(failed.provenance).toMatchObject({ complete: true, supports_universal_claims: false });
    expect(failed.provenance.reasons).toEqual([
      { code: 'outcome', words: 'the monitor run with this id finished with the outcome "failure_tests"' },
    ]);
    const succeeded = traceAll(source, { ...NOTHING, words: { ...NO_WORDS, outcome: 'success' } })[0];
    expect(succeeded.provenance.supports_universal_claims).toBe(true);
  });

  it('gives results the ids of their calls in the trace if the client sent other ids', () => {
    const path = '/v1beta/models/gemini-x:generateContent';
    const call = { functionCall: { name: 'read', args: { path: 'a' } } };
    const answer = (parts: unknown[]) => ({ candidates: [{ content: { parts }, finishReason: 'STOP' }] });
    const asked = { role: 'user', parts: [{ text: 'Go.' }] };
    const source = new MadeSource();
    const made = { run_id: 'g', shape: 'gemini', path } as const;
    source.add({ ...made, request: { contents: [asked] }, response: answer([call]) });
    source.add({
      ...made,
      request: {
        contents: [
          asked,
          { role: 'model', parts: [{ functionCall: { ...call.functionCall, id: 'mine-7' } }] },
          {
            role: 'user',
            parts: [{ functionResponse: { id: 'mine-7', name: 'read', response: { output: 'A' } } }],
          },
        ],
      },
      response: answer([{ text: 'Done.' }]),
    });
    const { turns } = traceAll(source)[0];
    expect(turns[0].content[0].id).toBe('order:1');
    expect(turns[1].messages_added).toHaveLength(1);
    expect(turns[1].messages_added[0].content[0]).toMatchObject({ call_id: 'order:1', name: 'read' });
  });

  it('names attachments by their SHA-256', () => {
    const data = Buffer.alloc(3000, 7).toString('base64');
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
    const source = new MadeSource();
    source.add(turn(1, [user([image])], said('seen')));
    const kept = traceAll(source, { ...NOTHING, hasFile: (sha256) => sha256.length === 64 })[0];
    const [block] = kept.turns[0].messages_added[0].content;
    expect(block).toMatchObject({ source: 'file', data: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(traceAll(source)[0].turns[0].messages_added[0].content[0].data).toBe(data);
  });

  it('contains a run without a turn, and skips exchanges without a run', () => {
    const source = new MadeSource();
    source.add({ run_id: null, shape: null, path: '/v1/models' });
    source.add({ run_id: 'counts', shape: null, path: '/v1/messages/count_tokens' });
    const lines = traceAll(source);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ run_id: 'counts', turns: [], task: '', model: null });
    expect(lines[0].provenance.reasons[0]).toEqual({ code: 'no_turn', words: 'it has no model turn' });
  });

  it('proves a run that the client labels without numbers by its conversation, unless it has sub-agents', () => {
    const source = new MadeSource();
    source.add(turn(null, [user('a')], said('one')));
    source.add(turn(null, [user('a'), assistant('one'), user('b')], said('two')));
    expect(traceAll(source)[0].provenance.supports_universal_claims).toBe(true);
    // For a separate conversation within the run, it is unknown whether all of its turns were captured.
    source.add(turn(null, [user('sub-agent')], said('three')));
    const { turns, provenance } = traceAll(source)[0];
    expect(turns[2].messages_added).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'sub-agent' }] },
    ]);
    expect(provenance).toMatchObject({ complete: false, supports_universal_claims: false });
  });

  it('contains the rest of a body that was cut off', () => {
    const source = new MadeSource();
    source.add(turn(1, [user('a')], JSON.stringify(said('one')).slice(0, -9), { truncated: true }));
    const { turns, provenance } = traceAll(source)[0];
    expect(turns[0].messages_added).toHaveLength(1);
    expect(provenance.reasons.map(({ code }: { code: string }) => code)).toContain('truncated');
    expect(provenance.complete).toBe(false);
  });

  it('is one whole line for any capture', () => {
    const value = fc.jsonValue({ maxDepth: 4 });
    const messages = fc.array(
      fc.record({
        role: fc.constantFrom('user', 'assistant', 'tool', 'model', ''),
        content: value,
        parts: value,
      }),
      { maxLength: 4 },
    );
    const exchange = fc.record({
      run_id: fc.constantFrom('r', 's', null),
      seq: fc.option(fc.nat(5)),
      shape: fc.constantFrom<ApiShape | null>('messages', 'chat_completions', 'responses', 'gemini', null),
      status: fc.constantFrom(0, 200, 429),
      aborted: fc.boolean(),
      request: fc.oneof(
        value,
        fc.record({ messages, contents: messages, input: messages, system: value, tools: value }),
      ),
      response: fc.oneof(
        value,
        fc.record({ content: value, stop_reason: fc.string(), choices: value, output: value }),
      ),
    });
    fc.assert(
      fc.property(fc.array(exchange, { maxLength: 6 }), (exchanges) => {
        const source = new MadeSource();
        for (const made of exchanges) source.add(made);
        const lines = traceAll(source);
        const told = lines.reduce((sum, line) => sum + line.provenance.exchanges, 0);
        expect(told).toBe(exchanges.filter(({ run_id: runId }) => runId !== null).length);
        for (const line of lines)
          expect(line.provenance.supports_universal_claims).toBe(line.provenance.reasons.length === 0);
      }),
      drawsOf(300),
    );
  });

  it('separates interleaved runs', () => {
    const source = new MadeSource();
    for (let seq = 1; seq <= 40; seq += 1) {
      for (const run of ['a', 'b', 'c'])
        source.add({ ...turn(seq, [user(`${run}${seq}`)], said('x')), run_id: run });
    }
    const chains = new RunChains();
    for (const record of source.summaries()) chains.add(record);
    const ids = [...chains.runs].map((run) => [...chains.idsOf(run)]);
    expect(ids.map((list) => list.length)).toEqual([40, 40, 40]);
    expect(ids[1]!.slice(0, 3)).toEqual([2, 5, 8]);
    const only = new RunChains('b');
    for (const record of source.summaries()) only.add(record);
    expect([...only.runs].map((run) => [...only.idsOf(run)])).toEqual([ids[1]]);
  });
});
