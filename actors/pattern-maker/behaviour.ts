/**
 * The pattern maker: accepts one trace, has an adapter find and store its patterns, and keeps the outcome permanently.
 * This file decides what survives a crash. Actor thread.
 *
 * Each decision is stored as an event before it takes effect. A trace is accepted when it is stored. An attempt is
 * counted before it begins, so that a trace that crashes its thread repeatedly is given up. The patterns are stored
 * before they are merged. After a crash between the merge and its event, the same texts are merged again; this finds
 * the patterns of the first merge, so no pattern is added twice.
 */

import { auditWrites } from '../../src/domain/audit-rows.ts';
import type { PatternDraft } from '../../src/domain/patterns/drafts.ts';
import { maskSecrets } from '../../src/domain/patterns/text.ts';
import {
  TRACE_LISTS,
  TRACES,
  type TraceListRow,
  type TraceRow,
  type TraceStatus,
  traceListKeys,
  traceRowKey,
  UNFINISHED_TRACES,
} from '../../src/domain/trace-rows.ts';
import { USAGE, usageKey } from '../../src/domain/usage.ts';
import type {
  Behaviour,
  Context,
  Outcome,
  Refusal,
  ReplyToken,
  RowWrite,
} from '../../src/runtime/protocol.ts';
import { liveEventTell } from '../live-hub/client.ts';
import type { MergedPattern } from './adapter.ts';
import {
  PATTERN_MAKER_KIND,
  type PatternMakerProtocol,
  type SubmitReply,
  type SubmitRequest,
  TRACE_BODIES,
} from './protocol.ts';

/** Maximum number of attempts at a trace before it is given up. An attempt that a restart interrupts counts. */
export const PATTERN_MAKER_ATTEMPTS = 5;

/** The thread's adapter: `distil` and `merge` of adapter.ts. */
export const PATTERN_MAKING_ADAPTER = 'pattern-making';

/** Delay before the second attempt. It doubles for each further attempt. */
const RETRY_AFTER_MS = 1_000;
/** Interval at which the actor checks whether the trace is done, while a further request waits for it. */
const WAIT_MS = 50;
const ERROR_CHARACTERS = 300;

export interface PatternMakerState {
  /** null: no trace was submitted yet. */
  submission: SubmitRequest | null;
  status: TraceStatus;
  submitted_at: string;
  finished_at: string | null;
  /** Number of attempts that have begun. */
  attempts: number;
  /** The patterns to merge; null before they are known, and after the merge. */
  patterns: PatternDraft[] | null;
  merged: MergedPattern[];
  error: string | null;
}

type PatternMakerEvent =
  | { type: 'submitted'; submission: SubmitRequest; at: string; body: Uint8Array }
  /** A failed trace was submitted again. */
  | { type: 'resubmitted'; at: string; body: Uint8Array }
  | { type: 'started' }
  | { type: 'distilled'; patterns: PatternDraft[] }
  | { type: 'merged'; merged: MergedPattern[]; at: string }
  | { type: 'failed'; error: string; at: string }
  /** The trace was deleted. This event removes its history. */
  | { type: 'deleted' };

interface PatternMakerInternal {
  /** Begins an attempt; `token` is the caller that waits for its outcome. */
  work: { token: ReplyToken | null };
  distilled: Outcome<PatternDraft[], Attempt>;
  merged: Outcome<MergedPattern[], Attempt>;
  waited: { token: ReplyToken };
}

/** Identifies the attempt to which an outcome belongs. */
interface Attempt {
  token: ReplyToken | null;
  /** Identifies the submission, because the trace may have been deleted and submitted again since the attempt began. */
  submitted_at: string;
}

type PatternMakerContext<Reply> = Context<PatternMakerState, PatternMakerEvent, PatternMakerInternal, Reply>;

const NO_TRACE: PatternMakerState = {
  submission: null,
  status: 'queued',
  submitted_at: '',
  finished_at: null,
  attempts: 0,
  patterns: null,
  merged: [],
  error: null,
};

const NOT_FOUND: Refusal = { code: 'trace_not_found', message: 'no such trace', retryable: false };

const CONFLICT: Refusal = {
  code: 'conflict',
  message: 'this trace_id was submitted with a different body',
  retryable: false,
};

export const patternMaker: Behaviour<
  PatternMakerProtocol,
  PatternMakerState,
  PatternMakerEvent,
  PatternMakerInternal
