/**
 * The client side of a run, with the official SDKs as agents use them: it keeps the conversation in the wire's form and
 * requests one answer at a time, whole or streamed. Bench process.
 */

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import type { Answer, HeldBackAgent, Result, Run } from './held-back-agent.ts';

const MAX_TOKENS = 2_000;
/** The trial counts requests, so the SDK must not repeat any. */
const MAX_RETRIES = 0;

interface Asked {
  answer: Answer;
  is_served: boolean;
}

export interface AgentClient {
  /** Sends the next request. @throws the errors of the SDK */
  ask(): Promise<Asked>;
  /** Adds results to the conversation. @param results the results of the last answer's calls, in their order */
  tell(results: readonly Result[]): void;
}

/**
 * Opens the client of an agent's wire format.
 * @param url of the gateway
 * @param label of the run, if the client labels its requests
 */
export function openClient(agent: HeldBackAgent, run: Run, url: string, label: string): AgentClient {
  const labels = agent.is_labelled ? label : null;
  if (agent.wire === 'messages') return new MessagesClient(agent, run, url, labels);
  const api = new OpenAI({ apiKey: 'sk-held-back', baseURL: `${url}/v1`, maxRetries: MAX_RETRIES });
  return agent.wire === 'responses'
    ? new ResponsesClient(agent, run, api, labels)
    : new ChatClient(agent, run, api, labels);
}

/** Numbers the requests of one run. */
class Labels {
  readonly #run: string | null;
  #seq = 0;

  constructor(run: string | null) {
    this.#run = run;
  }

  next(): { headers?: Record<string, string> } {
    if (this.#run === null) return {};
    this.#seq++;
    return { headers: { 'x-svc-run': this.#run, 'x-svc-seq': String(this.#seq) } };
  }
}

function isServed(response: Response): boolean {
  return response.headers.get('x-svc-served-by') === 'student';
}

class MessagesClient implements AgentClient {
  readonly #agent: HeldBackAgent;
  readonly #api: Anthropic;
  readonly #labels: Labels;
  readonly #system: string;
  readonly #messages: Anthropic.MessageParam[];
  #calls: Anthropic.ToolUseBlock[] = [];

  constructor(agent: HeldBackAgent, run: Run, url: string, label: string | null) {
    this.#agent = agent;
    this.#api = new Anthropic({ apiKey: 'sk-ant-held-back', baseURL: url, maxRetries: MAX_RETRIES });
    this.#labels = new Labels(label);
    this.#system = run.system;
    this.#messages = [{ role: 'user', content: run.task }];
  }

  async ask(): Promise<Asked> {
    const { model, tools, is_streaming } = this.#agent;
    const body = {
      model,
      max_tokens: MAX_TOKENS,
      system: this.#system,
      messages: this.#messages,
      tools: tools.map(({ name, description, parameters }) => ({
        name,
        description,
        input_schema: parameters as Anthropic.Tool.InputSchema,
      })),
    };
    const options = this.#labels.next();
    const { message, response } = is_streaming
      ? await this.#api.messages
          .stream(body, options)
          .withResponse()
          .then(async ({ data, response }) => ({ message: await data.finalMessage(), response }))
      : await this.#api.messages
          .create(body, options)
          .withResponse()
          .then(({ data, response }) => ({ message: data, response }));
    this.#messages.push({ role: 'assistant', content: message.content as Anthropic.ContentBlockParam[] });
    this.#calls = message.content.filter((block) => block.type === 'tool_use');
    const text = message.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
    const calls = this.#calls.map(({ name, input }) => ({
      name,
      input: input as Answer['calls'][0]['input'],
    }));
    return { answer: { text, calls }, is_served: isServed(response) };
  }

  tell(results: readonly Result[]): void {
    this.#messages.push({
      role: 'user',
      content: this.#calls.map(({ id }, at) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: results[at]!.text,
        ...(results[at]!.is_error ? { is_error: true } : {}),
      })),
    });
  }
}

class ChatClient implements AgentClient {
  readonly #agent: HeldBackAgent;
  readonly #api: OpenAI;
  readonly #labels: Labels;
  readonly #messages: OpenAI.ChatCompletionMessageParam[];
  #calls: string[] = [];

