/**
 * One run's events for the service, in order: `run_start`, its steps, `run_finish`. Marks are sent as soon as no step
 * waits, even after the end. The run adds events to its lane, and the sender removes them. Any thread.
 */
import { RingQueue } from '../std/ring-queue.ts';
import type { AnswerOf, RequestOf } from './operations.ts';
import { joinMarks, type MarkBody } from './run-marks.ts';
import type { StepBody } from './step.ts';

export type RunStartBody = RequestOf<'startRun'>['body'];
export type Evaluation = AnswerOf<'evaluate'>;

/** The next event to send. */
export type LaneEvent =
  | { kind: 'run_start'; body: RunStartBody }
  | { kind: 'step'; body: StepBody; bytes: number }
  | { kind: 'run_mark'; body: MarkBody; calls: number }
  | { kind: 'run_finish'; outcome: string };

/** `waiting`: the service does not know the run yet. `lost`: no further events of the run are sent. */
type LaneState = 'waiting' | 'started' | 'finished' | 'lost';

export class RunLane {
  readonly start: RunStartBody;
  /** Whether interventions are requested for the run. */
  readonly isAdvised: boolean;
  readonly #onIntervention: (evaluation: Evaluation) => void;
  readonly #steps: RingQueue<{ body: StepBody; bytes: number }>;
  /** The part that is held back (held-lanes.ts); null: no part. */
  held: 'start' | 'end' | null = null;
  #state: LaneState = 'waiting';
  #outcome: string | null = null;
  /** Numbers of added events, including the start, and of events that were sent or dropped. Marks are not counted. */
  #accepted = 1;
  #settled = 0;
  /** Number of failed attempts (`noteAttempt`) since an event of the run was last sent or dropped. */
  #attempts = 0;
  #isFrameworkOpen: boolean;
  /** `next` has returned the end, which can no longer be held back. */
  #isEnding = false;
  /** The run was started again, because the service did not know it. */
  #isRestarted = false;
  /**
   * The waiting marks as one event, with the number of `mark` calls in it; null: no marks wait. The counts of events do
   * not include this event.
   */
  #marks: { body: MarkBody; calls: number } | null = null;

  /** @param isFrameworkOpen whether an integration may still name the framework */
  constructor(
    start: RunStartBody,
    isFrameworkOpen: boolean,
    capacity: number,
    onIntervention: ((evaluation: Evaluation) => void) | null,
  ) {
    this.start = start;
    this.#isFrameworkOpen = isFrameworkOpen;
    this.isAdvised = onIntervention !== null;
    this.#onIntervention = onIntervention ?? (() => {});
    this.#steps = new RingQueue(capacity);
  }

  get runId(): string {
    return this.start.run_id;
  }

  /** Number of added events, not counting an end that is held back. */
  get accepted(): number {
    return this.held === 'end' ? this.#accepted - 1 : this.#accepted;
  }

  get settled(): number {
    return this.#settled;
  }

  get isLost(): boolean {
    return this.#state === 'lost';
  }

  get hasMarks(): boolean {
    return this.#marks !== null;
  }

  /** Whether the run has ended and takes no more steps. */
  get isClosed(): boolean {
    return this.#outcome !== null && this.held !== 'end';
  }

  /** Whether the run has an end that `next` has not returned yet, so that the end can still wait for steps. */
  get isEndOpen(): boolean {
    return this.#outcome !== null && !this.#isEnding && this.#state !== 'lost';
  }

