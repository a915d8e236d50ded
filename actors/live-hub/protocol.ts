/**
 * What a live hub understands. One actor an organization, its key the organization's id: it numbers the events, keeps
 * the last ones, and publishes each to the server threads that have readers. Any thread.
 */

import { encodeLiveData, type LiveEvent } from '../../src/domain/live-event.ts';
import { PackablePayload } from '../../src/runtime/link.ts';

export const LIVE_HUB_KIND = 'live-hub';

/** An event as readers get it. */
export interface NumberedEvent {
  /** Increasing within the organization, from 1; with holes where the process was restarted. */
  id: number;
  name: LiveEvent['event'];
  project_id: string | null;
  run_id: string | null;
  /** Milliseconds since the epoch. */
  at_ms: number;
  /** JSON on one line. */
  data: string;
}

/** What a hub publishes. */
export interface LivePublication extends NumberedEvent {
  /** Id of the event before it; 0 when the hub remembers none. A reader that did not get that one has missed something. */
  previous_id: number;
}

/** What happened, for the organization's hub. On its way to another thread it is written as readers get it. */
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

export type PackedLive = readonly [
  name: LiveEvent['event'],
  project_id: string | null,
  run_id: string | null,
  at_ms: number,
  data: string,
];

export interface ReplayRequest {
  /** Events after this id; null: none, only the place where to go on. */
  after_id: number | null;
  /** Only this project's; null: all. */
  project_id: string | null;
  /** Most events in the answer. */
  limit: number;
}

export interface ReplayReply {
  /** Events between `after_id` and the first one here are lost; the reader must be told. */
  is_reset: boolean;
  events: NumberedEvent[];
  /** Where to go on: every event up to this id was looked at. */
  last_id: number;
  /** There are further events after `last_id`. */
  more: boolean;
}

/** Which events go: all that is named must be true of them. */
export interface ForgetRequest {
  run_id?: string;
  project_id?: string;
  /** Older than this, milliseconds since the epoch. */
  before_ms?: number;
}

export type LiveHubProtocol = {
  /** Told, never asked: a live event is no reason to wait. */
  publish: { request: LiveMessage | PackedLive; reply: undefined };
  replay: { request: ReplayRequest; reply: ReplayReply };
  /** Takes out of the ring what was deleted; told. */
  forget: { request: ForgetRequest; reply: undefined };
};

/** Where a hub publishes what happens in the organization. */
export function liveTopic(orgId: string): string {
  return `live:${orgId}`;
}
