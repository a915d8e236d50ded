/**
 * Answers of the Messages wire, whole and streamed (message_start … message_stop), and of InvokeModel with the same
 * models. Pure; runs where stored copies are read, never on a server thread. Source: Anthropic's Messages API
 * reference; a stream is assembled like `MessageStream` of @anthropic-ai/sdk.
 */

import type { TokenUsage } from '../../domain/exchange.ts';
import type { TurnBlock } from '../../domain/turn.ts';
import { isRawNumber } from '../../std/exact-json.ts';
import {
  asCount,
  asIndex,
  asObject,
  asText,
  hasError,
  type JsonObject,
  parseLenient,
  readErrorWords,
} from '../json-reading.ts';
import type { NormalReading } from '../normal-reading.ts';
import { noteTier } from '../service-tier.ts';
import { laterCount } from '../usage-counts.ts';
import { type AnswerReader, emptyAnswer, type WireAnswer } from '../wire.ts';
import { readMessagesBlock, readMessagesBlocks } from './request.ts';

/** Position of the type's name in an event as the API writes it: `{"type":"`. */
const TYPE_AT = 9;

/** Arguments sent as a JSON value, whose numbers keep their digits. Most servers send a string instead. */
const GIVEN_INPUT = /"partial_json"[ \t\r\n]*:[ \t\r\n]*[[{]/;

/** A content block of a stream while its deltas arrive. */
interface OpenBlock {
  block: JsonObject;
  text: string;
  thinking: string;
  input: string;
  /** Arguments sent as JSON, as some compatible servers stream them; undefined when none were. */
  given: unknown;
  signature: string | null;
  citations: unknown[];
}

/** Reads one answer of the Messages wire. Bedrock's InvokeModel uses it too. */
export class MessagesAnswerReader implements AnswerReader {
  readonly #reading: NormalReading;
  readonly #answer: WireAnswer = emptyAnswer();
  /** Blocks by index. */
  readonly #open = new Map<number, OpenBlock>();
  #tier: string | null = null;
  #speed: string | null = null;
  #geo: string | null = null;

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  readWhole(value: unknown): void {
    const body = asObject(value);
    if (hasError(body) || body.type === 'error') this.#answer.error = readErrorWords(body) ?? 'error';
    if (body.type === 'error') return;
    this.#readHead(body);
    this.#answer.content = readMessagesBlocks(body.content, this.#reading);
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    const type = name === 'error' ? name : (asText(event.type) ?? name);
    switch (type) {
      case 'message_start':
        this.#readHead(asObject(event.message));
        break;
      case 'content_block_start':
        if (this.#reading.takeOne())
          this.#open.set(asIndex(event.index) ?? 0, startBlock(asObject(event.content_block)));
        break;
      case 'content_block_delta':
        this.#readDelta(asIndex(event.index) ?? 0, asObject(event.delta));
        break;
      case 'message_delta':
        this.#readHead(asObject(event.delta));
        this.#readUsage(event.usage);
        break;
      case 'error':
        this.#answer.error = readErrorWords(event) ?? 'error';
        break;
      default:
        if (hasError(event)) this.#answer.error = readErrorWords(event) ?? 'error';
    }
  }

  /** Deltas usually hold texts, and other events hold counts. Only the start of a block may hold a whole input. */
  isPlain(text: string): boolean {
    if (!text.startsWith('{"type":"') || text.startsWith('content_block_start', TYPE_AT)) return false;
    return !GIVEN_INPUT.test(text);
  }

  finish(): WireAnswer {
    for (const open of this.#open.values()) this.#answer.content.push(this.#close(open));
    this.#open.clear();
    noteTier(this.#answer.usage, this.#tier, this.#speed, this.#geo);
    return this.#answer;
  }

  #readUsage(value: unknown): void {
    readUsage(value, this.#answer.usage);
    const { service_tier, speed, inference_geo } = asObject(value);
    this.#tier = asText(service_tier) ?? this.#tier;
    this.#speed = asText(speed) ?? this.#speed;
    this.#geo = asText(inference_geo) ?? this.#geo;
  }

  #readHead(message: JsonObject): void {
    const answer = this.#answer;
    answer.id = asText(message.id) ?? answer.id;
    answer.model = asText(message.model) ?? answer.model;
    answer.stop_word = asText(message.stop_reason) ?? answer.stop_word;
    this.#readUsage(message.usage);
  }

  #readDelta(index: number, delta: JsonObject): void {
    let open = this.#open.get(index);
    if (open === undefined) {
      if (!this.#reading.takeOne()) return;
      open = startBlock({ type: blockOf(delta.type) });
      this.#open.set(index, open);
    }
    switch (delta.type) {
      case 'text_delta':
        open.text += asText(delta.text) ?? '';
        break;
      case 'thinking_delta':
        open.thinking += asText(delta.thinking) ?? '';
        break;
      case 'input_json_delta':
        if (isBranch(delta.partial_json)) open.given = delta.partial_json;
        else open.input += asText(delta.partial_json) ?? '';
        break;
      case 'signature_delta':
        open.signature = asText(delta.signature) ?? open.signature;
        break;
      case 'citations_delta':
        if (delta.citation !== undefined && this.#reading.takeOne()) open.citations.push(delta.citation);
        break;
      default:
        open.block = addDelta(open.block, delta);
    }
  }

  #close({ block, text, thinking, input, given, signature, citations }: OpenBlock): TurnBlock {
    const whole: JsonObject = { ...block };
    if (text !== '') whole.text = (asText(block.text) ?? '') + text;
    if (thinking !== '') whole.thinking = (asText(block.thinking) ?? '') + thinking;
    if (input.trim() !== '') whole.input = parseLenient(input);
    else if (given !== undefined) whole.input = given;
    if (signature !== null) whole.signature = signature;
    if (citations.length > 0) {
      whole.citations = Array.isArray(block.citations) ? [...block.citations, ...citations] : citations;
    }
    return readMessagesBlock(whole, this.#reading);
  }
}

function startBlock(block: JsonObject): OpenBlock {
  return { block, text: '', thinking: '', input: '', given: undefined, signature: null, citations: [] };
}

function isBranch(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !isRawNumber(value);
}

/** Determines, from the type of a delta, the type of a block whose start is missing. */
function blockOf(delta: unknown): string {
  if (delta === 'input_json_delta') return 'tool_use';
  if (delta === 'thinking_delta' || delta === 'signature_delta') return 'thinking';
  return delta === 'compaction_delta' ? 'compaction' : 'text';
}

/**
 * Adds a delta of an unknown kind, such as `compaction_delta`: its texts are appended to those of the block, and its
 * other fields replace the block's, unless they are null.
 */
function addDelta(block: JsonObject, { type: _kind, ...fields }: JsonObject): JsonObject {
  const whole: JsonObject = { ...block };
  for (const [name, value] of Object.entries(fields)) {
    const before = whole[name];
    whole[name] =
      typeof value === 'string' && typeof before === 'string' ? before + value : (value ?? before);
  }
  return whole;
}

/**
 * Merges counts into the usage so far. In a stream, message_start contains the first counts, and message_delta
 * cumulative counts, which replace the first counts. With `iterations` (compaction), the top-level counts may leave
 * some iterations out, although all are billed. So the counts of the iterations are added up.
 */
function readUsage(value: unknown, usage: TokenUsage): void {
  const from = asObject(value);
  const rounds = Array.isArray(from.iterations) && from.iterations.length > 0 ? from.iterations : [from];
  const take = (name: keyof TokenUsage, read: (round: JsonObject) => unknown): void => {
    let sum: number | null = null;
    for (const round of rounds) {
      const count = asCount(read(asObject(round)));
      if (count !== null) sum = (sum ?? 0) + count;
    }
    // If the iterations omit this count, or add up to less, the top-level count is used.
    const top = asCount(read(from));
    if (sum === null || (top !== null && top > sum)) sum = top;
    (usage as unknown as Record<string, number | null>)[name] = laterCount(sum, usage[name] as number | null);
  };
  take('input_tokens', (round) => round.input_tokens);
  take('output_tokens', (round) => round.output_tokens);
  take('cache_read_tokens', (round) => round.cache_read_input_tokens);
  take('cache_write_tokens', (round) => round.cache_creation_input_tokens);
  take('cache_write_1h_tokens', (round) => asObject(round.cache_creation).ephemeral_1h_input_tokens);
}
