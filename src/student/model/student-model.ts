/**
 * The model: what a student has learned, as plain JSON. It has agents with their stages, and each stage's golden
 * answers. This file has only types and the keys of marks. student-fit.ts makes the model, and student.ts reads it.
 */

import type { AnswerTemplate } from './answer-template.ts';
import type { FreeArguments, LooksBeside, OtherLooks, Wording } from './equivalence.ts';
import type { NoveltyMemory } from './novelty.ts';
import type { PromptTemplate } from './prompt-template.ts';

/** The learned model. */
export interface StudentModel {
  /**
   * A release that reads steps or makes answers differently changes this name. A student of another format is not
   * opened.
   */
  format: 'svc_student_model_v2';
  /** Minimum number of golden runs that support an answer. */
  support_min: number;
  /** Number of golden runs and steps from which the model was made. */
  runs: number;
  steps: number;
  groups: StudentGroup[];
}

/** Golden steps of one agent, as a {@link StudentAgent}. Only the student reads the fields. */
type StudentGroup = Readonly<Record<string, unknown>>;

/**
 * An element of {@link StudentModel.groups}: one agent, that is, steps of one scope whose system prompts differ only in
 * changing parts.
 */
export interface StudentAgent {
  scope: string;
  /** The agent's name; `nameAgents` of student-fit.ts gives the same one. */
  name: string;
  /** Steps with a larger score are not covered, whatever the threshold; 1 in models without this field. */
  limit?: number;
  /**
   * Kinds and forms of answers (`namesOfForm`), each with a separate limit. The limit is below 0 for a form that is not
   * served although its kind is. Absent: all forms are served with `limit`.
   */
  kinds?: [string, number][];
  /** For a student that asks a service: what the service may answer; absent before a trial. */
  service?: ServiceEvidence;
  /** Hashes of the sentences of the system prompt that nearly every golden step had (98 %). */
  core: number[];
  /** Hashes of other sentences that several runs had. */
  known: number[];
  /**
   * Values in the prompt's wording that all golden runs shared, as made by `learnFixedValues`; absent in older models.
   */
  fixed?: number[];
  /** Arguments whose wording has no effect and may differ; absent in older models. */
  free?: FreeArguments;
  /** Tools that only read according to their descriptions; absent: none. */
  reads?: readonly string[] | undefined;
  /** API rules that golden requests broke without a refusal; absent in older models. */
  breaches?: string[];
  /** The common part of all golden prompts of the agent. A prompt that does not fit belongs to another agent. */
  prompt: PromptTemplate;
  stages: StageMemory[];
}

/** What a service may answer for one agent's steps; see service-evidence.ts. */
export interface ServiceEvidence {
  /** Kinds of answers (`kindOfServiceAnswer`) that are served, each with its largest score. */
  kinds: [string, number][];
  /** Stages of golden steps at which the service is asked. */
  stages: string[];
  /** Hashes of words of golden answers. */
  said: number[];
}

/** A threshold for the number at a place of the context. */
export interface NumberSplit {
  /** Key of the mark that a step has if its number is above the threshold. */
  key: number;
  from: string;
  path: string[];
  /** Largest golden number below the threshold, and smallest golden number above it. */
  below: number;
  above: number;
}

/** Part of a path that stands for all elements of a list. */
export const EACH_ITEM = '[]';

/** The place of a number. */
export interface NumberPlace {
  from: string;
  /** Keys and {@link EACH_ITEM}; the last part may be one that `number-places.ts` derives from a list or prose. */
  path: string[];
}

/** Two places whose numbers are compared. Plain JSON. */
export interface NumberRelation {
  a: NumberPlace;
  b: NumberPlace;
  /** How a compares with b in all golden steps: below (-1), equal (0), above (1); null: it differs between steps. */
  always: -1 | 0 | 1 | null;
}

/** The golden numbers at a place of the context. */
export interface NumberRange {
  from: string;
  /** Keys, and {@link EACH_ITEM}. */
  path: string[];
  least: number;
  most: number;
  /**
   * How far below `least` and above `most` a number is still normal; absent: the numbers grow from run to run or are too
   * few, or the model is older.
   */
  slack?: [number, number];
}

/** Golden steps with the same marks among the dimensions. */
export interface Prototype {
  /** Indexes of the dimensions that the steps have. */
  marks: number[];
  /** Each class (−1 for answers that no template explains) with its number of golden runs. */
  votes: [number, number][];
  /** Exchange of the prototype's newest golden step; absent when unknown, and in older models. */
  example?: number;
}

/** Golden steps of one agent at one stage. */
export interface StageMemory {
  /** What the steps respond to; see `StepDigest`. */
  stage: string;
  /** Number of golden runs and steps. */
  runs: number;
  steps: number;
  /** Mean number of input tokens of an answer. */
  input_tokens: number;
  /**
   * Mean number of these tokens that were read from the provider's cache, and written to it; 0 without a cache. Absent
   * in older models.
   */
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  classes: {
    template: AnswerTemplate;
    /** Equivalent answers have the same label. */
    label: number;
    /**
     * Classes of one label have different paths if they are different ways to the same result; absent in older models.
     */
    path?: number;
    /** Number of golden runs with an answer of this class. */
    runs: number;
    /** Mean number of output tokens of the class's golden answers. */
    output_tokens: number;
  }[];
  /** Golden wordings by label; absent in older models. */
  wordings?: Wording[];
  /** Read-only calls beside answers, by label; absent in older models. */
  looks?: LooksBeside[];
  /** Lookups in which golden answers differ from the answers of a label, by label; absent in older models. */
  other_looks?: OtherLooks[];
  /**
   * Lookups in which golden answers of a label differ, because runs made the same lookups in another order; by label.
   * Absent in older models.
   */
  later_looks?: OtherLooks[];
  /** The key of each dimension's mark, and its worth. The sum of `worth` is 1. */
  dimensions: number[];
  worth: number[];
  splits: NumberSplit[];
  /** The range of golden numbers at each place. */
  ranges?: NumberRange[];
  /** Pairs of numbers that are compared; absent in older models. */
  relations?: NumberRelation[];
  /**
   * Keys of marks that always occurred with one label, more often than by chance, each with this label. The label −1
   * stands for answers that no template explains.
   */
  tells?: [number, number][];
  /** Keys of the denials in golden steps, by label; empty if there are more of them than half the runs. */
  denials?: [number, number[]][];
  prototypes: Prototype[];
  novelty: NoveltyMemory;
}

/** Kinds of marks beside MARK of step-marks.ts: a sentence of the system prompt; a number above a threshold. */
export const SYSTEM_KIND = 8;
export const NUMBER_KIND = 9;

export function keyOfMark(marks: readonly number[], m: number): number {
  return marks[m]! * 0x1_0000_0000 + ((marks[m + 1]! ^ Math.imul(marks[m + 2]!, 0x9e3779b1)) >>> 0);
}

export function keyOfSentence(sentence: number): number {
  return SYSTEM_KIND * 0x1_0000_0000 + sentence;
}
