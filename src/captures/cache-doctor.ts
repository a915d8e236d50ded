/**
 * Determines how each turn used the provider's prompt cache, and why a turn read less than it could have. Pure except
 * for its source; capture reader and command line.
 *
 * A turn could have read all that the previous turn read from the cache or wrote to it, as the provider reported. A
 * cause is named only if the two requests or their times prove it. Otherwise the cause is `may_have_expired` or
 * `not_known`.
 *
 * Memory: at most KEPT_CHARS characters of prompts of the last turns, and as many characters of the last agents' tools
 * and system prompts.
 */

import {
  type CacheLook,
  type CacheVerdict,
  costOfMiss,
  MISS_CAUSES,
  type MissCause,
} from '../domain/cache-miss.ts';
import type { TokenUsage } from '../domain/exchange.ts';
import { hasFailed } from '../domain/golden.ts';
import { findPrice, type Prices } from '../domain/price.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import { type Prompt, type PromptPart, readPrompt } from '../providers/prompt-parts.ts';
import { countOf } from '../std/count-of.ts';
import { RecentMap } from '../std/recent-map.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';
import { readRun } from './inspect.ts';
import {
  commonEnd,
  commonLength,
  countChars,
  type FoundDifference,
  findDifference,
} from './prompt-difference.ts';

/** Maximum characters of prompts in memory. */
const KEPT_CHARS = 32 << 20;
/** Minimum length of a prompt that providers cache; for some models it is as high as LEAST_TOKENS_MOST. */
const LEAST_TOKENS = 1_024;
const LEAST_TOKENS_MOST = 4_096;
/** OpenAI caches in steps of this many tokens. */
const STEP_TOKENS = 128;
/**
 * Maximum number of agents, over all runs, whose last turn is remembered to find messages that a client has rewritten.
 */
const REMEMBERED_AGENTS = 10_000;
/** Maximum number of exchanges that are passed over ({@link isPassedOver}) to find the turn before them. */
const PASSED_TURNS = 64;
/** Number of blocks that Anthropic checks before a cache point. */
const LOOK_BACK_BLOCKS = 20;
const MINUTE_MS = 60_000;
/** Maximum number of tools, and of characters, in an agent's description. */
const NAMED_TOOLS = 4;
const NAME_CHARS = 60;

/** The minimum and the maximum lifetime of an entry after its last use. */
interface Lifetime {
  least_ms: number;
  most_ms: number;
}

/** A prompt that the provider has seen. */
interface SeenPrompt {
  id: number;
  model: string | null;
  prompt: Prompt;
  /** Tokens of the whole prompt; null: not known. */
  tokens: number | null;
  /** Tokens up to the last cache point, as counted by the provider; null: it reported nothing about its cache. */
  cached_tokens: number | null;
  lifetime: Lifetime;
  started_ms: number;
  /** When the first byte of the answer arrived, otherwise the end: from then on, others can read the cache. */
  ready_ms: number;
  ended_ms: number;
}

/** The part of an earlier prompt that a turn could have read. */
interface Expectation {
  before: SeenPrompt;
  /** The parts that were cached. */
  parts: readonly PromptPart[];
  tokens: number;
  is_estimate: boolean;
}

/** An exchange, and the earlier exchange that it continues or retries; null: it starts a conversation. */
interface ExaminedExchange {
  record: ListedExchange;
  follows: number | null;
}

export class CacheDoctor {
  readonly #source: ExchangeSource;
  readonly #prices: Prices;
  readonly #turns: RecentMap<number, SeenPrompt>;
  /** The last turn of each agent of each run. */
  readonly #lastOfAgent = new RecentMap<string, number>(REMEMBERED_AGENTS);
  readonly #agents: RecentMap<string, SeenPrompt>;

  /** @param keptChars maximum characters of prompts in memory, for each of the two maps */
  constructor(source: ExchangeSource, prices: Prices, keptChars = KEPT_CHARS) {
    this.#source = source;
    this.#prices = prices;
    this.#turns = new RecentMap(keptChars);
    this.#agents = new RecentMap(keptChars);
  }

  /**
   * Examines the turns of a run. Skips exchanges for which `examine` returns null, and those whose copy is not
   * readable.
   * @param part the part of the source that contains the run
   */
  *examineRun(runId: string, part: ExchangeSource = this.#source): Generator<CacheLook> {
    for (const { record, turn, follows } of readRun(part, runId)) {
      const look = turn === null ? null : this.examine({ record, follows });
      if (look !== null) yield look;
    }
  }

