/**
 * Reads the parts of one request that make its step: the system prompt, the task and the user's latest words, and the
 * latest calls and results of each tool. It looks back a bounded distance, so a long run costs no more than a short
 * one. Pure; teaching and the student's thread.
 */

import type { NormalRequest, TurnBlock, TurnMessage } from '../../domain/turn.ts';
import { parseExact } from '../../std/exact-json.ts';
import { addressOf } from './addresses.ts';
import { partInstructions } from './instructions.ts';
import { type CopyBudget, copyBounded, cutText, hashString, mixNumber } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';
import { readLinks } from './page-links.ts';
import { sentencesOf } from './prompt-sentences.ts';
import { cutSentences } from './prompt-text.ts';
import { type PlacedValue, PromptValues } from './prompt-values.ts';
import { MARK, type PastCall, type PastResult, StepMarks } from './step-marks.ts';

/** A part of the step's context from which values can be taken. */
export interface StepSource {
  /**
   * One of these names:
   * - `task`: the user's first words; `said`: the user's latest words, if different; `said#1`: all words between them
   * - `system`: the changing lines of the system prompt, and the current day according to tools' descriptions
   * - `result:NAME`, `call:NAME`: the latest result of the tool, and the input of its latest call; with `#1` at the end
   *   the previous one, and so on
   * - `beside result:NAME`: the text around the JSON of a result
   * - `results:NAME`: all results of a tool that was called several times at once
   * - `links:NAME`: the links of a page that the step answers
   * - `progress`: by result, how often each tool was called since the result arrived; under `task`, how many calls of
   *   each tool succeeded
   */
  name: string;
  /** Text for prose, otherwise a bounded copy of the JSON. */
  value: unknown;
}

/**
 * The absolute path of a folder, or of a file in one. Tools for files need the folder, so other changing lines must not
 * take its place.
 */
