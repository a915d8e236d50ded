/**
 * From golden runs to a student: which runs teach and which are kept apart, the fit, the threshold, what it does on the
 * runs kept apart, and whether that is good enough to be published. Pure but for whoever is asked; command line.
 *
 * The student that is measured is the one that is published: it is not fitted again on the runs kept apart, or the figures
 * in its manifest would be those of another.
 */

import { createHash } from 'node:crypto';
import {
  type Calibration,
  CURVE_TARGETS,
  calibrateStudent,
  chooseThreshold,
  type ScoredStep,
  scoreStep,
} from '../domain/student/calibration.ts';
import type { StudentAnswer } from '../domain/student/decision.ts';
import type { StudentKind, StudentManifest, StudentManifestDraft } from '../domain/student/manifest.ts';
import {
  fitStudent,
  type LearnedStep,
  type MakeStudentIndex,
  Student,
  type StudentModel,
} from '../domain/student/student.ts';
import { GOLDEN_RUNS_MIN, HELD_OUT, SERVICE_ASKED_AT_ONCE, SERVICE_STEPS_ASKED } from '../limits.ts';
import type { GoldenMaterial, GoldenRun, GoldenStep } from './golden-steps.ts';
import {
  type AnswerKindMeasure,
  askAbout,
  type MeasuredStep,
  measureByAnswer,
  type StepVerdict,
  summarizeMeasures,
} from './student-measures.ts';

/** Names what comes out: another number when the same runs would give another student. */
const DISTILL_CODE = 'distill-1';

export interface SplitRuns {
  teaching: GoldenRun[];
  held_out: GoldenRun[];
  /** Runs whose place among all hashes is below it are kept apart. */
  held_out_below: number;
}

/** A run's place among all hashes, 0 … 1: always the same, and told by nothing but its id. */
export function placeOf(runId: string): number {
  return createHash('sha256').update(runId).digest().readUIntBE(0, 6) / 2 ** 48;
}

/**
 * Keeps runs apart by the hash of their id, so that a run is on the same side whenever it is looked at. Where a share of
 * HELD_OUT.share gives too few, the line is drawn a little higher.
 */
export function splitRuns(runs: readonly GoldenRun[]): SplitRuns {
  const places = runs.map(({ run_id }) => placeOf(run_id)).sort((a, b) => a - b);
  // Between the last one that must be kept apart and the next.
  const last = places[HELD_OUT.runs_min - 1] ?? 1;
  const next = places[HELD_OUT.runs_min] ?? 1;
  const below = Math.max(HELD_OUT.share, (last + next) / 2);
  const isHeldOut = ({ run_id }: GoldenRun): boolean => placeOf(run_id) < below;
  return {
    teaching: runs.filter((run) => !isHeldOut(run)),
    held_out: runs.filter(isHeldOut),
    held_out_below: below,
  };
}

/** Why there is nothing to distil; null: there is. */
export function describeShortage({ taught, golden, runs, looked_at }: GoldenMaterial): string | null {
  const have = taught.length;
  if (have >= GOLDEN_RUNS_MIN) return null;
  const of = looked_at === runs ? `of ${count(runs, 'run')}` : `of the ${count(looked_at, 'run')} looked at`;
  const others = golden - have;
  const unfit = others === 0 ? '' : ` and ${others} more without a step that a student could give`;
  const missing = GOLDEN_RUNS_MIN - have;
  return `too few golden runs: ${have}${unfit}, ${of}; a student takes ${GOLDEN_RUNS_MIN}, so ${missing} more ${missing === 1 ? 'is' : 'are'} needed`;
}

export interface TeachOptions {
  target_error: number;
  student: StudentKind;
  makeIndex: MakeStudentIndex;
  /** Told before each part. */
  tell?: (what: string) => void;
  /** For kind `http`. */
  service?: StudentService;
}

/** A cheaper model that can be asked for the answer to a golden step. */
export interface StudentService {
  /** null: it failed, or its answer is none that may be served: then the upstream would serve. */
  answer(step: GoldenStep): Promise<StudentAnswer | null>;
}

/** A student with its figures, ready to be judged and published. */
export interface TaughtStudent {
  model: StudentModel;
  /** Below 0: nothing would be served. */
  threshold: number;
  calibration: Calibration;
  split: SplitRuns;
  steps: MeasuredStep[];
  by_answer: AnswerKindMeasure[];
  draft: StudentManifestDraft;
}

/**
 * Fits, calibrates and measures.
 * @param head what the manifest says besides
 */
