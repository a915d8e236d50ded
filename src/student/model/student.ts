/**
 * The student of kind `exemplar`: answers a live step that resembles its golden steps. For a student of kind `http` this
 * file finds the step's agent and how unusual the step is, and a service answers. Pure; the student's thread.
 *
 * A live step is near the prototypes of its agent and stage that have the same decisive marks. student-fit.ts finds
 * prototypes, stages and decisive marks. The nonconformity of a step says how unlike the golden steps it is. It comes
 * from four doubts: neighbours with another answer, distance, novelty (novelty.ts), and slots whose rules are little
 * tested or contradict each other.
 */

import type { NormalRequest } from '../../domain/turn.ts';
import { answersAgree } from './agreement.ts';
import { namesOfForm } from './answer-form.ts';
import { kindOfAnswer } from './answer-kind.ts';
import { fillTemplate } from './answer-template.ts';
import type {
  JudgeAnswer,
  StudentAnswer,
  StudentBlock,
  StudentDecision,
  UncoveredReason,
  WantedDecision,
} from './decision.ts';
import { differInLooks, Ground, KnownWordings, makesSomeLooksOf } from './equivalence.ts';
import { StepContext } from './extraction.ts';
import { STUDENT_CORE } from './limits.ts';
import { NoveltyIndex } from './novelty.ts';
import { readNumbersAt } from './number-places.ts';
import { compareAt, keyOfRelation } from './number-relations.ts';
import { PromptMatcher } from './prompt-template.ts';
import { FixedValues } from './prompt-values.ts';
import { kindOfServiceAnswer } from './service-evidence.ts';
import { spellAnswer } from './spelled-answer.ts';
import type { StepDigest } from './step.ts';
import { MARK } from './step-marks.ts';
import {
  keyOfMark,
  keyOfSentence,
  type Prototype,
  type ServiceEvidence,
  type StageMemory,
  type StudentAgent,
  type StudentModel,
} from './student-model.ts';

/** The part of a vector index that the student needs; `VectorIndex` of src/search implements it. */
export interface StudentIndex {
  add(id: number, vector: Float32Array): void;
  search(vector: Float32Array, k: number): { id: number; similarity: number }[];
}
export type MakeStudentIndex = (dimensions: number) => StudentIndex;

/** The student's answer to a step, regardless of the required certainty. */
export interface Proposal {
  answer: StudentAnswer | null;
  /** Why there is no answer. If there is an answer: the reason that applies if its score is above the threshold. */
  reason: UncoveredReason;
  /** Nonconformity, 0 … 1; null when no score could be computed. */
  score: number | null;
  /** Votes of the neighbours for the answer, at least 1; 0 without an answer. */
  support: number;
  /** The step's agent; '' when unknown. */
  agent: string;
  /**
   * The form's own limit: an answer of this form is covered only if its score is within both this limit and the
   * threshold. −1: the form is not served.
   */
  limit: number;
  /** The form whose evidence `limit` comes from; '' without an answer. */
  form: string;
  /** All names of the answer's form, as `namesOfForm` gives them. */
  forms: readonly string[];
  /** The parts of the score; null without a score. */
  doubts: Doubts | null;
  /** Label of the answer's class at its stage; −1 without an answer. */
  label: number;
  /** The nearest golden steps; null when there was no search. */
  nearest: { prototype: Prototype; distance: number; stage: StageMemory } | null;
}

/** Why the student is uncertain; each doubt is from 0 to 1. */
export interface Doubts {
  /** Neighbours with another answer. */
  disagreement: number;
  distance: number;
  novelty: number;
  /** Rules for values that are little tested or contradict each other. */
  slots: number;
}

/**
 * The comparisons of a step's numbers, as keys of marks, and whether a comparison differs from all golden
 * steps.
 */
interface ComparedNumbers {
  keys: number[];
  isStrange: boolean;
}

/** A stage's memory, prepared for queries. */
class ReadyStage {
  readonly group: StageMemory;
  readonly novelty: NoveltyIndex;
  readonly wordings: KnownWordings;
  readonly #index: StudentIndex;
  readonly #dimensions = new Map<number, number>();
  readonly #laterLooks: ReadonlyMap<number, readonly string[]>;
  readonly #tells: Map<number, number>;
  readonly #denials: Map<number, Set<number>>;
  readonly #roots: Float64Array;

