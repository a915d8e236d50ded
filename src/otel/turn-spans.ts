/**
 * From a captured turn to spans of the GenAI conventions: one for the exchange, and one for each tool call whose result the request
 * brings. Pure; used by the exporting capture reader.
 *
 * A run is a trace, whose id is made of the run's name, and the ids of spans are made of the exchange's: what is sent twice is the same
 * span. A `traceparent` of the client goes before that. What a tool took is told by what passed: from the end of the answer that asked
 * for it to the request that brings its result.
 */
import type { ExchangeRecord } from '../domain/exchange.ts';
import { type NormalTurn, type TurnBlock, type TurnMessage, textOf } from '../domain/turn.ts';
import { OTEL_EXPORT } from '../limits.ts';
import { RecentMap } from '../std/recent-map.ts';
import { GEN_AI, GENERAL, OWN, PROVIDER_NAMES } from './conventions.ts';
import { readTraceParent, spanIdOf, traceIdOf } from './trace-context.ts';
import type { SpanAttributes, WrittenSpan } from './write-spans.ts';

/** Where the requests of a prefix go. */
export interface ServerPlace {
  prefix: string;
  /** Label of what it answers. */
  provider: string;
  /** With `{region}` where the path names one. */
  base: string;
}

export interface TurnSpansOptions {
  /** Of this capture database: its exchanges are numbered as those of others are. */
  instance: string;
  /** The texts of messages and tools come along. */
  has_content: boolean;
  /** Longest prefix first. */
  servers: readonly ServerPlace[];
}

/** What is remembered of a run's last turn. */
interface LastTurn {
  trace_id: string;
  span_id: string;
  trace_state: string;
  flags: number;
  end_ms: number;
}

/** The flags of a span without a remote parent, sampled. */
const SAMPLED = 0x01;
const HAS_IS_REMOTE = 0x100;
const IS_REMOTE = 0x200;

export class TurnSpans {
  readonly #options: TurnSpansOptions;
  readonly #last = new RecentMap<string, LastTurn>(OTEL_EXPORT.runs);
  /** The last turns of runs as they were before what is not settled. */
  readonly #before = new Map<string, LastTurn | undefined>();

  constructor(options: TurnSpansOptions) {
    this.#options = options;
  }

  /**
   * Turns of a run in their order.
   * @param turn null where the stored copy cannot be read: then the exchange is told without it
   */
  make(record: ExchangeRecord, turn: NormalTurn | null): WrittenSpan[] {
    const parent = readTraceParent(record.request.headers);
    const { instance } = this.#options;
    const name = `${instance}\n${record.id}`;
    const run_id = record.run_id;
    const start_ms = Date.parse(record.started_at);
    const own: LastTurn = {
      trace_id: parent?.trace_id ?? traceIdOf(nameTrace(run_id, record.id, instance)),
      span_id: spanIdOf(name),
      trace_state: parent?.state ?? '',
      flags: HAS_IS_REMOTE | (parent === null ? SAMPLED : IS_REMOTE | parent.flags),
      end_ms: start_ms + record.duration_ms,
    };
    const before = run_id === null ? undefined : this.#last.get(run_id);
    if (run_id !== null) {
      if (!this.#before.has(run_id)) this.#before.set(run_id, before);
      this.#last.set(run_id, own);
    }
    const span: WrittenSpan = {
      trace_id: own.trace_id,
      span_id: own.span_id,
      parent_span_id: parent?.span_id ?? '',
      trace_state: own.trace_state,
      flags: own.flags,
      name: `${operationOf(record)} ${turn?.request.model ?? record.model ?? ''}`.trim(),
      kind: 'client',
      start_ms,
      end_ms: own.end_ms,
      attributes: this.#describe(record, turn),
      is_error: errorOf(record, turn) !== null,
    };
    if (turn === null || before === undefined) return [span];
    return [...this.#describeTools(record, turn, before, start_ms, name), span];
  }

  /** What was made since the last time is done with. */
  settle(): void {
    this.#before.clear();
  }

  /** What was made since the last time is made again: it is as if it had not been. */
  undo(): void {
    for (const [run_id, before] of this.#before) {
      if (before === undefined) this.#last.delete(run_id);
      else this.#last.set(run_id, before);
    }
    this.#before.clear();
  }

  /** A turn that was exported before this process began: its tools' results come with the next one. */
  remember(
    record: Pick<ExchangeRecord, 'id' | 'run_id' | 'started_at' | 'duration_ms'>,
    headers: ExchangeRecord['request']['headers'],
  ): void {
    const parent = readTraceParent(headers);
    if (record.run_id === null) return;
    const { instance } = this.#options;
    this.#last.set(record.run_id, {
      trace_id: parent?.trace_id ?? traceIdOf(nameTrace(record.run_id, record.id, instance)),
      span_id: spanIdOf(`${instance}\n${record.id}`),
      trace_state: parent?.state ?? '',
      flags: HAS_IS_REMOTE | (parent === null ? SAMPLED : IS_REMOTE | parent.flags),
      end_ms: Date.parse(record.started_at) + record.duration_ms,
    });
  }

