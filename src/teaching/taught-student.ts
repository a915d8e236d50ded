/**
 * Makes a student from golden runs: decides which runs teach and which are held out, fits, sets the threshold, measures
 * on the held-out runs, and decides whether the result is good enough to publish. Pure except for the service it asks;
 * command line.
 *
 * The measured student does not know the held-out runs. If its figures allow publishing, a second student is taught all
 * runs in the same way and published, because golden runs are few and the held-out ones are needed for teaching, too.
 * The manifest says which student its figures describe.
 * The measured student is kept beside the published student, so that students of two rounds are compared on runs that
 * neither knows. A student that asks a service is taught only once.
 */

import { createHash } from 'node:crypto';
import { deserialize, serialize } from 'node:v8';
import { countOf } from '../std/count-of.ts';
import type { StudentAnswer } from '../student/model/decision.ts';
import { CONFIDENCE, keepsKindError } from '../student/model/error-bound.ts';
import type { LearnedStep } from '../student/model/learned-step.ts';
import { GOLDEN_RUNS_MIN } from '../student/model/limits.ts';
import {
  MANIFEST_AGENTS,
  MANIFEST_KINDS,
  type StudentKind,
  type StudentManifest,
  type StudentManifestDraft,
  type StudentMeasures,
} from '../student/model/manifest.ts';
import { type MakeStudentIndex, Student } from '../student/model/student.ts';
import type { StudentModel } from '../student/model/student-model.ts';
import { findAgentTitles } from './agent-titles.ts';
import {
  CALIBRATION_FOLDS,
  type Calibration,
  calibrateStudent,
  FINAL_COST,
  keyOfForm,
} from './calibration.ts';
import { type GoldenMaterial, type GoldenRun, type GoldenStep, mainScope } from './golden-steps.ts';
import {
  placeOf,
  type RotatedPart,
  rotateParts,
  type SplitRuns,
  splitForService,
  splitRuns,
} from './held-out.ts';
import { calibrateService, listLearned, type StudentService } from './service-calibration.ts';
import { leaveOutEnded, type SilentChange } from './silent-changes.ts';
import { fitStudent, limitAgents, nameAgents } from './student-fit.ts';
import {
  type AnswerKindMeasure,
  askAbout,
  type MeasuredStep,
  measureByAnswer,
  type StepVerdict,
  summarizeMeasures,
} from './student-measures.ts';

/** Version of the teaching code: raise it when the same runs would give another student. */
const DISTILL_CODE = 'distill-36';

/** Tells why a student cannot be taught: there are fewer golden runs than GOLDEN_RUNS_MIN; null if there are enough. */
export function describeShortage({ taught, golden, runs, looked_at }: GoldenMaterial): string | null {
  const have = taught.length;
  if (have >= GOLDEN_RUNS_MIN) return null;
  const of =
    looked_at === runs ? `of ${countOf(runs, 'run')}` : `of the ${countOf(looked_at, 'run')} examined`;
  const others = golden - have;
  const unfit = others === 0 ? '' : ` and ${others} more without a step that a student could give`;
  const missing = GOLDEN_RUNS_MIN - have;
  return `too few golden runs: ${have}${unfit}, ${of}; a student needs ${GOLDEN_RUNS_MIN}, so ${missing} more ${missing === 1 ? 'is' : 'are'} needed`;
}

/** Checks an answer to a golden step by the rules of live serving. */
export type JudgeFit = (step: GoldenStep, answer: StudentAnswer) => boolean | Promise<boolean>;

