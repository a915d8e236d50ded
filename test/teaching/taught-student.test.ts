/** Which golden runs teach, when a student is good enough, and when it is no worse than the one before. */
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { makeGoldenSteps } from '../../bench/order-agent.ts';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { boundError } from '../../src/student/model/error-bound.ts';
import { GOLDEN_RUNS_MIN } from '../../src/student/model/limits.ts';
import type { StudentManifest } from '../../src/student/model/manifest.ts';
import { Student } from '../../src/student/model/student.ts';
import type { GoldenMaterial, GoldenRun } from '../../src/teaching/golden-steps.ts';
import { placeOf, splitRuns } from '../../src/teaching/held-out.ts';
import { HELD_OUT } from '../../src/teaching/limits.ts';
import { mergePatterns } from '../../src/teaching/merge-patterns.ts';
import { refuseMeasured } from '../../src/teaching/publication.ts';
import { askAbout, measureByAnswer, summarizeMeasures } from '../../src/teaching/student-measures.ts';
import {
  compareStudents,
  describeShortage,
  fingerprintMaterial,
  judgeComparison,
  judgeStudent,
  type TaughtStudent,
  teachStudent,
} from '../../src/teaching/taught-student.ts';

const makeIndex = (dimensions: number) => new ExactIndex(dimensions);
const exemplar = { kind: 'exemplar' } as const;
const gate = { target_error: 0.05, served_min: 12, sticky: true };
const head = { made_at: '2026-03-01T10:00:00.000Z', made_by: 'understudy 0' };

function makeRuns(count: number, seed = 7): GoldenRun[] {
  const runs = new Map<string, GoldenRun>();
  for (const [at, { run_id, step, answer }] of makeGoldenSteps(count, seed).entries()) {
    const run = runs.get(run_id) ?? { run_id, first_id: at, last_id: at, mark: '', steps: [] };
    run.last_id = at;
    run.steps.push({ exchange_id: at, wire: 'messages', step, answer, tokens: 940 });
    runs.set(run_id, run);
  }
  return [...runs.values()].reverse();
}

function makeMaterial(taught: GoldenRun[], over: Partial<GoldenMaterial> = {}): GoldenMaterial {
  const steps = taught.reduce((sum, run) => sum + run.steps.length, 0);
  const runs = taught.length;
  return {
    runs,
    passed_over: 0,
    too_old: 0,
    looked_at: runs,
    read: runs,
    golden: runs,
    taught,
    steps,
    not_golden: {},
    untaught: {},
    patterns: [],
    ...over,
  };
}

const teach = (taught: GoldenRun[]) =>
  teachStudent(makeMaterial(taught), { target_error: 0.05, student: exemplar, makeIndex }, head);

describe('held-out runs', () => {
  it('are independent of other runs, except for the minimum number', () => {
    const ids = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 12 }), { minLength: 12, maxLength: 200 });
    fc.assert(
      fc.property(ids, fc.nat(), (names, cut) => {
        const runs = names.map((run_id) => ({ run_id, first_id: 1, last_id: 1, steps: [] }));
        const whole = splitRuns(runs);
        expect(whole.teaching.length + whole.held_out.length).toBe(runs.length);
        expect(whole.held_out.length).toBeGreaterThanOrEqual(HELD_OUT.runs_min);
        expect(whole.held_out_below).toBeGreaterThanOrEqual(HELD_OUT.share);
        for (const { run_id } of whole.held_out) expect(placeOf(run_id)).toBeLessThan(whole.held_out_below);
        // With fewer runs, the runs whose draw is below the share are held out as well.
        const fewer = splitRuns(runs.slice(cut % runs.length));
        for (const { run_id } of fewer.teaching)
          expect(placeOf(run_id)).toBeGreaterThanOrEqual(HELD_OUT.share);
      }),
    );
  });

  it('are about the requested share', () => {
    const runs = Array.from({ length: 4_000 }, (_, at) => ({
      run_id: `run-${at}`,
      first_id: 1,
      last_id: 1,
      steps: [],
    }));
    const { held_out, held_out_below } = splitRuns(runs);
    expect(held_out_below).toBe(HELD_OUT.share);
    expect(held_out.length / 4_000).toBeCloseTo(HELD_OUT.share, 1);
  });
});

describe('too few golden runs', () => {
  it('are reported with the number of missing runs', () => {
    const runs = makeRuns(GOLDEN_RUNS_MIN);
    expect(describeShortage(makeMaterial(runs))).toBeNull();
    const short = makeMaterial(runs.slice(1), { runs: 40, looked_at: 40, golden: 13 });
    expect(describeShortage(short)).toBe(
      'too few golden runs: 11 and 2 more without a step that a student could give, of 40 runs; a student needs 12, so 1 more is needed',
    );
  });
});

