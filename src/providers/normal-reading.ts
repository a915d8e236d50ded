/**
 * Shared parts of all wires' readers: the budget that bounds them, the pairing of tool calls with their results, and
 * small translations that several providers share. Pure; any thread.
 */

import type {
  NormalRequest,
  TurnBlock,
  TurnMessage,
  TurnResponseSchema,
  TurnThinking,
  TurnTool,
  TurnToolChoice,
} from '../domain/turn.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from './json-reading.ts';

/** Maximum number of blocks, tools and stream events of one turn's normal form. A larger turn is marked undecodable. */
const NORMAL_TURN_ITEMS = 200_000;

/** One turn being read, with the number of items that it may still take. */
export class NormalReading {
  #left = NORMAL_TURN_ITEMS;

  /** Whether the turn has more blocks, tools and events than the budget allows. */
  get isOver(): boolean {
    return this.#left < 0;
  }

  /** Takes the items of an array from the budget, as far as it allows; none for any other value. */
  take(value: unknown): unknown[] {
    const items = asArray(value);
    if (this.#left < 0) return [];
    this.#left -= items.length;
    return this.#left < 0 ? items.slice(0, items.length + this.#left) : items;
  }

  /**
   * Takes one more item.
   * @returns false when the budget is exhausted
   */
  takeOne(): boolean {
    if (this.#left < 0) return false;
    this.#left -= 1;
    return this.#left >= 0;
  }
}

/** Makes a request without any content yet. */
export function emptyRequest(model: string | null = null): NormalRequest {
  return {
    model,
    system: [],
    messages: [],
    tools: [],
    tool_choice: null,
    thinking: null,
    response_schema: null,
    max_output_tokens: null,
    previous_answer_id: null,
  };
}

/** Makes a block of a text; an empty list for the empty text, and for a value that is not a text. */
export function textBlocks(text: unknown): TurnBlock[] {
  return typeof text === 'string' && text !== '' ? [{ type: 'text', text }] : [];
}

/** Makes the block of a tool call. If the provider gives no id, `id` is '' until `pairCalls` numbers the call. */
export function callBlock(id: unknown, name: unknown, input: unknown, signature?: unknown): TurnBlock {
  const signed = asText(signature);
  return {
    type: 'tool_call',
    id: asText(id) ?? '',
    name: asText(name) ?? '',
    input,
    ...(signed === null ? {} : { signature: signed }),
  };
}

/** Makes a cache point of the cache marker on a block, a tool or a system text; an empty list without a marker. */
export function cachePointOf(marked: JsonObject): TurnBlock[] {
  const control = marked.cache_control;
  if (typeof control !== 'object' || control === null) return [];
  return [{ type: 'cache_point', ttl: asText(asObject(control).ttl) }];
}

/** Makes the block of media that are given as a data URI or as an address. */
export function mediaFromUrl(
  kind: Extract<TurnBlock, { type: 'media' }>['kind'],
  url: string,
  mediaType: string | null,
): TurnBlock {
  const match = /^data:([^;,]{0,200})(?:;[^,]{0,200})?,/.exec(url.slice(0, 512));
  if (match === null) return { type: 'media', kind, media_type: mediaType, source: 'url', data: url };
  const data = url.slice(match[0].length);
  return { type: 'media', kind, media_type: asText(match[1]) ?? mediaType, source: 'base64', data };
}

/** Makes the block of media whose bytes are in the body, as a data URI or as bare base64. */
export function mediaFromData(
  kind: Extract<TurnBlock, { type: 'media' }>['kind'],
  data: string,
  mediaType: string | null,
): TurnBlock {
  if (data.startsWith('data:')) return mediaFromUrl(kind, data, mediaType);
  return { type: 'media', kind, media_type: mediaType, source: 'base64', data };
}

/** Returns the `kind` of a media block with this MIME type; `file` if the type is unknown. */
export function mediaKind(mediaType: string | null): Extract<TurnBlock, { type: 'media' }>['kind'] {
  const type = mediaType?.split('/')[0];
  if (type === 'image' || type === 'audio' || type === 'video') return type;
  return mediaType === 'application/pdf' || type === 'text' ? 'document' : 'file';
}

/**
 * Makes the tool of a declared function.
 * @param rest all other fields of the declaration
 */
export function functionTool(
  name: unknown,
  description: unknown,
  schema: unknown,
  rest: JsonObject,
): TurnTool {
  return {
    kind: 'function',
    name: asText(name) ?? '?',
    description: asText(description) ?? '',
    input_schema: schema ?? null,
    settings: Object.keys(rest).length === 0 ? null : rest,
  };
}

/** Makes a tool that the provider runs. */
export function providerTool(name: unknown, settings: JsonObject): TurnTool {
  return {
    kind: 'provider',
    name: asText(name) ?? '?',
    description: '',
    input_schema: null,
    settings: Object.keys(settings).length === 0 ? null : settings,
  };
}

/**
 * Reads OpenAI's `tool_choice` and `parallel_tool_calls`, which chat-completions and responses share; null if neither
 * is set, or if the choice is an unknown word.
 */
export function readOpenAiToolChoice(body: JsonObject, reading: NormalReading): TurnToolChoice | null {
  const parallel = typeof body.parallel_tool_calls === 'boolean' ? body.parallel_tool_calls : null;
  const choice = body.tool_choice ?? body.function_call;
  const modeOf = (word: unknown): 'auto' | 'any' | 'none' | null =>
    word === 'required' ? 'any' : word === 'auto' || word === 'none' ? word : null;
  if (typeof choice === 'string') {
    const mode = modeOf(choice);
    return mode === null ? null : { mode, names: [], parallel };
  }
  const named = asObject(choice);
  if (Object.keys(named).length === 0)
    return parallel === null ? null : { mode: 'auto', names: [], parallel };
  if (named.type === 'allowed_tools') {
    const allowed = named.tools === undefined ? asObject(named.allowed_tools) : named;
    const names = reading.take(allowed.tools).map((tool) => nameOfChoice(asObject(tool)));
    return { mode: modeOf(allowed.mode) ?? 'auto', names, parallel };
  }
  return { mode: 'tool', names: [nameOfChoice(named)], parallel };
}

function nameOfChoice(tool: JsonObject): string {
  const body = asObject(tool.function ?? tool.custom);
  return asText(body.name) ?? asText(tool.name) ?? asText(tool.server_label) ?? asText(tool.type) ?? '?';
}

/** Reads OpenAI's `response_format` or `text.format`; null for plain text and unknown types. */
export function readOpenAiFormat(value: unknown): TurnResponseSchema | null {
  const format = asObject(value);
  if (format.type === 'json_object') return { schema: null, name: null, strict: null };
  if (format.type !== 'json_schema') return null;
  const body = format.json_schema === undefined ? format : asObject(format.json_schema);
  return {
    schema: body.schema ?? null,
    name: asText(body.name),
    strict: typeof body.strict === 'boolean' ? body.strict : null,
  };
}

/** Reads OpenAI's effort word, and the budget that some servers accept beside it; null without both. */
export function readEffort(effort: unknown, budget: unknown = undefined): TurnThinking | null {
  const word = asText(effort);
  const budgetTokens = asCount(budget);
  if (word === null && budgetTokens === null) return null;
  return {
    mode: word === 'none' ? 'off' : budgetTokens === null ? 'adaptive' : 'on',
    budget_tokens: budgetTokens,
    effort: word,
  };
}

/**
 * Reads `thinking` and `output_config.effort` in the form of the Messages API and of Bedrock's extra fields; null if
 * neither is set.
 * @param settings the object that holds them
 */
export function readMessagesThinking(settings: JsonObject): TurnThinking | null {
  const thinking = asObject(settings.thinking ?? settings.reasoning_config);
  const effort = asText(asObject(settings.output_config).effort) ?? asText(settings.reasoning_effort);
  const budget = asCount(thinking.budget_tokens);
  switch (thinking.type) {
    case 'enabled':
      return { mode: 'on', budget_tokens: budget, effort: effort ?? asText(thinking.maxReasoningEffort) };
    case 'disabled':
      return { mode: 'off', budget_tokens: null, effort };
    case 'adaptive':
      return { mode: 'adaptive', budget_tokens: null, effort };
    default: {
      const word = effort ?? asText(settings.reasoning_config);
      return word === null ? null : { mode: 'adaptive', budget_tokens: null, effort: word };
    }
  }
}

/** A call of the conversation, by its id in the normal form. */
interface KnownCall {
  id: string;
  name: string;
}

/**
 * The calls that have the same id: the calls that wait for their result, oldest first, and the last call that has a
 * result.
 */
interface SameId {
  waiting: KnownCall[];
  answered: KnownCall | null;
}

/** Calls without a result yet, while a conversation is read. */
class OpenCalls {
  readonly #byId = new Map<string, SameId>();
  /** For calls without an id, by tool: their assigned ids, oldest first, and how many have a result. */
  readonly #unnamed = new Map<string, { ids: string[]; answered: number }>();
  #count = 0;

  add(call: Extract<TurnBlock, { type: 'tool_call' }>): void {
    this.#count += 1;
    const own = `order:${this.#count}`;
    if (call.id === '') {
      call.id = own;
      const waiting = this.#unnamed.get(call.name);
      if (waiting === undefined) this.#unnamed.set(call.name, { ids: [own], answered: 0 });
      else waiting.ids.push(own);
      this.#byId.set(own, { waiting: [{ id: own, name: call.name }], answered: null });
      return;
    }
    const withId = this.#byId.get(call.id);
    if (withId === undefined) {
      this.#byId.set(call.id, { waiting: [{ id: call.id, name: call.name }], answered: null });
      return;
    }
    // Some servers give the calls of one answer the same id, so only their order distinguishes them.
    if (withId.waiting.length > 0) call.id = own;
    withId.waiting.push({ id: call.id, name: call.name });
  }

  answer(result: Extract<TurnBlock, { type: 'tool_result' }>): void {
    const withId = result.call_id === null ? undefined : this.#byId.get(result.call_id);
    if (withId !== undefined) {
      const named = result.name === null ? -1 : withId.waiting.findIndex(({ name }) => name === result.name);
      const [call] = withId.waiting.splice(Math.max(named, 0), 1);
      withId.answered = call ?? withId.answered;
      result.name ??= withId.answered?.name ?? null;
      result.call_id = withId.answered?.id ?? result.call_id;
      return;
    }
    // The result is paired by name and order with the oldest call of that tool without a result. This ignores an id
    // that the client made up for a call without an id.
    const waiting = result.name === null ? undefined : this.#unnamed.get(result.name);
    const id = waiting?.ids[waiting.answered];
    if (waiting !== undefined && id !== undefined) waiting.answered += 1;
    // If there is no such call, the result keeps its id, because the call may be in an answer that the provider keeps.
    result.call_id = id ?? result.call_id;
  }
}

/**
 * Pairs tool calls with their results through a conversation and its answer, in place. Results get the name of their
 * tool. Calls without an id get an id by position. Results without an id get the id of their call. A message that holds
 * only results, apart from cache points, becomes one of role `tool`.
 */
export function pairCalls(messages: TurnMessage[], answer: TurnBlock[]): void {
  const calls = new OpenCalls();
  for (const message of messages) {
    let results = 0;
    let otherBlocks = 0;
    for (const block of message.content) {
      if (block.type === 'tool_call') calls.add(block);
      if (block.type === 'tool_result') {
        calls.answer(block);
        results += 1;
      } else if (block.type !== 'cache_point') otherBlocks += 1;
    }
    if (results > 0 && otherBlocks === 0) message.role = 'tool';
  }
  for (const block of answer) if (block.type === 'tool_call') calls.add(block);
}
