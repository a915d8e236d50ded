/** The rule for golden runs: one good run, and every fault that makes a run not golden. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type AskedTurn,
  type GoldenExchange,
  GoldenTally,
  judgeOutcome,
  MAX_FAILED_CALLS,
  MAX_SEQ_RANGES,
  type TurnLink,
} from '../../src/domain/golden.ts';
import { GOLDEN_WIRES } from '../../src/providers/golden-wires.ts';

function turn(id: number, change: Partial<GoldenExchange> = {}): GoldenExchange {
  return {
    id,
    seq: id,
    kind: 'turn',
    shape: 'messages',
    method: 'POST',
    path: '/v1/messages',
    status: 200,
    aborted: false,
    truncated: false,
    undecodable: false,
    stop_reason: 'tool_use',
    ...change,
  };
}

const END = { stop_reason: 'end_turn' };

function judge(
  exchanges: GoldenExchange[],
  links: (TurnLink | null)[] = [],
  lastCallsTools: boolean | null = null,
) {
  const tally = new GoldenTally(GOLDEN_WIRES);
  exchanges.forEach((exchange, i) => {
    tally.add(exchange, links[i] ?? null);
  });
  return tally.judge(lastCallsTools);
}

const words = (exchanges: GoldenExchange[], links: (TurnLink | null)[] = []): string[] =>
  judge(exchanges, links).reasons.map((reason) => `${reason.code}: ${reason.words}`);

const unlabelled = (exchanges: GoldenExchange[]): GoldenExchange[] =>
  exchanges.map((exchange) => ({ ...exchange, seq: null }));

describe('a golden run', () => {
  it.each([
    ['numbered from 1', [turn(1), turn(2), turn(3, END)]],
    [
      'numbered from 0, ended by a stop sequence',
      [turn(1, { seq: 0 }), turn(2, { seq: 1, stop_reason: 'stop_sequence' })],
    ],
    ['numbers out of order, the last number last', [turn(1, { seq: 2, ...END }), turn(2, { seq: 1 })]],
    ['a failed call retried', [turn(1), turn(2, { status: 529, stop_reason: null }), turn(3, END)]],
    [
      'a failed call retried under its own number, twice',
      [
        turn(1),
        turn(2, { status: 529, stop_reason: null }),
        turn(3, { seq: 2, status: 429, stop_reason: null }),
        turn(4, { seq: 2, ...END }),
      ],
    ],
    ['a stream that broke off with an error, retried', [turn(1, { stop_reason: null }), turn(2, END)]],
    [
      'exchanges that are no turns',
      [turn(1, { kind: 'other', shape: null, path: '/v1/models', stop_reason: null }), turn(2, END)],
    ],
    ['left by its client when the model had ended', [turn(1, { aborted: true }), turn(2, END)]],
    ['chat completions with seq', [turn(1, { shape: 'chat_completions', stop_reason: 'stop' })]],
    ['responses with seq', [turn(1, { shape: 'responses', stop_reason: 'completed' })]],
  ])('%s', (_name, exchanges) => {
    expect(judge(exchanges)).toEqual({ golden: true, reasons: [] });
  });

  it('may be unlabelled: each turn continues the one before, and a failed one is repeated', () => {
    const exchanges = unlabelled([
      turn(1),
      turn(2, { status: 500, stop_reason: null }),
      turn(3),
      turn(4, END),
    ]);
    expect(judge(exchanges, ['starts', 'continues', 'repeats', 'continues'])).toEqual({
      golden: true,
      reasons: [],
    });
  });
});

describe('a run is not golden because of', () => {
  it.each<[string, GoldenExchange[], string[]]>([
    ['nothing', [], ['no_turn: it has no model turn']],
    ['no turn', [turn(1, { kind: 'other', shape: null })], ['no_turn: it has no model turn']],
    ['a gap', [turn(1), turn(5, END)], ['seq_gap: x-svc-seq 2 to 4 missing']],
    ['a beginning that is missing', [turn(2), turn(3, END)], ['seq_gap: x-svc-seq 1 missing']],
    [
      'some without a number',
      [turn(1), turn(2, { seq: null, ...END })],
      ['seq_missing: exchange 2: no x-svc-seq, although other exchanges of the run have one'],
    ],
    [
      'a numbering that starts over',
      [turn(1), turn(2), turn(3, { seq: 1 }), turn(4, { seq: 2 }), turn(5, { seq: 3, ...END })],
      ['seq_repeated: exchanges 3, 4: an x-svc-seq that an earlier, successful exchange of the run has'],
    ],
    [
      'a failed call after its number was answered',
      [turn(1), turn(2, { seq: 1, status: 500, stop_reason: null }), turn(3, { seq: 2, ...END })],
      ['seq_repeated: exchange 2: an x-svc-seq that an earlier, successful exchange of the run has'],
    ],
    [
      'an aborted one',
      [turn(1, { aborted: true, kind: 'other', stop_reason: null }), turn(2, END)],
      ['aborted: exchange 1 was aborted'],
    ],
    [
      'a truncated one',
      [turn(1, { truncated: true, undecodable: true }), turn(2, END)],
      ['truncated: exchange 1: the stored copy is cut off'],
    ],
    [
      'an unreadable one',
      [turn(1, { undecodable: true }), turn(2, END)],
      ['undecodable: exchange 1: the body cannot be read'],
    ],
    [
      'a failure at the end',
      [turn(1), turn(2, { status: 429, stop_reason: null })],
      ['failed_call: POST /v1/messages failed (exchange 2) and was not retried to success'],
    ],
    [
      'no answer at all',
      [turn(1, { status: 0, stop_reason: null })],
      ['failed_call: POST /v1/messages failed (exchange 1) and was not retried to success'],
    ],
    ['a tool call at the end', [turn(1)], ['unfinished: the last turn (exchange 1) stopped with tool_use']],
    [
      'a Gemini turn',
      [turn(1, { shape: 'gemini', stop_reason: 'STOP' })],
      ['shape: exchange 1: only Messages, chat-completions and responses turns can be golden'],
    ],
  ])('%s', (_name, exchanges, reasons) => {
    expect(words(exchanges)).toEqual(reasons);
    expect(judge(exchanges).golden).toBe(false);
  });

  it('a response that waits for a tool', () => {
    const exchanges = [turn(1, { shape: 'responses', stop_reason: 'completed' })];
    expect(judge(exchanges, [], true).reasons[0]?.code).toBe('unfinished');
  });

  it('unlinked or unexamined turns of unlabelled chat completions', () => {
    const chat = unlabelled([turn(1, { shape: 'chat_completions', stop_reason: 'stop' })]);
    expect(judge(chat, ['starts']).golden).toBe(true);
    expect(words(chat)[0]).toMatch(/^unlinked: no x-svc-seq, and it was not checked/);
    const messages = unlabelled([turn(1), turn(2, END)]);
    expect(words(messages, ['starts', 'breaks'])[0]).toMatch(/^unlinked: exchange 2: not the continuation/);
    expect(words(messages, ['starts', 'starts'])[0]).toMatch(/^unlinked: exchange 2/);
    expect(words(messages)[0]).toMatch(/^unlinked: no x-svc-seq, and it was not checked/);
  });

  it('side calls, which do not continue each other', () => {
    const calls = unlabelled([turn(1, END), turn(2, END)]);
    const side = calls.map((call) => ({ ...call, run_kind: 'summary' as const }));
    expect(judge(side, ['breaks', 'breaks']).reasons.map(({ code }) => code)).toEqual(['side_call']);
    expect(judge(calls, ['breaks', 'breaks']).reasons.map(({ code }) => code)).toEqual(['unlinked']);
  });

  it('a failed call that only another conversation of the run repaired', () => {
    const failed = { status: 529, stop_reason: null };
    const asked = (prefixes: string[], at = -1): AskedTurn => ({
      prefixes,
      last_answer_at: at,
      last_answer_alone: null,
    });
    const tell = (exchanges: [GoldenExchange, AskedTurn][]): boolean => {
      const tally = new GoldenTally(GOLDEN_WIRES);
      for (const [exchange, what] of exchanges) tally.add(exchange, null, what);
      return tally.judge().golden;
    };
    const parent = asked(['task']);
    const child = asked(['child', 'child answered', 'child result'], 1);
    expect(
      tell([
        [turn(1), parent],
        [turn(2, failed), child],
        [turn(3, END), asked(['task', 'answered', 'gave up'], 1)],
      ]),
    ).toBe(false);
    // Three retries of the failed call: unchanged; with words added; with a shorter history and the same last answer.
    for (const again of [
      child,
      asked([...child.prefixes, 'go on'], 1),
      { ...asked(['cut', 'cut answered', 'cut result'], 1), last_answer_alone: 'the answer' },
    ]) {
      const first = { ...child, last_answer_alone: 'the answer' };
      expect(
        tell([
          [turn(1), parent],
          [turn(2, failed), first],
          [turn(3, END), again],
        ]),
      ).toBe(true);
    }
    // An exchange with a lower number than the failed one is no retry, even if it ended later.
    expect(
      tell([
        [turn(1), parent],
        [turn(2, { ...failed, seq: 3 }), child],
        [turn(3, { ...END, seq: 2 }), child],
      ]),
    ).toBe(false);
  });

  it('the outcome of a monitor run', () => {
    expect([judgeOutcome(null), judgeOutcome('success')]).toEqual([null, null]);
    expect(judgeOutcome('failure: tests')?.words).toContain('"failure: tests"');
  });

  it('many aborted exchanges, of which the reason names a few and counts the others', () => {
    const exchanges = Array.from({ length: 8 }, (_, i) =>
      turn(i + 1, { aborted: true, ...END, stop_reason: null }),
    );
    expect(words(exchanges)).toContain('aborted: exchanges 1, 2, 3, 4, 5 and 3 more were aborted');
  });
});

describe('the bounds of golden runs', () => {
  it('are reported if there are more gaps or failing calls than kept', () => {
    const scattered = Array.from({ length: MAX_SEQ_RANGES + 1 }, (_, i) => turn(i + 1, { seq: 2 * i + 1 }));
    expect(words(scattered)[0]).toContain(`more than ${MAX_SEQ_RANGES} gaps`);
    const failing = Array.from({ length: MAX_FAILED_CALLS + 1 }, (_, i) =>
      turn(i + 1, { path: `/${i}`, status: 500 }),
    );
    expect(
      words(failing).some((reason) => reason.includes(`more than ${MAX_FAILED_CALLS} different calls`)),
    ).toBe(true);
  });

  it('do not affect the missing seq numbers, which are exact in any order of arrival', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 60 }), (seqs) => {
        const tally = new GoldenTally(GOLDEN_WIRES);
        seqs.forEach((seq, i) => {
          tally.add(turn(i + 1, { seq }));
        });
        const missing = tally
          .gaps()
          .flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, i) => from + i));
        const present = new Set(seqs);
        const expected = Array.from({ length: Math.max(...seqs) }, (_, i) => i + 1).filter(
          (seq) => !present.has(seq),
        );
        expect(missing).toEqual(expected);
      }),
    );
  });
});
