/**
 * Index entries and the normal form of real provider traffic. The oracle is what the provider's own SDK assembles from
 * the same bytes: our content blocks must equal the SDK's, and the SDK's assembled answer, read as a whole answer, must
 * give the same turn.
 */
import Anthropic from '@anthropic-ai/sdk';
import {
  BedrockRuntimeClient,
  type TokenUsage as BedrockUsage,
  type ContentBlock,
  ConverseCommand,
  type ConverseCommandOutput,
  ConverseStreamCommand,
  type ConverseStreamOutput,
  InvokeModelCommand,
} from '@aws-sdk/client-bedrock-runtime';
import { GoogleGenAI, type Part } from '@google/genai';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { ApiShape } from '../../src/domain/exchange.ts';
import type { NormalTurn, TurnBlock } from '../../src/domain/turn.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { normalizeTurn, type ReadTurn, readTurn } from '../../src/providers/normal-turn.ts';
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

/** The recordings also contain beta blocks. */
type BetaBlock = Anthropic.Beta.BetaContentBlock;

/** Yields the recorded turns of one wire format whose answer has status 200: only streamed, or only whole answers. */
function* turns(shape: ApiShape, stream: boolean): Generator<{ recording: Recording; turn: ReadTurn }> {
  for (const file of RECORDED_LIBRARIES) {
    for (const recording of readRecordings(file)) {
      const { stored } = recording;
      if (stored.shape !== shape || stored.status !== 200 || isStream(recording) !== stream) continue;
      const turn = readTurn(stored);
      if (turn?.is_turn) yield { recording, turn };
    }
  }
}

/** Reads the SDK's assembled object as if it had arrived as one JSON body. */
function readAssembled(recording: Recording, assembled: unknown): NormalTurn {
  return normalizeTurn({
    ...recording.stored,
    response_headers: ['content-type', 'application/json'],
    response_body: Buffer.from(JSON.stringify(assembled)),
  })!;
}

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

const calls = (content: TurnBlock[]): unknown[] =>
  content.flatMap((block) => (block.type === 'tool_call' ? [[block.id, block.name, block.input]] : []));

const texts = (content: TurnBlock[], type: 'text' | 'thinking' | 'refusal'): string =>
  content.map((block) => (block.type === type ? block.text : '')).join('');

/** Occurs in the problem that is recorded for an answer that the provider makes later. */
const PENDING = 'in the background';

