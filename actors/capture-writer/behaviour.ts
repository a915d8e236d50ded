/**
 * The capture writer: passes batches on to the capture log, keeps the index going while nothing else is to do, and
 * stops for good when it is told to. All its work is done by the `capture_log` port. Actor thread.
 */
import type { Behaviour, Outcome, Refusal, ReplyToken } from '../../src/runtime/protocol.ts';
import { CAPTURE_WRITER_KIND, type CaptureWriterProtocol } from './protocol.ts';

/** Name of the port that the thread provides; see `port.ts`. */
export const CAPTURE_LOG_PORT = 'capture_log';

interface WriterMemory {
  killed: boolean;
  /** An index pass is set or under way. */
  indexing: boolean;
  /** Appends since the last index pass: under load the index waits. */
  busy: boolean;
}

interface WriterInternal {
  done: Outcome<unknown, { token: ReplyToken; failure: string }>;
  index: null;
  indexed: Outcome<number>;
}

type Writer = Behaviour<CaptureWriterProtocol, WriterMemory, never, WriterInternal>;

/** The index begins this long after an append, and waits again when more has come by then. */
const INDEX_AFTER_MS = 300;
/** Breath between two passes over a backlog. */
const INDEX_PAUSE_MS = 15;

const STOPPED: Refusal = {
  code: 'capture_stopped',
  message: 'The capture writer was stopped; it starts again with the process',
  retryable: false,
};

export const captureWriter: Writer = {
  kind: CAPTURE_WRITER_KIND,
  initial: () => ({ killed: false, indexing: false, busy: false }),

  handlers: {
    open(memory, _message, context) {
      if (memory.killed) return context.refuse(STOPPED);
      context.io(CAPTURE_LOG_PORT, 'open', null, 'done', {
        token: context.holdReply(),
        failure: 'capture_failed',
      });
    },
    append(memory, { heads }, context) {
      if (memory.killed) return context.refuse(STOPPED);
      const input = { heads, bodies: context.bodies };
      const carry = { token: context.holdReply(), failure: 'capture_failed' };
      context.io(CAPTURE_LOG_PORT, 'append', input, 'done', carry);
      memory.busy = true;
      if (memory.indexing) return;
      memory.indexing = true;
      context.setTimer('index', INDEX_AFTER_MS, 'index', null);
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
      context.cancelTimer('index');
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
    done(_memory, outcome, context) {
      const { token, failure } = outcome.carry;
      if (outcome.ok) context.replyTo(token, outcome.value);
      // The log's own words name paths and errno; they are for the operator, not for whoever asked.
      else context.refuseTo(token, { code: failure, message: outcome.error.message, retryable: true });
    },
    index(memory, _message, context) {
      if (memory.killed) return;
      if (memory.busy) {
        memory.busy = false;
        context.setTimer('index', INDEX_AFTER_MS, 'index', null);
        return;
      }
      context.io(CAPTURE_LOG_PORT, 'index', null, 'indexed');
    },
    indexed(memory, outcome, context) {
      const found = outcome.ok ? outcome.value : 0;
      if (memory.killed || (found === 0 && !memory.busy)) {
        memory.indexing = false;
        return;
      }
      context.setTimer('index', INDEX_PAUSE_MS, 'index', null);
    },
  },
};