describe('a student of a repetitive agent', () => {
  it('passes the gate, and is measured on runs that did not teach it', async () => {
    const taught = await teach(makeRuns(60));
    expect(judgeStudent(taught, gate)).toBeNull();
    const { measured, golden } = taught.draft;
    expect(measured.coverage).toBeGreaterThan(0.6);
    // With so few runs, each run is held out once. The published student knows all runs.
    expect(measured.held_out_runs).toBe(60);
    expect(measured.of).toMatchObject({ students: 4, teaching_runs: taught.split.teaching.length });
    expect(golden.teaching_runs).toBe(60);
    expect(taught.measured_model!.runs).toBe(measured.of!.teaching_runs);
    expect(taught.model.runs).toBe(60);
    expect(taught.draft.coverage.agents).toMatchObject([{ evidence: 'own', runs: 60 }]);
    expect(new Set(taught.steps.map(({ run_id }) => run_id)).size).toBe(60);
    expect(taught.steps).toHaveLength(measured.steps);
    expect(taught.by_answer.map(({ kind }) => kind)).toContain('get_order');
    expect(taught.by_answer.reduce((sum, { steps }) => sum + steps, 0)).toBe(measured.steps);
  });

  it('is the same for the same runs; the fingerprint differs for other runs or another target', async () => {
    const runs = makeRuns(24);
    const [first, two] = [await teach(runs), await teach(runs)];
    expect(two.model).toEqual(first.model);
    expect(two.draft).toEqual(first.draft);
    const options = { target_error: 0.05, student: exemplar };
    const print = (taught: GoldenRun[], more = {}) =>
      fingerprintMaterial(makeMaterial(taught), { ...options, ...more });
    expect(print(runs)).toBe(first.draft.golden.fingerprint);
    expect(new Set([print(runs), print(runs.slice(1)), print(runs, { target_error: 0.1 })]).size).toBe(3);
  });

  it('shows the evidence for each kind of answer, and serves no excluded kind', {
    tags: 'long',
  }, async () => {
    const runs = makeRuns(60);
    const material = makeMaterial(runs);
    const options = { target_error: 0.05, student: exemplar, makeIndex };
    const { draft } = await teachStudent(material, options, head);
    const kinds = draft.coverage.agents![0]!.kinds!;
    const looks = kinds.find(({ kind }) => kind === 'get_order')!;
    expect(draft.coverage.confidence).toBe(0.95);
    expect(looks).toMatchObject({ refused: null, is_final: false, confidence: 0.95 });
    expect(looks.error_at_most).toBeLessThanOrEqual(0.05);
    const excepted = await teachStudent(material, { ...options, never_serve: ['get_order'] }, head);
    expect(excepted.draft.coverage.never_serve).toEqual(['get_order']);
    expect(excepted.draft.coverage.agents![0]!.kinds).toContainEqual(
      expect.objectContaining({ kind: 'get_order', threshold: null, refused: 'never_serve' }),
    );
    const student = new Student(excepted.model, makeIndex);
    const said = runs.flatMap(({ steps }) =>
      steps.map(({ step }) => student.decide(step, excepted.threshold)),
    );
    expect(said.some((decision) => decision.covered)).toBe(true);
    const called = said.flatMap((decision) => (decision.covered ? decision.answer!.content : []));
    expect(called.some((block) => block.type === 'tool_call' && block.name === 'get_order')).toBe(false);
    expect(said.some((decision) => !decision.covered && decision.reason === 'unproven')).toBe(true);
    for (const over of [{ never_serve: ['get_order'] }, { final_cost: 10 }])
      expect(fingerprintMaterial(material, { ...options, ...over })).not.toBe(
        fingerprintMaterial(material, options),
      );
  });

  it('leaves an agent for which it was wrong to the upstream, and serves the other', {
    tags: 'long',
  }, async () => {
    const good = makeRuns(60);
    const bad = makeRuns(60).map((run) => ({
      ...run,
      run_id: `bad-${run.run_id}`,
      steps: run.steps.map((step) => ({ ...step, step: { ...step.step, scope: 'another' } })),
    }));
    const seen = splitRuns([...good, ...bad]);
    const kept = new Set(seen.held_out.map(({ run_id }) => run_id));
    // These runs are like the others while the student is taught, and differ when it is measured.
    for (const run of bad)
      if (kept.has(run.run_id))
        for (const step of run.steps)
          step.answer = {
            ...step.answer!,
            content: [{ type: 'text', text: 'Closed.' }],
            stop_reason: 'end_turn',
          };
    const taught = await teach([...good, ...bad]);
    expect(judgeStudent(taught, gate)).toBeNull();
    const agents = taught.draft.coverage.agents!;
    expect(agents).toHaveLength(2);
    for (const { agent, evidence, threshold } of agents)
      expect([evidence, threshold === null]).toEqual(agent === 'another' ? ['failed', true] : ['own', false]);
    const student = new Student(taught.model, makeIndex);
    const covers = (runs: typeof good): boolean =>
      runs.some(({ steps }) => steps.some(({ step }) => student.decide(step, taught.threshold).covered));
    expect([covers(good), covers(bad)]).toEqual([true, false]);
  });

  it('does not pass if each golden run gives different answers', async () => {
    const runs = makeRuns(30);
    for (const [at, run] of runs.entries()) {
      for (const step of run.steps)
        step.answer = {
          ...step.answer!,
          content: [{ type: 'text', text: `Few know ${at * 7919}.` }],
          stop_reason: 'end_turn',
        };
    }
    expect(judgeStudent(await teach(runs), gate)).not.toBeNull();
  });

  it('is not replaced by a student that serves clearly less, but is replaced by one that is as good', {
    tags: 'long',
  }, async () => {
    const runs = makeRuns(60);
    const before = await teach(runs);
    const published = { model: before.measured_model!, manifest: toManifest(before) };
    const isFit = () => true;
    const same = await teach(runs);
    expect(await refuseMeasured(same, { published, gate, makeIndex, isFit })).toBeNull();
    const comparison = await compareStudents(same, published, makeIndex, isFit);
    expect(comparison!.new_right).toBe(comparison!.published_right);
    // Taught with eight runs, the student serves fewer of the tested steps.
    const poor = await teach(
      runs
        .filter((run) => !isHeldOut(before, run))
        .slice(0, 8)
        .concat(before.split.held_out),
    );
    const lax = { ...gate, served_min: 1 };
    expect(await refuseMeasured(poor, { published, gate: lax, makeIndex, isFit })).not.toBeNull();
  });
});

