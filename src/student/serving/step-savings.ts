/**
 * Computes what the student saves: the price that the upstream would have charged for the steps that the student
 * served, minus what later upstream steps cost more because their prompt cache is colder. The student's thread, after
 * the answer is on its way.
 *
 * The cache is simulated (prompt-cache.ts) for agents whose golden runs used one. The simulation counts characters;
 * golden runs of the agent give the tokens per character. If the simulation does not know the conversation, because it
 * began before this thread, the means of golden runs are used.
 */

import { costOfUsage, findPrice, type Prices } from '../../domain/price.ts';
import type { NormalRequest } from '../../domain/turn.ts';
import type { JsonObject } from '../../providers/json-reading.ts';
import { tierOf } from '../../providers/service-tier.ts';
import { RecentMap } from '../../std/recent-map.ts';
import type { StudentAnswer } from '../model/decision.ts';
import { type CacheUse, PromptCache, type RequestPrefixes, readPrefixes } from './prompt-cache.ts';

/** Maximum number of agents whose use of tokens and cache is remembered. */
const AGENTS = 1_000;

/** What a step's price depends on; small. */
export interface PricedStep {
  model: string;
  /** The tier of service that the request asks for; undefined: the standard one. */
  tier: string | undefined;
  prefixes: RequestPrefixes;
  /** Whether the conversation has an answer already. */
  is_under_way: boolean;
}

/** Reads what a request's price depends on. */
export function readPricedStep(
  request: NormalRequest,
  { model, cache_control, service_tier, speed, inference_geo }: JsonObject,
  isUnderWay: boolean,
): PricedStep {
  const isMarked = typeof cache_control === 'object' && cache_control !== null;
  return {
    model: String(model),
    tier: tierOf(service_tier, speed, inference_geo),
    prefixes: readPrefixes(request, isMarked),
    is_under_way: isUnderWay,
  };
}

/** An amount in millionths of a dollar. */
interface Amount {
  micro_usd: number;
  /** Whether the price is that of a model with a similar name. */
  is_guessed: boolean;
}

/** The answers that a service gave for one step. */
export interface AskedService {
  model: string;
  /** The service's answers, which all agree. */
  answers: StudentAnswer[];
}

/** What is known of an agent's requests from the served steps. */
interface AgentUse {
  /** Input tokens of the served steps by the agent's golden runs, and characters of the same requests. */
  tokens: number;
  characters: number;
  /** Whether the agent's provider reported reads from, or writes to, a cache. */
  reads: boolean;
  writes: boolean;
}

export class StepSavings {
  readonly #prices: Prices;
  readonly #clockMs: () => number;
  readonly #cache: PromptCache;
  readonly #agents = new RecentMap<string, AgentUse>(AGENTS);

  /** @param clockMs monotonic */
  constructor(prices: Prices, clockMs: () => number) {
    this.#prices = prices;
    this.#clockMs = clockMs;
    this.#cache = new PromptCache(clockMs());
  }

