/**
 * Encodes the part of a record that comes from the head of a request. Many exchanges share one result. Capture process.
 */
import type { CapturedExchange } from '../../domain/exchange.ts';

/** The JSON for a request's head in the meta part, masked. Requests that a client sends in the same way share it. */
export interface HeadMeta {
  run_id: string;
  /** The JSON fields from the gateway's note to `served_by`, which precede the headers. */
  route: string;
  headers: string;
}

/**
 * Encodes the head of a request. All texts are masked already; of `exchange`, only fields without secrets are used.
 */
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
