/**
 * A step as the student sees it: what was asked of the model, bounded, with the noise of single requests levelled. The
 * same for golden steps and live ones. Pure; analysis and the student's thread.
 *
 * It reads the task, the last messages and, going back a bounded way, the latest results and calls of each tool, so a
 * long run costs no more than a short one. It keeps values as they are, for answers. It keeps the state as marks: hashes
 * of a kind, a place and a value. The student learns which marks tell something.
 */

import type { NormalRequest } from '../../domain/turn.ts';
import { STUDENT_CORE } from '../../limits.ts';
import { fingerprintScope, type StepExtras } from './step-extras.ts';
import { StepMarks } from './step-marks.ts';
import { StepReader, type StepSource } from './step-reader.ts';
import { ToolDates } from './tool-dates.ts';

/** Plain JSON, some 16 KB of it at most. */
export interface StepDigest {
  /** Model, tools, settings, tool choice, thinking and response schema, as a hash. */
  scope: string;
  /** Where it came in, for people, as `nameOrigin` names it; left out: the default upstream. */
  origin?: string;
  /** Hashes of the system prompt's sentences, their noise levelled. */
  system: number[];
  /** The values in the wording of the system prompt and the task, as `PromptValues` has them; left out: there are none. */
  values?: number[];
  /** What the step answers: `task`, `said`, or `NAME NAME!` for results of tools, `!` a failed one. */
  stage: string;
  /** Rules of the API that the request breaks, as `findBreaches` names them. */
  breaches: string[];
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
  /** Text must be JSON of a schema. */
  wants_json: boolean;
  /** Answers of the model before this one. */
  turn: number;
  /** Marks of the state: kind, place and value of each, one after the other, as hashes; see MARK. */
  marks: number[];
  sources: StepSource[];
}

/** A label and a prefix of four segments are shorter. */
const ORIGIN_CHARACTERS = 400;

/** Bounded in work and size for whatever request. Never throws. */
export function digestStep(request: NormalRequest, extras: StepExtras, marks = new StepMarks()): StepDigest {
  const dates = new ToolDates(extras.at_ms);
  const scope = fingerprintScope(request, extras, dates);
  const reader = new StepReader(request, extras.at_ms, marks, [...dates.told]);
  const choice = request.tool_choice;
  const names = request.tools.flatMap((tool) => (tool.kind === 'function' ? [tool.name] : []));
  const callable =
    choice?.mode === 'none'
      ? null
      : choice !== null && choice.names.length > 0
        ? names.filter((name) => choice.names.includes(name))
        : names;
  return {
    scope,
    ...(extras.origin === '' ? {} : { origin: extras.origin.slice(0, ORIGIN_CHARACTERS) }),
    system: reader.system,
    values: reader.values,
    stage: reader.stage,
    breaches: [...extras.breaches],
    unsupported: findUnsupported(request, extras, reader),
    is_thinking: request.thinking?.mode === 'on',
    callable: callable === null || callable.length === 0 ? null : callable.slice(0, 200),
    must_call: choice?.mode === 'any' || choice?.mode === 'tool',
    calls_max: choice?.parallel === false ? 1 : STUDENT_CORE.answer_calls,
    max_output_tokens: request.max_output_tokens,
    wants_json: request.response_schema !== null,
    turn: reader.turn,
    marks: reader.marks.values,
    sources: reader.sources,
  };
}

function findUnsupported(request: NormalRequest, { unsupported }: StepExtras, reader: StepReader): string {
  const { messages } = request;
  if (messages.length === 0) return 'no messages';
  if (messages[messages.length - 1]!.role === 'assistant') return 'the answer is begun already';
  if (request.previous_answer_id !== null) return 'goes on from an answer that the provider keeps';
  if (unsupported !== '') return unsupported;
  if (reader.hasUnread) return 'holds images, documents or blocks that a student cannot read';
  return '';
}
