/**
 * The decoders against real provider traffic: every recorded exchange is read, and what we say of it must be what the
 * provider's own SDK makes of the same bytes.
 */
import Anthropic from '@anthropic-ai/sdk';
import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
} from '@aws-sdk/client-bedrock-runtime';
import { GoogleGenAI } from '@google/genai';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { TurnBlock } from '../../src/domain/turn.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { type ReadTurn, readTurn } from '../../src/providers/normal-turn.ts';
import {
  answering,
  haveRecordings,
  header,
  isStream,
  RECORDED_LIBRARIES,
  type Recording,
  readRecordings,
  sumIterations,
} from './recordings.ts';

const textOf = (blocks: TurnBlock[]): string =>
  blocks.map((block) => (block.type === 'text' || block.type === 'refusal' ? block.text : '')).join('');
const callsOf = (blocks: TurnBlock[]): unknown[] =>
  blocks.flatMap((block) =>
    block.type === 'tool_call'
      ? [[block.id.startsWith('order:') ? null : block.id, block.name, block.input]]
      : [],
  );

/** A tool of the responses API that the client runs without having declared a function. */
const isClientTool = (block: TurnBlock): boolean =>
  block.type === 'tool_call' && block.name === 'tool_search';

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

function* turns(shape: string, stream: boolean): Generator<{ recording: Recording; turn: ReadTurn }> {
  for (const file of RECORDED_LIBRARIES) {
    for (const recording of readRecordings(file)) {
      if (
        recording.stored.shape !== shape ||
        recording.stored.status !== 200 ||
        isStream(recording) !== stream
      )
        continue;
      yield { recording, turn: readTurn(recording.stored)! };
    }
  }
}

