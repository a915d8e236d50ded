/**
 * Converts agents' spans and log records to steps of runs: finds the tool calls among them, their runs and their texts.
 * docs/otel.md says what each instrumentation sends, with sources. Pure; any thread.
 *
 * Each record is a report of one call, with a unique key. src/domain/reported-calls.ts decides which reports belong to
 * the same call, because it knows the earlier reports of the run.
 */
import { hash } from 'node:crypto';
import type { CallReport } from '../domain/reported-calls.ts';
import { contentOf, firstKnown, firstText, knownText, parseJson, textOf } from './attribute-text.ts';
import { OTLP_BOUNDS } from './limits.ts';
import type { Attributes, Origin, OtlpLog, OtlpSpan } from './records.ts';
import { INPUT_MESSAGES, messagesOf, promptOf, type SpanMessage, textsOf } from './span-messages.ts';
import {
  callIdOf,
  isFalse,
  isToolSpan,
  ToolFailures,
  toolInputOf,
  toolNameOf,
  toolOutputOf,
} from './tool-spans.ts';

/** A step without an index. null: the text is unknown. */
interface ToolStep extends Pick<CallReport, 'key' | 'told_by' | 'call'> {
  at_ms: number;
  step: {
    action: string;
    action_input: string | null;
    thought: string;
    observation: string | null;
    is_error: boolean;
    tokens: number;
  };
}

/** The content of a request about one run. Texts are unchanged. */
export interface ToldRun {
  run_id: string;
  agent_name: string;
  framework: string;
  model: string;
  /** The user's earliest prompt in the request; '' if absent. */
  task: string;
  /** `task_profile` and `codebase_id` are attributes of the resource; '' if the attribute is absent. */
  task_profile: string;
  codebase_id: string;
  /** The steps in order of time. */
  steps: ToolStep[];
}

/** Finds the runs in the spans of a request, in order of first mention. Runs without a tool call are left out. */
export function findRunsOfSpans(spans: readonly OtlpSpan[]): ToldRun[] {
  const sessions = new Map<string, string>();
  for (const { trace_id, attributes } of spans) {
    const session = sessionOf(attributes);
    if (session !== '' && !sessions.has(trace_id)) sessions.set(trace_id, session);
  }
  const failures = new ToolFailures(spans);
  const runs = new ToldRuns();
  for (const span of spans) {
    const { attributes, origin, trace_id } = span;
    const run = runs.of(nameRun(attributes, origin, sessions.get(trace_id) ?? trace_id), origin);
    if (run === null) continue;
    run.model ||= modelOf(attributes);
    run.agent_name ||= textOf(attributes.get('gen_ai.agent.name'));
    if (isToolSpan(span)) {
      run.steps.push(readToolSpan(span, failures));
      continue;
    }
    run.prompt(span.start_ms, promptOf(span));
    run.steps.push(...readResults(span));
  }
  // A conversation without tools has no steps to monitor.
  return runs.finish().filter(({ steps }) => steps.length > 0);
}

/** Finds the runs in the log records of a request, in order of first mention. Runs without a tool call are included. */
export function findRunsOfLogs(logs: readonly OtlpLog[]): ToldRun[] {
  const thoughts = findThoughts(logs);
  const runs = new ToldRuns();
  for (const log of logs) {
    const { attributes, origin } = log;
    const event = readEventName(log);
    if (event === null) continue;
    const run = runs.of(nameRun(attributes, origin, sessionOf(attributes) || log.trace_id), origin);
    if (run === null) continue;
    run.framework ||= event.agent;
    run.model ||= modelOf(attributes);
    switch (event.name) {
      case 'user_prompt':
        run.prompt(log.at_ms, knownText(attributes.get('prompt')) ?? '');
        break;
      case 'tool_result':
      case 'tool_call':
        run.steps.push(readToolEvent(log, thoughts));
        break;
    }
  }
  return runs.finish();
}

/** A run while it is assembled. */
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

  /** Takes a prompt. The earliest prompt that is not empty becomes the task. */
  prompt(at_ms: number, text: string): void {
    if (text === '' || at_ms >= this.#taskAt) return;
    this.task = text;
    this.#taskAt = at_ms;
  }
}

class ToldRuns {
  readonly #runs = new Map<string, GrowingRun>();

  /** Finds or makes the run of a record. @returns null for a record that names no run */
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

/** Attributes that name a session or conversation; the first one present counts. */
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

/** An identifier without control or invisible characters, like every identifier of the API. */
const IDENTIFIER = /^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]{1,128}$/u;

function sessionOf(attributes: Attributes): string {
  for (const name of SESSION_NAMES) {
    const value = textOf(attributes.get(name)).trim();
    if (IDENTIFIER.test(value)) return value;
  }
  return '';
}

/**
 * Names the run of a record: the session, or '' without a session. In Claude Code's records, an agent that another
 * agent started is a separate run, which has the name that the hooks and the gateway use.
 */
function nameRun(attributes: Attributes, { scope }: Origin, session: string): string {
  if (!scope.startsWith(CLAUDE_CODE_SCOPE)) return session;
  const agent = textOf(attributes.get('agent_id')).trim();
  const name = `${session}:${agent}`;
  return agent !== '' && IDENTIFIER.test(name) ? name : session;
}

const CLAUDE_CODE_SCOPE = 'com.anthropic.claude_code';

/** The `framework` for each beginning of a scope's name; `ai` only for the whole name. */
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

/** Replaces an id that is long or has unusual characters by its hash, because the id becomes part of a row's key. */
function boundKey(id: string): string {
  return id.length <= OTLP_BOUNDS.key_characters && /^[!-~]+$/.test(id) ? id : hash('sha256', id);
}

