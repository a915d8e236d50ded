/** The chat-completions wire (`POST …/chat/completions`), of OpenAI and compatible servers. Pure; any thread. */

import { asArray, asObject, asText } from '../json-reading.ts';
import { findSideCall } from '../side-call.ts';
import { plainRequest, type Wire } from '../wire.ts';
import { ChatAnswerReader } from './answer.ts';
import { CHAT_STOPS } from './dialects.ts';
import { readNormalChat } from './request.ts';

export const chatCompletions: Wire<'chat_completions'> = {
  shape: 'chat_completions',
  paths: {
    routes: 'all',
    // The ending is unambiguous, so no version is required before it.
    tell: (path) => (path.endsWith('/chat/completions') ? 'turn' : null),
    examples: ['/v1/chat/completions', '/openai/v1/chat/completions'],
  },
  asks: (body) => Array.isArray(body.messages),
  answers: ({ object, choices }) => {
    const [choice] = asArray(choices).map(asObject);
    const isNamed = asText(object)?.startsWith('chat.completion') ?? false;
    return isNamed || choice?.message !== undefined || choice?.delta !== undefined;
  },
  readRequest: (body, reading) => plainRequest(readNormalChat(body, reading)),
  startAnswer: (reading) => new ChatAnswerReader(reading),
  stops: CHAT_STOPS,
  usage: { includes_cache: true },
  prompt: {
    caching: 'automatic',
    tools: ['tools', 'functions'],
    system: [],
    messages: ['messages'],
    blocks: 'content',
    settings: ['response_format'],
    kept_by: null,
  },
  has_call_ids: true,
  span_operation: 'chat',
  findSideCall,
  can_be_golden: true,
  served: { step_path: '/v1/chat/completions', maker: 'openai', beta_header: 'openai-beta' },
};
