/**
 * The actor of a run. It accepts the run's start, steps and finish, and reports the run's state. Steps may come in any
 * order and more than once. The actor scores every step once and stores the answer with the step. It answers a repeated
 * step from storage, so no step stays in memory. Server threads.
 *
 * A step with a greater index than all earlier steps is new. Any other step is looked up. The host performs the look-up
 * only after earlier events are stored, so the look-up also finds a step whose first copy is still being stored.
 *
 * Steps reported by telemetry are always looked up. Calls that have not been reported yet get the next indices.
 */

import { outboxWrite } from '../../src/domain/audit-rows.ts';
import { findMaxScore } from '../../src/domain/evaluation.ts';
import type { LiveEvent } from '../../src/domain/live-event.ts';
import { restoreMemory } from '../../src/domain/monitors/memory.ts';
import {
  type CallReport,
  countNamesOf,
  type ReportCounts,
  takeReport,
} from '../../src/domain/reported-calls.ts';
import {
  applyRunEvent,
  dueIntervention,
  packScores,
  type RunEvent,
  type RunState,
  renderEvaluation,
  renderFinish,
  renderScores,
  renderStart,
  type StepEvent,
  toTimestamp,
  totalsOf,
  UNKNOWN_RUN,
} from '../../src/domain/run.ts';
import type { RunStepRow } from '../../src/domain/run-rows.ts';
import { maskText, maskValue } from '../../src/redaction/mask.ts';
import type {
  Behaviour,
  Context,
  Outcome,
  Refusal,
  ReplyToken,
  RowWrite,
} from '../../src/runtime/protocol.ts';
import { parseExact } from '../../src/std/exact-json.ts';
import { packZeroRuns, unpackZeroRuns } from '../../src/std/zero-runs.ts';
import { liveEventTell, liveForgetTell } from '../live-hub/client.ts';
import type { AnswerRequest, GatheredSteps, GatherRequest, KnownKey, KnownKeysRequest } from './adapter.ts';
import { type PackedState, packState, unpackState } from './packed-state.ts';
import {
  type KeyedStep,
  type KeyedStepsReply,
  type KeyedStepsRequest,
  RUN_KIND,
  RUN_REFUSALS,
  type RunProtocol,
  type RunRefusalCode,
} from './protocol.ts';
import {
  deletionMark,
  deletionRows,
  gatheredRows,
  projectRun,
  removeTotals,
  stepKeyRow,
  stepRows,
  sweepRows,
  totalsRow,
} from './rows.ts';
import { packStep, projectOf, type RecordableStep, stepIndexOf, unpackStep } from './step-message.ts';

/**
 * Maximum number of steps that one transaction deletes. A longer run is deleted in several transactions, and is hidden
 * from the first on.
 */
export const RUN_DELETE_STEPS = 1_000;

/** Name of the adapter that reads answers; its object has the methods of StepAnswersAdapter. */
export const STEP_ANSWERS_ADAPTER = 'step-answers';

/** A limit that is larger than the number of step rows of any run. */
const ALL_STEPS = 2 ** 31 - 1;

/** A step that is being looked up. */
interface Lookup {
  token: ReplyToken;
  step: RecordableStep;
  /** The run's number of late steps when the look-up was sent. */
  late_steps: number;
  /** Start time of the run, to detect a new run with the same id. */
  of: number;
}

/** Reported steps that are being looked up. */
interface KeyLookup {
  token: ReplyToken;
  request: KeyedStepsRequest;
  /** The run's number of reports when the look-up was sent. */
  reports: number;
  of: number;
}

interface RunInternal {
  looked_up: Outcome<string | null, Lookup>;
  keys_looked_up: Outcome<KnownKey[], KeyLookup>;
  /** The outcome of gathering steps, with the start time of the run. */
  gathered: Outcome<GatheredSteps | null, number>;
  /** Deletes the next portion of the run. */
  sweep: null;
}

/** The methods of a context that do not depend on the type of the answer. */
type RunContext = Pick<
  Context<RunState, RunEvent, RunInternal, never>,
  'persist' | 'write' | 'io' | 'tell' | 'count' | 'setTimer' | 'now_ms'
>;

type Run = Behaviour<RunProtocol, RunState, RunEvent, RunInternal>;

interface RunOptions {
  /** Whether there is a live stream. Otherwise runs send no messages to a hub. */
  is_watched: boolean;
  /** Whether each step stores the totals so far, for readers on other boxes. */
  keeps_totals: boolean;
}

