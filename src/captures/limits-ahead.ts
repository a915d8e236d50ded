/**
 * The rate limits of each credential: what remains, when it runs out at the current rate, and which runs used it. The
 * source is the answers of the last hours. Pure except for its source; capture reader and command line.
 *
 * Bounds: LOOKED_EXCHANGES of the newest exchanges, LOOKED_CREDENTIALS credentials, and one answer per SAMPLE_MS for
 * each credential.
 */

import { type LimitReading, readLimits } from '../domain/provider-limits.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';

const LOOKED_EXCHANGES = 20_000;
const LOOKED_CREDENTIALS = 64;
/** Maximum age of a reading. Older readings are out of date. */
const LOOKED_MS = 24 * 3_600_000;
/** The period over which the rate is measured. */
const PACE_MS = 3_600_000;
const SAMPLE_MS = 300_000;
/** Minimum time until a reset. A limit that resets sooner is refilled constantly, so no rate can be derived. */
const LEAST_WINDOW_MS = 600_000;
/** Maximum difference between reset times of one window, which differ only by rounding. */
const SAME_RESET_MS = 60_000;
const NAMED_RUNS = 5;

/** One limit of one credential. */
export interface LimitAhead {
  /**
   * The credential's fingerprint, as in exchange records; null: the requests had none, for example because the gateway
   * adds it.
   */
  credential: string | null;
  provider: string;
  name: string;
  limit: number | null;
  remaining: number | null;
  used_share: number | null;
  /** RFC 3339; null: unknown. */
  resets_at: string | null;
  /** When the provider reported it. */
  read_at: string;
  /** When the limit is used up at the rate of the last hour; null: it resets earlier, or the rate is unknown. */
  runs_out_at: string | null;
  /** Runs with the most tokens by this credential in the last 24 hours. */
  runs: { run_id: string; tokens: number }[];
}

/** All limits, most used first. */
interface LimitsReport {
  limits: LimitAhead[];
  /** false: there were more exchanges or credentials than the bounds allow. */
  is_whole: boolean;
}

/** A credential's traffic with one provider. */
interface Client {
  credential: string | null;
  provider: string;
  /** Newest first, one per SAMPLE_MS. */
  samples: { id: number; at_ms: number }[];
  tokens: Map<string, number>;
}

/**
 * @param nowMs not earlier than the newest exchange
 */
export function tellLimits(source: ExchangeSource, lastId: number, nowMs: number): LimitsReport {
  const { clients, is_whole } = collect(source, lastId, nowMs);
  const limits = clients.flatMap((client) => readClient(source, client));
  limits.sort((a, b) => (b.used_share ?? 0) - (a.used_share ?? 0));
  return { limits, is_whole };
}

function collect(
  source: ExchangeSource,
  lastId: number,
  nowMs: number,
): { clients: Client[]; is_whole: boolean } {
  const clients = new Map<string, Client>();
  const fromId = Math.max(1, lastId - LOOKED_EXCHANGES + 1);
  const endedMs = source.endedBefore?.(fromId) ?? Number.NEGATIVE_INFINITY;
  const isInOrder = endedMs === Number.NEGATIVE_INFINITY;
  let is_whole = fromId === 1 || (!isInOrder && endedMs < nowMs - LOOKED_MS);
  for (const exchange of source.summaries({ from_id: fromId })) {
    const { credential = null, provider, status } = exchange;
    const at_ms = Date.parse(exchange.started_at) + (exchange.first_byte_ms ?? 0);
    if (at_ms < nowMs - LOOKED_MS) is_whole ||= isInOrder;
    else if (status !== 0 && exchange.served_by === 'upstream') {
      const key = `${credential ?? ''} ${provider}`;
      const client = clients.get(key) ?? {
        credential,
        provider,
        samples: [],
        tokens: new Map<string, number>(),
      };
      if (clients.size >= LOOKED_CREDENTIALS && !clients.has(key)) {
        is_whole = false;
        continue;
      }
      clients.set(key, client);
      addSample(client, exchange, at_ms);
    }
  }
  return { clients: [...clients.values()], is_whole };
}

/** Adds an exchange; call in the order of ids. The newest exchange of each SAMPLE_MS is kept. */
function addSample({ samples, tokens }: Client, exchange: ListedExchange, at_ms: number): void {
  const newest = samples[0];
  const slot = Math.floor(at_ms / SAMPLE_MS);
  if (newest === undefined || slot > Math.floor(newest.at_ms / SAMPLE_MS))
    samples.unshift({ id: exchange.id, at_ms });
  else if (at_ms >= newest.at_ms) samples[0] = { id: exchange.id, at_ms };
  if (samples.length > PACE_MS / SAMPLE_MS + 1) samples.pop();
  if (exchange.run_id === null) return;
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = exchange.usage;
  const sum =
    (input_tokens ?? 0) + (output_tokens ?? 0) + (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0);
  tokens.set(exchange.run_id, (tokens.get(exchange.run_id) ?? 0) + sum);
}

function readClient(source: ExchangeSource, client: Client): LimitAhead[] {
  /** By name, newest first. */
  const readings = new Map<string, (LimitReading & { at_ms: number })[]>();
  for (const { id, at_ms } of client.samples) {
    for (const reading of readLimits(source.exchange(id)?.response.headers ?? [], at_ms)) {
      const list = readings.get(reading.name) ?? [];
      readings.set(reading.name, list);
      list.push({ ...reading, at_ms });
    }
  }
  const runs = [...client.tokens]
    .sort(([, a], [, b]) => b - a)
    .slice(0, NAMED_RUNS)
    .map(([run_id, tokens]) => ({ run_id, tokens }));
  return [...readings].map(([name, list]) => {
    const { limit, remaining, used_share, resets_at_ms, at_ms } = list[0]!;
    return {
      credential: client.credential,
      provider: client.provider,
      name,
      limit,
      remaining,
      used_share,
      resets_at: toTime(resets_at_ms),
      read_at: new Date(at_ms).toISOString(),
      runs_out_at: toTime(foretell(list)),
      runs,
    };
  });
}

/**
 * When the limit is used up at the rate of the last hour.
 * @param list readings, newest first
 */
function foretell(list: readonly (LimitReading & { at_ms: number })[]): number | null {
  const now = list[0]!;
  const { resets_at_ms: resets, used_share: used } = now;
  if (resets === null || used === null || resets - now.at_ms < LEAST_WINDOW_MS) return null;
  const before = list.findLast(
    ({ at_ms, resets_at_ms }) =>
      at_ms >= now.at_ms - PACE_MS &&
      resets_at_ms !== null &&
      Math.abs(resets_at_ms - resets) <= SAME_RESET_MS,
  );
  const span = before === undefined ? 0 : now.at_ms - before.at_ms;
  const growth = before === undefined ? 0 : used - (before.used_share ?? used);
  if (span <= 0 || growth <= 0) return used >= 1 ? now.at_ms : null;
  const out = now.at_ms + ((1 - used) * span) / growth;
  return out < resets ? out : null;
}

function toTime(ms: number | null): string | null {
  return ms === null || !Number.isFinite(ms) || Math.abs(ms) > 8.64e15 ? null : new Date(ms).toISOString();
}
