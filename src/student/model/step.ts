/**
 * A step as the student sees it: what was asked of the model, bounded, with the noise of single requests levelled. The
 * same for golden steps and live ones. Pure; analysis and the student's thread.
 *
 * Looked at are the task, the last messages and, going back a bounded way, the latest results and calls of each tool: a
 * long run costs no more than a short one. Values are kept as they are, to be taken into answers; what the state is, is
 * kept as marks, hashes of a kind, a place and a value, of which the student learns which tell something.
 */

import type { NormalRequest, TurnBlock, TurnMessage } from '../../domain/turn.ts';
import { STUDENT_CORE } from '../../limits.ts';
import { RecentMap } from '../../std/recent-map.ts';
import {
  type CopyBudget,
  copyBounded,
  cutText,
  hashJson,
  hashString,
  isObject,
  mixNumber,
} from './json-values.ts';
import { readTokens, type TextToken } from './text-tokens.ts';

/** What of a Messages request is not in the normal form. Made by {@link readStepExtras} for golden and live steps alike. */
export interface StepExtras {
  /** Values of `anthropic-beta`, split at commas, trimmed, sorted. */
  betas: readonly string[];
  /** Top-level fields that the normal form has no word for (temperature, top_p, stop_sequences, service_tier, …). */
  settings: Readonly<Record<string, unknown>>;
}

/** Something in the step's context that values can be taken from. */
export interface StepSource {
  /**
   * `task`: first words of the user; `said`: the latest ones, where others, `said#1`: all between them; `system`: the system prompt's changing lines;
   * `result:NAME`, `call:NAME`: latest result of the tool and input of its latest call; with `#1` the one before, and
   * so on. `progress`: how often each tool was called since a result came.
   */
  name: string;
  /** Text of prose, else a bounded copy of the JSON. */
  value: unknown;
}

/** Plain JSON, some 16 KB of it at most. */
export interface StepDigest {
  /** Model, tools, settings, tool choice, thinking and response schema, as a hash. */
  scope: string;
  /** Hashes of the system prompt's sentences, their noise levelled. */
  system: number[];
  /** What the step answers: `task`, `said`, or `NAME NAME!` for results of tools, `!` a failed one. */
  stage: string;
  /** In words, why no student may answer; '' when one may. */
  unsupported: string;
  /** Thinking is on: a call of a tool would need a thinking block before it. */
  is_thinking: boolean;
  /** Names of the tools that may be called; null: no tool may be. */
  callable: string[] | null;
  /** One must be called. */
  must_call: boolean;
  /** Calls in one answer at most. */
  calls_max: number;
  /** null: as many as it likes. */
  max_output_tokens: number | null;
  /** Text must be JSON of a schema. */
  wants_json: boolean;
  /** Answers of the model before this one. */
  turn: number;
  /** Marks of the state: kind, place and value of each, one after the other, as hashes. */
  marks: number[];
  sources: StepSource[];
}

/** What a mark is about; see {@link StepDigest.marks}. Each place of the first four kinds has one value. */
export const MARK = {
  /** A value in a result that the step answers. */
  fresh: 1,
  /** What was called before, how often, with which failures. */
  past: 2,
  /** A value in a result before that, or in a call. */
  earlier: 3,
  /** Type of what stands at a place of a fresh result. */
  shape: 4,
  /** Words: a place has many. */
  fresh_word: 5,
  said_word: 6,
  task_word: 7,
  earlier_word: 10,
  /** What the task and the latest words of the user deny: one value for all of it. */
  denial: 11,
  /** The numbers in a sentence of the system prompt that names no day or time: limits, counts, prices. */
  system_number: 12,
} as const;

/** Fields of a request that the normal form holds, or that say nothing of the answer. */
const LEFT_OUT = new Set([
  'model',
  'messages',
  'system',
  'tools',
  'tool_choice',
  'thinking',
  'max_tokens',
  'stream',
  'metadata',
  'output_format',
  'cache_control',
]);

