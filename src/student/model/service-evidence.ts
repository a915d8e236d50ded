/**
 * The evidence about the service behind a student of kind `http`, for one agent: which kinds of its answers agreed with
 * golden answers often enough, at which stages the service is worth asking, and which words golden answers had. Pure;
 * teaching and the student's thread.
 *
 * A service may say anything. So an answer with a value that appears neither in the request nor in golden answers is a
 * separate kind, marked {@link NEW_VALUES}. It is served only on its own evidence.
 */

import { type NormalRequest, type TurnBlock, textOf } from '../../domain/turn.ts';
import { canonicalNumber } from '../../std/exact-json.ts';
import { kindOfForm } from './answer-form.ts';
import { kindOfAnswer } from './answer-kind.ts';
import { hashString, isNumber, isObject, textOfPrimitive } from './json-values.ts';
import type { LearnedStep } from './learned-step.ts';
import type { ServiceEvidence, StudentModel } from './student-model.ts';

/** Maximum number of words of an agent's golden answers that are kept to judge a service's answer. */
const SERVICE_SAID = 4_096;

/** Suffix in the name of a kind whose answers hold a new value. */
const NEW_VALUES = '(new values)';

/** Shortens the name of a form or of a service's kind to the kind that operators know: the tools that are called. */
export function kindByTools(name: string): string {
  const kind = kindOfForm(name);
  return kind.endsWith(` + ${NEW_VALUES}`) ? kind.slice(0, -NEW_VALUES.length - 3) : kind;
}

/** `look`, or `look + (new values)`: the kind by which a service's answer is judged. */
export function kindOfServiceAnswer(
  content: readonly TurnBlock[],
  request: NormalRequest,
  said: ReadonlySet<number>,
): string {
  const kind = kindOfAnswer(content);
  return hasNewValue(content, request, said) ? `${kind} + ${NEW_VALUES}` : kind;
}

/** Whether a call's input, or a number in a text, holds a value that neither the request nor golden answers have. */
function hasNewValue(
  content: readonly TurnBlock[],
  request: NormalRequest,
  said: ReadonlySet<number>,
): boolean {
  const wanted = new Set(wordsOfAnswer(content).filter((word) => !said.has(hashString(word))));
  if (wanted.size === 0) return false;
  // Most values occur near the end, so a long prompt is rarely read to its beginning.
  for (const text of textsOf(request))
    for (const word of cutWords(text)) if (wanted.delete(word) && wanted.size === 0) return false;
  return true;
}

/** Words of golden answers that occur in at least {@link SAID_RUNS} runs, the most frequent first. */
export function findSaid(steps: readonly LearnedStep[]): number[] {
  const runs = new Map<number, { last: string; count: number }>();
  for (const { run_id, answer } of steps)
    for (const word of wordsOfAnswer(answer.content)) {
      const key = hashString(word);
      const seen = runs.get(key);
      if (seen === undefined) runs.set(key, { last: run_id, count: 1 });
      else if (seen.last !== run_id) Object.assign(seen, { last: run_id, count: seen.count + 1 });
    }
  return [...runs]
    .filter(([, { count }]) => count >= SAID_RUNS)
    .sort((a, b) => b[1].count - a[1].count || a[0] - b[0])
    .slice(0, SERVICE_SAID)
    .map(([key]) => key);
}

/** Two runs besides the run on which a service is tried, because that run is counted, too. */
const SAID_RUNS = 3;

/** The model, limited to the answers that its service may give; agents without evidence are not served. */
export function limitByService(
  model: StudentModel,
  evidence: ReadonlyMap<string, ServiceEvidence>,
): StudentModel {
  return {
    ...model,
    groups: model.groups.map((group) => {
      const service = evidence.get(String(group.name)) ?? { kinds: [], stages: [], said: [] };
      const limit = service.kinds.reduce((most, [, threshold]) => Math.max(most, threshold), -1);
      return { ...group, limit, kinds: service.kinds, service };
    }),
  };
}

/**
 * Words of an answer's values. Beside calls, text does not count; in an answer that is only text, its numbers count.
 */
function wordsOfAnswer(content: readonly TurnBlock[]): string[] {
  const words: string[] = [];
  let hasCalls = false;
  for (const block of content)
    if (block.type === 'tool_call') {
      hasCalls = true;
      addValues(block.input, '', words);
    }
  return hasCalls ? words : cutWords(textOf(content)).filter((word) => /\d/.test(word));
}

function addValues(value: unknown, key: string, words: string[]): void {
  if (typeof value === 'string') words.push(...cutWords(value));
  else if (isNumber(value)) words.push(nameNumber(textOfPrimitive(value)));
  else if (typeof value === 'boolean') words.push(`${key}:${value}`);
  else if (Array.isArray(value)) for (const item of value) addValues(item, key, words);
  else if (isObject(value))
    for (const [name, item] of Object.entries(value)) {
      words.push(...cutWords(name));
      addValues(item, name, words);
    }
}

const WORD = /\d+(?:[.,]\d+)*|[\p{L}\p{N}_]+/gu;
const NUMBER = /^\d+(?:[.,]\d+)*$/;

/**
 * Cuts a text into words in lower case. Numbers get one spelling: `45.20` becomes `45.2`, and `1,204` becomes `1204`.
 */
function cutWords(text: string): string[] {
  return (text.match(WORD) ?? []).map((word) =>
    NUMBER.test(word) ? nameNumber(word.replaceAll(',', '')) : word.toLowerCase(),
  );
}

function nameNumber(digits: string): string {
  return canonicalNumber(digits.replace(/^-/, ''));
}

/** All texts of a request, the latest first. */
function* textsOf({ system, messages, tools }: NormalRequest): Generator<string> {
  for (let at = messages.length - 1; at >= 0; at--) yield* textsOfBlocks(messages[at]!.content);
  for (const tool of tools) yield JSON.stringify(tool.input_schema) ?? '';
  yield* textsOfBlocks(system);
}

function* textsOfBlocks(content: readonly TurnBlock[]): Generator<string> {
  for (const block of content) {
    if (block.type === 'text') yield block.text;
    else if (block.type === 'tool_call') yield JSON.stringify(block.input) ?? '';
    else if (block.type === 'tool_result') yield* textsOfBlocks(block.content);
  }
}
