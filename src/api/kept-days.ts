/** Handlers of `contract/retention.ts`. Server threads. */
import { KEPT_KINDS, type RETENTION_ROUTES } from '../contract/retention.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import { RETENTION } from '../domain/retention-clock.ts';

/** Days by kind; null: kept without limit. */
export type KeptDays = Readonly<Record<(typeof KEPT_KINDS)[number], number | null>>;

export function retentionHandlers(days: KeptDays): UserHandlersOf<typeof RETENTION_ROUTES> {
  const body = {
    kinds: KEPT_KINDS.map((kind) => ({ kind, days: days[kind] })),
    looks_every_s: RETENTION.every_ms / 1_000,
  };
  return { readRetention: () => ({ body }) };
}