function isHeldOut(taught: TaughtStudent, run: GoldenRun): boolean {
  return taught.split.held_out.includes(run);
}

function toManifest({ draft }: TaughtStudent): StudentManifest {
  const steps = { name: 'steps-0123456789abcdef.bin', bytes: 1, sha256: 'a'.repeat(64) };
  return { format: 'svc_student_v1', version: 1, ...draft, files: { steps } };
}

describe('agents with few golden runs', () => {
  it('have each run held out once, even if another agent has many runs', async () => {
    const busy = makeRuns(90);
    const rare = makeRuns(20, 11).map((run) => ({
      ...run,
      run_id: `rare ${run.run_id}`,
      steps: run.steps.map((step) => ({ ...step, step: { ...step.step, scope: `rare ${step.step.scope}` } })),
    }));
    const taught = await teach([...busy, ...rare]);
    expect(taught.draft.measured.of?.students).toBe(4);
    const ofRare = taught.steps.filter(({ run_id }) => run_id.startsWith('rare'));
    expect(new Set(ofRare.map(({ run_id }) => run_id)).size).toBe(20);
    const ofBusy = new Set(taught.steps.map(({ run_id }) => run_id)).size - 20;
    expect(ofBusy).toBe(
      splitRuns([...busy, ...rare]).held_out.filter(({ run_id }) => !run_id.startsWith('rare')).length,
    );
    expect(taught.draft.coverage.agents).toHaveLength(2);
  });
});

