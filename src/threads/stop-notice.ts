/**
 * The time after a signal in which load balancers learn that the service stops. It still answers every request, but `/ready`
 * and `/__gw/ready` say 503. Main thread.
 */
import { setTimeout as pause } from 'node:timers/promises';

/** What the readiness routes say. */
export const STOPPING = 'the service is stopping';

export class StopNotice {
  #isGiven = false;

  get isGiven(): boolean {
    return this.#isGiven;
  }

  /** @param ms how long until the end may begin; 0: at once */
  async give(ms: number): Promise<void> {
    if (ms === 0) return;
    this.#isGiven = true;
    await pause(ms);
  }
}
