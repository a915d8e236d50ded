/**
 * `@understudy-gateway/anthropic`: for agents written with the Anthropic SDK itself (`@anthropic-ai/sdk`),
 * including its tool runner. One middleware of the client sees requests and answers, and adds interventions
 * to the next model call. Any thread.
 *
 * Tool results are read from the request that passes them to the model. A complete answer is read from a copy. The
 * bytes of a stream are read while they pass: with a copy of the stream, an agent that leaves its copy early would wait
 * for the end of the other copy.
 */

import type { Middleware } from '@anthropic-ai/sdk';
import type {
  Message,
  MessageCreateParamsBase,
  MessageDeltaUsage,
  MessageParam,
  RawMessageStreamEvent,
  Usage,
} from '@anthropic-ai/sdk/resources/messages/messages';
import { EventLines } from '../client/event-lines.ts';
import { textOfParts } from '../client/observation.ts';
import { writeJson } from '../client/wire-json.ts';
import { parseExact } from '../std/exact-json.ts';
import type { AgentSteps, AskedCall, ModelAnswer } from './agent-steps.ts';
import { requirePeer } from './peer-version.ts';
import { type Integration, reading, stepsAround, type WatchOptions } from './watched-run.ts';

type APIRequest = Parameters<Middleware>[0];

const INTEGRATION: Integration = { name: '@understudy-gateway/anthropic', framework: 'claude-messages' };
requirePeer(INTEGRATION, '@anthropic-ai/sdk', '>=0.30.0 <2');

/**
 * For `new Anthropic({ middleware: [understudyMiddleware()] })`, which the SDK supports from 0.101 on. This middleware
 * must be the last one, so that it is next to the network.
 */
export function understudyMiddleware(options: WatchOptions = {}): Middleware {
  return async (request, next, ctx) => {
    const steps = isMessagesCall(request) ? stepsAround(INTEGRATION, options) : null;
    if (steps === null) return next(request);
    return watchCall(steps, request, (ctx.options?.body ?? {}) as Params, next);
  };
}

/**
 * Does the same as `understudyMiddleware` for older versions of the SDK: `new Anthropic({ fetch: understudyFetch() })`.
 * @param fetch sends the requests; default: the platform's
 */
export function understudyFetch(options: WatchOptions & { fetch?: typeof fetch } = {}): typeof fetch {
  const { fetch: send = globalThis.fetch } = options;
  return async (input, init = {}) => {
    const url = input instanceof Request ? input.url : String(input);
    const request = { ...init, url } as APIRequest;
    const steps = isMessagesCall(request) ? stepsAround(INTEGRATION, options) : null;
    const params = steps === null ? null : parseParams(init.body);
    if (steps === null || params === null) return send(input, init);
    return watchCall(steps, request, params, ({ body }) =>
      send(input, { ...init, body: body as NonNullable<RequestInit['body']> }),
    );
  };
}

type Params = Partial<MessageCreateParamsBase>;

function parseParams(body: unknown): Params | null {
  try {
    return typeof body === 'string' ? (parseExact(body) as Params) : null;
  } catch {
    return null;
  }
}

/** Sends the request of a model call, and logs the results of tools in the request and the calls in the answer. */
async function watchCall(
  steps: AgentSteps,
  request: APIRequest,
  params: Params,
  send: (request: APIRequest) => Promise<Response>,
): Promise<Response> {
  reading(INTEGRATION, () => settleResults(steps, params));
  const isStream = params.stream === true;
  const end = isStream ? steps.expectStream() : () => {};
  let response: Response;
  try {
    response = await tell(steps, request, send);
  } catch (thrown) {
    end();
    throw thrown;
  }
  if (!response.ok) {
    end();
    return response;
  }
  // The steps belong to the run in which the call was made, wherever its stream is read.
  const onAnswer = (answer: ModelAnswer) => reading(INTEGRATION, () => steps.answered(answer));
  if (isStream) return tap(response, onAnswer, end);
  // An error is ignored here, because the reader of the response gets the same error.
  await response
    .clone()
    .text()
    .then((text) => parseExact(text) as Message)
    .then(
      ({ content, usage }) => onAnswer(answerOf(content, usage)),
      () => {},
    );
  return response;
}

/** Whether a request is a model call. Token counts, batches and models have other paths. */
function isMessagesCall({ method, url }: APIRequest): boolean {
  return method?.toUpperCase() === 'POST' && /\/v1\/messages(\?|$)/.test(url);
}

