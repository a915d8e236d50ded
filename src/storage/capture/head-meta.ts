/** What the head of a request comes to in the record: encoded once for many exchanges. Capture process. */
import type { CapturedExchange } from '../../domain/exchange.ts';

/** What a request's head says of the meta part, as JSON, masked: the same for all that a client sends in the same way. */
export interface HeadMeta {
  run_id: string;
  /** From the note to who answered. */
  route: string;
  headers: string;
}

/** @param headers masked, as all of these */
export function encodeHeadMeta(
  exchange: CapturedExchange,
  runId: string | null,
  note: string,
  path: string,
  query: string,
  headers: string,
): HeadMeta {
  const { provider, shape, method, served_by } = exchange;
  return {
    run_id: JSON.stringify(runId),
    route: JSON.stringify([note, provider, shape, method, path, query, served_by]).slice(1, -1),
    headers: JSON.stringify(headers),
  };
}
