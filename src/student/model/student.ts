/**
 * The student of kind `exemplar`: answers a live step that is like its golden steps. For a student of kind `http` it says
 * whose step it is and how strange, and a service answers. Pure; the student's thread.
 *
 * A live step is near prototypes of its agent and stage whose decisive marks it shares (student-fit.ts says what these
 * are). Its nonconformity, how unlike the golden steps it is, comes from four doubts: neighbours that answered something
 * else, distance, what is new in it (novelty.ts), and slots whose rules are young or contradict each other.
 */

import type { NormalRequest } from '../../domain/turn.ts';
import { STUDENT_CORE } from '../../limits.ts';
import { comparablesAgree, readComparable } from './agreement.ts';
import { kindOfAnswer } from './answer-kind.ts';
import { fillTemplate } from './answer-template.ts';
import type {
  StudentAnswer,
  StudentBlock,
  StudentDecision,
  UncoveredReason,
  WantedDecision,
} from './decision.ts';
import { StepContext } from './extraction.ts';
import { NoveltyIndex } from './novelty.ts';
import { readNumbersAt } from './number-places.ts';
import { compareAt, keyOfRelation } from './number-relations.ts';
import { FixedValues } from './prompt-values.ts';
import { kindOfServiceAnswer } from './service-evidence.ts';
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

/** The part of a vector index that the student needs; `VectorIndex` of src/search is one. */
export interface StudentIndex {
  add(id: number, vector: Float32Array): void;
  search(vector: Float32Array, k: number): { id: number; similarity: number }[];
}
export type MakeStudentIndex = (dimensions: number) => StudentIndex;

/** What the student would say if nobody asked how sure it must be. */
export interface Proposal {
  answer: StudentAnswer | null;
  /** Why there is none; where there is an answer, why it would be if the score were above the threshold. */
  reason: UncoveredReason;
  /** Nonconformity, 0 … 1; null where none could be computed. */
  score: number | null;
  support: number;
  /** Whose step it is; '' where nobody knows. */
  agent: string;
  /** Largest score that is covered, whatever the threshold; −1: this kind of answer is not served. */
  limit: number;
  /** What the score is made of; null where it is not. */
  doubts: Doubts | null;
  /** Golden steps that are nearest; null where none was looked for. */
  nearest: { prototype: Prototype; distance: number; stage: StageMemory } | null;
}

/** Why the student is not sure, each 0 … 1. */
export interface Doubts {
  /** Neighbours that answered something else. */
  disagreement: number;
  distance: number;
  novelty: number;
  /** Rules for values that are young or contradict each other. */
  slots: number;
}

/** What a step's numbers say beside each other: keys as marks have them; and whether one is as no golden step had it. */
interface ComparedNumbers {
  keys: number[];
  isStrange: boolean;
}

/** A group, ready to be asked. */
class ReadyStage {
  readonly group: StageMemory;
  readonly novelty: NoveltyIndex;
  readonly #index: StudentIndex;
  readonly #dimensions = new Map<number, number>();
  readonly #tells: Map<number, number>;
  readonly #denials: Map<number, Set<number>>;
  readonly #roots: Float64Array;

  constructor(group: StageMemory, makeIndex: MakeStudentIndex) {
    this.group = group;
    this.novelty = new NoveltyIndex(group.novelty);
    this.#tells = new Map(group.tells ?? []);
    this.#denials = new Map((group.denials ?? []).map(([label, keys]) => [label, new Set(keys)]));
    for (const [d, key] of group.dimensions.entries()) this.#dimensions.set(key, d);
    this.#roots = Float64Array.from(group.worth, (worth) => Math.sqrt(worth));
    // One more dimension, so that a vector is never empty.
    this.#index = makeIndex(group.dimensions.length + 1);
    for (const [id, { marks }] of group.prototypes.entries()) {
      const has = new Uint8Array(group.dimensions.length);
      for (const d of marks) has[d] = 1;
      this.#index.add(id, this.#makeVector(has));
    }
  }

  /** Whether a number is far from all golden ones at its place, or has a sign that none had. */
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