interface TeachOptions {
  target_error: number;
  student: StudentKind;
  makeIndex: MakeStudentIndex;
  /** Called during the work with its progress. */
  tell?: TellWork;
  /** Tools whose calls are never served. */
  never_serve?: readonly string[];
  /** How many times as much an error of a final call costs; default FINAL_COST. */
  final_cost?: number;
  /** Whether the gateway would serve this answer to the step's request; absent: every answer is accepted. */
  isFit?: JudgeFit;
  /** The service that answers; only for a student of kind `http`. */
  service?: StudentService;
  /** For kind `http`: share of the runs that is held out; null: HELD_OUT.share, or more if an agent has few runs. */
  held_out?: number | null;
  /**
   * Returns why the measured figures rule out publishing; null: they allow it. If they rule it out, the student is not
   * taught all runs.
   */
  refuse?: (measured: MeasuredFigures) => Promise<string | null>;
}

/** Reports what is being done, and how much is done of how much work; `of` is 0 when the amount is unknown. */
type TellWork = (what: string, done: number, of: number) => void;

/** What is known once a student is measured, before the student to publish is taught. */
export interface MeasuredFigures {
  split: SplitRuns<GoldenRun>;
  steps: readonly MeasuredStep[];
}

/** A student with its figures, ready to be judged and published. */
export interface TaughtStudent {
  /** The student to publish. */
  model: StudentModel;
  /** The measured student; null if it is the published one. */
  measured_model: StudentModel | null;
  /** Below 0 when nothing would be served. */
  threshold: number;
  calibration: Calibration;
  split: SplitRuns<GoldenRun>;
  steps: MeasuredStep[];
  by_answer: AnswerKindMeasure[];
  /** Answers that the upstream stopped giving; steps with them do not teach. */
  changes: SilentChange[];
  draft: StudentManifestDraft;
  /** The reason that `refuse` gave; the student has then learned only from runs that are not held out. null: none. */
  refusal: string | null;
  ended_after: EndedAfter | null;
}

/**
 * The work after which teaching ended, because the student cannot be published: after the calibration, no kind of
 * answer may be served; after the measurement, `refuse` gave a reason, or nothing was served. null: teaching was complete.
 */
export type EndedAfter = 'calibration' | 'measurement';

/**
 * Teaches a student, calibrates it and measures it on held-out runs.
 * @param head the other fields of the manifest
 */
export async function teachStudent(
  material: GoldenMaterial,
  options: TeachOptions,
  head: Pick<StudentManifestDraft, 'made_at' | 'made_by' | 'valid_until'>,
): Promise<TaughtStudent> {
  const tell = options.tell ?? (() => {});
  const { target_error, makeIndex, service } = options;
  const never_serve = options.never_serve ?? [];
  const { final_cost = FINAL_COST } = options;
  const rules = { target_error, makeIndex, never_serve, final_cost, isFit: options.isFit ?? (() => true) };
  const work = new TeachingWork(rotateParts(splitRuns(material.taught)).length, tell);
  if (service === undefined) work.begin(LOOKING_FOR_ENDED);
  else tell(LOOKING_FOR_ENDED, 0, 0);
  const { runs, changes, kept } = findCurrent(material.taught);
  const taught =
    service === undefined
      ? await teachItself(runs, kept, rules, { work, refuse: options.refuse ?? (async () => null) })
      : await teachAsker(runs, { ...rules, tell }, service, options.held_out ?? null);
  const { split, learned, model, calibration, steps, agentOf = findAgents(model, makeIndex) } = taught;
  const ids = material.taught.flatMap(({ first_id, last_id }) => [first_id, last_id]);
  return {
    model,
    measured_model: taught.measured_model,
    threshold: calibration.threshold,
    calibration,
    split,
    steps,
    by_answer: measureByAnswer(steps),
    changes,
    refusal: taught.refusal ?? null,
    ended_after: taught.ended_after ?? null,
    draft: {
      ...head,
      student: options.student,
      coverage: {
        threshold: Math.max(0, calibration.threshold),
        target_error,
        method: calibration.method,
        confidence: CONFIDENCE,
        never_serve: [...never_serve],
        final_cost,
        agents: describeAgents(calibration, learned, countByAgent(steps, agentOf)),
      },
      measured: {
        ...summarizeMeasures(steps),
        ...(taught.service === undefined ? {} : { service: taught.service }),
        ...(taught.of === undefined ? {} : { of: taught.of }),
      },
      golden: {
        runs: material.golden,
        teaching_runs: taught.teaching_runs,
        steps: learned.length,
        held_out_below: split.held_out_below,
        fingerprint: fingerprintMaterial(material, options),
        first_exchange_id: ids.reduce((least, id) => Math.min(least, id), ids[0] ?? 0),
        last_exchange_id: ids.reduce((most, id) => Math.max(most, id), 0),
      },
    },
  };
}

