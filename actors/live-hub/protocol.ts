/**
 * What a live hub understands. One actor an organization, its key the organization's id: it numbers the events, keeps
 * the last ones, and publishes each to the server threads that have readers. Any thread.
 */

import type { LiveEvent } from '../../src/domain/live-event.ts';

export const LIVE_HUB_KIND = 'live-hub';

/** An event as readers get it. */
export interface NumberedEvent {
  /** Increasing within the organization, from 1; with holes where the process was restarted. */
  id: number;
  name: LiveEvent['event'];
  project_id: string | null;
  /** JSON on one line. */
  data: string;
}

/** What a hub publishes. */
export interface LivePublication extends NumberedEvent {
  /** Id of the event before it; 0 when the hub remembers none. Whoever has not heard that one has missed something. */
  previous_id: number;
}

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

export type LiveHubProtocol = {
  /** Told, never asked: a live event is no reason to wait. */
  publish: { request: LiveEvent; reply: undefined };
  replay: { request: ReplayRequest; reply: ReplayReply };
};

/** Where a hub publishes what happens in the organization. */
export function liveTopic(orgId: string): string {
  return `live:${orgId}`;
}
