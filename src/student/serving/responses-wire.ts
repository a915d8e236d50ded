/**
 * Responses as a wire: reads its requests, and writes a student's answer as the API would have sent it, as one JSON
 * body or as all events of a stream in one burst. Pure except for ids and the clock; teaching and the student's thread.
 * Source: OpenAI's API reference, "Responses" and "Streaming events".
 *
 * The API keeps an answer unless `store` is false. A request without `store: false` goes to the upstream, because later
 * requests may refer to the answer.
 */

import type { NormalRequest, TurnMessage } from '../../domain/turn.ts';
import { asArray, asObject, asText, type JsonObject } from '../../providers/json-reading.ts';
import type { NormalReading } from '../../providers/normal-reading.ts';
import { listDeclaredTools, readNormalResponses } from '../../providers/responses/request.ts';
import { systemClock } from '../../std/clock.ts';
import type { CallForm, CallForms, StudentAnswer, StudentBlock } from '../model/decision.ts';
import { checkOpenAiSettings, checkOpenAiTools } from './openai-rules.ts';
import { Breaches, cutText, drawId, otherFields, type Wire, type WireAnswer } from './wire.ts';

/** Fields that the normal form holds, or that do not affect the answer. */
const LEFT_OUT = new Set([
  'model',
  'input',
  'instructions',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'reasoning',
  'max_output_tokens',
  'stream',
  'stream_options',
  'metadata',
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'client_metadata',
  'store',
]);
const ROLES = new Set(['system', 'developer', 'user', 'assistant']);
/** Known parts of a message's content; other parts are not read. */
const PARTS = new Set(['input_text', 'output_text', 'refusal', 'input_image', 'input_file', 'input_audio']);
const ID_CHARACTERS = 50;

export const responsesWire: Wire = {
  name: 'responses',
  result_id_key: 'call_id',
  readRequest,
  findBreaches,
  readSettings: (body) => otherFields(body, LEFT_OUT),
  findUnsupported,
  endsWithUser: (body) => typeof body.input === 'string' || !isAnswer(asObject(asArray(body.input).at(-1))),
  stopWords: () => [],
  callable,
  writeAnswer,
};

/** Reads a request. The items of one answer become one message, as on the other wires. */
function readRequest(body: JsonObject, reading: NormalReading): NormalRequest {
  const request = readNormalResponses(body, reading);
  const messages: TurnMessage[] = [];
  for (const message of request.messages) {
    const last = messages.at(-1);
    if (message.role === 'assistant' && last?.role === 'assistant') last.content.push(...message.content);
    else messages.push(message);
  }
  return { ...request, messages };
}

/** The namespace whose tools are called like those outside namespaces, by their names alone. */
const OPEN_NAMESPACE = 'functions';
const FORMS: ReadonlyMap<unknown, CallForm> = new Map([
  ['function', 'arguments'],
  ['custom', 'text'],
  ['local_shell', 'local_shell'],
]);

/**
 * Lists the tools that an answer can call by their names alone, without those whose name also another tool has, of
 * another kind or in a namespace.
 */
function callable(body: JsonObject): CallForms {
  const forms = new Map<string, CallForm>();
  const others = new Set<string>();
  const add = ({ type, name }: JsonObject, isOpen: boolean): void => {
    const called = type === 'local_shell' ? type : asText(name);
    if (called === null) return;
    const form = isOpen ? FORMS.get(type) : undefined;
    if (form === undefined || (forms.get(called) ?? form) !== form) others.add(called);
    else forms.set(called, form);
  };
  for (const tool of listDeclaredTools(body).map(asObject))
    if (tool.type === 'namespace')
      for (const inner of asArray(tool.tools).map(asObject)) add(inner, tool.name === OPEN_NAMESPACE);
    else add(tool, true);
  for (const name of others) forms.delete(name);
  return forms;
}

function isAnswer({ type, role }: JsonObject): boolean {
  if (type === undefined || type === 'message') return role === 'assistant';
  return !String(type).endsWith('_output');
}

