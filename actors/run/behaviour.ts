/**
 * A run: takes its start, its steps in any order and any number of times, and its finish, and tells its state. It scores every
 * step once and stores the answer beside it. A step that comes again is answered from storage, so
 * nothing of it stays in memory. Server threads.
 *
 * A step whose index is greater than all before is new. The run looks up any other. The host performs that io only when what was
 * recorded before is stored, so the look-up also finds a first step that is still on its way.
 *
 * Steps that have keys instead of indices are always looked up, and get the next indices where nobody knows their keys.
 */

import { outboxWrite } from '../../src/domain/audit-rows.ts';
import { findMaxScore } from '../../src/domain/evaluation.ts';
import type { LiveEvent } from '../../src/domain/live-event.ts';
import {
  applyRunEvent,
  dueIntervention,
  type RunEvent,
  type RunState,
  renderEvaluation,
  renderFinish,
  renderScores,
  renderStart,
  toTimestamp,
  totalsOf,
  UNKNOWN_RUN,
} from '../../src/domain/run.ts';
import type { RunStepRow } from '../../src/domain/run-rows.ts';
import { RUN_DELETE_STEPS } from '../../src/limits.ts';
import { maskText, maskValue } from '../../src/redaction/mask.ts';
import type { Behaviour, Context, Outcome, Refusal, ReplyToken } from '../../src/runtime/protocol.ts';
import { liveEventTell, liveForgetTell } from '../live-hub/client.ts';
import type { AnswerRequest, KnownKeysRequest } from './adapter.ts';
import {
  type KeyedStepsReply,
  type KeyedStepsRequest,
  RUN_KIND,
  RUN_REFUSALS,
  type RunProtocol,
  type RunRefusalCode,
} from './protocol.ts';
import { deletionMark, deletionRows, projectRun, stepKeyRow, stepRows, sweepRows } from './rows.ts';
import { lookAt, projectOf, type SeenStep, StepMessage, stepIndexOf } from './step-message.ts';

/** Name of the adapter that reads answers; an object with the methods of StepAnswersAdapter. */
export const STEP_ANSWERS_ADAPTER = 'step-answers';

/** A run's rows of steps, however many there are. */
const ALL_STEPS = 2 ** 31 - 1;

/** A step that is being looked up. */
interface Lookup {
  token: ReplyToken;
  step: SeenStep;
  /** Late steps that the run had when storage was asked. */
  late_steps: number;
  /** When the run had started: another one may have taken its name. */
  of: number;
}

/** Steps with keys that are being looked up. */
interface KeyLookup {
  token: ReplyToken;
  request: KeyedStepsRequest;
  /** Steps that the run had when storage was asked. */
  steps: number;
  of: number;
}

interface RunInternal {
  looked_up: Outcome<string | null, Lookup>;
  keys_looked_up: Outcome<string[], KeyLookup>;
  /** The next portion of a deletion. */
  sweep: null;
}

/** What the functions below need of a context, whatever the message's answer. */
type RunContext = Pick<
  Context<RunState, RunEvent, RunInternal, never>,
  'persist' | 'write' | 'io' | 'tell' | 'count' | 'setTimer'