/** Of fields that are left out, the types that the normal form tells apart. */
const NORMAL_TYPES: Readonly<Record<string, readonly unknown[]>> = {
  thinking: ['enabled', 'disabled', 'adaptive'],
  output_format: ['json_schema'],
};

/**
 * @param body the request's parsed JSON, whatever it is
 * @param betas the `anthropic-beta` headers as they came
 */
export function readStepExtras(body: unknown, betas: readonly string[]): StepExtras {
  const settings: Record<string, unknown> = {};
  if (isObject(body)) {
    for (const key of Object.keys(body)) {
      const value = body[key];
      if (value === undefined || value === null || key === '__proto__') continue;
      if (!LEFT_OUT.has(key) || hasUnknownType(key, value)) settings[key] = value;
    }
  }
  const words = betas
    .flatMap((header) => header.split(','))
    .map((word) => word.trim())
    .filter((word) => word !== '');
  return { betas: [...new Set(words)].sort(), settings };
}

/** Whether a field that the normal form holds is of a type that it has no word for: then it is a setting like others. */
function hasUnknownType(key: string, value: unknown): boolean {
  const known = NORMAL_TYPES[key];
  return known !== undefined && !(isObject(value) && known.includes(value.type));
}

/** Bounded in work and size for whatever request. Never throws. */
export function digestStep(request: NormalRequest, extras: StepExtras): StepDigest {
  const reader = new StepReader(request);
  const choice = request.tool_choice;
  const names = request.tools.flatMap((tool) => (tool.kind === 'function' ? [tool.name] : []));
  const callable =
    choice?.mode === 'none'
      ? null
      : choice !== null && choice.names.length > 0
        ? names.filter((name) => choice.names.includes(name))
        : names;
  return {
    scope: fingerprintScope(request, extras),
    system: reader.system,
    stage: reader.stage,
    unsupported: findUnsupported(request, extras, reader),
    is_thinking: request.thinking?.mode === 'on',
    callable: callable === null || callable.length === 0 ? null : callable.slice(0, 200),
    must_call: choice?.mode === 'any' || choice?.mode === 'tool',
    calls_max: choice?.parallel === false ? 1 : STUDENT_CORE.answer_calls,
    max_output_tokens: request.max_output_tokens,
    wants_json: request.response_schema !== null,
    turn: reader.turn,
    marks: reader.marks,
    sources: reader.sources,
  };
}

function fingerprintScope(request: NormalRequest, extras: StepExtras): string {
  const { model, tools, tool_choice, thinking, response_schema } = request;
  const { betas, settings } = extras;
  // A budget of thinking that follows max_tokens changes from request to request; the mode and the effort do not.
  const parts = [
    model,
    tools.map(({ kind, name, description, input_schema, settings: its }) => [
      kind,
      name,
      description,
      input_schema,
      dropCacheMarks(its),
    ]),
    betas,
    settings,
    tool_choice,
    thinking === null ? null : [thinking.mode, thinking.effort],
    response_schema,
  ];
  let text = '';
  for (const seed of [1, 2]) {
    const hash = hashJson(parts, seed, { left: STUDENT_CORE.scope_read }, STUDENT_CORE.scope_depth);
    text += hash.toString(16).padStart(8, '0');
  }
  return text;
}

function dropCacheMarks(settings: unknown): unknown {
  if (!isObject(settings) || settings.cache_control === undefined) return settings;
  const { cache_control: _marker, ...rest } = settings;
  return Object.keys(rest).length === 0 ? null : rest;
}

function findUnsupported(request: NormalRequest, { settings }: StepExtras, reader: StepReader): string {
  const { messages } = request;
  if (messages.length === 0) return 'no messages';
  if (messages[messages.length - 1]!.role === 'assistant') return 'the answer is begun already';
  if (request.previous_answer_id !== null) return 'goes on from an answer that the provider keeps';
  // The next request would name an answer that the provider has never given.
  if (settings.thread !== undefined) return 'asks the provider to keep the conversation';
  if (reader.hasUnread) return 'holds images, documents or blocks that a student cannot read';
  return '';
}