export async function teachStudent(
  material: GoldenMaterial,
  options: TeachOptions,
  head: Pick<StudentManifestDraft, 'made_at' | 'made_by'>,
): Promise<TaughtStudent> {
  const tell = options.tell ?? (() => {});
  const split = splitRuns(material.taught);
  const learned = listLearned(split.teaching);
  tell(`calibrating on ${split.teaching.length} runs`);
  const calibration =
    options.service === undefined
      ? calibrateStudent(learned, { target_error: options.target_error, makeIndex: options.makeIndex })
      : await calibrateService(split.teaching, options, options.service, tell);
  tell(`fitting ${learned.length} steps`);
  const model = fitStudent(learned);
  tell(`measuring on ${split.held_out.length} runs`);
  const student = new Student(model, options.makeIndex);
  const { threshold } = calibration;
  const steps = await (options.service === undefined
    ? askAbout(split.held_out, ({ step }) => decide(student, step, threshold))
    : measureService(split.held_out, student, threshold, options.service, tell));
  const measured = summarizeMeasures(steps);
  const ids = material.taught.flatMap(({ first_id, last_id }) => [first_id, last_id]);
  return {
    model,
    threshold: calibration.threshold,
    calibration,
    split,
    steps,
    by_answer: measureByAnswer(steps),
    draft: {
      ...head,
      student: options.student,
      coverage: {
        threshold: Math.max(0, calibration.threshold),
        target_error: options.target_error,
        method: calibration.method,
      },
      measured,
      golden: {
        runs: material.golden,
        teaching_runs: split.teaching.length,
        steps: learned.length,
        held_out_below: split.held_out_below,
        fingerprint: fingerprintMaterial(material, options),
        first_exchange_id: ids.reduce((least, id) => Math.min(least, id), ids[0] ?? 0),
        last_exchange_id: ids.reduce((most, id) => Math.max(most, id), 0),
      },
    },
  };
}

/** The oldest first: where there are too many, the student takes the last. */
function listLearned(runs: readonly GoldenRun[]): LearnedStep[] {
  return runs
    .toReversed()
    .flatMap(({ run_id, steps }) =>
      steps.flatMap(({ step, answer }) => (answer === null ? [] : [{ run_id, step, answer }])),
    );
}

/** Parts that runs are cut into to find a service's threshold. */
const FOLDS = 5;

/**
 * The threshold for a service: golden steps of some runs get their scores from students that do not know the run, the
 * service answers those that could be covered, and the threshold keeps what of that is wrong under the target.
 */
async function calibrateService(
  teaching: readonly GoldenRun[],
  options: TeachOptions,
  service: StudentService,
  tell: (what: string) => void,
): Promise<Calibration> {
  const asked = takeRuns(teaching);
  const foldOf = ({ run_id }: { run_id: string }): number => Math.floor(placeOf(run_id) * 1e6) % FOLDS;
  const scores = new Map<GoldenStep, number>();
  for (let fold = 0; fold < FOLDS; fold++) {
    const its = asked.filter((run) => foldOf(run) === fold);
    if (its.length === 0) continue;
    const others = listLearned(teaching.filter((run) => foldOf(run) !== fold));
    const student = new Student(fitStudent(others), options.makeIndex);
    for (const { run_id, steps } of its) {
      for (const one of steps) {
        const { step, answer } = one;
        const score = answer === null ? null : scoreStep(student, { run_id, step, answer }).score;
        if (score !== null) scores.set(one, score);
      }
    }
  }
  const told = (done: number, of: number): void => tell(`asking the service: step ${done} of ${of}`);
  const answered = await askAbout(
    asked,
    async (step) => (scores.has(step) ? toVerdict(await service.answer(step)) : NOT_ASKED),
    SERVICE_ASKED_AT_ONCE,
    told,
  );
  const scored = answered.flatMap(({ run_id, step, served, wrong }): ScoredStep[] =>
    served ? [{ run_id, score: scores.get(step)!, is_right: !wrong }] : [],
  );
  const at = (targetError: number) => {
    const threshold = chooseThreshold(scored, targetError);
    const under = scored.filter(({ score }) => score !== null && score <= threshold);
    const errors = under.filter(({ is_right }) => !is_right).length;
    return { threshold, served: under.length, errors };
  };
  return {
    ...at(options.target_error),
    target_error: options.target_error,
    method: `cross-fitted split-conformal selection by run on answers of the service, ${FOLDS} folds, ${answered.length} steps`,
    runs: asked.length,
    steps: answered.length,
    curve: CURVE_TARGETS.map((target) => {
      const { threshold, served, errors } = at(target);
      const coverage = answered.length === 0 ? 0 : served / answered.length;
      return {
        target_error: target,
        threshold,
        served,
        errors,
        coverage,
        error: served === 0 ? 0 : errors / served,
      };
    }),
  };
}

/** What the service does with steps of runs kept apart, where it would be asked. */
function measureService(
  heldOut: readonly GoldenRun[],
  student: Student,
  threshold: number,
  service: StudentService,
  tell: (what: string) => void,
): Promise<MeasuredStep[]> {
  const ask = async (one: GoldenStep): Promise<StepVerdict> => {
    const decision = student.decide(one.step, threshold, 'coverage');
    if (!decision.covered) return { covered: false, reason: decision.reason };
    return toVerdict(await service.answer(one));
  };
  const told = (done: number, of: number): void => tell(`asking the service: step ${done} of ${of}`);
  return askAbout(takeRuns(heldOut), ask, SERVICE_ASKED_AT_ONCE, told);
}

const NOT_ASKED: StepVerdict = { covered: false, reason: 'too_far' };