  #describe(record: ExchangeRecord, turn: NormalTurn | null): SpanAttributes {
    const { usage, run_id } = record;
    const answer = turn?.answer ?? null;
    const isStudent = record.served_by === 'student';
    const server = isStudent ? null : this.#serverOf(record);
    const isStream = isStreamed(record);
    const finish = answer?.stop_reason ?? record.stop_reason;
    return {
      [GEN_AI.OPERATION_NAME]: operationOf(record),
      [GEN_AI.PROVIDER_NAME]: PROVIDER_NAMES[record.provider] ?? record.provider,
      [GEN_AI.CONVERSATION_ID]: record.session_id ?? run_id,
      [GEN_AI.REQUEST_MODEL]: turn?.request.model ?? record.model,
      [GEN_AI.REQUEST_MAX_TOKENS]: turn?.request.max_output_tokens,
      [GEN_AI.REQUEST_STREAM]: isStream ? true : null,
      [GEN_AI.RESPONSE_ID]: answer?.id,
      [GEN_AI.RESPONSE_MODEL]: answer?.model ?? record.model,
      [GEN_AI.RESPONSE_FINISH_REASONS]: finish === null ? null : [finish],
      [GEN_AI.RESPONSE_TIME_TO_FIRST_CHUNK]:
        isStream && record.first_byte_ms !== null ? { double: record.first_byte_ms / 1_000 } : null,
      [GEN_AI.USAGE_INPUT_TOKENS]: sumInput(answer?.usage ?? usage),
      [GEN_AI.USAGE_OUTPUT_TOKENS]: (answer?.usage ?? usage).output_tokens,
      [GEN_AI.USAGE_CACHE_READ_INPUT_TOKENS]: usage.cache_read_tokens,
      [GEN_AI.USAGE_CACHE_CREATION_INPUT_TOKENS]: usage.cache_write_tokens,
      [GENERAL.ERROR_TYPE]: errorOf(record, turn),
      [GENERAL.HTTP_STATUS]: record.status === 0 ? null : record.status,
      [GENERAL.SERVER_ADDRESS]: server?.address,
      [GENERAL.SERVER_PORT]: server?.port,
      [OWN.SERVED_BY]: record.served_by,
      [OWN.EXCHANGE_ID]: record.id,
      [OWN.RUN_ID]: run_id,
      [OWN.PARENT_RUN_ID]: record.parent_run_id,
      [OWN.RUN_KIND]: record.run_kind,
      [OWN.NOTE]: record.note === '' ? null : record.note,
      ...(this.#options.has_content && turn !== null ? describeContent(turn) : {}),
    };
  }

  #describeTools(
    record: ExchangeRecord,
    turn: NormalTurn,
    before: LastTurn,
    end_ms: number,
    name: string,
  ): WrittenSpan[] {
    const { messages } = turn.request;
    const asked = messages.findLastIndex(({ role }) => role === 'assistant');
    if (asked < 0) return [];
    const calls = messages[asked]!.content.flatMap((block) => (block.type === 'tool_call' ? [block] : []));
    const results = messages
      .slice(asked + 1)
      .flatMap(({ content }) => content.flatMap((block) => (block.type === 'tool_result' ? [block] : [])));
    return results.slice(0, OTEL_EXPORT.tools_per_turn).flatMap((result, at): WrittenSpan[] => {
      const call = calls.find(({ id }) => id === result.call_id);
      if (call === undefined) return [];
      const content: SpanAttributes = this.#options.has_content
        ? {
            [GEN_AI.TOOL_CALL_ARGUMENTS]: cut(toText(call.input)),
            [GEN_AI.TOOL_CALL_RESULT]: cut(textOf(result.content)),
          }
        : {};
      return [
        {
          trace_id: before.trace_id,
          span_id: spanIdOf(`${name}\n${at}`),
          parent_span_id: before.span_id,
          trace_state: before.trace_state,
          flags: HAS_IS_REMOTE | (before.flags & 0xff),
          name: `execute_tool ${call.name}`,
          kind: 'internal',
          start_ms: Math.min(before.end_ms, end_ms),
          end_ms,
          attributes: {
            [GEN_AI.OPERATION_NAME]: 'execute_tool',
            [GEN_AI.TOOL_NAME]: call.name,
            [GEN_AI.TOOL_TYPE]: 'function',
            // Where the provider has no ids, ours says nothing to anybody else.
            [GEN_AI.TOOL_CALL_ID]: call.id.startsWith('order:') ? null : call.id,
            [GEN_AI.CONVERSATION_ID]: record.session_id ?? record.run_id,
            [GENERAL.ERROR_TYPE]: result.is_error ? 'tool_error' : null,
            [OWN.RUN_ID]: record.run_id,
            ...content,
          },
          is_error: result.is_error,
        },
      ];
    });
  }

  #serverOf({ path, provider, request }: ExchangeRecord): { address: string; port: number } | null {
    for (const { prefix, base, provider: its } of this.#options.servers) {
      if (its !== provider) continue;
      if (prefix !== '/' && path !== prefix && !path.startsWith(`${prefix}/`)) continue;
      const [, region = ''] = prefix === '/' ? [] : path.slice(prefix.length).split('/', 2);
      return readPlace(base.replaceAll('{region}', region));
    }
    // What came through the proxy names its provider itself.
    const [, host = ''] = request.headers.find(([name]) => name.toLowerCase() === 'host') ?? [];
    return host === '' ? null : readPlace(`https://${host}`);
  }
}

