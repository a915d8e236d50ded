/** The remaining part of providers' limits, read from the headers of captured answers in each provider's form. */
import { describe, expect, it } from 'vitest';
import { LimitTraffic } from '../../src/captures/limits-ahead.ts';
import { readLimits } from '../../src/domain/provider-limits.ts';
import { MadeSource } from './made-run.ts';

const NOW = Date.UTC(2026, 10, 28, 12);

describe('the headers of an answer', () => {
  it.each<[string, [string, string][], object[]]>([
    [
      'of the Anthropic API',
      [
        ['anthropic-ratelimit-requests-limit', '50'],
        ['anthropic-ratelimit-requests-remaining', '49'],
        ['anthropic-ratelimit-requests-reset', '2026-11-28T12:00:01Z'],
        ['Anthropic-Ratelimit-Input-Tokens-Limit', '30000'],
        ['Anthropic-Ratelimit-Input-Tokens-Remaining', '15000'],
        ['retry-after', '3'],
      ],
      [
        { name: 'requests', limit: 50, remaining: 49, used_share: 0.02, resets_at_ms: NOW + 1_000 },
        { name: 'input tokens', limit: 30_000, remaining: 15_000, used_share: 0.5, resets_at_ms: null },
      ],
    ],
    [
      'of an Anthropic subscription',
      [
        ['anthropic-ratelimit-unified-status', 'allowed'],
        ['anthropic-ratelimit-unified-5h-utilization', '0.42'],
        ['anthropic-ratelimit-unified-5h-reset', String(NOW / 1_000 + 3_600)],
        ['anthropic-ratelimit-unified-7d_opus-utilization', '1.2'],
      ],
      [
        { name: '5 hours', limit: null, used_share: 0.42, resets_at_ms: NOW + 3_600_000 },
        { name: '7 days (opus)', used_share: 1, resets_at_ms: null },
      ],
    ],
    [
      'of the OpenAI API',
      [
        ['x-ratelimit-limit-requests', '10000'],
        ['x-ratelimit-remaining-requests', '9999'],
        ['x-ratelimit-reset-requests', '8.64s'],
        ['x-ratelimit-limit-tokens', '200000'],
        ['x-ratelimit-remaining-tokens', '150000'],
        ['x-ratelimit-reset-tokens', '6m0s'],
      ],
      [
        { name: 'requests', limit: 10_000, remaining: 9_999, resets_at_ms: NOW + 8_640 },
        { name: 'tokens', remaining: 150_000, used_share: 0.25, resets_at_ms: NOW + 360_000 },
      ],
    ],
    [
      'of a Codex subscription',
      [
        ['x-codex-primary-used-percent', '12.5'],
        ['x-codex-primary-window-minutes', '300'],
        ['x-codex-primary-reset-after-seconds', '600'],
        ['x-codex-secondary-used-percent', '80'],
        ['x-codex-secondary-window-minutes', '10080'],
      ],
      [
        { name: '5 hours', used_share: 0.125, resets_at_ms: NOW + 600_000 },
        { name: '7 days', used_share: 0.8, resets_at_ms: null },
      ],
    ],
    [
      'that say nothing, or nonsense',
      [
        ['x-ratelimit-remaining-tokens', 'many'],
        ['anthropic-ratelimit-unified-5h-utilization', '-1'],
        ['x-codex-primary-used-percent', 'NaN'],
        ['content-type', 'text/plain'],
      ],
      [],
    ],
  ])('%s', (_case, headers, expected) => {
    const found = readLimits(headers, NOW);
    expect(found).toHaveLength(expected.length);
    expect(found).toMatchObject(expected);
  });
});

