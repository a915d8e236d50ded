/**
 * The capture writer: passes batches to the capture log, runs passes of postponed work (compression, the index), and
 * stops for good on request. The `capture_log` adapter does the work. Actor thread.
 *
 * With little traffic, the passes may run all the time. Under load they get a share of one core, which the log chooses
 * by the size of the backlog. The share is never zero, because the load may never pause.
 */
import { isFailureCause } from '../../src/domain/capture-cause.ts';
import { ERRORS } from '../../src/errors.ts';
import type { Behaviour, Context, Outcome, Refusal, ReplyToken } from '../../src/runtime/protocol.ts';
import type { TidyPass } from './adapter.ts';
import { type Appended, CAPTURE_WRITER_KIND, type CaptureWriterProtocol } from './protocol.ts';

/** Name of the adapter that the thread provides; see `adapter.ts`. */
export const CAPTURE_LOG_ADAPTER = 'capture_log';

interface WriterMemory {
  killed: boolean;
  /** Whether a pass is scheduled or running. */
  tidying: boolean;
  /** Whether exchanges were appended since the last pass began. */
  busy: boolean;
  /** Number of appends that are not answered yet. */
  under_way: number;
  /**
   * Start of the interval in which `exchanges` and `bytes` are counted. The interval ends with the first pass that ends
   * at least `TIDY_AFTER_MS` after this start.
   */
  since_ms: number;
  exchanges: number;
  bytes: number;
  /** Whether traffic was little in the previous interval. */
  was_calm: boolean;
}

interface WriterInternal {
  appended: Outcome<Appended, { token: ReplyToken; failure: string }>;
  done: Outcome<unknown, { token: ReplyToken; failure: string }>;
  tidy: null;
  tidied: Outcome<TidyPass>;
}

type Writer = Behaviour<CaptureWriterProtocol, WriterMemory, never, WriterInternal>;

/** Delay from an append, or from the start, to the first pass. */
const TIDY_AFTER_MS = 300;
/** Traffic counts as little if at most this many exchanges and bytes arrive within `TIDY_AFTER_MS`. */
const CALM = { exchanges: 64, bytes: 8 << 20 };
/** Pause between two passes while there is little traffic, and the minimum and maximum pause under load. */
const TIDY_PAUSE_MS = 15;
const TIDY_PAUSE_MIN_MS = 5;
const TIDY_PAUSE_MAX_MS = 1_000;
/**
 * If at least this many appends are in progress, the writer counts as behind. The passes of postponed work then get at
 * most this share of one core. A server thread sends more than three batches only if they are large, and a few appends
 * arrive during each pass.
 */
const BEHIND_APPENDS = 6;
const BEHIND_SHARE = 0.05;

const STOPPED: Refusal = {
  code: 'capture_stopped',
  message: ERRORS.capture_stopped.detail,
  retryable: false,
};