  /** Sets the framework's name, unless the agent has set one or the start is already being sent. */
  nameFramework(name: string): void {
    if (!this.#isFrameworkOpen) return;
    this.start.framework = name;
    this.#isFrameworkOpen = false;
  }

  /** Adds a step. @returns false if the lane is full; the step is then not added */
  push(body: StepBody, bytes: number): boolean {
    if (!this.#steps.push({ body, bytes })) return false;
    this.#accepted += 1;
    return true;
  }

  /**
   * Merges marks into those that wait: tags are added, and other values replace earlier ones.
   * @param leaveOut called for each part that exceeds the limits of a run's marks
   */
  mark(body: MarkBody, leaveOut: (what: string) => void): void {
    const { body: before = {}, calls = 0 } = this.#marks ?? {};
    this.#marks = { body: joinMarks(before, body, leaveOut), calls: calls + 1 };
  }

  end(outcome: string): void {
    this.#outcome = outcome;
    this.#accepted += 1;
  }

  /** Returns the next event to send, which stays in the lane until `settle`; null if there is nothing to send now. */
  next(): LaneEvent | null {
    if (this.#state === 'waiting') {
      if (this.held === 'start') return null;
      this.#isFrameworkOpen = false;
      return { kind: 'run_start', body: this.start };
    }
    if (this.#state === 'lost') return null;
    const step = this.#steps.peek();
    if (step !== undefined) return { kind: 'step', ...step };
    if (this.#marks !== null) return { kind: 'run_mark', ...this.#marks };
    if (this.#outcome === null || this.held === 'end' || this.#state === 'finished') return null;
    this.#isEnding = true;
    return { kind: 'run_finish', outcome: this.#outcome };
  }

  /** Removes the event that `next` returned, because it was sent or dropped. */
  settle(event: LaneEvent): void {
    this.#attempts = 0;
    if (event.kind === 'run_mark') return this.#settleMarks(event);
    if (event.kind === 'step') this.#steps.shift();
    else this.#state = event.kind === 'run_start' ? 'started' : 'finished';
    // A second start of the run is not counted again.
    if (event.kind !== 'run_start' || !this.#isRestarted) this.#settled += 1;
  }

  /**
   * Counts a failed attempt to send the next event.
   * @returns the number of such attempts since an event of the run was last sent or dropped
   */
  noteAttempt(): number {
    this.#attempts += 1;
    return this.#attempts;
  }

  /**
   * Makes the start the next event again, because the service does not know the run.
   * @returns false if the run was already restarted or is finished; then nothing changes
   */
  restart(): boolean {
    // If the service does not know a run that has ended, the run was deleted. So marks must not start it again.
    if (this.#isRestarted || this.#state === 'finished') return false;
    this.#isRestarted = true;
    this.#state = 'waiting';
    return true;
  }

  /** Returns all remaining events, in order. They also stay in the lane, but the lane must not send any of them. */
  takeRest(): LaneEvent[] {
    const events: LaneEvent[] = [];
    if (this.#state === 'lost') return events;
    if (this.#state === 'waiting') events.push({ kind: 'run_start', body: this.start });
    for (const step of this.#steps.toArray()) events.push({ kind: 'step', ...step });
    if (this.#marks !== null) events.push({ kind: 'run_mark', ...this.#marks });
    if (this.#outcome !== null && this.#state !== 'finished') {
      events.push({ kind: 'run_finish', outcome: this.#outcome });
    }
    return events;
  }

  /** Drops all events and sends no more. @returns the numbers of dropped steps, of their bytes and of `mark` calls */
  lose(): { steps: number; bytes: number; marks: number } {
    let bytes = 0;
    const steps = this.#steps.size;
    const marks = this.#marks?.calls ?? 0;
    this.#marks = null;
    for (let step = this.#steps.shift(); step !== undefined; step = this.#steps.shift()) bytes += step.bytes;
    this.#state = 'lost';
    this.#settled = this.#accepted;
    return { steps, bytes, marks };
  }

  advise(evaluation: Evaluation): void {
    this.#onIntervention(evaluation);
  }

  #settleMarks({ body, calls }: { body: MarkBody; calls: number }): void {
    if (this.#marks === null) return;
    // If marks were added meanwhile, the merged event is sent. Sending the same marks twice changes
    // nothing.
    const isAll = this.#marks.body === body;
    this.#marks = isAll ? null : { body: this.#marks.body, calls: this.#marks.calls - calls };
  }
}
