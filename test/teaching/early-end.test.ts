/** A round that cannot publish ends early, with the reason. */
import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import { makeGoldenSteps } from '../../bench/order-agent.ts';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { createPrng } from '../../src/std/prng.ts';
import { Student } from '../../src/student/model/student.ts';
import { calibrateScores, calibrateStudent, countRunsNeeded } from '../../src/teaching/calibration.ts';
import { describeTooLittle } from '../../src/teaching/early-end.ts';
import type { GoldenMaterial, GoldenRun } from '../../src/teaching/golden-steps.ts';
import { rotateParts, splitRuns } from '../../src/teaching/held-out.ts';
import { refuseMeasured } from '../../src/teaching/publication.ts';
import { listLearned } from '../../src/teaching/service-calibration.ts';
import { fitStudent, limitAgents } from '../../src/teaching/student-fit.ts';
import { judgeStudent, type MeasuredFigures, teachStudent } from '../../src/teaching/taught-student.ts';

const makeIndex = (dimensions: number) => new ExactIndex(dimensions);
const gate = { target_error: 0.05, served_min: 12, sticky: false };
const teaching = { student: { kind: 'exemplar' }, gate, held_out: null } as const;
const head = { made_at: '2026-03-01T10:00:00.000Z', made_by: 'understudy 0' };

function makeRuns(count: number, scope = ''): GoldenRun[] {
  const runs = new Map<string, GoldenRun>();
  for (const [at, { run_id, step, answer }] of makeGoldenSteps(count, 7).entries()) {
    const id = `${scope}${run_id}`;
    const run = runs.get(id) ?? { run_id: id, first_id: at, last_id: at, mark: '', steps: [] };
    const own = { ...step, scope: `${scope}${step.scope}` };
    run.steps.push({ exchange_id: at, wire: 'messages', step: own, answer, tokens: 940 });
    runs.set(id, run);
  }
  return [...runs.values()];
}

function teach(
  taught: GoldenRun[],
  more: { refuse?: (measured: MeasuredFigures) => Promise<string | null> } = {},
) {
  const material: GoldenMaterial = {
    runs: taught.length,
    passed_over: 0,
    too_old: 0,
    looked_at: taught.length,
    read: 0,
    golden: taught.length,
    taught,
    steps: 0,
    not_golden: {},
    untaught: {},
    patterns: [],
  };
  const worked: [string, number, number][] = [];
  const tell = (...told: [string, number, number]) => void worked.push(told);
  const student = teachStudent(
    material,
    { target_error: 0.05, student: { kind: 'exemplar' }, makeIndex, tell, ...more },
    head,
  );
  return { student, worked };
}

describe('a round in which every agent has too few golden runs', () => {
  it('is refused, with the reason', () => {
    const agents = Array.from({ length: 5 }, (_, at) => makeRuns(9, `agent ${at} `)).flat();
    expect(describeTooLittle(agents, teaching)).toMatch(
      /^it would serve nothing: of the 9 golden runs of its busiest agent, \d teach while the others are held out; a kind of answer needs 11$/,
    );
    expect(describeTooLittle([...agents, ...makeRuns(40)], teaching)).toBeNull();
    const few = { ...teaching, gate: { ...gate, served_min: 10_000 } };
    expect(describeTooLittle(makeRuns(40), few)).toMatch(
      /^the held-out runs have \d+ steps; measuring a student.s error rate needs 10000$/,
    );
    const service = { kind: 'http', url: 'http://127.0.0.1:1', model: 'm', style: 'messages' } as never;
    expect(describeTooLittle(makeRuns(10), { ...teaching, student: service })).toContain(
      'are held out; a kind',
    );
  });

  it('would serve nothing', { tags: 'long' }, async () => {
    const runs = makeRuns(12);
    expect(describeTooLittle(runs, teaching)).not.toBeNull();
    expect((await teach(runs).student).draft.measured.served).toBe(0);
  });

  it('is a round in which no student could serve, even one that is always right', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), fc.constantFrom(0.01, 0.05, 0.2), (runs, target) => {
        const scored = Array.from({ length: runs }, (_, at) => ({
          run_id: `${at}`,
          kind: 'text',
          score: 0,
          is_right: true,
        }));
        const { agents } = calibrateScores(scored, target);
        expect(agents[0]!.kinds[0]!.refused === null).toBe(runs >= countRunsNeeded(target));
      }),
    );
  });
});