  constructor(group: StageMemory, agent: StudentAgent, makeIndex: MakeStudentIndex) {
    this.group = group;
    this.wordings = new KnownWordings(
      group.wordings ?? [],
      agent.free ?? [],
      group.looks,
      group.other_looks,
      new Set(agent.reads),
    );
    this.#laterLooks = new Map(group.later_looks);
    this.novelty = new NoveltyIndex(group.novelty);
    this.#tells = new Map(group.tells ?? []);
    this.#denials = new Map((group.denials ?? []).map(([label, keys]) => [label, new Set(keys)]));
    for (const [d, key] of group.dimensions.entries()) this.#dimensions.set(key, d);
    this.#roots = Float64Array.from(group.worth, (worth) => Math.sqrt(worth));
    // There is one more dimension, so that a vector is never empty.
    this.#index = makeIndex(group.dimensions.length + 1);
    for (const [id, { marks }] of group.prototypes.entries()) {
      const has = new Uint8Array(group.dimensions.length);
      for (const d of marks) has[d] = 1;
      this.#index.add(id, this.#makeVector(has));
    }
  }

  /**
   * Whether two answers differ only in lookups of the label's `later_looks`: golden runs made such lookups in another
   * order. Whether a run does so can only be seen from the rest of the run.
   */
  mayDifferInOrder(label: number, given: readonly StudentBlock[], other: readonly StudentBlock[]): boolean {
    const names = this.#laterLooks.get(label) ?? [];
    return differInLooks(given, other, this.wordings.reads)?.every((name) => names.includes(name)) === true;
  }

  /** Whether a number is far from all golden numbers at its place, or has a sign that no golden number had. */
  hasStrangeNumber(step: StepDigest): boolean {
    return (this.group.ranges ?? []).some((range) => {
      const { least, most } = range;
      const far = FAR * Math.max(most - least, Math.abs(most), Math.abs(least));
      const [below, above] = range.slack ?? [far, far];
      return readNumbersAt(step, range).some((value) => {
        if ((value < 0 && least >= 0) || (value > 0 && most <= 0)) return true;
        return value > most + above || value < least - below;
      });
    });
  }

  #compareNumbers(step: StepDigest): ComparedNumbers {
    const keys: number[] = [];
    let isStrange = false;
    for (const relation of this.group.relations ?? []) {
      const way = compareAt(relation, step);
      if (way === undefined) continue;
      if (relation.always === null) keys.push(keyOfRelation(relation, way));
      else if (way !== relation.always) isStrange = true;
    }
    return { keys, isStrange };
  }

  /**
   * Whether something in the step speaks against a label: a mark, sentence or comparison that always occurred with
   * another label in golden steps, or a negation that never occurred with this label.
   */
  isContradicted(step: StepDigest, compared: readonly number[], label: number): boolean {
    const denials = this.#denials.get(label);
    const tellsOther = (key: number): boolean => (this.#tells.get(key) ?? label) !== label;
    for (let m = 0; m < step.marks.length; m += 3) {
      const key = keyOfMark(step.marks, m);
      if (step.marks[m] === MARK.denial && denials?.has(key) === false) return true;
      if (tellsOther(key)) return true;
    }
    return step.system.some((sentence) => tellsOther(keyOfSentence(sentence))) || compared.some(tellsOther);
  }

  /**
   * Finds the prototypes near the step's vector, nearest first. The distance is the total worth of the marks in which
   * step and prototype differ, from 0 to 1. `between` is additional distance for numbers that lie between the golden
   * numbers on both sides of a threshold.
   */
  findNear(step: StepDigest): {
    near: { prototype: Prototype; distance: number }[];
    between: number;
    compared: ComparedNumbers;
  } {
    const { group } = this;
    const compared = this.#compareNumbers(step);
    const has = new Uint8Array(group.dimensions.length);
    for (let m = 0; m < step.marks.length; m += 3) {
      const d = this.#dimensions.get(keyOfMark(step.marks, m));
      if (d !== undefined) has[d] = 1;
    }
    for (const sentence of step.system) {
      const d = this.#dimensions.get(keyOfSentence(sentence));
      if (d !== undefined) has[d] = 1;
    }
    for (const key of compared.keys) {
      const d = this.#dimensions.get(key);
      if (d !== undefined) has[d] = 1;
    }
    // A number between the golden numbers on both sides of a threshold could belong to either side.
    let between = 0;
    for (const { key, from, path, below, above } of group.splits) {
      const [value] = readNumbersAt(step, { from, path });
      if (value === undefined) continue;
      const d = this.#dimensions.get(key)!;
      if (value > (below + above) / 2) has[d] = 1;
      if (value > below && value < above) between += group.worth[d]!;
    }
    const near = this.#index
      .search(this.#makeVector(has), STUDENT_CORE.neighbours)
      .map(({ id, similarity }) => ({
        prototype: group.prototypes[id]!,
        distance: Math.max(0, (1 - similarity) / 2),
      }));
    return { near, between, compared };
  }

  #makeVector(has: Uint8Array): Float32Array {
    const { length } = has;
    const vector = new Float32Array(length + 1);
    for (let d = 0; d < length; d++) vector[d] = has[d] === 1 ? this.#roots[d]! : -this.#roots[d]!;
    if (length === 0) vector[0] = 1;
    return vector;
  }
}

