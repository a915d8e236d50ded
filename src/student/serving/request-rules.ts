/**
 * Finds requests that the Messages API would refuse, so that a student never answers a request to which the upstream
 * would answer 400. Only the parsed body is read. These rules become outdated, so the breach of each rule has a name. A
 * breach does not send a step to the upstream if golden requests of the agent broke the same rule and the upstream
 * accepted them. In doubt, the upstream serves: a request goes to the upstream if it has anything that neither the
 * rules nor golden requests know. Pure; teaching and the student's thread. Source: Anthropic's API reference, "Create a
 * message", and its error answers.
 */

import { asArray, asObject, type JsonObject } from '../../providers/json-reading.ts';
import { roundedNumber } from '../../std/exact-json.ts';
import type { ApiVersion } from './protocol.ts';

const TOOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/;
const CALL_ID = /^[a-zA-Z0-9_-]{1,256}$/;
/** Settings that the API no longer accepts from 2026-10-21 on, whatever their value. */
const SAMPLING = ['temperature', 'top_p', 'top_k'];
const CACHE_MARKERS_MAX = 4;
const CACHE_TTLS = ['5m', '1h'];
const USER_ID_MAX = 256;
const THINKING_BUDGET_MIN = 1_024;
/** Top-level fields that may be null, with the same meaning as left out. */
const NULLABLE = new Set(
  (
    'billing_policy cache_control compaction container context_management diagnostics fallback_credit_token fallbacks ' +
    'inference_geo output_format speed thread'
  ).split(' '),
);
/** A result contains blocks, and documents in it may contain further blocks. */
const CONTENT_DEPTH = 3;

/**
 * Finds the upstream's rules that a request breaks, as far as we know the rules. Golden requests that the upstream
 * accepted show which breaches it tolerates.
 * @returns the rules' names, sorted; empty for a request that breaks no rule
 */
export function findBreaches(value: unknown, version: ApiVersion): string[] {
  const body = asObject(value);
  const breaches = new Set<string>();
  const expect = (name: string, isRight: boolean): void => {
    if (!isRight) breaches.add(name);
  };
  expect('sampling', version === '2023-06-01' || SAMPLING.every((name) => body[name] === undefined));
  expect('model', typeof body.model === 'string' && body.model !== '');
  expect('max_tokens', isInteger(body.max_tokens, 1));
  expect(
    'stream',
    isOptional(body.stream, (value) => typeof value === 'boolean'),
  );
  expect('system', isOptional(body.system, isSystem));
  expect('stop_sequences', isOptional(body.stop_sequences, areStops));
  expect('temperature', isOptional(body.temperature, isShare));
  expect('top_p', isOptional(body.top_p, isShare));
  expect(
    'top_k',
    isOptional(body.top_k, (value) => isInteger(value, 0)),
  );
  expect('metadata', isOptional(body.metadata, isMetadata));
  expect(
    'thinking',
    isOptional(body.thinking, (value) => isThinking(value, roundedNumber(body.max_tokens) ?? 0)),
  );
  expect(
    'output_format',
    isOptional(body.output_format ?? undefined, (value) => asObject(value).type === 'json_schema'),
  );
  expect('tools', areTools(body.tools, body.tool_choice));
  for (const name of checkMessages(body.messages)) breaches.add(name);
  expect('cache_control', areMarkers(body));
  for (const name of Object.keys(body))
    expect(
      `field ${name.slice(0, NAME_CHARACTERS)}`,
      name !== '__proto__' && (body[name] !== null || NULLABLE.has(name)),
    );
  return [...breaches].sort().slice(0, BREACHES);
}

/** Maximum length of a breach's name, and maximum number of breaches of one request. */
const NAME_CHARACTERS = 64;
const BREACHES = 20;

/** Whether the request asks for a whole answer: the last message is not the model's. */
export function endsWithUser(value: unknown): boolean {
  return asObject(asArray(asObject(value).messages).at(-1)).role !== 'assistant';
}

