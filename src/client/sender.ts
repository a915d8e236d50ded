/**
 * Sends the events of runs to the service in the background: each run's events in order, several runs at once, bounded in
 * number and bytes. The agent's own calls only put something into a lane; they wait for nothing and throw nothing. The sender
 * drops what it cannot send, counts it, and says so once. Any thread.
 */
import { backOffMs, type Caller } from './api-client.ts';
import { ApiError, CircuitOpenError, ConnectionError, TimeoutError, type UnderstudyError } from './errors.ts';
import { HeldLanes } from './held-lanes.ts';
import type { LastRequests } from './last-requests.ts';
import type { RequestOf } from './operations.ts';
import { keepContext, startTimer, stopTimer, type Timer } from './own-context.ts';
import { holdForExit } from './process-end.ts';
import type { LaneEvent, RunLane, StepBody } from './run-lane.ts';

/** Runs that have something to send at once; the steps of one more are dropped. */
const LANES_MAX = 1_000;
/** Runs whose events are under way at once, each over a connection; the others are left for what the agent asks for. */
const LANES_BUSY_MAX = 12;
/** Events that a run sends in its turn, where others wait for theirs. */
const TURN_EVENTS = 32;
/** Steps that come within this time are looked at together. */
const LINGER_MS = 5;
/**
 * How often the sender looks for more when all is sent. A step that comes meanwhile need not arm a timer, which would cost it more
 * than all else that is done on the agent's own path.
 */
const IDLE_LOOKS = 20;
/** Attempts at an event that the service fails at, before it is dropped. */
const ATTEMPTS = 5;
/** How soon the sender checks again whether another's probe has closed the circuit. */
const PROBE_WAIT_MS = 100;
/** Longest wait between two attempts, however long the service asks for. */
const PAUSE_MAX_MS = 60_000;
/** Longest time that a timer takes; a longer one would be over at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Why something was dropped. */
type DropCause = 'queue_full' | 'refused' | 'failed' | 'unauthorized' | 'closed';

interface SenderBounds {
  /** Of one request. */
  timeoutMs: number;
  /** How long the process is held for a last flush. */
  exitFlushMs: number;
  maxQueuedSteps: number;
  maxQueuedBytes: number;
}

