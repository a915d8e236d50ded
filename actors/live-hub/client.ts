/**
 * Tells live hubs what happened, and reads them. The only place that makes their messages. Server threads read with the two
 * classes; behaviours on server and actor threads pass `liveEventTell` to their context.
 */

import { boundLiveEvent, type LiveEvent } from '../../src/domain/live-event.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import type { ActorAddress } from '../../src/runtime/protocol.ts';
import {
  type ForgetRequest,
  LIVE_HUB_KIND,
  LiveMessage,
  type LivePublication,
  liveTopic,
  type ReplayReply,
  type ReplayRequest,
} from './protocol.ts';

export type { LivePublication, NumberedEvent, ReplayReply, ReplayRequest } from './protocol.ts';

/** A page comes out of memory. */
const REPLAY_DEADLINE_MS = 2_000;

/** The arguments of a `tell`. */
export interface LiveEventTell {
  to: ActorAddress;
  name: 'publish';
  payload: LiveMessage;
}

/**
 * What an actor tells when something happened: `const { to, name, payload } = liveEventTell(event)`, then
 * `context.tell(to, name, payload)`. Texts that are too long are cut.
 */
export function liveEventTell(event: LiveEvent): LiveEventTell {
  const payload = new LiveMessage(boundLiveEvent(event));
  return { to: { kind: LIVE_HUB_KIND, key: event.org_id }, name: 'publish', payload };
}

/** The same for what the hub must not remember any longer. */
export function liveForgetTell(
  orgId: string,
  payload: ForgetRequest,
): { to: ActorAddress; name: 'forget'; payload: ForgetRequest } {
  return { to: { kind: LIVE_HUB_KIND, key: orgId }, name: 'forget', payload };
}

export class LiveHubClient {
  readonly #asker: Asker;

  constructor(asker: Asker) {
    this.#asker = asker;
  }

  /**
   * Tells everyone who watches the organization. Never waits, never fails: an event that finds no hub is lost, as the
   * stream is a view of what is stored elsewhere.
   */
  publish(event: LiveEvent): void {
    const { to, name, payload } = liveEventTell(event);
    this.#asker.tell(to, name, payload);
  }

  /** Has the hub forget what was deleted. Never waits, never fails. */
  forget(orgId: string, request: ForgetRequest): void {
    const { to, name, payload } = liveForgetTell(orgId, request);
    this.#asker.tell(to, name, payload);
  }
}

/** Reaches actors and hears what they publish: the runtime's ActorClient. */
export interface SubscribingAsker extends Asker {
  subscribe(topic: string, listener: (payload: unknown) => void): () => void;
}

/** The reading side, for the server threads that serve the stream. */
export class LiveHubReader {
  readonly #asker: SubscribingAsker;

  constructor(asker: SubscribingAsker) {
    this.#asker = asker;
  }

  /**
   * Hears what happens in the organization from now on, in order; what is lost on the way shows in `previous_id`.
   * @returns ends it
   */
  subscribe(orgId: string, listener: (publication: LivePublication) => void): () => void {
    return this.#asker.subscribe(liveTopic(orgId), (payload) => listener(payload as LivePublication));
  }

  /**
   * Reads what the hub remembers.
   * @throws {CatalogueError} `unavailable` when the hub cannot be asked now
   */
  async replay(orgId: string, request: ReplayRequest): Promise<ReplayReply> {
    const to = { kind: LIVE_HUB_KIND, key: orgId };
    try {
      return (await this.#asker.ask(to, 'replay', request, {
        deadline_ms: REPLAY_DEADLINE_MS,
      })) as ReplayReply;
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }
}
