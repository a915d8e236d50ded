/**
 * Bedrock's Converse and ConverseStream (`/model/{id}/converse`, `/converse-stream`). The model is taken from the path,
 * percent-decoded. Pure; any thread. Source: the Amazon Bedrock Runtime API reference.
 */

import { findSideCall } from '../side-call.ts';
import { plainRequest, type Wire } from '../wire.ts';
import { ConverseAnswerReader } from './answer.ts';
import { readBedrockModel, readNormalConverse } from './request.ts';

export const bedrockConverse: Wire<'bedrock_converse'> = {
  shape: 'bedrock_converse',
  paths: {
    routes: 'bedrock',
    tell: (path) =>
      isModelVerb(path) && (path.endsWith('/converse') || path.endsWith('/converse-stream')) ? 'turn' : null,
    examples: ['/model/m/converse', '/model/m/converse-stream'],
  },
  asks: (body) => Array.isArray(body.messages),
  answers: (first) =>
    first.messageStart !== undefined || first.output !== undefined || first.role !== undefined,
  readRequest: (body, reading, path) => plainRequest(readNormalConverse(body, reading, path)),
  startAnswer: (reading, path) => new ConverseAnswerReader(reading, readBedrockModel(path)),
  stops: {
    end_turn: 'end_turn',
    tool_use: 'tool_use',
    stop_sequence: 'stop_sequence',
    max_tokens: 'max_tokens',
    model_context_window_exceeded: 'max_tokens',
    guardrail_intervened: 'refusal',
    content_filtered: 'refusal',
    malformed_model_output: 'error',
    malformed_tool_use: 'error',
  },
  usage: { includes_cache: false },
  prompt: {
    caching: 'marked',
    tools: ['toolConfig.tools'],
    system: ['system'],
    messages: ['messages'],
    blocks: 'content',
    settings: ['toolConfig.toolChoice', 'additionalModelRequestFields'],
    kept_by: null,
  },
  has_call_ids: true,
  span_operation: 'chat',
  findSideCall,
  can_be_golden: false,
  served: null,
};

/** Whether a path contains `/model/{id}/verb`. The id is usually percent-encoded, because an ARN contains `:` and `/`. */
export function isModelVerb(path: string): boolean {
  const at = path.indexOf('/model/');
  return at >= 0 && path.lastIndexOf('/') > at + '/model/'.length;
}