  constructor(agent: HeldBackAgent, run: Run, api: OpenAI, label: string | null) {
    this.#agent = agent;
    this.#api = api;
    this.#labels = new Labels(label);
    this.#messages = [
      { role: 'system', content: run.system },
      { role: 'user', content: run.task },
    ];
  }

  async ask(): Promise<Asked> {
    const { model, tools, is_streaming } = this.#agent;
    const body = {
      model,
      messages: this.#messages,
      tools: tools.map(({ name, description, parameters }) => ({
        type: 'function' as const,
        function: { name, description, parameters: parameters as Record<string, unknown> },
      })),
    };
    const options = this.#labels.next();
    const { text, calls, response } = is_streaming
      ? await this.#stream({ ...body, stream: true }, options)
      : await this.#complete(body, options);
    this.#calls = calls.map(({ id }) => id);
    this.#messages.push({
      role: 'assistant',
      content: text === '' ? null : text,
      ...(calls.length === 0
        ? {}
        : {
            tool_calls: calls.map(({ id, name, given }) => ({
              id,
              type: 'function' as const,
              function: { name, arguments: given },
            })),
          }),
    });
    const read = calls.map(({ name, given }) => ({ name, input: JSON.parse(given || '{}') }));
    return { answer: { text, calls: read }, is_served: isServed(response) };
  }

  async #complete(body: OpenAI.ChatCompletionCreateParamsNonStreaming, options: object) {
    const { data, response } = await this.#api.chat.completions.create(body, options).withResponse();
    const { message } = data.choices[0]!;
    const calls = (message.tool_calls ?? []).flatMap((call) =>
      call.type === 'function'
        ? [{ id: call.id, name: call.function.name, given: call.function.arguments }]
        : [],
    );
    return { text: message.content ?? '', calls, response };
  }

  async #stream(body: OpenAI.ChatCompletionCreateParamsStreaming, options: object) {
    const { data, response } = await this.#api.chat.completions.create(body, options).withResponse();
    const calls: { id: string; name: string; given: string }[] = [];
    let text = '';
    for await (const { choices } of data) {
      const delta = choices[0]?.delta;
      text += delta?.content ?? '';
      for (const part of delta?.tool_calls ?? []) {
        calls[part.index] ??= { id: '', name: '', given: '' };
        const call = calls[part.index]!;
        call.id ||= part.id ?? '';
        call.name ||= part.function?.name ?? '';
        call.given += part.function?.arguments ?? '';
      }
    }
    return { text, calls, response };
  }

  tell(results: readonly Result[]): void {
    for (const [at, id] of this.#calls.entries())
      this.#messages.push({ role: 'tool', tool_call_id: id, content: results[at]!.text });
  }
}

class ResponsesClient implements AgentClient {
  readonly #agent: HeldBackAgent;
  readonly #api: OpenAI;
  readonly #labels: Labels;
  readonly #system: string;
  readonly #input: OpenAI.Responses.ResponseInputItem[];
  #calls: string[] = [];

  constructor(agent: HeldBackAgent, run: Run, api: OpenAI, label: string | null) {
    this.#agent = agent;
    this.#api = api;
    this.#labels = new Labels(label);
    this.#system = run.system;
    this.#input = [{ role: 'user', content: run.task }];
  }

  async ask(): Promise<Asked> {
    const { model, tools, is_streaming } = this.#agent;
    const body = {
      model,
      instructions: this.#system,
      input: this.#input,
      store: false,
      tools: tools.map(({ name, description, parameters }) => ({
        type: 'function' as const,
        name,
        description,
        parameters: parameters as Record<string, unknown>,
        strict: false,
      })),
    };
    const options = this.#labels.next();
    const { output, response } = is_streaming
      ? await this.#stream({ ...body, stream: true }, options)
      : await this.#api.responses
          .create(body, options)
          .withResponse()
          .then(({ data, response }) => ({ output: data.output, response }));
    this.#input.push(...(output as OpenAI.Responses.ResponseInputItem[]));
    const calls = output.filter((item) => item.type === 'function_call');
    this.#calls = calls.map(({ call_id }) => call_id);
    const text = output
      .flatMap((item) => (item.type === 'message' ? item.content : []))
      .map((part) => (part.type === 'output_text' ? part.text : ''))
      .join('');
    const read = calls.map(({ name, arguments: given }) => ({ name, input: JSON.parse(given || '{}') }));
    return { answer: { text, calls: read }, is_served: isServed(response) };
  }

  async #stream(body: OpenAI.Responses.ResponseCreateParamsStreaming, options: object) {
    const { data, response } = await this.#api.responses.create(body, options).withResponse();
    let output: OpenAI.Responses.ResponseOutputItem[] | null = null;
    for await (const event of data) if (event.type === 'response.completed') output = event.response.output;
    if (output === null) throw new Error('the stream ended without its answer');
    return { output, response };
  }

  tell(results: readonly Result[]): void {
    for (const [at, id] of this.#calls.entries())
      this.#input.push({ type: 'function_call_output', call_id: id, output: results[at]!.text });
  }
}
