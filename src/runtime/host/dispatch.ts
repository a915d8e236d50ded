/**
 * Dispatches a message to an actor: calls the handler, which records its effects, and performs the effects after the
 * handler has returned. Actor threads, server threads (and the simulator).
 */

import { runtimeError } from '../error.ts';
import type { Effect, ReplyToken } from '../protocol.ts';
import { NO_REPLY_TOKEN, Recorder } from '../recorder.ts';
import type { Scheduler } from '../scheduler.ts';
import { type Cell, type Delivery, NO_BODIES, NO_REPLIES, NO_TIMERS, type ReplyTo } from './cell.ts';
import type { HostJournal } from './host-journal.ts';
import type { Mailboxes } from './mailboxes.ts';
import type { OutputGate } from './output-gate.ts';
import type { Undelivered } from './undelivered.ts';

/** What dispatch needs from its host. */
interface DispatchParts {
  journal: HostJournal;
  gate: OutputGate;
  mailboxes: Mailboxes;
  lost: Undelivered;
  scheduler: Scheduler;
}

/**
 * Dispatches messages to all actors of one host. When a dispatch throws, no effect has been performed and no event
 * recorded. The message may be counted as handled, and a state that the handler changes in place may have changed.
 */
export class Dispatch {
  readonly #journal: HostJournal;
  readonly #gate: OutputGate;
  readonly #mailboxes: Mailboxes;
  readonly #lost: Undelivered;
  readonly #scheduler: Scheduler;
  #nextToken = 1;
  #handled = 0;

  constructor({ journal, gate, mailboxes, lost, scheduler }: DispatchParts) {
    this.#journal = journal;
    this.#gate = gate;
    this.#mailboxes = mailboxes;
    this.#lost = lost;
    this.#scheduler = scheduler;
  }

  /** Messages handled since the start. */
  get handled(): number {
    return this.#handled;
  }

  /**
   * Handles one message.
   * @throws the handler's error, or the reason why an effect cannot be performed
   */
  take(cell: Cell, delivery: Delivery, nowMs: number): void {
    const { kind } = cell;
    const token = delivery.reply_to === null ? NO_REPLY_TOKEN : this.#nextToken++;
    const recorder = this.#record(cell, delivery.bodies, token, nowMs);
    const handlers = delivery.internal ? kind.behaviour.internal : kind.behaviour.handlers;
    handlers[delivery.name]!(cell.state, delivery.payload, recorder as never);
    kind.stats.handled++;
    this.#handled++;
    this.#perform(cell, recorder, token, delivery.reply_to, delivery.name);
  }

  /**
   * Makes the first dispatch to an activated actor: calls `activated`, if its kind has that handler. Throws like
   * `take`.
   */
  takeFirst(cell: Cell): void {
    const { behaviour } = cell.kind;
    if (behaviour.activated === undefined) return;
    const recorder = this.#record(cell, NO_BODIES, NO_REPLY_TOKEN, this.#scheduler.monotonicMs());
    behaviour.activated(cell.state, recorder as never);
    this.#perform(cell, recorder, NO_REPLY_TOKEN, null, 'activated');
  }

  #record(cell: Cell, bodies: readonly Uint8Array[], token: ReplyToken, monotonic_ms: number): Recorder {
    return new Recorder(cell.kind.behaviour, cell.state, {
      self: cell.self,
      now_ms: this.#scheduler.wallMs(),
      monotonic_ms,
      bodies,
      token,
    });
  }

  /**
   * Performs the recorded effects. Events are staged first, so that the outputs of this message wait for them. Timers
   * do not wait. Throws (an event that msgpack cannot encode, too many timers) only before anything has changed.
   */
  #perform(cell: Cell, recorder: Recorder, token: ReplyToken, replyTo: ReplyTo | null, name: string): void {
    const { effects } = recorder;
    checkTimers(cell, effects);
    if (recorder.persisted > 0) {
      this.#journal.stageEvents(cell, effects);
      cell.state = recorder.state;
    }
    if (recorder.held && replyTo !== null) {
      if (cell.replies === NO_REPLIES) cell.replies = new Map();
      cell.replies.set(token, replyTo);
    }
    const gate = this.#gate;
    for (const effect of effects) {
      switch (effect.type) {
        case 'persist':
          break;
        case 'reply':
        case 'refuse': {
          const kept = recorder.held || effect.token !== token;
          const to = claimReply(cell, effect.token, token, recorder.held ? null : replyTo);
          if (to === null) this.#lost.bury(cell.self, 'unknown_reply');
          else if (effect.type === 'reply')
            gate.emit(cell, { type: 'reply', to, value: effect.value, name, kept });
          else gate.emit(cell, { type: 'error', to, error: effect.error, name, kept });
          break;
        }
        case 'set_timer':
          this.#setTimer(cell, effect);
          break;
        case 'cancel_timer':
          cell.timers.get(effect.timer)?.();
          cell.timers.delete(effect.timer);
          break;
        case 'io':
        case 'compute':
          gate.emitIo(cell, effect);
          break;
        default:
          gate.emit(cell, effect);
      }
    }
    if (recorder.unanswered && replyTo !== null) {
      cell.kind.stats.errors++;
      const error = runtimeError('no_reply', `${cell.self.kind} ${name}: the handler gave no answer`);
      gate.emit(cell, { type: 'error', to: replyTo, error, name, kept: false });
    }
  }

  #setTimer(cell: Cell, effect: Extract<Effect, { type: 'set_timer' }>): void {
    cell.timers.get(effect.timer)?.();
    cell.timers.delete(effect.timer);
    const cancel = this.#scheduler.later(effect.delay_ms, () => {
      if (cell.timers.get(effect.timer) !== cancel) return;
      cell.timers.delete(effect.timer);
      this.#mailboxes.acceptInternal(cell, effect.name, effect.payload);
    });
    if (cell.timers === NO_TIMERS) cell.timers = new Map();
    cell.timers.set(effect.timer, cancel);
  }
}

/**
 * Takes the destination of the answer with this token; each token is used once.
 * @returns null if no asker waits for it
 */
function claimReply(
  cell: Cell,
  token: ReplyToken,
  current: ReplyToken,
  currentTo: ReplyTo | null,
): ReplyTo | null {
  if (token === current && currentTo !== null) return currentTo;
  const to = cell.replies.get(token);
  if (to === undefined) return null;
  cell.replies.delete(token);
  return to;
}

function checkTimers(cell: Cell, effects: readonly Effect[]): void {
  let count = cell.timers.size;
  for (const effect of effects) if (effect.type === 'set_timer' && !cell.timers.has(effect.timer)) count++;
  const { max_timers } = cell.kind.policy;
  if (count > cell.timers.size && count > max_timers) throw new RangeError(`more than ${max_timers} timers`);
}
