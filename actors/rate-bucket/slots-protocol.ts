/**
 * The messages of the actor that assigns the slots of the shared rate table. One actor per process. Any thread.
 */

export const RATE_SLOTS_KIND = 'rate-slots';
/** Key of the only actor of this kind. */
export const RATE_SLOTS_KEY = 'table';
/** The adapter with which the actor accesses the table. */
export const RATE_TABLE_ADAPTER = 'rate-table';

export interface SlotReply {
  /** null: no slot is free, or none could be opened; the key's own `rate-bucket` actor counts for now. */
  slot: { slot: number; generation: number } | null;
}

export type RateSlotsProtocol = {
  /** Returns the slot of a key: its present slot, or a new slot with a full bucket. */
  assign: { request: { key: string }; reply: SlotReply };
};
