/**
 * A run: takes its start, its steps in whatever order and however often, its finish, and says how it stands. Every
 * step is scored once, here, and its answer stored beside it: a step that comes again is answered from storage, so
 * nothing of it stays in memory. Server threads.
 *
 * Whether a step is new is known at once when its index is greater than all before. Any other is looked up: io is
 * performed only when what was recorded before is stored, so a first step that is still on its way is found too.
 */

import { findMaxScore } from '../../src/domain/evaluation.ts';
import type { LiveEvent } from '../../src/domain/live-event.ts';
import { digestStep, type MonitorStep } from '../../src/domain/monitors/digest.ts';
import { PLAIN_CHARACTERS } from '../../src/domain/monitors/quote.ts';
import {
  applyRunEvent,
  dueIntervention,
  type RunEvent,
  type RunState,
  renderEvaluation,
  renderFinish,
  renderScores,
  renderStart,
  type StepCopy,
  type StepEvent,
  toTimestamp,
  totalsOf,
  UNKNOWN_RUN,
} from '../../src/domain/run.ts';
import type { RunStepRow } from '../../src/domain/run-rows.ts';
import { STEP_COPY } from '../../src/limits.ts';
import { areFreeOfKeys, maskText, maskValue } from '../../src/redaction/mask.ts';
import type { Behaviour, Context, Outcome, Refusal, ReplyToken } from '../../src/runtime/protocol.ts';
import { liveEventTell } from '../live-hub/client.ts';
import type { AnswerRequest } from './adapter.ts';
import { RUN_KIND, RUN_REFUSALS, type RunProtocol, type RunRefusalCode, readStep } from './protocol.ts';
import { projectRun, stepRows } from './rows.ts';

/** Name of the port that reads answers; an object with the methods of StepAnswersAdapter. */
export const STEP_ANSWERS_ADAPTER = 'step-answers';

const COPIED = Object.entries(STEP_COPY) as [keyof StepCopy, number][];
/** How far beyond a cut a secret is looked for: longer than any key, and most tokens. */
const SECRET_MARGIN = PLAIN_CHARACTERS;

/** A step as far as it has been looked at: what is journaled of it, and what its row says. */
interface SeenStep {
  event: StepEvent;
  copy: StepCopy;
}

/** A step that is being looked up. */
interface Lookup {
  token: ReplyToken;
  step: SeenStep;
  /** Late steps that the run had when storage was asked. */
  late_steps: number;
}

interface RunInternal {
  looked_up: Outcome<string | null, Lookup>;
}

/** What the functions below need of a context, whatever the message's answer. */
type RunContext = Pick<Context<RunState, RunEvent, RunInternal, never>, 'persist' | 'write' | 'io' | 'tell'>;

type Run = Behaviour<RunProtocol, RunState, RunEvent, RunInternal>;

export const run: Run = createRun(true);

/** Where nobody can read the live stream: the same, and tells no hub. */
export const unwatchedRun: Run = createRun(false);

function createRun(isWatched: boolean): Run {
  return {
    kind: RUN_KIND,
    initial: () => UNKNOWN_RUN,

    handlers: {
      start(state, start, context) {
        if (state.facts !== null) {
          // A finished run answers as a live one.
          if (state.fingerprint === start.fingerprint) return context.reply(renderStart(state));
          return context.refuse(refusal('run_conflict'));
        }
        const masked = { ...start, task: mask(start.task), metadata: maskMetadata(start.metadata) };
        const begun = context.persist({ type: 'start', at_ms: context.now_ms, start: masked });
        context.reply(renderStart(begun));
        if (!isWatched) return;
        const { org_id, project_id, run_id, agent_name, model, framework, task_profile } = start.facts;
        tellLive(context, {
          event: 'run_start',
          org_id,
          project_id,
          run_id,
          at: toTimestamp(begun.started_at_ms),
          agent_name,
          model,
          framework,
          task_profile,
        });
      },

      step(state, message, context) {
        const { project_id, step } = readStep(message);
        if (!isSeen(state, project_id)) return context.refuse(refusal('run_not_found'));
        if (step.step_index <= state.last_index) {
          return lookUp(state, context.holdReply(), look(step, context.now_ms), context);
        }
        if (state.finish !== null) return context.refuse(refusal('run_finished'));
        const seen = look(step, context.now_ms);
        const recorded = record(state, seen, context);
        context.reply(recorded.answer);
        if (isWatched) tellStep(state, recorded, seen, context);
      },

      finish(state, { project_id, outcome }, context) {
        if (!isSeen(state, project_id)) return context.refuse(refusal('run_not_found'));
        if (state.finish !== null) {
          if (state.finish.outcome === outcome) return context.reply(renderFinish(state));
          return context.refuse(refusal('outcome_conflict'));
        }
        const finished = context.persist({ type: 'finish', at_ms: context.now_ms, outcome });
        context.reply(renderFinish(finished));
        if (isWatched) tellFinish(finished, context);
      },

      totals(state, { project_id }, context) {
        if (!isSeen(state, project_id)) return context.refuse(refusal('run_not_found'));
        context.reply(totalsOf(state));
      },

      evaluate(state, { project_id }, context) {
        if (!isSeen(state, project_id)) return context.refuse(refusal('run_not_found'));
        const due = dueIntervention(state);
        if (due !== null && state.told_at === null) context.persist({ type: 'told' });
        context.reply({
          json: renderEvaluation(state),
          inject: due !== null,
          steps: state.steps,
          project_id: state.facts!.project_id,
        });
      },
    },

    internal: {
      looked_up(state, outcome, context) {
        const { token, step, late_steps } = outcome.carry;
        if (!outcome.ok) return context.refuseTo(token, outcome.error);
        if (outcome.value !== null) return context.replyTo(token, outcome.value);
        if (state.finish !== null) return context.refuseTo(token, refusal('run_finished'));
        // Another late step has been recorded since storage was asked: it may be this very one.
        if (state.late_steps !== late_steps) return lookUp(state, token, step, context);
        const recorded = record(state, step, context);
        context.replyTo(token, recorded.answer);
        if (isWatched) tellStep(state, recorded, step, context);
      },
    },

    persistence: {
      apply: applyRunEvent,
      project: projectRun,
      snapshot: {
        version: 1,
        every_events: 64,
        encode: (state) => state,
        decode: decodeState,
      },
    },
  };
}

