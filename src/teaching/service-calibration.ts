/**
 * Finds what the service behind a student of kind `http` may answer. It asks the service about golden steps of held-out
 * runs. For each agent and kind of answer, the same bound holds as for the student's own answers (calibration.ts).
 * Golden steps need not agree on an answer. Pure except for its service; command line.
 *
 * Requests cost money. So about SERVICE_STEPS_ASKED steps are asked about at most, and all figures come from the same
 * answers. The published thresholds come from all runs that were asked about. The figures come from thresholds that do
 * not know the run: the runs are divided into parts, and each part is judged with thresholds from the other parts. A
 * step's score says how unlike golden steps the step is. The score, too, comes from a student that does not know the
 * step's run.
 */

import { answersAgree } from '../student/model/agreement.ts';
import type { StudentAnswer, UncoveredReason } from '../student/model/decision.ts';
import type { LearnedStep } from '../student/model/learned-step.ts';
import type { ServiceMeasures } from '../student/model/manifest.ts';
import { findSaid, limitByService } from '../student/model/service-evidence.ts';
import { type MakeStudentIndex, Student } from '../student/model/student.ts';
import type { ServiceEvidence, StudentModel } from '../student/model/student-model.ts';
import {
  type Calibration,
  calibrateScores,
  FINAL_COST,
  findFinalKinds,
  type ScoredStep,
} from './calibration.ts';
import { type GoldenRun, type GoldenStep, mainScope } from './golden-steps.ts';
import { placeOf, type SplitRuns } from './held-out.ts';
import { fitStudent, nameAgents } from './student-fit.ts';
import { askAbout, type MeasuredStep } from './student-measures.ts';

/**
 * Number of steps of held-out golden runs, of all agents together, after which no further run is asked about; and
 * maximum number of steps that are asked about at the same time.
 */
const SERVICE_STEPS_ASKED = 1_000;
const SERVICE_ASKED_AT_ONCE = 4;

/** A model that can be asked for the answer to a golden step. */
export interface StudentService {
  /** How many of the service's answers must agree, and whether the student's answer must agree, too. */
  readonly consistency: Consistency;
  /** Number of steps that could not be translated for the service, by the reason. */
  readonly untold: Readonly<Record<string, number>>;
  /**
   * Asks the service as many times as answers must agree.
   * @param said hashes of words in this agent's golden answers
   * @returns one entry for each request: null if the request failed or its answer may not be served. Empty if the step's
   *   request cannot be read, or cannot be translated for the service
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

interface ServiceOptions {
  target_error: number;
  never_serve: readonly string[];
  final_cost?: number;
  makeIndex: MakeStudentIndex;
  /** Reports progress. @param of 0 when the amount of work is unknown */
  tell: (what: string, done: number, of: number) => void;
}

/** The result of calibrating a service. */
interface CalibratedService {
  calibration: Calibration;
  /** The student that asks the service, limited by the calibration. */
  limit(calibration: Calibration): StudentModel;
  /** All steps of the chosen runs, including steps about which the service was not asked. */
  steps: MeasuredStep[];
  /** The cost of asking, and what is gained by requiring agreement. */
  service: ServiceMeasures;
}

/** Number of parts of the held-out runs. */
const FOLDS = 5;

/** A service may answer at stages where the student has learned nothing. */
const FIT = { keeps_unexplained: true } as const;

/** A step of a run that was chosen for asking the service. */
interface AskedStep {
  run_id: string;
  fold: number;
  step: GoldenStep;
  agent: string;
  /** null if the step has no score; the service is then not asked about it. */
  score: number | null;
  reason: UncoveredReason;
  /** The student's own answer. */
  own: StudentAnswer | null;
  answers: (ServiceAnswer | null)[];
}