function readPlace(base: string): { address: string; port: number } | null {
  const url = URL.parse(base);
  if (url === null) return null;
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  return { address: url.hostname, port };
}

/** Runs that are named by the number of an exchange are so in every database. */
function nameTrace(run_id: string | null, id: number, instance: string): string {
  if (run_id === null) return `${instance}\nexchange\n${id}`;
  return /^conv_\d+/.test(run_id) ? `${instance}\nrun\n${run_id}` : `run\n${run_id}`;
}

function operationOf({ shape }: ExchangeRecord): string {
  return shape === 'gemini' ? 'generate_content' : shape === 'completion' ? 'text_completion' : 'chat';
}

function isStreamed({ response }: ExchangeRecord): boolean {
  return response.headers.some(
    ([name, value]) => name.toLowerCase() === 'content-type' && /event-?stream/i.test(value),
  );
}

/** @returns null for a turn without one */
function errorOf({ status, aborted }: ExchangeRecord, turn: NormalTurn | null): string | null {
  if (status >= 400) return String(status);
  if (aborted) return 'aborted';
  if (status === 0) return 'no_answer';
  return turn !== null && turn.answer.error !== null ? 'provider_error' : null;
}

/** With what was read from caches and written to them, as the conventions count. */
function sumInput(usage: {
  input_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
}): number | null {
  if (usage.input_tokens === null) return null;
  return usage.input_tokens + (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0);
}

function describeContent({ request, answer }: NormalTurn): SpanAttributes {
  const output = {
    ...describeMessage({ role: 'assistant', content: answer.content }),
    finish_reason: answer.stop_reason ?? 'error',
  };
  return {
    [GEN_AI.SYSTEM_INSTRUCTIONS]:
      request.system.length === 0 ? null : boundList(request.system.map(describeBlock)),
    [GEN_AI.INPUT_MESSAGES]: boundList(request.messages.map(describeMessage)),
    [GEN_AI.OUTPUT_MESSAGES]: answer.content.length === 0 ? null : boundList([output]),
  };
}

function describeMessage({ role, content }: TurnMessage): object {
  return { role, parts: content.map(describeBlock) };
}

function describeBlock(block: TurnBlock): object {
  switch (block.type) {
    case 'text':
    case 'refusal':
      return { type: 'text', content: cut(block.text) };
    case 'thinking':
      return { type: 'reasoning', content: cut(block.text) };
    case 'tool_call':
      return { type: 'tool_call', id: block.id, name: block.name, arguments: cutValue(block.input) };
    case 'tool_result':
      return { type: 'tool_call_response', id: block.call_id, response: cut(textOf(block.content)) };
    case 'media':
      return { type: block.kind, mime_type: block.media_type };
    case 'cache_point':
    case 'other':
      return { type: block.type };
  }
}

/** As JSON, the last ones as far as there is room. */
function boundList(list: readonly object[]): string {
  const kept: string[] = [];
  let characters = 0;
  for (const one of list.toReversed()) {
    const text = JSON.stringify(one);
    characters += text.length + 1;
    if (characters > OTEL_EXPORT.messages_characters && kept.length > 0) break;
    kept.unshift(text);
  }
  return `[${kept.join(',')}]`;
}

function cut(text: string): string {
  return text.length <= OTEL_EXPORT.text_characters
    ? text.toWellFormed()
    : text.slice(0, OTEL_EXPORT.text_characters).toWellFormed();
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

function cutValue(value: unknown): unknown {
  const text = toText(value);
  return text.length <= OTEL_EXPORT.text_characters ? value : cut(text);
}