export const run: Run = runOf({ is_watched: true, keeps_totals: false });

export function runOf(options: RunOptions): Run {
  return {
    kind: RUN_KIND,
    initial: () => UNKNOWN_RUN,

    handlers: { ...stepHandlers(options), ...endHandlers(options), ...deletionHandlers(options) },
    internal: lookupHandlers(options),

    persistence: {
      apply: applyRunEvent,
      project: projectRun,
      ends: ({ type }) => type === 'deleted',
      encodeEvent,
      decodeEvent,
      snapshot: {
        version: 4,
        every_events: 64,
        // A finished run has no monitors, so its snapshot is smaller than its steps' events.
        isDue: ({ finish }) => finish !== null,
        encode: encodeState,
        decode: decodeState,
      },
    },

    activated(state, context) {
      if (state.left_to_delete !== null) sweepSoon(context);
    },
  };
}

type Handlers = Run['handlers'];

function stepHandlers(options: RunOptions): Pick<Handlers, 'start' | 'step' | 'keyed_steps'> {
  return {
    start(state, start, context) {
      if (state.left_to_delete !== null) return context.refuse(refusal('run_deleting', true));
      if (state.facts !== null) {
        // The answer is the same for a finished run.
        if (state.fingerprint === start.fingerprint) return context.reply(renderStart(state));
        return context.refuse(refusal('run_conflict'));
      }
      if (start.is_repeat_only) return context.refuse(refusal('run_not_found'));
      const masked = { ...start, task: mask(start.task), metadata: maskMetadata(start.metadata) };
      const begun = context.persist({ type: 'start', at_ms: context.now_ms, start: masked });
      context.reply(renderStart(begun));
      context.count('started');
      if (!options.is_watched) return;
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
        return lookUp(state, context.holdReply(), unpackStep(message, context.now_ms), context);
      }
      if (state.finish !== null) return context.refuse(refusal('run_finished'));
      const seen = unpackStep(message, context.now_ms);
      const recorded = record(state, seen, context, options);
      context.reply(recorded.answer);
      if (options.is_watched) tellStep(state, recorded, seen, context);
    },

    keyed_steps(state, request, context) {
      if (!isSeen(state, request.project_id)) return context.refuse(refusal('run_not_found'));
      if (request.model !== '' && state.facts!.model === '')
        context.persist({ type: 'named', model: request.model });
      lookUpKeys(state, context.holdReply(), request, context);
    },
  };
}