function toVerdict(answer: StudentAnswer | null): StepVerdict {
  return answer === null ? { covered: false, reason: 'invalid' } : { covered: true, answer };
}

/** Whole runs, by the hash of their id, until SERVICE_STEPS_ASKED steps are there: to ask costs money. */
function takeRuns(runs: readonly GoldenRun[]): GoldenRun[] {
  const taken: GoldenRun[] = [];
  let steps = 0;
  for (const run of runs.toSorted((a, b) => placeOf(a.run_id) - placeOf(b.run_id))) {
    if (steps >= SERVICE_STEPS_ASKED) break;
    taken.push(run);
    steps += run.steps.length;
  }
  return taken;
}

function decide(student: Student, step: GoldenStep['step'], threshold: number): StepVerdict {
  const decision = student.decide(step, threshold);
  return decision.covered
    ? { covered: true, answer: decision.answer }
    : { covered: false, reason: decision.reason };
}

/** Equal for a student that would come out the same. */
export function fingerprintMaterial(
  { taught }: GoldenMaterial,
  { target_error, student }: Pick<TeachOptions, 'target_error' | 'student'>,
): string {
  const hash = createHash('sha256').update(JSON.stringify([DISTILL_CODE, target_error, student]));
  for (const { run_id, last_id, steps } of taught)
    hash.update(JSON.stringify([run_id, last_id, steps.length]));
  return hash.digest('base64url');
}

/** Served steps of runs kept apart without which nobody can say how often a student is wrong. */
export interface Gate {
  target_error: number;
  served_min: number;
}

/** @returns why the student is not good enough to be published; null when it is */
export function judgeStudent({ threshold, draft }: TaughtStudent, gate: Gate): string | null {
  const { served, errors, error, in_a_row: row, steps } = draft.measured;
  const target = percent(gate.target_error);
  if (threshold < 0 || served === 0)
    return `it would serve nothing: no threshold keeps the error under ${target} on the runs at hand`;
  if (served < gate.served_min) {
    return `it would serve ${served} of ${count(steps, 'step')} kept apart; to say how often it is wrong takes ${gate.served_min}`;
  }
  if (error !== null && error > gate.target_error)
    return `${errors} of ${served} served steps kept apart are wrong (${percent(error)}), more than ${target}`;
  if (row.served > 0 && row.errors / row.served > gate.target_error) {
    return `${row.errors} of the ${row.served} steps served in a row from the beginning of a run are wrong (${percent(row.errors / row.served)}), more than ${target}`;
  }
  return null;
}

/** What two students did on the same steps, which neither was taught. */
export interface Comparison {
  steps: number;
  published_right: number;
  published_errors: number;
  published_served: number;
  new_right: number;
}

/** Of the steps compared, so many fewer may be served rightly before the new student counts as worse. */
export const WORSE_SHARE = 0.02;

/**
 * Shows the published student the steps on which the new one was measured, as far as both had them kept apart.
 * @returns null when there is nothing to compare: another kind of student, or no such step
 */
export async function compareStudents(
  taught: TaughtStudent,
  published: { manifest: StudentManifest; model: StudentModel },
  makeIndex: MakeStudentIndex,
): Promise<Comparison | null> {
  const { manifest, model } = published;
  if (manifest.student.kind !== 'exemplar' || taught.draft.student.kind !== 'exemplar') return null;
  const isKeptApart = (runId: string): boolean => placeOf(runId) < manifest.golden.held_out_below;
  const student = new Student(model, makeIndex);
  const runs = taught.split.held_out.filter(({ run_id }) => isKeptApart(run_id));
  const before = await askAbout(runs, ({ step }) => decide(student, step, manifest.coverage.threshold));
  if (before.length === 0) return null;
  const after = taught.steps.filter(({ run_id }) => isKeptApart(run_id));
  const countRight = (steps: readonly MeasuredStep[]): number =>
    steps.filter(({ served, wrong }) => served && !wrong).length;
  return {
    steps: before.length,
    published_right: countRight(before),
    published_errors: before.filter(({ wrong }) => wrong).length,
    published_served: before.filter(({ served }) => served).length,
    new_right: countRight(after),
  };
}

/**
 * Worse is a student that serves rightly fewer of the same steps, by more than WORSE_SHARE of them, while the published
 * one keeps to the target there. One that no longer does is replaced by any that passes the gate.
 * @returns why the published one stays; null when the new one is not worse
 */
export function judgeComparison(comparison: Comparison | null, gate: Gate): string | null {
  if (comparison === null) return null;
  const { steps, published_right, published_errors, published_served, new_right } = comparison;
  if (published_served > 0 && published_errors / published_served > gate.target_error) return null;
  if (published_right - new_right <= WORSE_SHARE * steps) return null;
  return `it serves ${new_right} of ${steps} steps rightly where the published one serves ${published_right}`;
}

/** `5 %`, `3.3 %`. */
export function percent(share: number): string {
  return `${Number((100 * share).toFixed(1))} %`;
}

function count(n: number, noun: string): string {
  return `${n.toLocaleString('en-US')} ${noun}${n === 1 ? '' : 's'}`;
}
