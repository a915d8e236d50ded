/**
 * The orderly end of a host: it handles what was accepted, makes it durable, passivates all actors, and waits until its
 * messages to other threads have arrived. Actor threads, server threads (and the simulator).
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

/** What draining needs of the host around it. */
interface DrainingParts {
  journal: HostJournal;
  gate: OutputGate;
  dispatch: Dispatch;
  passivation: Passivation;
  mailboxes: Mailboxes;
  links: HostLinks;
  scheduler: Scheduler;
}

/** Finds out when a host has nothing left to do. */
export class Draining {
  readonly #parts: DrainingParts;
  /** Peers that have not confirmed yet that this thread's tells reached them. */
  readonly #unconfirmedPeers = new Set<Link>();
  #peersAsked = false;
  #begun = false;
  #done: Deferred<number> | null = null;

  constructor(parts: DrainingParts) {
    this.#parts = parts;
  }

  /** From the first drain on: only other actors are still listened to. */
  get begun(): boolean {
    return this.#begun;
  }

  /** @returns messages handled since the start, once nothing is left to do */
  begin(): Promise<number> {
    this.#begun = true;
    this.#done ??= createDeferred();
    const { promise } = this.#done;
    this.#parts.scheduler.soon(() => this.check());
    return promise;
  }

  /** The peer has all that this thread has told it, or is gone. */
  confirm(peer: Link): void {
    if (this.#unconfirmedPeers.delete(peer)) this.check();
  }

  /** Called whenever something has come to its end. */
  check(): void {
    const done = this.#done;
    const { journal, gate, dispatch, passivation, mailboxes, links } = this.#parts;
    if (done === null || mailboxes.closed) return;
    if (mailboxes.waiting > 0 || gate.held > 0 || gate.ioInFlight > 0 || journal.pending) return;
    passivation.passivateAll();
    // Snapshots may have opened a last batch; its commit comes back here.
    if (journal.pending) return;
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