/** Asks the service, sets the thresholds, and measures the result. */
export async function calibrateService(
  { teaching, held_out }: SplitRuns<GoldenRun>,
  service: StudentService,
  options: ServiceOptions,
): Promise<CalibratedService> {
  const { tell } = options;
  const asked = takeRuns(held_out);
  const all = [...teaching, ...held_out];
  const learned = listLearned(all);
  tell('fitting steps without the service', 0, 0);
  const fitted = fitStudent(learned, FIT);
  const whole = new Student(fitted, options.makeIndex);
  const said = saidByAgent(learned);
  const steps = scoreAsked(asked, all, whole, service.consistency, options.makeIndex);
  await askAbout(
    asked,
    async (step) => {
      const place = steps.get(step)!;
      // Ask even if the student has no answer that must agree, to measure what this condition costs.
      if (place.score !== null && place.agent !== '')
        place.answers = await service.answer(step, said.get(place.agent) ?? new Set());
      return { covered: false, reason: 'invalid' };
    },
    SERVICE_ASKED_AT_ONCE,
    (done, of) => tell(`asking the model: step ${done} of ${of}`, done, of),
  );
  const list = asked.flatMap((run) => run.steps.map((step) => steps.get(step)!));
  const { never_serve, final_cost = FINAL_COST } = options;
  const rules = { never_serve, final_cost, final: findFinalKinds(learned), score_max: 1 };
  const judge = (choose: Choose): Judged => judgeAnswers(list, choose, options.target_error, rules);
  const agreed = judge((asked) => chooseAgreed(asked, service.consistency));
  const isPlain = service.consistency.answers === 1 && !service.consistency.with_exemplar;
  const single = isPlain ? null : judge((asked) => asked.answers[0] ?? null);
  const answers = list.flatMap((asked) => asked.answers);
  return {
    limit: (calibration) => limitByService(fitted, collectEvidence(calibration, agreed.scored, said)),
    calibration: {
      ...agreed.calibration,
      gathers: new Set<string>(),
      method: `bound by agent, kind of answer and run on answers of the service to ${list.length} steps of runs held out`,
      runs: asked.length,
    },
    steps: agreed.measured,
    service: {
      asked: list.filter((asked) => asked.answers.length > 0).length,
      requests: answers.length,
      failed: answers.filter((answer) => answer === null).length,
      untold: service.untold,
      disagreed: list.filter(
        (asked) => asked.answers[0] != null && chooseAgreed(asked, service.consistency) === null,
      ).length,
      input_tokens: sum(answers, ({ input_tokens }) => input_tokens),
      output_tokens: sum(answers, ({ output_tokens }) => output_tokens),
      ...(single === null ? {} : { single: countServed(single.measured) }),
    },
  };
}

/** The steps of the asked runs, each with its score from a student that does not know its run. */
function scoreAsked(
  asked: readonly GoldenRun[],
  all: readonly GoldenRun[],
  whole: Student,
  { with_exemplar }: Consistency,
  makeIndex: ServiceOptions['makeIndex'],
): Map<GoldenStep, AskedStep> {
  const scored = new Map<GoldenStep, AskedStep>();
  for (let fold = 0; fold < FOLDS; fold++) {
    const part = asked.filter((_run, at) => at % FOLDS === fold);
    if (part.length === 0) continue;
    const apart = new Set(part);
    const others = new Student(fitStudent(listLearned(all.filter((run) => !apart.has(run))), FIT), makeIndex);
    for (const { run_id, steps } of part)
      for (const step of steps) {
        const { score, reason } = others.assess(step.step);
        const agent = whole.knownAgent(step.step)?.name ?? '';
        const own = with_exemplar ? others.propose(step.step).answer : null;
        scored.set(step, { run_id, fold, step, agent, score, reason, own, answers: [] });
      }
  }
  return scored;
}

/** Chooses the answer to a step that would be served if answers of its kind are served. */
type Choose = (asked: AskedStep) => ServiceAnswer | null;

