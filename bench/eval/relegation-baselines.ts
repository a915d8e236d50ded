/**
 * The simple alternatives to a student: two caches of answers, which return an earlier answer unchanged. The exact
 * cache finds a request by its canonical form, which has no session noise and no ids of calls. The semantic cache finds
 * the request with the nearest embedding if the similarity is above a fixed threshold. Bench process.
 */

import type { StudentAnswer } from '../../src/student/model/decision.ts';
import { hashString } from '../../src/student/model/json-values.ts';
import { readTokens } from '../../src/student/model/text-tokens.ts';
import type { MessagesRequest, WireBlock } from './agent-family.ts';
import type { RecordedStep } from './relegation-runs.ts';

interface CachedAnswer {
  answer: StudentAnswer;
  /** Cosine of the two requests' vectors; 1 for an exact match. */
  similarity: number;
}

/**
 * Writes the request as a text without the parts that differ in every request: ids of calls, and lines of the system
 * prompt with a digit or a colon. Of the tools it contains only the names.
 */
function canonicalRequest({ model, system, tools, messages }: MessagesRequest): string {
  const names = new Map<string, string>();
  const clean = (block: WireBlock): unknown => {
    if (block.type === 'tool_use') {
      names.set(block.id, `call ${names.size}`);
      return { ...block, id: names.get(block.id) };
    }
    if (block.type === 'tool_result') return { ...block, tool_use_id: names.get(block.tool_use_id) ?? '' };
    return block;
  };
  const lines = system.flatMap(({ text }) => text.split('\n')).filter((line) => !/\d|:/.test(line));
  return JSON.stringify([
    model,
    lines,
    tools.map(({ name }) => name),
    messages.map(({ role, content }) => [role, typeof content === 'string' ? content : content.map(clean)]),
  ]);
}

export class ExactCache {
  readonly #answers = new Map<string, StudentAnswer>();

  constructor(steps: readonly RecordedStep[]) {
    for (const { request, answer } of steps) this.#answers.set(canonicalRequest(request), answer);
  }

  find(request: MessagesRequest): CachedAnswer | null {
    const answer = this.#answers.get(canonicalRequest(request));
    return answer === undefined ? null : { answer, similarity: 1 };
  }
}

const DIMENSIONS = 512;

/**
 * A cache that finds the most similar request with the same tools. Its vectors replace the usual embedding of such a
 * cache, without the cost of a model. A vector hashes the words and word pairs of the task and of the last message, and
 * the names of earlier calls, each weighted by its rarity.
 */
export class SemanticCache {
  readonly #idf = new Map<number, number>();
  readonly #byTools = new Map<string, { vector: Float32Array; answer: StudentAnswer }[]>();

  constructor(steps: readonly RecordedStep[]) {
    const counts = new Map<number, number>();
    const terms = steps.map(({ request }) => readTerms(request));
    for (const counted of terms)
      for (const term of counted.keys()) counts.set(term, (counts.get(term) ?? 0) + 1);
    for (const [term, count] of counts) this.#idf.set(term, Math.log((steps.length + 1) / count));
    for (const [i, { request, answer }] of steps.entries()) {
      const tools = toolsOf(request);
      const list = this.#byTools.get(tools);
      const entry = { vector: this.#embed(terms[i]!, steps.length), answer };
      if (list === undefined) this.#byTools.set(tools, [entry]);
      else list.push(entry);
    }
  }

  find(request: MessagesRequest): CachedAnswer | null {
    const list = this.#byTools.get(toolsOf(request));
    if (list === undefined) return null;
    const vector = this.#embed(readTerms(request), 1);
    let best: CachedAnswer | null = null;
    for (const { vector: other, answer } of list) {
      let similarity = 0;
      for (let d = 0; d < DIMENSIONS; d++) similarity += vector[d]! * other[d]!;
      if (best === null || similarity > best.similarity) best = { answer, similarity };
    }
    return best;
  }

  #embed(terms: ReadonlyMap<number, number>, unknown: number): Float32Array {
    const vector = new Float32Array(DIMENSIONS);
    let square = 0;
    for (const [term, count] of terms) {
      const weight = (1 + Math.log(count)) * (this.#idf.get(term) ?? Math.log(1 + unknown));
      vector[term % DIMENSIONS]! += (term >>> 16) & 1 ? weight : -weight;
    }
    for (const value of vector) square += value * value;
    if (square > 0) for (let d = 0; d < DIMENSIONS; d++) vector[d]! /= Math.sqrt(square);
    return vector;
  }
}

function toolsOf({ tools }: MessagesRequest): string {
  return tools.map(({ name }) => name).join(' ');
}

function readTerms({ messages }: MessagesRequest): Map<number, number> {
  const terms = new Map<number, number>();
  const add = (text: string): void => {
    let before = '';
    for (const { key } of readTokens(text, 2_000)) {
      for (const term of [hashString(key), hashString(`${before} ${key}`)])
        terms.set(term, (terms.get(term) ?? 0) + 1);
      before = key;
    }
  };
  const [first] = messages;
  if (typeof first?.content === 'string') add(first.content);
  let trail = '';
  for (const { content } of messages) {
    if (typeof content === 'string') continue;
    for (const block of content) if (block.type === 'tool_use') trail += ` ${block.name}`;
  }
  terms.set(hashString(trail), 3);
  const last = messages[messages.length - 1]!;
  if (typeof last.content !== 'string')
    for (const block of last.content) if (block.type === 'tool_result') add(block.content);
  return terms;
}
