/**
 * The output gate: the effects of a message (answers, tells, publications, counts, io, compute) are released only when
 * every event that the actor has recorded, up to and including that message, is durable. Actor threads, server threads
 * (and the simulator).
 */

import { describeError, type ErrorData, runtimeError } from '../error.ts';
import { describeFailure, type HostReport } from '../host-report.ts';
import type { Effect } from '../protocol.ts';
import type { Scheduler } from '../scheduler.ts';
import { addCount, type Cell, type Output } from './cell.ts';
import type { HostJournal } from './host-journal.ts';
import type { HostLinks } from './host-links.ts';
import type { Mailboxes } from './mailboxes.ts';
import type { Undelivered } from './undelivered.ts';

/** Performs the effects that go outside the actors. */
export interface EffectPerformers {
  /** Performs an `io` effect; calls `done` once, never before it has returned. */
  performIo(
    adapter: string,
    operation: string,
    input: unknown,
    done: (error: unknown, value: unknown) => void,
  ): void;
  /** Performs a `compute` effect; calls `done` once, never before it has returned. */
  performCompute(task: string, input: unknown, done: (error: unknown, value: unknown) => void): void;
}

/** A tell that is not delivered yet. */
export type Tell = Extract<Effect, { type: 'tell' }>;

/** The functions of the host that the gate needs. */
interface OutputGateParts {
  journal: HostJournal;
  links: HostLinks;
  mailboxes: Mailboxes;
  lost: Undelivered;
  scheduler: Scheduler;
  performers: EffectPerformers;
  /** Sends a tell to the host of its address. */
  route(message: Tell): void;
  report(report: HostReport): void;
}

/** Releases or holds the outputs of all actors of one host. */
export class OutputGate {
  readonly #parts: OutputGateParts;
  readonly #journal: HostJournal;
  #held = 0;
  #ioInFlight = 0;

  constructor(parts: OutputGateParts) {
    this.#parts = parts;
    this.#journal = parts.journal;
  }

  /** Number of outputs that wait for a commit. */
  get held(): number {
    return this.#held;
  }

  /** Number of `io` and `compute` effects without an outcome yet. */
  get ioInFlight(): number {
    return this.#ioInFlight;
  }

  /** Releases the output, or holds it until the events before it are durable. */
  emit(cell: Cell, output: Output): void {
    if (cell.gate_ticket > this.#journal.decidedTicket) {
      cell.held.push({ ticket: cell.gate_ticket, output });
      this.#held++;
    } else {
      this.#release(cell, output);
    }
  }

  /**
   * Emits an `io` or `compute` effect. Only the life of the actor that recorded the effect receives the
   * outcome.
   */
  emitIo(cell: Cell, effect: Extract<Effect, { type: 'io' | 'compute' }>): void {
    cell.io_in_flight++;
    this.#ioInFlight++;
    this.emit(cell, { ...effect, life: cell.life });
  }

  /** Releases the outputs that the actor has held for commits up to this ticket, in order. */
  open(cell: Cell, ticket: number): void {
    for (
      let first = cell.held.peek();
      first !== undefined && first.ticket <= ticket;
      first = cell.held.peek()
    ) {
      cell.held.shift();
      this.#held--;
      this.#release(cell, first.output);
    }
  }

  /**
   * Withdraws all held outputs of the actor, because the commit of the events before them failed.
   * @param code `actor_moved`: the events are not stored; `storage_unavailable`: they may be stored
   */
  withdrawAll(cell: Cell, code: 'storage_unavailable' | 'actor_moved'): void {
    for (let item = cell.held.shift(); item !== undefined; item = cell.held.shift()) {
      this.#held--;
      this.#withdraw(cell, item.output, code);
    }
  }