function findUnsupported(body: JsonObject): string {
  // A frame of a WebSocket has this field. WebSockets are tunnels, in which the student is not asked.
  if (body.type != null) return 'came over a WebSocket';
  if (body.store !== false) return 'the provider keeps the answer (store is not false)';
  if (body.background === true) return 'asks for an answer in the background';
  if (body.prompt != null) return 'names a prompt that the provider keeps';
  if (Number(body.top_logprobs ?? 0) > 0) return 'asks for probabilities of tokens';
  if (asArray(body.include).some((field) => field === 'message.output_text.logprobs'))
    return 'asks for probabilities of tokens';
  return '';
}

function findBreaches(body: JsonObject): string[] {
  const breaches = new Breaches();
  checkOpenAiSettings(body, ['max_output_tokens'], breaches);
  breaches.expect('instructions', body.instructions == null || typeof body.instructions === 'string');
  const choice = asObject(body.tool_choice);
  const chosen = choice.type === 'function' ? choice.name : undefined;
  checkOpenAiTools(body, listDeclaredTools(body).map(asObject), chosen, breaches);
  checkInput(body.input, breaches);
  return breaches.list();
}

/**
 * Checks the items: each call must have its result somewhere after the call, and each result its call somewhere before
 * the result.
 */
function checkInput(value: unknown, breaches: Breaches): void {
  if (typeof value === 'string') return breaches.expect('input', value !== '');
  breaches.expect('input', Array.isArray(value) && value.length > 0);
  const waiting = new Set<string>();
  for (const item of asArray(value)) {
    const { type = 'message', role, content, call_id, name } = asObject(item);
    const kind = String(type).slice(0, 64);
    if (kind === 'message') {
      breaches.expect(`role ${String(role).slice(0, 64)}`, ROLES.has(String(role)));
      breaches.expect('content', typeof content === 'string' || Array.isArray(content));
      for (const part of asArray(content)) {
        const { type: partType } = asObject(part);
        breaches.expect(`part ${String(partType).slice(0, 64)}`, PARTS.has(String(partType)));
      }
    } else if (kind.endsWith('_output') && call_id !== undefined) {
      breaches.expect('results', waiting.delete(String(call_id)));
    } else if (kind.endsWith('_call') && call_id !== undefined) {
      breaches.expect('calls', typeof call_id === 'string' && call_id !== '' && !waiting.has(call_id));
      breaches.expect('calls', kind !== 'function_call' || typeof name === 'string');
      waiting.add(String(call_id));
    } else if (kind === 'additional_tools') {
      const { id: _id, type: _type, role: _role, tools, ...others } = asObject(item);
      breaches.expect('tools', Array.isArray(tools) && Object.keys(others).length === 0);
    } else if (kind !== 'reasoning') breaches.expect(`item ${kind}`, false);
  }
  breaches.expect('results', waiting.size === 0);
}

type CallItem =
  | { id: string; type: 'function_call'; status: string; arguments: string; call_id: string; name: string }
  | { id: string; type: 'custom_tool_call'; status: string; call_id: string; input: string; name: string }
  | { id: string; type: 'local_shell_call'; status: string; action: unknown; call_id: string };
type OutputItem =
  | { id: string; type: 'message'; status: string; role: 'assistant'; content: OutputText[] }
  | CallItem;
interface OutputText {
  type: 'output_text';
  annotations: [];
  logprobs: [];
  text: string;
}

function writeAnswer(answer: StudentAnswer, body: JsonObject): WireAnswer {
  const forms = callable(body);
  const output = answer.content.map((block): OutputItem => {
    if (block.type === 'text') {
      const content: OutputText[] = [
        { type: 'output_text', annotations: [], logprobs: [], text: block.text },
      ];
      return {
        id: drawId('msg_', ID_CHARACTERS),
        type: 'message',
        status: 'completed',
        role: 'assistant',
        content,
      };
    }
    return writeCall(block, forms?.get(block.name) ?? 'arguments');
  });
  const response = makeResponse(answer, body, output);
  const text = body.stream === true ? writeEvents(response, output) : JSON.stringify(response);
  return {
    body: new TextEncoder().encode(text),
    request_id: drawId('req_', 32),
    call_ids: output.flatMap((item) => (item.type === 'message' ? [] : [item.call_id])),
  };
}

