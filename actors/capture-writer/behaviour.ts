/**
 * The capture writer: passes batches on to the capture log, tidies up (compression that was put off, the index) while
 * little else is to do, and stops for good when it is told to. All its work is done by the `capture_log` port. Actor
 * thread.
 */
import type { Behaviour, Context, Outcome, Refusal, ReplyToken } from '../../src/runtime/protocol.ts';
import { CAPTURE_WRITER_KIND, type CaptureWriterProtocol } from './protocol.ts';

/** Name of the port that the thread provides; see `port.ts`. */
export const CAPTURE_LOG_PORT = 'capture_log';

interface WriterMemory {
  killed: boolean;
  /** A tidying pass is set or under way. */
  tidying: boolean;
  /** Appends since the last tidying pass. */
  busy: boolean;
  /** What has come since then, for `TIDY_AFTER_MS` at least: under load tidying waits. */
  since_ms: number;
  exchanges: number;
  bytes: number;
}

interface WriterInternal {
  appended: Outcome<{ first_id: number; last_id: number }, { token: ReplyToken; failure: string }>;
  done: Outcome<unknown, { token: ReplyToken; failure: string }>;
  tidy: null;
  tidied: Outcome<number>;
}

type Writer = Behaviour<CaptureWriterProtocol, WriterMemory, never, WriterInternal>;

/** Tidying begins this long after an append or the start, and waits as long again when too much has come by then. */
const TIDY_AFTER_MS = 300;
/** Too much in that time: more than this. Agents together may never pause, so a pause is not waited for. */
const CALM = { exchanges: 64, bytes: 8 << 20 };
/** Breath between two passes over a backlog. */
const TIDY_PAUSE_MS = 15;

const STOPPED: Refusal = {
  code: 'capture_stopped',
  message: 'The capture writer was stopped; it starts again with the process',
  retryable: false,
};

export const captureWriter: Writer = {
  kind: CAPTURE_WRITER_KIND,
  initial: () => ({ killed: false, tidying: false, busy: false, since_ms: 0, exchanges: 0, bytes: 0 }),

  handlers: {
    open(memory, _message, context) {
      if (memory.killed) return context.refuse(STOPPED);
      context.io(CAPTURE_LOG_PORT, 'open', null, 'done', {
        token: context.holdReply(),
        failure: 'capture_failed',
      });
      // An earlier process may have left work behind, and nothing says that a request ever comes.
      if (memory.tidying) return;
      memory.tidying = true;
      context.setTimer('tidy', TIDY_AFTER_MS, 'tidy', null);
    },
    append(memory, message, context) {
      if (memory.killed) return context.refuse(STOPPED);
      const { bodies } = context;
      const input = { slabs: bodies.slice(0, message.slabs), cells: bodies.slice(message.slabs) };
      const carry = { token: context.holdReply(), failure: 'capture_failed' };
      context.io(CAPTURE_LOG_PORT, 'append', input, 'appended', carry);
      memory.busy = true;
      if (!memory.tidying) {
        memory.tidying = true;
        beginCount(memory, context.monotonic_ms);
        context.setTimer('tidy', TIDY_AFTER_MS, 'tidy', null);
      }
      for (const body of bodies) memory.bytes += body.length;
    },
    flush(memory, _message, context) {
      if (memory.killed) return context.refuse(STOPPED);
      context.io(CAPTURE_LOG_PORT, 'flush', null, 'done', {
        token: context.holdReply(),
        failure: 'unavailable',
      });
    },
    rotate(memory, _message, context) {
      if (memory.killed) return context.refuse(STOPPED);
      context.io(CAPTURE_LOG_PORT, 'rotate', null, 'done', {
        token: context.holdReply(),
        failure: 'unavailable',
      });
    },
    kill(memory, _message, context) {
      memory.killed = true;
      context.cancelTimer('tidy');
      context.io(CAPTURE_LOG_PORT, 'close', null, 'done', {
        token: context.holdReply(),
        failure: 'internal',
      });
    },
    state(_memory, _message, context) {
      context.io(CAPTURE_LOG_PORT, 'state', null, 'done', {
        token: context.holdReply(),
        failure: 'unavailable',
      });
    },
  },

  internal: {
    appended(memory, outcome, context) {
      if (outcome.ok) memory.exchanges += outcome.value.last_id - outcome.value.first_id + 1;
      answer(outcome, context);
    },
    done(_memory, outcome, context) {
      answer(outcome, context);
    },
    tidy(memory, _message, context) {
      if (memory.killed) return;
      const isCalm = memory.exchanges <= CALM.exchanges && memory.bytes <= CALM.bytes;
      const now = context.monotonic_ms;
      // What comes between two passes, 15 ms apart, is little under any load.
      if (!isCalm || now - memory.since_ms >= TIDY_AFTER_MS) beginCount(memory, now);
      if (!isCalm) {
        context.setTimer('tidy', TIDY_AFTER_MS, 'tidy', null);
        return;
      }
      memory.busy = false;
      context.io(CAPTURE_LOG_PORT, 'tidy', null, 'tidied');
    },
    tidied(memory, outcome, context) {
      const found = outcome.ok ? outcome.value : 0;
      if (memory.killed || (found === 0 && !memory.busy)) {
        memory.tidying = false;
        return;
      }
      context.setTimer('tidy', TIDY_PAUSE_MS, 'tidy', null);
    },
  },
};

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
  if (outcome.ok) context.replyTo(token, outcome.value);
  // The log's own words name paths and errno; they are for the operator, not for whoever asked.
  else context.refuseTo(token, { code: failure, message: outcome.error.message, retryable: true });
}
