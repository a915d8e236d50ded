/**
 * The Messages API as a wire: reads its requests, and writes a student's answer as the API would have sent it, as one
 * JSON body or as all events of a stream in one burst. Pure except for random ids; teaching and the student's thread.
 *
 * Names, order and content of the events follow Anthropic's API reference, "Streaming messages"; `ping` comes where the
 * API sends its first `ping`.
 */

import { asArray } from '../../providers/json-reading.ts';
import { readNormalMessages } from '../../providers/messages/request.ts';
import type { StudentAnswer } from '../model/decision.ts';
import { readMessagesSettings } from '../model/step-extras.ts';
import { endsWithUser, findBreaches } from './request-rules.ts';
import { cutText, drawId, type Wire, type WireAnswer } from './wire.ts';

const ID_CHARACTERS = 22;

export const messagesWire: Wire = {
  name: 'messages',
  result_id_key: 'tool_use_id',
  readRequest: readNormalMessages,
  findBreaches: (body, { api_version }) => findBreaches(body, api_version),
  readSettings: readMessagesSettings,
  // The student must not answer, because the next request would then refer to an answer that the provider does not
  // know.
  findUnsupported: ({ thread }) => (thread == null ? '' : 'asks the provider to keep the conversation'),
  endsWithUser,
  stopWords: ({ stop_sequences: stops }) => asArray(stops).filter((stop) => typeof stop === 'string'),
  callable: () => null,
  writeAnswer: (answer, { model, stream }) => writeAnswer(answer, String(model), stream === true),
};

type WireBlock =
  | { type: 'text'; text: string }
  | { type: 'tool_use'; id: string; name: string; input: unknown };

/**
 * Writes an answer as the API would have sent it.
 * @param model the name that the client used
 * @param isStream whether to write events instead of JSON
 */
function writeAnswer(answer: StudentAnswer, model: string, isStream: boolean): WireAnswer {
  const callIds: string[] = [];
  const content = answer.content.map((block): WireBlock => {
    if (block.type === 'text') return { type: 'text', text: block.text };
    const id = drawId('toolu_01', ID_CHARACTERS);
    callIds.push(id);
    return { type: 'tool_use', id, name: block.name, input: block.input };
  });
  const message = {
    id: drawId('msg_01', ID_CHARACTERS),
    type: 'message',
    role: 'assistant',
    model,
    content,
    stop_reason: answer.stop_reason,
    stop_sequence: null,
    usage: usageOf(answer, answer.output_tokens),
  };
  const text = isStream ? writeEvents(message, answer) : JSON.stringify(message);
  return {
    body: new TextEncoder().encode(text),
    request_id: drawId('req_01', ID_CHARACTERS),
    call_ids: callIds,
  };
}

/** Writes the usage of an answer. @param outputTokens output tokens that were sent so far */
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
    // The API sends an empty first delta for a call.
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
