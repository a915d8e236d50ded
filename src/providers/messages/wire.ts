/** The Messages wire (`POST /v1/messages`), of Anthropic and compatible servers. Pure; any thread. */

import { asObject } from '../json-reading.ts';
import { findSideCall } from '../side-call.ts';
import { endsVersioned, endsWithVerb, type Wire } from '../wire.ts';
import { MessagesAnswerReader } from './answer.ts';
import { readNormalMessages } from './request.ts';

export const messages: Wire<'messages'> = {
  shape: 'messages',
  paths: {
    routes: 'all',
    tell: (path) => (endsVersioned(path, '/v1/messages', '/messages') || isRawPredict(path) ? 'turn' : null),
    examples: ['/v1/messages', '/api/v1/messages'],
  },
  asks: (body) => Array.isArray(body.messages),
  answers: ({ type }) => type === 'message' || type === 'message_start',
  readRequest: (body, reading) => ({
    normal: readNormalMessages(body, reading),
    is_kept: typeof asObject(asObject(body).thread).type === 'string',
    kept_in: null,
    embeds: false,
  }),
  startAnswer: (reading) => new MessagesAnswerReader(reading),
  stops: {
    end_turn: 'end_turn',
    tool_use: 'tool_use',
    stop_sequence: 'stop_sequence',
    max_tokens: 'max_tokens',
    refusal: 'refusal',
    pause_turn: 'pause_turn',
    model_context_window_exceeded: 'max_tokens',
    // Servers that translate chat-completions into Messages forward the stop words of chat-completions.
    stop: 'end_turn',
    eos: 'end_turn',
    tool_calls: 'tool_use',
    length: 'max_tokens',
    content_filter: 'refusal',
    error: 'error',
  },
  usage: { includes_cache: false },
  prompt: {
    caching: 'marked',
    tools: ['tools'],
    system: ['system'],
    messages: ['messages'],
    blocks: 'content',
    settings: ['tool_choice', 'thinking'],
    kept_by: null,
  },
  has_call_ids: true,
  span_operation: 'chat',
  findSideCall,
  can_be_golden: true,
  served: { step_path: '/v1/messages', maker: 'anthropic', beta_header: 'anthropic-beta' },
};

/**
 * Whether the path is that of Claude on Vertex AI, `…/publishers/anthropic/models/{model}:rawPredict`: a Messages body
 * with the model in the path.
 */
function isRawPredict(path: string): boolean {
  if (!endsWithVerb(path, 'rawPredict') && !endsWithVerb(path, 'streamRawPredict')) return false;
  return path.includes('/publishers/anthropic/models/');
}