describe.skipIf(!haveRecordings)('decodeExchange on recorded traffic (../shared/recordings)', () => {
  it('reads every exchange; flags only the one whose recorded request is broken', () => {
    const counts = { turns: 0, others: 0, answered: 0, errors: 0 };
    const flagged: string[] = [];
    for (const file of RECORDED_LIBRARIES) {
      for (const recording of readRecordings(file)) {
        const entry = decodeExchange(recording.stored);
        if (entry.undecodable) flagged.push(`${recording.line.source}: ${entry.reason}`);
        if (recording.kind === 'other') {
          counts.others += 1;
          expect(entry.conversation).toEqual([]);
          continue;
        }
        counts.turns += 1;
        if (recording.stored.status >= 300) {
          counts.errors += 1;
          expect(entry.usage.output_tokens).toBeNull();
          expect(entry.stop_reason).toBeNull();
        } else counts.answered += 1;
        expect(entry.model).not.toBeNull();
      }
    }
    expect(flagged).toHaveLength(1);
    expect(flagged[0]).toContain('test_bedrock_model_other_parameters');
    expect(counts).toEqual({ turns: 2607, others: 160, answered: 2541, errors: 66 });
  });

  it.each([true, false])('Messages as @anthropic-ai/sdk reads them (stream: %s)', async (stream) => {
    let checked = 0;
    for (const { recording, turn } of turns('messages', stream)) {
      const client = new Anthropic({ apiKey: 'none', fetch: answering(recording), maxRetries: 0 });
      const params = { model: 'm', max_tokens: 1, messages: [] };
      const message = stream
        ? await client.messages.stream(params).finalMessage()
        : await client.messages.create(params);
      expect(turn.answer.model).toBe(message.model);
      expect(turn.stop_word).toBe(message.stop_reason);
      expect(turn.told_usage).toMatchObject({
        input_tokens: sumIterations(recording, message.usage, 'input_tokens'),
        output_tokens: sumIterations(recording, message.usage, 'output_tokens'),
        cache_read_tokens: message.usage.cache_read_input_tokens ?? null,
        cache_write_tokens: message.usage.cache_creation_input_tokens ?? null,
      });
      expect(textOf(turn.answer.content)).toBe(
        message.content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
      );
      expect(callsOf(turn.answer.content)).toEqual(
        message.content.flatMap((block) =>
          block.type === 'tool_use' ? [[block.id, block.name, block.input]] : [],
        ),
      );
      checked += 1;
    }
    expect(checked).toBeGreaterThan(100);
  });

  it.each([true, false])('chat completions as openai reads them (stream: %s)', async (stream) => {
    let checked = 0;
    for (const { recording, turn } of turns('chat_completions', stream)) {
      const client = new OpenAI({ apiKey: 'none', fetch: answering(recording), maxRetries: 0 });
      const params = { model: 'm', messages: [] };
      const answer = stream
        ? await client.chat.completions.stream(params).finalChatCompletion()
        : await client.chat.completions.create(params);
      // The SDK's helper forgets the usage when a later chunk has none: for that, its chunks one by one.
      const chunks = stream
        ? await collect(await client.chat.completions.create({ ...params, stream: true }))
        : [];
      const usage = stream ? chunks.findLast((chunk) => chunk.usage)?.usage : answer.usage;
      const choice = answer.choices[0]!;
      expect(turn.answer.model).toBe(answer.model);
      expect(turn.stop_word).toBe(choice.finish_reason);
      expect(turn.told_usage.input_tokens).toBe(usage?.prompt_tokens ?? null);
      expect(turn.told_usage.output_tokens).toBe(usage?.completion_tokens ?? null);
      expect(turn.told_usage.cache_read_tokens).toBe(usage?.prompt_tokens_details?.cached_tokens ?? null);
      expect(textOf(turn.answer.content)).toBe(
        (choice.message.content ?? '') + (choice.message.refusal ?? ''),
      );
      expect(callsOf(turn.answer.content)).toEqual(
        (choice.message.tool_calls ?? []).map((call) => {
          const body =
            call.type === 'function'
              ? call.function
              : { name: call.custom.name, arguments: call.custom.input };
          return [call.id || null, body.name, JSON.parse(body.arguments || '{}')];
        }),
      );
      checked += 1;
    }
    expect(checked).toBeGreaterThan(100);
  });

  it.each([true, false])('responses as openai reads them (stream: %s)', async (stream) => {
    let checked = 0;
    for (const { recording, turn } of turns('responses', stream)) {
      const client = new OpenAI({ apiKey: 'none', fetch: answering(recording), maxRetries: 0 });
      const params = { model: 'm', input: '' };
      const answer = stream
        ? await client.responses.stream(params).finalResponse()
        : await client.responses.create(params);
      expect(turn.answer.id).toBe(answer.id);
      expect(turn.answer.model).toBe(answer.model);
      const ended = answer.status === 'queued' || answer.status === 'in_progress' ? null : answer.status;
      expect(turn.stop_word).toBe(answer.incomplete_details?.reason ?? ended);
      expect(turn.told_usage.input_tokens).toBe(answer.usage?.input_tokens ?? null);
      expect(turn.told_usage.output_tokens).toBe(answer.usage?.output_tokens ?? null);
      expect(turn.told_usage.cache_read_tokens).toBe(
        answer.usage?.input_tokens_details?.cached_tokens ?? null,
      );
      const refusals = answer.output.flatMap((item) => (item.type === 'message' ? item.content : []));
      if (!refusals.some((part) => part.type === 'refusal')) {
        expect(textOf(turn.answer.content)).toBe(answer.output_text);
      }
      const named = callsOf(turn.answer.content.filter((block) => !isClientTool(block)));
      expect(named).toEqual(
        answer.output.flatMap((item) =>
          item.type === 'function_call'
            ? [[item.call_id, item.name, JSON.parse(item.arguments || '{}')]]
            : [],
        ),
      );
      checked += 1;
    }
    expect(checked).toBeGreaterThan(100);
  });

  it.each([true, false])('Gemini as @google/genai reads it (stream: %s)', async (stream) => {
    let checked = 0;
    const realFetch = globalThis.fetch;
    try {
      for (const { recording, turn } of turns('gemini', stream)) {
        globalThis.fetch = answering(recording);
        const client = new GoogleGenAI({ apiKey: 'none' });
        const params = { model: 'm', contents: 'x' };
        const chunks = stream
          ? await collect(await client.models.generateContentStream(params))
          : [await client.models.generateContent(params)];
        const last = chunks.at(-1)!;
        const usage = chunks.findLast((chunk) => chunk.usageMetadata !== undefined)?.usageMetadata;
        const parts = chunks.flatMap((chunk) => chunk.candidates?.[0]?.content?.parts ?? []);
        expect(turn.stop_word).toBe(
          last.candidates?.[0]?.finishReason ?? last.promptFeedback?.blockReason ?? null,
        );
        const prompt = usage?.promptTokenCount;
        expect(turn.told_usage.input_tokens).toBe(
          prompt === undefined ? null : prompt + (usage?.toolUsePromptTokenCount ?? 0),
        );
        const known = usage?.candidatesTokenCount !== undefined || usage?.thoughtsTokenCount !== undefined;
        expect(turn.told_usage.output_tokens).toBe(
          known ? (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0) : null,
        );
        expect(turn.told_usage.cache_read_tokens).toBe(usage?.cachedContentTokenCount ?? null);
        expect(textOf(turn.answer.content)).toBe(
          parts.map((part) => (part.thought ? '' : (part.text ?? ''))).join(''),
        );
        expect(callsOf(turn.answer.content)).toEqual(
          parts.flatMap(({ functionCall: call }) =>
            call ? [[call.id ?? null, call.name, call.args ?? {}]] : [],
          ),
        );
        checked += 1;
      }
    } finally {
      globalThis.fetch = realFetch;
    }
    expect(checked).toBeGreaterThan(50);
  });

  it.each([true, false])('Bedrock Converse as the AWS SDK reads it (stream: %s)', async (stream) => {
    let checked = 0;
    for (const { recording, turn } of turns('bedrock_converse', stream)) {
      const client = new BedrockRuntimeClient({
        region: 'us-east-1',
        credentials: { accessKeyId: 'none', secretAccessKey: 'none' },
        requestHandler: { handle: async () => ({ response: awsResponse(recording) }) } as never,
      });
      const params = { modelId: 'm', messages: [] };
      let usage: { inputTokens?: number | undefined; outputTokens?: number | undefined } | undefined;
      let cacheRead: number | undefined;
      let stop: string | undefined;
      let text = '';
      if (stream) {
        const answer = await client.send(new ConverseStreamCommand(params));
        for await (const event of answer.stream!) {
          usage = event.metadata?.usage ?? usage;
          cacheRead = event.metadata?.usage?.cacheReadInputTokens ?? cacheRead;
          stop = event.messageStop?.stopReason ?? stop;
          text += event.contentBlockDelta?.delta?.text ?? '';
        }
      } else {
        const answer = await client.send(new ConverseCommand(params));
        usage = answer.usage;
        cacheRead = answer.usage?.cacheReadInputTokens;
        stop = answer.stopReason;
        text = (answer.output?.message?.content ?? []).map((block) => block.text ?? '').join('');
      }
      expect(turn.stop_word).toBe(stop);
      expect(turn.told_usage.input_tokens).toBe(usage?.inputTokens ?? null);
      expect(turn.told_usage.output_tokens).toBe(usage?.outputTokens ?? null);
      expect(turn.told_usage.cache_read_tokens).toBe(cacheRead ?? null);
      expect(textOf(turn.answer.content)).toBe(text);
      checked += 1;
    }
    expect(checked).toBeGreaterThan(stream ? 5 : 100);
  });
});

/** The AWS SDK's own shape of an HTTP answer. */
function awsResponse(recording: Recording): object {
  const body = recording.stored.response_body;
  return {
    statusCode: recording.stored.status,
    headers: { 'content-type': header(recording, 'content-type') },
    body: isStream(recording) ? new Blob([body as Uint8Array<ArrayBuffer>]).stream() : body,
  };
}
