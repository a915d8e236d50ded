/**
 * The student of kind `exemplar`: learns from golden steps which answer follows when, and answers a live step where it
 * stands on known ground. Pure; analysis fits it, the student's thread asks it.
 */

import type { AnswerDigest } from './answer.ts';
import type { StudentAnswer, StudentDecision, UncoveredReason } from './decision.ts';
import type { StepDigest } from './step.ts';

/** A golden step. */
export interface LearnedStep {
  /** Steps of one run never vouch for each other. */
  run_id: string;
  step: StepDigest;
  answer: AnswerDigest;
}

/** The part of a vector index that the student needs; `VectorIndex` of src/search is one. */
export interface StudentIndex {
  add(id: number, vector: Float32Array): void;
  search(vector: Float32Array, k: number): { id: number; similarity: number }[];
}
export type MakeStudentIndex = (dimensions: number) => StudentIndex;

export interface FitOptions {
  /** Golden runs that must stand behind an answer; 2 when left out. */
  support_min?: number;
  /** Of whatever is drawn by lot; 1 when left out. */
  seed?: number;
}

/** What was learnt: plain JSON, to be packed as it is. */
export interface StudentModel {
  format: 'svc_student_model_v1';
  support_min: number;
  /** Golden runs and steps that it was fitted on. */
  runs: number;
  steps: number;
  groups: StudentGroup[];
}

/** Golden steps of one agent at one kind of moment. Its fields are the student's own business. */
export type StudentGroup = Readonly<Record<string, unknown>>;

/** What the student would say if nobody asked how sure it must be. */
export interface Proposal {
  answer: StudentAnswer | null;
  /** Why there is none; where there is an answer, why it would be if the score were above the threshold. */
  reason: UncoveredReason;
  /** Nonconformity, 0 … 1; null where none could be had. */
  score: number | null;
  support: number;
}

/** Deterministic: the same steps in the same order give the same model. */
export function fitStudent(steps: readonly LearnedStep[], options: FitOptions = {}): StudentModel {
  void steps;
  void options;
  throw new Error('to come');
}

export class Student {
  constructor(model: StudentModel, makeIndex: MakeStudentIndex) {
    void model;
    void makeIndex;
  }

  /**
   * @param threshold largest score that is covered; below 0 covers nothing
   * @param wanted `coverage`: the answer is left out (kind `http`)
   */
  decide(step: StepDigest, threshold: number, wanted: 'answer' | 'coverage' = 'answer'): StudentDecision {
    void wanted;
    void threshold;
    const { reason, score } = this.propose(step);
    return { covered: false, reason, score };
  }

  propose(step: StepDigest): Proposal {
    void step;
    return { answer: null, reason: 'unknown_agent', score: null, support: 0 };
  }
}