describe.skipIf(!haveRecordings)('the normal form of recorded traffic (../shared/recordings)', () => {
  it('becomes an index entry for each exchange, and only one exchange, whose request is broken, is undecodable', () => {
    const counts = { turns: 0, others: 0, answered: 0, errors: 0, pending: 0 };
    const flagged: string[] = [];
    for (const file of RECORDED_LIBRARIES) {
      for (const recording of readRecordings(file)) {
        const entry = decodeExchange(recording.stored);
        if (entry.reason.includes(PENDING)) counts.pending += 1;
        else if (entry.undecodable) flagged.push(`${recording.line.source}: ${entry.reason}`);
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
    expect(counts).toEqual({ turns: 2607, others: 160, answered: 2541, errors: 66, pending: 5 });
  });

  it('contains every turn and pairs every result', () => {
    const counts = { turns: 0, embeddings: 0, results: 0, tools: 0 };
    const flagged: string[] = [];
    const unpaired: string[] = [];
    for (const file of RECORDED_LIBRARIES) {
      for (const recording of readRecordings(file)) {
        const turn = normalizeTurn(recording.stored);
        if (turn === null) {
          if (readTurn(recording.stored) !== null) counts.embeddings += 1;
          continue;
        }
        counts.turns += 1;
        const isPending = turn.problem.includes(PENDING);
        if (turn.problem !== '' && !isPending) flagged.push(recording.line.source);
        if (!isPending) expect(turn.answer.stop_reason).not.toBe('other');
        counts.tools += turn.request.tools.length;
        const asked = new Set<string>();
        for (const message of turn.request.messages) {
          for (const block of message.content) {
            if (block.type === 'tool_call') {
              expect(block.id).not.toBe('');
              asked.add(block.id);
            }
            if (block.type !== 'tool_result') continue;
            counts.results += 1;
            const known = block.call_id !== null && asked.has(block.call_id) && block.name !== null;
            // The provider keeps the conversation with the call, so the request does not contain it.
            if (!known && turn.request.previous_answer_id === null) unpaired.push(recording.line.source);
          }
        }
      }
    }
    expect(flagged).toHaveLength(1);
    expect(unpaired).toEqual([]);
    expect(counts).toEqual({ turns: 2606, embeddings: 30, results: 968, tools: 2758 });
  });

  it.each([true, false])(
    'matches Messages as @anthropic-ai/sdk assembles them (stream: %s)',
    async (stream) => {
      let checked = 0;
      for (const { recording, turn } of turns('messages', stream)) {
        const client = new Anthropic({ apiKey: 'none', fetch: answering(recording), maxRetries: 0 });
        const params = { model: 'm', max_tokens: 1, messages: [] };
        const message = stream
          ? await client.messages.stream(params).finalMessage()
          : await client.messages.create(params);
        expect(turn.answer.content.map(describeAnthropicLike)).toEqual(
          (message.content as BetaBlock[]).map((block) => {
            switch (block.type) {
              case 'text':
                return ['text', block.text, block.citations?.length || 0];
              case 'thinking':
                return ['thinking', block.thinking, block.signature];
              case 'redacted_thinking':
                return ['thinking', '', block.data];
              case 'tool_use':
                return ['tool_call', block.id, block.name, block.input];
              case 'mcp_tool_use':
                // The SDK's stream helper leaves the input of these blocks empty, although the provider sent it.
                return ['other', stream ? { ...block, input: expect.any(Object) } : block];
              default:
                return ['other', block];
            }
          }),
        );
        expect(turn.answer.model).toBe(message.model);
        expect(turn.stop_word).toBe(message.stop_reason);
        expect(turn.answer.stop_reason).toBe(message.stop_reason);
        expect(turn.told_usage).toMatchObject({
          input_tokens: sumIterations(recording, message.usage, 'input_tokens'),
          output_tokens: sumIterations(recording, message.usage, 'output_tokens'),
          cache_read_tokens: message.usage.cache_read_input_tokens ?? null,
          cache_write_tokens: message.usage.cache_creation_input_tokens ?? null,
        });
        expect(turn.answer.usage).toEqual(turn.told_usage);
        const isKnown = !(message.content as BetaBlock[]).some((block) => block.type === 'mcp_tool_use');
        // The helper drops the counts of iterations as well.
        const isSum = sumIterations(recording, message.usage, 'input_tokens') !== message.usage.input_tokens;
        if (stream && isKnown && !isSum)
          expect(normalizeTurn(recording.stored)).toEqual(readAssembled(recording, message));
        checked += 1;
      }
      expect(checked).toBeGreaterThan(100);
    },
  );

  it.each([true, false])('matches chat completions as openai assembles them (stream: %s)', async (stream) => {
    let checked = 0;
    for (const { recording, turn } of turns('chat_completions', stream)) {
      const client = new OpenAI({ apiKey: 'none', fetch: answering(recording), maxRetries: 0 });
      const params = { model: 'm', messages: [] };
      const answer = stream
        ? await client.chat.completions.stream(params).finalChatCompletion()
        : await client.chat.completions.create(params);
      const { message, finish_reason: finish } = answer.choices[0]!;
      const { content } = turn.answer;
      expect(texts(content, 'text')).toBe(message.content ?? '');
      expect(texts(content, 'refusal')).toBe(message.refusal ?? '');
      expect(calls(content)).toEqual(
        (message.tool_calls ?? []).map((call) =>
          call.type === 'function'
            ? [call.id || expect.any(String), call.function.name, JSON.parse(call.function.arguments || '{}')]
            : [call.id, call.custom.name, call.custom.input],
        ),
      );
      const hasCalls = (message.tool_calls ?? []).length > 0;
      const words = {
        stop: hasCalls ? 'tool_use' : 'end_turn',
        length: 'max_tokens',
        content_filter: 'refusal',
        tool_calls: 'tool_use',
        function_call: 'tool_use',
      };
      expect(turn.answer.model).toBe(answer.model);
      expect(turn.stop_word).toBe(finish);
      expect(turn.answer.stop_reason).toBe(words[finish]);
      // The SDK's helper forgets a stream's usage if a later chunk has none, so the chunks are read one by one.
      const chunks = stream
        ? await collect(await client.chat.completions.create({ ...params, stream: true }))
        : [];
      const usage = stream ? chunks.findLast((chunk) => chunk.usage)?.usage : answer.usage;
      expect(turn.told_usage).toMatchObject({
        input_tokens: usage?.prompt_tokens ?? null,
        output_tokens: usage?.completion_tokens ?? null,
        cache_read_tokens: usage?.prompt_tokens_details?.cached_tokens ?? null,
      });
      const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
      const written = turn.answer.usage.cache_write_tokens ?? 0;
      expect(turn.answer.usage.input_tokens).toBe(usage ? usage.prompt_tokens - cached - written : null);
      if (stream) {
        expect(content).toEqual(readAssembled(recording, answer).answer.content);
      }
      checked += 1;
    }
    expect(checked).toBeGreaterThan(100);
  });

  it.each([true, false])('matches responses as openai assembles them (stream: %s)', async (stream) => {
    let checked = 0;
    for (const { recording, turn } of turns('responses', stream)) {
      const client = new OpenAI({ apiKey: 'none', fetch: answering(recording), maxRetries: 0 });
      const params = { model: 'm', input: '' };
      const answer = stream
        ? await client.responses.stream(params).finalResponse()
        : await client.responses.create(params);
      const { content } = turn.answer;
      expect(turn.answer.id).toBe(answer.id);
      expect(turn.answer.model).toBe(answer.model);
      const isOpen = answer.status === 'queued' || answer.status === 'in_progress';
      const ended = isOpen && answer.background !== true ? null : answer.status;
      expect(turn.stop_word).toBe(answer.incomplete_details?.reason ?? ended);
      expect(texts(content, 'text')).toBe(answer.output_text);
      expect(calls(content)).toEqual(
        answer.output.flatMap((item) => {
          if (item.type === 'function_call')
            return [[item.call_id, item.name, JSON.parse(item.arguments || '{}')]];
          const isClients = item.type === 'tool_search_call' && item.execution === 'client';
          return isClients ? [[item.call_id, 'tool_search', item.arguments]] : [];
        }),
      );
      expect(content.filter((block) => block.type === 'thinking')).toHaveLength(
        answer.output.filter((item) => item.type === 'reasoning').length,
      );
      expect(texts(content, 'thinking')).toBe(
        answer.output
          .map((item) =>
            item.type !== 'reasoning'
              ? ''
              : item.content?.map((part) => part.text).join('\n') ||
                item.summary.map((part) => part.text).join('\n'),
          )
          .join(''),
      );
      expect(turn.told_usage).toMatchObject({
        input_tokens: answer.usage?.input_tokens ?? null,
        output_tokens: answer.usage?.output_tokens ?? null,
        cache_read_tokens: answer.usage?.input_tokens_details?.cached_tokens ?? null,
      });
      const cached = answer.usage?.input_tokens_details?.cached_tokens ?? 0;
      const written = turn.answer.usage.cache_write_tokens ?? 0;
      expect(turn.answer.usage.input_tokens).toBe(
        answer.usage ? answer.usage.input_tokens - cached - written : null,
      );
      if (stream) {
        expect(content).toEqual(readAssembled(recording, answer).answer.content);
      }
      checked += 1;
    }
    expect(checked).toBeGreaterThan(100);
  });

  it.each([true, false])('matches Gemini as @google/genai reads it (stream: %s)', async (stream) => {
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
        const parts = chunks.flatMap((chunk) => chunk.candidates?.[0]?.content?.parts ?? []);
        const { content } = turn.answer;
        const textOfParts = (thought: boolean): string =>
          parts.map((part) => ((part.thought ?? false) === thought ? (part.text ?? '') : '')).join('');
        expect(texts(content, 'text')).toBe(textOfParts(false));
        expect(texts(content, 'thinking')).toBe(textOfParts(true));
        const wanted = parts.flatMap(({ functionCall }) => (functionCall ? [functionCall] : []));
        expect(calls(content)).toEqual(
          wanted.map((call) => [call.id ?? expect.stringMatching(/^order:\d+$/), call.name, call.args ?? {}]),
        );
        expect(content.flatMap(signatureOf)).toEqual(
          parts.flatMap((part: Part) => (part.thoughtSignature ? [part.thoughtSignature] : [])),
        );
        const usage = chunks.findLast((chunk) => chunk.usageMetadata !== undefined)?.usageMetadata;
        const last = chunks.at(-1)!;
        expect(turn.stop_word).toBe(
          last.candidates?.[0]?.finishReason ?? last.promptFeedback?.blockReason ?? null,
        );
        const prompt =
          usage?.promptTokenCount === undefined
            ? null
            : usage.promptTokenCount + (usage.toolUsePromptTokenCount ?? 0);
        const counts = [usage?.candidatesTokenCount, usage?.thoughtsTokenCount];
        const isKnown = counts.some((count) => count !== undefined);
        expect(turn.told_usage).toMatchObject({
          input_tokens: prompt,
          output_tokens: isKnown ? counts.reduce<number>((sum, count) => sum + (count ?? 0), 0) : null,
          cache_read_tokens: usage?.cachedContentTokenCount ?? null,
        });
        const cached = usage?.cachedContentTokenCount ?? 0;
        expect(turn.answer.usage.input_tokens).toBe(prompt === null ? null : prompt - cached);
        checked += 1;
      }
    } finally {
      globalThis.fetch = realFetch;
    }
    expect(checked).toBeGreaterThan(50);
  });

  it.each([true, false])('matches Bedrock Converse as the AWS SDK reads it (stream: %s)', async (stream) => {
    let checked = 0;
    for (const { recording, turn } of turns('bedrock_converse', stream)) {
      const client = openBedrock(recording);
      const params = { modelId: 'm', messages: [] };
      const answer = stream
        ? assembleConverse(await collect((await client.send(new ConverseStreamCommand(params))).stream!))
        : readConverse(await client.send(new ConverseCommand(params)));
      // The SDK rounds numbers.
      const content = JSON.parse(JSON.stringify(turn.answer.content)) as TurnBlock[];
      expect(content.map(describeAnthropicLike)).toEqual(answer.blocks.map(describeConverse));
      expect(turn.stop_word).toBe(answer.stop);
      expect(turn.told_usage).toMatchObject({
        input_tokens: answer.usage?.inputTokens ?? null,
        output_tokens: answer.usage?.outputTokens ?? null,
        cache_read_tokens: answer.usage?.cacheReadInputTokens ?? null,
      });
      checked += 1;
    }
    expect(checked).toBeGreaterThan(stream ? 5 : 100);
  });

  it('matches Bedrock InvokeModel as the AWS SDK returns it', async () => {
    let checked = 0;
    for (const { recording, turn } of turns('bedrock_invoke', false)) {
      const answer = await openBedrock(recording).send(
        new InvokeModelCommand({ modelId: 'm', body: new Uint8Array(0) }),
      );
      const message = JSON.parse(answer.body.transformToString()) as Anthropic.Message;
      expect(turn.answer.content.map(describeAnthropicLike)).toEqual(
        message.content.map((block) => (block.type === 'text' ? ['text', block.text, 0] : [block.type])),
      );
      checked += 1;
    }
    expect(checked).toBeGreaterThan(0);
  });
});

