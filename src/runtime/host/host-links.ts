/**
 * The links of a host: to clients and to the hosts of other threads, with the topics to which each subscribes. Actor
 * threads, server threads (and the simulator).
 */

import type { Link } from '../link.ts';

/** All links of one host. */
export class HostLinks {
  readonly #links = new Set<Link>();
  readonly #peers = new Map<number, Link>();
  readonly #subscribers = new Map<string, Set<Link>>();

  add(link: Link): void {
    this.#links.add(link);
  }

  /** Adds the link to the host of another thread, which replaces an earlier link to that host. */
  addPeer(index: number, link: Link): void {
    this.#peers.set(index, link);
  }

  /** Forgets a link that has closed. */
  forget(link: Link): void {
    this.#links.delete(link);
    for (const [index, peer] of this.#peers) if (peer === link) this.#peers.delete(index);
    for (const [topic, links] of this.#subscribers) {
      links.delete(link);
      if (links.size === 0) this.#subscribers.delete(topic);
    }
  }

  peer(index: number): Link | undefined {
    return this.#peers.get(index);
  }

  peers(): Iterable<Link> {
    return this.#peers.values();
  }

  isPeer(link: Link): boolean {
    for (const peer of this.#peers.values()) if (peer === link) return true;
    return false;
  }

  subscribe(topic: string, link: Link): void {
    const links = this.#subscribers.get(topic);
    if (links === undefined) this.#subscribers.set(topic, new Set([link]));
    else links.add(link);
  }

  unsubscribe(topic: string, link: Link): void {
    const links = this.#subscribers.get(topic);
    links?.delete(link);
    if (links?.size === 0) this.#subscribers.delete(topic);
  }

  /** Returns the links that subscribe to the topic; undefined if none does. */
  subscribers(topic: string): Iterable<Link> | undefined {
    return this.#subscribers.get(topic);
  }

  flush(): void {
    for (const link of this.#links) link.flush();
  }

  close(): void {
    for (const link of [...this.#links]) link.close();
  }
}
