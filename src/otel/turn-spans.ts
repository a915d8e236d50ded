/**
 * Converts a captured turn to spans of the GenAI conventions: one span for the exchange, and one for each tool call of
 * an earlier answer whose result the request contains for the first time, up to a bound. Pure; exporting capture
 * reader, capture reader, command line.
 *
 * A run is a trace. Its id is derived from the run's name, and the ids of spans from the exchange's id, so a turn that
 * is sent twice gives the same spans. A client's `traceparent` takes precedence. A tool's duration is measured from the
 * traffic: from the end of the answer with the call to the request with the result.
 */
import type { ExchangeRecord } from '../domain/exchange.ts';
import { type NormalTurn, type TurnBlock, type TurnMessage, textOf } from '../domain/turn.ts';
import { WIRES } from '../providers/wires.ts';
import { RecentMap } from '../std/recent-map.ts';
import { GEN_AI, GENERAL, OWN, PROVIDER_NAMES } from './conventions.ts';
import { OTEL_EXPORT } from './limits.ts';
import { readTraceParent, spanIdOf, traceIdOf } from './trace-context.ts';
import type { SpanAttributes, WrittenSpan } from './write-spans.ts';

/** The destination of a prefix's requests. */
export interface ServerPlace {
  prefix: string;
  /** The provider's label on captured exchanges. */
  provider: string;
  /** Base address; `{region}` stands for the region in the request's path. */
  base: string;
}

interface TurnSpansOptions {
  /** Id of this capture database, because other databases have the same exchange ids. */
  instance: string;
  /** Whether spans include the texts of messages and tools. */
  has_content: boolean;
  /** Longest prefix first. */
  servers: readonly ServerPlace[];
}

/** The values of a turn that are kept, because a later request may have the results of its tool calls. */
interface AskingTurn {
  trace_id: string;
  span_id: string;
  trace_state: string;
  flags: number;
  end_ms: number;
  /** Ids of the calls in the turn's answer; null when the turn was not read. */
  calls: readonly string[] | null;
}

/** The flags of a sampled span without a remote parent. */
const SAMPLED = 0x01;
const HAS_IS_REMOTE = 0x100;
const IS_REMOTE = 0x200;

export class TurnSpans {
  readonly #options: TurnSpansOptions;
  /** Recent turns of each run, the newest last. */
  readonly #turns = new RecentMap<string, readonly AskingTurn[]>(OTEL_EXPORT.runs);
  /** The turns of each run with unsettled spans, as they were before those spans. */
  readonly #before = new Map<string, readonly AskingTurn[] | undefined>();

  constructor(options: TurnSpansOptions) {
    this.#options = options;
  }

