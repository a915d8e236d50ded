/**
 * Gives out the slots of the shared rate table: one a limited key, the same to every thread that asks. When slots run out, it
 * takes back those that are full and idle. After a restart no slot has an owner. Each slot that it gives out anew
 * changes its generation, so that a thread that still uses it asks again and gets a full bucket. Actor thread.
 */
import type { Behaviour, Outcome, ReplyToken } from '../../src/runtime/protocol.ts';
import {
  RATE_SLOTS_KIND,
  RATE_TABLE_ADAPTER,
  type RateSlotsProtocol,
  type SlotReply,
} from './slots-protocol.ts';
import type { RateTable } from './table.ts';

interface Slots {
  /** By key; null while its slot is being opened. */
  owned: Map<string, { slot: number; generation: number } | null>;
  /** By slot. */
  keys: Map<number, string>;
  /** Who waits for a slot that is being opened. */
  waiting: Map<string, ReplyToken[]>;
  /** From here on no slot was ever given out. */
  next: number;
  free: number[];
  /** How many the table has; null until it was asked. */
  total: number;
  isReclaiming: boolean;
  /** Not before this moment again. */
  reclaim_after_ms: number;
}

interface SlotsInternal {
  opened: Outcome<number, { key: string; slot: number }>;
  reclaimed: Outcome<number[]>;
}

/** Taken back after so long without a take. Longer than a full refill of any sensible limit. */
const IDLE_MS = 60_000;
/** Slots taken back at once. */
const RECLAIM_MAX = 8_192;
/** A table that is full of busy keys is not searched at every request. */
const RECLAIM_PAUSE_MS = 1_000;

/** @param total slots of the table */
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
        context.io(RATE_TABLE_ADAPTER, 'open', slot, 'opened', { key, slot });
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

/** Frees a slot. Without a key it is free already, or on its way to a new owner. */
function release(slots: Slots, slot: number): void {
  const key = slots.keys.get(slot);
  if (key === undefined) return;
  slots.keys.delete(slot);
  slots.owned.delete(key);
  slots.free.push(slot);
}

/** The table as the actor's adapter. */
export function rateTableAdapter(table: RateTable) {
  return {
    open: async (slot: number): Promise<number> => table.open(slot),
    findIdle: async (): Promise<number[]> => table.findIdle(IDLE_MS, RECLAIM_MAX),
  };
}