> = {
  kind: PATTERN_MAKER_KIND,
  initial: () => NO_TRACE,

  handlers: {
    submit(state, request, context) {
      const { submission, status } = state;
      if (submission !== null && submission.fingerprint !== request.fingerprint)
        return context.refuse(CONFLICT);
      if (submission === null || status === 'failed') {
        const at = new Date(context.now_ms).toISOString();
        // The message's memory is reused, but events keep the body.
        const body = Uint8Array.from(context.bodies[0] ?? []);
        const taken = context.persist(
          submission === null
            ? { type: 'submitted', submission: request, at, body }
            : { type: 'resubmitted', at, body },
        );
        if (request.style === 'legacy') return begin(taken, context, context.holdReply());
        context.reply(answer(taken));
        return begin(taken, context, null);
      }
      if (request.style === 'v2' || status === 'done') return context.reply(answer(state));
      wait(context, context.holdReply());
    },

    delete(state, { audit }, context) {
      if (state.submission === null) return context.refuse(NOT_FOUND);
      const { submission, submitted_at } = state;
      context.persist({ type: 'deleted' });
      context.write([
        ...deletionRows(submission, submitted_at, context.self.key),
        ...(audit === null ? [] : auditWrites(audit)),
      ]);
      context.reply(null);
    },

    wake(_state, _request, context) {
      // The message only had to activate the actor.
      context.reply(null);
    },
  },

  internal: {
    work(state, { token }, context) {
      begin(state, context, token);
    },

    distilled(state, outcome, context) {
      const { token } = outcome.carry;
      if (isGone(state, outcome.carry)) return refuseGone(context, token);
      if (!isOpen(state) || state.patterns !== null) return;
      if (!outcome.ok) return tryAgain(state, context, outcome.error, token);
      const distilled = context.persist({ type: 'distilled', patterns: outcome.value });
      merge(distilled, context, token);
    },

    merged(state, outcome, context) {
      const { token } = outcome.carry;
      if (isGone(state, outcome.carry)) return refuseGone(context, token);
      if (!isOpen(state) || state.patterns === null) return;
      if (!outcome.ok) return tryAgain(state, context, outcome.error, token);
      finish(state, context, outcome.value, token);
    },

    waited(state, { token }, context) {
      if (state.submission === null) return refuseGone(context, token);
      if (state.status === 'done') context.replyTo(token, answer(state));
      else if (state.status === 'failed') context.refuseTo(token, failure(state));
      else wait(context, token);
    },
  },

  persistence: {
    apply: applyEvent,
    project: projectEvent,
    ends: ({ type }) => type === 'deleted',
    // A trace usually has four events: submitted, started, distilled, merged. The snapshot after the last event also
    // removes the body from the journal.
    snapshot: {
      version: 1,
      every_events: 4,
      encode: (state) => state,
      decode: (data) => data as PatternMakerState,
    },
  },

  activated(state, context) {
    if (state.submission !== null && isOpen(state)) context.setTimer('work', 0, 'work', { token: null });
  },
};

/** Whether the trace was deleted during the attempt. */
function isGone({ submission, submitted_at }: PatternMakerState, attempt: Attempt): boolean {
  return submission === null || submitted_at !== attempt.submitted_at;
}

/** Tells the waiting caller that the trace was deleted. If the caller sends the trace again, it is a new trace. */
function refuseGone(context: PatternMakerContext<never>, token: ReplyToken | null): void {
  const message = 'the trace was deleted';
  if (token !== null) context.refuseTo(token, { code: 'distillation_failed', message, retryable: true });
}

function isOpen({ status }: PatternMakerState): boolean {
  return status === 'queued' || status === 'distilling';
}

/** Begins an attempt, or continues with the merge if the patterns are known. */
function begin(
  state: PatternMakerState,
  context: PatternMakerContext<never>,
  token: ReplyToken | null,
): void {
  if (state.submission === null || !isOpen(state)) return;
  if (state.attempts >= PATTERN_MAKER_ATTEMPTS) {
    const error = `gave up after ${state.attempts} attempts`;
    return giveUp(context, state.error === null ? error : `${error}: ${state.error}`, token);
  }
  const started = context.persist({ type: 'started' });
  if (started.patterns !== null) return merge(started, context, token);
  const { submitted_at } = started;
  context.io(PATTERN_MAKING_ADAPTER, 'distil', { key: context.self.key }, 'distilled', {
    token,
    submitted_at,
  });
}

function merge(
  state: PatternMakerState,
  context: PatternMakerContext<never>,
  token: ReplyToken | null,
): void {
  const { submission, patterns, submitted_at } = state;
  if (submission === null || patterns === null) return;
  if (patterns.length === 0) return finish(state, context, [], token);
  const { org_id, project_id, trace_id } = submission;
  const input = { org_id, project_id, trace_id, patterns };
  context.io(PATTERN_MAKING_ADAPTER, 'merge', input, 'merged', { token, submitted_at });
}

function finish(
  state: PatternMakerState,
  context: PatternMakerContext<never>,
  merged: MergedPattern[],
  token: ReplyToken | null,
): void {
  const at = new Date(context.now_ms).toISOString();
  const { submission, patterns } = state;
  const done = context.persist({ type: 'merged', merged, at });
  if (token !== null) context.replyTo(token, answer(done));
  const { org_id, project_id, trace_id } = submission!;
  const told = new Set<string>();
  for (const [index, { pattern_id, created }] of merged.entries()) {
    if (!created || told.has(pattern_id)) continue;
    told.add(pattern_id);
    const tell = liveEventTell({
      event: 'pattern_created',
      org_id,
      project_id,
      run_id: null,
      at,
      pattern_id,
      tier: project_id === null ? 'e2' : 'e1',
      trace_id,
      failure_type: patterns?.[index]?.failure_type ?? '',
    });
    context.tell(tell.to, tell.name, tell.payload);
  }
}

