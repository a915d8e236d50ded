/**
 * The live hub of an organization: numbers events, keeps the latest events in memory, and publishes them. It reserves
 * numbers in blocks. So numbers after a restart are higher than all earlier numbers, and only one event in each block
 * waits for a commit. Server threads.
 */

import type { Behaviour } from '../../src/runtime/protocol.ts';
import {
  LIVE_HUB_KIND,
  type LiveHubProtocol,
  LiveMessage,
  type LivePublication,
  liveTopic,
} from './protocol.ts';
import { EventRing } from './ring.ts';

/**
 * Maximum number of events and bytes that a hub keeps for its organization. Beyond either, it drops the oldest events.
 */
export const LIVE_RING_EVENTS = 10_000;
const LIVE_RING_BYTES = 16 << 20;
export const LIVE_RING = { ring_events: LIVE_RING_EVENTS, ring_bytes: LIVE_RING_BYTES } as const;

/** Number of ids that one commit reserves. A restart may skip up to this many ids. */
const ID_BLOCK = 10_000;

/** The hub's state. Only the reserved number is stored; the ring is lost when the actor ends. */
interface Hub {
  reserved_to: number;
  ring: EventRing;
}

interface IdsReserved {
  reserved_to: number;
}

type LiveHub = Behaviour<LiveHubProtocol, Hub, IdsReserved>;

export const liveHub: LiveHub = {
  kind: LIVE_HUB_KIND,
  initial: () => ({ reserved_to: 0, ring: new EventRing(LIVE_RING_EVENTS, LIVE_RING_BYTES) }),

  handlers: {
    publish({ reserved_to, ring }, message, context) {
      const [name, project_id, run_id, at_ms, data] =
        message instanceof LiveMessage ? message.pack() : message;
      const previous_id = ring.last_id;
      const id = previous_id + 1;
      const publication: LivePublication = {
        id,
        previous_id,
        name,
        project_id,
        run_id,
        at_ms,
        data,
      };
      // Persist before the ring changes. If the commit fails, the actor restarts with an empty ring.
      if (id > reserved_to) context.persist({ reserved_to: previous_id + ID_BLOCK });
      ring.push(publication);
      context.publish(liveTopic(context.self.key), publication);
    },

    replay({ ring }, { after_id, project_id, limit }, context) {
      context.reply(ring.read(after_id, project_id, limit));
    },

    forget({ ring }, { run_id, project_id, before_ms }) {
      ring.forget(
        (event) =>
          (run_id === undefined || event.run_id === run_id) &&
          (project_id === undefined || event.project_id === project_id) &&
          (before_ms === undefined || event.at_ms < before_ms),
      );
    },
  },

  internal: {},

  activated({ reserved_to, ring }) {
    ring.beginAfter(reserved_to);
  },

  persistence: {
    apply: ({ ring }, { reserved_to }) => ({ ring, reserved_to }),
    snapshot: {
      version: 1,
      every_events: 100,
      encode: ({ reserved_to }) => ({ reserved_to }),
      decode: (data) => ({
        reserved_to: (data as IdsReserved).reserved_to,
        ring: new EventRing(LIVE_RING_EVENTS, LIVE_RING_BYTES),
      }),
    },
  },
};

/**
 * A hub for a service without a live stream. It accepts events and drops them, so senders need not know whether there
 * is a stream.
 */
export const silentLiveHub: LiveHub = {
  ...liveHub,
  handlers: { ...liveHub.handlers, publish: () => {}, forget: () => {} },
};

/** Makes a hub that drops events older than the retention limit. @param maxAgeMs null: no limit */
export function liveHubOf(maxAgeMs: number | null): LiveHub {
  if (maxAgeMs === null) return liveHub;
  const { publish, replay, ...others } = liveHub.handlers;
  const expire = ({ ring }: Hub, nowMs: number) => ring.expire(nowMs - maxAgeMs);
  return {
    ...liveHub,
    handlers: {
      ...others,
      publish(hub, event, context) {
        expire(hub, context.now_ms);
        publish(hub, event, context);
      },
      replay(hub, request, context) {
        expire(hub, context.now_ms);
        replay(hub, request, context);
      },
    },
  };
}