interface PastCall {
  id: string;
  name: string;
  input: unknown;
  /** Place among the messages. */
  at: number;
}

interface PastResult {
  name: string;
  /** undefined: prose. */
  json: unknown;
  text: string;
  is_error: boolean;
  at: number;
}

const DAYS_AND_MONTHS = new Set(
  (
    'january february march april may june july august september october november december jan feb mar apr jun jul ' +
    'aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur ' +
    'thurs fri sat sun'
  )
    .split(' ')
    .map((word) => hashString(word)),
);

/** Reads one request. */
class StepReader {
  readonly system: number[] = [];
  readonly marks: number[] = [];
  readonly sources: StepSource[] = [];
  stage = '';
  turn = 0;
  hasUnread = false;
  readonly #messages: readonly TurnMessage[];
  /** Place of the first answer; behind the last message where there is none. */
  readonly #taskEnd: number;
  readonly #said = new Set<string>();
  /** Of the system prompt: places and their numbers, how often a sentence came, and what is beyond the bound as one. */
  readonly #numbers: number[] = [];
  readonly #numbered = new Map<number, number>();
  #moreNumbers = 0;
  readonly #progress: Record<string, Record<string, number>> = {};
  readonly #budget: CopyBudget = { characters: STUDENT_CORE.step, nodes: STUDENT_CORE.json_nodes };

  constructor(request: NormalRequest) {
    this.#messages = request.messages;
    const first = request.messages.findIndex(({ role }) => role === 'assistant');
    this.#taskEnd = first < 0 ? request.messages.length : first;
    const changing = this.#readSystem(request.system);
    this.#readConversation();
    this.#markSystemNumbers();
    if (changing !== '') this.sources.push({ name: 'system', value: changing });
  }

