/**
 * A step as the student sees it: what was asked of the model, bounded, with the noise of single requests levelled. The
 * same for golden steps and live ones. Pure; analysis and the student's thread.
 */

import type { NormalRequest } from '../turn.ts';

/** What of a Messages request is not in the normal form. Made by {@link readStepExtras} for golden and live steps alike. */
export interface StepExtras {
  /** Values of `anthropic-beta`, split at commas, trimmed, sorted. */
  betas: readonly string[];
  /** Top-level fields that the normal form has no word for (temperature, top_p, stop_sequences, service_tier, …). */
  settings: Readonly<Record<string, unknown>>;
}

/** Something in the step's context that values can be taken from. */
export interface StepSource {
  /**
   * `task`: first words of the user; `said`: the latest ones, where others; `system`: the system prompt's changing lines;
   * `result:NAME`, `call:NAME`: latest result of the tool and input of its latest call; with `#1` the one before, with
   * `#first` the first one in sight.
   */
  name: string;
  /** Text of prose, else a bounded copy of the JSON. */
  value: unknown;
}

/** Plain JSON, at most STUDENT_STEP_BYTES of it, about. */
export interface StepDigest {
  /** Model, tools, settings, tool choice, thinking and response schema, as a hash. */
  scope: string;
  /** Hashes of the system prompt's sentences, their noise levelled. */
  system: number[];
  /** What the step answers: `task`, `said`, or `NAME NAME!` for results of tools, `!` a failed one. */
  stage: string;
  /** In words, why no student may answer; '' when one may. */
  unsupported: string;
  /** Thinking is on: a call of a tool would need a thinking block before it. */
  is_thinking: boolean;
  /** Names of the tools that may be called; null: no tool may be. */
  callable: string[] | null;
  /** One must be called. */
  must_call: boolean;
  /** Calls in one answer at most. */
  calls_max: number;
  /** null: as many as it likes. */
  max_output_tokens: number | null;
  /** Answers of the model before this one. */
  turn: number;
  /** Marks of the state: kind, place and value of each, one after the other, as hashes. */
  marks: number[];
  sources: StepSource[];
}

/**
 * @param body the request's parsed JSON, whatever it is
 * @param betas the `anthropic-beta` headers as they came
 */
export function readStepExtras(body: unknown, betas: readonly string[]): StepExtras {
  void body;
  return { betas, settings: {} };
}

/** Bounded in work and size for whatever request. Never throws. */
export function digestStep(request: NormalRequest, extras: StepExtras): StepDigest {
  void request;
  void extras;
  throw new Error('to come');
}
