/**
 * Shuts a host down: the host handles the accepted messages, makes all events durable, passivates all actors, and waits
 * until its messages to other threads have arrived. Actor threads, server threads (and the simulator).
 */

import { createDeferred, type Deferred } from '../../std/deferred.ts';
import type { Link } from '../link.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Dispatch } from './dispatch.ts';
import type { HostJournal } from './host-journal.ts';
import type { HostLinks } from './host-links.ts';
import type { Mailboxes } from './mailboxes.ts';
import type { OutputGate } from './output-gate.ts';
import type { Passivation } from './passivation.ts';

/** The functions of the host that draining needs. */
interface DrainingParts {
  journal: HostJournal;
  gate: OutputGate;
  dispatch: Dispatch;
  passivation: Passivation;
  mailboxes: Mailboxes;
  links: HostLinks;
  scheduler: Scheduler;
}

/** Finds out when a host has no work left. */
export class Draining {
  readonly #parts: DrainingParts;
  /** Peers that have not confirmed yet that this thread's tells arrived. */
  readonly #unconfirmedPeers = new Set<Link>();
  #peersAsked = false;
  #begun = false;
  #done: Deferred<number> | null = null;

  constructor(parts: DrainingParts) {
    this.#parts = parts;
  }

  /** Whether draining has begun, so that only messages from other actors are accepted. */
  get begun(): boolean {
    return this.#begun;
  }

  /**
   * Begins to drain the host.
   * @returns the number of messages that the host has handled since its start, once no work is left
   */
  begin(): Promise<number> {
    this.#begun = true;
    this.#done ??= createDeferred();
    const { promise } = this.#done;
    this.#parts.scheduler.soon(() => this.check());
    return promise;
  }

  /** Records that the peer has received all tells of this thread, or has ended. */
  confirm(peer: Link): void {
    if (this.#unconfirmedPeers.delete(peer)) this.check();
  }

  /** Ends the drain if no work is left. To be called whenever some work has ended. */
  check(): void {
    const done = this.#done;
    const { journal, gate, dispatch, passivation, mailboxes, links } = this.#parts;
    if (done === null || mailboxes.closed) return;
    if (mailboxes.waiting > 0 || gate.held > 0 || gate.ioInFlight > 0 || journal.pending) return;
    passivation.passivateAll();
    if (!this.#peersAsked) {
      this.#peersAsked = true;
      for (const peer of links.peers()) {
        if (peer.send({ type: 'fence', id: 0 })) this.#unconfirmedPeers.add(peer);
      }
    }
    if (this.#unconfirmedPeers.size > 0) return;
    this.#peersAsked = false;
    this.#done = null;
    done.resolve(dispatch.handled);
  }
}