  /** Marks of the step that never came with this label, but always with another; and what it denies that none did. */
  countContradictions(step: StepDigest, compared: readonly number[], label: number): number {
    let count = 0;
    const denials = this.#denials.get(label);
    for (let m = 0; m < step.marks.length && denials !== undefined; m += 3)
      if (step.marks[m] === MARK.denial && !denials.has(keyOfMark(step.marks, m))) count += 2;
    if (this.#tells.size === 0) return count;
    const ask = (key: number): void => {
      const its = this.#tells.get(key);
      if (its !== undefined && its !== label) count++;
    };
    for (let m = 0; m < step.marks.length; m += 3) ask(keyOfMark(step.marks, m));
    for (const sentence of step.system) ask(keyOfSentence(sentence));
    for (const key of compared) ask(key);
    return count;
  }

  /** What the step's vector is near, nearest first, with the distance: the share of what tells that differs. */
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
    // A number between the golden ones on both sides of a threshold: nobody knows on which side it belongs.
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

/** Neighbours that are farther off than the nearest by this much weigh a third. */
const KERNEL = 0.04;
/** A run of doubt beside the runs that agree. */
const PRIOR = 0.5;
const DISTANCE_DOUBT = 2.5;
/** Doubt where a number is far from what golden steps had there. */
const STRANGE_NUMBER = 0.6;
/** How far, in what golden numbers are large or apart: counters and prices grow. */
const FAR = 4;
/** Doubt for each mark that always came with another answer. */
const CONTRADICTED = { each: 0.4, most: 0.8 } as const;

interface ReadyAgent {
  agent: StudentAgent;
  fixed: FixedValues;
  core: number[];
  known: Set<number>;
  groups: Map<string, ReadyStage>;
}

/** A step with the golden steps that it is near, at least one. */
interface PlacedStep extends ReturnType<ReadyStage['findNear']> {
  agent: StudentAgent;
  ready: ReadyStage;
}

/** Answers steps. Holds the model's indexes; one thread. */
export class Student {
  readonly #agents = new Map<string, ReadyAgent[]>();
  /** Kinds of answers that are served, with their limits, by agent; of agents that serve all there is none. */
  readonly #kinds = new Map<string, ReadonlyMap<string, number>>();
  /** Of a student that asks a service: words of golden answers by agent. */
  readonly #said = new Map<string, ReadonlySet<number>>();

  constructor(model: StudentModel, makeIndex: MakeStudentIndex) {
    for (const agent of model.groups as unknown as readonly StudentAgent[]) {
      const groups = new Map(agent.stages.map((group) => [group.stage, new ReadyStage(group, makeIndex)]));
      const known = new Set([...agent.core, ...agent.known]);
      const ready = { agent, core: agent.core, known, fixed: new FixedValues(agent.fixed ?? []), groups };
      if (agent.kinds !== undefined) this.#kinds.set(agent.name, new Map(agent.kinds));
      if (agent.service !== undefined) this.#said.set(agent.name, new Set(agent.service.said));
      const list = this.#agents.get(agent.scope);
      if (list === undefined) this.#agents.set(agent.scope, [ready]);
      else list.push(ready);
    }
  }

  /**
   * @param threshold largest score that is covered; below 0 covers nothing
   * @param wanted `coverage`: whether a service may be asked (kind `http`), and no answer; `second`: the same, and what the
   *   student would answer itself, where it would
   */
  decide(step: StepDigest, threshold: number, wanted: WantedDecision = 'answer'): StudentDecision {
    if (wanted !== 'answer') {
      const known = step.unsupported === '' ? this.#findAgent(step)?.ready.agent : undefined;
      if (known?.service !== undefined) return this.#mayAsk(step, known.service, threshold, wanted);
    }
    const { answer, reason, score, support, limit, agent } = this.propose(step);
    if (answer !== null && limit < 0) return { covered: false, reason: 'unproven', score, agent };
    if (answer === null || score === null || score > threshold || score > limit)
      return { covered: false, reason, score, agent };
    return { covered: true, answer: wanted === 'coverage' ? null : answer, score, support, agent };
  }

  /**
   * Whether an answer of that kind is served: an agent's service may give others than its golden steps had.
   * @param score of the step; left out: at whatever score
   */
  serves(agent: string, kind: string, score: number | null = null): boolean {
    const kinds = this.#kinds.get(agent);
    if (kinds === undefined) return true;
    const limit = kinds.get(kind);
    return limit !== undefined && (score === null || score <= limit);
  }

  /** What a service's answer is judged as. */
  kindOf(agent: string, content: readonly StudentBlock[], request: NormalRequest): string {
    const said = this.#said.get(agent);
    return said === undefined ? kindOfAnswer(content) : kindOfServiceAnswer(content, request, said);
  }

  /** A service is asked whether or not golden steps agree on an answer: its own agreement with them is what counts. */
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

  /** How unlike golden steps a step is, whatever its answer: for a service that answers it. */
  assess(step: StepDigest): { agent: string; score: number | null; reason: UncoveredReason } {
    const found = this.#place(step);
    if ('reason' in found) return { agent: found.agent, score: null, reason: found.reason };
    const { agent, near, between } = found;
    const { distance, novelty } = measureStrangeness(found, near[0]!.distance + between, step);
    const score = 1 - (1 - distance) * (1 - novelty);
    return { agent: agent.name, score: Math.max(0, Math.min(1, score)), reason: 'too_far' };
  }

  /** Finds the golden steps that a step is near, or why there are none. */
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

  propose(step: StepDigest): Proposal {
    const found = this.#place(step);
    const isPlaced = !('reason' in found);
    const whose = {
      agent: isPlaced ? found.agent.name : found.agent,
      limit: (isPlaced ? found.agent.limit : undefined) ?? 1,
    };
    const none = (reason: UncoveredReason, score: number | null = null): Proposal => ({
      answer: null,
      reason,
      score,
      support: 0,
      ...whose,
      doubts: null,
      nearest,
    });
    let nearest: Proposal['nearest'] = null;
    if (!isPlaced) return none(found.reason);
    const { agent, ready, near, between, compared } = found;
    const { group } = ready;
    const closest = near[0]!;
    nearest = { ...closest, stage: group };
    // Votes by label, and within the label by class.
    const votes = new Map<number, number>();
    const byClass = new Map<number, number>();
    let all = 0;
    for (const { prototype, distance } of near) {
      const kernel = Math.exp(-(distance - closest.distance) / KERNEL);
      for (const [c, runs] of prototype.votes) {
        const label = c < 0 ? -1 : group.classes[c]!.label;
        votes.set(label, (votes.get(label) ?? 0) + kernel * runs);
        byClass.set(c, (byClass.get(c) ?? 0) + kernel * runs);
        all += kernel * runs;
      }
    }
    let top = -1;
    let most = 0;
    for (const [label, weight] of votes)
      if (weight > most) {
        top = label;
        most = weight;
      }
    if (top < 0) return none('disagreement', 1);
    const context = new StepContext(step);
    const classes = [...byClass]
      .filter(([c]) => c >= 0 && group.classes[c]!.label === top)
      .sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    let content: StudentBlock[] | null = null;
    let slotDoubt = 0;
    let chosen = -1;
    let failed: UncoveredReason = 'missing_value';
    for (const [c] of classes.slice(0, 4)) {
      const filled = fillTemplate(group.classes[c]!.template, context);
      if (typeof filled === 'string') failed = filled;
      else if (content === null) {
        content = filled.value;
        slotDoubt = filled.doubt;
        chosen = c;
      } else if (!comparablesAgree(readComparable({ content }), readComparable({ content: filled.value }))) {
        // Two templates that said the same of golden steps do not of this one.
        slotDoubt = Math.max(slotDoubt, 0.5);
      }
    }
    if (content === null) return none(failed, 1);
    const refusal = findRefusal(step, content, group.classes[chosen]!.output_tokens);
    if (refusal !== null) return none(refusal);
    const against = ready.countContradictions(step, compared.keys, top);
    const disagreement =
      1 - (most / (all + PRIOR)) * (1 - Math.min(CONTRADICTED.most, CONTRADICTED.each * against));
    const { distance, novelty } = measureStrangeness(found, closest.distance + between, step);
    const score = 1 - (1 - disagreement) * (1 - distance) * (1 - novelty) * (1 - slotDoubt);
    return {
      answer: {
        content,
        stop_reason: group.classes[chosen]!.template.calls.length > 0 ? 'tool_use' : 'end_turn',
        input_tokens: group.input_tokens,
        cache_read_tokens: group.cache_read_tokens ?? 0,
        cache_write_tokens: group.cache_write_tokens ?? 0,
        output_tokens: group.classes[chosen]!.output_tokens,
      },
      reason:
        Math.max(distance, novelty) >= Math.max(disagreement, slotDoubt)
          ? 'too_far'
          : disagreement >= slotDoubt
            ? 'disagreement'
            : 'missing_value',
      score: Math.max(0, Math.min(1, score)),
      support: Math.max(1, Math.round(most)),
      ...whose,
      limit: this.#limitOf(agent, kindOfAnswer(content)),
      doubts: { disagreement, distance, novelty, slots: slotDoubt },
      nearest,
    };
  }

  /** What the student knows of a step's agent: for explaining. @returns null for an agent that it does not know */
  knownAgent(step: StepDigest): StudentAgent | null {
    return this.#findAgent(step)?.ready.agent ?? null;
  }

  /** Places in the prompt's wording where its agent's golden runs all had another value: for explaining. */
  otherValues(step: StepDigest): number[] {
    return this.#findAgent(step)?.others ?? [];
  }

  #limitOf({ name, limit }: StudentAgent, kind: string): number {
    const kinds = this.#kinds.get(name);
    return kinds === undefined ? (limit ?? 1) : (kinds.get(kind) ?? -1);
  }

  /** @returns with the places where another value stands than in its golden runs: then it is another agent */
  #findAgent(step: StepDigest): { ready: ReadyAgent; others: number[] } | undefined {
    let nearest: { ready: ReadyAgent; others: number[] } | undefined;
    const prompt = new Set(step.system);
    for (const ready of this.#agents.get(step.scope) ?? []) {
      if (!ready.core.every((sentence) => prompt.has(sentence))) continue;
      let changing = 0;
      for (const sentence of prompt) if (!ready.known.has(sentence)) changing++;
      if (changing > ready.agent.changing_max) continue;
      const others = ready.fixed.findOthers(step.values ?? []);
      if (others.length === 0) return { ready, others };
      if (nearest === undefined || others.length < nearest.others.length) nearest = { ready, others };
    }
    return nearest;
  }
}

/** @param apart from the nearest golden steps */
function measureStrangeness(
  { ready, compared }: PlacedStep,
  apart: number,
  step: StepDigest,
): { distance: number; novelty: number } {
  const isStrange = compared.isStrange || ready.hasStrangeNumber(step);
  return {
    distance: Math.min(1, DISTANCE_DOUBT * apart),
    novelty: Math.max(ready.novelty.measure(step.marks), isStrange ? STRANGE_NUMBER : 0),
  };
}

/** Why the answer would break the request's own rules; null when it would not. */
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