/** A short form of a block for comparisons. */
function describeAnthropicLike(block: TurnBlock): unknown[] {
  switch (block.type) {
    case 'text':
      return ['text', block.text, block.citations?.length ?? 0];
    case 'thinking':
      return ['thinking', block.text, block.signature];
    case 'tool_call':
      return ['tool_call', block.id, block.name, block.input];
    case 'other':
      return ['other', block.value];
    default:
      return [block.type];
  }
}

function describeConverse(block: ContentBlock): unknown[] {
  if (block.text !== undefined) return ['text', block.text, 0];
  const isServers = block.toolUse?.type === 'server_tool_use' || block.toolResult !== undefined;
  if (isServers) return ['other', expect.anything()];
  if (block.toolUse !== undefined)
    return ['tool_call', block.toolUse.toolUseId, block.toolUse.name, block.toolUse.input];
  const { reasoningText, redactedContent } = block.reasoningContent ?? {};
  if (redactedContent !== undefined) return ['thinking', '', Buffer.from(redactedContent).toString('base64')];
  return ['thinking', reasoningText?.text ?? '', reasoningText?.signature ?? null];
}

function signatureOf(block: TurnBlock): string[] {
  const signature =
    block.type === 'other'
      ? (block.value as Part).thoughtSignature
      : 'signature' in block
        ? block.signature
        : null;
  return signature === null || signature === undefined ? [] : [signature];
}

