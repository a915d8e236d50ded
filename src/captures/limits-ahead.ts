/**
 * Finds what remains of each credential's rate limits, when each limit runs out at the current rate, and which runs
 * used it. Reads answers that are at most LOOKED_MS old. Pure except for its source; capture reader and command line.
 *
 * Bounds: LOOKED_EXCHANGES of the newest exchanges, LOOKED_CREDENTIALS credentials, and one answer per SAMPLE_MS for
 * each credential. Memory: about 60 bytes for each of these exchanges.
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
  /** As the provider reported it; null: not reported. */
  limit: number | null;
  remaining: number | null;
  /** From 0 to 1; null: unknown. */
  used_share: number | null;
  /** RFC 3339; null: unknown. */
  resets_at: string | null;
  /** When the provider reported it. */
  read_at: string;
  /** When the limit is used up at the rate of the last hour; null: not before its reset, or this is unknown. */
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
  runs: Map<string, RunTokens>;
}

interface RunTokens {
  tokens: number;
  /** An exchange of the run, from which the run's present name is read: the run may have been joined with another. */
  id: number;
}

/** The fields of an exchange that are needed here. */
interface SeenExchange {
  id: number;
  /** When the answer began; without an answer, when the exchange began. */
  at_ms: number;
  /** null: not answered by the provider. */
  client: Pick<Client, 'credential' | 'provider'> | null;
  run_id: string | null;
  tokens: number;
}

/** Number of consecutive ids in one part. */
const PART_IDS = 1_024;

/** The newest exchanges. They are read once, except for those of the last part, which `tell` reads again each time. */
export class LimitTraffic {
  /** Complete parts by their first id. */
  readonly #parts = new Map<number, SeenExchange[]>();

  /**
   * Lists the limits as of a time.
   * @param range the first and the last existing exchange
   * @param nowMs not earlier than the newest exchange
   */
  tell(
    source: ExchangeSource,
    { first_id, last_id }: { first_id: number; last_id: number },
    nowMs: number,
  ): LimitsReport {
    const fromId = Math.max(first_id, last_id - LOOKED_EXCHANGES + 1);
    const endedMs = source.endedBefore?.(fromId) ?? Number.NEGATIVE_INFINITY;
    const isInOrder = endedMs === Number.NEGATIVE_INFINITY;
    let is_whole = fromId === 1 || (!isInOrder && endedMs < nowMs - LOOKED_MS);
    const clients = new Map<string, Client>();
    for (const seen of this.#read(source, fromId, last_id)) {
      if (seen.at_ms < nowMs - LOOKED_MS) is_whole ||= isInOrder;
      else if (seen.client !== null && !addTo(clients, seen, seen.client)) is_whole = false;
    }
    const limits = [...clients.values()].flatMap((client) => readClient(source, client));
    limits.sort((a, b) => (b.used_share ?? 0) - (a.used_share ?? 0));
    return { limits, is_whole };
  }

  /** The exchanges of a range of ids, ascending. */
  *#read(source: ExchangeSource, fromId: number, lastId: number): Generator<SeenExchange> {
    const oldest = startOfPart(fromId);
    for (const from of this.#parts.keys()) if (from < oldest) this.#parts.delete(from);
    for (let from = oldest; from <= lastId; from += PART_IDS) {
      const part = this.#parts.get(from) ?? readPart(source, from);
      if (from + PART_IDS <= lastId) this.#parts.set(from, part);
      for (const seen of part) if (seen.id >= fromId && seen.id <= lastId) yield seen;
    }
  }
}

function startOfPart(id: number): number {
  return id - (id % PART_IDS);
}

function readPart(source: ExchangeSource, from: number): SeenExchange[] {
  const part: SeenExchange[] = [];
  for (const exchange of source.summaries({ from_id: from })) {
    if (exchange.id >= from + PART_IDS) break;
    part.push(see(exchange));
    if (exchange.id === from + PART_IDS - 1) break;
  }
  return part;
}

function see({ id, credential, provider, status, served_by, ...rest }: ListedExchange): SeenExchange {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = rest.usage;
  return {
    id,
    at_ms: Date.parse(rest.started_at) + (rest.first_byte_ms ?? 0),
    client: status !== 0 && served_by === 'upstream' ? { credential: credential ?? null, provider } : null,
    run_id: rest.run_id,
    tokens: (input_tokens ?? 0) + (output_tokens ?? 0) + (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0),
  };
}

/** Adds an exchange; call in the order of ids. @returns false if there are too many clients */
function addTo(
  clients: Map<string, Client>,
  seen: SeenExchange,
  by: NonNullable<SeenExchange['client']>,
): boolean {
  const key = `${by.credential ?? ''} ${by.provider}`;
  let client = clients.get(key);
  if (client === undefined) {
    if (clients.size >= LOOKED_CREDENTIALS) return false;
    client = { ...by, samples: [], runs: new Map() };
    clients.set(key, client);
  }
  addSample(client.samples, seen);
  if (seen.run_id === null) return true;
  const tokens = (client.runs.get(seen.run_id)?.tokens ?? 0) + seen.tokens;
  client.runs.set(seen.run_id, { tokens, id: seen.id });
  return true;
}

/** Keeps the newest exchange of each SAMPLE_MS. */
function addSample(samples: Client['samples'], { id, at_ms }: SeenExchange): void {
  const newest = samples[0];
  const slot = Math.floor(at_ms / SAMPLE_MS);
  if (newest === undefined || slot > Math.floor(newest.at_ms / SAMPLE_MS)) samples.unshift({ id, at_ms });
  else if (at_ms >= newest.at_ms) samples[0] = { id, at_ms };
  if (samples.length > PACE_MS / SAMPLE_MS + 1) samples.pop();
}

/** The runs with the most tokens, by their present names. */
function nameRuns(source: ExchangeSource, runs: Client['runs']): LimitAhead['runs'] {
  const named = new Map<string, number>();
  const sorted = [...runs].sort(([, a], [, b]) => b.tokens - a.tokens);
  for (const [run_id, { tokens, id }] of sorted) {
    if (named.size === NAMED_RUNS) break;
    const name = source.exchange(id)?.run_id ?? run_id;
    named.set(name, (named.get(name) ?? 0) + tokens);
  }
  return [...named].map(([run_id, tokens]) => ({ run_id, tokens })).sort((a, b) => b.tokens - a.tokens);
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
  if (readings.size === 0) return [];
  const runs = nameRuns(source, client.runs);
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
 * Computes when the limit is used up at the rate of the last hour. null: it is not used up before its reset, the used
 * share or the reset is unknown, or the reset is less than LEAST_WINDOW_MS after the newest reading. If the newest
 * reading shows a limit that is used up, it is the time of this reading, or earlier.
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