type CallBlock = Extract<StudentBlock, { type: 'tool_call' }>;

function writeCall({ name, input }: CallBlock, form: CallForm): CallItem {
  const [status, call_id] = ['completed', drawId('call_', 24)];
  if (form === 'text') {
    const id = drawId('ctc_', ID_CHARACTERS);
    return { id, type: 'custom_tool_call', status, call_id, input: String(input), name };
  }
  if (form === 'local_shell')
    return { id: drawId('lsh_', ID_CHARACTERS), type: 'local_shell_call', status, action: input, call_id };
  const id = drawId('fc_', ID_CHARACTERS);
  return { id, type: 'function_call', status, arguments: JSON.stringify(input), call_id, name };
}

/** Makes the response object. Like the API, it echoes the request's settings and fills in the API's defaults. */
function makeResponse(
  { input_tokens, output_tokens }: StudentAnswer,
  body: JsonObject,
  output: OutputItem[],
) {
  const [input, out] = [Math.round(input_tokens), Math.round(output_tokens)];
  const { effort = null, summary = null } = asObject(body.reasoning);
  const { format = { type: 'text' }, verbosity = 'medium' } = asObject(body.text);
  const at = Math.floor(systemClock.wallMs() / 1_000);
  return {
    id: drawId('resp_', ID_CHARACTERS),
    object: 'response',
    created_at: at,
    status: 'completed',
    background: false,
    completed_at: at as number | null,
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    model: String(body.model),
    output,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort, summary },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: 'default',
    store: false,
    temperature: body.temperature ?? 1,
    text: { format, verbosity },
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_logprobs: 0,
    top_p: body.top_p ?? 1,
    truncation: body.truncation ?? 'disabled',
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: out,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + out,
    },
    user: body.user ?? null,
    metadata: body.metadata ?? {},
  };
}

function writeEvents(response: ReturnType<typeof makeResponse>, output: readonly OutputItem[]): string {
  let text = '';
  let sequence_number = 0;
  const add = (type: string, fields: object): void => {
    text += `event: ${type}\ndata: ${JSON.stringify({ type, ...fields, sequence_number })}\n\n`;
    sequence_number++;
  };
  const begun = { ...response, status: 'in_progress', completed_at: null, output: [], usage: null };
  add('response.created', { response: begun });
  add('response.in_progress', { response: begun });
  for (const [output_index, item] of output.entries()) {
    const at = { item_id: item.id, output_index };
    if (item.type === 'local_shell_call') {
      add('response.output_item.added', { output_index, item: { ...item, status: 'in_progress' } });
    } else if (item.type === 'custom_tool_call') {
      add('response.output_item.added', {
        output_index,
        item: { ...item, status: 'in_progress', input: '' },
      });
      for (const delta of cutText(item.input)) add('response.custom_tool_call_input.delta', { ...at, delta });
      add('response.custom_tool_call_input.done', { ...at, input: item.input });
    } else if (item.type === 'function_call') {
      add('response.output_item.added', {
        output_index,
        item: { ...item, status: 'in_progress', arguments: '' },
      });
      for (const delta of cutText(item.arguments))
        add('response.function_call_arguments.delta', { ...at, delta });
      add('response.function_call_arguments.done', { ...at, arguments: item.arguments });
    } else {
      const part = item.content[0]!;
      const inPart = { ...at, content_index: 0 };
      add('response.output_item.added', {
        output_index,
        item: { ...item, status: 'in_progress', content: [] },
      });
      add('response.content_part.added', { ...inPart, part: { ...part, text: '' } });
      for (const delta of cutText(part.text))
        add('response.output_text.delta', { ...inPart, delta, logprobs: [] });
      add('response.output_text.done', { ...inPart, text: part.text, logprobs: [] });
      add('response.content_part.done', { ...inPart, part });
    }
    add('response.output_item.done', { output_index, item });
  }
  add('response.completed', { response });
  return text;
}