function openBedrock(recording: Recording): BedrockRuntimeClient {
  return new BedrockRuntimeClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'none', secretAccessKey: 'none' },
    requestHandler: { handle: async () => ({ response: awsResponse(recording) }) } as never,
  });
}

/** A block of a stream while its events arrive. */
interface OpenBlock {
  start: object;
  text: string;
  input: string;
  thinking: string;
  signature?: string;
  redacted?: Uint8Array | undefined;
}

interface ConverseAnswer {
  blocks: ContentBlock[];
  stop: string | undefined;
  usage: BedrockUsage | undefined;
}

function readConverse({ output, stopReason, usage }: ConverseCommandOutput): ConverseAnswer {
  return { blocks: output?.message?.content ?? [], stop: stopReason, usage };
}

/** The SDK has no helper that assembles a stream, so its typed events are assembled here. */
function assembleConverse(events: ConverseStreamOutput[]): ConverseAnswer {
  const open = new Map<number, OpenBlock>();
  for (const event of events) {
    const index = event.contentBlockStart?.contentBlockIndex ?? event.contentBlockDelta?.contentBlockIndex;
    if (index === undefined) continue;
    const block = open.get(index) ?? { start: {}, text: '', input: '', thinking: '' };
    open.set(index, block);
    const { toolUse, toolResult } = event.contentBlockStart?.start ?? {};
    if (toolUse !== undefined) block.start = toolUse;
    if (toolResult !== undefined) block.start = { ...toolResult, content: [] };
    const delta = event.contentBlockDelta?.delta;
    block.text += delta?.text ?? '';
    block.input += delta?.toolUse?.input ?? '';
    block.thinking += delta?.reasoningContent?.text ?? '';
    const signature = delta?.reasoningContent?.signature;
    if (signature !== undefined) block.signature = signature;
    block.redacted = delta?.reasoningContent?.redactedContent ?? block.redacted;
  }
  const blocks = [...open.values()].flatMap(
    ({ start, text, input, thinking, signature, redacted }): ContentBlock[] => {
      if (redacted !== undefined) return [{ reasoningContent: { redactedContent: redacted } }];
      if ('content' in start) return [{ toolResult: start } as unknown as ContentBlock];
      if ('toolUseId' in start)
        return [{ toolUse: { ...start, input: JSON.parse(input || '{}') } } as ContentBlock];
      if (thinking !== '') return [{ reasoningContent: { reasoningText: { text: thinking, signature } } }];
      return text === '' ? [] : [{ text }];
    },
  );
  return {
    blocks,
    stop: events.findLast((event) => event.messageStop !== undefined)?.messageStop?.stopReason,
    usage: events.findLast((event) => event.metadata?.usage !== undefined)?.metadata?.usage,
  };
}

/** An HTTP answer in the AWS SDK's form. */
function awsResponse(recording: Recording): object {
  const body = recording.stored.response_body;
  return {
    statusCode: recording.stored.status,
    headers: { 'content-type': header(recording, 'content-type') },
    body: isStream(recording) ? new Blob([body as Uint8Array<ArrayBuffer>]).stream() : body,
  };
}
