/**
 * What the service behind a student of kind `http` may answer: it is asked about golden steps of runs kept apart, and for each
 * agent and kind of its answers the same bound holds as for the student's own (calibration.ts). Whether golden steps agree on
 * an answer does not matter. Pure but for what it asks; command line.
 *
 * Every run kept apart is asked about once, since that costs money. The thresholds that are published come from all of them.
 * The figures come from thresholds that do not know the run: the runs are cut into parts, and each part is judged by what the
 * others say. The score of a step, how unlike golden steps it is, comes from a student that does not know its run either.
 */

import { SERVICE_ASKED_AT_ONCE, SERVICE_STEPS_ASKED } from '../limits.ts';
import { answersAgree } from '../student/model/agreement.ts';
import {
  type Calibration,
  calibrateScores,
  findFinalKinds,
  type ScoredStep,
} from '../student/model/calibration.ts';
import type { StudentAnswer, UncoveredReason } from '../student/model/decision.ts';
import type { ServiceMeasures } from '../student/model/manifest.ts';
import { findSaid, limitByService } from '../student/model/service-evidence.ts';
import { type MakeStudentIndex, Student } from '../student/model/student.ts';
import { fitStudent, type LearnedStep, nameAgents } from '../student/model/student-fit.ts';
import type { ServiceEvidence, StudentModel } from '../student/model/student-model.ts';
import { type GoldenRun, type GoldenStep, mainScope } from './golden-steps.ts';
import { placeOf, type SplitRuns } from './held-out.ts';
import { askAbout, type MeasuredStep } from './student-measures.ts';

/** A model that can be asked for the answer to a golden step. */
export interface StudentService {
  /** How many of its answers must agree, and whether the student's own must, too. */
  readonly consistency: Consistency;
  /** Steps that it could not be told as they were meant, by what could not. */
  readonly untold: Readonly<Record<string, number>>;
  /**
   * Asks as often as must agree.
   * @param said hashes of words that golden answers of this agent had
   * @returns an answer each; null for one that failed, or that may not be served. None where it cannot be asked
   */
  answer(step: GoldenStep, said: ReadonlySet<number>): Promise<(ServiceAnswer | null)[]>;
}

export interface ServiceAnswer {
  answer: StudentAnswer;
  /** As `kindOfServiceAnswer` names it. */
  kind: string;
}

export interface Consistency {
  answers: number;
  with_exemplar: boolean;
}

export interface ServiceOptions {
  target_error: number;
  never_serve: readonly string[];
  makeIndex: MakeStudentIndex;
  tell: (what: string) => void;
}

/** What was found of a service. */
export interface CalibratedService {
  calibration: Calibration;
  /** The student that asks it, as far as a calibration goes. */
  limit(calibration: Calibration): StudentModel;
  /** Every step that it was, or would have been, asked about. */
  steps: MeasuredStep[];
  /** What asking cost, and what agreement gained. */
  service: ServiceMeasures;
}

/** Parts that the runs kept apart are cut into. */
const FOLDS = 5;

/** A service may answer where nothing is learnt. */
const FIT = { keeps_unexplained: true } as const;

/** A step that the service was asked about. */
interface AskedStep {
  run_id: string;
  fold: number;
  step: GoldenStep;
  agent: string;
  /** null: it is not asked about such a step. */
  score: number | null;
  reason: UncoveredReason;
  /** What the student would say itself. */
  own: StudentAnswer | null;
  answers: (ServiceAnswer | null)[];
}

