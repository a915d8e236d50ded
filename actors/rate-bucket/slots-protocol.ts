/** What the actor that gives out the slots of the shared rate table understands. One a process. Any thread. */

export const RATE_SLOTS_KIND = 'rate-slots';
/** The one actor of the kind. */
export const RATE_SLOTS_KEY = 'table';
/** The adapter through which it reaches the table. */
export const RATE_TABLE_ADAPTER = 'rate-table';

export interface SlotReply {
  /** null: all are in use; the key's own actor counts for now. */
  slot: { slot: number; generation: number } | null;
}

export type RateSlotsProtocol = {
  /** The slot of a key: the one it has, else a new one with a full bucket. */
  assign: { request: { key: string }; reply: SlotReply };
};