/** A neighbour that is farther than the nearest one by this distance has 1/e (about a third) of the full weight. */
const KERNEL = 0.04;
/** Votes that are added against every answer, so that few agreeing runs leave a doubt. */
const PRIOR = 0.5;
/** The student declines if the nearest prototype has at least this many runs and all of them gave another answer. */
const OPPOSED_RUNS = 2;
/** The doubt for a distance is the distance times this factor, at most 1. */
const DISTANCE_DOUBT = 2.5;
/**
 * A number without a learned slack is far if it is outside the golden range by more than this many times the range's
 * largest number or width. The factor is large because counters and prices grow.
 */
const FAR = 4;

interface ReadyAgent {
  agent: StudentAgent;
  fixed: FixedValues;
  prompt: PromptMatcher;
  known: Set<number>;
  groups: Map<string, ReadyStage>;
}

/** A step, its agent and stage, and the golden steps near it; `near` has at least one element. */
interface PlacedStep extends ReturnType<ReadyStage['findNear']> {
  agent: StudentAgent;
  ready: ReadyStage;
}

/** Answers steps from a model, whose indexes it holds in memory. Used on one thread. */
export class Student {
  readonly #agents = new Map<string, ReadyAgent[]>();
  readonly #stages = new Map<StageMemory, ReadyStage>();
  /**
   * Limits of kinds and forms of answers by agent; below 0: not served. Agents for which all are served have no entry.
   */
  readonly #kinds = new Map<string, ReadonlyMap<string, number>>();
  /** For a student that asks a service: words of golden answers by agent. */
  readonly #said = new Map<string, ReadonlySet<number>>();

  constructor(model: StudentModel, makeIndex: MakeStudentIndex) {
    for (const agent of model.groups as unknown as readonly StudentAgent[]) {
      const groups = new Map(
        // Older models had separate stages for each order of results. The stage with the most runs is used.
        agent.stages
          .toSorted((a, b) => a.runs - b.runs)
          .map((group) => [levelStage(group.stage), new ReadyStage(group, agent, makeIndex)]),
      );
      for (const stage of groups.values()) this.#stages.set(stage.group, stage);
      const known = new Set([...agent.core, ...agent.known]);
      const fixed = new FixedValues(agent.fixed ?? []);
      const ready = { agent, known, fixed, prompt: new PromptMatcher(agent.prompt), groups };
      if (agent.kinds !== undefined) this.#kinds.set(agent.name, new Map(agent.kinds));
      if (agent.service !== undefined) this.#said.set(agent.name, new Set(agent.service.said));
      const list = this.#agents.get(agent.scope);
      if (list === undefined) this.#agents.set(agent.scope, [ready]);
      else list.push(ready);
    }
  }