/** Asks, sets the thresholds and measures. */
export async function calibrateService(
  { teaching, held_out }: SplitRuns<GoldenRun>,
  service: StudentService,
  options: ServiceOptions,
): Promise<CalibratedService> {
  const { tell } = options;
  const asked = takeRuns(held_out);
  const all = [...teaching, ...held_out];
  const learned = listLearned(all);
  tell('fitting what the service is not asked about');
  const fitted = fitStudent(learned, FIT);
  const whole = new Student(fitted, options.makeIndex);
  const said = saidByAgent(learned);
  const steps = new Map<GoldenStep, AskedStep>();
  for (let fold = 0; fold < FOLDS; fold++) {
    const its = asked.filter((_run, at) => at % FOLDS === fold);
    if (its.length === 0) continue;
    const apart = new Set(its);
    const others = new Student(
      fitStudent(listLearned(all.filter((run) => !apart.has(run))), FIT),
      options.makeIndex,
    );
    for (const { run_id, steps: own } of its)
      for (const step of own) {
        const { score, reason } = others.assess(step.step);
        const agent = whole.knownAgent(step.step)?.name ?? '';
        const answer = service.consistency.with_exemplar ? others.propose(step.step).answer : null;
        steps.set(step, { run_id, fold, step, agent, score, reason, own: answer, answers: [] });
      }
  }
  const told = (done: number, of: number): void => tell(`asking the model: step ${done} of ${of}`);
  await askAbout(
    asked,
    async (step) => {
      const it = steps.get(step)!;
      // Also where the student itself has no answer to agree with: to know what that costs.
      if (it.score !== null && it.agent !== '')
        it.answers = await service.answer(step, said.get(it.agent) ?? new Set());
      return { covered: false, reason: 'invalid' };
    },
    SERVICE_ASKED_AT_ONCE,
    told,
  );
  const list = asked.flatMap((run) => run.steps.map((step) => steps.get(step)!));
  const rules = { never_serve: options.never_serve, final: findFinalKinds(learned), score_max: 1 };
  const judge = (choose: Choose): Judged => judgeAnswers(list, choose, options.target_error, rules);
  const agreed = judge((one) => chooseAgreed(one, service.consistency));
  const isPlain = service.consistency.answers === 1 && !service.consistency.with_exemplar;
  const single = isPlain ? null : judge((one) => one.answers[0] ?? null);
  const answers = list.flatMap((one) => one.answers);
  return {
    limit: (calibration) => limitByService(fitted, collectEvidence(calibration, agreed.scored, said)),
    calibration: {
      ...agreed.calibration,
      method: `bound by agent, kind of answer and run on answers of the service to ${list.length} steps of runs kept apart`,
      runs: asked.length,
    },
    steps: agreed.measured,
    service: {
      asked: list.filter((one) => one.answers.length > 0).length,
      requests: answers.length,
      failed: answers.filter((one) => one === null).length,
      untold: service.untold,
      disagreed: list.filter(
        (one) => one.answers[0] != null && chooseAgreed(one, service.consistency) === null,
      ).length,
      input_tokens: sum(answers, ({ input_tokens }) => input_tokens),
      output_tokens: sum(answers, ({ output_tokens }) => output_tokens),
      ...(single === null ? {} : { single: countServed(single.measured) }),
    },
  };
}

/** Which answer to a step would be served, if its kind is. */
type Choose = (one: AskedStep) => ServiceAnswer | null;

/** The first, where all of them agree. */
function chooseAgreed({ answers, own }: AskedStep, { with_exemplar }: Consistency): ServiceAnswer | null {
  const first = answers[0] ?? null;
  if (first === null) return null;
  if (answers.some((other) => other === null || !answersAgree(first.answer, other.answer))) return null;
  if (with_exemplar && (own === null || !answersAgree(first.answer, own))) return null;
  return first;
}

interface Judged {
  calibration: ReturnType<typeof calibrateScores>;
  measured: MeasuredStep[];
  scored: (ScoredStep & { stage: string })[];
}

type Rules = NonNullable<Parameters<typeof calibrateScores>[2]>;

function judgeAnswers(list: readonly AskedStep[], choose: Choose, target: number, rules: Rules): Judged {
  const scored = list.map((one) => scoreAnswer(one, choose(one)));
  const parts = Array.from({ length: FOLDS }, (_, fold) =>
    limitsOf(
      calibrateScores(
        scored.filter((_one, at) => list[at]!.fold !== fold),
        target,
        rules,
      ),
      scored.filter((_one, at) => list[at]!.fold !== fold),
    ),
  );
  const measured = list.map((one, at): MeasuredStep => {
    const { score, kind, is_right } = scored[at]!;
    const left = { run_id: one.run_id, step: one.step, served: false, wrong: false, kind: null };
    if (score === null) return { ...left, reason: one.score === null ? one.reason : 'invalid' };
    const limit = parts[one.fold]!.get(keyOf(one.agent, kind!)) ?? -1;
    if (limit < 0) return { ...left, reason: 'unproven' };
    if (score > limit) return { ...left, reason: 'too_far' };
    return { ...left, served: true, wrong: !is_right, kind: kind!, reason: null };
  });
  return { calibration: trimThresholds(calibrateScores(scored, target, rules), scored), measured, scored };
}

function scoreAnswer(one: AskedStep, chosen: ServiceAnswer | null): ScoredStep & { stage: string } {
  const { run_id, agent, step } = one;
  const its = { run_id, agent, stage: step.step.stage };
  if (chosen === null || one.score === null) return { ...its, score: null, is_right: false };
  const is_right = step.answer !== null && answersAgree(step.answer, chosen.answer);
  return { ...its, kind: chosen.kind, score: one.score, is_right };
}

