/**
 * The notice period after a stop signal, in which load balancers find out that the service stops. In this
 * time the service still answers every request, but `/ready` and `/__gw/ready` answer 503. Main thread.
 */
import { setTimeout as pause } from 'node:timers/promises';

/** The reason that the readiness routes report. */
export const STOPPING = 'the service is stopping';

export class StopNotice {
  #isGiven = false;

  get isGiven(): boolean {
    return this.#isGiven;
  }

  /** Gives the notice, and waits. @param ms length of the notice period; 0: none */
  async give(ms: number): Promise<void> {
    if (ms === 0) return;
    this.#isGiven = true;
    await pause(ms);
  }
}
