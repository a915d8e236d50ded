/**
 * A server thread's link to the student's thread. It sends steps, receives answers, and reports the outcome of each
 * step once, even if the student's thread ends. It reports nothing about a step that was abandoned or cancelled before.
 * The link bounds the steps and bytes in progress. Each step has its own deadline. Server threads.
 *
 * A newly loaded student arrives with a new message port. The previous student still answers the
 * steps that it has received.
 */

import type { MessagePort } from 'node:worker_threads';
import { systemClock } from '../../std/clock.ts';
import { STEPS_UNDER_WAY, STUDENT_TIMEOUT_MS } from '../../student/serving/limits.ts';
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

/**
 * When the bodies of one server thread's steps that wait for the student have this many bytes, further steps go to the
 * upstream. The same number bounds, separately, the incomplete bodies of a thread (relegation.ts).
 */
export const STEPS_UNDER_WAY_BYTES = 64 << 20;
/**
 * Maximum number of runs that a server thread remembers for the next student while it has no student. Further runs are
 * not remembered.
 */
const UNTOLD_RUNS = 10_000;

/** Waits for the student's decision on a step. At most one of the five methods is called, once. */
export interface StepWaiter {
  onServed(step: ServedStep): void;
  onDeclined(reason: DeclineReason, finding: StepFinding | null): void;
  /** Shadow mode: the student would have served the step. */
  onWouldServe(finding: StepFinding | null): void;
  /** Audit: the upstream serves the step, and its answer is compared with the student's. */
  onAudited(finding: StepFinding | null): void;
  /** The student's thread ended, or sent an invalid answer. */
  onFailed(reason: 'crashed' | 'failed'): void;
}

/** A step that was sent to the student. */
export interface SentStep {
  /** Version of the student that received it. */
  readonly student_version: number;
  /** Reports to the student that the upstream serves the step, so the student's answer no longer counts. */
  abandon(): void;
  /** Reports to the student that neither the student nor the upstream serves the step. */
  cancel(): void;
  /** Shadow mode and audits: sends the upstream's answer to the student, which compares it with its own. */
  compare(status: number, headers: string[], body: Uint8Array<ArrayBuffer>): void;
}

interface Pending {
  waiter: StepWaiter;
  bytes: number;
}

/** A step without its body. */
export type StepHead = Omit<StepRequest, 'type' | 'id' | 'body' | 'expires_at_ms'>;

export class StudentLink {
  /** Receives each comparison, of shadow mode or of an audit. */
  onCompared: (agreed: boolean, readingDiffers: boolean) => void = () => {};
  readonly #timeoutMs: number | null;
  #connection: Connection | null = null;
  /** Whether there is no student and no student is being loaded. */
  #isAbsent = false;
  #underWay = 0;
  #underWayBytes = 0;
  #nextId = 1;
  /**
   * Runs that the upstream took over while there was no student. They are reported to the next
   * student.
   */
  readonly #untold = new Set<string>();

  /** @param timeoutMs a step's deadline; null for the default of the student's kind */
  constructor(timeoutMs: number | null) {
    this.#timeoutMs = timeoutMs;
  }

  /** Whether there is a student to ask. */
  get isReady(): boolean {
    return this.#connection !== null;
  }

  /** Whether the bounds allow no further step now. */
  get isBusy(): boolean {
    return this.#underWay >= STEPS_UNDER_WAY || this.#underWayBytes >= STEPS_UNDER_WAY_BYTES;
  }

  /**
   * Why a step cannot be sent now. Read this only when no step can be sent: the value is `busy` even while there is
   * room.
   */
  get hindrance(): 'no_student' | 'loading' | 'busy' {
    if (this.#connection !== null) return 'busy';
    return this.#isAbsent ? 'no_student' : 'loading';
  }

  /** How long a step may wait for the student's answer. */
  get timeout_ms(): number {
    return this.#timeoutMs ?? STUDENT_TIMEOUT_MS[this.#connection?.facts.kind ?? 'exemplar'];
  }

  /** Attaches a student, also after a crash or to replace an older student. The link owns the port from now on. */
  attach(port: MessagePort, facts: StudentFacts): void {
    const connection = new Connection(port, facts, this);
    this.#connection = connection;
    this.#isAbsent = false;
    for (const run_id of this.#untold) connection.post({ type: 'taken', run_id });
    this.#untold.clear();
  }

  /**
   * Sends a step.
   * @param body transferred: must not be used afterwards
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

  /**
   * Reports to the student that the upstream serves a step of the run about which the student was not asked.
   * Without a student, the next student gets the report, for at most UNTOLD_RUNS runs.
   */
  noteTaken(runId: string): void {
    if (this.#connection !== null) this.#connection.post({ type: 'taken', run_id: runId });
    else if (this.#untold.size < UNTOLD_RUNS) this.#untold.add(runId);
  }

  /**
   * Records that there is no student to ask now. The previous student may still answer the steps that it has.
   * @param isExpected whether a student is being loaded
   */
  withdraw(isExpected: boolean): void {
    this.#connection = null;
    this.#isAbsent = !isExpected;
  }

  close(): void {
    this.#connection?.close();
    this.#connection = null;
  }

  /** Called by a connection when a step is no longer in progress. */
  release(bytes: number): void {
    this.#underWay--;
    this.#underWayBytes -= bytes;
  }

  /** Called by a connection when its port has closed, for example because the student's thread has ended. */
  detach(connection: Connection): void {
    if (this.#connection === connection) this.#connection = null;
  }
}

/** The port to one student's thread, and the steps that were sent to it. */
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
    // The port need not keep the thread alive, because the connection of the waiting client does.
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
      this.#link.onCompared(message.agreed === true, message.reading_differs === true);
      return;
    }
    const pending = this.forget(message.id);
    // The answer came too late, or belongs to no step of this link.
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

/**
 * Validates an answer of the student's thread: whether all fields that the client needs have valid
 * values.
 */
function isWhole(step: ServedStep): boolean {
  return (
    step.body instanceof Uint8Array &&
    step.body.length > 0 &&
    typeof step.is_stream === 'boolean' &&
    typeof step.request_id === 'string' &&
    /^[\w-]{1,64}$/.test(step.request_id) &&
    Number.isFinite(step.input_tokens) &&
    Number.isFinite(step.output_tokens)
  );
}