export class Sender {
  readonly #caller: Caller;
  readonly #bounds: SenderBounds;
  readonly #warn: (cause: string, message: string) => void;
  /** Lanes with something to send, in the order of their turn. */
  readonly #ready = new Set<RunLane>();
  readonly #busy = new Set<RunLane>();
  readonly #waiters = new Set<Waiter>();
  readonly #held = new HeldLanes((lane) => this.#enqueue(lane));
  /** The agent's own asynchronous context stays out of what is sent. */
  readonly #outside = keepContext();
  #queuedSteps = 0;
  #queuedBytes = 0;
  #sentSteps = 0;
  #droppedSteps = 0;
  /** Armed; null: nothing is due. */
  #timer: Timer | null = null;
  #linger: Timer | null = null;
  /** Monotonic, ms: nothing is sent before. */
  #notBefore = 0;
  /** Looks for more since something was sent. */
  #idleLooks = 0;
  #stoppedBy: DropCause | null = null;
  #release: (() => void) | null = null;
  readonly #leaver = {
    flush: () => this.#flushAtExit(),
    handOver: () => this.#handOver(),
  };

  /** @param warn is called once a cause */
  constructor(caller: Caller, bounds: SenderBounds, warn: (cause: string, message: string) => void) {
    this.#caller = caller;
    this.#bounds = bounds;
    this.#warn = warn;
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
   * Begins to send a run.
   * @param holdMs how long its start may wait for the name of its framework; the run's first event ends the wait
   */
  open(lane: RunLane, holdMs = 0): void {
    if (this.#isStopped || this.#ready.size >= LANES_MAX)
      return this.#lose(lane, this.#stoppedBy ?? 'queue_full');
    if (holdMs > 0 && this.#hold(lane, 'start', holdMs)) return;
    this.#enqueue(lane);
  }

  /** Names the framework of a run, whose start need not wait for it any longer. */
  nameFramework(lane: RunLane, name: string): void {
    lane.nameFramework(name);
    if (lane.held === 'start') this.#held.release(lane);
  }

  /** @param bytes that the step takes in memory, about */
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

  /** @param holdMs how long the end may wait for further steps; each step begins the wait anew, `release` ends it */
  end(lane: RunLane, outcome: string, holdMs = 0): void {
    if (this.#isStopped || lane.isLost) return;
    this.#held.release(lane);
    lane.end(outcome);
    if (holdMs > 0) this.#hold(lane, 'end', holdMs);
    this.#enqueue(lane);
  }

  /** The end of the run waits as `end` says, if it has not been sent yet. */
  reopen(lane: RunLane, holdMs: number): void {
    if (this.#isStopped || !lane.isEndOpen || lane.held !== null || !this.#hold(lane, 'end', holdMs)) return;
    for (const { marks } of this.#waiters) {
      if ((marks.get(lane) ?? 0) > lane.accepted) marks.set(lane, lane.accepted);
    }
    this.#answerWaiters();
  }

  /** Nothing more comes that the end of the run would have to wait for. */
  release(lane: RunLane): void {
    this.#held.release(lane);
  }

  /** Counts steps that never came into a lane. */
  drop(steps: number, cause: DropCause): void {
    this.#drop(steps, cause);
  }

  /**
   * Waits until what is queued now is sent or dropped.
   * @param isLast ends of runs wait no longer for further steps
   * @returns false when the time was over first, or the service does not answer
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
      // Holds the process, which its connections do not.
      const timer = setTimeout(done, Math.min(timeoutMs, TIMER_MAX_MS), false);
      this.#waiters.add(waiter);
      this.#caller.circuit.hurry();
      if (this.#caller.circuit.state !== 'closed') this.#notBefore = 0;
      this.#wake(0);
    });
  }

  /** Sends nothing more, and drops what waits. */
  stop(): void {
    if (!this.#isStopped) this.#halt('closed');
  }

  get #isStopped(): boolean {
    return this.#stoppedBy !== null;
  }

  /** What does not get through now never will: the process has nothing else to do. */
  async #flushAtExit(): Promise<void> {
    this.#release = null;
    if (!(await this.flush(this.#bounds.exitFlushMs, true))) this.stop();
  }

  /** What is left, for another thread to send: this one's event loop has stopped. */
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

  /** @param waitMs 0: as soon as the agent lets go of the thread */
  #wake(waitMs: number): void {
    this.#disarm();
    this.#timer = this.#schedule(waitMs);
  }

  /** The same in LINGER_MS, by a timer that is made once: this is on the agent's own path. */
  #wakeSoon(): void {
    this.#linger = this.#linger?.refresh() ?? this.#schedule(LINGER_MS);
    this.#timer = this.#linger;
  }

  #disarm(): void {
    if (this.#timer === null) return;
    stopTimer(this.#timer);
    // A timer that was cleared cannot be armed again.
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

  /** Sends a lane's events until it is empty or the service wants a pause. Never rejects. */
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

  /** @returns false: the event did not get through, and its lane has another turn after a pause */
  async #send(lane: RunLane, event: LaneEvent): Promise<boolean> {
    try {
      const hasFired = await this.#post(lane, event);
      if (lane.isLost) return true;
      this.#settle(lane, event);
      if (event.kind === 'step') this.#sentSteps += 1;
      if (hasFired && lane.isAdvised) await this.#evaluate(lane);
      return true;
    } catch (thrown) {
      return lane.isLost || this.#judge(lane, event, thrown);
    }
  }

  /** @returns whether a monitor fired */
  async #post(lane: RunLane, event: LaneEvent): Promise<boolean> {
    const manner = { isBackground: true, attempts: 1, timeoutMs: this.#bounds.timeoutMs };
    const [name, request] = toCall(lane, event);
    const answer = await this.#caller.call(name, request, manner);
    return 'fired' in answer && Array.isArray(answer.fired) && answer.fired.length > 0;
  }

  #prepare(lane: RunLane, event: LaneEvent): ReturnType<Caller['prepare']> {
    return this.#caller.prepare(...toCall(lane, event));
  }

  /** Asks what the agent should be told; of the same step the service says the same again. */
  async #evaluate(lane: RunLane): Promise<void> {
    const manner = { isBackground: true, isRepeatable: true, timeoutMs: this.#bounds.timeoutMs };
    const evaluation = await this.#caller
      .call('evaluate', { body: { run_id: lane.runId } }, manner)
      .catch(() => null);
    if (evaluation?.inject === true) lane.advise(evaluation);
  }

  /** What is to be done about an event that did not get through. @returns as #send */
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
      // The service is away: a flush does not wait until it is back.
      for (const waiter of [...this.#waiters]) waiter.done(false);
      return this.#pause(0);
    }
    // The event may be to blame: it is tried some times.
    const attempt = lane.noteAttempt();
    if (attempt < ATTEMPTS) return this.#pause(backOffMs(attempt, thrown as UnderstudyError));
    this.#giveUp(lane, event, 'failed', thrown);
    return true;
  }

  /** The service has looked at the event and does not want it. @returns as #send */
  #acceptRefusal(lane: RunLane, event: LaneEvent, refused: ApiError): boolean {
    if (refused.status === 401 || refused.status === 403) {
      const reason = `HTTP ${refused.status}: ${refused.message}`;
      this.#warn('unauthorized', `The service refuses the key (${reason}); nothing more is sent`);
      this.#halt('unauthorized');
    } else if (refused.status === 404 && event.kind !== 'run_start' && lane.restart()) {
      // It has forgotten the run: it was started anew over another folder, say.
    } else {
      this.#giveUp(lane, event, 'refused', refused);
    }
    return true;
  }

  /** @returns false */
  #pause(ms: number): boolean {
    this.#notBefore = Math.max(this.#notBefore, performance.now() + Math.min(ms, PAUSE_MAX_MS));
    return false;
  }

  /** Drops an event; without its start or with a run that is not there, the whole lane. */
  #giveUp(lane: RunLane, event: LaneEvent, cause: DropCause, thrown: unknown): void {
    const words = thrown instanceof Error ? thrown.message : String(thrown);
    this.#warn(cause, `The service did not take a ${event.kind} of run ${lane.runId}: ${words}`);
    const isRunAtFault = thrown instanceof ApiError && (thrown.status === 404 || thrown.status === 409);
    if (event.kind === 'run_start' || isRunAtFault) return this.#lose(lane, cause);
    this.#settle(lane, event);
    if (event.kind === 'step') this.#drop(1, cause);
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
    const { steps, bytes } = lane.lose();
    this.#queuedSteps -= steps;
    this.#queuedBytes -= bytes;
    this.#ready.delete(lane);
    if (steps > 0) this.#drop(steps, cause);
    this.#answerWaiters();
  }

  #drop(steps: number, cause: DropCause): void {
    this.#droppedSteps += steps;
    if (cause !== 'queue_full') return;
    const { maxQueuedSteps } = this.#bounds;
    const words = `The service does not keep up: steps are dropped while ${maxQueuedSteps} or their bytes wait`;
    this.#warn(cause, `${words} (stats() counts them)`);
  }

  #halt(cause: DropCause): void {
    this.#stoppedBy = cause;
    this.#disarm();
    this.#letExit();
    this.#held.releaseAll(['start', 'end']);
    for (const lane of [...this.#ready]) this.#lose(lane, cause);
    for (const waiter of [...this.#waiters]) waiter.done(false);
  }

  #answerWaiters(): void {
    for (const waiter of [...this.#waiters]) {
      for (const [lane, mark] of waiter.marks) if (lane.settled >= mark) waiter.marks.delete(lane);
      if (waiter.marks.size === 0) waiter.done(true);
    }
  }

  #letExit(): void {
    if (!this.#held.isEmpty && !this.#isStopped) return;
    this.#release?.();
    this.#release = null;
  }
}

type EventName = 'startRun' | 'logStep' | 'finishRun';

/** An event as a call of the API. */
function toCall(lane: RunLane, event: LaneEvent): [EventName, RequestOf<EventName>] {
  const params = { id: lane.runId };
  if (event.kind === 'run_start') return ['startRun', { body: event.body }];
  if (event.kind === 'step') return ['logStep', { params, body: event.body }];
  return ['finishRun', { params, body: { outcome: event.outcome } }];
}

/** A caller that waits for a flush. */
interface Waiter {
  /** Lanes, and how far each must have come. */
  marks: Map<RunLane, number>;
  done(isDone: boolean): void;
}