/** A student before it is described. */
interface FoundStudent
  extends Pick<TaughtStudent, 'model' | 'measured_model' | 'calibration' | 'split' | 'steps'> {
  learned: LearnedStep[];
  teaching_runs: number;
  of?: StudentManifestDraft['measured']['of'];
  service?: StudentManifestDraft['measured']['service'];
  refusal?: string | null;
  ended_after?: EndedAfter;
  /** Names a step's agent; absent: the model knows the agents. */
  agentOf?: (step: GoldenStep) => string;
}

interface TeachRules {
  target_error: number;
  makeIndex: MakeStudentIndex;
  never_serve: readonly string[];
  final_cost: number;
  isFit: JudgeFit;
}

/**
 * Leaves out answers that ended. The student of the other steps is needed only at the end of the teaching. Serialized, it
 * takes no room in the bounded heap meanwhile.
 */
function findCurrent(taught: readonly GoldenRun[]) {
  const { runs, changes, model } = leaveOutEnded(taught);
  return { runs, changes, kept: model === null ? null : serialize(model) };
}

/**
 * Teaches and measures a student that gives its own answers, without a service.
 * @param kept the student of all these runs, serialized; null: it must be fitted
 */
async function teachItself(
  taught: readonly GoldenRun[],
  kept: Uint8Array | null,
  rules: TeachRules,
  { work, refuse }: { work: TeachingWork; refuse: NonNullable<TeachOptions['refuse']> },
): Promise<FoundStudent> {
  const split = splitRuns(taught);
  const parts = rotateParts(split);
  work.divide(parts.length, kept !== null);
  work.finishUnit();
  const calibrated = parts.map((part, at) =>
    calibratePart(part, rules, work, parts.length === 1 ? '' : `, ${at + 1} of ${parts.length}`),
  );
  if (calibrated.every(({ calibration }) => calibration.threshold < 0))
    return endUnmeasured({ split, first: calibrated[0]! }, parts, refuse);
  const rounds: MeasuredRound[] = [];
  for (const part of calibrated) rounds.push(await measurePart(part, rules, work));
  const first = rounds[0]!;
  const asked = rounds.flatMap((round) => round.asked);
  const failed = findFailedForms(asked, rules.target_error);
  const steps = leaveFailedOut(asked, failed);
  const measured = limitAgents(first.model, first.calibration.without(failed).agents);
  const found = { split, steps };
  const refusal = await refuse(found);
  if (refusal !== null || !steps.some(({ served }) => served)) {
    const calibration = first.calibration.without(failed);
    const { learned, teaching } = first;
    const ended = {
      measured_model: null,
      teaching_runs: teaching.length,
      ended_after: 'measurement',
    } as const;
    return { ...found, ...ended, model: measured, calibration, learned, refusal };
  }
  const whole = `teaching all of ${countOf(taught.length, 'run')}`;
  work.begin(whole);
  const learned = listLearned(taught);
  const calibration = calibrateStudent(learned, { ...rules, after_fold: work.finishUnit }).without(failed);
  const { gathers } = calibration;
  const isKnown = kept !== null && gathers.size === 0;
  const model = isKnown ? (deserialize(kept) as StudentModel) : fitStudent(learned, { gathers });
  return {
    ...found,
    model: limitAgents(model, calibration.agents),
    measured_model: measured,
    calibration,
    learned,
    teaching_runs: taught.length,
    of: {
      students: rounds.length,
      teaching_runs: first.teaching.length,
      steps: first.learned.length,
      threshold: Math.max(0, first.calibration.threshold),
    },
  };
}

