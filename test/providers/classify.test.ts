/** Recognizing model turns by method and path. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { classifyRequest } from '../../src/providers/classify.ts';

const turn = (shape: string) => ({ kind: 'turn', shape });
const other = { kind: 'other', shape: null };

describe('classifyRequest', () => {
  it.each([
    ['default', '/v1/messages', 'messages'],
    ['default', '/api/v1/messages', 'messages'],
    ['default', '/messages', 'messages'],
    ['default', '/v1/chat/completions', 'chat_completions'],
    ['default', '/openai/deployments/gpt-4o/chat/completions', 'chat_completions'],
    ['default', '/v1/responses', 'responses'],
    ['named', '/openai/responses', 'responses'],
    ['named', '/v1/projects/p/locations/l/publishers/google/models/gemini-3:generateContent', 'gemini'],
    ['named', '/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:rawPredict', 'messages'],
    ['named', '/v1/projects/p/locations/l/publishers/anthropic/models/c%40x:streamRawPredict', 'messages'],
    ['named', '/v1/projects/p/locations/l/endpoints/openapi/chat/completions', 'chat_completions'],
    ['named', '/model/anthropic.claude/converse-stream', 'bedrock_converse'],
    ['default', '/v1/complete', 'completion'],
    ['default', '/v1/completions', 'completion'],
    ['default', '/v1beta/models/gemini-3:generateContent', 'gemini'],
    ['gemini', '/v1beta/models/gemini-3-pro:generateContent', 'gemini'],
    ['gemini', '/v1/models/gemini-3-pro:streamGenerateContent', 'gemini'],
    ['gemini', '/v1beta/tunedModels/my-model:generateContent', 'gemini'],
    ['gemini', '/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent', 'gemini'],
    ['gemini', '/v1beta/models/gemini-3%3AgenerateContent', 'gemini'],
    ['gemini', '/v1beta/models/gemini-3%3astreamGenerateContent', 'gemini'],
    ['gemini', '/v1beta/openai/chat/completions', 'chat_completions'],
    ['bedrock', '/model/anthropic.claude-3-haiku-20240307-v1%3A0/invoke', 'bedrock_invoke'],
    [
      'bedrock',
      '/model/anthropic.claude-3-haiku-20240307-v1:0/invoke-with-response-stream',
      'bedrock_invoke',
    ],
    ['bedrock', '/model/us.amazon.nova-micro-v1%3A0/converse', 'bedrock_converse'],
    [
      'bedrock',
      '/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.x/converse-stream',
      'bedrock_converse',
    ],
    [
      'bedrock',
      '/model/arn:aws:bedrock:us-east-1:1:inference-profile/us.x/converse-stream',
      'bedrock_converse',
    ],
    ['bedrock', '/openai/v1/chat/completions', 'chat_completions'],
  ] as const)('%s POST %s is a %s turn', (route, path, shape) => {
    expect(classifyRequest(route, 'POST', path)).toEqual(turn(shape));
    expect(classifyRequest(route, 'post', path)).toEqual(turn(shape));
    expect(classifyRequest(route, 'GET', path)).toEqual(other);
  });

  it.each([
    ['default', '/v1/messages/count_tokens'],
    ['default', '/v1/messages/batches'],
    ['default', '/v1/messages/'],
    ['default', '/v1/threads/t/messages'],
    ['default', '/v2/messages'],
    ['default', '/v1/responses/resp_1'],
    ['default', '/v1/responses/resp_1/cancel'],
    ['default', '/v1/responses/input_tokens'],
    ['named', '/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict'],
    ['default', '/v1/embeddings'],
    ['default', '/v1/chat/completions/chatcmpl-1'],
    ['default', '/model/x/invoke'],
    ['default', '/'],
    ['default', ''],
    ['gemini', '/v1beta/models/g:countTokens'],
    ['gemini', '/v1beta/models/g:embedContent'],
    ['gemini', '/v1beta/models/g:batchEmbedContents'],
    ['gemini', '/v1beta/models/g:batchGenerateContent'],
    ['gemini', '/v1beta/models/g:predict'],
    ['gemini', '/v1beta/models/g:predictLongRunning'],
    ['gemini', '/v1beta/models/generateContent'],
    ['gemini', 'generateContent'],
    ['gemini', ':generateContent'],
    ['bedrock', '/model/x/count-tokens'],
    ['bedrock', '/model/x/invoke-with-bidirectional-stream'],
    ['bedrock', '/model//invoke'],
    ['bedrock', '/model/invoke'],
    ['bedrock', '/async-invoke'],
    ['bedrock', '/guardrail/x/version/1/apply'],
  ] as const)('%s POST %s is no turn', (route, path) => {
    expect(classifyRequest(route, 'POST', path)).toEqual(other);
  });

  it('treats InvokeModel of an embedding model as no turn, but as readable', () => {
    for (const model of [
      'amazon.titan-embed-text-v2%3A0',
      'cohere.embed-english-v3',
      'us.twelvelabs.marengo-embed-2-7',
    ]) {
      expect(classifyRequest('bedrock', 'POST', `/model/${model}/invoke`)).toEqual({
        kind: 'other',
        shape: 'bedrock_invoke',
      });
    }
  });

  it('accepts any string without throwing', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('default', 'gemini', 'bedrock', 'named'),
        fc.string(),
        fc.string(),
        (route, method, path) => {
          expect(classifyRequest(route, method, path).kind).toMatch(/^(turn|other)$/);
        },
      ),
    );
  });
});