  /**
   * Decides whether a step is covered.
   * @param threshold largest score that is covered; below 0 covers nothing
   * @param wanted `coverage`: only decide whether a service may be asked (kind `http`); `second`: decide this, and
   *   return the student's own answer. Without an own answer, a step is then not covered
   */
  decide(step: StepDigest, threshold: number, wanted: WantedDecision = 'answer'): StudentDecision {
    if (wanted !== 'answer') {
      const known = step.unsupported === '' ? this.#findAgent(step)?.ready.agent : undefined;
      if (known?.service !== undefined) return this.#mayAsk(step, known.service, threshold, wanted);
    }
    const { answer, reason, score, support, limit, form, forms, agent, label, nearest } = this.propose(step);
    if (answer !== null && limit < 0) return { covered: false, reason: 'unproven', score, agent };
    if (answer === null || score === null || score > threshold || score > limit)
      return { covered: false, reason, score, agent };
    if (wanted === 'coverage') return { covered: true, answer: null, score, support, agent };
    const ready = nearest === null ? undefined : this.#stages.get(nearest.stage);
    const { content } = answer;
    // Audits keep the decision in memory, so it must not hold the prompt, which may be large.
    const { sources } = step;
    const agrees: JudgeAnswer = (other, knowsRest = false) =>
      areEquivalent(ready, { sources }, label, content, other) ||
      (!knowsRest && ready?.mayDifferInOrder(label, content, other) === true);
    return { covered: true, answer, score, support, agent, form, forms, agrees };
  }

  /**
   * Whether answers of this kind are served. An agent without limits serves all kinds; with limits, a kind that is not
   * listed is not served, for example a service's answer of a kind that no golden step had.
   * @param score the step's score; null to accept any score
   */
  serves(agent: string, kind: string, score: number | null = null): boolean {
    const kinds = this.#kinds.get(agent);
    if (kinds === undefined) return true;
    const limit = kinds.get(kind);
    return limit !== undefined && limit >= 0 && (score === null || score <= limit);
  }

  /** The kind by which a service's answer is judged. */
  kindOf(agent: string, content: readonly StudentBlock[], request: NormalRequest): string {
    const said = this.#said.get(agent);
    return said === undefined ? kindOfAnswer(content) : kindOfServiceAnswer(content, request, said);
  }