/** Ends the teaching before anything is measured, because none of the parts' calibrations lets a kind be served. */
async function endUnmeasured(
  { split, first }: { split: SplitRuns<GoldenRun>; first: CalibratedPart },
  parts: readonly RotatedPart[],
  refuse: NonNullable<TeachOptions['refuse']>,
): Promise<FoundStudent> {
  const left = { served: false, wrong: false, kind: null, reason: 'unproven' } as const;
  const steps = parts.flatMap(({ held_out }) =>
    held_out.flatMap(({ run_id, steps }) => steps.map((step): MeasuredStep => ({ run_id, step, ...left }))),
  );
  const names = new Map<unknown, string>();
  for (const [{ step }, agent] of nameAgents(listLearned([...split.teaching, ...split.held_out])))
    names.set(step, agent);
  return {
    split,
    steps,
    model: fitStudent([]),
    measured_model: null,
    calibration: first.calibration,
    learned: first.learned,
    teaching_runs: first.part.teaching.length,
    refusal: await refuse({ split, steps }),
    ended_after: 'calibration',
    agentOf: ({ step }) => names.get(step) ?? step.scope,
  };
}

/** Finds the thresholds of the student that is taught the runs of a part. @param of which of the parts it is */
function calibratePart(part: RotatedPart, rules: TeachRules, work: TeachingWork, of: string): CalibratedPart {
  const learned = listLearned(part.teaching);
  work.begin(`calibrating on ${countOf(part.teaching.length, 'run')}${of}`);
  const calibration = calibrateStudent(learned, { ...rules, after_fold: work.finishUnit });
  return { part, learned, calibration, of };
}

/** Teaches a student the runs of a part, and measures it on the runs that the part holds out. */
async function measurePart(
  { part: { teaching, held_out }, learned, calibration, of }: CalibratedPart,
  rules: TeachRules,
  work: TeachingWork,
): Promise<MeasuredRound> {
  work.begin(`fitting ${countOf(learned.length, 'step')}${of}`);
  const model = limitAgents(fitStudent(learned, { gathers: calibration.gathers }), calibration.agents);
  work.finishUnit();
  work.begin(`measuring on ${countOf(held_out.length, 'run')}${of}`);
  const student = new Student(model, rules.makeIndex);
  const { threshold } = calibration;
  const asked = await askAbout(held_out, (step) => decide(student, step, threshold, rules.isFit));
  work.finishUnit();
  return { teaching, learned, calibration, model, asked };
}

/** What the teaching does first. */
const LOOKING_FOR_ENDED = 'looking for answers that ended';

/** Units of work of a part, each about as long as one fit: the folds of a calibration, the fit, the measurement. */
const PART_UNITS = CALIBRATION_FOLDS + 2;

/** How much of the teaching is done. The first unit is the search for answers that ended. */
class TeachingWork {
  readonly #tell: TellWork;
  #units = 0;
  #done = 0;
  #what = '';

  constructor(parts: number, tell: TellWork) {
    this.#tell = tell;
    this.divide(parts, true);
  }

  /** @param isFitted whether the student of all runs is known, so that only its calibration is left */
  divide(parts: number, isFitted: boolean): void {
    this.#units = 1 + parts * PART_UNITS + CALIBRATION_FOLDS + (isFitted ? 0 : 1);
  }

  begin(what: string): void {
    this.#what = what;
    this.#tell(what, this.#done, this.#units);
  }

  readonly finishUnit = (): void => {
    this.#done += 1;
    this.#tell(this.#what, this.#done, this.#units);
  };
}

/**
 * Teaches a student that asks a service.
 * @param heldOut share of the runs that is held out; null: HELD_OUT.share, or more if an agent has few runs
 */
