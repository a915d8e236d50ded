/**
 * Measures the values that alerts watch: runs of a window, quotas of providers, and the state of this
 * service. Server threads.
 */
import { statfs } from 'node:fs/promises';
import { ALERT_BOUNDS, type AlertRow, type Measured, RUN_MEASURES } from '../domain/alert.ts';
import type { CaptureAnswer, CaptureAsker, WindowSums } from '../domain/captured-run.ts';
import { parseRunQuery } from '../domain/run-query/parse.ts';

interface AlertSources {
  captures: CaptureAsker;
  /** The gateway's stats; null: this process has no gateway. */
  stats: (() => Promise<object>) | null;
  /** Whether the API is ready. */
  isReady: () => Promise<boolean>;
  data_dir: string;
}

/** The values that are read from the gateway's stats. */
interface GatewayStats {
  reasons?: readonly unknown[];
  writer?: { indexing_behind?: { seconds?: number } };
  exchanges?: { dropped?: number };
}

/** The values that are read from `/capture/limits`. */
interface ToldLimits {
  limits: { provider: string; used_share: number | null; resets_at: string | null }[];
}

const NO_GATEWAY: Measured = { value: null, problem: 'this process has no gateway' };

export class AlertMeasures {
  readonly #sources: AlertSources;
  /**
   * Number of copies dropped since the start of the process, at each check, oldest first. Checks that are older than
   * the longest window are removed.
   */
  #dropped: { at_ms: number; count: number }[] = [];

  constructor(sources: AlertSources) {
    this.#sources = sources;
  }

  /**
   * Records the number of dropped copies, if the gateway reports it. Must be called once at each check, before the
   * alerts are measured.
   */
  async begin(nowMs: number): Promise<void> {
    const stats = (await this.#sources.stats?.().catch(() => null)) as GatewayStats | null | undefined;
    const count = stats?.exchanges?.dropped;
    const from_ms = nowMs - ALERT_BOUNDS.window_s.max * 1_000;
    this.#dropped = this.#dropped.filter(({ at_ms }) => at_ms >= from_ms && at_ms <= nowMs);
    if (count !== undefined) this.#dropped.push({ at_ms: nowMs, count });
  }

  /** Measures the value that an alert watches. Never rejects: an unknown value is null, with the reason. */
  async measure(alert: AlertRow, nowMs: number): Promise<Measured> {
    try {
      return await this.#measure(alert, nowMs);
    } catch (thrown) {
      return { value: null, problem: thrown instanceof Error ? thrown.message : String(thrown) };
    }
  }

  async #measure(alert: AlertRow, nowMs: number): Promise<Measured> {
    if (RUN_MEASURES.has(alert.measure)) return this.#measureRuns(alert, nowMs);
    switch (alert.measure) {
      case 'quota_left':
        return this.#measureQuota(alert, nowMs);
      case 'not_ready':
        return exact((await this.#sources.isReady().catch(() => false)) ? 0 : 1);
      case 'disk_left': {
        const { bavail, blocks } = await statfs(this.#sources.data_dir);
        return exact(blocks === 0 ? null : bavail / blocks);
      }
      case 'dropped_copies':
        return this.#sources.stats === null ? NO_GATEWAY : exact(this.#countDropped(alert, nowMs));
      default:
        return this.#measureGateway(alert);
    }
  }

  async #measureRuns({ measure, query, of_query, window_s }: AlertRow, nowMs: number): Promise<Measured> {
    const answer = await this.#sources.captures.ask({
      name: 'window',
      from_ms: nowMs - window_s * 1_000,
      query: parseRunQuery(query),
      of_query: measure === 'share' ? parseRunQuery(of_query) : null,
    });
    const { runs, of_runs, cost_usd, unread, is_whole } = readJson<WindowSums>(answer);
    const problem = is_whole
      ? unread > 0
        ? `${unread} runs are not read yet`
        : ''
      : 'only the newest runs were counted';
    if (measure === 'runs') return { value: runs, problem };
    if (measure === 'cost_usd') return { value: cost_usd, problem };
    if (of_runs === 0)
      return { value: null, problem: 'no run in this window matches the query of the whole' };
    return { value: runs / of_runs, problem };
  }

  async #measureQuota({ provider }: AlertRow, nowMs: number): Promise<Measured> {
    const { limits } = readJson<ToldLimits>(
      await this.#sources.captures.ask({ name: 'limits', now_ms: nowMs }),
    );
    const known = limits.flatMap((limit) => {
      if (limit.used_share === null || (provider !== '' && limit.provider !== provider)) return [];
      // The limit has reset since the provider reported it.
      return limit.resets_at !== null && Date.parse(limit.resets_at) <= nowMs ? [] : [1 - limit.used_share];
    });
    return known.length === 0
      ? { value: null, problem: 'no provider reported a limit in the last day' }
      : exact(Math.min(...known));
  }

  async #measureGateway({ measure }: AlertRow): Promise<Measured> {
    if (this.#sources.stats === null) return NO_GATEWAY;
    const { reasons, writer } = (await this.#sources.stats()) as GatewayStats;
    return exact((measure === 'capture_faults' ? reasons?.length : writer?.indexing_behind?.seconds) ?? null);
  }

  /**
   * Counts the copies that were dropped since the window began, or since the process started if that was later; null if
   * no recent check could read the number.
   */
  #countDropped({ window_s }: AlertRow, nowMs: number): number | null {
    const now = this.#dropped.at(-1);
    if (now === undefined) return null;
    const before = this.#dropped.findLast(({ at_ms }) => at_ms <= nowMs - window_s * 1_000);
    return now.count - (before?.count ?? 0);
  }
}

function exact(value: number | null): Measured {
  return { value, problem: value === null ? 'it is not known' : '' };
}

/**
 * Parses the captures' answer.
 * @throws Error with the reason why the captures cannot be read
 */
function readJson<Value>(answer: CaptureAnswer): Value {
  if (answer.type === 'json') return JSON.parse(Buffer.from(answer.json).toString()) as Value;
  throw new Error('detail' in answer ? answer.detail : 'nothing is captured');
}
