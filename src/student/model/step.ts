/**
 * A step as the student sees it: a bounded summary of what the model was asked, without what changes from request to
 * request. Golden and live steps have the same form. Pure; teaching and the student's thread.
 *
 * The summary takes in the task, the last messages and, looking back a bounded distance, the latest results and calls
 * of each tool, so a long run costs no more than a short one. Values are kept unchanged, for answers. The state is kept
 * as marks: hashes of a kind, a place and a value. The student learns which marks are informative.
 */

import type { NormalRequest } from '../../domain/turn.ts';
import { STUDENT_CORE } from './limits.ts';
import { readsOnly } from './look-calls.ts';
import type { PromptText } from './prompt-text.ts';
import { fingerprintScope, type StepExtras } from './step-extras.ts';
import { StepMarks } from './step-marks.ts';
import { StepReader, type StepSource } from './step-reader.ts';
import { ToolDates } from './tool-dates.ts';

/** A step as the student sees it. Plain JSON; STUDENT_CORE bounds all of its parts. */
export interface StepDigest {
  /** A hash of all that an agent sends unchanged with every step, as `fingerprintScope` makes it. */
  scope: string;
  /**
   * The address at which the request arrived, as `nameOrigin` names it; only for display; absent: the default upstream.
   */
  origin?: string;
  /** Hashes of the system prompt's sentences, which ignore numbers, days and months. */
  system: number[];
  /** The system prompt itself, and the time of the request (null: unknown); absent: there is no system prompt. */
  prompt?: PromptText;
  at_ms?: number | null;
  /**
   * The values in the wording of the system prompt and the task, as in `PromptValues`; absent: no values.
   */
  values?: number[];
  /**
   * What the step responds to: `task`, `said` (the user's words), or `NAME NAME!` for results; `!` marks failed calls, and
   * `×` several calls of one tool.
   */
  stage: string;
  /** API rules that the request breaks, as `findBreaches` names them. */
  breaches: string[];
  /** Why no student may answer, in words; '': a student may. */
  unsupported: string;
  /** Whether thinking is on. A tool call would then need a thinking block before it. */
  is_thinking: boolean;
  /** Names of the tools that may be called, at most 200; null: no tool may be called. */
  callable: string[] | null;
  /** Names of these tools that only read according to their descriptions (`readsOnly`); absent: none. */
  reads?: string[];
  /** Whether a tool must be called. */
  must_call: boolean;
  /** Maximum number of calls in one answer. */
  calls_max: number;
  /** null: there is no limit. */
  max_output_tokens: number | null;
  /** Whether text must be JSON that matches a schema. */
  wants_json: boolean;
  /** Number of the model's answers before this one. */
  turn: number;
  /** Marks of the state: kind, place and value of each, one after the other, as hashes; see MARK. */
  marks: number[];
  sources: StepSource[];
}

/** Longer than any label with a four-segment prefix. */
const ORIGIN_CHARACTERS = 400;

/** Makes the digest of any request in bounded time and size. Never throws. */
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
  const reads = listReadTools(request, callable);
  return {
    scope,
    ...(extras.origin === '' ? {} : { origin: extras.origin.slice(0, ORIGIN_CHARACTERS) }),
    system: reader.system,
    ...(reader.prompt.length === 0 ? {} : { prompt: reader.prompt, at_ms: extras.at_ms }),
    values: reader.values,
    stage: reader.stage,
    breaches: [...extras.breaches],
    unsupported: findUnsupported(request, extras, reader),
    is_thinking: request.thinking?.mode === 'on',
    callable: callable === null || callable.length === 0 ? null : callable.slice(0, 200),
    ...(reads.length === 0 ? {} : { reads }),
    must_call: choice?.mode === 'any' || choice?.mode === 'tool',
    calls_max: choice?.parallel === false ? 1 : STUDENT_CORE.answer_calls,
    max_output_tokens: request.max_output_tokens,
    wants_json: request.response_schema !== null,
    turn: reader.turn,
    marks: reader.marks.values,
    sources: reader.sources,
  };
}

/** The callable tools whose descriptions say that they only read. */
function listReadTools({ tools }: NormalRequest, callable: readonly string[] | null): string[] {
  if (callable === null) return [];
  const names = new Set(callable.slice(0, 200));
  return tools.flatMap((tool) =>
    tool.kind === 'function' && names.has(tool.name) && readsOnly(tool.name, tool.description.slice(0, 400))
      ? [tool.name]
      : [],
  );
}

function findUnsupported(request: NormalRequest, { unsupported }: StepExtras, reader: StepReader): string {
  const { messages } = request;
  if (messages.length === 0) return 'no messages';
  if (messages[messages.length - 1]!.role === 'assistant')
    return 'the request already contains the beginning of the answer';
  if (request.previous_answer_id !== null) return 'goes on from an answer that the provider keeps';
  if (unsupported !== '') return unsupported;
  if (reader.hasUnread) return 'holds images, documents or blocks that a student cannot read';
  return '';
}
