/** A round that cannot publish ends early, with the reason. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeGoldenSteps } from '../../bench/order-agent.ts';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { calibrateScores, countRunsNeeded } from '../../src/teaching/calibration.ts';
import { describeTooLittle } from '../../src/teaching/early-end.ts';
import type { GoldenMaterial, GoldenRun } from '../../src/teaching/golden-steps.ts';
import { rotateParts, splitRuns } from '../../src/teaching/held-out.ts';
import { refuseMeasured } from '../../src/teaching/publication.ts';
import { judgeStudent, teachStudent } from '../../src/teaching/taught-student.ts';

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

function teach(taught: GoldenRun[], more: { refuse?: () => Promise<string | null> } = {}) {
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
      refuse: (async (measured: Parameters<typeof refuseMeasured>[0]) => {
        refused = await refuseMeasured(measured, material);
        return refused;
      }) as never,
    });
    const student = await short.student;
    expect(student.refusal).toBe(judgeStudent(await whole.student, strict));
    expect(student.refusal).toContain(`it would serve ${served} of`);
    expect(student.draft.measured.served).toBe(served);
    expect(student.measured_model).toBeNull();
    expect(short.worked.some(([what]) => what.startsWith('teaching all'))).toBe(false);
    expect(whole.worked.some(([what]) => what.startsWith('teaching all'))).toBe(true);
  });
});

it('the reported progress never falls, and reaches the last unit but one', { tags: 'long' }, async () => {
  const runs = makeRuns(30);
  const { student, worked } = teach(runs);
  await student;
  const parts = rotateParts(splitRuns(runs)).length;
  const units = worked.map(([, done]) => done);
  expect(units).toEqual(units.toSorted((a, b) => a - b));
  expect(new Set(worked.map(([, , of]) => of)).size).toBe(1);
  expect(worked.at(-1)!.slice(1)).toEqual([7 * parts + 5, 7 * parts + 6]);
});
