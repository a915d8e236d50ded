/**
 * From golden runs to a student: decides which runs teach and which are kept apart, fits, sets the threshold, measures on the
 * runs kept apart, and decides whether that is good enough to be published. Pure but for what it asks; command line.
 *
 * The measured student does not know the runs kept apart. The published one also learns from them, in the
 * same way, since thirty runs are few. The manifest says whose its figures are, and the measured student lies beside the other,
 * so that students of two rounds are compared on runs that neither knows.
 */

import { createHash } from 'node:crypto';
import { GOLDEN_RUNS_MIN, HELD_OUT, SERVICE_ASKED_AT_ONCE, SERVICE_STEPS_ASKED } from '../limits.ts';
import { countOf } from '../std/count-of.ts';
import { kindOfAnswer } from '../student/model/answer-kind.ts';
import {
  type Calibration,
  calibrateScores,
  calibrateStudent,
  findFinalKinds,
  type ScoredStep,
  scoreStep,
} from '../student/model/calibration.ts';
import type { StudentAnswer } from '../student/model/decision.ts';
import { CONFIDENCE, keepsKindError } from '../student/model/error-bound.ts';
import {
  MANIFEST_AGENTS,
  MANIFEST_KINDS,
  type StudentKind,
  type StudentManifest,
  type StudentManifestDraft,
} from '../student/model/manifest.ts';
import type { StepDigest } from '../student/model/step.ts';
import { type MakeStudentIndex, Student } from '../student/model/student.ts';
import { fitStudent, type LearnedStep, limitAgents, nameAgents } from '../student/model/student-fit.ts';
import type { StudentModel } from '../student/model/student-model.ts';
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
const DISTILL_CODE = 'distill-4';

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
  const of =
    looked_at === runs ? `of ${countOf(runs, 'run')}` : `of the ${countOf(looked_at, 'run')} looked at`;
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
  /** Tools of which no call is ever served. */
  never_serve?: readonly string[];
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
  /** What is published. */
  model: StudentModel;
  /** What was measured; null: it is the one that is published. */
  measured_model: StudentModel | null;
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
  head: Pick<StudentManifestDraft, 'made_at' | 'made_by' | 'valid_until'>,
): Promise<TaughtStudent> {
  const tell = options.tell ?? (() => {});
  const { target_error, makeIndex, service } = options;
  const never_serve = options.never_serve ?? [];
  const rules = { target_error, makeIndex, never_serve };
  const split = splitRuns(material.taught);
  const parts = service === undefined ? rotateParts(split) : [split];
  const rounds: MeasuredRound[] = [];
  for (const [at, { teaching, held_out: part }] of parts.entries()) {
    const of = parts.length === 1 ? '' : `, ${at + 1} of ${parts.length}`;
    const learned = listLearned(teaching);
    tell(`calibrating on ${countOf(teaching.length, 'run')}${of}`);
    const calibration =
      service === undefined
        ? calibrateStudent(learned, rules)
        : await calibrateService(teaching, options, service, tell);
    tell(`fitting ${countOf(learned.length, 'step')}${of}`);
    const model = limitAgents(fitStudent(learned), calibration.agents);
    tell(`measuring on ${countOf(part.length, 'run')}${of}`);
    const student = new Student(model, makeIndex);
    const { threshold } = calibration;
    const asked = await (service === undefined
      ? askAbout(part, ({ step }) => decide(student, step, threshold))
      : measureService(part, student, threshold, service, tell));
    rounds.push({ teaching, learned, calibration, model, asked });
  }
  const first = rounds[0]!;
  const asked = rounds.flatMap((round) => round.asked);
  const failed = findFailedKinds(asked, target_error);
  const steps = asked.map((one) =>
    one.kind !== null && failed.has(keyOfKind(one.step.step.scope, one.kind))
      ? { ...one, served: false, wrong: false, kind: null, reason: 'unproven' as const }
      : one,
  );
  const measured = limitAgents(first.model, dropKinds(first.calibration, failed).agents);
  // A service's threshold was paid for; to ask it about everything would cost as much again.
  const isRefitted = service === undefined && steps.some(({ served }) => served);
  const learned = isRefitted ? listLearned(material.taught) : first.learned;
  if (isRefitted) tell(`teaching all of ${countOf(material.taught.length, 'run')}`);
  const calibration = dropKinds(isRefitted ? calibrateStudent(learned, rules) : first.calibration, failed);
  const model = isRefitted ? limitAgents(fitStudent(learned), calibration.agents) : measured;
  const ids = material.taught.flatMap(({ first_id, last_id }) => [first_id, last_id]);
  return {
    model,
    measured_model: isRefitted ? measured : null,
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
        target_error,
        method: calibration.method,
        confidence: CONFIDENCE,
        never_serve: [...never_serve],
        agents: describeAgents(calibration, learned, countByAgent(asked, new Student(model, makeIndex))),
      },
      measured: {
        ...summarizeMeasures(steps),
        ...(isRefitted
          ? {
              of: {
                students: rounds.length,
                teaching_runs: first.teaching.length,
                steps: first.learned.length,
                threshold: Math.max(0, first.calibration.threshold),
              },
            }
          : {}),
      },
      golden: {
        runs: material.golden,
        teaching_runs: isRefitted ? material.taught.length : first.teaching.length,
        steps: learned.length,
        held_out_below: split.held_out_below,
        fingerprint: fingerprintMaterial(material, options),
        first_exchange_id: ids.reduce((least, id) => Math.min(least, id), ids[0] ?? 0),
        last_exchange_id: ids.reduce((most, id) => Math.max(most, id), 0),
      },
    },
  };
}

