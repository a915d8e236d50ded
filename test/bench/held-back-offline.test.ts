/**
 * The held-back measurement without a gateway detects errors: it accepts a perfect student and rejects a random one.
 * It also gives the reasons of a student that refuses. Its report shows sums and no contents.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { movesNow } from '../../bench/eval/held-back/frontier.ts';
import type { Answer } from '../../bench/eval/held-back/held-back-agent.ts';
import { readOfflineFlags } from '../../bench/eval/held-back/held-back-options.ts';
import type { OfflineResult } from '../../bench/eval/held-back/held-back-result.ts';
import { judgeRuns, measureOffline } from '../../bench/eval/held-back/offline.ts';
import { describeOffline } from '../../bench/eval/held-back/offline-report.ts';
import { type RecordedRun, type RecordedStep, RunRecorder } from '../../bench/eval/held-back/offline-runs.ts';
import { codeFixer } from '../../bench/eval/held-back/studied/code-fixer.ts';
import { invoiceChecker } from '../../bench/eval/held-back/studied/invoice-checker.ts';
import { logTriage } from '../../bench/eval/held-back/studied/log-triage.ts';
import { addRefusal, addServed, startFigures } from '../../bench/eval/held-back/trial-figures.ts';
import { judgeAnswer } from '../../bench/eval/held-back/truth.ts';

const RUNS = 3;
const NONSENSE: Answer = { text: 'I have no idea.', calls: [] };
const root = join(import.meta.dirname, '../..');

let recorder: RunRecorder;
beforeAll(async () => {
  recorder = await RunRecorder.start(9);
});
afterAll(() => recorder.close());

const stepsOf = (runs: readonly RecordedRun[]): RecordedStep[] => runs.flatMap(({ steps }) => steps);

/** Whether the frontier model's own answer is a slip that it corrects later. */
const isSlip = ({ agent, run, turns, answer }: RecordedStep): boolean =>
  judgeAnswer(agent, run, movesNow(run, turns), answer) !== null;

// One agent of each wire.
describe.each([codeFixer, invoiceChecker, logTriage])('the offline judge of the $name', (agent) => {
  it('judges served answers by the world, and counts refusals by reason and content', async () => {
    const runs = await recorder.record(agent, 'usual', 0, RUNS);
    const steps = stepsOf(runs);
    const slips = steps.filter(isSlip).length;
    const ask = (answer: (step: RecordedStep) => Answer | null, is_served: boolean) => ({
      round_cpu_s: 0,
      ask: (step: RecordedStep) => ({ is_served, reason: is_served ? '' : 'unproven', answer: answer(step) }),
    });
    const all = { runs: RUNS, steps: steps.length };
    expect(
      judgeRuns(
        ask(({ answer }) => answer, true),
        runs,
      ),
    ).toMatchObject({
      ...all,
      served: steps.length,
      wrong: slips,
    });
    expect(
      judgeRuns(
        ask(() => NONSENSE, true),
        runs,
      ),
    ).toMatchObject({
      ...all,
      served: steps.length,
      wrong: steps.length,
      runs_served: 0,
    });
    const refused = { right: steps.length - slips, wrong: slips, without: 0 };
    expect(
      judgeRuns(
        ask(({ answer }) => answer, false),
        runs,
      ),
    ).toMatchObject({
      ...all,
      served: 0,
      refused,
      reasons: { unproven: refused },
    });
    expect(
      judgeRuns(
        ask(() => null, false),
        runs,
      ),
    ).toMatchObject({
      ...all,
      refused: { right: 0, wrong: 0, without: steps.length },
    });
  });

  it('records each request as the provider saw it', async () => {
    const runs = await recorder.record(agent, 'usual', 0, RUNS);
    for (const { body, run } of stepsOf(runs))
      expect(body.toString()).toContain(JSON.stringify(run.task).slice(1, -1));
  });
});

const measure = (flags: readonly string[]): Promise<OfflineResult[]> =>
  measureOffline({ ...readOfflineFlags(['--held-back', '--offline', ...flags]), checkout: root }, () => {});

describe('a student that a round makes from recorded runs', () => {
  it('serves nothing after three golden runs, and a second measurement gives the same figures', {
    tags: 'long',
  }, async () => {
    const flags = ['--agents', 'code fixer', '--golden', '3', '--runs', '2', '--restricted', '1'];
    const [result] = await measure(flags);
    const { usual, restricted } = result!;
    expect(usual).toMatchObject({ runs: 2, served: 0, wrong: 0 });
    expect(restricted).toMatchObject({ runs: 1, served: 0 });
    const { right, wrong, without } = usual.refused;
    expect(right + wrong + without).toBe(usual.steps);
    const [again] = await measure(flags);
    expect(again!.usual).toEqual(usual);
  });

  it('serves steps correctly after 40 golden runs', { tags: 'long' }, async () => {
    const [result] = await measure(['--agents', 'invoice checker', '--golden', '40', '--runs', '10']);
    expect(result!.usual.served).toBeGreaterThan(0);
    expect(result!.usual.wrong).toBe(0);
  });
});

describe('the report', () => {
  it('contains sums by agent and reason, and no contents', () => {
    const usual = startFigures(1);
    usual.steps = 3;
    addServed(usual, { answer: { text: '', calls: [{ name: 'secret_tool', input: {} }] }, fault: null });
    addServed(usual, { answer: NONSENSE, fault: 'says "secret words"' });
    addRefusal(usual, 'unproven', 'right');
    const result = {
      agent: 'site reader',
      golden_runs: 40,
      round_cpu_s: 2,
      usual,
      restricted: startFigures(0),
    };
    const text = describeOffline([result], 7).join('\n');
    expect(text).toMatch(/site reader +3 +66\.7 % +1 of 2 +33\.3 % +0\.0 % +0\.0 % +0 of 1/);
    expect(text).toMatch(/site reader +unproven 1 \+ 0 \+ 0/);
    expect(text).not.toContain('secret');
  });
});

describe('the flags', () => {
  it.each([
    [['--agents', 'no such agent'], /no agent no such agent/],
    [['--golden', '150,40'], /rising/],
    [['--golden', '0,40'], /--golden/],
    [['--runs', '-1'], /--runs/],
    [['--changed', '30'], /--changed/],
  ])('refuse %j', (flags, message) => {
    expect(() => readOfflineFlags(['--held-back', '--offline', ...flags])).toThrow(message);
  });
});