function keyOf(agent: string, kind: string): string {
  return `${agent} ${kind}`;
}

/** No step that is stranger than all that a kind was tried on is served. */
function trimThresholds(
  calibration: ReturnType<typeof calibrateScores>,
  scored: readonly ScoredStep[],
): ReturnType<typeof calibrateScores> {
  const strangest = new Map<string, number>();
  for (const { agent = '', kind = '', score } of scored)
    if (score !== null)
      strangest.set(keyOf(agent, kind), Math.max(score, strangest.get(keyOf(agent, kind)) ?? 0));
  const agents = calibration.agents.map((its) => {
    const kinds = its.kinds.map((one) => ({
      ...one,
      threshold: Math.min(one.threshold, strangest.get(keyOf(its.agent, one.kind)) ?? -1),
    }));
    return { ...its, kinds, threshold: Math.max(-1, ...kinds.map(({ threshold }) => threshold)) };
  });
  return { ...calibration, agents, threshold: Math.max(-1, ...agents.map(({ threshold }) => threshold)) };
}

function limitsOf(
  calibration: ReturnType<typeof calibrateScores>,
  scored: readonly ScoredStep[],
): Map<string, number> {
  return new Map(
    trimThresholds(calibration, scored).agents.flatMap(({ agent, kinds }) =>
      kinds.map(({ kind, threshold }) => [keyOf(agent, kind), threshold] as const),
    ),
  );
}

/** Moments at which no answer would be served are not worth a question. */
function collectEvidence(
  calibration: Calibration,
  scored: Judged['scored'],
  said: ReadonlyMap<string, ReadonlySet<number>>,
): Map<string, ServiceEvidence> {
  const evidence = new Map<string, ServiceEvidence>();
  for (const { agent, kinds } of calibration.agents) {
    const served = new Map(
      kinds.flatMap(({ kind, threshold }) => (threshold < 0 ? [] : [[kind, threshold] as const])),
    );
    const stages = scored.flatMap((one) =>
      one.agent === agent && one.score !== null && one.score <= (served.get(one.kind!) ?? -1)
        ? [one.stage]
        : [],
    );
    evidence.set(agent, {
      kinds: [...served],
      stages: [...new Set(stages)],
      said: [...(said.get(agent) ?? [])],
    });
  }
  return evidence;
}

function saidByAgent(learned: readonly LearnedStep[]): Map<string, Set<number>> {
  const byAgent = new Map<string, LearnedStep[]>();
  for (const [step, agent] of nameAgents(learned)) {
    const its = byAgent.get(agent);
    if (its === undefined) byAgent.set(agent, [step]);
    else its.push(step);
  }
  return new Map([...byAgent].map(([agent, its]) => [agent, new Set(findSaid(its))]));
}

/** Whole runs, of each agent in turns and by the hash of their id, until SERVICE_STEPS_ASKED steps are there. */
function takeRuns(runs: readonly GoldenRun[]): GoldenRun[] {
  const queues = new Map<string, GoldenRun[]>();
  for (const run of runs.toSorted((a, b) => placeOf(a.run_id) - placeOf(b.run_id))) {
    const agent = mainScope(run);
    const its = queues.get(agent);
    if (its === undefined) queues.set(agent, [run]);
    else its.push(run);
  }
  const taken: GoldenRun[] = [];
  let steps = 0;
  for (let at = 0; steps < SERVICE_STEPS_ASKED; at++) {
    const next = [...queues.values()].flatMap((queue) => queue[at] ?? []);
    if (next.length === 0) break;
    for (const run of next) {
      if (steps >= SERVICE_STEPS_ASKED) break;
      taken.push(run);
      steps += run.steps.length;
    }
  }
  return taken;
}

/** The oldest first: where there are too many, the student takes the last. */
export function listLearned(runs: readonly GoldenRun[]): LearnedStep[] {
  return runs
    .toReversed()
    .flatMap(({ run_id, steps }) =>
      steps.flatMap(({ step, answer, exchange_id }) =>
        answer === null ? [] : [{ run_id, step, answer, exchange_id }],
      ),
    );
}

function sum(answers: readonly (ServiceAnswer | null)[], of: (answer: StudentAnswer) => number): number {
  return answers.reduce((total, one) => total + (one === null ? 0 : of(one.answer)), 0);
}

function countServed(measured: readonly MeasuredStep[]): { served: number; errors: number } {
  return {
    served: measured.filter(({ served }) => served).length,
    errors: measured.filter(({ wrong }) => wrong).length,
  };
}