  /**
   * Records that the student has served a step.
   * @param service what the model service of a student of kind `http` was asked; null: no request
   * @returns what the upstream would have charged, minus what the service charged; null when a price is missing
   */
  served(
    step: PricedStep,
    agent: string,
    answer: StudentAnswer,
    service: AskedService | null,
  ): Amount | null {
    const nowMs = this.#clockMs();
    const { prefixes } = step;
    const golden = goldenUse(answer);
    const use = this.#learn(agent, answer, prefixes.characters);
    const isCached = golden.cache_read_tokens + golden.cache_write_tokens > 0;
    const isKnown = this.#cache.knows(prefixes, nowMs, step.is_under_way);
    const spent =
      isCached && isKnown
        ? tokensOf(prefixes, this.#cache.use(prefixes, nowMs, 'alone'), use, answer.output_tokens)
        : golden;
    if (isCached) this.#cache.note(prefixes, nowMs, 'student');
    const cost = this.#cost(step, spent);
    if (cost === null || service === null) return cost;
    let { micro_usd, is_guessed } = cost;
    for (const given of service.answers) {
      const paid = this.#cost({ model: service.model, tier: given.tier }, goldenUse(given));
      if (paid === null) return null;
      micro_usd -= paid.micro_usd;
      is_guessed ||= paid.is_guessed;
    }
    return { micro_usd, is_guessed };
  }

  /**
   * Records that the upstream serves a step.
   * @param agent the step's agent; '' when unknown
   * @returns how much more the upstream charges for the step than if it had served all earlier steps, too; 0 also when
   *   the agent or a price is unknown
   */
  leftToUpstream(step: PricedStep, agent: string): Amount {
    const nowMs = this.#clockMs();
    const { prefixes } = step;
    const alone = this.#cache.use(prefixes, nowMs, 'alone');
    const beside = this.#cache.use(prefixes, nowMs, 'beside');
    this.#cache.note(prefixes, nowMs, 'upstream');
    const use = this.#agents.get(agent);
    const none = { micro_usd: 0, is_guessed: false };
    // Only steps that the student served make the two histories different.
    if (alone.read === beside.read || use === undefined) return none;
    const cold = this.#cost(step, tokensOf(prefixes, beside, use, 0));
    const warm = this.#cost(step, tokensOf(prefixes, alone, use, 0));
    if (cold === null || warm === null) return none;
    return { micro_usd: cold.micro_usd - warm.micro_usd, is_guessed: cold.is_guessed };
  }

  /** Records that the upstream serves a step that the student has answered too late. */
  takenBack({ prefixes }: PricedStep): void {
    this.#cache.note(prefixes, this.#clockMs(), 'upstream');
  }

  #learn(agent: string, answer: StudentAnswer, characters: number): AgentUse {
    const use = this.#agents.get(agent) ?? { tokens: 0, characters: 0, reads: false, writes: false };
    use.tokens += answer.input_tokens;
    use.characters += characters;
    use.reads ||= (answer.cache_read_tokens ?? 0) > 0;
    use.writes ||= (answer.cache_write_tokens ?? 0) > 0;
    this.#agents.set(agent, use);
    return use;
  }

  #cost(
    { model, tier }: Pick<PricedStep, 'model' | 'tier'>,
    usage: ReturnType<typeof goldenUse>,
  ): Amount | null {
    const price = findPrice(this.#prices, model, tier);
    if (price === null) return null;
    return {
      micro_usd: costOfUsage(usage, price)! * 1_000_000,
      is_guessed: price.guessed === true,
    };
  }
}

/** The tokens of an answer, from golden runs or the service. Cached tokens are not counted as input. */
function goldenUse(answer: StudentAnswer) {
  const { input_tokens, output_tokens, cache_read_tokens = 0, cache_write_tokens = 0 } = answer;
  return {
    input_tokens: Math.max(0, input_tokens - cache_read_tokens - cache_write_tokens),
    output_tokens,
    cache_read_tokens,
    cache_write_tokens,
    cache_write_1h_tokens: null as number | null,
  };
}

/** The tokens of a request by the simulated cache. A provider that reports no writes charges them as fresh input. */
function tokensOf(
  { characters }: RequestPrefixes,
  cache: CacheUse,
  { tokens, characters: seen, reads, writes }: AgentUse,
  output_tokens: number,
): ReturnType<typeof goldenUse> {
  const perCharacter = seen === 0 ? 0 : tokens / seen;
  const read = reads || writes ? cache.read : 0;
  const written = writes ? cache.written : 0;
  return {
    input_tokens: (characters - read - written) * perCharacter,
    output_tokens,
    cache_read_tokens: read * perCharacter,
    cache_write_tokens: written * perCharacter,
    cache_write_1h_tokens: writes ? cache.written_1h * perCharacter : 0,
  };
}
