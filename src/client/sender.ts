/**
 * Sends the events of runs to the service in the background: each run's events in order, several
 * runs at once, bounded in number and bytes. The agent's calls only add events to a lane; they
 * neither wait nor throw. The sender drops and counts events that it cannot send, and warns once
 * per cause. Any thread.
 */
import { backOffMs, type Caller } from './api-client.ts';
import { ApiError, CircuitOpenError, ConnectionError, TimeoutError, type UnderstudyError } from './errors.ts';
import { HeldLanes } from './held-lanes.ts';
import type { LastRequests } from './last-requests.ts';
import type { RequestOf } from './operations.ts';
import { keepContext, startTimer, stopTimer, type Timer } from './own-context.ts';
import { holdForExit } from './process-end.ts';
import type { LaneEvent, RunLane } from './run-lane.ts';
import type { MarkBody } from './run-marks.ts';
import type { StepBody } from './step.ts';

/**
 * While this many runs have unsent events, a new run is dropped with its steps, and so are marks of a run that has no
 * unsent events.
 */
const LANES_MAX = 1_000;
/**
 * Maximum number of runs that send at the same time, each over one connection; the remaining connections are for the
 * agent's own requests.
 */
const LANES_BUSY_MAX = 12;
/** Number of events that a run may send in its turn while other runs wait. */
const TURN_EVENTS = 32;
/** Steps that are added within this time are sent in one pass. */
const LINGER_MS = 5;
/**
 * Number of checks for new events after everything is sent. A step that is added during these checks does not arm a
 * timer, which would be the most expensive part of adding a step.
 */
const IDLE_LOOKS = 20;
/** Maximum number of attempts to send an event that causes server errors, before it is dropped. */
const ATTEMPTS = 5;
/** Interval at which the sender checks whether the probe of another request has closed the circuit. */
const PROBE_WAIT_MS = 100;
/** Longest wait between two attempts, even if the service asks for more. */
const PAUSE_MAX_MS = 60_000;
/** Longest delay that a timer supports; a longer one would fire at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Why something was dropped. */
type DropCause = 'queue_full' | 'refused' | 'failed' | 'unauthorized' | 'closed';

interface SenderBounds {
  /** Time limit of one request. */
  timeoutMs: number;
  /** How long the flush at the end of the process may take. */
  exitFlushMs: number;
  maxQueuedSteps: number;
  maxQueuedBytes: number;
}