/** A run that is not there and one that the caller may not see are the same to him. */
function isSeen({ facts }: RunState, projectId: string | null): boolean {
  return facts !== null && (projectId === null || facts.project_id === projectId);
}

function lookUp(state: RunState, token: ReplyToken, step: SeenStep, context: RunContext): void {
  const { org_id, run_id } = state.facts!;
  const request: AnswerRequest = { org_id, run_id, step_index: step.event.step_index };
  const { late_steps } = state;
  context.io(STEP_ANSWERS_ADAPTER, 'read', request, 'looked_up', { token, step, late_steps });
}

function look(step: MonitorStep, atMs: number): SeenStep {
  // Nearly all steps are: then there is nothing to mask, in the copy or in what is quoted.
  const isPlain = areFreeOfKeys(COPIED.map(([field, units]) => step[field].slice(0, units + SECRET_MARGIN)));
  const copy = {} as StepCopy;
  for (const [field, units] of COPIED)
    copy[field] = isPlain ? cut(step[field], units) : cutMasked(step[field], units);
  const { step_index, is_error, tokens } = step;
  const digest = digestStep(step, isPlain);
  return { event: { type: 'step', at_ms: atMs, step_index, is_error, tokens, digest }, copy };
}

/** A step that is recorded. */
interface RecordedStep {
  /** After it. */
  state: RunState;
  /** What its caller gets, now and whenever it comes again. */
  answer: string;
  /** When it came. */
  at: string;
}

/** Records a step with its rows. */
function record(before: RunState, { event, copy }: SeenStep, context: RunContext): RecordedStep {
  const state = context.persist(event);
  const answer = renderScores(state.last);
  const at = toTimestamp(event.at_ms);
  const { is_error, tokens } = event;
  const { intervention } = state;
  const row: RunStepRow = { answer, at, is_error, tokens, copy };
  if (intervention !== null && intervention !== before.intervention) row.intervention = intervention;
  context.write(stepRows(state, event, row));
  return { state, answer, at };
}

/** Masked before it is cut, or a secret at the cut would lose the shape by which it is known. */
function cutMasked(text: string, units: number): string {
  if (text.length <= units) return mask(text);
  const masked = mask(text.slice(0, units + SECRET_MARGIN));
  return masked.slice(0, units).toWellFormed();
}

function cut(text: string, units: number): string {
  return text.length <= units ? text : text.slice(0, units).toWellFormed();
}

function mask(text: string): string {
  return maskText(text);
}

/** @param json an object, or '' for none */
function maskMetadata(json: string): string {
  return json === '' ? '' : JSON.stringify(maskValue(JSON.parse(json)));
}

function tellStep(
  before: RunState,
  { state, at }: RecordedStep,
  { event, copy }: SeenStep,
  context: RunContext,
): void {
  const { last, facts, intervention } = state;
  const { org_id, project_id, run_id } = facts!;
  const { scores, total_score, fired } = last;
  const { step_index, is_error, tokens } = event;
  tellLive(context, {
    event: 'step',
    org_id,
    project_id,
    run_id,
    at,
    step_index,
    action: copy.action,
    is_error,
    tokens,
    scores,
    total_score,
    fired,
    max_score: findMaxScore(scores),
    alarm: fired.length > 0,
  });
  if (intervention === null || intervention === before.intervention) return;
  const { failure_type, level } = intervention;
  tellLive(context, {
    event: 'intervention',
    org_id,
    project_id,
    run_id,
    at,
    step_index,
    failure_type,
    level,
    fired,
  });
}

function tellFinish(finished: RunState, context: RunContext): void {
  const { org_id, project_id } = finished.facts!;
  const at = toTimestamp(finished.finish!.at_ms);
  tellLive(context, { event: 'run_finish', org_id, project_id, at, ...totalsOf(finished) });
}

function tellLive(context: RunContext, event: LiveEvent): void {
  const { to, name, payload } = liveEventTell(event);
  context.tell(to, name, payload);
}

/** Bytes come out of a snapshot as a view of the whole of it. */
function decodeState(data: unknown): RunState {
  const state = data as RunState;
  if (state.monitors === null) return state;
  return { ...state, monitors: { ...state.monitors, memory: Uint8Array.from(state.monitors.memory) } };
}

function refusal(code: RunRefusalCode): Refusal {
  return { code, message: RUN_REFUSALS[code], retryable: false };
}
