/**
 * The Gemini wire (`…:generateContent`, `…:streamGenerateContent`). The model is taken from the path. Pure; any thread.
 */

import { findSideCall } from '../side-call.ts';
import { endsWithVerb, plainRequest, type Wire } from '../wire.ts';
import { GeminiAnswerReader } from './answer.ts';
import { readNormalGemini } from './request.ts';

export const gemini: Wire<'gemini'> = {
  shape: 'gemini',
  paths: {
    routes: 'all',
    tell: (path) =>
      endsWithVerb(path, 'generateContent') || endsWithVerb(path, 'streamGenerateContent') ? 'turn' : null,
    examples: ['/v1beta/models/m:generateContent', '/v1beta/models/m:streamGenerateContent'],
  },
  asks: (body) => Array.isArray(body.contents),
  answers: (first) => Array.isArray(first.candidates),
  readRequest: (body, reading, path) => plainRequest(readNormalGemini(body, reading, path)),
  startAnswer: (reading, path, headers) => new GeminiAnswerReader(reading, path, headers),
  stops: {
    stop: 'end_turn',
    max_tokens: 'max_tokens',
    safety: 'refusal',
    recitation: 'refusal',
    language: 'refusal',
    blocklist: 'refusal',
    prohibited_content: 'refusal',
    spii: 'refusal',
    image_safety: 'refusal',
    image_prohibited_content: 'refusal',
    image_recitation: 'refusal',
    model_armor: 'refusal',
    jailbreak: 'refusal',
    malformed_function_call: 'error',
    unexpected_tool_call: 'error',
    too_many_tool_calls: 'error',
    missing_thought_signature: 'error',
    malformed_response: 'error',
  },
  usage: { includes_cache: true },
  prompt: {
    caching: 'automatic',
    tools: ['tools'],
    system: ['systemInstruction', 'system_instruction'],
    messages: ['contents'],
    blocks: 'parts',
    settings: [],
    kept_by: 'cachedContent',
  },
  // Older models give no ids.
  has_call_ids: false,
  span_operation: 'generate_content',
  findSideCall,
  can_be_golden: false,
  served: null,
};