/** A student that does not know some runs, and what it did on them. */
interface MeasuredRound {
  teaching: GoldenRun[];
  learned: LearnedStep[];
  calibration: Calibration;
  model: StudentModel;
  asked: MeasuredStep[];
}

/** An agent with fewer golden runs than this has each kept apart once: a quarter of thirty says little. */
const ROTATED_RUNS = 80;
const ROTATED_PARTS = 4;

/** Runs that are kept apart from a student, and those that it is taught. */
interface RotatedPart {
  held_out: GoldenRun[];
  teaching: GoldenRun[];
}

/**
 * Parts of the runs, each kept apart from a student that is taught others; the first is the one of `split`. The others are of
 * agents with few runs alone, which are taught without those that have many.
 */
function rotateParts({ teaching, held_out }: SplitRuns): RotatedPart[] {
  const counts = new Map<string, number>();
  for (const run of [...teaching, ...held_out])
    counts.set(mainScope(run), (counts.get(mainScope(run)) ?? 0) + 1);
  const isRotated = (run: GoldenRun): boolean => counts.get(mainScope(run))! < ROTATED_RUNS;
  const others = teaching.filter(isRotated).toSorted((a, b) => placeOf(a.run_id) - placeOf(b.run_id));
  if (others.length === 0) return [{ held_out, teaching }];
  const few = [...teaching, ...held_out].filter(isRotated);
  // Newest first, as they were.
  few.sort((a, b) => b.last_id - a.last_id);
  const parts = Array.from({ length: ROTATED_PARTS - 1 }, (_, part) => {
    const apart = new Set(others.filter((_run, i) => i % (ROTATED_PARTS - 1) === part));
    return { held_out: [...apart], teaching: few.filter((run) => !apart.has(run)) };
  });
  return [{ held_out, teaching }, ...parts.filter((part) => part.held_out.length > 0)];
}

