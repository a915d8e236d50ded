/** An answer in the form that the student learns from. Pure; teaching and the student's thread. */

import type { NormalAnswer, TurnBlock } from '../../domain/turn.ts';
import { MASK } from '../../redaction/mask.ts';
import { digitsOf } from '../../std/exact-json.ts';
import type { CallForms, StudentAnswer, StudentBlock } from './decision.ts';
import { isObject } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';

/** An exemplar: bounded, only text and calls, call ids emptied. Plain JSON. */
export type AnswerDigest = StudentAnswer;

/**
 * Makes an exemplar of an answer.
 * @returns null for an answer that cannot be an exemplar: an error; a refusal; a truncated or empty answer; blocks other
 * than text, calls, thinking and cache points (the last two are dropped); text with citations or after a call; a stop
 * reason that does not go with the blocks; an input that is no object, or for a tool that takes a text, no text; more
 * than the bounds of STUDENT_CORE for an answer; or a part that capture masked, because the original is unknown
 */
export function digestAnswer(answer: NormalAnswer, forms: CallForms = null): AnswerDigest | null {
  const { stop_reason, usage } = answer;
  if (answer.error !== null || (stop_reason !== 'end_turn' && stop_reason !== 'tool_use')) return null;
  const content: StudentBlock[] = [];
  let left: number = STUDENT_CORE.answer;
  let calls = 0;
  for (const block of answer.content) {
    if (block.type === 'thinking' || block.type === 'cache_point') continue;
    if (block.type === 'text') {
      if (block.citations !== undefined || block.text.includes(MASK)) return null;
      left -= block.text.length;
      if (block.text !== '') content.push({ type: 'text', text: block.text });
    } else if (block.type === 'tool_call') {
      const isText = typeof block.input === 'string' && block.input !== '';
      if (forms?.get(block.name) === 'text' ? !isText : !isObject(block.input)) return null;
      const size = measureInput(block.input);
      if (size === null) return null;
      left -= size;
      calls++;
      content.push({ type: 'tool_call', id: '', name: block.name, input: block.input });
    } else return null;
    if (left < 0) return null;
  }
  if (content.length === 0 || calls > STUDENT_CORE.answer_calls) return null;
  // Text after a call, or a stop reason that does not match the content, must not be learned.
  if (calls > 0 !== (stop_reason === 'tool_use')) return null;
  if (calls > 0 && content[content.length - 1]!.type !== 'tool_call') return null;
  const input = (usage.input_tokens ?? 0) + (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0);
  const { cache_read_tokens: read, cache_write_tokens: write } = usage;
  return {
    content,
    stop_reason,
    input_tokens: input,
    output_tokens: usage.output_tokens ?? 0,
    ...(read ? { cache_read_tokens: read } : {}),
    ...(write ? { cache_write_tokens: write } : {}),
  };
}

/** Whether capture masked a part of the answer. The original is unknown then. */
export function holdsMask(content: readonly TurnBlock[]): boolean {
  return JSON.stringify(content).includes(MASK);
}

/**
 * Approximate characters of an input; null when it is too large, too deep or masked, or has keys that must not be
 * copied.
 */
function measureInput(input: unknown): number | null {
  let size = 0;
  let values = 0;
  const visit = (value: unknown, depth: number): boolean => {
    if (++values > STUDENT_CORE.answer_values || depth > STUDENT_CORE.json_depth) return false;
    if (typeof value === 'string') {
      if (value.includes(MASK)) return false;
      size += value.length + 2;
    } else if (Array.isArray(value)) return value.every((item) => visit(item, depth + 1));
    else if (isObject(value)) {
      for (const key of Object.keys(value)) {
        if (key === '__proto__' || key.includes(MASK)) return false;
        size += key.length + 4;
        if (size > STUDENT_CORE.answer) return false;
        if (!visit(value[key], depth + 1)) return false;
      }
    } else size += digitsOf(value)?.length ?? 6;
    return size <= STUDENT_CORE.answer;
  };
  return visit(input, 0) ? size : null;
}
