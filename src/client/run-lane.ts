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
  /** What waits and is not sent yet (held-lanes.ts). */
  held: 'start' | 'end' | null = null;
  #state: LaneState = 'waiting';
  #outcome: string | null = null;
  /** Events that were put in, and those that are done with: sent or dropped. */
  #accepted = 1;
  #settled = 0;
  /** At the event that is next. */
  #attempts = 0;
  #isFrameworkOpen: boolean;
  /** The end is being sent. */
  #isEnding = false;
  /** The service had forgotten the run once. */
  #isRestarted = false;

  /** @param isFrameworkOpen an integration may name the framework */
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

  /** Without an end that waits. */
  get accepted(): number {
    return this.held === 'end' ? this.#accepted - 1 : this.#accepted;
  }

  get settled(): number {
    return this.#settled;
  }

  get isLost(): boolean {
    return this.#state === 'lost';
  }

  /** Whether the run has ended and takes no more steps. */
  get isClosed(): boolean {
    return this.#outcome !== null && this.held !== 'end';
  }

  /** Whether the end has not been sent yet, so that it can still wait for steps. */
  get isEndOpen(): boolean {
    return this.#outcome !== null && !this.#isEnding && this.#state !== 'lost';
  }

  /** Names the framework, unless the agent has, or the start is on its way. */
  nameFramework(name: string): void {
    if (!this.#isFrameworkOpen) return;
    this.start.framework = name;
    this.#isFrameworkOpen = false;
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

  /** For the sender, which sends it. @returns null when there is nothing to send now */
  next(): LaneEvent | null {
    if (this.#state === 'waiting') {
      if (this.held === 'start') return null;
      this.#isFrameworkOpen = false;
      return { kind: 'run_start', body: this.start };
    }
    if (this.#state !== 'started') return null;
    const step = this.#steps.peek();
    if (step !== undefined) return { kind: 'step', ...step };
    if (this.#outcome === null || this.held === 'end') return null;
    this.#isEnding = true;
    return { kind: 'run_finish', outcome: this.#outcome };
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

  /** All that is left, in order. The lane is then to be given up. */
  takeRest(): LaneEvent[] {
    const events: LaneEvent[] = [];
    if (this.#state === 'lost') return events;
    if (this.#state === 'waiting') events.push({ kind: 'run_start', body: this.start });
    for (const step of this.#steps.toArray()) events.push({ kind: 'step', ...step });
    if (this.#outcome !== null && this.#state !== 'finished') {
      events.push({ kind: 'run_finish', outcome: this.#outcome });
    }
    return events;
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
