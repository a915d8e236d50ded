/**
 * The live hub of an organization: gives each event its number, keeps the last ones in memory, publishes it. Numbers
 * are reserved in blocks, so that a restart goes on above every number that was ever told and only one event in a
 * block waits for the disk. Server threads.
 */

import { encodeLiveData } from '../../src/domain/live-event.ts';
import { LIVE_RING_BYTES, LIVE_RING_EVENTS } from '../../src/limits.ts';
import type { Behaviour } from '../../src/runtime/protocol.ts';
import { LIVE_HUB_KIND, type LiveHubProtocol, type LivePublication, liveTopic } from './protocol.ts';
import { EventRing } from './ring.ts';

/** Numbers that one commit reserves; as many may be missing after a restart. */
const ID_BLOCK = 10_000;

/** Only what is reserved is stored; the ring is of this life. */
interface Hub {
  reserved_to: number;
  ring: EventRing;
}

interface IdsReserved {
  reserved_to: number;
}

export const liveHub: Behaviour<LiveHubProtocol, Hub, IdsReserved> = {
  kind: LIVE_HUB_KIND,
  initial: () => ({ reserved_to: 0, ring: new EventRing(LIVE_RING_EVENTS, LIVE_RING_BYTES) }),

  handlers: {
    publish({ reserved_to, ring }, event, context) {
      const previous_id = ring.last_id;
      const id = previous_id + 1;
      const publication: LivePublication = {
        id,
        previous_id,
        name: event.event,
        project_id: event.project_id,
        data: encodeLiveData(event),
      };
      // Before the ring changes: were the commit to fail, the actor would begin again with an empty one.
      if (id > reserved_to) context.persist({ reserved_to: previous_id + ID_BLOCK });
      ring.push(publication);
      context.publish(liveTopic(context.self.key), publication);
    },

    replay({ ring }, { after_id, project_id, limit }, context) {
      context.reply(ring.read(after_id, project_id, limit));
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

/** Where nobody can read the stream: hears everything, keeps nothing, writes nothing. Senders need not know. */
export const silentLiveHub: typeof liveHub = {
  ...liveHub,
  handlers: { ...liveHub.handlers, publish: () => {} },
};
