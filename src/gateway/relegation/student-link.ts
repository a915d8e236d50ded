/**
 * A server thread's way to the student's thread: steps go there, answers come back, and each step learns once what becomes
 * of it, whatever happens to that thread. The link bounds steps and bytes under way. Traffic waits no longer than a step's
 * own deadline, which the step keeps. Server threads.
 *
 * A student that was read in anew comes with a message port of its own. The former student answers the steps that it has.
 */

import type { MessagePort } from 'node:worker_threads';
import { STEPS_UNDER_WAY, STEPS_UNDER_WAY_BYTES, STUDENT_TIMEOUT_MS, UNTOLD_RUNS } from '../../limits.ts';
import { systemClock } from '../../std/clock.ts';
import type {
  ClientMessage,
  DeclineReason,
  ServedStep,
  StepFinding,
  StepRequest,
  StudentFacts,
  StudentMessage,
} from '../../student/serving/protocol.ts';
import { DECLINE_REASONS } from '../../student/serving/protocol.ts';

/** Who waits for the student's word on a step. One of the five is called, at most once. */
export interface StepWaiter {
  onServed(step: ServedStep): void;
  onDeclined(reason: DeclineReason, finding: StepFinding | null): void;
  /** Shadow mode. */
  onWouldServe(finding: StepFinding | null): void;
  /** The upstream serves it, and is compared with what the student would have said. */
  onAudited(finding: StepFinding | null): void;
  /** The thread ended, or said something that is no answer. */
  onFailed(reason: 'crashed' | 'failed'): void;
}

/** A step that was sent. */
export interface SentStep {
  /** Of the student that it was sent to. */
  readonly student_version: number;
  /** The upstream serves it: what the student says of it from now on counts for nothing. */
  abandon(): void;
  /** Nobody serves it. */
  cancel(): void;
  /** Shadow mode and audits: hands over what the upstream answered. */
  compare(status: number, headers: string[], body: Uint8Array<ArrayBuffer>): void;
}

interface Pending {
  waiter: StepWaiter;
  bytes: number;
}

/** What a step consists of beside its body. */
export type StepHead = Omit<StepRequest, 'type' | 'id' | 'body' | 'expires_at_ms'>;

export class StudentLink {
  /** Told of a comparison, of shadow mode or of an audit. */
  onCompared: (agreed: boolean) => void = () => {};
  readonly #timeoutMs: number | null;
  #connection: Connection | null = null;
  #underWay = 0;
  #underWayBytes = 0;
  #nextId = 1;
  /** Runs that the upstream took over while there was nobody to tell. */
  readonly #untold = new Set<string>();

  /** @param timeoutMs a step's deadline; null: what its kind of student gets */
  constructor(timeoutMs: number | null) {
    this.#timeoutMs = timeoutMs;
  }

  /** There is a student to ask. */
  get isReady(): boolean {
    return this.#connection !== null;
  }

  /** Nothing more may be sent now. */
  get isBusy(): boolean {
    return this.#underWay >= STEPS_UNDER_WAY || this.#underWayBytes >= STEPS_UNDER_WAY_BYTES;
  }

  /** How long a step may wait. */
  get timeout_ms(): number {
    return this.#timeoutMs ?? STUDENT_TIMEOUT_MS[this.#connection?.facts.kind ?? 'exemplar'];
  }

