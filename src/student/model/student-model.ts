/**
 * What a student has learned, as data: agents, their stages, and what is in each. Plain JSON, packed as it is. Pure
 * types, and the keys of marks in it; student-fit.ts makes it, and student.ts reads it.
 */

import type { AnswerTemplate } from './answer-template.ts';
import type { NoveltyMemory } from './novelty.ts';

/** What was learned: plain JSON, packed as it is. */
export interface StudentModel {
  /** Raised with each release that reads steps or makes answers otherwise: a student of another is not opened. */
  format: 'svc_student_model_v1';
  support_min: number;
  /** Golden runs and steps that it was fitted on. */
  runs: number;
  steps: number;
  groups: StudentGroup[];
}

/** Golden steps of one agent, {@link StudentAgent}. Its fields are the student's own business. */
export type StudentGroup = Readonly<Record<string, unknown>>;

/** What lies in {@link StudentModel.groups}: one agent, steps of one scope with one system prompt, but for what changes in it. */
export interface StudentAgent {
  scope: string;
  /** As `nameAgents` of student-fit.ts names it. */
  name: string;
  /** Steps with a larger score are not covered, whatever the threshold; 1 in models that say nothing of it. */
  limit?: number;
  /** Kinds of answers that are served (`kindOfAnswer`), each with its own limit; left out: all, at the limit above. */
  kinds?: [string, number][];
  /** Of a student that asks a service: what the service was found to be good at; left out: it has not been tried so. */
  service?: ServiceEvidence;
  /** Sentences that every golden step had. */
  core: number[];
  /** Others that several runs had. */
  known: number[];
  /** Values in the prompt's wording that all golden runs shared, as `learnFixedValues` makes them; none in older models. */
  fixed?: number[];
  /** Rules of the API that golden requests broke and the upstream took; none in older models. */
  breaches?: string[];
  /** Most sentences of one step that are not core. */
  changing_max: number;
  stages: StageMemory[];
}

/** What a service may answer of one agent's steps; see service-evidence.ts. */
export interface ServiceEvidence {
  /** Kinds of answers (`kindOfServiceAnswer`) that are served, each with its largest score. */
  kinds: [string, number][];
  /** Stages of golden steps at which it is asked. */
  stages: string[];
  /** Hashes of words that golden answers had. */
  said: number[];
}

/** A threshold in a number of the context. */
export interface NumberSplit {
  key: number;
  from: string;
  path: string[];
  /** Largest golden value below, smallest above. */
  below: number;
  above: number;
}

/** Part of a path that stands for all elements of a list. */
export const EACH_ITEM = '[]';

/** Where a number stands. */
export interface NumberPlace {
  from: string;
  /** Keys, {@link EACH_ITEM}, or last what `number-places.ts` makes of a list or a prose. */
  path: string[];
}

/** Two places of numbers that are compared. Plain JSON. */
export interface NumberRelation {
  a: NumberPlace;
  b: NumberPlace;
  /** How a compares with b in all golden steps: below (-1), equal (0), above (1); null: it changes. */
  always: -1 | 0 | 1 | null;
}

/** The golden numbers at a place of the context. */
export interface NumberRange {
  from: string;
  /** Keys, and {@link EACH_ITEM}. */
  path: string[];
  least: number;
  most: number;
  /** How far below and above those a number is no stranger; left out where numbers grow, and in older models. */
  slack?: [number, number];
}

export interface Prototype {
  /** Dimensions of marks that it has. */
  marks: number[];
  /** Class (−1: answers that no template explains) and golden runs. */
  votes: [number, number][];
  /** Exchange of the newest golden step of these; left out in older models. */
  example?: number;
}

/** Golden steps of one agent at one kind of moment. */
export interface StageMemory {
  stage: string;
  runs: number;
  steps: number;
  input_tokens: number;
  /** Of those, read from and written to the provider's cache; left out: none. */
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  classes: { template: AnswerTemplate; label: number; runs: number; output_tokens: number }[];
  /** Keys of marks by dimension, and their worth, all together 1. */
  dimensions: number[];
  worth: number[];
  splits: NumberSplit[];
  /** Between which numbers golden steps had what stands at a place. */
  ranges?: NumberRange[];
  /** Pairs of numbers of which one may be the larger; left out in older models. */
  relations?: NumberRelation[];
  /** Marks that always came with one label (−1: answers that no template explains), more often than by chance. */
  tells?: [number, number][];
  /** What was denied in golden steps, by label; none where nearly every run denies something of its own. */
  denials?: [number, number[]][];
  prototypes: Prototype[];
  novelty: NoveltyMemory;
}

/** Kinds of marks beside those of step.ts: a sentence of the system prompt, a side of a threshold in a number. */
export const SYSTEM_KIND = 8;
export const NUMBER_KIND = 9;

export function keyOfMark(marks: readonly number[], m: number): number {
  return marks[m]! * 0x1_0000_0000 + ((marks[m + 1]! ^ Math.imul(marks[m + 2]!, 0x9e3779b1)) >>> 0);
}

export function keyOfSentence(sentence: number): number {
  return SYSTEM_KIND * 0x1_0000_0000 + sentence;
}