/** What most steps of a run are of: a model with its tools and settings. */
function mainScope({ steps }: GoldenRun): string {
  const counts = new Map<string, number>();
  for (const { step } of steps) counts.set(step.scope, (counts.get(step.scope) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? '';
}

function keyOfKind(scope: string, kind: string): string {
  return `${scope} ${kind}`;
}

function scopeOf(agent: string): string {
  return agent.split('.')[0]!;
}

/**
 * Kinds of answers, by scope, that were more likely than not wrong more often than the target when they were served on runs
 * kept apart: none of their steps is served.
 */
function findFailedKinds(asked: readonly MeasuredStep[], target: number): Set<string> {
  const counts = new Map<string, { served: number; errors: number }>();
  for (const { step, kind, wrong } of asked) {
    if (kind === null) continue;
    const key = keyOfKind(step.step.scope, kind);
    const its = counts.get(key) ?? { served: 0, errors: 0 };
    counts.set(key, its);
    its.served += 1;
    if (wrong) its.errors += 1;
  }
  const failed = [...counts].filter(
    ([, { served, errors }]) => errors > 0 && !keepsKindError(errors, served, 0.5, target),
  );
  return new Set(failed.map(([key]) => key));
}

/** The thresholds without those of kinds that have failed. */
function dropKinds(calibration: Calibration, failed: ReadonlySet<string>): Calibration {
  const agents = calibration.agents.map((its) => {
    const kinds = its.kinds.map((one) =>
      one.refused === null && failed.has(keyOfKind(scopeOf(its.agent), one.kind))
        ? { ...one, threshold: -1, refused: 'too_wrong' as const }
        : one,
    );
    return { ...its, kinds, threshold: Math.max(-1, ...kinds.map(({ threshold }) => threshold)) };
  });
  return { ...calibration, agents, threshold: Math.max(-1, ...agents.map(({ threshold }) => threshold)) };
}

function countByAgent(
  asked: readonly MeasuredStep[],
  student: Student,
): Map<string, { steps: number; served: number; errors: number }> {
  const counts = new Map<string, { steps: number; served: number; errors: number }>();
  for (const { step, served, wrong } of asked) {
    const { agent } = student.propose(step.step);
    const its = counts.get(agent) ?? { steps: 0, served: 0, errors: 0 };
    counts.set(agent, its);
    its.steps += 1;
    if (served) its.served += 1;
    if (wrong) its.errors += 1;
  }
  return counts;
}

function describeAgents(
  { agents }: Calibration,
  learned: readonly LearnedStep[],
  measured: ReadonlyMap<string, { steps: number; served: number; errors: number }>,
): NonNullable<StudentManifestDraft['coverage']['agents']> {
  const tools = new Map<string, string[]>();
  for (const [{ step }, agent] of nameAgents(learned))
    if (!tools.has(agent)) tools.set(agent, (step.callable ?? []).slice(0, 5));
  let room = MANIFEST_KINDS;
  return agents
    .filter(({ agent }) => agent !== '')
    .toSorted((a, b) => b.steps - a.steps)
    .slice(0, MANIFEST_AGENTS)
    .map(({ agent, threshold, runs, steps, served, errors, kinds }) => {
      const told = kinds.slice(0, room);
      room -= told.length;
      return {
        agent: agent.slice(0, 100),
        tools: (tools.get(agent) ?? []).map((name) => name.slice(0, 100)),
        threshold: threshold < 0 ? null : threshold,
        evidence:
          threshold < 0 && kinds.some(({ refused }) => refused === 'too_wrong')
            ? ('failed' as const)
            : ('own' as const),
        kinds: told.map((one) => ({
          ...one,
          threshold: one.threshold < 0 ? null : one.threshold,
        })),
        runs,
        steps,
        served,
        errors,
        measured: measured.get(agent) ?? { steps: 0, served: 0, errors: 0 },
      };
    });
}

/** The oldest first: where there are too many, the student takes the last. */
function listLearned(runs: readonly GoldenRun[]): LearnedStep[] {
  return runs
    .toReversed()
    .flatMap(({ run_id, steps }) =>
      steps.flatMap(({ step, answer, exchange_id }) =>
        answer === null ? [] : [{ run_id, step, answer, exchange_id }],
      ),
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
  const scores = new Map<GoldenStep, ScoredStep & { score: number }>();
  for (let fold = 0; fold < FOLDS; fold++) {
    const its = asked.filter((run) => foldOf(run) === fold);
    if (its.length === 0) continue;
    const others = listLearned(teaching.filter((run) => foldOf(run) !== fold));
    const student = new Student(fitStudent(others), options.makeIndex);
    for (const { run_id, steps } of its) {
      for (const one of steps) {
        const { step, answer } = one;
        const its = answer === null ? null : scoreStep(student, { run_id, step, answer });
        if (its !== null && its.score !== null) scores.set(one, { ...its, score: its.score });
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
  const agents = new Map<StepDigest, string>();
  for (const [{ step }, agent] of nameAgents(listLearned(teaching))) agents.set(step, agent);
  const scored = answered.flatMap(({ run_id, step, served, wrong }): ScoredStep[] =>
    served ? [{ ...scores.get(step)!, run_id, agent: agents.get(step.step) ?? '', is_right: !wrong }] : [],
  );
  const calibration = calibrateScores(scored, options.target_error, {
    never_serve: options.never_serve ?? [],
    final: findFinalKinds(listLearned(teaching)),
  });
  return {
    ...calibration,
    method: `cross-fitted bound by agent, kind of answer and run on answers of the service, ${FOLDS} folds, ${answered.length} steps`,
    runs: asked.length,
    steps: answered.length,
    curve: calibration.curve.map((point) => ({
      ...point,
      coverage: answered.length === 0 ? 0 : point.served / answered.length,
    })),
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
    const answer = await service.answer(one);
    if (answer !== null && !student.serves(decision.agent, kindOfAnswer(answer.content)))
      return { covered: false, reason: 'unproven' };
    return toVerdict(answer);
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
  { target_error, student, never_serve }: Pick<TeachOptions, 'target_error' | 'student' | 'never_serve'>,
): string {
  const hash = createHash('sha256').update(
    JSON.stringify([DISTILL_CODE, target_error, student, never_serve ?? []]),
  );
  for (const { run_id, last_id, steps } of taught)
    hash.update(JSON.stringify([run_id, last_id, steps.length]));
  return hash.digest('base64url');
}

/** Served steps of runs kept apart without which nobody can say how often a student is wrong. */
export interface Gate {
  target_error: number;
  served_min: number;
  /** Gateways leave a run to the upstream once it has served a step of it: then the steps before that count by themselves. */
  sticky: boolean;
}

/** @returns why the student is not good enough to be published; null when it is */
export function judgeStudent({ threshold, draft }: TaughtStudent, gate: Gate): string | null {
  const { served, errors, error, in_a_row: row, steps } = draft.measured;
  const target = percent(gate.target_error);
  if (threshold < 0 || served === 0)
    return `it would serve nothing: no threshold keeps the error under ${target} on the runs at hand`;
  if (draft.coverage.agents?.every((agent) => agent.threshold === null) === true)
    return 'it would serve nothing: every agent is left to the upstream';
  if (served < gate.served_min) {
    return `it would serve ${served} of ${countOf(steps, 'step')} kept apart; to say how often it is wrong takes ${gate.served_min}`;
  }
  if (error !== null && error > gate.target_error)
    return `${errors} of ${served} served steps kept apart are wrong (${percent(error)}), more than ${target}`;
  if (gate.sticky && row.served > 0 && row.errors / row.served > gate.target_error) {
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
const WORSE_SHARE = 0.02;

/**
 * Shows the published student, as it was measured, the steps on which the new one was measured, as far as both had them kept apart.
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
  const threshold = manifest.measured.of?.threshold ?? manifest.coverage.threshold;
  const before = await askAbout(runs, ({ step }) => decide(student, step, threshold));
  if (before.length === 0) return null;
  const compared = new Set(runs.map(({ run_id }) => run_id));
  const after = taught.steps.filter(({ run_id }) => compared.has(run_id));
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
  return `it serves ${new_right} of ${countOf(steps, 'step')} rightly where the published one serves ${published_right}`;
}

/** `5 %`, `3.3 %`. */
export function percent(share: number): string {
  return `${Number((100 * share).toFixed(1))} %`;
}