/** The runs with the answers of other runs, so that no answer can be learned. */
function mixAnswers(runs: readonly GoldenRun[]): GoldenRun[] {
  const answers = runs.flatMap(({ steps }) => steps.map(({ answer }) => answer));
  const prng = createPrng(5);
  for (let i = answers.length - 1; i > 0; i--) {
    const j = prng.below(i + 1);
    [answers[i], answers[j]] = [answers[j]!, answers[i]!];
  }
  return runs.map((run) => ({
    ...run,
    steps: run.steps.map((step) => ({ ...step, answer: answers.pop()! })),
  }));
}

describe('a round in which no kind of answer may be served', () => {
  const runs = mixAnswers(makeRuns(30));
  const parts = rotateParts(splitRuns(runs));
  const refuse = (measured: MeasuredFigures) =>
    refuseMeasured(measured, { published: null, gate, makeIndex });

  it('ends after the calibration, with the same refusal for the round and for each kind', async () => {
    const { student, worked } = teach(runs, { refuse });
    const { ended_after, refusal, threshold, draft, calibration } = await student;
    expect({ ended_after, threshold }).toEqual({ ended_after: 'calibration', threshold: -1 });
    expect(refusal).toMatch(/^it would serve nothing: no threshold keeps the error under 5 %/);
    expect(draft.measured).toMatchObject({ held_out_runs: 30, served: 0, errors: 0 });
    const { agents } = calibrateStudent(listLearned(parts[0]!.teaching), { makeIndex });
    expect(calibration.agents).toEqual(agents);
    expect(draft.coverage.agents!.map(({ measured }) => measured)).toEqual([
      { steps: draft.measured.steps, served: 0, errors: 0 },
    ]);
    // The search for ended answers and five folds of each part: without a fit, a measurement, or the second student.
    expect(worked.at(-1)![1]).toBe(1 + 5 * parts.length);
    expect(worked.some(([what]) => /^(?:fitting|measuring|teaching)/.test(what))).toBe(false);
  });

  it('would have served nothing in its measurement', { tags: 'long' }, () => {
    for (const { teaching, held_out } of parts) {
      const learned = listLearned(teaching);
      const { agents, gathers, threshold } = calibrateStudent(learned, { makeIndex });
      const model = limitAgents(fitStudent(learned, { gathers }), agents);
      const whole = new Student(model, makeIndex);
      for (const { step } of held_out.flatMap(({ steps }) => steps))
        expect(whole.decide(step, threshold).covered).toBe(false);
    }
  });
});

describe('a round whose measured student cannot be published', () => {
  it('does not teach all runs, and returns the gate’s reason', { tags: 'long' }, async () => {
    const runs = makeRuns(30);
    const whole = teach(runs);
    const served = (await whole.student).draft.measured.served;
    expect(served).toBeGreaterThan(0);
    const strict = { ...gate, served_min: served + 1 };
    let refused: string | null = null;
    const material = { published: null, gate: strict, makeIndex };
    const short = teach(runs, {
      refuse: async (measured) => {
        refused = await refuseMeasured(measured, material);
        return refused;
      },
    });
    const student = await short.student;
    expect(student.refusal).toBe(judgeStudent(await whole.student, strict));
    expect(student.refusal).toContain(`it would serve ${served} of`);
    expect(student.draft.measured.served).toBe(served);
    expect(student.measured_model).toBeNull();
    expect([student.ended_after, (await whole.student).ended_after]).toEqual(['measurement', null]);
    expect(short.worked.some(([what]) => what.startsWith('teaching all'))).toBe(false);
    expect(whole.worked.some(([what]) => what.startsWith('teaching all'))).toBe(true);
  });
});

it('the reported progress never falls, and reaches the last unit', { tags: 'long' }, async () => {
  const runs = makeRuns(30);
  const { student, worked } = teach(runs);
  await student;
  const parts = rotateParts(splitRuns(runs)).length;
  const units = worked.map(([, done]) => done);
  expect(units).toEqual(units.toSorted((a, b) => a - b));
  expect(new Set(worked.map(([, , of]) => of)).size).toBe(1);
  // The search for ended answers, 5 folds, a fit and a measurement for each part, and the folds of the second student.
  expect(worked.at(-1)!.slice(1)).toEqual([1 + 7 * parts + 5, 1 + 7 * parts + 5]);
});

it('the published student is fitted once, and is the same as if it were fitted again', {
  tags: 'long',
}, async () => {
  const runs = makeRuns(30);
  const { model, calibration } = await teach(runs).student;
  expect(calibration.gathers.size).toBe(0);
  const again = limitAgents(fitStudent(listLearned(runs)), calibration.agents);
  // As the directory stores models.
  const packr = new Packr({ useRecords: false, moreTypes: true, variableMapSize: true });
  expect(packr.pack(model).equals(packr.pack(again))).toBe(true);
});