  /**
   * Converts a turn. The turns of a run must be converted in their order.
   * @param turn null: the stored copy cannot be read, so the span lacks its content, and there are no spans of tools
   * @returns the spans of tools, then the span of the exchange
   */
  make(record: ExchangeRecord, turn: NormalTurn | null): WrittenSpan[] {
    const parent = readTraceParent(record.request.headers);
    const { instance } = this.#options;
    const name = `${instance}\n${record.id}`;
    const run_id = record.run_id;
    const start_ms = Date.parse(record.started_at);
    const own: AskingTurn = {
      trace_id: parent?.trace_id ?? traceIdOf(nameTrace(run_id, record.id, instance)),
      span_id: spanIdOf(name),
      trace_state: parent?.state ?? '',
      flags: HAS_IS_REMOTE | (parent === null ? SAMPLED : IS_REMOTE | parent.flags),
      end_ms: start_ms + record.duration_ms,
      calls: turn === null ? null : callsIn(turn.answer.content).map(({ id }) => id),
    };
    const before = run_id === null ? undefined : this.#turns.get(run_id);
    if (run_id !== null) {
      if (!this.#before.has(run_id)) this.#before.set(run_id, before);
      this.#remember(run_id, own);
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
    const asking = findAsking(turn.request.messages, before);
    return [...this.#describeTools(record, turn, asking, start_ms, name), span];
  }

  /** Accepts all spans made so far. A later `undo` does not discard them. */
  settle(): void {
    this.#before.clear();
  }

  /** Discards the spans made after the last `settle` or `undo`. The caller makes them again. */
  undo(): void {
    for (const [run_id, before] of this.#before) {
      if (before === undefined) this.#turns.delete(run_id);
      else this.#turns.set(run_id, before);
    }
    this.#before.clear();
  }

  /**
   * Stores a turn that was exported before this process began, because the next turn may have the results of its tools.
   */
  remember(
    record: Pick<ExchangeRecord, 'id' | 'run_id' | 'started_at' | 'duration_ms'>,
    headers: ExchangeRecord['request']['headers'],
  ): void {
    const parent = readTraceParent(headers);
    if (record.run_id === null) return;
    const { instance } = this.#options;
    this.#remember(record.run_id, {
      trace_id: parent?.trace_id ?? traceIdOf(nameTrace(record.run_id, record.id, instance)),
      span_id: spanIdOf(`${instance}\n${record.id}`),
      trace_state: parent?.state ?? '',
      flags: HAS_IS_REMOTE | (parent === null ? SAMPLED : IS_REMOTE | parent.flags),
      end_ms: Date.parse(record.started_at) + record.duration_ms,
      calls: null,
    });
  }

  #remember(run_id: string, turn: AskingTurn): void {
    this.#turns.set(run_id, [...(this.#turns.get(run_id) ?? []), turn].slice(-OTEL_EXPORT.turns_per_run));
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
      [OWN.END_CAUSE]: record.end_cause,
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
    before: AskingTurn,
    end_ms: number,
    name: string,
  ): WrittenSpan[] {
    const answered = findAnswered(turn.request.messages, before.calls).slice(0, OTEL_EXPORT.tools_per_turn);
    return answered.map(({ call, result }, at): WrittenSpan => {
      const content: SpanAttributes = this.#options.has_content
        ? {
            [GEN_AI.TOOL_CALL_ARGUMENTS]: cut(toText(call.input)),
            [GEN_AI.TOOL_CALL_RESULT]: cut(textOf(result.content)),
          }
        : {};
      return {
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
          // Ids that this service assigned are left out, because they have no meaning elsewhere.
          [GEN_AI.TOOL_CALL_ID]: call.id.startsWith('order:') ? null : call.id,
          [GEN_AI.CONVERSATION_ID]: record.session_id ?? record.run_id,
          [GENERAL.ERROR_TYPE]: result.is_error ? 'tool_error' : null,
          [OWN.RUN_ID]: record.run_id,
          ...content,
        },
        is_error: result.is_error,
      };
    });
  }

  #serverOf({ path, provider, request }: ExchangeRecord): { address: string; port: number } | null {
    for (const { prefix, base, provider: serverProvider } of this.#options.servers) {
      if (serverProvider !== provider) continue;
      if (prefix !== '/' && path !== prefix && !path.startsWith(`${prefix}/`)) continue;
      const [, region = ''] = prefix === '/' ? [] : path.slice(prefix.length).split('/', 2);
      return readPlace(base.replaceAll('{region}', region));
    }
    // Requests through the proxy name their provider in the host header.
    const [, host = ''] = request.headers.find(([name]) => name.toLowerCase() === 'host') ?? [];
    return host === '' ? null : readPlace(`https://${host}`);
  }
}

/**
 * Finds the turn whose answer has the calls whose results are at the end of a request. This is the newest turn with
 * such a call, or the newest turn if no turn has one. Requests of one run may overlap, so this turn may not be the
 * previous exchange.
 */