  /** @returns what changes in it, as far as one can tell from one request */
  #readSystem(blocks: readonly TurnBlock[]): string {
    let changing = '';
    let places = '';
    let rest = 0;
    for (const block of blocks) {
      if (block.type !== 'text') continue;
      const { text } = block;
      for (const { hash, start, end, isChanging, isPlace, numbers } of sentencesOf(text)) {
        if (numbers !== 0) this.#noteNumbers(hash, numbers);
        if (this.system.length < STUDENT_CORE.system_sentences) this.system.push(hash);
        else rest = mixNumber(Math.imul(rest, 31) + hash);
        if (isChanging && changing.length < STUDENT_CORE.system_changing)
          changing += `${text.slice(start, Math.min(end, start + 200))}\n`;
        else if (isPlace && !isChanging && places.length < STUDENT_CORE.system_changing)
          places += `${text.slice(start, Math.min(end, start + 200))}\n`;
      }
    }
    changing += places.slice(0, Math.max(0, STUDENT_CORE.system_changing - changing.length));
    if (rest !== 0) this.system.push(rest);
    return changing;
  }

  /** Sentences that differ in their numbers alone are told apart by their order. */
  #noteNumbers(sentence: number, numbers: number): void {
    const count = (this.#numbered.get(sentence) ?? 0) + 1;
    this.#numbered.set(sentence, count);
    const place = mixNumber(sentence + count);
    if (this.#numbers.length < 2 * STUDENT_CORE.system_numbers) this.#numbers.push(place, numbers);
    else this.#moreNumbers = mixNumber(Math.imul(this.#moreNumbers, 31) + (place ^ numbers));
  }

  /** Beside the marks of the conversation, which leave them no room in a large one. */
  #markSystemNumbers(): void {
    const numbers = this.#numbers;
    if (this.#moreNumbers !== 0) numbers.push(hashString('more'), this.#moreNumbers);
    for (let at = 0; at < numbers.length; at += 2)
      this.marks.push(MARK.system_number, numbers[at]!, numbers[at + 1]!);
  }

  #readConversation(): void {
    const messages = this.#messages;
    const { length } = messages;
    let last = length - 1;
    while (last >= 0 && messages[last]!.role !== 'assistant') last--;
    // Behind the last answer: what this step answers.
    const floor = Math.max(0, length - STUDENT_CORE.messages_back);
    const calls: PastCall[] = [];
    const results: PastResult[] = [];
    let said = '';
    for (let at = length - 1; at >= floor; at--) {
      const message = messages[at]!;
      const { content } = message;
      for (let i = content.length - 1; i >= 0; i--) {
        const block = content[i]!;
        if (block.type === 'tool_call') {
          if (calls.length < STUDENT_CORE.calls_back)
            calls.push({ id: block.id, name: block.name, input: block.input, at });
        } else if (block.type === 'tool_result') {
          if (results.length < STUDENT_CORE.calls_back) results.push(this.#readResult(block, at, at > last));
        } else if (at > last && message.role !== 'assistant') {
          if (block.type === 'text') said = said === '' ? block.text : `${block.text}\n${said}`;
          else if (block.type === 'media' || block.type === 'other') this.hasUnread = true;
        }
      }
    }
    let turn = 0;
    let talks = 0;
    for (const { role, content } of messages) {
      if (role !== 'assistant') continue;
      turn++;
      if (!content.some(({ type }) => type === 'tool_call')) talks++;
    }
    this.turn = turn;
    this.#mark(MARK.past, hashString('talks'), Math.min(talks, 12));
    const task = this.#readTask();
    this.#addText('task', task, STUDENT_CORE.task, MARK.task_word);
    if (last >= 0 && said !== '') this.#addText('said', said, STUDENT_CORE.said, MARK.said_word);
    const before = this.#readSaidBefore(floor, last);
    if (before !== '') this.#addText('said#1', before, STUDENT_CORE.said, MARK.said_word);
    this.#nameStage(last, said, results);
    this.#markPast(calls, results);
    this.#addResults(results, last, calls);
    this.sources.push({ name: 'progress', value: this.#progress });
  }

  /** What the user said between the task and the latest words: it may hold still. The latest first. */
  #readSaidBefore(floor: number, last: number): string {
    let text = '';
    for (let at = last - 1; at >= floor && at >= this.#taskEnd && text.length < STUDENT_CORE.said; at--) {
      const { role, content } = this.#messages[at]!;
      if (role === 'assistant') continue;
      for (const block of content)
        if (block.type === 'text') text = text === '' ? block.text : `${text}\n${block.text}`;
    }
    return text;
  }

  /** The user's words before any answer: several messages of the user in a row are one to the API. */
  #readTask(): string {
    let text = '';
    for (let at = 0; at < this.#taskEnd; at++) {
      for (const block of this.#messages[at]!.content) {
        if (block.type === 'text') text = text === '' ? block.text : `${text}\n${block.text}`;
        else if (block.type === 'media') this.hasUnread = true;
      }
    }
    return text;
  }

  #readResult(block: Extract<TurnBlock, { type: 'tool_result' }>, at: number, isFresh: boolean): PastResult {
    let text = '';
    for (const part of block.content) {
      if (part.type === 'text') text = text === '' ? part.text : `${text}\n${part.text}`;
      else if (isFresh && (part.type === 'media' || part.type === 'other')) this.hasUnread = true;
    }
    return { name: block.name ?? '?', json: undefined, text, is_error: block.is_error, at };
  }

  #nameStage(last: number, said: string, results: readonly PastResult[]): void {
    if (last < 0) {
      this.stage = 'task';
      return;
    }
    const names: string[] = [];
    for (const result of results) {
      if (result.at <= last) break;
      names.unshift(`${result.name.slice(0, 64)}${result.is_error ? '!' : ''}`);
    }
    if (said !== '') names.push('said');
    if (names.length > STUDENT_CORE.answer_calls) names.splice(STUDENT_CORE.answer_calls, names.length, '…');
    this.stage = names.join(' ');
  }

  #mark(kind: number, place: number, value: number): void {
    if (this.marks.length < 3 * STUDENT_CORE.marks) this.marks.push(kind, place, value);
  }

  #addText(name: string, text: string, limit: number, kind: number): void {
    const cut = cutText(text, Math.max(0, Math.min(limit, this.#budget.characters)));
    this.#budget.characters -= cut.length;
    this.sources.push({ name, value: cut });
    const tokens = readTokens(cut, 3 * STUDENT_CORE.words_marked);
    this.#markTokens(kind, hashString(name), tokens);
    this.#mark(MARK.denial, hashString(name), hashDenials(tokens));
    for (const token of tokens)
      if (token.kind !== 'sign' && token.kind !== 'break')
        this.#said.add(plainValue(cut.slice(token.start, token.end)));
  }

  /** @param place of all its words */
  #markWords(kind: number, place: number, text: string): void {
    this.#markTokens(kind, place, readTokens(text, 3 * STUDENT_CORE.words_marked));
  }

  #markTokens(kind: number, place: number, tokens: readonly TextToken[]): void {
    const seen = new Set<number>();
    for (const token of tokens) {
      if (token.kind === 'sign' || token.kind === 'break') continue;
      const hash = hashString(token.key);
      if (seen.has(hash)) continue;
      seen.add(hash);
      this.#mark(kind, place, hash);
      if (seen.size >= STUDENT_CORE.words_marked) return;
    }
  }

  /** Latest first, both. */
  #markPast(calls: readonly PastCall[], results: readonly PastResult[]): void {
    let trail = 0;
    for (let back = 0; back < 3; back++) {
      trail = mixNumber(
        Math.imul(trail, 31) + (calls[back] === undefined ? 7 : hashString(calls[back]!.name)),
      );
      this.#mark(MARK.past, hashString(`trail ${back}`), trail);
    }
    const counts = new Map<string, number>();
    for (const call of calls) counts.set(call.name, (counts.get(call.name) ?? 0) + 1);
    for (const [name, count] of counts) {
      if (counts.size > 40) break;
      this.#mark(MARK.past, hashString(`called ${name}`), Math.min(count, 6));
    }
    let errors = 0;
    for (const result of results) if (result.is_error) errors++;
    this.#mark(MARK.past, hashString('errors'), Math.min(errors, 4));
    let same = 1;
    while (same < calls.length && calls[same]!.name === calls[0]!.name) same++;
    this.#mark(MARK.past, hashString('in a row'), Math.min(calls.length === 0 ? 0 : same, 6));
  }

  #addResults(results: readonly PastResult[], last: number, calls: readonly PastCall[]): void {
    const counts = new Map<string, number>();
    const add = (name: string, value: unknown, limit: number): unknown => {
      const budget = { characters: Math.min(limit, this.#budget.characters), nodes: this.#budget.nodes };
      const before = budget.characters;
      const copy = copyBounded(value, STUDENT_CORE, budget);
      this.#budget.characters -= before - budget.characters;
      this.#budget.nodes = budget.nodes;
      if (copy !== undefined) this.sources.push({ name, value: copy });
      return copy;
    };
    const takeName = (kind: string, name: string): string | null => {
      const key = `${kind}:${name.slice(0, 64)}`;
      const count = counts.get(key) ?? 0;
      counts.set(key, count + 1);
      if (count > STUDENT_CORE.results_back) return null;
      return count === 0 ? key : `${key}#${count}`;
    };
    // Calls are small and say what was looked for: they come before old results.
    const addResult = (result: PastResult): void => {
      const name = takeName('result', result.name);
      if (name === null || this.#budget.characters <= 0) return;
      const isFresh = result.at > last;
      const json = parseResult(result.text);
      if (json === undefined) {
        const cut = cutText(
          result.text,
          Math.min(STUDENT_CORE.result, 4 * STUDENT_CORE.string, this.#budget.characters),
        );
        this.#budget.characters -= cut.length;
        this.sources.push({ name, value: cut });
        if (isFresh) {
          this.#markWords(MARK.fresh_word, hashString(name), cut);
          this.#markLines(hashString(name), cut);
        } else if (!name.includes('#')) this.#markWords(MARK.earlier_word, hashString(name), cut);
        return;
      }
      const copy = add(name, json, STUDENT_CORE.result);
      if (copy === undefined) return;
      const isLatest = !name.includes('#');
      if (isFresh || isLatest) this.#markJson(isFresh, name, hashString(name), copy, 0);
      if (isLatest) this.#markProgress(name, json, result.at, calls);
    };
    for (const result of results) if (result.at > last) addResult(result);
    for (const call of calls) {
      const name = takeName('call', call.name);
      if (name === null) continue;
      const copy = add(name, call.input, STUDENT_CORE.call);
      if (copy !== undefined && !name.includes('#')) this.#markJson(false, name, hashString(name), copy, 0);
    }
    for (const result of results) if (result.at <= last) addResult(result);
  }

  /** Whether a certain line is there, with its numbers levelled, tells more than that its words are. */
  #markLines(place: number, text: string): void {
    let lines = 0;
    readSentences(text, (hash) => {
      if (lines++ < 30) this.#mark(MARK.fresh_word, mixNumber(place + 1), hash);
    });
  }

  #markJson(isFresh: boolean, name: string, place: number, value: unknown, depth: number): void {
    const kind = isFresh ? MARK.fresh : MARK.earlier;
    if (Array.isArray(value)) {
      if (isFresh) this.#mark(MARK.shape, place, 2);
      this.#mark(kind, mixNumber(place + 3), Math.min(value.length, 12));
      const inner = mixNumber(place + 5);
      for (let i = 0; i < value.length && i < (isFresh ? 4 : 1); i++)
        this.#markJson(isFresh, name, value.length === 1 ? inner : mixNumber(inner + i), value[i], depth + 1);
      return;
    }
    if (isObject(value)) {
      if (isFresh) this.#mark(MARK.shape, place, 3);
      for (const key of Object.keys(value)) {
        const item = value[key];
        const at = hashString(key, place);
        if (key === '…' && typeof item === 'string') {
          if (isFresh) this.#markWords(MARK.fresh_word, place, item);
        } else this.#markJson(isFresh, name, at, item, depth + 1);
      }
      return;
    }
    if (isFresh) this.#mark(MARK.shape, place, value === null ? 4 : typeof value === 'string' ? 5 : 6);
    if ((typeof value === 'string' && value.length >= 3 && value.length <= 48) || typeof value === 'number') {
      // That a result speaks of what the user spoke of, or of something else, may decide.
      this.#mark(kind, mixNumber(place + 11), this.#said.has(plainValue(value)) ? 1 : 2);
    }
    if (typeof value === 'string') {
      if (value.length <= 48) this.#mark(kind, place, hashString(value));
      if (isFresh && value.length > 12) {
        this.#markWords(MARK.fresh_word, place, value);
        if (value.length > 48) this.#markLines(place, value);
      }
    } else if (typeof value !== 'number' || Number.isInteger(value)) {
      this.#mark(kind, place, hashString(String(value), 1));
    }
  }

  #markNext(place: number, value: unknown): void {
    if (isObject(value)) {
      let fields = 0;
      for (const key of Object.keys(value)) {
        const item = value[key];
        if (fields++ > 16) return;
        if (typeof item === 'boolean' || item === null || (typeof item === 'string' && item.length <= 48))
          this.#mark(MARK.past, hashString(key, place), hashString(String(item)));
      }
    } else if (typeof value === 'string' && value.length <= 48)
      this.#mark(MARK.past, place, hashString(value));
  }

  /** How far the calls since a list came are through it. */
  #markProgress(name: string, json: unknown, at: number, calls: readonly PastCall[]): void {
    const since = new Map<string, number>();
    for (const call of calls) if (call.at > at) since.set(call.name, (since.get(call.name) ?? 0) + 1);
    if (since.size === 0 || since.size > 8) return;
    const { length } = Object.keys(this.#progress);
    if (length < 16) this.#progress[name] = Object.fromEntries(since);
    let lists = 0;
    const visit = (value: unknown, path: string, depth: number): void => {
      if (lists >= 4 || depth > 2) return;
      if (Array.isArray(value)) {
        lists++;
        const latest = calls[0]!.name;
        const next = value[since.get(latest) ?? value.length] as unknown;
        // What the next call is about, if the list is being worked through.
        if (next !== undefined) this.#markNext(hashString(`next ${name}${path}`), next);
        for (const [tool, count] of since)
          this.#mark(
            MARK.past,
            hashString(`through ${name}${path} ${tool}`),
            Math.sign(count - value.length) + 2,
          );
      } else if (isObject(value)) {
        for (const key of Object.keys(value).slice(0, 40))
          visit(value[key], `${path}.${key.slice(0, 64)}`, depth + 1);
      }
    };
    visit(json, '', 0);
  }
}

