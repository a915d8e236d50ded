/**
 * Reads the text and calls of an answer directly from its bytes. Audits compare with this reading, and a step is taught
 * only if this reading agrees with that of src/providers. The two readers share no code except the decoding of content
 * codings, so a fault in either reader becomes visible. This reader reads text and calls of the three wires that
 * students serve. Pure; the student's thread, the capture reader and the command line.
 */

import type { RelegationWire } from '../../domain/exchange.ts';
import type { TurnBlock } from '../../domain/turn.ts';
import { decodeContent } from '../../providers/content-encoding.ts';
import { canonicalJson, isRawNumber, parseExact } from '../../std/exact-json.ts';
import type { StudentBlock } from '../model/decision.ts';

/** A call as read from the bytes. */
interface ByteCall {
  name: string;
  id: string;
  /** JSON text as received, whole or in pieces. */
  text: string;
  /** Arguments that arrived as a JSON value, or the input of a custom tool; undefined for arguments as JSON text. */
  value: unknown;
}

/** Text and calls of one answer. */
interface ByteAnswer {
  text: string;
  calls: ByteCall[];
}

/** What an answer says. The `input` of a call whose arguments are not JSON is their text. */
export type SaidBlocks = StudentBlock[];

/**
 * Reads an answer.
 * @param headers flat [name, value, …]
 * @returns null for bytes that are not an answer of this wire, and for an answer with blocks that no student
 * produces, such as calls of a provider's tools
 */
export function readAnswerBytes(
  wire: RelegationWire,
  headers: readonly string[],
  body: Uint8Array,
): SaidBlocks | null {
  const { bytes, problem } = decodeContent(body, headers);
  if (problem !== '') return null;
  try {
    const text = new TextDecoder().decode(bytes);
    const { whole, events } = text.trimStart().startsWith('{')
      ? { whole: objectOf(parseExact(text)), events: [] }
      : { whole: null, events: readEvents(text) };
    const said = READERS[wire](whole, events);
    return said === null ? null : finishAnswer(said);
  } catch {
    return null;
  }
}

/**
 * Whether two readings of one answer differ in what an agent acts on: the calls and their arguments, or the text if
 * there are no calls. Numbers are compared digit by digit.
 */
export function readingsDiffer(a: readonly TurnBlock[], b: readonly TurnBlock[]): boolean {
  const calls = [callsOf(a), callsOf(b)];
  if (calls[0] !== '' || calls[1] !== '') return calls[0] !== calls[1];
  return textsOf(a) !== textsOf(b);
}

function callsOf(content: readonly TurnBlock[]): string {
  return content
    .flatMap((block) => (block.type === 'tool_call' ? [`${block.name} ${canonicalJson(block.input)}\n`] : []))
    .join('');
}

function textsOf(content: readonly TurnBlock[]): string {
  return content
    .flatMap((block) => (block.type === 'text' ? [block.text] : []))
    .join('')
    .replace(/\s+/g, ' ')
    .trim();
}

type Fields = Record<string, unknown>;

const READERS: Readonly<
  Record<RelegationWire, (whole: Fields | null, events: readonly Fields[]) => ByteAnswer | null>
> = {
  messages: (whole, events) => (whole === null ? readMessageEvents(events) : readMessage(whole)),
  chat_completions: readCompletion,
  responses: readResponse,
};

/** The objects in the `data:` lines of server-sent events. @throws SyntaxError */
function readEvents(text: string): Fields[] {
  const events: Fields[] = [];
  for (const part of text.replace(/\r\n?/g, '\n').split(/\n{2,}/)) {
    const data = part
      .split('\n')
      .filter((line) => line.startsWith('data:'))
      .map((line) => line.slice('data:'.length).trimStart())
      .join('\n');
    if (data !== '' && data !== '[DONE]') events.push(objectOf(parseExact(data)));
  }
  return events;
}

function readMessage({ content }: Fields): ByteAnswer | null {
  if (!Array.isArray(content)) return null;
  const answer: ByteAnswer = { text: '', calls: [] };
  for (const block of content.map(objectOf)) {
    if (block.type === 'text') answer.text += stringOf(block.text);
    else if (block.type === 'tool_use')
      answer.calls.push({ name: stringOf(block.name), id: '', text: '', value: block.input });
    else if (!isThought(block.type)) return null;
  }
  return answer;
}

function readMessageEvents(events: readonly Fields[]): ByteAnswer | null {
  const all: { text: string; call: ByteCall | null }[] = [];
  const open = new Map<string, (typeof all)[number]>();
  let isBegun = false;
  for (const event of events) {
    const key = keyOf(event.index) ?? '';
    if (event.type === 'message_start') isBegun = true;
    else if (event.type === 'content_block_start') {
      const { type, text, name, input } = objectOf(event.content_block);
      if (type !== 'text' && type !== 'tool_use' && !isThought(type)) return null;
      const call = type === 'tool_use' ? { name: stringOf(name), id: '', text: '', value: input } : null;
      const block = { text: type === 'text' ? stringOf(text) : '', call };
      all.push(block);
      open.set(key, block);
    } else if (event.type === 'content_block_delta') {
      const { type, text, partial_json: piece } = objectOf(event.delta);
      const block = open.get(key);
      if (block === undefined) return null;
      if (type === 'text_delta') block.text += stringOf(text);
      else if (type === 'input_json_delta' && block.call !== null) addArguments(block.call, piece);
    }
  }
  if (!isBegun) return null;
  return {
    text: all.map(({ text }) => text).join(''),
    calls: all.flatMap(({ call }) => (call === null ? [] : [call])),
  };
}