describe('the gate', () => {
  let taught: TaughtStudent;
  beforeAll(async () => {
    taught = await teach(makeRuns(20));
  });

  it.each([
    [{ served: 40, errors: 2 }, null],
    [{ served: 40, errors: 3 }, '3 of 40 served steps held out are wrong (7.5 %), more than 5 %'],
    [{ served: 11, errors: 0 }, 'it would serve 11 of 80 steps held out; measuring its error rate needs 12'],
    [
      { served: 0, errors: 0 },
      'it would serve nothing: no threshold keeps the error under 5 % on the runs at hand',
    ],
    [
      { served: 60, errors: 2, in_a_row: { served: 20, errors: 2 } },
      '2 of the 20 steps served in a row from the beginning of a run are wrong (10 %), more than 5 %',
    ],
  ])('judges %j', (measured, words) => {
    const { served, errors } = measured;
    const all = {
      in_a_row: { served: 0, errors: 0 },
      ...measured,
      steps: 80,
      error: served === 0 ? null : errors / served,
    };
    const draft = { ...taught.draft, measured: { ...taught.draft.measured, ...all } };
    expect(judgeStudent({ ...taught, threshold: 0.2, draft }, gate)).toBe(words);
    // If the student may serve again in a run, the steps before the upstream’s first step are not measured separately.
    const comesBack = judgeStudent({ ...taught, threshold: 0.2, draft }, { ...gate, sticky: false });
    expect(comesBack).toBe('in_a_row' in measured ? null : words);
    const agents = draft.coverage.agents?.map((agent) => ({ ...agent, threshold: null })) ?? [];
    expect(agents).not.toEqual([]);
    const left = { ...draft, coverage: { ...draft.coverage, agents } };
    expect(judgeStudent({ ...taught, threshold: 0.2, draft: left }, gate)).toMatch(/^it would serve nothing/);
  });

  it.each([
    [{ steps: 100, published_right: 80, published_errors: 1, published_served: 81, new_right: 78 }, true],
    [{ steps: 100, published_right: 80, published_errors: 1, published_served: 81, new_right: 77 }, false],
    [{ steps: 100, published_right: 80, published_errors: 9, published_served: 89, new_right: 50 }, true],
    [null, true],
  ])('compares %j', (comparison, isFine) => {
    expect(judgeComparison(comparison, gate) === null).toBe(isFine);
  });
});

describe('measures', () => {
  it('count what is served, correctly or not, and consecutive steps', async () => {
    const runs = makeRuns(4).map((run) => ({ ...run, steps: run.steps.slice(0, 3) }));
    let asked = 0;
    // Right, wrong, not covered, right …
    const measured = await askAbout(
      runs,
      async ({ answer }) => {
        const at = asked++ % 4;
        if (at === 2) return { covered: false, reason: 'too_far' };
        return {
          covered: true,
          answer: at === 1 ? { ...answer!, content: [{ type: 'text', text: 'no' }] } : answer,
        };
      },
      1,
    );
    const summary = summarizeMeasures(measured);
    expect(summary).toMatchObject({
      held_out_runs: 4,
      steps: 12,
      served: 9,
      errors: 3,
      uncovered: { too_far: 3 },
    });
    expect(summary.in_a_row).toEqual({ served: 6, errors: 3 });
    expect(summary.whole_runs).toBe(0);
    expect(summary.error).toBeCloseTo(1 / 3);
    expect(summary.tokens_saved_share).toBeCloseTo(0.75);
    expect(measureByAnswer(measured).reduce((sum, { errors }) => sum + errors, 0)).toBe(3);
  });

  it('keep their order with many in progress', async () => {
    const runs = makeRuns(12);
    const order: number[] = [];
    const measured = await askAbout(
      runs,
      async (step) => {
        for (let turn = 0; turn < step.exchange_id % 5; turn++) await Promise.resolve();
        order.push(step.exchange_id);
        return { covered: true, answer: step.answer };
      },
      4,
    );
    const expected = runs.flatMap(({ steps }) => steps.map(({ exchange_id }) => exchange_id));
    expect(measured.map(({ step }) => step.exchange_id)).toEqual(expected);
    expect(order).not.toEqual(expected);
    expect(measured.some(({ wrong }) => wrong)).toBe(false);
  });

  it('bound the error from above', () => {
    // By Clopper and Pearson, the bound is 1 - 0.05^(1/n) if none of n steps is wrong.
    expect(boundError(0, 20)).toBeCloseTo(1 - 0.05 ** (1 / 20), 6);
    expect(boundError(3, 3)).toBe(1);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 500 }), fc.nat(499), (served, some) => {
        const errors = some % served;
        const bound = boundError(errors, served);
        expect(bound).toBeGreaterThan(errors / served);
        expect(bound).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe('patterns of many runs', () => {
  const pattern = (situation: string) => ({
    situation,
    dead_ends: 'd',
    unlock: 'u',
    model: 'm',
    failure_type: '',
  });

  it('are merged if their situations are nearly the same, the best supported first', () => {
    const vectors = [
      [1, 0],
      [0, 1],
      [0.1, 0.99],
      [0, 1],
    ].map((vector) => new Float32Array(vector));
    const merged = mergePatterns([pattern('a'), pattern('b'), pattern('b again'), pattern('b')], vectors);
    expect(merged.map(({ situation, support }) => [situation, support])).toEqual([
      ['b', 3],
      ['a', 1],
    ]);
    const exact = mergePatterns([pattern('a'), pattern('b'), pattern('b again'), pattern('b')], null);
    expect(exact.map(({ support }) => support)).toEqual([2, 1, 1]);
  });
});