  /**
   * Examines the next exchange. The exchanges of several runs may alternate.
   * @returns null for an exchange that is not a turn, that failed, that the student answered, or whose request is not
   *   readable
   */
  examine({ record, follows }: ExaminedExchange): CacheLook | null {
    const before = follows === null ? undefined : (this.#turns.get(follows) ?? this.#seeAgain(follows));
    if (isPassedOver(record)) {
      if (before !== undefined) this.#turns.set(record.id, before, 1);
      return null;
    }
    const copy = this.#source.copy(record.id);
    const prompt = copy === undefined ? null : readPrompt(copy);
    if (prompt === null) return null;
    const usage = readFreshUsage(record.shape, record.usage);
    if (cachesByItself(prompt, usage, before)) prompt.caching = 'automatic';
    const now = seePrompt(record, prompt, usage);
    const agent = nameAgent(record, prompt);
    const continued = before ?? this.#findRewritten(record.run_id, agent, prompt);
    const expected = continued === undefined ? this.#expectOfAgent(agent, now) : expectOfTurn(continued);
    const look = this.#judge(record, now, usage, expected);
    this.#turns.set(record.id, now, countChars(prompt.parts));
    if (agent !== null) {
      this.#lastOfAgent.set(keyOfAgent(record.run_id, agent), record.id);
      const head = prompt.parts.filter(isHead);
      this.#agents.set(agent, { ...now, prompt: { ...prompt, parts: head } }, countChars(head));
    }
    return look;
  }

  /**
   * Reads an earlier turn that is no longer in memory. If its exchange is passed over, reads the turn before it, and so
   * on. Returns undefined if no turn was found.
   */
  #seeAgain(id: number): SeenPrompt | undefined {
    let at: number | undefined = id;
    for (let passed = 0; at !== undefined && passed < PASSED_TURNS; passed++) {
      const record = this.#source.exchange(at);
      if (record === undefined) return undefined;
      if (!isPassedOver(record)) {
        const copy = this.#source.copy(at);
        const prompt = copy === undefined ? null : readPrompt(copy);
        if (prompt === null) return undefined;
        const usage = readFreshUsage(record.shape, record.usage);
        if (cachesByItself(prompt, usage, undefined)) prompt.caching = 'automatic';
        const seen = seePrompt(record, prompt, usage);
        this.#turns.set(at, seen, countChars(prompt.parts));
        return seen;
      }
      at = record.follows;
    }
    return undefined;
  }

  /**
   * Finds the agent's last turn in this run, if the client has rewritten some of its messages: the prompt still has
   * messages with at least half of the characters of that turn's messages. Otherwise returns undefined.
   */
  #findRewritten(runId: string | null, agent: string | null, { parts }: Prompt): SeenPrompt | undefined {
    const id = agent === null ? undefined : this.#lastOfAgent.get(keyOfAgent(runId, agent));
    const last = id === undefined ? undefined : this.#turns.get(id);
    if (last === undefined) return undefined;
    const texts = new Set(parts.filter(isMessage).map(({ text }) => text));
    const old = last.prompt.parts.filter(isMessage);
    const kept = countChars(old.filter(({ text }) => texts.has(text)));
    return kept > 0 && kept >= countChars(old) / 2 ? last : undefined;
  }

  /**
   * Finds the beginning that a new conversation shares with the agent's previous conversation; null: it does not exist,
   * or its tokens are unknown.
   */
  #expectOfAgent(agent: string | null, now: SeenPrompt): Expectation | null {
    const before = agent === null ? undefined : this.#agents.get(agent);
    if (before === undefined || before.tokens === null || before.started_ms > now.started_ms) return null;
    const parts = cachedParts(before.prompt);
    if (parts.length === 0 || !areAlike(before.prompt.parts, now.prompt.parts.filter(isHead))) return null;
    // The provider does not count parts: the tokens of a part are estimated by its share of the prompt's characters.
    const share = countChars(parts) / Math.max(1, countChars(now.prompt.parts));
    const tokens = Math.round(share * (now.tokens ?? before.tokens));
    return { before, parts, tokens, is_estimate: true };
  }

  #judge(
    record: ListedExchange,
    now: SeenPrompt,
    usage: TokenUsage,
    expected: Expectation | null,
  ): CacheLook {
    const read = usage.cache_read_tokens;
    const look = {
      exchange_id: record.id,
      started_at: record.started_at,
      agent: describeAgent(now.prompt),
      compared_with: expected?.before.id ?? null,
      expected_tokens: expected?.tokens ?? null,
      read_tokens: read,
      lost_tokens: 0,
      is_estimate: expected?.is_estimate ?? false,
      cause: null,
      words: '',
      difference: null,
      cost_usd: null,
    };
    const verdict = (name: CacheVerdict): CacheLook => ({ ...look, verdict: name });
    if (read === null && usage.cache_write_tokens === null) return verdict('not_told');
    if (expected === null || now.prompt.is_continued) return verdict('first');
    const wasMarked = expected.before.prompt.caching === 'marked';
    const isUnused = wasMarked && (expected.before.cached_tokens ?? 0) === 0;
    // This is the first request with a cache point; earlier requests had no cache point.
    if (wasMarked && isUnmarked(expected) && lastCachePoint(now.prompt) !== undefined)
      return verdict('first');
    if (expected.tokens < (isUnused && !isUnmarked(expected) ? LEAST_TOKENS_MOST : LEAST_TOKENS))
      return verdict('too_short');
    const lost = expected.tokens - (read ?? 0);
    if (lost <= tolerance(expected)) return verdict('hit');
    const { cause, words, difference } = explain(now, expected);
    const price = record.model === null ? null : findPrice(this.#prices, record.model, usage.tier);
    const lost_tokens = Math.min(lost, (usage.input_tokens ?? lost) + (usage.cache_write_tokens ?? 0));
    const cost_usd = price === null ? null : costOfMiss(usage, lost_tokens, price);
    return { ...look, verdict: 'miss', lost_tokens, cause, words, difference, cost_usd };
  }
}