const FOLDER = /(?<![\w:/.<~-])(?:~?\/[^\s/"'`<>]+\/|[A-Za-z]:\\)/;
/** Prefix of the hash of prompt blocks that are not kept; no client sends this character. */
const BEYOND = '\u0000';

/** Reads the parts of one request. */
export class StepReader {
  readonly system: number[] = [];
  /** The system prompt, as sentences of each block. */
  readonly prompt: (readonly string[])[] = [];
  readonly values: number[];
  readonly marks: StepMarks;
  readonly sources: StepSource[] = [];
  stage = '';
  turn = 0;
  hasUnread = false;
  readonly #messages: readonly TurnMessage[];
  /** Index of the first answer; without an answer, the number of messages. */
  readonly #taskEnd: number;
  /** Places and hashes of the numbers in the system prompt, in turn. */
  readonly #numbers: number[] = [];
  /** Number of occurrences of each sentence that has numbers. */
  readonly #numbered = new Map<number, number>();
  /** One hash of all numbers beyond the bound; 0: none. */
  #moreNumbers = 0;
  readonly #values: PromptValues;
  readonly #progress: Record<string, Record<string, number>> = {};
  readonly #budget: CopyBudget = { characters: STUDENT_CORE.step, nodes: STUDENT_CORE.json_nodes };

  /** @param told the current day according to the tools' descriptions */
  constructor(
    request: NormalRequest,
    at_ms: number | null,
    marks = new StepMarks(),
    told: readonly string[] = [],
  ) {
    this.marks = marks;
    this.#values = new PromptValues(at_ms);
    this.values = this.#values.values;
    const { system, messages, task_end } = partInstructions(request);
    this.#messages = messages;
    this.#taskEnd = task_end;
    const changing = this.#readSystem(system);
    this.#readConversation();
    this.#values.close();
    if (this.#moreNumbers !== 0) this.#numbers.push(hashString('more'), this.#moreNumbers);
    this.marks.closeLists();
    this.marks.markSystemNumbers(this.#numbers);
    const values = changing + told.map((text) => `${text}\n`).join('');
    if (values !== '') this.sources.push({ name: 'system', value: values });
  }

  /**
   * Reads the system prompt.
   * @returns the lines that probably change between requests, judged only by this request; lines with a folder come last
   */
  #readSystem(blocks: readonly TurnBlock[]): string {
    let changing = '';
    let places = '';
    let folders = '';
    let rest = 0;
    let room: number = STUDENT_CORE.prompt_characters;
    let beyond = 0;
    for (const block of blocks) {
      if (block.type !== 'text') continue;
      const { text } = block;
      if (text.length <= room) this.prompt.push(cutSentences(text));
      else beyond = mixNumber(Math.imul(beyond, 31) + hashString(text));
      room -= text.length;
      for (const sentence of sentencesOf(text)) {
        const { hash, start, end, isChanging, isPlace, numbers } = sentence;
        this.#values.addSystem(sentence, text);
        if (numbers !== 0) this.#noteNumbers(hash, numbers);
        if (this.system.length < STUDENT_CORE.system_sentences) this.system.push(hash);
        else rest = mixNumber(Math.imul(rest, 31) + hash);
        if (!isChanging && !isPlace) continue;
        const line = `${text.slice(start, Math.min(end, start + 200))}\n`;
        if (isPlace && folders.length < STUDENT_CORE.system_folders && FOLDER.test(line)) folders += line;
        else if (isChanging && changing.length < STUDENT_CORE.system_changing) changing += line;
        else if (!isChanging && places.length < STUDENT_CORE.system_changing) places += line;
      }
    }
    // Blocks beyond the bound are compared as a whole.
    if (beyond !== 0) this.prompt.push([`${BEYOND}${beyond}`]);
    changing += places.slice(0, Math.max(0, STUDENT_CORE.system_changing - changing.length));
    if (rest !== 0) this.system.push(rest);
    return changing + folders;
  }

  /** Sentences that differ only in their numbers are distinguished by their order. */
  #noteNumbers(sentence: number, numbers: number): void {
    const count = (this.#numbered.get(sentence) ?? 0) + 1;
    this.#numbered.set(sentence, count);
    const place = mixNumber(sentence + count);
    if (this.#numbers.length < 2 * STUDENT_CORE.system_numbers) this.#numbers.push(place, numbers);
    else this.#moreNumbers = mixNumber(Math.imul(this.#moreNumbers, 31) + (place ^ numbers));
  }

  #readConversation(): void {
    const messages = this.#messages;
    const { length } = messages;
    let last = length - 1;
    while (last >= 0 && messages[last]!.role !== 'assistant') last--;
    // This step answers the messages after the last answer.
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
    orderResults(results, calls);
    let turn = 0;
    let talks = 0;
    for (const { role, content } of messages) {
      if (role !== 'assistant') continue;
      turn++;
      if (!content.some(({ type }) => type === 'tool_call')) talks++;
    }
    this.turn = turn;
    this.marks.mark(MARK.past, hashString('talks'), Math.min(talks, 12));
    const task = this.#readTask();
    this.#values.addTask(task);
    this.#addText('task', task, STUDENT_CORE.task, MARK.task_word);
    if (last >= 0 && said !== '') this.#addText('said', said, STUDENT_CORE.said, MARK.said_word);
    const before = this.#readSaidBefore(floor, last);
    if (before !== '') this.#addText('said#1', before, STUDENT_CORE.said, MARK.said_word);
    this.#nameStage(last, said, results);
    this.marks.markPast(calls, results);
    if (floor <= this.#taskEnd && Math.max(calls.length, results.length) < STUDENT_CORE.calls_back)
      this.#progress.task = countMade(results);
    this.#addResults(results, last, calls);
    this.sources.push({ name: 'progress', value: this.#progress });
  }

  /**
   * The user's words between the task and the latest words, latest first. Instructions among them may still be valid.
   */
  #readSaidBefore(floor: number, last: number): string {
    let text = '';
    for (let at = last - 1; at >= floor && at >= this.#taskEnd && text.length < STUDENT_CORE.said; at--) {
      const { role, content } = this.#messages[at]!;
      if (role === 'assistant') continue;
      for (const block of content)
        if (block.type === 'text') text = text === '' ? block.text : `${text}\n${block.text}`;
        else if (block.type === 'other') this.hasUnread = true;
    }
    return text;
  }

  #readTask(): string {
    for (let at = 0; at < this.#taskEnd; at++)
      if (this.#messages[at]!.content.some(({ type }) => type === 'media' || type === 'other'))
        this.hasUnread = true;
    return readTask(this.#messages, this.#taskEnd);
  }

  #readResult(block: Extract<TurnBlock, { type: 'tool_result' }>, at: number, isFresh: boolean): PastResult {
    let text = '';
    for (const part of block.content) {
      if (part.type === 'text') text = text === '' ? part.text : `${text}\n${part.text}`;
      else if (isFresh && (part.type === 'media' || part.type === 'other')) this.hasUnread = true;
    }
    const is_error = block.is_error || FAILED_COMMAND.test(text.slice(0, STUDENT_CORE.string));
    return { id: block.call_id, name: block.name ?? '?', text, is_error, at };
  }

  #nameStage(last: number, said: string, results: readonly PastResult[]): void {
    if (last < 0) {
      this.stage = 'task';
      return;
    }
    const counts = new Map<string, number>();
    for (const result of results) {
      if (result.at <= last) break;
      const name = `${result.name.slice(0, 64)}${result.is_error ? '!' : ''}`;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    // Concurrent calls have no order. Several calls of one tool mean one call per list element, so every number above
    // one belongs to the same stage.
    const names = [...counts].map(([name, count]) => (count > 1 ? `${name}×` : name));
    if (said !== '') names.push('said');
    names.sort();
    if (names.length > STUDENT_CORE.answer_calls) names.splice(STUDENT_CORE.answer_calls, names.length, '…');
    this.stage = names.join(' ');
  }

  #addText(name: string, text: string, limit: number, kind: number): void {
    const cut = cutText(text, Math.max(0, Math.min(limit, this.#budget.characters)));
    this.#budget.characters -= cut.length;
    this.sources.push({ name, value: cut });
    this.marks.markSaid(kind, hashString(name), cut);
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
    const addText = (name: string, text: string, isFresh: boolean): void => {
      const cut = cutText(
        text,
        Math.min(STUDENT_CORE.result, 4 * STUDENT_CORE.string, this.#budget.characters),
      );
      this.#budget.characters -= cut.length;
      this.sources.push({ name, value: cut });
      if (isFresh) {
        this.marks.markWords(MARK.fresh_word, hashString(name), cut);
        this.marks.markLines(hashString(name), cut);
      } else if (!name.includes('#')) this.marks.markWords(MARK.earlier_word, hashString(name), cut);
    };
    // Calls are small and show what was searched for, so they come before old results.
    const addResult = (result: PastResult): void => {
      const name = takeName('result', result.name);
      if (name === null || this.#budget.characters <= 0) return;
      const isFresh = result.at > last;
      const { json, text } = readResultText(result.text);
      if (text !== '' || json === undefined)
        addText(json === undefined ? name : `beside ${name}`, text, isFresh);
      if (json === undefined && isFresh && !name.includes('#')) this.#addLinks(name, result, calls);
      if (json === undefined) return;
      const copy = add(name, json, STUDENT_CORE.result);
      if (copy === undefined) return;
      const isLatest = !name.includes('#');
      if (isFresh || isLatest) {
        this.marks.markJson(isFresh, name, hashString(name), copy, 0);
        this.marks.markShared(hashString(name), copy);
      }
      if (!isLatest) return;
      this.#noteProgress(name, json, result.at, calls);
      this.marks.markLists(
        name,
        copy,
        calls.filter(({ at }) => at > result.at),
      );
    };
    for (const result of results) if (result.at > last) addResult(result);
    for (const [name, values] of resultsOfOneTool(results, last)) {
      const copy = add(`results:${name}`, values, STUDENT_CORE.result);
      if (copy !== undefined) this.marks.markLists(`results:${name}`, copy, []);
    }
    for (const call of calls) {
      const name = takeName('call', call.name);
      if (name === null) continue;
      const copy = add(name, call.input, STUDENT_CORE.call);
      if (copy !== undefined && !name.includes('#'))
        this.marks.markJson(false, name, hashString(name), copy, 0);
    }
    for (const result of results) if (result.at <= last) addResult(result);
  }

  /** Adds the links of a page as a list. */
  #addLinks(name: string, { id, text }: PastResult, calls: readonly PastCall[]): void {
    const call = calls.find((each) => each.id === id);
    const links = readLinks(text, call === undefined ? undefined : addressOf(call.input));
    if (links.length === 0) return;
    const source = `links:${name.slice(name.indexOf(':') + 1)}`;
    this.sources.push({ name: source, value: links.slice(0, STUDENT_CORE.json_items) });
    this.marks.markLists(source, links, []);
  }

  #noteProgress(name: string, json: unknown, at: number, calls: readonly PastCall[]): void {
    const since = new Map<string, number>();
    for (const call of calls) if (call.at > at) since.set(call.name, (since.get(call.name) ?? 0) + 1);
    if (since.size === 0 || since.size > 8) return;
    const { length } = Object.keys(this.#progress);
    if (length < 16) this.#progress[name] = Object.fromEntries(since);
    this.marks.markProgress(name, json, since, calls[0]!.name);
  }
}

/** How many calls of each tool succeeded. */
function countMade(results: readonly PastResult[]): Record<string, number> {
  const made = new Map<string, number>();
  for (const { name, is_error } of results) if (!is_error) made.set(name, (made.get(name) ?? 0) + 1);
  return Object.fromEntries(made);
}

/** The user's words before any answer. The API treats consecutive user messages as one. */
function readTask(messages: readonly TurnMessage[], end: number): string {
  let text = '';
  for (let at = 0; at < end; at++)
    for (const block of messages[at]!.content)
      if (block.type === 'text') text = text === '' ? block.text : `${text}\n${block.text}`;
  return text;
}

/**
 * Reports each value in the wording of a request's prompt with its place, for explanations.
 */
export function readPromptValues(request: NormalRequest, tell: (value: PlacedValue) => void): void {
  const { system, messages, task_end } = partInstructions(request);
  const values = new PromptValues(null, tell);
  for (const block of system)
    if (block.type === 'text')
      for (const sentence of sentencesOf(block.text)) values.addSystem(sentence, block.text);
  values.addTask(readTask(messages, task_end));
}

/** Results of tools that were called several times at once, in the order of the calls. */
function resultsOfOneTool(results: readonly PastResult[], last: number): Map<string, unknown[]> {
  const found = new Map<string, unknown[]>();
  for (const { at, name, text } of results) {
    if (at <= last) break;
    const key = name.slice(0, 64);
    const values = found.get(key);
    const value = readResultText(text).json ?? text;
    if (values === undefined) found.set(key, [value]);
    else values.unshift(value);
  }
  for (const [name, values] of found) if (values.length < 2) found.delete(name);
  return found;
}

/** The line with which shell tools begin the result of a failed command when they do not mark it as an error. */
const FAILED_COMMAND = /^(?:Process exited with|Exit) code:? -?[1-9]/m;

/**
 * Puts results into the order of their calls, which is the same in every run. Clients return results in the order in
 * which calls end. In both lists, the latest comes first.
 */
function orderResults(results: PastResult[], calls: readonly PastCall[]): void {
  const places = new Map<string | null, number>(calls.map(({ id }, place) => [id, place]));
  const known = results.filter(({ id }) => places.has(id));
  known.sort((a, b) => places.get(a.id)! - places.get(b.id)!);
  let next = 0;
  for (const [at, { id }] of results.entries()) if (places.has(id)) results[at] = known[next++]!;
}

/** The JSON in a result, and the text around it: shell tools add lines to a command's output. */
function readResultText(text: string): { json?: unknown; text: string } {
  if (text.length > STUDENT_CORE.json_parsed) return { text };
  let tries = 0;
  for (const { index: start } of text.matchAll(LINE_OF_JSON)) {
    if (++tries > JSON_TRIES) break;
    const end = findJsonEnd(text, start);
    // A line that continues after the bracket is not JSON.
    if (end < 0 || !/^[ \t\r]*(?:\n|$)/.test(text.slice(end, end + STUDENT_CORE.string))) continue;
    try {
      const json = parseExact(text.slice(start, end));
      return { json, text: `${text.slice(0, start)}${text.slice(end)}`.trim() };
    } catch {
      // The text only begins like JSON.
    }
  }
  return { text };
}

const LINE_OF_JSON = /(?<=^[ \t]{0,8})[{[]/gm;
const JSON_TRIES = 3;

/** Index after the bracket that closes the bracket at `start`; −1 when it is not closed. */
function findJsonEnd(text: string, start: number): number {
  let depth = 0;
  let isString = false;
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isString) {
      if (code === 92) at++;
      else if (code === 34) isString = false;
    } else if (code === 34) isString = true;
    else if (code === 123 || code === 91) depth++;
    else if ((code === 125 || code === 93) && --depth === 0) return at + 1;
  }
  return -1;
}