function readToolSpan(span: OtlpSpan, failures: ToolFailures): ToolStep {
  const { attributes, trace_id, span_id, start_ms } = span;
  const failure = failures.of(span);
  const action = toolNameOf(span);
  const output = toolOutputOf(span);
  const step = {
    action,
    action_input: toolInputOf(span),
    thought: '',
    observation: output === null || output === '' ? (failure ?? output) : output,
    is_error: failure !== undefined,
    tokens: 0,
  };
  const place = span_id === '' ? JSON.stringify([start_ms, action, step.action_input]) : span_id;
  return {
    key: boundKey(`${trace_id}:${span_id === '' ? hash('sha256', place) : place}`),
    told_by: 'span',
    call: callIdOf(attributes),
    at_ms: start_ms,
    step,
  };
}

/**
 * Reads the tool results after the last answer in a model call. An instrumentation of a provider's
 * library reports only the model calls, and not the execution of tools. The calls of an answer may
 * be spread over several consecutive messages of the assistant.
 */
function readResults(span: OtlpSpan): ToolStep[] {
  const messages = messagesOf(span, INPUT_MESSAGES);
  const last = messages.findLastIndex(({ role }) => role === 'assistant');
  if (last < 0 || last === messages.length - 1) return [];
  const before = messages.slice(0, last).findLastIndex(({ role }) => role !== 'assistant');
  const answer = messages.slice(before + 1, last + 1);
  const thought = answer
    .map(textsOf)
    .filter((text) => text !== '')
    .join('\n');
  const open = answer.flatMap(({ parts }) => parts.filter(({ type }) => type === 'tool_call'));
  const steps: ToolStep[] = [];
  for (const part of messages.slice(last + 1).flatMap(({ parts }) => parts)) {
    if (part.type !== 'tool_call_response') continue;
    // Calls with the same id, or without an id, are matched with results in their order.
    const at = open.findIndex(({ id }) => textOf(id) === textOf(part.id));
    if (at >= 0) steps.push(readResult(span, open.splice(at, 1)[0]!, part, thought, last + steps.length));
  }
  return steps;
}

type Part = SpanMessage['parts'][number];

/**
 * Makes the step of a call and its result.
 * @param place the result's place in the conversation, which is the same when a later request repeats the result
 */
function readResult(
  { start_ms }: OtlpSpan,
  call: Part,
  result: Part,
  thought: string,
  place: number,
): ToolStep {
  const step = {
    action: textOf(call.name),
    action_input: knownText(call.arguments),
    thought,
    observation: contentOf(result.response ?? result.result),
    is_error: result.is_error === true || result.isError === true,
    tokens: 0,
  };
  const id = textOf(call.id);
  const report = JSON.stringify([place, id, step.action, step.action_input, step.observation]);
  return { key: hash('sha256', report), told_by: 'message', call: id, at_ms: start_ms, step };
}

/** Beginnings of event names, by the agents that send them. */
const EVENT_AGENTS: readonly (readonly [beginning: string, agent: string])[] = [
  ['claude_code.', 'claude-code'],
  ['codex.', 'codex'],
  ['gemini_cli.', 'gemini-cli'],
];

/**
 * Reads an event's name, and which agent sent the event. In Claude Code's records, the name in the attribute lacks the
 * prefix of the name in the body.
 * @returns null for a record of another program
 */
function readEventName({ event_name, body, origin }: OtlpLog): { agent: string; name: string } | null {
  for (const full of [event_name, body]) {
    if (typeof full !== 'string') continue;
    for (const [beginning, agent] of EVENT_AGENTS) {
      if (full.startsWith(beginning)) return { agent, name: full.slice(beginning.length) };
    }
  }
  return origin.scope.startsWith(CLAUDE_CODE_SCOPE) ? { agent: 'claude-code', name: event_name } : null;
}

/** Finds the model's texts beside its tool calls, by the id of the request to the provider. */
function findThoughts(logs: readonly OtlpLog[]): Map<string, string> {
  const thoughts = new Map<string, string>();
  for (const log of logs) {
    if (readEventName(log)?.name !== 'assistant_response') continue;
    const request = textOf(log.attributes.get('request_id'));
    if (request !== '') thoughts.set(request, knownText(log.attributes.get('response')) ?? '');
  }
  return thoughts;
}

function readToolEvent(log: OtlpLog, thoughts: ReadonlyMap<string, string>): ToolStep {
  const { attributes, trace_id, at_ms } = log;
  const action = firstText(attributes, ['tool_name', 'function_name']);
  const action_input =
    firstKnown(attributes, ['tool_input', 'arguments', 'function_args']) ?? parametersOf(attributes);
  const call = callIdOf(attributes);
  const output = firstKnown(attributes, ['output', 'tool_result', 'result']);
  const step = {
    action,
    action_input,
    thought: thoughts.get(textOf(attributes.get('request_id'))) ?? '',
    // The class of an error (`error_type`) does not say what went wrong.
    observation: output || (firstKnown(attributes, ['error', 'error_message']) ?? output),
    is_error: isFalse(attributes.get('success')),
    tokens: 0,
  };
  const sequence = textOf(attributes.get('event.sequence'));
  const report = JSON.stringify([trace_id, at_ms, sequence, call, action, action_input]);
  return { key: hash('sha256', report), told_by: 'event', call, at_ms, step };
}

/**
 * Reads Claude Code's `tool_parameters`, which has the complete command for a shell and only a name for other tools.
 * @returns null without a complete command
 */
function parametersOf(attributes: Attributes): string | null {
  const told = knownText(attributes.get('tool_parameters'));
  const parameters = told === null ? undefined : parseJson(told);
  const isWhole = typeof parameters === 'object' && parameters !== null && 'full_command' in parameters;
  return isWhole ? told : null;
}