  /**
   * Releases an output. Never throws: an output that cannot be encoded fails only its message, not the actor or the
   * commit.
   */
  #release(cell: Cell, output: Output): void {
    try {
      this.#send(cell, output);
    } catch (thrown) {
      cell.kind.stats.errors++;
      const during = 'name' in output ? output.name : output.type;
      this.#parts.report(describeFailure(cell.self, during, thrown, 'lost'));
      if (output.type === 'reply' || output.type === 'error') {
        const error = runtimeError('no_reply', `${cell.self.kind} ${output.name}: the answer cannot be sent`);
        output.to.link.send({ type: 'error', id: output.to.id, error });
      } else if (output.type === 'io' || output.type === 'compute') {
        const done = this.#outcome(cell, output);
        this.#parts.scheduler.soon(() => done(thrown, undefined));
      }
    }
  }

  #send(cell: Cell, output: Output): void {
    const { lost, links, performers } = this.#parts;
    switch (output.type) {
      case 'reply':
        if (!output.to.link.send({ type: 'reply', id: output.to.id, value: output.value })) {
          lost.bury(cell.self, 'link_full');
        }
        return;
      case 'error':
        if (!output.to.link.send({ type: 'error', id: output.to.id, error: output.error })) {
          lost.bury(cell.self, 'link_full');
        }
        return;
      case 'tell':
        this.#parts.route(output);
        return;
      case 'publish': {
        const subscribers = links.subscribers(output.topic);
        if (subscribers === undefined) return;
        for (const link of subscribers) {
          if (!link.send({ type: 'publish', topic: output.topic, payload: output.payload })) {
            lost.bury(cell.self, 'link_full');
          }
        }
        return;
      }
      case 'count':
        addCount(cell.kind, output.counter, output.of, output.by);
        return;
      case 'io':
        performers.performIo(output.adapter, output.operation, output.input, this.#outcome(cell, output));
        return;
      case 'compute':
        performers.performCompute(output.task, output.input, this.#outcome(cell, output));
        return;
    }
  }

  #outcome(
    cell: Cell,
    effect: { name: string; carry: unknown; life: number },
  ): (error: unknown, value: unknown) => void {
    const { life } = effect;
    const { mailboxes, lost } = this.#parts;
    return (error, value) => {
      if (mailboxes.closed) return;
      cell.io_in_flight--;
      this.#ioInFlight--;
      const { carry } = effect;
      if (cell.life !== life) {
        lost.bury(cell.self, 'stale_outcome');
        mailboxes.resume(cell);
        return;
      }
      const outcome =
        error === null || error === undefined
          ? { ok: true, value, carry }
          : { ok: false, error: toRefusal(error), carry };
      mailboxes.acceptInternal(cell, effect.name, outcome);
    };
  }

  /**
   * Drops an output that must not be released: an asker gets an error, a counter stays as it is, and any other output
   * becomes a dead letter.
   */
  #withdraw(cell: Cell, output: Output, code: 'storage_unavailable' | 'actor_moved'): void {
    const { lost } = this.#parts;
    switch (output.type) {
      case 'reply':
      case 'error': {
        const { to, name, kept } = output;
        // An earlier commit may have stored events of a message whose answer was kept.
        const told = code === 'actor_moved' && kept ? 'actor_restarted' : code;
        const error = runtimeError(told, `${cell.self.kind} ${name}: not stored`);
        to.link.send({ type: 'error', id: to.id, error });
        return;
      }
      case 'tell':
        lost.bury(output.to, 'not_durable');
        return;
      case 'publish':
        lost.bury(cell.self, 'not_durable');
        return;
      case 'count':
        return;
      case 'io':
      case 'compute':
        cell.io_in_flight--;
        this.#ioInFlight--;
        lost.bury(cell.self, 'not_durable');
        return;
    }
  }
}

/**
 * Makes data of an adapter's or a task's error. An error without a code gets `io_failed`. An error is
 * retryable only if it has `retryable: true`.
 */
function toRefusal(thrown: unknown): ErrorData {
  const { code, retryable } = (
    typeof thrown === 'object' && thrown !== null ? thrown : {}
  ) as Partial<ErrorData>;
  return {
    code: typeof code === 'string' ? code : 'io_failed',
    message: describeError(thrown),
    retryable: retryable === true,
  };
}
