/**
 * A captured run as a conversation: the new part of each exchange in normal form, and how the exchange follows earlier
 * exchanges. Pure except for its source; capture reader.
 *
 * Memory: one exchange at a time, the fingerprints that `readRun` keeps, and a TurnTrail.
 */
import { createHash } from 'node:crypto';
import { describeEnd, type EndCause } from '../domain/end-cause.ts';
import type { ExchangeRecord } from '../domain/exchange.ts';
import { hasFailed, type TurnLink } from '../domain/golden.ts';
import type { CostBasis, Prices } from '../domain/price.ts';
import type { NormalAnswer, NormalRequest, TurnBlock, TurnMessage } from '../domain/turn.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import { priceExchange } from './exchange-cost.ts';
import type { ExchangeSource } from './exchange-source.ts';
import { type RunStep, readRun } from './inspect.ts';
import { type ToldDecision, tellDecision } from './told-decision.ts';
import { type TrailedTurn, TurnTrail } from './turn-trail.ts';

/** Maximum characters of a turn's JSON. A larger turn appears without its content. */
const CONVERSATION_TURN_CHARACTERS = 8 << 20;

/** One exchange of a conversation. */
export interface ToldExchange
  extends Pick<
      ExchangeRecord,
      | 'kind'
      | 'seq'
      | 'method'
      | 'path'
      | 'status'
      | 'provider'
      | 'shape'
      | 'model'
      | 'started_at'
      | 'first_byte_ms'
      | 'aborted'
      | 'truncated'
      | 'undecodable'
      | 'served_by'
    >,
    TrailedTurn {
  exchange_id: number;
  /** Who ended the exchange, and why; null when it succeeded, or the cause is unknown. */
  end_cause: EndCause | null;
  /** `end_cause` in words; '' for null. */
  end_words: string;
  latency_ms: number;
  /** true: the exchange has no answer, an error status, or an answer without an end. */
  failed: boolean;
  /** Whether the exchange repeats the request that `follows` names. */
  is_retry: boolean;
  /** null for an exchange that is not a turn. `breaks`: a turn may be missing before it. */
  link: TurnLink | null;
  /** Number of the turn's conversation in the run, from 1 on; null for an exchange that is not a turn. */
  conversation: number | null;
  /** The earlier exchange that this one continues; null if this one begins a conversation. */
  follows: number | null;
  /** The system prompt; null when it is the same as in the turn before. */
  system: TurnBlock[] | null;
  /** The tools; null when they are the same as in the turn before. */
  tools: NormalRequest['tools'] | null;
  messages_added: TurnMessage[];
  content: TurnBlock[];
  stop_reason: NormalAnswer['stop_reason'];
  usage: ExchangeRecord['usage'];
  /** Dollars; null when nothing is charged, or unknown. */
  cost_usd: number | null;
  /** How certain `cost_usd` is; null without it. */
  cost_basis: CostBasis | null;
  /** Relegation's decision about the exchange; null without a decision. */
  relegation: ToldDecision | null;
  /** The provider's error in words; null without one. */
  error: string | null;
  /** What could not be read, in words; '' if everything could. */
  problem: string;
  /** Whether content is left out, so that only the raw bodies have it. */
  is_cut: boolean;
}

/**
 * Reads a run exchange by exchange, in the order of the run.
 * @throws what the source throws
 */
export function* tellConversation(
  source: ExchangeSource,
  runId: string,
  prices: Prices = {},
): Generator<ToldExchange> {
  let system = '';
  let tools = '';
  const trail = new TurnTrail();
  for (const step of readRun(source, runId)) {
    const { record, turn } = step;
    const copy = turn === null ? undefined : source.copy(record.id);
    const normal = copy === undefined ? null : normalizeTurn(copy);
    const told = { ...describeExchange(step, prices), ...trail.add(step) };
    if (turn === null || normal === null) {
      yield told;
      continue;
    }
    const { request, answer } = normal;
    const from = Math.max(0, turn.request.messages.length - step.new_messages.length);
    const itsSystem = JSON.stringify(request.system);
    const itsTools = JSON.stringify(request.tools);
    yield cutLarge({
      ...told,
      system: itsSystem === system ? null : request.system.map(referBytes),
      tools: itsTools === tools ? null : request.tools,
      messages_added: request.messages
        .slice(from)
        .map(({ role, content }) => ({ role, content: content.map(referBytes) })),
      content: answer.content.map(referBytes),
      stop_reason: answer.stop_reason,
      usage: told.usage.estimated ? told.usage : answer.usage,
      error: answer.error,
      problem: normal.problem,
    });
    system = itsSystem;
    tools = itsTools;
  }
}

function describeExchange({ record, link, conversation, follows }: RunStep, prices: Prices): ToldExchange {
  const { usd, basis } = priceExchange(record, prices);
  return {
    exchange_id: record.id,
    kind: record.kind,
    seq: record.seq,
    method: record.method,
    path: record.path,
    status: record.status,
    provider: record.provider,
    shape: record.shape,
    model: record.model,
    started_at: record.started_at,
    first_byte_ms: record.first_byte_ms,
    latency_ms: record.duration_ms,
    failed: hasFailed(record),
    aborted: record.aborted,
    end_cause: record.end_cause ?? null,
    end_words: record.end_cause === undefined ? '' : describeEnd(record.end_cause),
    truncated: record.truncated,
    undecodable: record.undecodable,
    served_by: record.served_by,
    is_retry: link === 'repeats',
    link,
    conversation,
    follows,
    system: null,
    tools: null,
    messages_added: [],
    content: [],
    stop_reason: null,
    usage: readFreshUsage(record.shape, record.usage),
    cost_usd: usd,
    cost_basis: basis,
    relegation: tellDecision(record),
    error: null,
    problem: '',
    is_cut: false,
    results: [],
    fired: [],
  };
}

/** Replaces an image or other binary content by its SHA-256; the raw body has the bytes. */
function referBytes(block: TurnBlock): TurnBlock {
  if (block.type === 'tool_result') return { ...block, content: block.content.map(referBytes) };
  if (block.type !== 'media' || block.source !== 'base64') return block;
  const sha256 = createHash('sha256').update(Buffer.from(block.data, 'base64')).digest('hex');
  return { ...block, source: 'file', data: sha256 };
}

function cutLarge(told: ToldExchange): ToldExchange {
  const said = [told.system, told.tools, told.messages_added, told.content];
  if (JSON.stringify(said).length <= CONVERSATION_TURN_CHARACTERS) return told;
  return { ...told, system: null, tools: null, messages_added: [], content: [], is_cut: true };
}
