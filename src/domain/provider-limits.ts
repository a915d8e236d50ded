/**
 * Reads the limits of the account behind a credential from a provider's answer. Pure; capture reader and command line.
 *
 * Sources: Anthropic, "Rate limits" (`anthropic-ratelimit-…`), and the `unified` headers that subscriptions get;
 * OpenAI, "Rate limits" (`x-ratelimit-…`, which many compatible servers send), and the `x-codex-…` headers that
 * subscriptions get.
 */

/** One limit as reported in an answer. */
export interface LimitReading {
  /** `requests`, `tokens`, `input tokens`, `5 hours`, `7 days`, … */
  name: string;
  /** null: only the share was reported. */
  limit: number | null;
  remaining: number | null;
  /** 0 to 1; null: not reported. */
  used_share: number | null;
  /** Milliseconds since the epoch; null if not reported. */
  resets_at_ms: number | null;
}

type Headers = ReadonlyMap<string, string>;

/**
 * Reads the limits in an answer's headers.
 * @param headers by name, as received
 * @param atMs when the answer began, because some headers contain a duration from this time
 */
export function readLimits(
  headers: readonly (readonly [name: string, value: string])[],
  atMs: number,
): LimitReading[] {
  const byName = new Map(headers.map(([name, value]) => [name.toLowerCase(), value]));
  return [
    ...readAnthropic(byName),
    ...readUnified(byName),
    ...readOpenai(byName, atMs),
    ...readCodex(byName, atMs),
  ];
}

const ANTHROPIC = ['requests', 'tokens', 'input-tokens', 'output-tokens'] as const;

function readAnthropic(headers: Headers): LimitReading[] {
  return ANTHROPIC.flatMap((kind) => {
    const name = `anthropic-ratelimit-${kind}`;
    const reset = headers.get(`${name}-reset`);
    const resets_at_ms = reset === undefined ? null : readTime(reset);
    return readCounts(
      kind.replace('-', ' '),
      headers.get(`${name}-limit`),
      headers.get(`${name}-remaining`),
      resets_at_ms,
    );
  });
}

/** Windows of subscriptions, such as `5h` and `7d`, including those for one family of models (`7d_opus`). */
const UNIFIED = /^anthropic-ratelimit-unified-((\d+)([hd])(?:[_-]\w+)?)-utilization$/;

function readUnified(headers: Headers): LimitReading[] {
  return [...headers].flatMap(([name, value]) => {
    const found = UNIFIED.exec(name);
    const used_share = readNumber(value);
    if (found === null || used_share === null) return [];
    const [, window = '', count = '', unit] = found;
    const reset = headers.get(`anthropic-ratelimit-unified-${window}-reset`);
    const seconds = readNumber(reset);
    const rest = window.slice(count.length + 1).replace(/^[_-]/, '');
    const words = `${count} ${unit === 'h' ? 'hours' : 'days'}${rest === '' ? '' : ` (${rest})`}`;
    const resets_at_ms = seconds === null ? null : seconds * 1_000;
    return [{ name: words, limit: null, remaining: null, used_share: clamp(used_share), resets_at_ms }];
  });
}

function readOpenai(headers: Headers, atMs: number): LimitReading[] {
  return ['requests', 'tokens'].flatMap((kind) => {
    const after = readDuration(headers.get(`x-ratelimit-reset-${kind}`));
    return readCounts(
      kind,
      headers.get(`x-ratelimit-limit-${kind}`),
      headers.get(`x-ratelimit-remaining-${kind}`),
      after === null ? null : atMs + after,
    );
  });
}

function readCodex(headers: Headers, atMs: number): LimitReading[] {
  return ['primary', 'secondary'].flatMap((kind) => {
    const percent = readNumber(headers.get(`x-codex-${kind}-used-percent`));
    if (percent === null) return [];
    const minutes = readNumber(headers.get(`x-codex-${kind}-window-minutes`));
    const after = readNumber(headers.get(`x-codex-${kind}-reset-after-seconds`));
    const at = readNumber(headers.get(`x-codex-${kind}-reset-at`));
    const resets_at_ms = at !== null ? at * 1_000 : after !== null ? atMs + after * 1_000 : null;
    const name = minutes === null ? kind : describeWindow(minutes);
    return [{ name, limit: null, remaining: null, used_share: clamp(percent / 100), resets_at_ms }];
  });
}

function readCounts(
  name: string,
  limitText: string | undefined,
  remainingText: string | undefined,
  resets_at_ms: number | null,
): LimitReading[] {
  const limit = readNumber(limitText);
  const remaining = readNumber(remainingText);
  if (remaining === null) return [];
  const used_share = limit === null || limit <= 0 ? null : clamp((limit - remaining) / limit);
  return [{ name, limit, remaining, used_share, resets_at_ms }];
}

function describeWindow(minutes: number): string {
  if (minutes % 1_440 === 0) return `${minutes / 1_440} days`;
  return minutes % 60 === 0 ? `${minutes / 60} hours` : `${minutes} minutes`;
}

/** Reads a decimal number without a sign; null for another text, and without a text. */
function readNumber(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}(?:\.\d{1,15})?$/.test(text.trim()) ? Number(text) : null;
}

function readTime(text: string): number | null {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? null : ms;
}

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/**
 * Reads a duration such as `6m0s`, `1.5s` or `120ms`, or a number of seconds. Returns milliseconds; null for another
 * text.
 */
function readDuration(text: string | undefined): number | null {
  if (text === undefined) return null;
  const seconds = readNumber(text);
  if (seconds !== null) return seconds * 1_000;
  if (!/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h|d)){1,5}$/.test(text)) return null;
  let ms = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g))
    ms += Number(count) * UNITS_MS[unit!]!;
  return ms;
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share));
}
