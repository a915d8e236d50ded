/**
 * Publishes events to live hubs and reads events back. Only this file makes the hubs' messages. Server threads use the
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

export type { NumberedEvent, ReplayReply, ReplayRequest } from './protocol.ts';

/** Deadline for reading a page. It is short, because events are in memory. */
const REPLAY_DEADLINE_MS = 2_000;

/** The arguments of a `tell`. */
interface LiveEventTell {
  to: ActorAddress;
  name: 'publish';
  payload: LiveMessage;
}

/**
 * Makes the message with which an actor reports an event: `const { to, name, payload } = liveEventTell(event)`, then
 * `context.tell(to, name, payload)`. Texts that are too long are cut.
 */
export function liveEventTell(event: LiveEvent): LiveEventTell {
  const payload = new LiveMessage(boundLiveEvent(event));
  return { to: { kind: LIVE_HUB_KIND, key: event.org_id }, name: 'publish', payload };
}

/** Makes the message with which an actor makes the hub forget events: the arguments of its context's `tell`. */
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
   * Sends the event to all readers of the organization's stream. Does not wait or fail. If no hub can be reached, the
   * event is lost, which is acceptable because the stream only shows stored data.
   */
  publish(event: LiveEvent): void {
    const { to, name, payload } = liveEventTell(event);
    this.#asker.tell(to, name, payload);
  }

  /** Makes the hub forget deleted data. Never waits or fails. */
  forget(orgId: string, request: ForgetRequest): void {
    const { to, name, payload } = liveForgetTell(orgId, request);
    this.#asker.tell(to, name, payload);
  }
}

/** Sends messages to actors and receives what they publish: the runtime's ActorClient. */
export interface SubscribingAsker extends Asker {
  subscribe(topic: string, listener: (payload: unknown) => void): () => void;
}

/** The source of the stream for readers: the hubs of this process, or the stream that several boxes share. */
export interface LiveSource {
  /**
   * Subscribes to the organization's events, in order; `previous_id` reveals lost events.
   * @param onAhead called with an id up to which there may be events that were not published. If events with higher ids
   *   were published before, the numbering has begun again, and readers must subscribe again with the ids that they
   *   have
   * @returns a function that ends the subscription
   */
  subscribe(
    orgId: string,
    onPublication: (publication: LivePublication) => void,
    onAhead: (id: number) => void,
  ): () => void;
  /**
   * Reads events that are still kept.
   * @throws {CatalogueError} `unavailable` if they cannot be read now
   */
  replay(orgId: string, request: ReplayRequest): Promise<ReplayReply>;
}

/** Reads the stream from the hubs, on the server threads that serve it. */
export class LiveHubReader implements LiveSource {
  readonly #asker: SubscribingAsker;

  constructor(asker: SubscribingAsker) {
    this.#asker = asker;
  }

  subscribe(orgId: string, listener: (publication: LivePublication) => void): () => void {
    return this.#asker.subscribe(liveTopic(orgId), (payload) => listener(payload as LivePublication));
  }

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
