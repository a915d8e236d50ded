/**
 * Reads the calls of a v2 trace as steps. Each tool call of the model is a step; its observation is the tool result in
 * a later request. An answer without tool calls is a step `respond`; its observation is what the user said next. Reads
 * the messages format and the chat-completions format, and makes no assumptions about the JSON. Pure; server threads
 * and the command line.
 */

import { stripClientWords } from '../client-words.ts';
import type { TraceStep } from '../trace-step.ts';
import { renderJson } from './text.ts';

/** A call record of a v2 trace. Its own fields are validated, but not the contents of its request and response. */
export interface TraceCall {
  seq: number;
  model: string;
  request: unknown;
  response: unknown;
  is_error: boolean;
}

type JsonObject = Record<string, unknown>;

/** One piece of a message. */
type Piece =
  | { type: 'text' | 'thinking'; text: string }
  | { type: 'call'; id: string; name: string; input: string }
  | { type: 'result'; id: string; is_error: boolean; text: string };

type Role = 'system' | 'user' | 'assistant';

/** Maximum characters taken from a message; later code decides which of them are kept. */
const PIECE_CHARACTERS = 256 * 1024;
/** Maximum number of pieces of one message. */
const PIECES = 4_096;

/**
 * Reads calls as steps.
 * @param most maximum number of steps; of a longer trace, the first and the last steps are kept
 * @returns the steps, the task (the user's first words) and the first model that answered
 */
export function readCalls(
  calls: readonly TraceCall[],
  most: number,
): { task: string; model: string; steps: TraceStep[] } {
  const reader = new ConversationReader();
  let model = '';
  const inOrder = [...calls].sort((a, b) => a.seq - b.seq);
  for (const call of inOrder) {
    const response = asObject(call.response);
    model ||= call.model || asText(response.model) || asText(asObject(call.request).model);
    reader.readRequest(call.request);
    // A provider's error says nothing about the agent: either the call is repeated or the run ends. An answer that the
    // harness marks as a failure is a failed step.
    if (!isErrorAnswer(response)) reader.readAnswer(call.response, call.is_error);
  }
  const { steps, task } = reader;
  if (steps.length > most) {
    const half = Math.floor(most / 2);
    steps.splice(half, steps.length - most);
  }
  steps.forEach((step, at) => {
    step.step_index = at;
  });
  return { task, model, steps };
}

class ConversationReader {
  readonly steps: TraceStep[] = [];
  task = '';
  /** Steps without a result yet, by the id of the call. */
  readonly #pending = new Map<string, TraceStep>();
  #last: TraceStep | null = null;
  #started = false;

  /**
   * Reads the first request whole, because it may contain an earlier conversation. Of a later request, reads only the
   * messages after the last answer; all if it contains no answer.
   */
  readRequest(request: unknown): void {
    const messages = asArray(asObject(request).messages);
    let from = 0;
    if (this.#started) {
      from = messages.length;
      while (from > 0 && readRole(asObject(messages[from - 1]).role) !== 'assistant') from--;
    }
    this.#started = true;
    for (let at = from; at < messages.length; at++) {
      const message = asObject(messages[at]);
      this.#readMessage(readRole(message.role), readPieces(message));
    }
  }

  /**
   * Reads an answer.
   * @param isError whether the steps of this answer failed, whatever their results say
   */
  readAnswer(response: unknown, isError: boolean): void {
    const before = this.steps.length;
    this.#readAnswer(response);
    if (isError) for (const step of this.steps.slice(before)) step.is_error = true;
  }

