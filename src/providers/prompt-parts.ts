/**
 * A request's prompt as the provider's cache sees it: its parts in the order in which the model reads them. Two
 * requests share a cached prefix as far as their parts are equal, byte by byte. Pure; capture reader and command line.
 *
 * Sources: Anthropic, "Prompt caching" (tools, system, messages; a change of `tool_choice` or `thinking` invalidates
 * the messages alone); OpenAI, "Prompt caching" (tools and response schema stand before the messages); Google, "Context
 * caching"; Amazon Bedrock, "Prompt caching" (tools, system, messages).
 */

import type { ApiShape } from '../domain/exchange.ts';
import { decodeContent } from './content-encoding.ts';
import { asArray, asObject, asText, type JsonObject, parseJson } from './json-reading.ts';
import type { StoredExchange } from './stored-exchange.ts';
import type { PromptLayout } from './wire.ts';
import { WIRES } from './wires.ts';

/** The kind of a part of a prompt. */
type PromptPlace = 'setting' | 'tool' | 'system' | 'message';

/** One part of a prompt. */
export interface PromptPart {
  place: PromptPlace;
  /** The part for people: `tool 3 (Read)`, `system`, `message 12, block 2`. */
  name: string;
  /** The name of a tool or a setting; '' for other parts. */
  label: string;
  /**
   * The text that the model reads: text unchanged, anything else as JSON with its keys in the request's
   * order.
   */
  text: string;
  /** Whether the request asks to cache everything up to here. */
  is_cache_point: boolean;
  /** The lifetime that the cache point asks for; null: the default. */
  ttl: string | null;
}

/** A prompt in its parts. */
export interface Prompt {
  caching: PromptLayout['caching'];
  parts: PromptPart[];
  /** Whether the provider keeps the beginning of the prompt, which is then not part of the request. */
  is_continued: boolean;
}

/**
 * Reads the prompt of a stored request.
 * @returns null without a shape, and when the copy is truncated or the body cannot be read
 */
export function readPrompt(stored: StoredExchange): Prompt | null {
  const { shape } = stored;
  if (shape === null || stored.truncated) return null;
  const { bytes, problem } = decodeContent(stored.request_body, stored.request_headers);
  if (problem !== '') return null;
  try {
    return splitPrompt(shape, asObject(parseJson(new TextDecoder().decode(bytes))));
  } catch {
    return null;
  }
}

function splitPrompt(shape: ApiShape, body: JsonObject): Prompt {
  const layout = WIRES[shape].prompt;
  const parts: PromptPart[] = [];
  const tools = asArray(readField(body, layout.tools));
  for (const [i, tool] of tools.entries()) parts.push(readTool(tool, i));
  parts.push(...readSystem(readField(body, layout.system)));
  for (const name of layout.settings) {
    const value = readPath(body, name);
    if (value !== undefined)
      parts.push(newPart('setting', `the setting ${name}`, JSON.stringify(value), name));
  }
  parts.push(...readMessages(readField(body, layout.messages), layout, tools.length));
  const last = parts.at(-1);
  // A cache point of the whole request applies after its last part.
  if (last !== undefined && body.cache_control !== undefined) markCachePoint(last, body.cache_control);
  // Routers accept cache points even in a format whose own provider caches automatically.
  const isMarked = layout.caching === 'marked' || parts.some((part) => part.is_cache_point);
  const isContinued = layout.kept_by !== null && asText(readPath(body, layout.kept_by)) !== null;
  return { caching: isMarked ? 'marked' : 'automatic', parts, is_continued: isContinued };
}