/** The first answer; null without an answer, or if an answer that must agree does not. */
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
  const scored = list.map((asked) => scoreAnswer(asked, choose(asked)));
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
  const measured = list.map((asked, at): MeasuredStep => {
    const { score, kind, is_right } = scored[at]!;
    const left = { run_id: asked.run_id, step: asked.step, served: false, wrong: false, kind: null };
    if (score === null) return { ...left, reason: asked.score === null ? asked.reason : 'invalid' };
    const limit = parts[asked.fold]!.get(keyOf(asked.agent, kind!)) ?? -1;
    if (limit < 0) return { ...left, reason: 'unproven' };
    if (score > limit) return { ...left, reason: 'too_far' };
    return { ...left, served: true, wrong: !is_right, kind: kind!, reason: null };
  });
  return { calibration: trimThresholds(calibrateScores(scored, target, rules), scored), measured, scored };
}

function scoreAnswer(asked: AskedStep, chosen: ServiceAnswer | null): ScoredStep & { stage: string } {
  const { run_id, agent, step } = asked;
  const place = { run_id, agent, stage: step.step.stage };
  if (chosen === null || asked.score === null) return { ...place, score: null, is_right: false };
  const is_right = step.answer !== null && answersAgree(step.answer, chosen.answer);
  return { ...place, kind: chosen.kind, score: asked.score, is_right };
}

function keyOf(agent: string, kind: string): string {
  return `${agent} ${kind}`;
}

/** Limits a kind to steps that are at most as unusual as the most unusual step on which it was tried. */
function trimThresholds(
  calibration: ReturnType<typeof calibrateScores>,
  scored: readonly ScoredStep[],
): ReturnType<typeof calibrateScores> {
  const strangest = new Map<string, number>();
  for (const { agent = '', kind = '', score } of scored)
    if (score !== null)
      strangest.set(keyOf(agent, kind), Math.max(score, strangest.get(keyOf(agent, kind)) ?? 0));
  const agents = calibration.agents.map((agent) => {
    const kinds = agent.kinds.map((kind) => ({
      ...kind,
      threshold: Math.min(kind.threshold, strangest.get(keyOf(agent.agent, kind.kind)) ?? -1),
    }));
    return { ...agent, kinds, threshold: Math.max(-1, ...kinds.map(({ threshold }) => threshold)) };
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

/**
 * Collects the evidence for the model. Stages at which no answer would be served are left out, because asking would be
 * useless.
 */
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
    const stages = scored.flatMap((step) =>
      step.agent === agent && step.score !== null && step.score <= (served.get(step.kind!) ?? -1)
        ? [step.stage]
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
    const ofAgent = byAgent.get(agent);
    if (ofAgent === undefined) byAgent.set(agent, [step]);
    else ofAgent.push(step);
  }
  return new Map([...byAgent].map(([agent, ofAgent]) => [agent, new Set(findSaid(ofAgent))]));
}

/**
 * Takes whole runs, alternating between agents and in the order of their ids' hashes, until they have at least
 * SERVICE_STEPS_ASKED steps.
 */
function takeRuns(runs: readonly GoldenRun[]): GoldenRun[] {
  const queues = new Map<string, GoldenRun[]>();
  for (const run of runs.toSorted((a, b) => placeOf(a.run_id) - placeOf(b.run_id))) {
    const agent = mainScope(run);
    const queue = queues.get(agent);
    if (queue === undefined) queues.set(agent, [run]);
    else queue.push(run);
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

/**
 * Lists the steps of runs that have an answer, oldest first, because a student uses the last steps if there are too many.
 * @param runs newest first
 */
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
  return answers.reduce((total, answer) => total + (answer === null ? 0 : of(answer.answer)), 0);
}

function countServed(measured: readonly MeasuredStep[]): { served: number; errors: number } {
  return {
    served: measured.filter(({ served }) => served).length,
    errors: measured.filter(({ wrong }) => wrong).length,
  };
}