/** Logs the results of tools after the model's last answer. */
function settleResults(steps: AgentSteps, { messages = [] }: Params): void {
  const last = messages.findLastIndex(({ role }) => role === 'assistant');
  for (const { content } of messages.slice(last + 1)) settleBlocks(steps, content);
}

function settleBlocks(steps: AgentSteps, content: MessageParam['content']): void {
  if (typeof content === 'string') return;
  for (const block of content) {
    if (block.type !== 'tool_result' || !steps.awaits(block.tool_use_id)) continue;
    steps.returned({
      id: block.tool_use_id,
      observation: textOfParts(block.content),
      isError: block.is_error === true,
    });
  }
}

/** Sends the request, with an intervention if there is one. */
async function tell(
  steps: AgentSteps,
  request: APIRequest,
  next: (request: APIRequest) => Promise<Response>,
): Promise<Response> {
  const said = steps.takeIntervention();
  if (said === null) return next(request);
  const told = addText(request, said.text);
  let isHeard = false;
  try {
    const response = await next(told ?? request);
    isHeard = response.ok && told !== null;
    return response;
  } finally {
    if (!isHeard) steps.giveBack(said);
  }
}

/** Adds a text to a request. @returns null if another middleware has replaced the body by something that cannot be read */
function addText(request: APIRequest, text: string): APIRequest | null {
  try {
    const params = parseExact(String(request.body)) as MessageCreateParamsBase & { thread?: unknown };
    // In a thread, the system prompt applies to later turns too, so the intervention is added to the turn.
    const told = params.thread ? addToTurn(params, text) : addToSystem(params, text);
    return { ...request, body: JSON.stringify(told) };
  } catch {
    return null;
  }
}

function addToSystem(params: MessageCreateParamsBase, text: string): MessageCreateParamsBase {
  const { system } = params;
  if (Array.isArray(system)) return { ...params, system: [...system, { type: 'text', text }] };
  return { ...params, system: [system, text].filter(Boolean).join('\n\n') };
}

function addToTurn(params: MessageCreateParamsBase, text: string): MessageCreateParamsBase {
  const { role, content } = params.messages.at(-1)!;
  const blocks = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content;
  const turn = { role, content: [...blocks, { type: 'text' as const, text }] } as MessageParam;
  return { ...params, messages: params.messages.with(-1, turn) };
}

/**
 * Reads the answer of a streamed response while the bytes pass.
 * @param onAnswer called with the answer once it is complete, at the latest when the agent has read the stream to its
 *   end. Not called if there is no body or the events cannot be read
 * @param onEnd called when the agent has read the stream to its end or has left it; at once if there is no body
 * @returns a response with the same bytes
 */
function tap(response: Response, onAnswer: (answer: ModelAnswer) => void, onEnd: () => void): Response {
  if (response.body === null) {
    onEnd();
    return response;
  }
  const events = new MessageEvents(new StreamedAnswer(onAnswer));
  const end = () => {
    events.end();
    onEnd();
  };
  // The types lack `cancel`, because it is newer. It is called if an agent leaves the stream early.
  const passer = {
    transform: (
      bytes: Uint8Array<ArrayBuffer>,
      controller: TransformStreamDefaultController<Uint8Array<ArrayBuffer>>,
    ) => {
      events.take(bytes);
      controller.enqueue(bytes);
    },
    flush: end,
    cancel: end,
  };
  const tapped = new Response(response.body.pipeThrough(new TransformStream(passer)), response);
  // A new response has no URL, so the property is copied.
  return Object.defineProperty(tapped, 'url', { value: response.url });
}

/** Maximum length of a stream's event. Events of models are shorter. */
const EVENT_UNITS_MAX = 32 * 1024 * 1024;

/**
 * Reads the events of a message from the bytes of a stream. After an error, such as an event that is too long, no more
 * events are read. The caller passes all bytes on in any case.
 */
class MessageEvents {
  readonly #answer: StreamedAnswer;
  readonly #lines = new EventLines('', EVENT_UNITS_MAX);
  #isLost = false;

  constructor(answer: StreamedAnswer) {
    this.#answer = answer;
  }