async function teachAsker(
  taught: readonly GoldenRun[],
  rules: TeachRules & { tell: TellWork },
  service: StudentService,
  heldOut: number | null,
): Promise<FoundStudent> {
  const split = splitForService(taught, mainScope, heldOut);
  const found = await calibrateService(split, service, rules);
  const failed = findFailedForms(found.steps, rules.target_error);
  const calibration = dropKinds(found.calibration, failed);
  return {
    split,
    model: found.limit(calibration),
    measured_model: null,
    calibration,
    learned: listLearned(taught),
    teaching_runs: taught.length,
    steps: leaveFailedOut(found.steps, failed),
    service: found.service,
  };
}

/** The results as they would be if answers of failed forms had not been served. */
function leaveFailedOut(asked: readonly MeasuredStep[], failed: ReadonlySet<string>): MeasuredStep[] {
  return asked.map((step) =>
    listForms(step).some((form) => failed.has(keyOfForm(step.step.step.scope, form)))
      ? { ...step, served: false, wrong: false, kind: null, reason: 'unproven' as const }
      : step,
  );
}

/** Names of a served answer's form, the narrowest last. */
function listForms({ kind, forms }: MeasuredStep): readonly string[] {
  return kind === null ? [] : (forms ?? [kind]);
}

/** The runs of a part, and the thresholds of the student that is taught them. */
interface CalibratedPart {
  part: RotatedPart;
  learned: LearnedStep[];
  calibration: ReturnType<typeof calibrateStudent>;
  /** Which of the parts this is, for the progress; '' if it is the only one. */
  of: string;
}

/** A student that does not know some runs, and its results on them. */
interface MeasuredRound {
  teaching: GoldenRun[];
  learned: LearnedStep[];
  calibration: ReturnType<typeof calibrateStudent>;
  model: StudentModel;
  asked: MeasuredStep[];
}

/**
 * Finds forms of answers, by scope, whose error rate on held-out runs is probably above the target: their steps are not
 * served. The narrowest forms are judged first. A kind is then judged without the answers of forms that failed, so that
 * one form does not rule out its kind. A kind also fails if most of all its served answers are wrong.
 */
function findFailedForms(asked: readonly MeasuredStep[], target: number): Set<string> {
  const served = asked.filter(({ kind }) => kind !== null);
  const narrow = findFailed(served, (step) => listForms(step).at(-1)!, target);
  const others = served.filter(
    (step) => !narrow.has(keyOfForm(step.step.step.scope, listForms(step).at(-1)!)),
  );
  const mostly = findFailed(served, ({ kind }) => kind!, Math.max(target, MOSTLY_WRONG));
  return new Set([...narrow, ...mostly, ...findFailed(others, ({ kind }) => kind!, target)]);
}

const MOSTLY_WRONG = 0.5;

function findFailed(
  served: readonly MeasuredStep[],
  formOf: (step: MeasuredStep) => string,
  target: number,
): Set<string> {
  const counts = new Map<string, { served: number; errors: number }>();
  for (const measured of served) {
    const key = keyOfForm(measured.step.step.scope, formOf(measured));
    const count = counts.get(key) ?? { served: 0, errors: 0 };
    counts.set(key, count);
    count.served += 1;
    if (measured.wrong) count.errors += 1;
  }
  const failed = [...counts].filter(
    ([, { served, errors }]) => errors > 0 && !keepsKindError(errors, served, 0.5, target),
  );
  return new Set(failed.map(([key]) => key));
}

/** The thresholds without those of kinds that have failed. */
function dropKinds(calibration: Calibration, failed: ReadonlySet<string>): Calibration {
  const agents = calibration.agents.map((agent) => {
    const kinds = agent.kinds.map((kind) =>
      kind.refused === null && failed.has(keyOfForm(agent.agent, kind.kind))
        ? { ...kind, threshold: -1, refused: 'too_wrong' as const }
        : kind,
    );
    return { ...agent, kinds, threshold: Math.max(-1, ...kinds.map(({ threshold }) => threshold)) };
  });
  return { ...calibration, agents, threshold: Math.max(-1, ...agents.map(({ threshold }) => threshold)) };
}