/**
 * Whether the exchange is not examined: it is not a turn, it failed, or the student answered it. A turn that follows it
 * is then compared with the turn before it.
 */
function isPassedOver(record: ListedExchange): boolean {
  return record.kind !== 'turn' || record.served_by === 'student' || hasFailed(record);
}

function keyOfAgent(runId: string | null, agent: string): string {
  return `${runId ?? ''} ${agent}`;
}

/** Whether a server uses Anthropic's format but caches without cache points. Its reported reads show this. */
function cachesByItself(prompt: Prompt, usage: TokenUsage, before: SeenPrompt | undefined): boolean {
  if (prompt.caching === 'automatic' || lastCachePoint(prompt) !== undefined) return false;
  return (usage.cache_read_tokens ?? 0) > 0 || before?.prompt.caching === 'automatic';
}

function seePrompt(record: ListedExchange, prompt: Prompt, usage: TokenUsage): SeenPrompt {
  const started_ms = Date.parse(record.started_at);
  const { input_tokens, cache_read_tokens: read, cache_write_tokens: written } = usage;
  const ended_ms = started_ms + record.duration_ms;
  return {
    id: record.id,
    model: record.model,
    prompt,
    tokens: input_tokens === null ? null : input_tokens + (read ?? 0) + (written ?? 0),
    cached_tokens: read === null && written === null ? null : (read ?? 0) + (written ?? 0),
    lifetime: lifetimeOf(prompt, usage),
    started_ms,
    ready_ms: record.first_byte_ms === null ? ended_ms : started_ms + record.first_byte_ms,
    ended_ms,
  };
}

/**
 * Returns the lifetime of cache entries: with cache points, 5 minutes, or an hour if requested; with automatic caching,
 * 5 to 60 minutes.
 */
function lifetimeOf(prompt: Prompt, { cache_write_1h_tokens }: TokenUsage): Lifetime {
  if (prompt.caching === 'automatic') return { least_ms: 5 * MINUTE_MS, most_ms: 60 * MINUTE_MS };
  const isLong = (cache_write_1h_tokens ?? 0) > 0 || lastCachePoint(prompt)?.ttl === '1h';
  const ms = (isLong ? 60 : 5) * MINUTE_MS;
  return { least_ms: ms, most_ms: ms };
}

function expectOfTurn(before: SeenPrompt): Expectation | null {
  const { prompt, tokens, cached_tokens: cached } = before;
  if (tokens === null) return null;
  if (prompt.caching === 'automatic') {
    const whole = Math.floor(tokens / STEP_TOKENS) * STEP_TOKENS;
    return { before, parts: prompt.parts, tokens: whole, is_estimate: false };
  }
  const parts = cachedParts(prompt);
  if (parts.length > 0 && cached !== null && cached > 0)
    return { before, parts, tokens: cached, is_estimate: false };
  // Nothing was cached, although the whole prompt could have been.
  return { before, parts: prompt.parts, tokens, is_estimate: true };
}

/** The parts up to the last cache point; all parts if caching is automatic. */
function cachedParts({ caching, parts }: Prompt): readonly PromptPart[] {
  if (caching === 'automatic') return parts;
  return parts.slice(0, parts.findLastIndex((part) => part.is_cache_point) + 1);
}

function lastCachePoint({ parts }: Prompt): PromptPart | undefined {
  return parts.findLast((part) => part.is_cache_point);
}

function isUnmarked({ before }: Expectation): boolean {
  return lastCachePoint(before.prompt) === undefined;
}