function isOptional(value: unknown, isRight: (value: unknown) => boolean): boolean {
  return value === undefined || isRight(value);
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isInteger(value: unknown, min: number): boolean {
  const number = roundedNumber(value);
  return Number.isSafeInteger(number) && number! >= min;
}

function isShare(value: unknown): boolean {
  const share = roundedNumber(value);
  return share !== null && share >= 0 && share <= 1;
}

/** Whether metadata has only the known field, which names the user. */
function isMetadata(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { user_id: user, ...unknownFields } = value;
  const isUser =
    user === undefined || user === null || (typeof user === 'string' && user.length <= USER_ID_MAX);
  return isUser && Object.keys(unknownFields).length === 0;
}

/** Whether `thinking` has a known type. An unknown type may ask for blocks that no student gives. */
function isThinking(value: unknown, maxTokens: number): boolean {
  const { type, budget_tokens: budget } = asObject(value);
  if (type === 'enabled') return isInteger(budget, THINKING_BUDGET_MIN) && roundedNumber(budget)! < maxTokens;
  return type === 'adaptive' || type === 'disabled';
}

function areStops(value: unknown): boolean {
  return Array.isArray(value) && value.every((stop) => typeof stop === 'string' && stop.trim() !== '');
}

function isSystem(value: unknown): boolean {
  if (typeof value === 'string') return true;
  return Array.isArray(value) && value.every((block) => isObject(block) && isTextBlock(block));
}

function isTextBlock(block: JsonObject): boolean {
  return block.type === 'text' && typeof block.text === 'string' && block.text !== '';
}

function areTools(tools: unknown, choice: unknown): boolean {
  if (tools === undefined) return choice === undefined;
  if (!Array.isArray(tools)) return false;
  const names = new Set<string>();
  for (const tool of tools) {
    if (!isObject(tool)) return false;
    const { name, type, input_schema: schema } = tool;
    if (typeof name !== 'string' || !TOOL_NAME.test(name) || names.has(name)) return false;
    names.add(name);
    // The fields that a provider's tool needs are unknown.
    const isOwn = type === undefined || type === null || type === 'custom';
    if (isOwn && !(isObject(schema) && schema.type === 'object')) return false;
  }
  return choice === undefined || isChoice(choice, names);
}

function isChoice(choice: unknown, names: ReadonlySet<string>): boolean {
  if (!isObject(choice) || names.size === 0) return false;
  if (!isOptional(choice.disable_parallel_tool_use, (value) => typeof value === 'boolean')) return false;
  if (choice.type === 'tool') return typeof choice.name === 'string' && names.has(choice.name);
  return choice.type === 'auto' || choice.type === 'any' || choice.type === 'none';
}

/**
 * Checks messages, and that each call has its result in the next message, and each result has its call in the previous
 * message. Messages of other roles may stand between them.
 */
function checkMessages(value: unknown): Set<string> {
  if (!Array.isArray(value) || value.length === 0) return new Set(['messages']);
  const breaches = new Set<string>();
  let isFirst = true;
  let waiting = new Set<string>();
  const seen = new Set<string>();
  for (const [at, message] of value.entries()) {
    const { role, content } = asObject(message);
    if (role !== 'user' && role !== 'assistant') {
      breaches.add(`role ${String(role).slice(0, NAME_CHARACTERS)}`);
      continue;
    }
    if (isFirst && role !== 'user') breaches.add('first message');
    isFirst = false;
    const isLast = at === value.length - 1;
    if (typeof content === 'string') {
      if (waiting.size > 0) breaches.add('results');
      if (content === '' && !(isLast && role === 'assistant')) breaches.add('empty message');
      continue;
    }
    if (!Array.isArray(content)) {
      breaches.add('content');
      continue;
    }
    if (content.length === 0 && !(isLast && role === 'assistant')) breaches.add('empty message');
    const calls = new Set<string>();
    for (const block of content) {
      if (!isObject(block)) {
        breaches.add('content');
        continue;
      }
      if (!isBlock(block, role))
        breaches.add(`block ${role} ${String(block.type).slice(0, NAME_CHARACTERS)}`);
      if (block.type === 'tool_use') {
        const id = String(block.id);
        if (seen.has(id)) breaches.add('call ids');
        seen.add(id);
        calls.add(id);
      } else if (block.type === 'tool_result' && !waiting.delete(String(block.tool_use_id)))
        breaches.add('results');
    }
    if (waiting.size > 0) breaches.add('results');
    waiting = calls;
  }
  if (waiting.size > 0) breaches.add('results');
  return breaches;
}

function isBlock(block: JsonObject, role: 'user' | 'assistant'): boolean {
  switch (block.type) {
    case 'text':
      // User text has no citations; the older version ignores them.
      return isTextBlock(block) && (role === 'assistant' || asArray(block.citations).length === 0);
    case 'tool_use':
      return (
        role === 'assistant' &&
        typeof block.id === 'string' &&
        CALL_ID.test(block.id) &&
        typeof block.name === 'string' &&
        block.name !== '' &&
        isObject(block.input)
      );
    case 'tool_result':
      return role === 'user' && typeof block.tool_use_id === 'string' && isResult(block);
    case 'thinking':
      return (
        role === 'assistant' && typeof block.thinking === 'string' && typeof block.signature === 'string'
      );
    case 'redacted_thinking':
      return role === 'assistant' && typeof block.data === 'string';
    case 'image':
    case 'document':
      return role === 'user' && isObject(block.source);
    default:
      // Blocks of a provider's tools, which only the upstream can check.
      return typeof block.type === 'string' && block.type !== '';
  }
}

function isResult({ content, is_error: isError }: JsonObject): boolean {
  if (!isOptional(isError, (value) => typeof value === 'boolean')) return false;
  if (content === undefined || typeof content === 'string') return true;
  if (!Array.isArray(content)) return false;
  return content.every((block) => isObject(block) && (block.type !== 'text' || isTextBlock(block)));
}

/**
 * Whether the cache markers are well formed and not too many. They may stand on the request, the system prompt, tools,
 * messages' blocks and contents of results.
 */
function areMarkers(body: JsonObject): boolean {
  let count = 0;
  let areGood = true;
  const see = (marker: unknown): void => {
    if (marker === undefined || marker === null) return;
    count++;
    const { type, ttl } = asObject(marker);
    areGood &&= type === 'ephemeral' && (ttl === undefined || CACHE_TTLS.includes(ttl as string));
  };
  const look = (blocks: unknown, depth: number): void => {
    for (const block of asArray(blocks)) {
      const { cache_control: marker, content } = asObject(block);
      see(marker);
      if (depth > 0) look(content, depth - 1);
    }
  };
  see(body.cache_control);
  look(body.system, 0);
  look(body.tools, 0);
  for (const message of asArray(body.messages)) look(asObject(message).content, CONTENT_DEPTH);
  return areGood && count <= CACHE_MARKERS_MAX;
}
