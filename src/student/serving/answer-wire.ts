/**
 * A student's answer as the Messages API would have sent it: one JSON body, or all events of a stream in one burst. Pure
 * but for the ids, which are drawn at random; the student's thread.
 *
 * The names and the order of events, and what stands in each, are those of Anthropic's API reference, "Streaming
 * messages"; `ping` comes where the API itself sends it first.
 */

import { randomBytes } from 'node:crypto';
import type { StudentAnswer } from '../model/decision.ts';

/** An answer on the wire, and the ids that it gave. */
export interface WireAnswer {
  body: Uint8Array<ArrayBuffer>;
  request_id: string;
  /** Of its tool calls, in order. */
  call_ids: string[];
}

/** Characters of one delta; the API's are shorter, a client's line buffer may not take much longer ones. */
const DELTA_CHARACTERS = 4_096;
const ALPHABET = '0123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const ID_CHARACTERS = 22;

type WireBlock =
  | { type: 'text'; text: string }
  | { type: 'tool_use'; id: string; name: string; input: unknown };

/**
 * @param model as the client asked for it
 * @param isStream events, not JSON
 */
export function writeAnswer(answer: StudentAnswer, model: string, isStream: boolean): WireAnswer {
  const callIds: string[] = [];
  const content = answer.content.map((block): WireBlock => {
    if (block.type === 'text') return { type: 'text', text: block.text };
    const id = drawId('toolu_');
    callIds.push(id);
    return { type: 'tool_use', id, name: block.name, input: block.input };
  });
  const message = {
    id: drawId('msg_'),
    type: 'message',
    role: 'assistant',
    model,
    content,
    stop_reason: answer.stop_reason,
    stop_sequence: null,
    usage: usageOf(answer, answer.output_tokens),
  };
  const text = isStream ? writeEvents(message, answer) : JSON.stringify(message);
  return { body: new TextEncoder().encode(text), request_id: drawId('req_'), call_ids: callIds };
}

/** @param outputTokens as far as the answer has come */
function usageOf(answer: StudentAnswer, outputTokens: number) {
  return {
    input_tokens: Math.round(answer.input_tokens),
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: Math.round(outputTokens),
  };
}

function writeEvents(
  message: { content: WireBlock[]; stop_reason: string; stop_sequence: null },
  answer: StudentAnswer,
): string {
  const start = { ...message, content: [], stop_reason: null, usage: usageOf(answer, 1) };
  let text = writeEvent('message_start', { message: start });
  message.content.forEach((block, index) => {
    const isText = block.type === 'text';
    const opened = isText ? { type: 'text', text: '' } : { ...block, input: {} };
    text += writeEvent('content_block_start', { index, content_block: opened });
    if (index === 0) text += writeEvent('ping', {});
    const pieces = cutText(isText ? block.text : JSON.stringify(block.input));
    // A call's first delta is empty, as the API has it.
    if (!isText) pieces.unshift('');
    for (const piece of pieces) {
      const delta = isText
        ? { type: 'text_delta', text: piece }
        : { type: 'input_json_delta', partial_json: piece };
      text += writeEvent('content_block_delta', { index, delta });
    }
    text += writeEvent('content_block_stop', { index });
  });
  text += writeEvent('message_delta', {
    delta: { stop_reason: message.stop_reason, stop_sequence: null },
    usage: usageOf(answer, answer.output_tokens),
  });
  return text + writeEvent('message_stop', {});
}

function writeEvent(name: string, fields: object): string {
  return `event: ${name}\ndata: ${JSON.stringify({ type: name, ...fields })}\n\n`;
}

/** Pieces of a text, none of which ends within a surrogate pair. */
function cutText(text: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + DELTA_CHARACTERS, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last <= 0xdbff) end--;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

/** 128 bits at random in the form of the API's ids. */
function drawId(prefix: string): string {
  let id = `${prefix}01`;
  for (const byte of randomBytes(ID_CHARACTERS)) id += ALPHABET[byte % ALPHABET.length];
  return id;
}