describe('the forecast of limits', () => {
  function tellLimits(source: MadeSource, traffic = new LimitTraffic(), first_id = 1) {
    return traffic.tell(source, { first_id, last_id: source.records.length }, NOW);
  }

  /** Adds an answer that came this many minutes ago and reports this used share of a five-hour window. */
  function addAnswer(
    source: MadeSource,
    minutes: number,
    used: number,
    credential = 'aaaaaaaaaaaa',
    run = 'run-1',
  ): void {
    const record = source.add({
      run_id: run,
      request: { model: 'claude-x', messages: [{ role: 'user', content: 'Go.' }] },
      response: {
        type: 'message',
        model: 'claude-x',
        role: 'assistant',
        content: [{ type: 'text', text: 'Done.' }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 100, output_tokens: 20 },
      },
    });
    record.started_at = new Date(NOW - minutes * 60_000).toISOString();
    record.first_byte_ms = 0;
    record.credential = credential;
    record.response.headers.push(
      ['anthropic-ratelimit-unified-5h-utilization', String(used)],
      ['anthropic-ratelimit-unified-5h-reset', String(NOW / 1_000 + 2 * 3_600)],
    );
  }

  it('says when a window is used up at the pace of the last hour, and who used it', () => {
    const source = new MadeSource();
    addAnswer(source, 300, 0.1);
    addAnswer(source, 60, 0.4);
    addAnswer(source, 30, 0.5, 'aaaaaaaaaaaa', 'run-2');
    addAnswer(source, 0, 0.8, 'aaaaaaaaaaaa', 'run-2');
    const { limits, is_whole } = tellLimits(source);
    expect(is_whole).toBe(true);
    expect(limits).toMatchObject([
      {
        credential: 'aaaaaaaaaaaa',
        provider: 'anthropic',
        name: '5 hours',
        used_share: 0.8,
        resets_at: new Date(NOW + 2 * 3_600_000).toISOString(),
        // 0.4 was used in an hour, so the remaining 0.2 last half an hour.
        runs_out_at: new Date(NOW + 30 * 60_000).toISOString(),
        runs: [
          { run_id: 'run-1', tokens: 240 },
          { run_id: 'run-2', tokens: 240 },
        ],
      },
    ]);
  });

  it('is null if the pace is unknown, or if the window resets first', () => {
    const source = new MadeSource();
    addAnswer(source, 0, 0.3);
    addAnswer(source, 60, 0.1, 'bbbbbbbbbbbb');
    addAnswer(source, 0, 0.2, 'bbbbbbbbbbbb');
    const { limits } = tellLimits(source);
    expect(limits.map(({ credential, runs_out_at }) => [credential, runs_out_at])).toEqual([
      ['aaaaaaaaaaaa', null],
      ['bbbbbbbbbbbb', null],
    ]);
  });

  it('omits answers older than a day', () => {
    const source = new MadeSource();
    addAnswer(source, 25 * 60, 0.9);
    expect(tellLimits(source).limits).toEqual([]);
  });

  it('counts requests without a credential together, because the gateway may add it', () => {
    const source = new MadeSource();
    for (const run of ['run-1', 'run-2']) addAnswer(source, 0, 0.9, 'cccccccccccc', run);
    addAnswer(source, 0, 0.2);
    for (const record of source.records.slice(0, 2)) delete record.credential;
    const { limits } = tellLimits(source);
    expect(limits.map(({ credential, used_share, runs }) => [credential, used_share, runs.length])).toEqual([
      [null, 0.9, 2],
      ['aaaaaaaaaaaa', 0.2, 1],
    ]);
  });

  it('reads an exchange once, and then follows new, removed and renamed ones', () => {
    const source = new MadeSource();
    for (let n = 0; n < 2_500; n++) addAnswer(source, 30, 0.5, 'aaaaaaaaaaaa', `run-${n % 3}`);
    let read = 0;
    const summaries = source.summaries.bind(source);
    source.summaries = function* (filter) {
      for (const summary of summaries(filter)) {
        read++;
        yield summary;
      }
    };
    const traffic = new LimitTraffic();
    tellLimits(source, traffic);
    expect(read).toBe(2_500);
    addAnswer(source, 0, 0.6);
    expect(tellLimits(source, traffic)).toEqual(tellLimits(source));
    // The call with `traffic` reads only the incomplete part again. The call without it reads everything.
    expect(read).toBe(2_500 + (2_501 - 2_047) + 2_501);
    for (const record of source.records.slice(1_000)) record.run_id = 'joined';
    const { runs } = tellLimits(source, traffic, 1_001).limits[0]!;
    expect(runs).toEqual([{ run_id: 'joined', tokens: 1_501 * 120 }]);
  });
});