/** Tokens that may differ without a cause: counts are rounded, and shares of characters are estimates. */
function tolerance({ before, tokens, is_estimate }: Expectation): number {
  if (is_estimate) return Math.max(STEP_TOKENS, tokens * 0.2);
  return before.prompt.caching === 'automatic' ? Math.max(2 * STEP_TOKENS, tokens * 0.05) : tokens * 0.02;
}

function isMessage({ place }: PromptPart): boolean {
  return place === 'message';
}

function isHead({ place }: PromptPart): boolean {
  return place === 'tool' || place === 'system';
}

/**
 * Makes a name of the provider, the path, the model, and the names of the request's tools. If the request has no tools,
 * the beginning of its system prompt replaces them. null: the request has neither tools nor a system prompt.
 */
function nameAgent({ provider, path, model }: ListedExchange, { parts }: Prompt): string | null {
  const tools = parts.filter(({ place }) => place === 'tool').map(({ label }) => label);
  const system = parts.find(({ place }) => place === 'system')?.text ?? '';
  if (tools.length === 0 && system === '') return null;
  const sign = tools.length === 0 ? system.slice(0, 40) : tools.sort();
  return JSON.stringify([provider, path, model, sign]);
}

/** `3 tools: Read, Edit, Bash`, or the first words of the system prompt. */
function describeAgent({ parts }: Prompt): string {
  const tools = parts
    .filter(({ place }) => place === 'tool')
    .map(({ label }) => label)
    .sort();
  const system = parts.find(({ place }) => place === 'system')?.text ?? '';
  if (tools.length === 0) return system.replace(/\s+/g, ' ').slice(0, NAME_CHARS);
  const more = tools.length > NAMED_TOOLS ? ', …' : '';
  return `${countOf(tools.length, 'tool')}: ${tools.slice(0, NAMED_TOOLS).join(', ')}${more}`;
}

/**
 * Whether the common beginning and the common end of two system prompts have together at least half the length of the
 * longer prompt. One prompt then counts as a later version of the other.
 */
function areAlike(before: readonly PromptPart[], after: readonly PromptPart[]): boolean {
  const [a, b] = [before, after].map((parts) =>
    parts
      .filter(({ place }) => place === 'system')
      .map(({ text }) => text)
      .join('\n'),
  ) as [string, string];
  if (a === b) return true;
  const least = Math.min(a.length, b.length);
  return commonLength(a, b) + Math.min(commonEnd(a, b), least) >= Math.max(a.length, b.length) / 2;
}

interface Explained {
  cause: MissCause;
  words: string;
  difference: FoundDifference['difference'] | null;
}

function explain(now: SeenPrompt, { before, parts, is_estimate }: Expectation): Explained {
  const tell = (cause: MissCause, detail = ''): Explained => ({
    cause,
    words: `${MISS_CAUSES[cause]}${detail}`,
    difference: null,
  });
  if (before.model !== now.model) return tell('model_changed', `: ${before.model}, then ${now.model}`);
  const found = findDifference(parts, now.prompt.parts);
  if (found !== null) return { ...tell(found.cause), difference: found.difference };
  const marks = now.prompt.parts.flatMap((part, i) => (part.is_cache_point ? [i] : []));
  if (now.prompt.caching === 'marked') {
    if (marks.length === 0) return tell('not_marked');
    const end = parts.length - 1;
    const next = marks.find((mark) => mark >= end);
    if (!is_estimate && next === undefined)
      return tell('not_marked', ' at the end of the cached part or after it');
    if (!is_estimate && next! - end > LOOK_BACK_BLOCKS)
      return tell('too_far_back', `: ${next! - end}; it searches ${LOOK_BACK_BLOCKS}`);
  }
  if (now.started_ms < before.ready_ms) return tell('not_ready');
  return explainByTime(now, before, tell);
}

function explainByTime(
  now: SeenPrompt,
  before: SeenPrompt,
  tell: (cause: MissCause, detail?: string) => Explained,
): Explained {
  const { least_ms, most_ms } = before.lifetime;
  const minutes = (ms: number): string => `${Math.round(ms / (MINUTE_MS / 10)) / 10} min`;
  const life = least_ms === most_ms ? minutes(least_ms) : `${minutes(least_ms)} to ${minutes(most_ms)}`;
  const idle = now.started_ms - before.ended_ms;
  if (idle > most_ms) return tell('expired', `: its lifetime is ${life}, and ${minutes(idle)} had passed`);
  const age = now.started_ms - before.started_ms;
  if (age > least_ms)
    return tell('may_have_expired', `: its lifetime is ${life}, and ${minutes(age)} had passed`);
  return tell('not_known');
}