  /**
   * Decides whether the service may be asked. Golden steps need not agree on an answer, because the service's own
   * measured agreement counts. If the caller also wants the student's own answer (`second`), the step is covered only
   * with such an answer.
   */
  #mayAsk(
    step: StepDigest,
    { stages }: ServiceEvidence,
    threshold: number,
    wanted: WantedDecision,
  ): StudentDecision {
    const { agent, score, reason } = this.assess(step);
    if (score === null) return { covered: false, reason, score, agent };
    if (!stages.includes(step.stage)) return { covered: false, reason: 'unproven', score, agent };
    const limit = Math.max(-1, ...(this.#kinds.get(agent)?.values() ?? []));
    if (score > threshold || score > limit) return { covered: false, reason: 'too_far', score, agent };
    const answer = wanted === 'second' ? this.propose(step).answer : null;
    if (wanted === 'second' && answer === null)
      return { covered: false, reason: 'missing_value', score, agent };
    return { covered: true, answer, score, support: 1, agent };
  }

  /**
   * Measures how unlike golden steps a step is, for a service that answers the step. The student's own answer does not
   * matter. `reason` says why there is no score; with a score it is `too_far`.
   */
  assess(step: StepDigest): { agent: string; score: number | null; reason: UncoveredReason } {
    const found = this.#place(step);
    if ('reason' in found) return { agent: found.agent, score: null, reason: found.reason };
    const { agent, near, between } = found;
    const { distance, novelty } = measureStrangeness(found, near[0]!.distance + between, step);
    const score = 1 - (1 - distance) * (1 - novelty);
    return { agent: agent.name, score: Math.max(0, Math.min(1, score)), reason: 'too_far' };
  }

  /** Finds the golden steps near a step, or the reason why it is near no golden step. */
  #place(step: StepDigest): PlacedStep | { reason: UncoveredReason; agent: string } {
    if (step.unsupported !== '') return { reason: 'unsupported', agent: '' };
    const found = this.#findAgent(step);
    if (found === undefined || found.others.length > 0) {
      const reason = found === undefined ? 'unknown_agent' : 'other_value';
      return { reason: step.breaches.length > 0 ? 'bad_request' : reason, agent: '' };
    }
    const { agent, groups } = found.ready;
    if (step.breaches.some((name) => agent.breaches?.includes(name) !== true))
      return { reason: 'bad_request', agent: agent.name };
    const ready = groups.get(step.stage);
    const placed = ready?.findNear(step);
    if (ready === undefined || placed === undefined || placed.near.length === 0)
      return { reason: 'too_far', agent: agent.name };
    return { agent, ready, ...placed };
  }

  /** Finds the student's answer to a step and the score of this answer, whatever the threshold. */
  propose(step: StepDigest): Proposal {
    const found = this.#place(step);
    const isPlaced = !('reason' in found);
    const owner = {
      agent: isPlaced ? found.agent.name : found.agent,
      limit: (isPlaced ? found.agent.limit : undefined) ?? 1,
      form: '',
      forms: [],
    };
    const none = (reason: UncoveredReason, score: number | null = null): Proposal => ({
      answer: null,
      reason,
      score,
      support: 0,
      ...owner,
      doubts: null,
      label: -1,
      nearest,
    });
    let nearest: Proposal['nearest'] = null;
    if (!isPlaced) return none(found.reason);
    const { agent, ready, near, between, compared } = found;
    const { group } = ready;
    const closest = near[0]!;
    nearest = { ...closest, stage: group };
    const votes = countVotes(near, group);
    if (votes === null) return none('disagreement', 1);
    const filled = fillAnswer(votes.classes, ready, new StepContext(step));
    if (typeof filled === 'string') return none(filled, 1);
    const { content, doubt: slotDoubt } = filled;
    const chosen = group.classes[filled.chosen]!;
    const refusal = findRefusal(step, content, chosen.output_tokens);
    if (refusal !== null) return none(refusal);
    const isRefuted =
      ready.isContradicted(step, compared.keys, votes.label) ||
      isOpposed(closest.prototype, votes.label, group);
    const disagreement = isRefuted ? 1 : 1 - votes.weight / (votes.all + PRIOR);
    const { distance, novelty } = measureStrangeness(found, closest.distance + between, step);
    const score = 1 - (1 - disagreement) * (1 - distance) * (1 - novelty) * (1 - slotDoubt);
    return {
      answer: {
        content,
        stop_reason: chosen.template.calls.length > 0 ? 'tool_use' : 'end_turn',
        input_tokens: group.input_tokens,
        cache_read_tokens: group.cache_read_tokens ?? 0,
        cache_write_tokens: group.cache_write_tokens ?? 0,
        output_tokens: chosen.output_tokens,
      },
      reason:
        Math.max(distance, novelty) >= Math.max(disagreement, slotDoubt)
          ? 'too_far'
          : disagreement >= slotDoubt
            ? 'disagreement'
            : 'missing_value',
      score: Math.max(0, Math.min(1, score)),
      support: Math.max(1, Math.round(votes.weight)),
      ...owner,
      ...this.#limitOf(agent, namesOfForm(content, step)),
      doubts: { disagreement, distance, novelty, slots: slotDoubt },
      label: votes.label,
      nearest,
    };
  }

  /**
   * Whether another answer to a step is equivalent to the student's proposal (equivalence.ts): both answers say the
   * same, or golden runs use them interchangeably. False for a proposal without an answer.
   * @param knowsRest whether the caller itself checks in the rest of the run whether lookups only came in another order
   */
  agrees(
    step: StepDigest,
    { answer, label, nearest }: Proposal,
    other: readonly StudentBlock[],
    knowsRest = false,
  ): boolean {
    if (answer === null) return false;
    const ready = nearest === null ? undefined : this.#stages.get(nearest.stage);
    if (areEquivalent(ready, step, label, answer.content, other)) return true;
    return !knowsRest && ready?.mayDifferInOrder(label, answer.content, other) === true;
  }

  /**
   * Finds what the student knows about the agent of a step, for explanations.
   * @returns the step's agent. If the wording has other values than all known agents (`otherValues`), the agent with
   *   the fewest other values. null when no agent has the step's wording
   */
  knownAgent(step: StepDigest): StudentAgent | null {
    return this.#findAgent(step)?.ready.agent ?? null;
  }

  /**
   * Finds the places in the prompt's wording at which all golden runs of `knownAgent` had another value than the step,
   * for explanations. A step with such a place does not belong to that agent.
   * @returns hashes of the places; empty if the step belongs to the agent, or if `knownAgent` is null
   */
  otherValues(step: StepDigest): number[] {
    return this.#findAgent(step)?.others ?? [];
  }

  /**
   * Finds the limit of an answer: the limit of its narrowest form that has one; −1 if none of its forms has one. If the
   * agent has no limits by form, the agent's limit applies, or 1 if it has none.
   * @param forms names of the answer's forms, the narrowest last
   */
  #limitOf(
    { name, limit }: StudentAgent,
    forms: readonly string[],
  ): Pick<Proposal, 'limit' | 'form' | 'forms'> {
    const kinds = this.#kinds.get(name);
    if (kinds === undefined) return { limit: limit ?? 1, form: forms[0]!, forms };
    const form = forms.findLast((candidate) => kinds.has(candidate));
    return form === undefined
      ? { limit: -1, form: forms[0]!, forms }
      : { limit: kinds.get(form)!, form, forms };
  }

  /**
   * Finds the agent to which a step belongs, or the agent that is nearest to it.
   * @returns there are three cases:
   * - An agent fits the step, and no place of the wording has another value: this agent, with empty `others`.
   * - Otherwise, one or more agents fit or have the step's wording, and places of the wording have other values than all
   *   golden runs of these agents: the agent with the fewest such places, with the places in `others`. The step does not
   *   belong to it.
   * - Otherwise undefined.
   */
  #findAgent(step: StepDigest): { ready: ReadyAgent; others: number[] } | undefined {
    let nearest: { ready: ReadyAgent; others: number[] } | undefined;
    for (const ready of this.#agents.get(step.scope) ?? []) {
      const isFit = ready.prompt.findMisfit(step.prompt ?? [], step.at_ms ?? null) === null;
      if (!isFit && !hasWording(ready, step)) continue;
      const others = ready.fixed.findOthers(step.values ?? []);
      if (isFit && others.length === 0) return { ready, others };
      if (others.length > 0 && (nearest === undefined || others.length < nearest.others.length))
        nearest = { ready, others };
    }
    return nearest;
  }
}