/** Returns a function that names a step's agent as the model does. */
function findAgents(model: StudentModel, makeIndex: MakeStudentIndex): (step: GoldenStep) => string {
  const student = new Student(model, makeIndex);
  return ({ step }) => student.propose(step).agent;
}

function countByAgent(
  asked: readonly MeasuredStep[],
  agentOf: (step: GoldenStep) => string,
): Map<string, { steps: number; served: number; errors: number }> {
  const counts = new Map<string, { steps: number; served: number; errors: number }>();
  for (const { step, served, wrong } of asked) {
    const agent = agentOf(step);
    const count = counts.get(agent) ?? { steps: 0, served: 0, errors: 0 };
    counts.set(agent, count);
    count.steps += 1;
    if (served) count.served += 1;
    if (wrong) count.errors += 1;
  }
  return counts;
}

function titleOf(title: string | undefined): { title?: string } {
  return title === undefined ? {} : { title };
}

function originOf(origin: string | undefined): { origin?: string } {
  return origin === undefined ? {} : { origin };
}

function describeAgents(
  { agents }: Calibration,
  learned: readonly LearnedStep[],
  measured: ReadonlyMap<string, { steps: number; served: number; errors: number }>,
): NonNullable<StudentManifestDraft['coverage']['agents']> {
  const first = new Map<string, LearnedStep['step']>();
  const named = nameAgents(learned);
  const titles = findAgentTitles(named);
  for (const [{ step }, agent] of named) if (!first.has(agent)) first.set(agent, step);
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
        ...titleOf(titles.get(agent)),
        tools: (first.get(agent)?.callable ?? []).slice(0, 5).map((name) => name.slice(0, 100)),
        ...originOf(first.get(agent)?.origin),
        threshold: threshold < 0 ? null : threshold,
        evidence:
          threshold < 0 && kinds.some(({ refused }) => refused === 'too_wrong')
            ? ('failed' as const)
            : ('own' as const),
        kinds: told.map((kind) => ({
          ...kind,
          threshold: kind.threshold < 0 ? null : kind.threshold,
        })),
        runs,
        steps,
        served,
        errors,
        measured: measured.get(agent) ?? { steps: 0, served: 0, errors: 0 },
      };
    });
}

async function decide(
  student: Student,
  golden: GoldenStep,
  threshold: number,
  isFit: JudgeFit,
): Promise<StepVerdict> {
  const decision = student.decide(golden.step, threshold);
  if (!decision.covered) return { covered: false, reason: decision.reason };
  const { answer, form, forms, agrees } = decision;
  // As in the gateway, an answer that breaks a rule of the request goes to the upstream.
  if (answer !== null && !(await isFit(golden, answer))) return { covered: false, reason: 'invalid' };
  const found = { covered: true, answer } as const;
  return agrees === undefined || form === undefined || forms === undefined
    ? found
    : { ...found, form, forms, agrees };
}

/**
 * Makes a fingerprint of the golden runs (ids, marks and numbers of steps), the options and the version of the teaching
 * code. If two fingerprints are equal, the same student would result.
 */
export function fingerprintMaterial(
  { taught }: GoldenMaterial,
  {
    target_error,
    student,
    never_serve,
    final_cost,
    held_out,
  }: Pick<TeachOptions, 'target_error' | 'student' | 'never_serve' | 'final_cost' | 'held_out'>,
): string {
  const hash = createHash('sha256').update(
    JSON.stringify([
      DISTILL_CODE,
      target_error,
      student,
      never_serve ?? [],
      held_out ?? null,
      final_cost ?? FINAL_COST,
    ]),
  );
  for (const { run_id, mark, steps } of taught) hash.update(JSON.stringify([run_id, mark, steps.length]));
  return hash.digest('base64url');
}