>;

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
        if (state.left_to_delete !== null) return context.refuse(refusal('run_deleting', true));
        if (state.facts !== null) {
          // A finished run answers as a live one.
          if (state.fingerprint === start.fingerprint) return context.reply(renderStart(state));
          return context.refuse(refusal('run_conflict'));
        }
        if (start.is_repeat_only) return context.refuse(refusal('run_not_found'));
        const masked = { ...start, task: mask(start.task), metadata: maskMetadata(start.metadata) };
        const begun = context.persist({ type: 'start', at_ms: context.now_ms, start: masked });
        context.reply(renderStart(begun));
        context.count('started');
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
        if (!isSeen(state, projectOf(message))) return context.refuse(refusal('run_not_found'));
        if (stepIndexOf(message) <= state.last_index) {
          return lookUp(state, context.holdReply(), lookAt(message, context.now_ms), context);
        }
        if (state.finish !== null) return context.refuse(refusal('run_finished'));
        const seen = lookAt(message, context.now_ms);
        const recorded = record(state, seen, context);
        context.reply(recorded.answer);
        if (isWatched) tellStep(state, recorded, seen, context);
      },

      keyed_steps(state, request, context) {
        if (!isSeen(state, request.project_id)) return context.refuse(refusal('run_not_found'));
        lookUpKeys(state, context.holdReply(), request, context);
      },

      finish(state, { project_id, outcome }, context) {
        if (!isSeen(state, project_id)) return context.refuse(refusal('run_not_found'));
        if (state.finish !== null) {
          if (state.finish.outcome === outcome) return context.reply(renderFinish(state));
          return context.refuse(refusal('outcome_conflict'));
        }
        const finished = context.persist({ type: 'finish', at_ms: context.now_ms, outcome });
        context.reply(renderFinish(finished));
        context.count('finished');
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

      delete(state, { project_id, audit }, context) {
        if (!isSeen(state, project_id)) return context.refuse(refusal('run_not_found'));
        const isLong = state.steps > RUN_DELETE_STEPS;
        const before = state;
        const rows = [
          ...deletionRows(before, toTimestamp(context.now_ms)),
          ...(audit === null ? [] : [outboxWrite(audit)]),
        ];
        if (isLong) {
          context.persist({ type: 'deleting' });
          context.write([...rows, deletionMark(before, 'put')]);
          sweepSoon(context);
        } else {
          context.persist({ type: 'deleted' });
          context.write([...rows, ...sweepRows(before, ALL_STEPS)]);
        }
        context.reply(null);
        if (!isWatched) return;
        const { org_id, run_id } = before.facts!;
        const { to, name, payload } = liveForgetTell(org_id, { run_id });
        context.tell(to, name, payload);
      },

      wake(_state, _request, context) {
        // To be activated was all it needed.
        context.reply(null);
      },
    },

    internal: {
      sweep(state, _message, context) {
        if (state.left_to_delete === null) return;
        if (state.left_to_delete > RUN_DELETE_STEPS) {
          context.persist({ type: 'swept', steps: RUN_DELETE_STEPS });
          context.write(sweepRows(state, RUN_DELETE_STEPS));
          return sweepSoon(context);
        }
        context.persist({ type: 'deleted' });
        context.write([...sweepRows(state, ALL_STEPS), deletionMark(state, 'remove')]);
      },

      looked_up(state, outcome, context) {
        const { token, step, late_steps, of } = outcome.carry;
        // It was deleted meanwhile, and perhaps begun anew.
        if (state.facts === null || state.left_to_delete !== null || state.started_at_ms !== of)
          return context.refuseTo(token, refusal('run_not_found'));
        if (!outcome.ok) return context.refuseTo(token, outcome.error);
        if (outcome.value !== null) return context.replyTo(token, outcome.value);
        if (state.finish !== null) return context.refuseTo(token, refusal('run_finished'));
        // Another late step has been recorded since storage was asked: it may be this very one.
        if (state.late_steps !== late_steps) return lookUp(state, token, step, context);
        const recorded = record(state, step, context);
        context.replyTo(token, recorded.answer);
        if (isWatched) tellStep(state, recorded, step, context);
      },

      keys_looked_up(state, outcome, context) {
        const { token, request, steps, of } = outcome.carry;
        if (state.facts === null || state.left_to_delete !== null || state.started_at_ms !== of)
          return context.refuseTo(token, refusal('run_not_found'));
        if (!outcome.ok) return context.refuseTo(token, outcome.error);
        // Another step has been recorded since storage was asked: it may be one of these.
        if (state.steps !== steps) return lookUpKeys(state, token, request, context);
        const known = new Set(outcome.value);
        const reply: KeyedStepsReply = { recorded: 0, refused: 0 };
        let before = state;
        for (const { key, step } of request.steps) {
          if (known.has(key)) continue;
          known.add(key);
          if (state.finish !== null) {
            reply.refused += 1;
            continue;
          }
          const step_index = before.last_index + 1;
          const seen = lookAt(new StepMessage(request.project_id, { ...step, step_index }), context.now_ms);
          const recorded = record(before, seen, context);
          context.write([stepKeyRow(before, key, step_index)]);
          if (isWatched) tellStep(before, recorded, seen, context);
          before = recorded.state;
          reply.recorded += 1;
        }
        context.replyTo(token, reply);
      },
    },

    persistence: {
      apply: applyRunEvent,
      project: projectRun,
      ends: ({ type }) => type === 'deleted',
      snapshot: {
        version: 2,
        every_events: 64,
        encode: (state) => state,
        decode: decodeState,
      },
    },

    activated(state, context) {
      if (state.left_to_delete !== null) sweepSoon(context);
    },
  };
}

/** Others of the thread have their turns between two portions. */
function sweepSoon(context: Pick<RunContext, 'setTimer'>): void {
  context.setTimer('sweep', 0, 'sweep', null);
}

/** A run that is not there and one that the caller may not see are the same to him. */
function isSeen({ facts, left_to_delete }: RunState, projectId: string | null): boolean {
  return facts !== null && left_to_delete === null && (projectId === null || facts.project_id === projectId);
}

function lookUp(state: RunState, token: ReplyToken, step: SeenStep, context: RunContext): void {
  const { org_id, run_id } = state.facts!;
  const request: AnswerRequest = { org_id, run_id, step_index: step.event.step_index };
  const { late_steps, started_at_ms: of } = state;
  context.io(STEP_ANSWERS_ADAPTER, 'read', request, 'looked_up', { token, step, late_steps, of });
}

function lookUpKeys(
  state: RunState,
  token: ReplyToken,
  request: KeyedStepsRequest,
  context: RunContext,
): void {
  const { org_id, run_id } = state.facts!;
  const question: KnownKeysRequest = { org_id, run_id, keys: request.steps.map(({ key }) => key) };
  const { steps, started_at_ms: of } = state;
  context.io(STEP_ANSWERS_ADAPTER, 'findKnown', question, 'keys_looked_up', { token, request, steps, of });
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
  context.count('steps');
  for (const monitor of state.last.fired) context.count('fired', monitor);
  if (row.intervention !== undefined) context.count('interventions', row.intervention.failure_type);
  return { state, answer, at };
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

/** Bytes come out of a snapshot as a view of the whole of it. The first shape knew no deletion. */
function decodeState(data: unknown): RunState {
  const state = { left_to_delete: null, ...(data as Omit<RunState, 'left_to_delete'>) } as RunState;
  if (state.monitors === null) return state;
  return { ...state, monitors: { ...state.monitors, memory: Uint8Array.from(state.monitors.memory) } };
}

function refusal(code: RunRefusalCode, retryable = false): Refusal {
  return { code, message: RUN_REFUSALS[code], retryable };
}