function findAsking(messages: readonly TurnMessage[], turns: readonly AskingTurn[]): AskingTurn {
  const answer = messages.findLastIndex(({ role }) => role === 'assistant');
  const answered = new Set(
    messages
      .slice(answer + 1)
      .flatMap(({ content }) =>
        content.map((block) => (block.type === 'tool_result' ? block.call_id : null)),
      ),
  );
  return turns.findLast(({ calls }) => calls?.some((id) => answered.has(id))) ?? turns.at(-1)!;
}

type Call = Extract<TurnBlock, { type: 'tool_call' }>;
type Result = Extract<TurnBlock, { type: 'tool_result' }>;

function callsIn(blocks: readonly TurnBlock[]): Call[] {
  return blocks.flatMap((block) => (block.type === 'tool_call' ? [block] : []));
}

/**
 * Finds the results in a request for the calls of the last answer, each with its call. The ids in the answer show which
 * results are new: in some wire formats each call is a separate message, and some clients send each result directly
 * after its call.
 * @param asked ids of the last answer's calls; null: the answer was not read, and the last answer in the request is
 *   used
 */
function findAnswered(
  messages: readonly TurnMessage[],
  asked: readonly string[] | null,
): { call: Call; result: Result }[] {
  let end = messages.length - 1;
  while (end >= 0 && messages[end]!.role !== 'assistant') end -= 1;
  let from = end;
  while (from > 0 && messages[from - 1]!.role === 'assistant') from -= 1;
  const pairIn = (part: readonly TurnMessage[], ids: ReadonlySet<string> | null) => {
    const calls = new Map<string, Call>();
    const pairs: { call: Call; result: Result }[] = [];
    for (const { content } of part) {
      for (const block of content) {
        if (block.type === 'tool_call' && (ids === null || ids.has(block.id))) calls.set(block.id, block);
        const call = block.type === 'tool_result' ? calls.get(block.call_id ?? '') : undefined;
        if (block.type === 'tool_result' && call !== undefined) pairs.push({ call, result: block });
      }
    }
    return pairs;
  };
  const last = from < 0 ? [] : pairIn(messages.slice(from), null);
  if (asked === null || last.length >= asked.length) return last;
  const named = pairIn(messages, new Set(asked));
  return named.length > last.length ? named.slice(-asked.length) : last;
}

function readPlace(base: string): { address: string; port: number } | null {
  const url = URL.parse(base);
  if (url === null) return null;
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  return { address: url.hostname, port };
}

/**
 * Names the trace of a run, or of one exchange that belongs to no run. A run's name that contains an exchange's number
 * (`conv_12`) may occur in other databases, too, so the instance is added to it.
 */
function nameTrace(run_id: string | null, id: number, instance: string): string {
  if (run_id === null) return `${instance}\nexchange\n${id}`;
  return /^conv_\d+/.test(run_id) ? `${instance}\nrun\n${run_id}` : `run\n${run_id}`;
}

function operationOf({ shape }: ExchangeRecord): string {
  return shape === null ? 'chat' : WIRES[shape].span_operation;
}

function isStreamed({ response }: ExchangeRecord): boolean {
  return response.headers.some(
    ([name, value]) => name.toLowerCase() === 'content-type' && /event-?stream/i.test(value),
  );
}

/** Returns the value of `error.type`; null for a turn without an error. */
function errorOf({ status, aborted, end_cause }: ExchangeRecord, turn: NormalTurn | null): string | null {
  if (end_cause !== undefined && end_cause !== 'upstream_status') return end_cause;
  if (status >= 400) return String(status);
  if (aborted) return 'aborted';
  if (status === 0) return 'no_answer';
  return turn !== null && turn.answer.error !== null ? 'provider_error' : null;
}

/**
 * Sums the input tokens as the conventions count them, including cache reads and writes; null if the input is unknown.
 */
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

/** Writes the last items of a list that fit into the bound, as JSON. The last item is always included. */
function boundList(list: readonly object[]): string {
  const kept: string[] = [];
  let characters = 0;
  for (const item of list.toReversed()) {
    const text = JSON.stringify(item);
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