export const captureWriter: Writer = {
  kind: CAPTURE_WRITER_KIND,
  initial: () => ({
    killed: false,
    tidying: false,
    busy: false,
    under_way: 0,
    since_ms: 0,
    exchanges: 0,
    bytes: 0,
    was_calm: true,
  }),

  handlers: {
    open(memory, _message, context) {
      if (memory.killed) return context.refuse(STOPPED);
      context.io(CAPTURE_LOG_ADAPTER, 'open', null, 'done', {
        token: context.holdReply(),
        failure: 'capture_failed',
      });
      // Starts a pass even without a request, because an earlier process may have left work.
      if (memory.tidying) return;
      memory.tidying = true;
      context.setTimer('tidy', TIDY_AFTER_MS, 'tidy', null);
    },
    append(memory, message, context) {
      if (memory.killed) return context.refuse(STOPPED);
      const { bodies } = context;
      const { slabs, places, from, exchanges, queue_fill } = message;
      const input =
        places === undefined
          ? { slabs: bodies.slice(0, slabs), cells: bodies.slice(slabs), from, exchanges, queue_fill }
          : { slabs, places, from, exchanges, queue_fill };
      const carry = { token: context.holdReply(), failure: 'capture_failed' };
      context.io(CAPTURE_LOG_ADAPTER, 'append', input, 'appended', carry);
      memory.busy = true;
      memory.under_way++;
      if (!memory.tidying) {
        memory.tidying = true;
        beginCount(memory, context.monotonic_ms);
        context.setTimer('tidy', TIDY_AFTER_MS, 'tidy', null);
      }
      for (const body of bodies) memory.bytes += body.length;
      if (places !== undefined) for (let at = 1; at < places.length; at += 2) memory.bytes += places[at]!;
    },
    flush(memory, _message, context) {
      if (memory.killed) return context.refuse(STOPPED);
      context.io(CAPTURE_LOG_ADAPTER, 'flush', null, 'done', {
        token: context.holdReply(),
        failure: 'unavailable',
      });
    },
    rotate(memory, _message, context) {
      if (memory.killed) return context.refuse(STOPPED);
      context.io(CAPTURE_LOG_ADAPTER, 'rotate', null, 'done', {
        token: context.holdReply(),
        failure: 'unavailable',
      });
    },
    kill(memory, _message, context) {
      memory.killed = true;
      context.cancelTimer('tidy');
      context.io(CAPTURE_LOG_ADAPTER, 'close', null, 'done', {
        token: context.holdReply(),
        failure: 'internal',
      });
    },
    state(_memory, _message, context) {
      context.io(CAPTURE_LOG_ADAPTER, 'state', null, 'done', {
        token: context.holdReply(),
        failure: 'unavailable',
      });
    },
  },

  internal: {
    appended(memory, outcome, context) {
      memory.under_way--;
      if (outcome.ok) memory.exchanges += outcome.value.last_id - outcome.value.first_id + 1;
      answer(outcome, context);
    },
    done(_memory, outcome, context) {
      answer(outcome, context);
    },
    tidy(memory, _message, context) {
      if (memory.killed) return;
      memory.busy = false;
      context.io(CAPTURE_LOG_ADAPTER, 'tidy', null, 'tidied');
    },
    tidied(memory, outcome, context) {
      const pass = outcome.ok ? outcome.value : NOTHING_DONE;
      if (memory.killed || (pass.done === 0 && !memory.busy)) {
        memory.tidying = false;
        return;
      }
      context.setTimer('tidy', choosePause(memory, pass, context.monotonic_ms), 'tidy', null);
    },
  },
};

const NOTHING_DONE: TidyPass = { done: 0, took_ms: 0, share: BEHIND_SHARE };

/** Chooses the pause until the next pass, in milliseconds. */
function choosePause(memory: WriterMemory, pass: TidyPass, now: number): number {
  const windows = Math.max(1, (now - memory.since_ms) / TIDY_AFTER_MS);
  const isCalm = memory.exchanges <= CALM.exchanges * windows && memory.bytes <= CALM.bytes * windows;
  const mayHurry = isCalm && memory.was_calm;
  if (now - memory.since_ms >= TIDY_AFTER_MS) {
    memory.was_calm = isCalm;
    beginCount(memory, now);
  }
  if (pass.done === 0) return TIDY_AFTER_MS;
  if (mayHurry) return TIDY_PAUSE_MS;
  const share = memory.under_way >= BEHIND_APPENDS ? Math.min(pass.share, BEHIND_SHARE) : pass.share;
  const pause = pass.took_ms / share - pass.took_ms;
  return Math.min(TIDY_PAUSE_MAX_MS, Math.max(TIDY_PAUSE_MIN_MS, pause));
}

function beginCount(memory: WriterMemory, now: number): void {
  memory.since_ms = now;
  memory.exchanges = 0;
  memory.bytes = 0;
}

function answer(
  outcome: WriterInternal['done'],
  context: Context<WriterMemory, never, WriterInternal, unknown>,
): void {
  const { token, failure } = outcome.carry;
  if (outcome.ok) return context.replyTo(token, outcome.value);
  const { code, message } = outcome.error;
  // The code is the cause, by which failures are counted. The message explains the failure.
  const known = isFailureCause(code) ? code : failure;
  context.refuseTo(token, { code: known, message: message.replace(/^Error: /, ''), retryable: true });
}