/** Whether several runs were in the nearest situation, and all of them gave another answer. */
function isOpposed({ votes }: Prototype, label: number, { classes }: StageMemory): boolean {
  const runs = votes.reduce((sum, [, count]) => sum + count, 0);
  return runs >= OPPOSED_RUNS && votes.every(([c]) => c < 0 || classes[c]!.label !== label);
}

/** The label with the most votes of the neighbours. */
interface Votes {
  label: number;
  /** The label's votes, and the votes of all labels. */
  weight: number;
  all: number;
  /** The label's classes with their votes, most votes first. */
  classes: [number, number][];
}

/**
 * Counts the votes of the neighbours.
 * @returns null if most votes go to answers without a template
 */
function countVotes(near: PlacedStep['near'], { classes }: StageMemory): Votes | null {
  const byLabel = new Map<number, number>();
  const byClass = new Map<number, number>();
  let all = 0;
  for (const { prototype, distance } of near) {
    const kernel = Math.exp(-(distance - near[0]!.distance) / KERNEL);
    for (const [c, runs] of prototype.votes) {
      const label = c < 0 ? -1 : classes[c]!.label;
      byLabel.set(label, (byLabel.get(label) ?? 0) + kernel * runs);
      byClass.set(c, (byClass.get(c) ?? 0) + kernel * runs);
      all += kernel * runs;
    }
  }
  let label = -1;
  let weight = 0;
  for (const [candidate, votes] of byLabel)
    if (votes > weight) {
      label = candidate;
      weight = votes;
    }
  if (label < 0) return null;
  const ofLabel = [...byClass]
    .filter(([c]) => c >= 0 && classes[c]!.label === label)
    .sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  return { label, weight, all, classes: ofLabel };
}

/** Maximum number of classes whose templates are filled for one answer. */
const CLASSES_FILLED = 4;
/** Minimum votes of another class for a comparison, as a share of the chosen class's votes. */
const COMPARED_SHARE = 0.25;

/**
 * Fills the templates of the classes with the most votes, and takes the first answer whose values come from the step. If
 * another class with enough votes gives other values, the answer's doubt is 1.
 * @returns the reason when no template gives an answer
 */