  take(bytes: Uint8Array): void {
    if (this.#isLost) return;
    try {
      for (const { data } of this.#lines.read(bytes)) this.#takeData(data);
    } catch {
      this.#isLost = true;
    }
  }

  /** Ignores keep-alives, which are empty, and `[DONE]`, with which some servers end a stream. */
  #takeData(data: string): void {
    let event: RawMessageStreamEvent;
    try {
      event = JSON.parse(data) as RawMessageStreamEvent;
      if (holdsInput(event)) event = parseExact(data) as RawMessageStreamEvent;
    } catch {
      return;
    }
    this.#answer.take(event);
  }

  /** Called when the stream was read to its end or left. */
  end(): void {
    if (this.#isLost) return;
    try {
      this.#answer.end();
    } catch {
      this.#isLost = true;
    }
  }
}

/** Whether an event may contain arguments as a value, whose numbers must keep their digits. */
function holdsInput(event: RawMessageStreamEvent): boolean {
  if (event.type === 'content_block_start') return true;
  if (event.type !== 'content_block_delta' || event.delta.type !== 'input_json_delta') return false;
  return typeof event.delta.partial_json !== 'string';
}

/**
 * Builds a message from its events. The message is complete only at `message_stop`, because token counts may arrive
 * just before that event.
 */
class StreamedAnswer {
  readonly #onAnswer: (answer: ModelAnswer) => void;
  readonly #inputs = new Map<number, string>();
  #message: Message | null = null;
  /** Whether the model has reported why it stopped. */
  #hasStopped = false;

  constructor(onAnswer: (answer: ModelAnswer) => void) {
    this.#onAnswer = onAnswer;
  }

  take(event: RawMessageStreamEvent): void {
    if (event.type === 'message_start') this.#message = event.message;
    const message = this.#message;
    if (message === null) return;
    if (event.type === 'content_block_start') message.content[event.index] = event.content_block;
    else if (event.type === 'content_block_delta') addDelta(message, this.#inputs, event);
    else if (event.type === 'message_delta') {
      message.usage = laterUsage(message.usage, event.usage);
      this.#hasStopped = true;
    } else if (event.type === 'message_stop') this.end();
  }

  /** Called at the end of the stream. Reports the answer if it is complete. */
  end(): void {
    const message = this.#message;
    this.#message = null;
    if (message === null || !this.#hasStopped) return;
    for (const [index, json] of this.#inputs)
      Object.assign(message.content[index]!, { input: parseInput(json) });
    this.#onAnswer(answerOf(message.content, message.usage));
  }
}

/**
 * Counts of a later event replace earlier ones, except for 0, which often means that the server does not fill
 * the field.
 */
function laterUsage(before: Usage | undefined, told: MessageDeltaUsage | undefined): Usage {
  const later = Object.entries(told ?? {}).filter(([, value]) => value !== null && value !== 0);
  return { ...before, ...Object.fromEntries(later) } as Usage;
}

function addDelta(
  message: Message,
  inputs: Map<number, string>,
  { index, delta }: Extract<RawMessageStreamEvent, { type: 'content_block_delta' }>,
): void {
  const block = message.content[index];
  if (block === undefined) return;
  if (delta.type === 'text_delta' && block.type === 'text') block.text += delta.text;
  else if (delta.type === 'thinking_delta' && block.type === 'thinking') block.thinking += delta.thinking;
  else if (delta.type === 'input_json_delta')
    inputs.set(index, (inputs.get(index) ?? '') + textOfPart(delta.partial_json));
}

/** The API sends the input as pieces of JSON text. Other servers with the same API may send it as one value. */
function textOfPart(part: unknown): string {
  return typeof part === 'string' ? part : part == null ? '' : (writeJson(part) ?? '');
}

function parseInput(json: string): unknown {
  try {
    return json === '' ? {} : parseExact(json);
  } catch {
    return json;
  }
}

function answerOf(content: Message['content'], usage: Usage | undefined): ModelAnswer {
  const texts: string[] = [];
  const thoughts: string[] = [];
  const calls: AskedCall[] = [];
  for (const block of content) {
    if (block.type === 'text') texts.push(block.text);
    else if (block.type === 'thinking') thoughts.push(block.thinking);
    else if (block.type === 'tool_use') calls.push({ id: block.id, name: block.name, input: block.input });
  }
  return { text: texts.join(''), thinking: thoughts.join('\n'), calls, tokens: tokensOf(usage) };
}

/** Token counts of a request. If the conversation was compacted during the request, the counts are per iteration. */
type Counted = Partial<Usage> & { iterations?: readonly Partial<Usage>[] | null };

function tokensOf(usage: Counted | undefined): number {
  const { iterations } = usage ?? {};
  const parts = Array.isArray(iterations) && iterations.length > 0 ? iterations : [usage ?? {}];
  return parts.reduce(
    (sum, part) =>
      sum +
      (part.input_tokens ?? 0) +
      (part.output_tokens ?? 0) +
      (part.cache_creation_input_tokens ?? 0) +
      (part.cache_read_input_tokens ?? 0),
    0,
  );
}
