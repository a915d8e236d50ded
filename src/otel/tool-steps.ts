/**
 * From spans and log records of agents to steps of runs: which of them are tool calls, of which run, with which texts. What each
 * instrumentation sends, and where that is written, stands in docs/otel.md. Pure; any thread.
 *
 * A tool call has a key within its run: the id that the model gave the call where the record has it, else the span's own. So a call
 * that comes twice, or as a span and as an event, is one step.
 */
import { hash } from 'node:crypto';
import { OTLP_BOUNDS } from '../limits.ts';
import type { Attributes, AttributeValue, Origin, OtlpLog, OtlpSpan } from './records.ts';

/** A step without an index. */
export interface ToolStep {
  key: string;
  at_ms: number;
  step: {
    action: string;
    action_input: string;
    thought: string;
    observation: string;
    is_error: boolean;
    tokens: number;
  };
}

/** What a request tells of a run. Texts are as they came. */
export interface ToldRun {
  run_id: string;
  agent_name: string;
  framework: string;
  model: string;
  /** The first prompt of the user that the request holds; '' for none. */
  task: string;
  /** From the resource; '' for none. */
  task_profile: string;
  codebase_id: string;
  /** In the order of time. */
  steps: ToolStep[];
}

/** Runs of a request in the order in which they are first named. */
export function findRunsOfSpans(spans: readonly OtlpSpan[]): ToldRun[] {
  const sessions = new Map<string, string>();
  for (const { trace_id, attributes } of spans) {
    const session = sessionOf(attributes);
    if (session !== '' && !sessions.has(trace_id)) sessions.set(trace_id, session);
  }
  const failures = findFailures(spans);
  const told = new ToldRuns();
  for (const span of spans) {
    const { attributes, origin, trace_id } = span;
    const run = told.of(nameRun(attributes, origin, sessions.get(trace_id) ?? trace_id), origin);
    if (run === null) continue;
    run.model ||= modelOf(attributes);
    run.agent_name ||= textOf(attributes.get('gen_ai.agent.name'));
    run.prompt(span.start_ms, promptOf(span));
    const step = readToolSpan(span, failures);
    if (step !== null) run.steps.push(step);
    else run.steps.push(...readResults(span));
  }
  // A conversation without tools is nothing to monitor.
  return told.finish().filter(({ steps }) => steps.length > 0);
}

/** @see findRunsOfSpans */
export function findRunsOfLogs(logs: readonly OtlpLog[]): ToldRun[] {
  const thoughts = findThoughts(logs);
  const told = new ToldRuns();
  for (const log of logs) {
    const { attributes, origin } = log;
    const event = readEventName(log);
    if (event === null) continue;
    const run = told.of(nameRun(attributes, origin, sessionOf(attributes) || log.trace_id), origin);
    if (run === null) continue;
    run.framework ||= event.agent;
    run.model ||= modelOf(attributes);
    switch (event.name) {
      case 'user_prompt':
        run.prompt(log.at_ms, readPrompt(textOf(attributes.get('prompt'))));
        break;
      case 'tool_result':
      case 'tool_call':
        run.steps.push(readToolEvent(log, thoughts));
        break;
    }
  }
  return told.finish();
}

/** A run while it is put together. */
class GrowingRun implements ToldRun {
  readonly run_id: string;
  agent_name = '';
  framework: string;
  model = '';
  task = '';
  readonly task_profile: string;
  readonly codebase_id: string;
  readonly steps: ToolStep[] = [];
  #taskAt = Number.POSITIVE_INFINITY;

  constructor(run_id: string, { resource, scope }: Origin) {
    this.run_id = run_id;
    this.framework = frameworkOf(scope);
    this.task_profile = textOf(resource.get('svc.task_profile'));
    this.codebase_id = textOf(resource.get('svc.codebase_id'));
  }

  /** The earliest is the task. */
  prompt(at_ms: number, text: string): void {
    if (text === '' || at_ms >= this.#taskAt) return;
    this.task = text;
    this.#taskAt = at_ms;
  }
}

class ToldRuns {
  readonly #runs = new Map<string, GrowingRun>();

