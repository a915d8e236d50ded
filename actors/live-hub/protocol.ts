/**
 * Messages of a live hub. Each organization has one hub actor, whose key is the organization's id. The hub numbers the
 * events, keeps the most recent ones, and publishes each event to the server threads that have readers. If several
 * boxes share the stream, the store thread and the database do this instead (exchange.ts). Any thread.
 */

import { encodeLiveData, type LiveEvent } from '../../src/domain/live-event.ts';
import { PackablePayload } from '../../src/runtime/link.ts';
import type { LiveBatch } from '../../src/storage/shared/live.ts';

export const LIVE_HUB_KIND = 'live-hub';

/** An event as readers receive it. */
export interface NumberedEvent {
  /** Increases within the organization, from 1 on. There may be gaps, for example after a restart. */
  id: number;
  name: LiveEvent['event'];
  project_id: string | null;
  run_id: string | null;
  /** Milliseconds since the epoch. */
  at_ms: number;
  /** JSON on one line. */
  data: string;
}

/** The message that a hub publishes. */
export interface LivePublication extends NumberedEvent {
  /**
   * Id of the preceding event; 0 if the hub knows none. A reader that did not get the preceding event has missed
   * events.
   */
  previous_id: number;
}

/** An event on its way to the organization's hub. Between threads it is sent in the form that readers receive. */
export class LiveMessage extends PackablePayload {
  readonly event: LiveEvent;

  constructor(event: LiveEvent) {
    super();
    this.event = event;
  }

  pack(): PackedLive {
    const { event, project_id, run_id, at } = this.event;
    return [event, project_id, run_id, Date.parse(at), encodeLiveData(this.event)];
  }
}

type PackedLive = readonly [
  name: LiveEvent['event'],
  project_id: string | null,
  run_id: string | null,
  at_ms: number,
  data: string,
];

export interface ReplayRequest {
  /** Return events after this id; null: return no events, only `last_id`. */
  after_id: number | null;
  /** Return only events of this project; null: of all projects. */
  project_id: string | null;
  /** Maximum number of events in the answer. */
  limit: number;
}

export interface ReplayReply {
  /** Whether events between `after_id` and the first one returned are lost; the reader must be informed. */
  is_reset: boolean;
  events: NumberedEvent[];
  /** Where to continue: every event up to this id was examined. */
  last_id: number;
  /** Whether there are events after `last_id`. */
  more: boolean;
}

/** Selects the events to forget: an event must match every given field. */
export interface ForgetRequest {
  run_id?: string;
  project_id?: string;
  /** Events before this time, in milliseconds since the epoch. */
  before_ms?: number;
}

export type LiveHubProtocol = {
  /** Sent without a reply, because a live event is not worth waiting for. */
  publish: { request: LiveMessage | PackedLive; reply: undefined };
  replay: { request: ReplayRequest; reply: ReplayReply };
  /** Removes deleted events from the ring; sent without a reply. */
  forget: { request: ForgetRequest; reply: undefined };
};

/** Names the topic on which a hub publishes the organization's events. */
export function liveTopic(orgId: string): string {
  return `live:${orgId}`;
}

/** Requests of a thread to the store thread, on a box that shares its live stream with others. */
export type LiveQuestion =
  /** Begins or stops sending an organization's events to the thread. */
  { follow: string; is_on: boolean } | { replay: ReplayRequest; org_id: string } | { offer: LiveBatch };

/** What the store thread sends to a thread about an organization that the thread follows. */
export interface LiveTold {
  org_id: string;
  publications: LivePublication[];
  /** Id up to which there may be events, published or not. It decreases only when the numbering has begun again. */
  ahead_id: number;
}