function readField(body: JsonObject, paths: readonly string[]): unknown {
  for (const path of paths) {
    const value = readPath(body, path);
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

function readPath(body: JsonObject, path: string): unknown {
  let value: unknown = body;
  for (const name of path.split('.')) value = asObject(value)[name];
  return value;
}

function readTool(tool: unknown, index: number): PromptPart {
  const declared = asObject(tool);
  const inner = asObject(declared.function ?? declared.toolSpec);
  const label = asText(declared.name) ?? asText(inner.name) ?? asText(declared.type) ?? '';
  const name = `tool ${index + 1}${label === '' ? '' : ` (${label})`}`;
  return readBlock('tool', name, tool, label);
}

function readSystem(system: unknown): PromptPart[] {
  if (system === undefined || system === '') return [];
  const blocks = Array.isArray(system) ? system : asArray(asObject(system).parts);
  if (blocks.length === 0) return [readBlock('system', 'system', system)];
  return joinCachePoints(
    blocks.map((block, i) => readBlock('system', blocks.length === 1 ? 'system' : `system ${i + 1}`, block)),
  );
}

/** @param tools the number of tools before the messages */
function readMessages(messages: unknown, { blocks, toolsIn }: PromptLayout, tools: number): PromptPart[] {
  if (typeof messages === 'string') return [newPart('message', 'message 1', messages)];
  const parts: PromptPart[] = [];
  for (const [i, message] of asArray(messages).entries()) {
    const declared = toolsIn?.(message) ?? null;
    if (declared !== null) {
      for (const tool of declared) parts.push(readTool(tool, tools++));
      continue;
    }
    const name = `message ${i + 1}`;
    const { [blocks]: content, ...rest } = asObject(message);
    // Beside the content, the model reads names, roles and calls.
    const head = describeHead(rest);
    if (!Array.isArray(content)) {
      const text = content === undefined || content === null ? head : `${head}${readText(content)}`;
      parts.push(newPart('message', name, text));
      continue;
    }
    if (content.length === 0) parts.push(newPart('message', name, head));
    for (const [j, block] of content.entries()) {
      const part = readBlock('message', content.length === 1 ? name : `${name}, block ${j + 1}`, block);
      parts.push(j === 0 ? { ...part, text: `${head}${part.text}` } : part);
    }
  }
  return joinCachePoints(parts);
}

/** Writes the text before a message's content: `user: ` for most messages. */
function describeHead(rest: JsonObject): string {
  const names = Object.keys(rest);
  if (names.length === 0) return '';
  return names.length === 1 && typeof rest.role === 'string' ? `${rest.role}: ` : JSON.stringify(rest);
}

function readBlock(place: PromptPlace, name: string, block: unknown, label = ''): PromptPart {
  const { cache_control, cachePoint, ...rest } = asObject(block);
  const isObject = typeof block === 'object' && block !== null && !Array.isArray(block);
  if (isObject && cachePoint !== undefined && Object.keys(rest).length === 0) {
    const part = newPart(place, name, '');
    markCachePoint(part, cachePoint);
    return part;
  }
  const part = newPart(place, name, readText(isObject ? rest : block), label);
  if (cache_control !== undefined && cache_control !== null) markCachePoint(part, cache_control);
  return part;
}

/**
 * Writes the text of a part. A block with only a text gives that text, so that it equals the same text sent as a
 * string.
 */
function readText(value: unknown): string {
  if (typeof value === 'string') return value;
  const { text, type, ...rest } = asObject(value);
  if (typeof text === 'string' && Object.keys(rest).length === 0) return text;
  return JSON.stringify(value) ?? '';
}

function newPart(place: PromptPlace, name: string, text: string, label = ''): PromptPart {
  return { place, name, label, text, is_cache_point: false, ttl: null };
}

function markCachePoint(part: PromptPart, mark: unknown): void {
  part.is_cache_point = true;
  part.ttl = asText(asObject(mark).ttl);
}

/** Joins each block that contains only a cache point with the previous part, which it marks. */
function joinCachePoints(parts: PromptPart[]): PromptPart[] {
  const joined: PromptPart[] = [];
  for (const part of parts) {
    const before = joined.at(-1);
    if (part.text === '' && part.is_cache_point && before !== undefined) {
      before.is_cache_point = true;
      before.ttl = part.ttl;
    } else joined.push(part);
  }
  return joined;
}
