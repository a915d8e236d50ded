/**
 * The live hub of a box that shares its stream with others: collects an organization's events while the store thread
 * handles earlier ones, and then sends them together. Ids and the latest events are in the database (exchange.ts); this
 * actor stores nothing. Server threads.
 */
import type { Behaviour, Context, Outcome, Refusal } from '../../src/runtime/protocol.ts';
import type { LiveBatch, LiveEntry, LiveForget } from '../../src/storage/shared/live.ts';
import { LIVE_HUB_KIND, type LiveHubProtocol, LiveMessage } from './protocol.ts';

/**
 * The adapter that sends batches to the store thread: `send(batch: LiveBatch)` resolves when the batch is stored or
 * dropped.
 */
export const LIVE_OUTBOX_ADAPTER = 'live-outbox';

/**
 * Maximum number of waiting events, and of characters in their texts. Beyond either, all waiting events are dropped,
 * and readers are informed.
 */
const WAITING_EVENTS = 10_000;
const WAITING_CHARACTERS = 16 << 20;
/** Maximum number of events in one batch. */
const LIVE_BATCH_EVENTS = 500;
/** Maximum number of deletions that wait. Beyond it, all events of the organization are forgotten. */
const WAITING_FORGETS = 1_000;
/** Pause before the database is tried again. */
const AGAIN_MS = 1_000;

interface SharedHub {
  events: LiveEntry[];
  characters: number;
  forgets: LiveForget[];
  has_lost: boolean;
  /** Whether a batch was sent and not answered, or the pause after a failure is not over. */
  is_waiting: boolean;
}

interface SharedHubInternal {
  sent: Outcome<void, { forgets: readonly LiveForget[] }>;
  again: null;
}

type HubContext = Context<SharedHub, never, SharedHubInternal, never>;

const NOT_HERE: Refusal = {
  code: 'unavailable',
  message: 'the store thread has the events',
  retryable: false,
};
const EVERYTHING: LiveForget = { run_id: null, project_id: null, before_ms: 0 };

export const sharedLiveHub: Behaviour<LiveHubProtocol, SharedHub, never, SharedHubInternal> = {
  kind: LIVE_HUB_KIND,
  initial: () => ({ events: [], characters: 0, forgets: [], has_lost: false, is_waiting: false }),

  handlers: {
    publish(hub, message, context) {
      const [name, project_id, run_id, at_ms, data] =
        message instanceof LiveMessage ? message.pack() : message;
      hub.events.push({ name, project_id, run_id, at_ms, data });
      hub.characters += data.length;
      if (hub.events.length > WAITING_EVENTS || hub.characters > WAITING_CHARACTERS) {
        // All are dropped, because dropping the oldest with `shift` would move the whole list for each event.
        hub.events = [];
        hub.characters = 0;
        hub.has_lost = true;
      }
      send(hub, context);
    },

    replay(_hub, _request, context) {
      context.refuse(NOT_HERE);
    },

    forget(hub, { run_id = null, project_id = null, before_ms = 0 }, context) {
      hub.forgets.push({ run_id, project_id, before_ms });
      // The database applies deletions before the events of the same batch, so matching events that wait are dropped
      // here.
      hub.events = hub.events.filter(
        (event) =>
          !(
            (run_id === null || event.run_id === run_id) &&
            (project_id === null || event.project_id === project_id) &&
            (before_ms === 0 || event.at_ms < before_ms)
          ),
      );
      hub.characters = countCharacters(hub.events);
      if (hub.forgets.length > WAITING_FORGETS) {
        hub.forgets = [EVERYTHING];
        hub.has_lost = true;
      }
      send(hub, context);
    },
  },

  internal: {
    sent(hub, outcome, context) {
      hub.is_waiting = false;
      if (outcome.ok) {
        send(hub, context);
        return;
      }
      hub.has_lost = true;
      hub.forgets = [...outcome.carry.forgets, ...hub.forgets];
      hub.is_waiting = true;
      context.setTimer('again', AGAIN_MS, 'again', null);
    },

    again(hub, _message, context) {
      hub.is_waiting = false;
      send(hub, context);
    },
  },
};

/** Sends the waiting events and deletions, one batch at a time. */
function send(hub: SharedHub, context: HubContext): void {
  const { forgets, has_lost } = hub;
  if (hub.is_waiting || (hub.events.length === 0 && forgets.length === 0 && !has_lost)) return;
  const events = hub.events.slice(0, LIVE_BATCH_EVENTS);
  hub.events = hub.events.slice(LIVE_BATCH_EVENTS);
  hub.characters -= countCharacters(events);
  hub.forgets = [];
  hub.has_lost = false;
  hub.is_waiting = true;
  const batch: LiveBatch = { org_id: context.self.key, has_lost, forgets, events };
  context.io(LIVE_OUTBOX_ADAPTER, 'send', batch, 'sent', { forgets });
}

function countCharacters(events: readonly LiveEntry[]): number {
  let characters = 0;
  for (const { data } of events) characters += data.length;
  return characters;
}