const DENYING = new Set(
  (
    "not no never nothing none neither nor without unless except instead only don't doesn't didn't isn't aren't wasn't " +
    "weren't won't wouldn't can't cannot couldn't shouldn't mustn't stop avoid skip refrain cancel"
  ).split(' '),
);

/** Words that turn a sentence round, each with the word behind it. */
function hashDenials(tokens: readonly TextToken[]): number {
  const found = new Set<number>();
  for (const [i, { kind, key }] of tokens.entries()) {
    if (kind !== 'word' || !DENYING.has(key.replaceAll('’', "'"))) continue;
    const next = tokens[i + 1];
    found.add(hashString(key, next?.kind === 'word' ? hashString(next.key) : 0));
  }
  let sum = found.size;
  for (const hash of [...found].sort((a, b) => a - b)) sum = mixNumber(Math.imul(sum, 31) + hash);
  return sum;
}

/** One way to write a value, for comparing. */
function plainValue(value: string | number): string {
  if (typeof value === 'number') return String(value);
  const number = value.length <= 16 ? Number(value.replaceAll(',', '')) : Number.NaN;
  return Number.isFinite(number) && value !== '' ? String(number) : value.toLowerCase();
}

/** @returns undefined for what is no JSON object or list, or too long to be looked at */
function parseResult(text: string): unknown {
  if (text.length > STUDENT_CORE.json_parsed) return undefined;
  let at = 0;
  while (at < text.length && text.charCodeAt(at) <= 32) at++;
  const first = text.charCodeAt(at);
  if (first !== 123 && first !== 91) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

interface Sentence {
  hash: number;
  start: number;
  end: number;
  isChanging: boolean;
  /** A path or an address is in it: where the agent works, though nothing was levelled. */
  isPlace: boolean;
  /** Of its numbers as they stand; 0 where it has none, and where it names a day or a time: those pass. */
  numbers: number;
}

/** Agents send the same long prompt with every step: its sentences are kept. */
const keptSentences = new RecentMap<string, readonly Sentence[]>(STUDENT_CORE.prompts_kept_bytes);
/** What one takes in memory, about. */
const SENTENCE_BYTES = 128;

/** All sentences of a prompt, however long it is: what is not read is not known to be the same. */
function sentencesOf(text: string): readonly Sentence[] {
  const recent = keptSentences.getRecent(text);
  if (recent !== undefined) return recent;
  let sentences = keptSentences.get(text);
  if (sentences === undefined) {
    const read: Sentence[] = [];
    readSentences(text, (hash, start, end, isChanging, isPlace) => {
      const numbers = isChanging ? hashNumbers(text, start, end) : 0;
      read.push({ hash, start, end, isChanging, isPlace, numbers });
    });
    sentences = read;
  }
  keptSentences.set(text, sentences, 2 * text.length + SENTENCE_BYTES * sentences.length);
  return sentences;
}

/** A sentence is mostly shorter; in what has no sentences, numbers are data. */
const SENTENCE_READ = 2_000;
/** Words that begin with a digit or a capital: not within another word. */
const WORDS_OF_NUMBERS = /(?<![\p{L}\p{N}_][.:/@-]*)[0-9A-Z][\p{L}\p{N}_.:/@-]*/gu;
/** A number, with a unit or without; longer ones are ids and times. */
const PLAIN_NUMBER = /^\d{1,8}(?:\.\d{1,8})?\.?(?:\p{L}{1,4})?$/u;
const CAPITAL = /^[A-Z]/;
/** Signs that say with a number what it means: a currency, a comparison, less than nothing, a share. */
const SIGNS_BEFORE = /[<>=≤≥≠$€£¥+−-]+ ?$/;
const SIGNS_BEHIND = /^ ?[<>=≤≥≠$€£¥+%]+/;
const SIGNS_READ = 4;
const TIME_OR_YEAR = /^(?:\d+[:/-]\d[\d:/-]*.*|(?:19|20)\d\d\.?)$/;

/** @returns 0 for a sentence without numbers, and for one with a day or a time */
function hashNumbers(text: string, start: number, end: number): number {
  let hash = 0;
  const sentence = text.slice(start, Math.min(end, start + SENTENCE_READ));
  for (const { 0: word, index } of sentence.matchAll(WORDS_OF_NUMBERS)) {
    // Written small it is a verb: what an agent may do, and how often.
    const isName = CAPITAL.test(word) && DAYS_AND_MONTHS.has(hashString(word.toLowerCase()));
    if (isName || TIME_OR_YEAR.test(word)) return 0;
    if (!PLAIN_NUMBER.test(word)) continue;
    const at = start + index;
    const behind = at + word.length;
    const [before = ''] = SIGNS_BEFORE.exec(text.slice(Math.max(0, at - SIGNS_READ), at)) ?? [];
    const [after = ''] = SIGNS_BEHIND.exec(text.slice(behind, behind + SIGNS_READ)) ?? [];
    hash = mixNumber(Math.imul(hash, 31) + hashString(before + word + after)) || 1;
  }
  return hash;
}

/**
 * Sentences and lines as hashes of their words: words with a digit, days and months are levelled.
 * @param visit `isChanging`: something was levelled; `isPlace`: two slashes or more are in it
 */
function readSentences(
  text: string,
  visit: (hash: number, start: number, end: number, isChanging: boolean, isPlace: boolean) => void,
): void {
  let sentence = 0;
  let word = 0x811c9dc5;
  let isWord = false;
  let hasDigit = false;
  let isChanging = false;
  let words = 0;
  let slashes = 0;
  let start = 0;
  const { length } = text;
  for (let at = 0; at <= length; at++) {
    const code = at < length ? text.charCodeAt(at) : 10;
    const isDigit = code >= 48 && code <= 57;
    const isLetter = (code | 32) >= 97 && (code | 32) <= 122;
    if (code === 47) slashes++;
    if (
      isDigit ||
      isLetter ||
      code > 127 ||
      code === 95 ||
      ((code === 45 || code === 47 || code === 46 || code === 64 || code === 58) &&
        isWord &&
        isWordAt(text, at + 1))
    ) {
      if (!isWord && words === 0) start = at;
      isWord = true;
      if (isDigit) hasDigit = true;
      word = Math.imul(word ^ (isLetter ? code | 32 : code), 0x01000193);
      continue;
    }
    if (isWord) {
      words++;
      const hash = mixNumber(word);
      const isWhen = hasDigit || DAYS_AND_MONTHS.has(hash);
      if (isWhen) isChanging = true;
      sentence = mixNumber(Math.imul(sentence, 31) + (isWhen ? 9 : hash));
      word = 0x811c9dc5;
      isWord = false;
      hasDigit = false;
    }
    const isEnd =
      code === 10 ||
      ((code === 46 || code === 33 || code === 63) && (at + 1 >= length || text.charCodeAt(at + 1) <= 32));
    if (isEnd && words > 0) {
      visit(sentence, start, at, isChanging, slashes > 1);
      sentence = 0;
      words = 0;
      slashes = 0;
      isChanging = false;
    }
  }
}

function isWordAt(text: string, at: number): boolean {
  if (at >= text.length) return false;
  const code = text.charCodeAt(at);
  return code > 127 || (code >= 48 && code <= 57) || ((code | 32) >= 97 && (code | 32) <= 122);
}