function fillAnswer(
  classes: readonly (readonly [number, number])[],
  { group, wordings }: ReadyStage,
  context: StepContext,
): { content: StudentBlock[]; chosen: number; doubt: number } | UncoveredReason {
  let answer: { content: StudentBlock[]; chosen: number; doubt: number } | null = null;
  let failed: UncoveredReason = 'missing_value';
  const ground = new Ground(context.step);
  const computed: string[] = [];
  let most = 0;
  for (const [c, weight] of classes.slice(0, CLASSES_FILLED)) {
    const { template, label, path } = group.classes[c]!;
    const filled = fillTemplate(template, context, computed);
    if (typeof filled === 'string') failed = filled;
    else if (!wordings.isGrounded(label, filled.value, ground)) continue;
    else if (answer === null) {
      answer = { content: filled.value, chosen: c, doubt: filled.doubt };
      most = weight;
    } else if (
      weight >= COMPARED_SHARE * most &&
      path === group.classes[answer.chosen]!.path &&
      !wordings.haveSameValues(
        label,
        spellAnswer(answer.content, context.step),
        spellAnswer(filled.value, context.step),
        ground.with(computed),
      )
    ) {
      // Two templates agreed on golden steps, but disagree on this step.
      answer.doubt = 1;
    }
  }
  return answer ?? failed;
}

/** Whether golden runs show two answers to a step to be equivalent. */
function areEquivalent(
  ready: ReadyStage | undefined,
  step: Pick<StepDigest, 'sources'>,
  label: number,
  answer: readonly StudentBlock[],
  otherAnswer: readonly StudentBlock[],
): boolean {
  const [given, other] = [spellAnswer(answer, step), spellAnswer(otherAnswer, step)];
  if (contentsAgree(given, other) || makesSomeLooksOf(other, given, ready?.wordings.reads)) return true;
  if (ready === undefined || label < 0) return false;
  const { wordings, group } = ready;
  const held = new Ground(step);
  if (wordings.isSame(label, given, other, held)) return true;
  const context = new StepContext(step);
  const computed: string[] = [];
  const ways = group.classes.flatMap(({ label: ofClass, template, path }) => {
    const filled = ofClass === label ? fillTemplate(template, context, computed) : '';
    return typeof filled === 'string' ? [] : [{ path, content: spellAnswer(filled.value, step) }];
  });
  const ground = held.with(computed);
  const own = new Set(ways.flatMap(({ path, content }) => (contentsAgree(given, content) ? [path] : [])));
  // Two templates of one way may agree on nearly all golden steps and disagree on this step.
  return [{ path: undefined, content: given }, ...ways].some(
    ({ path, content }) =>
      wordings.isSame(label, content, other, ground) &&
      (path === undefined || !own.has(path) || wordings.haveSameValues(label, given, content, ground)),
  );
}

function contentsAgree(a: readonly StudentBlock[], b: readonly StudentBlock[]): boolean {
  return answersAgree({ content: [...a] }, { content: [...b] });
}

/** The current name for the stage of an older model. */
function levelStage(stage: string): string {
  return stage.split(' ').sort().join(' ');
}

/** Whether a prompt has all core sentences of the agent, and beside them only its known sentences. */
function hasWording({ agent, known }: ReadyAgent, { system }: StepDigest): boolean {
  const prompt = new Set(system);
  return (
    agent.core.every((sentence) => prompt.has(sentence)) && system.every((sentence) => known.has(sentence))
  );
}

/**
 * Measures how unusual a step is.
 * @param apart distance from the nearest golden steps
 */
function measureStrangeness(
  { ready, compared }: PlacedStep,
  apart: number,
  step: StepDigest,
): { distance: number; novelty: number } {
  const isStrange = compared.isStrange || ready.hasStrangeNumber(step);
  return {
    distance: Math.min(1, DISTANCE_DOUBT * apart),
    novelty: isStrange ? 1 : ready.novelty.measure(step.marks),
  };
}

/** Why the answer would break the request's own rules; null if it would not. */
function findRefusal(
  step: StepDigest,
  content: readonly StudentBlock[],
  outputTokens: number,
): UncoveredReason | null {
  let calls = 0;
  for (const block of content) {
    if (block.type !== 'tool_call') continue;
    calls++;
    if (step.callable === null || !step.callable.includes(block.name)) return 'invalid';
  }
  if (calls > step.calls_max) return 'invalid';
  if (calls === 0 && step.must_call) return 'invalid';
  if (calls === 0 && step.wants_json) return 'unsupported';
  if (calls > 0 && step.is_thinking) return 'unsupported';
  if (step.max_output_tokens !== null && outputTokens > step.max_output_tokens) return 'invalid';
  return null;
}