  /** @returns null for a record that names no run at all */
  of(run_id: string, origin: Origin): GrowingRun | null {
    if (run_id === '') return null;
    let run = this.#runs.get(run_id);
    if (run === undefined) {
      run = new GrowingRun(run_id, origin);
      this.#runs.set(run_id, run);
    }
    return run;
  }

  finish(): ToldRun[] {
    for (const run of this.#runs.values()) {
      run.steps.sort((a, b) => a.at_ms - b.at_ms);
      run.agent_name ||= run.framework;
    }
    return [...this.#runs.values()];
  }
}

/** What names a session or conversation, the first that is there. */
const SESSION_NAMES = [
  'session.id',
  'gen_ai.conversation.id',
  'conversation.id',
  'traceloop.association.properties.session_id',
  'traceloop.association.properties.thread_id',
  'langsmith.metadata.thread_id',
  'langsmith.metadata.session_id',
  'langsmith.metadata.conversation_id',
  'ai.telemetry.metadata.sessionId',
  'ai.telemetry.metadata.threadId',
] as const;

/** No control or invisible character, as in every identifier of the API. */
const IDENTIFIER = /^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]{1,128}$/u;

function sessionOf(attributes: Attributes): string {
  for (const name of SESSION_NAMES) {
    const value = textOf(attributes.get(name)).trim();
    if (IDENTIFIER.test(value)) return value;
  }
  return '';
}

/** An agent that another one started has a run of its own, named as the hooks and the gateway name it. */
function nameRun(attributes: Attributes, { scope }: Origin, session: string): string {
  if (!scope.startsWith(CLAUDE_CODE_SCOPE)) return session;
  const agent = textOf(attributes.get('agent_id')).trim();
  const name = `${session}:${agent}`;
  return agent !== '' && IDENTIFIER.test(name) ? name : session;
}

const CLAUDE_CODE_SCOPE = 'com.anthropic.claude_code';

/** Beginnings of scopes, and what stands in `framework` for them. */
const FRAMEWORKS: readonly (readonly [beginning: string, framework: string])[] = [
  [CLAUDE_CODE_SCOPE, 'claude-code'],
  ['codex', 'codex'],
  ['gemini-cli', 'gemini-cli'],
  ['ai', 'ai-sdk'],
];

function frameworkOf(scope: string): string {
  for (const [beginning, framework] of FRAMEWORKS) {
    if (scope === beginning || (beginning !== 'ai' && scope.startsWith(beginning))) return framework;
  }
  if (scope.includes('langchain') || scope.startsWith('langsmith')) return 'langchain';
  return scope;
}

function modelOf(attributes: Attributes): string {
  for (const name of ['gen_ai.request.model', 'ai.model.id', 'llm.model_name', 'model']) {
    const model = textOf(attributes.get(name));
    if (model !== '') return model;
  }
  return '';
}

/** A call's id as the model gave it, where the record has it; else the span's. */
function keyOf(attributes: Attributes, trace_id: string, span_id: string, rest: string): string {
  for (const name of CALL_IDS) {
    const id = textOf(attributes.get(name));
    if (id !== '') return boundKey(id);
  }
  return boundKey(span_id === '' ? `${trace_id}:${hash('sha256', rest)}` : `${trace_id}:${span_id}`);
}

const CALL_IDS = [
  'gen_ai.tool.call.id',
  'tool_use_id',
  'call_id',
  'ai.toolCall.id',
  'tool.id',
  'tool_call.id',
];

/** What is no plain short word is named by its hash: a key is part of a row's. */
function boundKey(id: string): string {
  return id.length <= OTLP_BOUNDS.key_characters && /^[!-~]+$/.test(id) ? id : hash('sha256', id);
}

function readToolSpan(span: OtlpSpan, failures: ReadonlyMap<string, string>): ToolStep | null {
  const { attributes, trace_id, span_id } = span;
  if (!isToolSpan(span)) return null;
  const call = textOf(attributes.get('gen_ai.tool.call.id')) || textOf(attributes.get('tool_use_id'));
  const failure = failures.get(span_id) ?? (call === '' ? undefined : failures.get(call));
  const output = firstText(attributes, OUTPUTS) || readOutputEvent(span);
  return {
    key: keyOf(attributes, trace_id, span_id, ''),
    at_ms: span.start_ms,
    step: {
      action: firstText(attributes, TOOL_NAMES) || span.name.replace(/^execute_tool /, ''),
      action_input: firstText(attributes, INPUTS),
      thought: '',
      observation: output || (failure ?? ''),
      is_error: failure !== undefined,
      tokens: 0,
    },
  };
}

const TOOL_NAMES = [
  'gen_ai.tool.name',
  'tool.name',
  'ai.toolCall.name',
  'tool_name',
  'traceloop.entity.name',
  'langsmith.trace.name',
];
const INPUTS = [
  'gen_ai.tool.call.arguments',
  'ai.toolCall.args',
  'traceloop.entity.input',
  'input.value',
  'tool.parameters',
  'tool_input',
  'full_command',
  'file_path',
  'gen_ai.prompt',
];
const OUTPUTS = [
  'gen_ai.tool.call.result',
  'ai.toolCall.result',
  'traceloop.entity.output',
  'output.value',
  'gen_ai.completion',
];

function isToolSpan({ name, attributes }: OtlpSpan): boolean {
  return (
    attributes.get('gen_ai.operation.name') === 'execute_tool' ||
    attributes.get('openinference.span.kind') === 'TOOL' ||
    attributes.get('traceloop.span.kind') === 'tool' ||
    attributes.get('langsmith.span.kind') === 'tool' ||
    attributes.get('ai.operationId') === 'ai.toolCall' ||
    name === 'ai.toolCall'
  );
}

/** Claude Code's `tool.output`. */
function readOutputEvent({ events }: OtlpSpan): string {
  for (const { name, attributes } of events) {
    if (name === 'tool.output') return firstText(attributes, ['output', 'content', 'result']);
  }
  return '';
}

/** Why tool spans failed, by the span and by the call that a span within it names. */
function findFailures(spans: readonly OtlpSpan[]): Map<string, string> {
  const failures = new Map<string, string>();
  for (const { span_id, attributes, events, is_error, status_message } of spans) {
    const hasFailed = is_error || isFalse(attributes.get('success'));
    if (!hasFailed) continue;
    const thrown = events.find(({ name }) => name === 'exception')?.attributes;
    const reason =
      (thrown === undefined ? '' : textOf(thrown.get('exception.message'))) ||
      textOf(attributes.get('error')) ||
      status_message ||
      textOf(attributes.get('error.type'));
    failures.set(span_id, reason);
    const call = textOf(attributes.get('gen_ai.tool.call.id')) || textOf(attributes.get('tool_use_id'));
    if (call !== '') failures.set(call, reason);
  }
  return failures;
}

function isFalse(value: AttributeValue | undefined): boolean {
  return value === false || value === 'false';
}

/** The first prompt of a user that the span holds. */
function promptOf({ attributes }: OtlpSpan): string {
  const plain = readPrompt(textOf(attributes.get('user_prompt')));
  if (plain !== '') return plain;
  for (const { role, parts } of readMessages(attributes.get('gen_ai.input.messages'))) {
    if (role !== 'user') continue;
    const text = parts.flatMap((part) => (part.type === 'text' ? [textOf(part.content)] : [])).join('\n');
    if (text !== '') return text;
  }
  if (attributes.get('llm.input_messages.0.message.role') === 'user')
    return textOf(attributes.get('llm.input_messages.0.message.content'));
  return textOf(attributes.get('llm.input_messages.1.message.content'));
}

/** What stands for a prompt that is not told. */
function readPrompt(text: string): string {
  return /^[<[]REDACTED[>\]]$/i.test(text) ? '' : text;
}

interface Message {
  role: string;
  parts: readonly Readonly<Record<string, AttributeValue>>[];
}

/** `gen_ai.input.messages`, structured or as JSON. */
function readMessages(value: AttributeValue | undefined): Message[] {
  let list: unknown = value;
  if (typeof value === 'string') {
    if (value.length > OTLP_BOUNDS.messages_characters) return [];
    try {
      list = JSON.parse(value);
    } catch {
      // Cut off by a bound on attributes.
      return [];
    }
  }
  if (!Array.isArray(list)) return [];
  return list.flatMap((message: unknown): Message[] => {
    if (typeof message !== 'object' || message === null) return [];
    const { role, parts } = message as { role?: unknown; parts?: unknown };
    if (typeof role !== 'string' || !Array.isArray(parts)) return [];
    return [{ role, parts: parts.filter((part) => typeof part === 'object' && part !== null) }];
  });
}

/**
 * Results of tools that a call of a model brings behind its last answer: an instrumentation of a provider's library sees no tool,
 * but what the model is told of it.
 */
function readResults({ attributes, start_ms }: OtlpSpan): ToolStep[] {
  const messages = readMessages(attributes.get('gen_ai.input.messages'));
  const asked = messages.findLastIndex(({ role }) => role === 'assistant');
  if (asked < 0) return [];
  const calls = messages[asked]!.parts;
  const thought = calls.flatMap((part) => (part.type === 'text' ? [textOf(part.content)] : [])).join('\n');
  return messages.slice(asked + 1).flatMap(({ parts }) =>
    parts.flatMap((part): ToolStep[] => {
      const id = textOf(part.id);
      if (part.type !== 'tool_call_response' || id === '') return [];
      const call = calls.find((one) => one.type === 'tool_call' && one.id === id);
      if (call === undefined) return [];
      const step = {
        action: textOf(call.name),
        action_input: textOf(call.arguments),
        thought,
        observation: textOf(part.response ?? part.result),
        is_error: false,
        tokens: 0,
      };
      return [{ key: boundKey(id), at_ms: start_ms, step }];
    }),
  );
}

/** Beginnings of the names of events, by the agents that send them. */
const EVENT_AGENTS: readonly (readonly [beginning: string, agent: string])[] = [
  ['claude_code.', 'claude-code'],
  ['codex.', 'codex'],
  ['gemini_cli.', 'gemini-cli'],
];

/** Claude Code's attribute says the name without what its body begins with. */
function readEventName({ event_name, body, origin }: OtlpLog): { agent: string; name: string } | null {
  for (const full of [event_name, body]) {
    if (typeof full !== 'string') continue;
    for (const [beginning, agent] of EVENT_AGENTS) {
      if (full.startsWith(beginning)) return { agent, name: full.slice(beginning.length) };
    }
  }
  return origin.scope.startsWith(CLAUDE_CODE_SCOPE) ? { agent: 'claude-code', name: event_name } : null;
}

/** What the model said beside its calls, by the request to the provider. */
function findThoughts(logs: readonly OtlpLog[]): Map<string, string> {
  const thoughts = new Map<string, string>();
  for (const log of logs) {
    if (readEventName(log)?.name !== 'assistant_response') continue;
    const request = textOf(log.attributes.get('request_id'));
    if (request !== '') thoughts.set(request, readPrompt(textOf(log.attributes.get('response'))));
  }
  return thoughts;
}

function readToolEvent(log: OtlpLog, thoughts: ReadonlyMap<string, string>): ToolStep {
  const { attributes, trace_id, at_ms } = log;
  const error = firstText(attributes, ['error', 'error_message', 'error_type']);
  const action = firstText(attributes, ['tool_name', 'function_name']);
  const input = firstText(attributes, ['tool_input', 'arguments', 'function_args', 'tool_parameters']);
  return {
    // Gemini CLI's calls have no id: one of a moment with one input is one.
    key: keyOf(attributes, trace_id, '', JSON.stringify([at_ms, action, input])),
    at_ms,
    step: {
      action,
      action_input: input,
      thought: thoughts.get(textOf(attributes.get('request_id'))) ?? '',
      observation: firstText(attributes, ['output', 'tool_result', 'result']) || error,
      is_error: isFalse(attributes.get('success')),
      tokens: 0,
    },
  };
}

function firstText(attributes: Attributes, names: readonly string[]): string {
  for (const name of names) {
    const text = textOf(attributes.get(name));
    if (text !== '') return text;
  }
  return '';
}

/** A value as a step has it: a text as it is, all else as JSON. */
function textOf(value: AttributeValue | undefined): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value.toWellFormed();
  try {
    return JSON.stringify(value).toWellFormed();
  } catch {
    // Nested deeper than anything that is meant: it came as JSON within a text.
    return '';
  }
}