export class Sender {
  readonly #caller: Caller;
  readonly #bounds: SenderBounds;
  readonly #warn: (cause: string, message: string) => void;
  /** Lanes with unsent events, in the order of their turns. */
  readonly #ready = new Set<RunLane>();
  readonly #busy = new Set<RunLane>();
  readonly #waiters = new Set<Waiter>();
  readonly #held = new HeldLanes((lane) => this.#enqueue(lane));
  /** Sends requests outside the agent's asynchronous context. */
  readonly #outside = keepContext();
  #queuedSteps = 0;
  #queuedBytes = 0;
  #sentSteps = 0;
  #droppedSteps = 0;
  #sentMarks = 0;
  #droppedMarks = 0;
  /** The armed timer; null: no timer is armed. */
  #timer: Timer | null = null;
  #linger: Timer | null = null;
  /** Time before which nothing is sent, in milliseconds of the monotonic clock. */
  #notBefore = 0;
  /** Number of checks for events since the last request. */
  #idleLooks = 0;
  #stoppedBy: DropCause | null = null;
  #release: (() => void) | null = null;
  readonly #leaver = {
    flush: () => this.#flushAtExit(),
    handOver: () => this.#handOver(),
  };

  /**
   * @param warn called once per cause
   */
  constructor(caller: Caller, bounds: SenderBounds, warn: (cause: string, message: string) => void) {
    this.#caller = caller;
    this.#bounds = bounds;
    this.#warn = warn;
  }

  get markCounts(): { sent: number; dropped: number } {
    return { sent: this.#sentMarks, dropped: this.#droppedMarks };
  }

  get counts(): { queued: number; queuedBytes: number; sent: number; dropped: number } {
    return {
      queued: this.#queuedSteps,
      queuedBytes: this.#queuedBytes,
      sent: this.#sentSteps,
      dropped: this.#droppedSteps,
    };
  }

  /**
   * Starts sending a run. Drops the run if the sender has stopped, or if LANES_MAX runs have unsent events.
   * @param holdMs how long the start may wait for the framework's name. The first step and the end of the run
   * end the wait; a mark does not
   */
  open(lane: RunLane, holdMs = 0): void {
    if (this.#isStopped || this.#ready.size >= LANES_MAX)
      return this.#lose(lane, this.#stoppedBy ?? 'queue_full');
    if (holdMs > 0 && this.#hold(lane, 'start', holdMs)) return;
    this.#enqueue(lane);
  }

  /**
   * Sets the framework of a run, unless it is set or already sent. In each case, the start of the run no longer waits
   * for the framework's name.
   */
  nameFramework(lane: RunLane, name: string): void {
    lane.nameFramework(name);
    if (lane.held === 'start') this.#held.release(lane);
  }

  /**
   * Queues a step. Drops and counts the step if the queue is full, the run was dropped, or the sender has stopped.
   * @param bytes approximate memory of the step
   */
  push(lane: RunLane, body: StepBody, bytes: number): void {
    const isRoom =
      this.#queuedSteps < this.#bounds.maxQueuedSteps &&
      this.#queuedBytes + bytes <= this.#bounds.maxQueuedBytes;
    if (!isRoom || this.#isStopped || lane.isLost || !lane.push(body, bytes)) {
      return this.#drop(1, this.#stoppedBy ?? (lane.isLost ? 'refused' : 'queue_full'));
    }
    this.#queuedSteps += 1;
    this.#queuedBytes += bytes;
    if (lane.held === 'start') return this.#held.release(lane);
    if (lane.held === 'end') this.#held.renew(lane);
    this.#enqueue(lane);
  }

  /**
   * Queues the end of a run. Does nothing if the run was dropped or the sender has stopped.
   * @param holdMs how long the end may wait for further steps. Each step restarts the wait, and `release` ends it
   */
  end(lane: RunLane, outcome: string, holdMs = 0): void {
    if (this.#isStopped || lane.isLost) return;
    this.#held.release(lane);
    lane.end(outcome);
    if (holdMs > 0) this.#hold(lane, 'end', holdMs);
    this.#enqueue(lane);
  }

  /**
   * Queues a mark. The waiting marks of a run form one event. Drops and counts the mark if LANES_MAX runs have unsent
   * events, the run was dropped, or the sender has stopped.
   * @param leaveOut called for each part that exceeds the limits of a run's marks
   */
  mark(lane: RunLane, body: MarkBody, leaveOut: (what: string) => void): void {
    const isRoom = this.#ready.has(lane) || lane.held === 'start' || this.#ready.size < LANES_MAX;
    if (this.#isStopped || lane.isLost || !isRoom) {
      this.#droppedMarks += 1;
      if (!isRoom) this.#warnOfFlood();
      return;
    }
    lane.mark(body, leaveOut);
    if (lane.held !== 'start') this.#enqueue(lane);
  }

  /** Counts a mark that was dropped before it was added to a lane. */
  dropMark(): void {
    this.#droppedMarks += 1;
  }

  /** Makes the run's end wait as in `end`, if it has not been sent yet. */
  reopen(lane: RunLane, holdMs: number): void {
    if (this.#isStopped || !lane.isEndOpen || lane.held !== null || !this.#hold(lane, 'end', holdMs)) return;
    for (const { marks } of this.#waiters) {
      if ((marks.get(lane) ?? 0) > lane.accepted) marks.set(lane, lane.accepted);
    }
    this.#answerWaiters();
  }

  /** Lets a held end of the run be sent now, because no more steps will come. */
  release(lane: RunLane): void {
    this.#held.release(lane);
  }

  /**
   * Counts steps that were dropped before they were added to a lane.
   * @returns false if the sender has stopped and has already warned about the cause
   */
  drop(steps: number, cause: DropCause): boolean {
    this.#drop(steps, this.#stoppedBy ?? cause);
    return !this.#isStopped;
  }

  /**
   * Waits until everything queued now is sent or dropped, except an end that still waits for steps.
   * @param isLast whether the ends of runs stop waiting for further steps, so that they are sent too
   * @returns false if the time has run out, the service does not answer, or the sender stops meanwhile; true even if
   * single events were dropped
   */
  flush(timeoutMs: number, isLast = false): Promise<boolean> {
    this.#held.releaseAll(isLast ? ['start', 'end'] : ['start']);
    if (this.#ready.size === 0) return Promise.resolve(true);
    const marks = new Map([...this.#ready].map((lane) => [lane, lane.accepted]));
    return new Promise((resolve) => {
      const done = (isDone: boolean) => {
        clearTimeout(timer);
        this.#waiters.delete(waiter);
        resolve(isDone);
      };
      const waiter: Waiter = { marks, done };
      // This timer keeps the process alive, because background connections do not.
      const timer = setTimeout(done, Math.min(timeoutMs, TIMER_MAX_MS), false);
      this.#waiters.add(waiter);
      this.#caller.circuit.hurry();
      if (this.#caller.circuit.state !== 'closed') this.#notBefore = 0;
      this.#wake(0);
    });
  }

  /** Stops sending, and drops what is queued. */
  stop(): void {
    if (!this.#isStopped) this.#halt('closed');
  }

  get #isStopped(): boolean {
    return this.#stoppedBy !== null;
  }

  /** Flushes, because the event loop is empty and the process is about to end. Drops what cannot be sent in time. */
  async #flushAtExit(): Promise<void> {
    this.#release = null;
    if (!(await this.flush(this.#bounds.exitFlushMs, true))) this.stop();
  }

  /**
   * Takes the queued requests and stops the sender. Another thread sends the requests, because this thread's event loop
   * has stopped.
   * @returns null if the sender had already stopped, nothing was queued, or the circuit is not closed
   */
  #handOver(): LastRequests | null {
    this.#release = null;
    if (this.#isStopped) return null;
    this.#held.releaseAll(['start', 'end']);
    const isAnswering = this.#caller.circuit.state === 'closed';
    const lanes = [...this.#ready].map((lane) => lane.takeRest().map((event) => this.#prepare(lane, event)));
    this.#halt('closed');
    if (!isAnswering || lanes.length === 0) return null;
    return { ...this.#caller.place, timeoutMs: this.#bounds.exitFlushMs, lanes };
  }

  #hold(lane: RunLane, part: 'start' | 'end', waitMs: number): boolean {
    this.#release ??= holdForExit(this.#leaver);
    return this.#outside(() => this.#held.hold(lane, part, waitMs));
  }

  #enqueue(lane: RunLane): void {
    if (this.#isStopped) return;
    this.#ready.add(lane);
    this.#release ??= holdForExit(this.#leaver);
    if (this.#timer === null && this.#busy.size === 0) this.#wakeSoon();
  }

  /**
   * Wakes the sender after a time.
   * @param waitMs 0: as soon as the agent's code returns to the event loop
   */
  #wake(waitMs: number): void {
    this.#disarm();
    this.#timer = this.#schedule(waitMs);
  }

  /** Wakes the sender after LINGER_MS. The timer is reused, because the agent waits while a new timer is made. */
  #wakeSoon(): void {
    this.#linger = this.#linger?.refresh() ?? this.#schedule(LINGER_MS);
    this.#timer = this.#linger;
  }

  #disarm(): void {
    if (this.#timer === null) return;
    stopTimer(this.#timer);
    // A cleared timer cannot be refreshed.
    if (this.#timer === this.#linger) this.#linger = null;
    this.#timer = null;
  }

  #schedule(waitMs: number): Timer {
    const pump = () => {
      this.#timer = null;
      this.#pump();
    };
    return this.#outside(() => startTimer(pump, waitMs));
  }

  #pump(): void {
    const waitMs = Math.max(this.#notBefore - performance.now(), this.#caller.circuit.waitMs);
    const isProbed = this.#caller.circuit.state === 'half-open';
    for (const lane of this.#ready) {
      if (waitMs > 0 || isProbed || this.#busy.size >= LANES_BUSY_MAX) break;
      if (this.#busy.has(lane)) continue;
      this.#busy.add(lane);
      this.#idleLooks = 0;
      this.#drain(lane).finally(() => {
        this.#busy.delete(lane);
        if (!this.#isStopped) this.#pump();
      });
      if (this.#caller.circuit.state !== 'closed') break;
    }
    if (this.#busy.size > 0) return;
    if (this.#ready.size > 0) return this.#wake(isProbed ? PROBE_WAIT_MS : waitMs);
    this.#idleLooks += 1;
    if (this.#idleLooks < IDLE_LOOKS) this.#wakeSoon();
    else this.#letExit();
  }

  /**
   * Sends a lane's events until it has none to send, its turn is over, an attempt fails, or the sender stops. Never
   * rejects.
   */
  async #drain(lane: RunLane): Promise<void> {
    let sent = 0;
    for (let event = lane.next(); event !== null; event = lane.next()) {
      if (!(await this.#send(lane, event)) || this.#isStopped) return;
      sent += 1;
      if (sent < TURN_EVENTS || this.#ready.size <= this.#busy.size || !this.#ready.delete(lane)) continue;
      this.#ready.add(lane);
      return;
    }
    this.#ready.delete(lane);
    this.#answerWaiters();
  }

  /**
   * Sends an event, and removes it from its lane unless it is to be sent again.
   * @returns false if the lane must pause before it sends again
   */
  async #send(lane: RunLane, event: LaneEvent): Promise<boolean> {
    try {
      const hasFired = await this.#post(lane, event);
      if (lane.isLost) return true;
      this.#settle(lane, event);
      if (event.kind === 'step') this.#sentSteps += 1;
      if (event.kind === 'run_mark') this.#sentMarks += event.calls;
      if (hasFired && lane.isAdvised) await this.#evaluate(lane);
      return true;
    } catch (thrown) {
      return lane.isLost || this.#judge(lane, event, thrown);
    }
  }

  /** Sends an event. @returns whether a monitor fired. @throws as `Caller.call` */
  async #post(lane: RunLane, event: LaneEvent): Promise<boolean> {
    const manner = { isBackground: true, attempts: 1, timeoutMs: this.#bounds.timeoutMs };
    const [name, request] = toCall(lane, event);
    const answer = await this.#caller.call(name, request, manner);
    return 'fired' in answer && Array.isArray(answer.fired) && answer.fired.length > 0;
  }

  #prepare(lane: RunLane, event: LaneEvent): ReturnType<Caller['prepare']> {
    return this.#caller.prepare(...toCall(lane, event));
  }

  /**
   * Asks the service for an intervention and passes it to the run. A failure is ignored. The request is repeatable,
   * because the service gives the same answer for the same step.
   */
  async #evaluate(lane: RunLane): Promise<void> {
    const manner = { isBackground: true, isRepeatable: true, timeoutMs: this.#bounds.timeoutMs };
    const evaluation = await this.#caller
      .call('evaluate', { body: { run_id: lane.runId } }, manner)
      .catch(() => null);
    if (evaluation?.inject === true) lane.advise(evaluation);
  }

  /** Decides what happens to an event that was not accepted. @returns the same as #send */
  #judge(lane: RunLane, event: LaneEvent, thrown: unknown): boolean {
    if (thrown instanceof ApiError && thrown.status < 500) {
      if (thrown.status === 429) return this.#pause(backOffMs(1, thrown));
      return this.#acceptRefusal(lane, event, thrown);
    }
    const isSilent =
      thrown instanceof TimeoutError ||
      thrown instanceof CircuitOpenError ||
      (thrown instanceof ConnectionError && thrown.unsent);
    if (isSilent) {
      // The service is unavailable, and a flush does not wait until it is available again.
      for (const waiter of [...this.#waiters]) waiter.done(false);
      return this.#pause(0);
    }
    // The event itself may cause the error, so the number of attempts is limited.
    const attempt = lane.noteAttempt();
    if (attempt < ATTEMPTS) return this.#pause(backOffMs(attempt, thrown as UnderstudyError));
    this.#giveUp(lane, event, 'failed', thrown);
    return true;
  }

  /** Handles the refusal of an event by the service. @returns the same as #send */
  #acceptRefusal(lane: RunLane, event: LaneEvent, refused: ApiError): boolean {
    if (refused.status === 401 || refused.status === 403) {
      const reason = `HTTP ${refused.status}: ${refused.message}`;
      this.#warn('unauthorized', `The service refuses the key (${reason}); no more requests are sent`);
      this.#halt('unauthorized');
    } else if (refused.status === 404 && event.kind !== 'run_start' && lane.restart()) {
      // The service does not know the run any more, for example after a restart with another DATA_DIR.
    } else {
      this.#giveUp(lane, event, 'refused', refused);
    }
    return true;
  }

  /** Sends no event of any run for `ms`, at most PAUSE_MAX_MS. @returns false, as the result of `#send` */
  #pause(ms: number): boolean {
    this.#notBefore = Math.max(this.#notBefore, performance.now() + Math.min(ms, PAUSE_MAX_MS));
    return false;
  }

  /** Drops an event. Drops the whole lane if the event is the start, or if the service answered 404 or 409. */
  #giveUp(lane: RunLane, event: LaneEvent, cause: DropCause, thrown: unknown): void {
    const words = thrown instanceof Error ? thrown.message : String(thrown);
    this.#warn(cause, `The service did not accept a ${event.kind} of run ${lane.runId}: ${words}`);
    const isRunAtFault = thrown instanceof ApiError && (thrown.status === 404 || thrown.status === 409);
    if (event.kind === 'run_start' || isRunAtFault) return this.#lose(lane, cause);
    this.#settle(lane, event);
    if (event.kind === 'step') this.#drop(1, cause);
    if (event.kind === 'run_mark') this.#droppedMarks += event.calls;
  }

  #settle(lane: RunLane, event: LaneEvent): void {
    lane.settle(event);
    if (event.kind === 'step') {
      this.#queuedSteps -= 1;
      this.#queuedBytes -= event.bytes;
    }
    if (this.#waiters.size > 0) this.#answerWaiters();
  }

  #lose(lane: RunLane, cause: DropCause): void {
    const { steps, bytes, marks } = lane.lose();
    this.#droppedMarks += marks;
    this.#queuedSteps -= steps;
    this.#queuedBytes -= bytes;
    this.#ready.delete(lane);
    if (steps > 0) this.#drop(steps, cause);
    this.#answerWaiters();
  }

  #drop(steps: number, cause: DropCause): void {
    this.#droppedSteps += steps;
    if (cause === 'queue_full') this.#warnOfFlood();
  }

  #warnOfFlood(): void {
    const { maxQueuedSteps } = this.#bounds;
    const words = `The service is too slow: steps are dropped while the queue of ${maxQueuedSteps} steps is full`;
    this.#warn('queue_full', `${words} (stats() counts them)`);
  }

  #halt(cause: DropCause): void {
    this.#stoppedBy = cause;
    this.#disarm();
    this.#letExit();
    this.#held.releaseAll(['start', 'end']);
    // Before the events are dropped, which would count as settled.
    for (const waiter of [...this.#waiters]) waiter.done(false);
    for (const lane of [...this.#ready]) this.#lose(lane, cause);
  }

  #answerWaiters(): void {
    for (const waiter of [...this.#waiters]) {
      for (const [lane, mark] of waiter.marks)
        if (lane.settled >= mark && !lane.hasMarks) waiter.marks.delete(lane);
      if (waiter.marks.size === 0) waiter.done(true);
    }
  }

  #letExit(): void {
    if (!this.#held.isEmpty && !this.#isStopped) return;
    this.#release?.();
    this.#release = null;
  }
}

type EventName = 'startRun' | 'logStep' | 'markRun' | 'finishRun';

/** Converts an event to a call of the API. */
function toCall(lane: RunLane, event: LaneEvent): [EventName, RequestOf<EventName>] {
  const params = { id: lane.runId };
  if (event.kind === 'run_start') return ['startRun', { body: event.body }];
  if (event.kind === 'step') return ['logStep', { params, body: event.body }];
  if (event.kind === 'run_mark') return ['markRun', { params, body: event.body }];
  return ['finishRun', { params, body: { outcome: event.outcome } }];
}

/** A caller waiting for a flush. */
interface Waiter {
  /** The number of settled events that each lane must reach. */
  marks: Map<RunLane, number>;
  done(isDone: boolean): void;
}
