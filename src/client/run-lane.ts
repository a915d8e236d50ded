/**
 * What one run has for the service, in order: `run_start`, its steps, `run_finish`. A lane is filled by the run and emptied by
 * the sender. Any thread.
 */
import { RingQueue } from '../std/ring-queue.ts';
import type { AnswerOf, RequestOf } from './operations.ts';

export type RunStartBody = RequestOf<'startRun'>['body'];
export type StepBody = RequestOf<'logStep'>['body'];
export type Evaluation = AnswerOf<'evaluate'>;

/** What is sent next. */
export type LaneEvent =
  | { kind: 'run_start'; body: RunStartBody }
  | { kind: 'step'; body: StepBody; bytes: number }
  | { kind: 'run_finish'; outcome: string };

/** `waiting`: the service does not know the run yet. `lost`: nothing of the run is sent any more. */
type LaneState = 'waiting' | 'started' | 'finished' | 'lost';

export class RunLane {
  readonly start: RunStartBody;
  /** Whether the agent is to be told to change course. */
  readonly isAdvised: boolean;
  readonly #onIntervention: (evaluation: Evaluation) => void;
  readonly #steps: RingQueue<{ body: StepBody; bytes: number }>;
  #state: LaneState = 'waiting';
  #outcome: string | null = null;
  /** Events that were put in, and those that are done with: sent or dropped. */
  #accepted = 1;
  #settled = 0;
  /** At the event that is next. */
  #attempts = 0;
  /** The service had forgotten the run once. */
  #isRestarted = false;

  constructor(
    start: RunStartBody,
    capacity: number,
    onIntervention: ((evaluation: Evaluation) => void) | null,
  ) {
    this.start = start;
    this.isAdvised = onIntervention !== null;
    this.#onIntervention = onIntervention ?? (() => {});
    this.#steps = new RingQueue(capacity);
  }

  get runId(): string {
    return this.start.run_id;
  }

  get accepted(): number {
    return this.#accepted;
  }

  get settled(): number {
    return this.#settled;
  }

  get isLost(): boolean {
    return this.#state === 'lost';
  }

  /** @returns false when it holds as many as it may */
  push(body: StepBody, bytes: number): boolean {
    if (!this.#steps.push({ body, bytes })) return false;
    this.#accepted += 1;
    return true;
  }

  end(outcome: string): void {
    this.#outcome = outcome;
    this.#accepted += 1;
  }

  /** @returns null when there is nothing to send now */
  next(): LaneEvent | null {
    if (this.#state === 'waiting') return { kind: 'run_start', body: this.start };
    if (this.#state !== 'started') return null;
    const step = this.#steps.peek();
    if (step !== undefined) return { kind: 'step', ...step };
    return this.#outcome === null ? null : { kind: 'run_finish', outcome: this.#outcome };
  }

  /** The event that `next` gave is done with. */
  settle(event: LaneEvent): void {
    this.#attempts = 0;
    if (event.kind === 'step') this.#steps.shift();
    else this.#state = event.kind === 'run_start' ? 'started' : 'finished';
    // The second start of a run was counted with the first.
    if (event.kind !== 'run_start' || !this.#isRestarted) this.#settled += 1;
  }

  /** @returns how often the event that is next did not get through */
  noteAttempt(): number {
    this.#attempts += 1;
    return this.#attempts;
  }

  /** @returns whether the run should be started once more, which is so the first time */
  restart(): boolean {
    if (this.#isRestarted) return false;
    this.#isRestarted = true;
    this.#state = 'waiting';
    return true;
  }

  /** Gives everything up. @returns what was dropped */
  lose(): { steps: number; bytes: number } {
    let bytes = 0;
    const steps = this.#steps.size;
    for (let step = this.#steps.shift(); step !== undefined; step = this.#steps.shift()) bytes += step.bytes;
    this.#state = 'lost';
    this.#settled = this.#accepted;
    return { steps, bytes };
  }

  advise(evaluation: Evaluation): void {
    this.#onIntervention(evaluation);
  }
}
