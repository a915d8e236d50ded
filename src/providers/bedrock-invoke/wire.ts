/**
 * Bedrock's InvokeModel and InvokeModelWithResponseStream: the path is Bedrock's, the bodies are those of the model's
 * maker. Embeddings use the same path and are not turns. Pure; any thread.
 */

import { bedrockConverse, isModelVerb } from '../bedrock-converse/wire.ts';
import { chatCompletions } from '../chat-completions/wire.ts';
import { messages } from '../messages/wire.ts';
import { findSideCall } from '../side-call.ts';
import type { Wire } from '../wire.ts';
import { InvokeAnswerReader } from './answer.ts';
import { readInvokeRequest } from './request.ts';

export const bedrockInvoke: Wire<'bedrock_invoke'> = {
  shape: 'bedrock_invoke',
  paths: {
    routes: 'bedrock',
    tell: (path) => {
      if (!isModelVerb(path)) return null;
      if (!path.endsWith('/invoke') && !path.endsWith('/invoke-with-response-stream')) return null;
      return path.includes('embed', path.indexOf('/model/')) ? 'other' : 'turn';
    },
    examples: ['/model/m/invoke', '/model/m/invoke-with-response-stream'],
  },
  asks: (body) => Array.isArray(body.messages),
  answers: () => true,
  readRequest: readInvokeRequest,
  startAnswer: (reading, path, headers) => new InvokeAnswerReader(reading, path, headers),
  stops: {
    ...chatCompletions.stops,
    ...bedrockConverse.stops,
    ...messages.stops,
    // Titan, Cohere and Jurassic.
    finish: 'end_turn',
    complete: 'end_turn',
    endoftext: 'end_turn',
    content_filtered: 'refusal',
    error_toxic: 'refusal',
    error_limit: 'max_tokens',
  },
  usage: { includes_cache: false },
  prompt: { ...messages.prompt, tools: ['tools', 'toolConfig.tools'] },
  has_call_ids: true,
  span_operation: 'chat',
  findSideCall,
  can_be_golden: false,
  served: null,
};
