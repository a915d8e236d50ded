/**
 * Checks whether an answer may replace the upstream's: it must respect the request's tools, tool choice, schemas,
 * length and stop words. It trusts no source of answers. Pure except for its cache of schemas; the student's thread.
 */

import { type NormalRequest, textOf } from '../../domain/turn.ts';
import type { JsonObject } from '../../providers/json-reading.ts';
import { parseExact } from '../../std/exact-json.ts';
import type { CallForm, StudentAnswer } from '../model/decision.ts';
import { isObject } from '../model/json-values.ts';
import { acceptsText, type ToolSchemas } from './tool-schemas.ts';
import type { Wire } from './wire.ts';

/** A request as received, with its wire. */
export interface AskedOn {
  wire: Wire;
  /** Parsed JSON. */
  body: JsonObject;
}

/**
 * Bytes of UTF-8 per token: deliberately few, so that the number of tokens is overestimated rather than underestimated.
 */
const BYTES_A_TOKEN = 2;

/**
 * Whether an answer may replace the upstream's.
 * @param request in normal form
 * @param asked the same request on its wire
 */
export function isFitAnswer(
  answer: StudentAnswer,
  request: NormalRequest,
  { wire, body }: AskedOn,
  schemas: ToolSchemas,
): boolean {
  const callable = wire.callable(body);
  const calls = answer.content.filter((block) => block.type === 'tool_call');
  const texts = answer.content.filter((block) => block.type === 'text');
  return (
    answer.content.length === calls.length + texts.length &&
    answer.content.length > 0 &&
    texts.every(({ text }) => typeof text === 'string' && text !== '') &&
    answer.stop_reason === (calls.length > 0 ? 'tool_use' : 'end_turn') &&
    isCount(answer.input_tokens) &&
    isCount(answer.output_tokens) &&
    // With thinking on, a call needs a thinking block before it, which no student has.
    !(calls.length > 0 && request.thinking?.mode === 'on') &&
    keepsChoice(calls, request) &&
    calls.every((call) => {
      const form = callable === null ? 'arguments' : callable.get(call.name);
      return form !== undefined && isFitCall(call, form, request, schemas);
    }) &&
    isShortEnough(answer, request) &&
    hasNoStop(answer, wire.stopWords(body)) &&
    keepsFormat(answer, request, schemas)
  );
}

type Call = Extract<StudentAnswer['content'][number], { type: 'tool_call' }>;

function isCount(value: unknown): boolean {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function keepsChoice(calls: readonly Call[], { tool_choice: choice }: NormalRequest): boolean {
  if (choice === null) return true;
  if (choice.parallel === false && calls.length > 1) return false;
  if (choice.mode === 'none') return calls.length === 0;
  if (choice.mode === 'any') return calls.length > 0;
  if (choice.mode === 'tool') return calls.length > 0 && calls.every(({ name }) => name === choice.names[0]);
  return choice.mode === 'auto';
}

function isFitCall(
  { name, input }: Call,
  form: CallForm,
  { tools }: NormalRequest,
  schemas: ToolSchemas,
): boolean {
  const tool = tools.find((candidate) => candidate.kind === 'function' && candidate.name === name);
  if (tool === undefined) return false;
  if (form === 'text') {
    const { format } = isObject(tool.settings) ? tool.settings : {};
    return typeof input === 'string' && input !== '' && acceptsText(format, input);
  }
  if (!isObject(input)) return false;
  return form === 'local_shell' ? isShellAction(input) : schemas.accepts(tool.input_schema, input);
}

/** Whether an object is a command as the API gives it to a local shell. */
function isShellAction({ type, command, env }: Record<string, unknown>): boolean {
  const isCommand = Array.isArray(command) && command.length > 0 && command.every(isString);
  return type === 'exec' && isCommand && isObject(env) && Object.values(env).every(isString);
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

function isShortEnough(answer: StudentAnswer, { max_output_tokens: most }: NormalRequest): boolean {
  if (most === null) return true;
  const bytes = Buffer.byteLength(wordsOf(answer));
  return answer.output_tokens <= most && bytes / BYTES_A_TOKEN <= most;
}

/** Whether the answer contains no stop word. The API would have ended the answer at a stop word. */
function hasNoStop(answer: StudentAnswer, stops: readonly string[]): boolean {
  if (stops.length === 0) return true;
  const words = wordsOf(answer);
  return stops.every((stop) => !words.includes(stop));
}

/** Approximately the text that a model would have generated for text and calls. */
function wordsOf(answer: StudentAnswer): string {
  return answer.content
    .map((block) => (block.type === 'text' ? block.text : `${block.name} ${JSON.stringify(block.input)}`))
    .join('\n');
}

/** Whether a text that must be JSON of a schema matches it. */
function keepsFormat(
  answer: StudentAnswer,
  { response_schema: format }: NormalRequest,
  schemas: ToolSchemas,
): boolean {
  if (format === null || answer.stop_reason === 'tool_use') return true;
  try {
    const value = parseExact(textOf(answer.content));
    return format.schema === null || schemas.accepts(format.schema, value);
  } catch {
    return false;
  }
}
