/**
 * Spans that represent one tool call: how to recognise them, the tool's input and output, and whether it failed.
 * Content is in attributes or events of the span. Without these, it is unknown. docs/otel.md says what each
 * instrumentation sends, with sources. Pure; any thread.
 */
import { contentOf, firstKnown, firstText, knownText, textOf } from './attribute-text.ts';
import type { Attributes, AttributeValue, OtlpSpan } from './records.ts';
import { INPUT_MESSAGES, messagesOf, OUTPUT_MESSAGES } from './span-messages.ts';

/** Whether the span represents a tool call. */
export function isToolSpan({ name, attributes }: OtlpSpan): boolean {
  return (
    attributes.get('gen_ai.operation.name') === 'execute_tool' ||
    attributes.get('openinference.span.kind') === 'TOOL' ||
    attributes.get('traceloop.span.kind') === 'tool' ||
    attributes.get('langsmith.span.kind') === 'tool' ||
    attributes.get('ai.operationId') === 'ai.toolCall' ||
    name === 'ai.toolCall'
  );
}

const TOOL_NAMES = [
  'gen_ai.tool.name',
  'tool.name',
  'ai.toolCall.name',
  'tool_name',
  'traceloop.entity.name',
  'langsmith.trace.name',
];

/** Finds the tool's name, in an attribute or in the span's name. */
export function toolNameOf({ name, attributes }: OtlpSpan): string {
  return firstText(attributes, TOOL_NAMES) || name.replace(/^execute_tool /, '');
}

const CALL_IDS = [
  'gen_ai.tool.call.id',
  'tool_use_id',
  'call_id',
  'ai.toolCall.id',
  'tool.id',
  'tool_call.id',
];

/** Finds the model's id for the call; '' if absent. */
export function callIdOf(attributes: Attributes): string {
  return firstText(attributes, CALL_IDS);
}

const INPUTS = [
  'gen_ai.tool.call.arguments',
  'ai.toolCall.args',
  'traceloop.entity.input',
  'input.value',
  'tool_input',
  'full_command',
  'gen_ai.prompt',
];
const OUTPUTS = [
  'gen_ai.tool.call.result',
  'ai.toolCall.result',
  'traceloop.entity.output',
  'output.value',
  'gen_ai.completion',
];

/** Finds the tool's input; null when unknown. */
export function toolInputOf(span: OtlpSpan): string | null {
  const { attributes, events } = span;
  const input = firstKnown(attributes, INPUTS) ?? fileOf(span);
  if (input !== null) return input;
  for (const event of events) {
    const own = firstKnown(event.attributes, ['gen_ai.tool.call.arguments', 'tool_input']);
    if (own !== null) return own;
    // Strands sends the input as an event with the message that the tool received.
    const input = event.name === 'gen_ai.tool.message' ? knownText(event.attributes.get('content')) : null;
    if (input !== null) return input;
  }
  for (const { parts } of messagesOf(span, INPUT_MESSAGES)) {
    const call = parts.find(({ type }) => type === 'tool_call');
    if (call !== undefined) return knownText(call.arguments);
  }
  return null;
}

/**
 * Finds the input of Claude Code's tools that read files: only the file's name, because the contents of files are not
 * sent. null for other tools.
 */
function fileOf(span: OtlpSpan): string | null {
  const file = knownText(span.attributes.get('file_path'));
  return file !== null && /read|view|open/i.test(toolNameOf(span)) ? file : null;
}

/** Finds the tool's output; null when unknown. */
export function toolOutputOf(span: OtlpSpan): string | null {
  const output = firstKnown(span.attributes, OUTPUTS);
  if (output !== null && output !== '') return output;
  return outputOfEvents(span) ?? output;
}

function outputOfEvents(span: OtlpSpan): string | null {
  for (const { name, attributes } of span.events) {
    const own = contentOf(attributes.get('gen_ai.tool.call.result'));
    if (own !== null) return own;
    if (name === 'tool.output') return firstKnown(attributes, ['output', 'content', 'result']);
    if (name === 'gen_ai.choice') return contentOf(attributes.get('message') ?? attributes.get('content'));
  }
  for (const { parts } of messagesOf(span, OUTPUT_MESSAGES)) {
    const response = parts.find(({ type }) => type === 'tool_call_response');
    if (response !== undefined) return contentOf(response.response ?? response.result);
  }
  return null;
}

/** Why tool calls failed. */
export class ToolFailures {
  readonly #bySpan = new Map<string, string | null>();

  constructor(spans: readonly OtlpSpan[]) {
    for (const span of spans) {
      if (!hasFailed(span)) continue;
      const reason = reasonOf(span);
      this.#note(span.trace_id, span.span_id, reason);
      // In Claude Code's telemetry, a child span represents the execution of the tool and shows whether the call
      // failed.
      if (!isToolSpan(span) && isExecution(span)) this.#note(span.trace_id, span.parent_span_id, reason);
    }
  }

  #note(trace_id: string, span_id: string, reason: string | null): void {
    const place = `${trace_id}:${span_id}`;
    this.#bySpan.set(place, this.#bySpan.get(place) ?? reason);
  }

  /** Returns why the call failed; null: it failed without a reason; undefined: it did not fail. */
  of({ trace_id, span_id }: OtlpSpan): string | null | undefined {
    return this.#bySpan.get(`${trace_id}:${span_id}`);
  }
}

function isExecution({ name, attributes }: OtlpSpan): boolean {
  return /tool\.execution$/.test(name) || callIdOf(attributes) !== '';
}

function hasFailed({ is_error, attributes }: OtlpSpan): boolean {
  return (
    is_error ||
    isFalse(attributes.get('success')) ||
    /^(?:error|failed|failure)$/i.test(textOf(attributes.get('tool.status'))) ||
    textOf(attributes.get('error.type')) !== ''
  );
}

/**
 * Finds the reason of a failure; null if it is unknown. The class of an error (`error.type`) is not a reason, because
 * errors of a class differ.
 */
function reasonOf({ attributes, events, status_message }: OtlpSpan): string | null {
  const thrown = events.find(({ name }) => name === 'exception')?.attributes;
  return (
    (thrown === undefined ? null : knownText(thrown.get('exception.message'))) ||
    knownText(attributes.get('error')) ||
    status_message ||
    null
  );
}

export function isFalse(value: AttributeValue | undefined): boolean {
  return value === false || value === 'false';
}
