/**
 * Assigns the slots of the shared rate table: one for each limited key, the same for all threads. When no slot is free,
 * the actor takes back slots whose buckets have been full for a minute. After a restart, all slots are free. Each
 * assignment changes the slot's generation. A thread that still uses the slot for its former key notices the change,
 * and requests a new slot, whose bucket is full. Actor thread.
 */
import type { Behaviour, Outcome, ReplyToken } from '../../src/runtime/protocol.ts';
import type { RateShares } from './shares.ts';
import {
  RATE_SLOTS_KIND,
  RATE_TABLE_ADAPTER,
  type RateSlotsProtocol,
  type SlotReply,
} from './slots-protocol.ts';
import type { RateTable } from './table.ts';

interface Slots {
  /** The slot of each key; null while it is being opened. */
  owned: Map<string, { slot: number; generation: number } | null>;
  /** The key of each slot in use. */
  keys: Map<number, string>;
  /** Callers that wait for a slot that is being opened. */
  waiting: Map<string, ReplyToken[]>;
  /** The first slot that was never assigned. */
  next: number;
  free: number[];
  /** Number of slots in the table. */
  total: number;
  isReclaiming: boolean;
  /** Time before which no slots are taken back again. */
  reclaim_after_ms: number;
}

interface SlotsInternal {
  opened: Outcome<number, { key: string; slot: number }>;
  reclaimed: Outcome<number[]>;
}

/** A slot whose bucket has been full for this long may be taken back. */
const IDLE_MS = 60_000;
/** Maximum number of slots that are taken back at once. */
const RECLAIM_MAX = 8_192;
/** Pause between two searches for idle slots, so that a table full of busy keys is not searched at every request. */
const RECLAIM_PAUSE_MS = 1_000;

/** Makes the actor that assigns the slots. @param total number of slots of the table */
export function rateSlots(total: number): Behaviour<RateSlotsProtocol, Slots, never, SlotsInternal> {
  return {
    kind: RATE_SLOTS_KIND,
    initial: () => ({
      owned: new Map(),
      keys: new Map(),
      waiting: new Map(),
      next: 0,
      free: [],
      total,
      isReclaiming: false,
      reclaim_after_ms: 0,
    }),

    handlers: {
      assign(slots, { key }, context) {
        const owned = slots.owned.get(key);
        if (owned != null) {
          context.reply({ slot: owned });
          return;
        }
        if (owned === null) {
          slots.waiting.get(key)!.push(context.holdReply());
          return;
        }
        const slot = slots.free.pop() ?? (slots.next < slots.total ? slots.next++ : undefined);
        if (slot === undefined) {
          if (!slots.isReclaiming && context.monotonic_ms >= slots.reclaim_after_ms) {
            slots.isReclaiming = true;
            context.io(RATE_TABLE_ADAPTER, 'findIdle', null, 'reclaimed');
          }
          context.reply({ slot: null });
          return;
        }
        slots.owned.set(key, null);
        slots.waiting.set(key, [context.holdReply()]);
        context.io(RATE_TABLE_ADAPTER, 'open', { key, slot }, 'opened', { key, slot });
      },
    },

    internal: {
      opened(slots, outcome, context) {
        const { key, slot } = outcome.carry;
        const reply: SlotReply = { slot: outcome.ok ? { slot, generation: outcome.value } : null };
        if (reply.slot === null) {
          slots.owned.delete(key);
          slots.free.push(slot);
        } else {
          slots.owned.set(key, reply.slot);
          slots.keys.set(slot, key);
        }
        for (const token of slots.waiting.get(key) ?? []) context.replyTo(token, reply);
        slots.waiting.delete(key);
      },

      reclaimed(slots, outcome, context) {
        slots.isReclaiming = false;
        slots.reclaim_after_ms = context.monotonic_ms + RECLAIM_PAUSE_MS;
        if (!outcome.ok) return;
        for (const slot of outcome.value) release(slots, slot);
      },
    },
  };
}

/** Frees a slot. A slot without a key is already free, or is being assigned. */
function release(slots: Slots, slot: number): void {
  const key = slots.keys.get(slot);
  if (key === undefined) return;
  slots.keys.delete(slot);
  slots.owned.delete(key);
  slots.free.push(slot);
}

/**
 * Makes the adapter with which the actor accesses the table.
 * @param shares the box's parts of the limits that it shares with other boxes; null: it shares none
 */
export function rateTableAdapter(table: RateTable, shares: RateShares | null = null) {
  return {
    open: async ({ key, slot }: { key: string; slot: number }): Promise<number> => {
      shares?.assign(slot, key);
      return table.open(slot);
    },
    findIdle: async (): Promise<number[]> => table.findIdle(IDLE_MS, RECLAIM_MAX),
  };
}