function tryAgain(
  state: PatternMakerState,
  context: PatternMakerContext<never>,
  error: Refusal,
  token: ReplyToken | null,
): void {
  if (!error.retryable || state.attempts >= PATTERN_MAKER_ATTEMPTS)
    return giveUp(context, error.message, token);
  context.setTimer('work', RETRY_AFTER_MS * 2 ** (state.attempts - 1), 'work', { token });
}

function giveUp(context: PatternMakerContext<never>, error: string, token: ReplyToken | null): void {
  const words = maskSecrets(error).slice(0, ERROR_CHARACTERS).toWellFormed();
  const failed = context.persist({
    type: 'failed',
    error: words,
    at: new Date(context.now_ms).toISOString(),
  });
  if (token !== null) context.refuseTo(token, failure(failed));
}

/** Answers a caller later, because the trace is already in progress. */
function wait(context: PatternMakerContext<never>, token: ReplyToken): void {
  context.setTimer(`wait ${token}`, WAIT_MS, 'waited', { token });
}

function answer({ status, merged }: PatternMakerState): SubmitReply {
  return { status, patterns_created: countCreated(merged) };
}

function failure({ error }: PatternMakerState): Refusal {
  return {
    code: 'distillation_failed',
    message: error ?? 'the trace could not be distilled',
    retryable: true,
  };
}

/** Counts the created patterns. Two parts of one trace may be merged into one pattern, which counts as created once. */
function countCreated(merged: readonly MergedPattern[]): number {
  return new Set(merged.filter(({ created }) => created).map(({ pattern_id }) => pattern_id)).size;
}

function applyEvent(state: PatternMakerState, event: PatternMakerEvent): PatternMakerState {
  switch (event.type) {
    case 'submitted':
      return { ...state, submission: event.submission, submitted_at: event.at };
    case 'resubmitted':
      return { ...state, status: 'queued', attempts: 0, error: null, finished_at: null };
    case 'started':
      return { ...state, status: 'distilling', attempts: state.attempts + 1 };
    case 'distilled':
      return { ...state, patterns: event.patterns };
    case 'merged':
      return { ...state, status: 'done', merged: event.merged, patterns: null, finished_at: event.at };
    case 'failed':
      return { ...state, status: 'failed', error: event.error, finished_at: event.at };
    case 'deleted':
      return NO_TRACE;
  }
}

/** Makes the rows that delete a trace. Patterns made from it are independent and stay. */
function deletionRows(submission: SubmitRequest, submittedAt: string, key: string): RowWrite[] {
  return [
    { op: 'remove', table: TRACES, row: traceRowKey(submission) },
    { op: 'remove', table: TRACE_BODIES, row: [key] },
    { op: 'remove', table: UNFINISHED_TRACES, row: [key] },
    ...traceListKeys(submission, Date.parse(submittedAt)).map(
      (row): RowWrite => ({ op: 'remove', table: TRACE_LISTS, row }),
    ),
  ];
}

function projectEvent(state: PatternMakerState, event: PatternMakerEvent, key: string): RowWrite[] {
  const { submission } = state;
  if (submission === null) return [];
  const rows: RowWrite[] = [];
  if (event.type !== 'distilled') {
    const pattern_ids = [...new Set(state.merged.map(({ pattern_id }) => pattern_id))];
    const row: TraceRow = {
      trace_id: submission.trace_id,
      project_id: submission.project_id,
      status: state.status,
      pattern_ids,
      patterns_created: countCreated(state.merged),
      error: state.error,
      submitted_at: state.submitted_at,
      finished_at: state.finished_at,
    };
    rows.push({ op: 'put', table: TRACES, row: traceRowKey(submission), value: row });
  }
  if (event.type === 'submitted' || event.type === 'resubmitted') {
    rows.push({ op: 'put', table: TRACE_BODIES, row: [key], value: event.body });
    rows.push({ op: 'put', table: UNFINISHED_TRACES, row: [key], value: 1 });
  }
  if (event.type === 'submitted') {
    const value: TraceListRow = { project_id: submission.project_id };
    for (const row of traceListKeys(submission, Date.parse(event.at)))
      rows.push({ op: 'put', table: TRACE_LISTS, row, value });
    const row = usageKey(submission.org_id, Date.parse(event.at), submission.usage_project);
    rows.push({ op: 'add', table: USAGE, row, counts: { traces: 1 } });
  }
  if (event.type === 'distilled' || event.type === 'failed') {
    rows.push({ op: 'remove', table: TRACE_BODIES, row: [key] });
  }
  if (event.type === 'merged' || event.type === 'failed') {
    rows.push({ op: 'remove', table: UNFINISHED_TRACES, row: [key] });
  }
  return rows;
}
