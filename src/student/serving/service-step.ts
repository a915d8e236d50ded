/**
 * A step in the form from which a request to the service behind a student is made. The service has one of two request
 * formats: Messages or chat-completions. The step consists of the normal form and some harmless settings. Every other
 * field is dropped, because a client may have put a credential or a setting for its provider there. A step that cannot
 * be translated faithfully is refused.
 * Pure; the round's own thread and the student's.
 *
 * Settings for a provider's own model or cache (effort, thinking, tiers, verbosity) are dropped. Tools that a provider
 * runs or that are not functions are dropped too, as long as the conversation has called none of them. All of these are
 * part of the agent's identity, and the service is measured on that agent without them.
 */

import type { NormalRequest, TurnBlock, TurnMessage, TurnTool, TurnToolChoice } from '../../domain/turn.ts';
import { roundedNumber } from '../../std/exact-json.ts';
import type { CallForms } from '../model/decision.ts';
import type { AskedOn } from './answer-check.ts';
import { isPlainObject, joinSystem, type PlainBlock, type PlainMessage } from './plain-conversation.ts';

/** A request to a service, independent of the wire. */
export interface ServiceStep {
  system: string;
  messages: PlainMessage[];
  /** The tools; all are functions that the client runs. */
  tools: readonly TurnTool[];
  choice: TurnToolChoice | null;
  /** null: the client does not set it. */
  max_tokens: number | null;
  stops: string[];
  /** null: the client does not set it. */
  temperature: number | null;
  top_p: number | null;
  /** Sampling among the k most likely tokens, which chat-completions cannot express. */
  top_k: number | null;
  /** Only in chat-completions; Messages cannot express it. */
  frequency_penalty: number | null;
  presence_penalty: number | null;
  seed: number | null;
}

/** A step that cannot be translated for the service without loss. */
export class UntranslatableStep extends Error {}

/** A step as received, and in normal form. */
export interface ReadRequest extends AskedOn {
  request: NormalRequest;
}

/** Image types that both request formats of a service accept. */
const IMAGE_TYPES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/**
 * Reads a step for a service.
 * @throws UntranslatableStep
 */
export function readServiceStep({ wire, body, request }: ReadRequest): ServiceStep {
  if (request.response_schema !== null) refuse('a schema for the answer');
  if (request.previous_answer_id !== null) refuse('a conversation that the provider keeps');
  // `logit_bias` refers to the tokens of one model.
  if (isPlainObject(body.logit_bias) && Object.keys(body.logit_bias).length > 0) refuse('logit_bias');
  const tools = takeFunctions(request.tools, wire.callable(body));
  for (const block of request.system)
    if (!isText(block) && !isLeftOut(block)) refuse('a system of more than text');
  const messages = request.messages.map(readMessage);
  checkResults(messages);
  checkCalls(messages, request.tools, tools);
  return {
    system: joinSystem(request.system),
    messages,
    tools,
    choice: readChoice(request, tools),
    max_tokens: request.max_output_tokens,
    stops: wire.stopWords(body),
    temperature: asNumber(body.temperature),
    top_p: asNumber(body.top_p),
    top_k: asNumber(body.top_k),
    frequency_penalty: asNumber(body.frequency_penalty),
    presence_penalty: asNumber(body.presence_penalty),
    seed: asNumber(body.seed),
  };
}

/** The tools that the client runs and that an answer can call by their name alone. */
function takeFunctions(tools: readonly TurnTool[], callable: CallForms): TurnTool[] {
  const taken = tools.filter(
    ({ kind, name, settings }) =>
      kind === 'function' &&
      (callable === null || callable.get(name) === 'arguments') &&
      !(isPlainObject(settings) && settings.namespace !== undefined),
  );
  if (taken.length === 0 && tools.length > 0) refuse('no tool that is a function');
  return taken;
}

/** Checks that the service gets the definition of every tool that the conversation has called. */
function checkCalls(
  messages: readonly PlainMessage[],
  tools: readonly TurnTool[],
  taken: readonly TurnTool[],
): void {
  if (taken.length === tools.length) return;
  const told = new Set(taken.map(({ name }) => name));
  const all = new Set(tools.map(({ name }) => name));
  for (const { content } of messages)
    for (const block of content)
      if (block.type === 'tool_call' && all.has(block.name) && !told.has(block.name))
        refuse('a call of a tool that is no function');
}

function refuse(what: string): never {
  throw new UntranslatableStep(what);
}

function asNumber(value: unknown): number | null {
  return roundedNumber(value);
}

function isText(block: TurnBlock): block is Extract<TurnBlock, { type: 'text' }> {
  return block.type === 'text';
}

/** Whether a block is left out: thinking and cache markers are meaningful only to one provider. */
function isLeftOut({ type }: TurnBlock): boolean {
  return type === 'thinking' || type === 'cache_point';
}

function readMessage({ role, content }: TurnMessage): PlainMessage {
  const blocks = content.flatMap(readBlock);
  if (blocks.length === 0) refuse('a message that would be empty');
  return { role: role === 'tool' ? 'user' : role, content: blocks };
}

function readBlock(block: TurnBlock): PlainBlock[] {
  switch (block.type) {
    case 'text':
      return block.text === '' ? [] : [block];
    case 'tool_call':
      if (!isPlainObject(block.input)) refuse('a call whose input is no object');
      return [block];
    case 'tool_result':
      if (block.call_id === null) refuse('a result of no call');
      return [{ ...block, content: block.content.flatMap(readBlock) }];
    case 'media':
      checkImage(block);
      return [block];
    case 'thinking':
    case 'cache_point':
      return [];
    default:
      return refuse(`a block of type ${nameBlock(block)}`);
  }
}

/** The block's name for a message, made safe because a client may have invented it. */
function nameBlock(block: Extract<TurnBlock, { type: 'other' | 'refusal' }>): string {
  return block.type === 'other' ? block.name.slice(0, 40).replaceAll(/[^\w.-]/g, '?') : block.type;
}

function checkImage({ kind, media_type, source }: Extract<TurnBlock, { type: 'media' }>): void {
  const isKnown = source === 'url' || (source === 'base64' && IMAGE_TYPES.has(media_type ?? ''));
  if (kind !== 'image' || !isKnown) refuse('media other than images');
}

function readChoice(
  { tool_choice: choice }: NormalRequest,
  tools: readonly TurnTool[],
): TurnToolChoice | null {
  if (choice === null) return null;
  if (choice.mode === 'validated') refuse('a choice of tools');
  if (choice.mode !== 'tool' && choice.names.length > 0) refuse('a choice among some tools');
  if (choice.mode === 'tool' && !tools.some(({ name }) => name === choice.names[0]))
    refuse('a choice of a tool that is no function');
  return choice;
}

/**
 * Checks that the results of an answer's calls follow it directly, each once, as both request formats of a service
 * require.
 */
function checkResults(messages: readonly PlainMessage[]): void {
  const waiting = new Set<string | null>();
  for (const { role, content } of messages) {
    if (role === 'assistant' && waiting.size > 0) refuse('a call without its result');
    for (const block of content) {
      if (block.type === 'tool_result' && !waiting.delete(block.call_id)) refuse('a result of no call');
      if (block.type !== 'tool_call') continue;
      if (role !== 'assistant' || waiting.has(block.id)) refuse('an invalid call');
      waiting.add(block.id);
    }
    const saysMore = role !== 'assistant' && content.some(({ type }) => type !== 'tool_result');
    if (saysMore && waiting.size > 0) refuse('a call without its result');
  }
  if (waiting.size > 0) refuse('a call without its result');
}