function readCompletion(whole: Fields | null, events: readonly Fields[]): ByteAnswer | null {
  const answer: ByteAnswer = { text: '', calls: [] };
  const pieces = new CallPieces(answer.calls);
  let isBegun = false;
  for (const body of whole === null ? events : [whole])
    for (const choice of listOf(body.choices).map(objectOf)) {
      if ((keyOf(choice.index) ?? '0') !== '0') continue;
      isBegun = true;
      const message = objectOf(choice.delta ?? choice.message);
      answer.text += textOfParts(message.content);
      for (const piece of listOf(message.tool_calls).map(objectOf)) {
        if (piece.type === 'custom') return null;
        pieces.add(piece, whole !== null);
      }
    }
  return isBegun ? answer : null;
}

/**
 * Collects calls that arrive in pieces, possibly interleaved. An index or an id says which call a piece belongs to.
 */
class CallPieces {
  readonly #calls: ByteCall[];
  readonly #byIndex = new Map<string, ByteCall>();

  constructor(calls: ByteCall[]) {
    this.#calls = calls;
  }

  add(piece: Fields, isWhole: boolean): void {
    const { name: told, arguments: input } = objectOf(piece.function);
    const [id, name, key] = [stringOf(piece.id), stringOf(told), keyOf(piece.index)];
    let call = key === null ? this.#calls.at(-1) : this.#byIndex.get(key);
    if (call === undefined || isWhole || isAnother(call, id, name, input)) {
      call = { name, id, text: '', value: undefined };
      this.#calls.push(call);
    } else {
      call.id ||= id;
      if (name !== call.name && call.text === '' && call.value === undefined) call.name += name;
    }
    if (key !== null) this.#byIndex.set(key, call);
    addArguments(call, input);
  }
}

/** Whether a piece with the same index as a call begins another call. */
function isAnother(call: ByteCall, id: string, name: string, input: unknown): boolean {
  if (id !== '' && call.id !== '') return id !== call.id;
  const brings = (typeof input === 'string' && input !== '') || isBranch(input);
  return name !== '' && brings && (call.value !== undefined || isWholeJson(call.text));
}

function readResponse(whole: Fields | null, events: readonly Fields[]): ByteAnswer | null {
  let items: unknown[] | null = Array.isArray(whole?.output) ? whole.output : null;
  if (items === null) {
    const done = events.filter(({ type }) => type === 'response.output_item.done');
    const last = events.findLast(({ response }) => listOf(objectOf(response).output).length > 0);
    if (done.length > 0) items = done.map(({ item }) => item);
    else if (last !== undefined) items = listOf(objectOf(last.response).output);
  }
  if (items === null) return null;
  const answer: ByteAnswer = { text: '', calls: [] };
  for (const item of items.map(objectOf)) {
    if (item.type === 'message') answer.text += textOfParts(item.content);
    else if (item.type === 'function_call') {
      const call: ByteCall = { name: stringOf(item.name), id: '', text: '', value: undefined };
      addArguments(call, item.arguments);
      answer.calls.push(call);
    } else if (item.type === 'custom_tool_call')
      answer.calls.push({ name: stringOf(item.name), id: '', text: '', value: stringOf(item.input) });
    else if (item.type === 'local_shell_call')
      answer.calls.push({ name: 'local_shell', id: '', text: '', value: item.action });
    else if (item.type !== 'reasoning') return null;
  }
  return answer;
}

function isThought(type: unknown): boolean {
  return type === 'thinking' || type === 'redacted_thinking';
}

function addArguments(call: ByteCall, input: unknown): void {
  if (typeof input === 'string') call.text += input;
  else if (isBranch(input)) call.value = input;
}

/** Text of a message: a string, or the concatenated texts of its parts. */
function textOfParts(content: unknown): string {
  if (typeof content === 'string') return content;
  return listOf(content)
    .map(objectOf)
    .map(({ type, text }) => (type === 'text' || type === 'output_text' ? stringOf(text) : ''))
    .join('');
}

function finishAnswer({ text, calls }: ByteAnswer): SaidBlocks {
  const said: SaidBlocks = text === '' ? [] : [{ type: 'text', text }];
  for (const { name, text: json, value } of calls)
    said.push({
      type: 'tool_call',
      id: '',
      name,
      input: json.trim() === '' ? (value ?? {}) : parseOrKeep(json),
    });
  return said;
}

function parseOrKeep(json: string): unknown {
  try {
    return parseExact(json);
  } catch {
    return json;
  }
}

function isWholeJson(text: string): boolean {
  return text.trim() !== '' && typeof parseOrKeep(text) !== 'string';
}

function isBranch(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !isRawNumber(value);
}

function objectOf(value: unknown): Fields {
  return isBranch(value) && !Array.isArray(value) ? (value as Fields) : {};
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** An index as text; null when missing. */
function keyOf(value: unknown): string | null {
  return typeof value === 'number' || (typeof value === 'string' && value !== '') ? String(value) : null;
}
