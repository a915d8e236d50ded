/**
 * `understudy/anthropic`: agents written with the Anthropic SDK itself (`@anthropic-ai/sdk`), its tool runner included. One middleware
 * of the client sees what is asked and what is answered, and brings interventions to the next call of the model. Any thread.
 *
 * Results of tools are seen in the request that brings them to the model. A whole answer is read by `ctx.parse`; a stream's bytes
 * are looked at as they pass. (`ctx.parse` copies a stream, and who leaves one of two copies early waits for the other's end.)
 */

import type { Middleware } from '@anthropic-ai/sdk';
import type {
  Message,
  MessageCreateParamsBase,
  MessageParam,
  RawMessageStreamEvent,
  Usage,
} from '@anthropic-ai/sdk/resources/messages/messages';
import { textOfParts } from '../client/observation.ts';
import type { AgentSteps, AskedCall, ModelAnswer } from './agent-steps.ts';
import { stepsAround, type WatchOptions, watch } from './watched-run.ts';

type APIRequest = Parameters<Middleware>[0];

const NAME = 'understudy/anthropic';

/** `new Anthropic({ middleware: [understudyMiddleware()] })`; where there are several, the last one, next to the network. */
export function understudyMiddleware(options: WatchOptions = {}): Middleware {
  return async (request, next, ctx) => {
    const steps = isMessagesCall(request) ? stepsAround(options) : null;
    if (steps === null) return next(request);
    watch(NAME, options, () => settleResults(steps, ctx.options?.body as Partial<MessageCreateParamsBase>));
    const response = await tell(steps, request, next);
    if (!response.ok) return response;
    const onAnswer = (answer: ModelAnswer) => watch(NAME, options, () => steps.answered(answer));
    if (ctx.options?.stream === true) return tap(response, onAnswer);
    // A reader of the response itself gets the same error.
    await ctx.parse<Message>(response).then(
      (message) => watch(NAME, options, () => steps.answered(answerOf(message.content, message.usage))),
      () => {},
    );
    return response;
  };
}

/** Token counts, batches and models have other paths. */
function isMessagesCall({ method, url }: APIRequest): boolean {
  return method?.toUpperCase() === 'POST' && /\/v1\/messages(\?|$)/.test(url);
}

/** Of the results only those that came back since the model's last answer. */
function settleResults(steps: AgentSteps, { messages = [] }: Partial<MessageCreateParamsBase>): void {
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

/** Sends the request, with what the run should be told where there is something. */
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

/** @returns null for a body that another middleware has made something else of */
function addText(request: APIRequest, text: string): APIRequest | null {
  try {
    const params = JSON.parse(String(request.body)) as MessageCreateParamsBase & { thread?: unknown };
    // A thread keeps the system prompt that it is sent for the turns that follow: there it is said in the turn.
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

/** @returns the response with the same bytes; its answer is known before the agent has read it to its end */
function tap(response: Response, onAnswer: (answer: ModelAnswer) => void): Response {
  if (response.body === null) return response;
  const lines = new EventLines(new StreamedAnswer(onAnswer));
  const passing = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (bytes, controller) => {
      lines.take(bytes);
      controller.enqueue(bytes);
    },
  });
  const tapped = new Response(response.body.pipeThrough(passing), response);
  // What a new response lacks.
  return Object.defineProperty(tapped, 'url', { value: response.url });
}

/** Longer lines of a stream than this are no events of a model. */
const LINE_UNITS_MAX = 32 * 1024 * 1024;

/** The `data:` lines of a stream of events; in this API each is one event. */
class EventLines {
  readonly #answer: StreamedAnswer;
  readonly #decoder = new TextDecoder();
  #rest = '';
  #isLost = false;

  constructor(answer: StreamedAnswer) {
    this.#answer = answer;
  }

  /** What is no stream of events, or none that is known, is passed on all the same. */
  take(bytes: Uint8Array): void {
    if (this.#isLost) return;
    try {
      const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split('\n');
      this.#rest = lines.pop()!;
      this.#isLost = this.#rest.length > LINE_UNITS_MAX;
      for (const line of lines) if (line.startsWith('data:')) this.#answer.take(JSON.parse(line.slice(5)));
    } catch {
      this.#isLost = true;
    }
    if (this.#isLost) this.#rest = '';
  }
}

/** A message from its events. */
class StreamedAnswer {
  readonly #onAnswer: (answer: ModelAnswer) => void;
  readonly #inputs = new Map<number, string>();
  #message: Message | null = null;

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
      for (const [index, json] of this.#inputs)
        Object.assign(message.content[index]!, { input: parseInput(json) });
      this.#onAnswer(
        answerOf(message.content, { ...message.usage, output_tokens: event.usage.output_tokens }),
      );
      this.#message = null;
    }
  }
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
    inputs.set(index, (inputs.get(index) ?? '') + delta.partial_json);
}

function parseInput(json: string): unknown {
  try {
    return json === '' ? {} : JSON.parse(json);
  } catch {
    return json;
  }
}

function answerOf(content: Message['content'], usage: Usage): ModelAnswer {
  const texts: string[] = [];
  const thoughts: string[] = [];
  const calls: AskedCall[] = [];
  for (const block of content) {
    if (block.type === 'text') texts.push(block.text);
    else if (block.type === 'thinking') thoughts.push(block.thinking);
    else if (block.type === 'tool_use') calls.push({ id: block.id, name: block.name, input: block.input });
  }
  const tokens =
    usage.input_tokens +
    usage.output_tokens +
    (usage.cache_creation_input_tokens ?? 0) +
    (usage.cache_read_input_tokens ?? 0);
  return { text: texts.join(''), thinking: thoughts.join('\n'), calls, tokens };
}