/** The figures that a student must reach on held-out steps to be published. */
export interface Gate {
  target_error: number;
  served_min: number;
  /**
   * Whether gateways leave a run to the upstream once the upstream has served a step of it. Then the steps of a run
   * before its first step that the upstream serves are also judged separately.
   */
  sticky: boolean;
}

/**
 * Decides whether a student is good enough.
 * @returns why the student is not good enough to be published; null if the student is good enough
 */
export function judgeStudent({ threshold, draft }: TaughtStudent, gate: Gate): string | null {
  if (threshold < 0) return describeNothing(gate);
  if (draft.measured.served > 0 && draft.coverage.agents?.every((agent) => agent.threshold === null) === true)
    return 'it would serve nothing: every agent is left to the upstream';
  return judgeMeasures(draft.measured, gate);
}

function describeNothing(gate: Gate): string {
  return `it would serve nothing: no threshold keeps the error under ${percent(gate.target_error)} on the runs at hand`;
}

/**
 * Decides whether a student's figures are good enough.
 * @returns why a student with these figures is not published; null if the figures allow publication
 */
export function judgeMeasures(measured: StudentMeasures, gate: Gate): string | null {
  const { served, errors, error, in_a_row: row, steps } = measured;
  const target = percent(gate.target_error);
  if (served === 0) return describeNothing(gate);
  if (served < gate.served_min) {
    return `it would serve ${served} of ${countOf(steps, 'step')} held out; measuring its error rate needs ${gate.served_min}`;
  }
  if (error !== null && error > gate.target_error)
    return `${errors} of ${served} served steps held out are wrong (${percent(error)}), more than ${target}`;
  if (gate.sticky && row.served > 0 && row.errors / row.served > gate.target_error) {
    return `${row.errors} of the ${row.served} steps served in a row from the beginning of a run are wrong (${percent(row.errors / row.served)}), more than ${target}`;
  }
  return null;
}

/** The results of two students on the same steps, which neither student was taught. */
export interface Comparison {
  steps: number;
  published_right: number;
  published_errors: number;
  published_served: number;
  new_right: number;
}

/**
 * The new student counts as worse if it serves fewer steps correctly, by more than this share of the compared
 * steps.
 */
const WORSE_SHARE = 0.02;

/**
 * Tests the published version's measured student on the steps on which the new student was measured, if both students
 * had these steps held out.
 * @returns null when there is nothing to compare: the published student asks a service, or there is no such step
 */
export async function compareStudents(
  taught: MeasuredFigures,
  published: { manifest: StudentManifest; model: StudentModel },
  makeIndex: MakeStudentIndex,
  isFit: JudgeFit,
): Promise<Comparison | null> {
  const { manifest, model } = published;
  if (manifest.student.kind !== 'exemplar') return null;
  const isKeptApart = (runId: string): boolean => placeOf(runId) < manifest.golden.held_out_below;
  const student = new Student(model, makeIndex);
  const runs = taught.split.held_out.filter(({ run_id }) => isKeptApart(run_id));
  const threshold = manifest.measured.of?.threshold ?? manifest.coverage.threshold;
  const before = await askAbout(runs, (step) => decide(student, step, threshold, isFit));
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
 * Decides whether the published student stays. The new student is worse if it serves fewer of the same steps correctly,
 * by more than WORSE_SHARE of the steps, and the published student keeps the target on them. A published student that
 * no longer keeps the target is replaced by any student that passes the gate.
 * @returns why the published student stays; null when the new student is not worse
 */
export function judgeComparison(comparison: Comparison | null, gate: Gate): string | null {
  if (comparison === null) return null;
  const { steps, published_right, published_errors, published_served, new_right } = comparison;
  if (published_served > 0 && published_errors / published_served > gate.target_error) return null;
  if (published_right - new_right <= WORSE_SHARE * steps) return null;
  return `it serves ${new_right} of ${countOf(steps, 'step')} correctly, where the published one serves ${published_right}`;
}

/** `5 %`, `3.3 %`. */
export function percent(share: number): string {
  return `${Number((100 * share).toFixed(1))} %`;
}
