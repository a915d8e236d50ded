/** The responses wire (`POST /v1/responses`). Pure; any thread. */

import { asObject, asText } from '../json-reading.ts';
import { findSideCall } from '../side-call.ts';
import { endsVersioned, type Wire } from '../wire.ts';
import { ResponsesAnswerReader } from './answer.ts';
import { listToolsIn, readNormalResponses } from './request.ts';

export const responses: Wire<'responses'> = {
  shape: 'responses',
  paths: {
    routes: 'all',
    // Azure OpenAI has its own prefix, without a version.
    tell: (path) =>
      endsVersioned(path, '/v1/responses', '/responses') || path === '/openai/responses' ? 'turn' : null,
    examples: ['/v1/responses', '/openai/v1/responses'],
  },
  asks: ({ input }) => Array.isArray(input) || typeof input === 'string',
  answers: ({ object, type }) => object === 'response' || (asText(type)?.startsWith('response.') ?? false),
  readRequest: (value, reading) => {
    const { conversation } = asObject(value);
    return {
      normal: readNormalResponses(value, reading),
      is_kept: true,
      kept_in: asText(conversation) ?? asText(asObject(conversation).id),
      embeds: false,
    };
  },
  startAnswer: (reading) => new ResponsesAnswerReader(reading),
  stops: {
    completed: 'end_turn',
    max_output_tokens: 'max_tokens',
    content_filter: 'refusal',
    failed: 'error',
    cancelled: 'error',
    // Servers other than OpenAI's: Hugging Face's router, and those that translate from chat-completions.
    complete: 'end_turn',
    stop: 'end_turn',
    length: 'max_tokens',
  },
  usage: { includes_cache: true },
  prompt: {
    caching: 'automatic',
    tools: ['tools'],
    system: ['instructions'],
    messages: ['input'],
    blocks: 'content',
    toolsIn: listToolsIn,
    settings: ['text.format'],
    kept_by: 'previous_response_id',
  },
  has_call_ids: true,
  span_operation: 'chat',
  findSideCall,
  can_be_golden: true,
  served: { step_path: '/v1/responses', maker: 'openai', beta_header: 'openai-beta' },
};