  #readAnswer(response: unknown): void {
    if (typeof response === 'string') {
      this.#readMessage('assistant', [{ type: 'text', text: response }]);
      return;
    }
    const body = asObject(response);
    const choice = asArray(body.choices)[0];
    const message = choice === undefined ? body : asObject(asObject(choice).message);
    this.#readMessage('assistant', readPieces(message));
  }

  #readMessage(role: Role, pieces: readonly Piece[]): void {
    if (role === 'system') return;
    if (role === 'assistant') {
      this.#addAnswer(pieces);
      return;
    }
    const said: string[] = [];
    for (const piece of pieces) {
      if (piece.type === 'result') this.#settle(piece);
      else if (piece.type === 'text') said.push(piece.text);
    }
    const words = stripClientWords(said.join('\n'));
    if (words === '') return;
    if (this.task === '') this.task = words;
    else if (this.#last?.action === 'respond' && this.#last.observation === '')
      this.#last.observation = words;
  }

  #addAnswer(pieces: readonly Piece[]): void {
    const texts: string[] = [];
    const thoughts: string[] = [];
    const calls: Extract<Piece, { type: 'call' }>[] = [];
    for (const piece of pieces) {
      if (piece.type === 'text') texts.push(piece.text);
      else if (piece.type === 'thinking') thoughts.push(piece.text);
      else if (piece.type === 'call') calls.push(piece);
    }
    const text = texts.join('\n').trim();
    const thinking = thoughts.join('\n').trim();
    if (calls.length === 0) {
      if (text !== '') this.#push('respond', text, thinking);
      return;
    }
    // The text beside a call is shorter and clearer than the model's reasoning.
    let thought = text || thinking;
    for (const call of calls) {
      const step = this.#push(call.name || 'tool', call.input, thought);
      thought = '';
      if (call.id !== '') this.#pending.set(call.id, step);
    }
  }

  #push(action: string, input: string, thought: string): TraceStep {
    const step: TraceStep = {
      step_index: 0,
      thought,
      action,
      action_input: input,
      observation: '',
      is_error: false,
      tokens: 0,
    };
    this.steps.push(step);
    this.#last = step;
    return step;
  }

  #settle(result: Extract<Piece, { type: 'result' }>): void {
    const step = this.#pending.get(result.id) ?? (result.id === '' ? this.#last : undefined);
    if (step === undefined || step === null) return;
    this.#pending.delete(result.id);
    step.observation = result.text;
    step.is_error ||= result.is_error;
  }
}

function readPieces(message: JsonObject): Piece[] {
  const pieces: Piece[] = [];
  const role = asText(message.role);
  if (role === 'tool' || role === 'function') {
    const text = readText(message.content);
    return [{ type: 'result', id: asText(message.tool_call_id), is_error: false, text }];
  }
  const reasoning = asText(message.reasoning_content) || asText(message.reasoning);
  if (reasoning !== '') pieces.push({ type: 'thinking', text: reasoning });
  if (typeof message.content === 'string') pieces.push({ type: 'text', text: cap(message.content) });
  for (const item of asArray(message.content).slice(0, PIECES)) {
    if (typeof item === 'string') {
      pieces.push({ type: 'text', text: cap(item) });
      continue;
    }
    const block = asObject(item);
    const type = asText(block.type);
    if (type === 'text' || type === 'input_text' || type === 'output_text')
      pieces.push({ type: 'text', text: asText(block.text) });
    else if (type === 'thinking') pieces.push({ type: 'thinking', text: asText(block.thinking) });
    else if (type === 'tool_use') {
      const input = renderInput(block.input);
      pieces.push({ type: 'call', id: asText(block.id), name: asText(block.name), input });
    } else if (type === 'tool_result') {
      pieces.push({
        type: 'result',
        id: asText(block.tool_use_id),
        is_error: block.is_error === true,
        text: readText(block.content),
      });
    }
  }
  for (const item of asArray(message.tool_calls).slice(0, PIECES)) {
    const call = asObject(item);
    const body = asObject(call.function ?? call.custom);
    const input = renderInput(body.arguments ?? body.input);
    pieces.push({ type: 'call', id: asText(call.id), name: asText(body.name), input });
  }
  const single = asObject(message.function_call);
  if (typeof single.name === 'string') {
    pieces.push({ type: 'call', id: '', name: single.name, input: renderInput(single.arguments) });
  }
  return pieces;
}

/** Writes arguments as text; a text is kept as received, a missing value is ''. */
function renderInput(value: unknown): string {
  if (typeof value === 'string') return cap(value);
  return value === undefined || value === null ? '' : renderJson(value, PIECE_CHARACTERS);
}

/** Reads the text of a result: a string, the texts of its blocks, or any other value as JSON. */
function readText(content: unknown): string {
  if (typeof content === 'string') return cap(content);
  if (Array.isArray(content)) {
    const texts: string[] = [];
    for (const item of content.slice(0, PIECES)) {
      if (typeof item === 'string') texts.push(cap(item));
      else if (typeof asObject(item).text === 'string') texts.push(asText(asObject(item).text));
    }
    return cap(texts.join('\n'));
  }
  return content === undefined || content === null ? '' : renderJson(content, PIECE_CHARACTERS);
}

function isErrorAnswer(response: JsonObject): boolean {
  return response.type === 'error' || (typeof response.error === 'object' && response.error !== null);
}

function readRole(role: unknown): Role {
  if (role === 'assistant' || role === 'model') return 'assistant';
  return role === 'system' || role === 'developer' ? 'system' : 'user';
}

function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function asText(value: unknown): string {
  return typeof value === 'string' ? cap(value) : '';
}

/** Shortens a text that is longer than PIECE_CHARACTERS to its beginning and its end. */
function cap(text: string): string {
  if (text.length <= PIECE_CHARACTERS) return text;
  const half = PIECE_CHARACTERS / 2;
  return `${text.slice(0, half)}\n${text.slice(-half)}`;
}