  /** A student is there: the first one, one after a crash, or a newer one. The port is this link's from now on. */
  attach(port: MessagePort, facts: StudentFacts): void {
    const connection = new Connection(port, facts, this);
    this.#connection = connection;
    for (const run_id of this.#untold) connection.post({ type: 'taken', run_id });
    this.#untold.clear();
  }

  /**
   * Sends a step.
   * @param body handed over: not to be touched afterwards
   * @returns null when there is no student, or no room
   */
  send(head: StepHead, body: Uint8Array<ArrayBuffer>, waiter: StepWaiter): SentStep | null {
    const connection = this.#connection;
    if (connection === null || this.isBusy) return null;
    const id = this.#nextId++;
    const bytes = body.length;
    this.#underWay++;
    this.#underWayBytes += bytes;
    const expires_at_ms = systemClock.monotonicMs() + this.timeout_ms;
    connection.ask({ type: 'decide', id, body, ...head, expires_at_ms }, { waiter, bytes });
    return {
      student_version: connection.facts.version,
      abandon: () => {
        connection.forget(id);
        connection.post({ type: 'abandon', id, run_id: head.run_id });
      },
      cancel: () => {
        connection.forget(id);
        connection.post({ type: 'cancel', id });
      },
      compare: (status, headers, answer) =>
        connection.post({ type: 'compare', id, status, headers, body: answer }, [answer.buffer]),
    };
  }

  /** The upstream serves a step of that run, and the student was not asked. */
  noteTaken(runId: string): void {
    if (this.#connection !== null) this.#connection.post({ type: 'taken', run_id: runId });
    else if (this.#untold.size < UNTOLD_RUNS) this.#untold.add(runId);
  }

  /** There is no student any more; what the one before was asked, it may still answer. */
  withdraw(): void {
    this.#connection = null;
  }

  close(): void {
    this.#connection?.close();
    this.#connection = null;
  }

  /** A connection's: a step is not under way any more. */
  release(bytes: number): void {
    this.#underWay--;
    this.#underWayBytes -= bytes;
  }

  /** A connection's: its thread is gone. */
  detach(connection: Connection): void {
    if (this.#connection === connection) this.#connection = null;
  }
}

/** The port to one student's thread, and the steps that it has. */
class Connection {
  readonly facts: StudentFacts;
  readonly #port: MessagePort;
  readonly #link: StudentLink;
  readonly #pending = new Map<number, Pending>();
  #isClosed = false;

  constructor(port: MessagePort, facts: StudentFacts, link: StudentLink) {
    this.facts = facts;
    this.#port = port;
    this.#link = link;
    port.on('message', (message: StudentMessage) => this.#receive(message));
    port.on('close', () => this.#end());
    // What waits for an answer keeps the thread alive by itself: a client's connection.
    port.unref();
  }

  ask(request: StepRequest, pending: Pending): void {
    this.#pending.set(request.id, pending);
    this.post(request, [request.body.buffer as ArrayBuffer]);
  }

  post(message: ClientMessage, transfer: readonly ArrayBuffer[] = []): void {
    if (!this.#isClosed) this.#port.postMessage(message, transfer);
  }

  forget(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    this.#link.release(pending.bytes);
    return pending;
  }

  close(): void {
    this.#port.close();
    this.#end();
  }

  #receive(message: StudentMessage): void {
    if (typeof message !== 'object' || message === null) return;
    if (message.type === 'compared') {
      this.#link.onCompared(message.agreed === true);
      return;
    }
    const pending = this.forget(message.id);
    // Too late, or never asked.
    if (pending === undefined) return;
    const { waiter } = pending;
    if (message.type === 'served') {
      if (isWhole(message)) waiter.onServed(message);
      else waiter.onFailed('failed');
    } else if (message.type === 'would_serve') waiter.onWouldServe(message.finding ?? null);
    else if (message.type === 'audit') waiter.onAudited(message.finding ?? null);
    else if (message.type === 'declined' && DECLINE_REASONS.includes(message.reason))
      waiter.onDeclined(message.reason, message.finding ?? null);
    else waiter.onFailed('failed');
  }

  #end(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#link.detach(this);
    for (const id of [...this.#pending.keys()]) this.forget(id)?.waiter.onFailed('crashed');
  }
}

/** What goes to a client has this form, whatever a thread says. */
function isWhole(step: ServedStep): boolean {
  return (
    step.body instanceof Uint8Array &&
    step.body.length > 0 &&
    typeof step.is_stream === 'boolean' &&
    typeof step.request_id === 'string' &&
    /^[\w-]{1,64}$/.test(step.request_id) &&
    Number.isFinite(step.input_tokens) &&
    Number.isFinite(step.output_tokens) &&
    (step.saved_micro_usd === null || Number.isFinite(step.saved_micro_usd))
  );
}