function endHandlers(options: RunOptions): Pick<Handlers, 'finish' | 'totals' | 'evaluate'> {
  return {
    finish(state, { project_id, outcome }, context) {
      if (!isSeen(state, project_id)) return context.refuse(refusal('run_not_found'));
      if (state.finish !== null) {
        if (state.finish.outcome === outcome) return context.reply(renderFinish(state));
        return context.refuse(refusal('outcome_conflict'));
      }
      const finished = context.persist({ type: 'finish', at_ms: context.now_ms, outcome });
      context.reply(renderFinish(finished));
      context.count('finished');
      if (options.keeps_totals) context.write([removeTotals(finished)]);
      gatherAfter(finished, -1, context);
      if (options.is_watched) tellFinish(finished, context);
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
  };
}

function deletionHandlers(options: RunOptions): Pick<Handlers, 'delete' | 'wake'> {
  return {
    delete(state, { project_id, audit }, context) {
      if (!isSeen(state, project_id)) return context.refuse(refusal('run_not_found'));
      const isLong = state.steps > RUN_DELETE_STEPS;
      const before = state;
      const rows = [
        ...deletionRows(before, toTimestamp(context.now_ms)),
        ...(options.keeps_totals ? [removeTotals(before)] : []),
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
      if (!options.is_watched) return;
      const { org_id, run_id } = before.facts!;
      const { to, name, payload } = liveForgetTell(org_id, { run_id });
      context.tell(to, name, payload);
    },

    wake(_state, _request, context) {
      // The message only had to activate the actor.
      context.reply(null);
    },
  };
}

/** Handles the answers of storage, and the next portion of a deletion. */
function lookupHandlers(options: RunOptions): Run['internal'] {
  return {
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
      // The run was deleted in the meantime, and perhaps started again.
      if (state.facts === null || state.left_to_delete !== null || state.started_at_ms !== of)
        return context.refuseTo(token, refusal('run_not_found'));
      if (!outcome.ok) return context.refuseTo(token, outcome.error);
      if (outcome.value !== null) return context.replyTo(token, outcome.value);
      if (state.finish !== null) return context.refuseTo(token, refusal('run_finished'));
      // Another late step was recorded after the look-up was sent. It may be the same step.
      if (state.late_steps !== late_steps) return lookUp(state, token, step, context);
      const recorded = record(state, step, context, options);
      context.replyTo(token, recorded.answer);
      if (options.is_watched) tellStep(state, recorded, step, context);
    },

    keys_looked_up(state, outcome, context) {
      const { token, request, reports, of } = outcome.carry;
      if (state.facts === null || state.left_to_delete !== null || state.started_at_ms !== of)
        return context.refuseTo(token, refusal('run_not_found'));
      if (!outcome.ok) return context.refuseTo(token, outcome.error);
      // Other reports were recorded after the look-up was sent. They may be the same reports.
      if (state.reports !== reports) return lookUpKeys(state, token, request, context);
      context.replyTo(token, recordReported(state, request, outcome.value, context, options));
    },

    gathered(state, { carry: of, ...outcome }, context) {
      // After a failure, the steps stay in their rows.
      if (!outcome.ok || outcome.value === null) return;
      // The run was deleted in the meantime, and perhaps started again.
      if (state.finish === null || state.started_at_ms !== of) return;
      context.persist({ type: 'gathered' });
      context.write(gatheredRows(state, outcome.value));
      if (!outcome.value.is_end) gatherAfter(state, outcome.value.last, context);
    },
  };
}

/**
 * Begins to move the next steps of a finished run into one row, where they take less space (gathered-steps.ts). The
 * handler `gathered` moves them when they have been read.
 */
function gatherAfter(state: RunState, after: number, context: RunContext): void {
  const { org_id, run_id } = state.facts!;
  const request: GatherRequest = { org_id, run_id, after };
  context.io(STEP_ANSWERS_ADAPTER, 'gather', request, 'gathered', state.started_at_ms);
}

/** Continues the deletion in a later tick, so that other actors run in between. */
function sweepSoon(context: Pick<RunContext, 'setTimer'>): void {
  context.setTimer('sweep', 0, 'sweep', null);
}

/**
 * Whether the caller may see the run. If not, the answer is the same as for a missing run.
 * @param projectId the project to which the caller is limited; null: no limit
 */
function isSeen({ facts, left_to_delete }: RunState, projectId: string | null): boolean {
  return facts !== null && left_to_delete === null && (projectId === null || facts.project_id === projectId);
}

function lookUp(state: RunState, token: ReplyToken, step: RecordableStep, context: RunContext): void {
  const { org_id, run_id } = state.facts!;
  const is_finished = state.finish !== null;
  const request: AnswerRequest = { org_id, run_id, step_index: step.event.step_index, is_finished };
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
  const keys = request.steps.flatMap((step) => [step.key, ...countNamesOf(reportOf(step))]);
  const question: KnownKeysRequest = { org_id, run_id, keys: [...new Set(keys)] };
  const { reports, started_at_ms: of } = state;
  context.io(STEP_ANSWERS_ADAPTER, 'findKnown', question, 'keys_looked_up', { token, request, reports, of });
}

function reportOf({ key, told_by, call, step }: KeyedStep): CallReport {
  return { key, told_by, call, tool: step.action };
}

function countsOf(report: CallReport, values: ReadonlyMap<string, KnownKey[1]>): ReportCounts {
  const counts: ReportCounts = new Map();
  for (const name of countNamesOf(report)) {
    const count = values.get(name);
    if (typeof count === 'object') counts.set(name, count);
  }
  return counts;
}

/**
 * Records the reported calls that are new, in order.
 * @param known the rows of reports that storage already has
 */
function recordReported(
  state: RunState,
  { steps, project_id }: KeyedStepsRequest,
  known: readonly KnownKey[],
  context: RunContext,
  options: RunOptions,
): KeyedStepsReply {
  const values = new Map(known);
  const rows: RowWrite[] = [];
  const put = (key: string, value: KnownKey[1]): void => {
    values.set(key, value);
    rows.push(stepKeyRow(state, key, value));
  };
  const reply: KeyedStepsReply = { recorded: 0, refused: 0 };
  let before = state;
  for (const keyed of steps) {
    const report = reportOf(keyed);
    if (values.has(report.key)) continue;
    const counts = countsOf(report, values);
    const isKnown = takeReport(report, counts);
    if (!isKnown && state.finish !== null) {
      reply.refused += 1;
      values.set(report.key, -1);
      continue;
    }
    for (const [name, count] of counts) put(name, count);
    const step_index = isKnown ? before.last_index : before.last_index + 1;
    put(report.key, step_index);
    if (isKnown) continue;
    const seen = unpackStep(packStep(project_id, { ...keyed.step, step_index }), context.now_ms);
    const recorded = record(before, seen, context, options);
    if (options.is_watched) tellStep(before, recorded, seen, context);
    before = recorded.state;
    reply.recorded += 1;
  }
  if (rows.length === 0) return reply;
  context.persist({ type: 'reported' });
  context.write(rows);
  return reply;
}

/** A recorded step. */
interface RecordedStep {
  /** The run's state after the step. */
  state: RunState;
  /** The answer to the caller, and to each repetition of the step. */
  answer: string;
  /** When the step was recorded, RFC 3339. */
  at: string;
}

/** Records a step with its rows. */
function record(
  before: RunState,
  { event, copy }: RecordableStep,
  context: RunContext,
  { keeps_totals }: RunOptions,
): RecordedStep {
  const state = context.persist(event);
  const answer = renderScores(state.last);
  const at = toTimestamp(event.at_ms);
  const { is_error, tokens } = event;
  const { intervention } = state;
  const row: RunStepRow = { answer: packScores(state.last), at, is_error, tokens, copy };
  if (intervention !== null && intervention !== before.intervention) row.intervention = intervention;
  context.write(stepRows(state, event, row));
  if (keeps_totals) context.write([totalsRow(state)]);
  context.count('steps');
  for (const monitor of state.last.fired) context.count('fired', monitor);
  if (row.intervention !== undefined) context.count('interventions', row.intervention.failure_type);
  return { state, answer, at };
}

function mask(text: string): string {
  return maskText(text);
}

/** Masks secrets in the metadata of a run. @param json an object, or an empty text, which stays empty */
function maskMetadata(json: string): string {
  return json === '' ? '' : JSON.stringify(maskValue(parseExact(json)));
}

function tellStep(
  before: RunState,
  { state, at }: RecordedStep,
  { event, copy }: RecordableStep,
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

/** Snapshots of version 1 lack `left_to_delete`, and those of version 2 may lack `reports`. */
function decodeState(data: unknown, version: number): RunState {
  if (Array.isArray(data)) return unpackState(data as PackedState);
  const state = { left_to_delete: null, reports: 0, ...(data as Partial<RunState>) } as RunState;
  if (state.monitors === null) return state;
  const { memory, memory_bytes, ...monitors } = state.monitors as StoredMonitors;
  const whole = version < 3 ? memory : unpackZeroRuns(memory, memory_bytes);
  return { ...state, monitors: { ...monitors, memory: restoreMemory(whole) } };
}

/** From version 3 on: the monitors' memory without its zeros, which are most of it in a short run. */
type StoredMonitors = NonNullable<RunState['monitors']> & { memory_bytes: number };

function encodeState(state: RunState): unknown {
  const { monitors } = state;
  if (monitors === null) return packState(state) ?? state;
  const { memory } = monitors;
  return {
    ...state,
    monitors: {
      ...monitors,
      memory: packZeroRuns(memory),
      memory_bytes: memory.length,
    } satisfies StoredMonitors,
  };
}

/**
 * A step's features without the zeros, which are four fifths of the bytes. Events of former versions lack
 * `feature_bytes`.
 */
type StoredDigest = StepEvent['digest'] & { feature_bytes?: number };

function encodeEvent(event: RunEvent): unknown {
  if (event.type !== 'step') return event;
  const { features } = event.digest;
  const digest: StoredDigest = {
    ...event.digest,
    features: packZeroRuns(features),
    feature_bytes: features.length,
  };
  return { ...event, digest };
}

function decodeEvent(stored: unknown): RunEvent {
  const event = stored as RunEvent;
  if (event.type !== 'step') return event;
  const { feature_bytes, ...digest } = event.digest as StoredDigest;
  if (feature_bytes === undefined) return event;
  return { ...event, digest: { ...digest, features: unpackZeroRuns(digest.features, feature_bytes) } };
}

function refusal(code: RunRefusalCode, retryable = false): Refusal {
  return { code, message: RUN_REFUSALS[code], retryable };
}
