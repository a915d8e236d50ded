/**
 * From golden runs to a student: which runs teach and which are kept apart, the fit, the threshold, what it does on the
 * runs kept apart, and whether that is good enough to be published. Pure but for whoever is asked; command line.
 *
 * The student that is measured does not know the runs kept apart; the one that is published is taught them, too, in the
 * same way, for thirty runs are few. The manifest says whose its figures are, and the measured one lies beside the other:
 * students of two rounds are compared on runs that neither knows.
 */

import { createHash } from 'node:crypto';
import { GOLDEN_RUNS_MIN, HELD_OUT, SERVICE_ASKED_AT_ONCE, SERVICE_STEPS_ASKED } from '../limits.ts';
import { countOf } from '../std/count-of.ts';
import {
  type Calibration,
  calibrateScores,
  calibrateStudent,
  type ScoredStep,
  scoreStep,
} from '../student/model/calibration.ts';
import type { StudentAnswer } from '../student/model/decision.ts';
import {
  MANIFEST_AGENTS,
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
const DISTILL_CODE = 'distill-2';

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
  const split = splitRuns(material.taught);
  const parts = service === undefined ? rotateParts(split) : [split.held_out];
  const rounds: MeasuredRound[] = [];
  for (const [at, part] of parts.entries()) {
    const of = parts.length === 1 ? '' : `, ${at + 1} of ${parts.length}`;
    const teaching = at === 0 ? split.teaching : material.taught.filter((run) => !part.includes(run));
    const learned = listLearned(teaching);
    tell(`calibrating on ${countOf(teaching.length, 'run')}${of}`);
    const calibration =
      service === undefined
        ? calibrateStudent(learned, { target_error, makeIndex })
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
  const failed = findFailedScopes(asked, target_error);
  const steps = asked.map((one) =>
    one.served && failed.has(one.step.step.scope)
      ? { ...one, served: false, wrong: false, reason: 'disagreement' as const }
      : one,
  );
  const isFailed = (agent: string): boolean => failed.has(scopeOf(agent));
  const dropAgents = (model: StudentModel, { agents }: Calibration): StudentModel =>
    limitAgents(
      model,
      agents.map(({ agent, threshold: its }) => ({ agent, threshold: isFailed(agent) ? -1 : its })),
    );
  const measured = dropAgents(first.model, first.calibration);
  // A service's threshold was paid for; to ask it about everything would cost as much again.
  const isRefitted = service === undefined && steps.some(({ served }) => served);
  const learned = isRefitted ? listLearned(material.taught) : first.learned;
  if (isRefitted) tell(`teaching all of ${countOf(material.taught.length, 'run')}`);
  const calibration = isRefitted ? calibrateStudent(learned, { target_error, makeIndex }) : first.calibration;
  const model = isRefitted ? dropAgents(fitStudent(learned), calibration) : measured;
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
        agents: describeAgents(
          calibration,
          isFailed,
          learned,
          countByAgent(asked, new Student(model, makeIndex)),
        ),
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

/** With fewer golden runs than this, each is kept apart once: a quarter of thirty says little. */
const ROTATED_RUNS = 80;
const ROTATED_PARTS = 4;

/** Parts of the runs, each kept apart from a student that is taught the others; the first is the one of `split`. */
function rotateParts({ teaching, held_out }: SplitRuns): GoldenRun[][] {
  if (teaching.length + held_out.length >= ROTATED_RUNS) return [held_out];
  const others = teaching.toSorted((a, b) => placeOf(a.run_id) - placeOf(b.run_id));
  const parts = Array.from({ length: ROTATED_PARTS - 1 }, (_, part) =>
    others.filter((_run, i) => i % (ROTATED_PARTS - 1) === part),
  );
  return [held_out, ...parts];
}

/** Served steps kept apart of one agent, at least, before it is taken out for being wrong. */
const AGENT_JUDGED_MIN = 8;

function scopeOf(agent: string): string {
  return agent.split('.')[0]!;
}

/**
 * Scopes of agents whose served steps kept apart were wrong more often than the target: none of their steps is served.
 * Where there is no agent beside them, the gate has the word.
 */
function findFailedScopes(asked: readonly MeasuredStep[], target: number): Set<string> {
  const counts = new Map<string, { served: number; errors: number }>();
  for (const { step, served, wrong } of asked) {
    if (!served) continue;
    const its = counts.get(step.step.scope) ?? { served: 0, errors: 0 };
    counts.set(step.step.scope, its);
    its.served += 1;
    if (wrong) its.errors += 1;
  }
  const failed = [...counts].filter(
    ([, { served, errors }]) => served >= AGENT_JUDGED_MIN && errors / served > target,
  );
  return new Set(failed.length === counts.size ? [] : failed.map(([scope]) => scope));
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
  isFailed: (agent: string) => boolean,
  learned: readonly LearnedStep[],
  measured: ReadonlyMap<string, { steps: number; served: number; errors: number }>,
): NonNullable<StudentManifestDraft['coverage']['agents']> {
  const tools = new Map<string, string[]>();
  for (const [{ step }, agent] of nameAgents(learned))
    if (!tools.has(agent)) tools.set(agent, (step.callable ?? []).slice(0, 5));
  return agents
    .filter(({ agent }) => agent !== '')
    .toSorted((a, b) => b.steps - a.steps)
    .slice(0, MANIFEST_AGENTS)
    .map(({ agent, threshold, evidence, runs, steps, served, errors }) => ({
      agent: agent.slice(0, 100),
      tools: (tools.get(agent) ?? []).map((name) => name.slice(0, 100)),
      threshold: threshold < 0 || isFailed(agent) ? null : threshold,
      evidence: isFailed(agent) ? ('failed' as const) : evidence,
      runs,
      steps,
      served,
      errors,
      measured: measured.get(agent) ?? { steps: 0, served: 0, errors: 0 },
    }));
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
  const agents = new Map<StepDigest, string>();
  for (const [{ step }, agent] of nameAgents(listLearned(teaching))) agents.set(step, agent);
  const scored = answered.flatMap(({ run_id, step, served, wrong }): ScoredStep[] =>
    served
      ? [{ run_id, agent: agents.get(step.step) ?? '', score: scores.get(step)!, is_right: !wrong }]
      : [],
  );
  const calibration = calibrateScores(scored, options.target_error);
  return {
    ...calibration,
    method: `cross-fitted split-conformal selection by agent and run on answers of the service, ${FOLDS} folds, ${answered.length} steps`,
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
    return `it would serve ${served} of ${countOf(steps, 'step')} kept apart; to say how often it is wrong takes ${gate.served_min}`;
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
