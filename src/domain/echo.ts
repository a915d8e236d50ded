/**
 * The echo of an answer: the next request of the conversation repeats it as the client's own SDK parsed it. If the echo
 * differs from our reading of the answer, one of the two is wrong, and the copy proves nothing. Pure; capture reader,
 * command line.
 *
 * An echo need not be literal. Clients make the following differences, which do not count:
 *  - reasoning, citations, media and the results of tools that the provider runs are left out, in blocks or in
 *    `<think>` tags;
 *  - white space is trimmed or added, empty texts are dropped, texts are joined or split over several messages;
 *  - a text is dropped or cut: the echo is a part of it, or a placeholder such as `(no content)`;
 *  - a text is replaced: the echo has less than half of what was read;
 *  - quotation marks and dashes are typographic on one side;
 *  - JSON in a text is written in another way;
 *  - arguments of a call leave out null fields, or write numbers in another way with the same digits;
 *  - arguments of a call have, or leave out, a field with the default value that the tool's schema declares;
 *  - the client numbers all calls itself, or describes calls or their arguments in the text;
 *  - the client adds its own call, whose id has another form than those of the answer;
 *  - a secret is masked on one side.
 *
 * An echo in another wire format was converted by the client, and is not compared.
 *
 * Memory: the last OPEN_ANSWERS answers, of at most ANSWER_CHARACTERS each; a longer one is not compared.
 */
import { hash } from 'node:crypto';
import { MASK } from '../redaction/mask.ts';
import { canonicalJson, isRawNumber, parseExact } from '../std/exact-json.ts';
import { SchemaDefaults } from './schema-defaults.ts';
import type { NormalRequest, NormalTurn, TurnBlock, TurnMessage } from './turn.ts';

/** An answer that was repeated differently from how it was read. */
export interface EchoDifference {
  /** The exchange whose answer it is. */
  exchange_id: number;
  /** The exchange whose request repeats it. */
  repeated_by: number;
  /** The texts at the first difference, as read and as repeated, cut. */
  read: string;
  repeated: string;
}

/** Maximum number of answers of a run whose echo may still follow. */
const OPEN_ANSWERS = 64;
/** Maximum characters of texts and arguments in an answer that is compared. */
const ANSWER_CHARACTERS = 1_000_000;
/** Number of characters shown of each side, and how many of them precede the difference. */
const SHOWN_CHARACTERS = 400;
const SHOWN_BEFORE = 60;

/** Texts that clients write instead of an empty answer. */
const PLACEHOLDERS = new Set(['(nocontent)', '[nocontent]', '.', '-']);
/** If an echo contains less than this share of the text that was read, the client has replaced the text. */
const SHARED_AT_LEAST = 0.5;
/**
 * To measure SHARED_AT_LEAST, the texts are divided into overlapping pieces of PIECE characters. Only the first
 * SHARED_CHARACTERS characters of each text are compared.
 */
const SHARED_CHARACTERS = 20_000;
const PIECE = 3;
/** The marks that clients leave where they cut a text. */
const CUT_MARK = /(?:\.\.\.|…|\[?\(?truncated\)?\]?)+$/i;
const REASONING = /<(think|thinking|reasoning)>[\s\S]*?(?:<\/\1>|$)/g;

interface ReadCall {
  id: string;
  name: string;
  input: unknown;
}

/** The parts of an answer that an echo must repeat. */
interface Said {
  text: string;
  calls: ReadCall[];
}

/** An answer, and where to find its echo. */
interface OpenAnswer {
  exchange_id: number;
  wire: string | null;
  /**
   * Number of messages of the request, all of which precede the answer, with digests of the first and the last of them.
   */
  before: number;
  first: string;
  last: string;
  said: Said;
  /** Whether the provider cut the answer at the maximum number of tokens. */
  is_cut: boolean;
}

/** Compares the answers of one run with their echoes. */
export class EchoCheck {
  /** Number of answers that were compared with their echoes. */
  compared = 0;
  #open: OpenAnswer[] = [];

  /**
   * Adds the run's next turn.
   * @param exchange with its wire; `is_answered`: the answer is complete
   * @returns the difference that its request reveals; null if it reveals none
   */
  add(
    { id, wire, is_answered }: { id: number; wire: string | null; is_answered: boolean },
    { request, answer, problem }: NormalTurn,
  ): EchoDifference | null {
    const { messages } = request;
    const difference = this.#check({ id, wire }, request);
    if (!is_answered || problem !== '' || messages.length === 0) return difference;
    // A request may end with the beginning of the answer. The echo then contains this beginning and the answer.
    const before = messages.findLastIndex(({ role }) => role !== 'assistant') + 1;
    const begun = messages.slice(before).flatMap(({ content }) => content);
    const said = readSaid([...begun, ...answer.content]);
    if (before === 0 || said === null) return difference;
    this.#open.push({
      exchange_id: id,
      wire,
      before,
      first: nameMessage(messages[0]!),
      last: nameMessage(messages[before - 1]!),
      said,
      is_cut: answer.stop_reason === 'max_tokens',
    });
    if (this.#open.length > OPEN_ANSWERS) this.#open.shift();
    return difference;
  }

  #check(
    { id, wire }: { id: number; wire: string | null },
    { messages, tools }: NormalRequest,
  ): EchoDifference | null {
    const found = this.#findByPlace(messages) ?? this.#findByCall(messages);
    if (found === null) return null;
    const { answers, from } = found;
    // Each answer is compared once.
    this.#open = this.#open.filter((open) => !answers.includes(open));
    const defaults = new SchemaDefaults(tools);
    let difference: EchoDifference | null = null;
    for (const open of answers) {
      if (open.wire !== wire) return null;
      this.compared += 1;
      const end = messages.findIndex(({ role }, at) => at >= from && role !== 'assistant');
      // Clients may also write calls and results in pairs: then parts of the answer are between results.
      for (const echo of [messages.slice(from, end < 0 ? undefined : end), messages.slice(from)]) {
        const repeated = readSaid(echo.filter(isAssistant).flatMap(({ content }) => content));
        const sides = repeated === null ? null : compareSaid(open.said, repeated, defaults, open.is_cut);
        // If a request had several answers, the client continues from one of them.
        if (sides === null) return null;
        difference ??= { exchange_id: open.exchange_id, repeated_by: id, ...sides };
      }
    }
    return difference;
  }

  /**
   * Finds the answers whose request is the longest prefix of the messages: several if that request was sent repeatedly.
   * `from` is the place of the echo in the messages. null: there is no such answer.
   */
  #findByPlace(messages: readonly TurnMessage[]): { answers: OpenAnswer[]; from: number } | null {
    let best: OpenAnswer[] = [];
    let first: string | null = null;
    const names = new Map<number, string>();
    for (const open of this.#open.toReversed()) {
      const { before } = open;
      if (before >= messages.length || before < (best[0]?.before ?? 0)) continue;
      if (messages[before]!.role !== 'assistant') continue;
      first ??= nameMessage(messages[0]!);
      const last = names.get(before) ?? nameMessage(messages[before - 1]!);
      names.set(before, last);
      if (open.first !== first || open.last !== last) continue;
      best = open.before === best[0]?.before ? [...best, open] : [open];
    }
    return best.length === 0 ? null : { answers: best, from: best[0]!.before };
  }

  /**
   * Finds the latest answer by the id of one of its calls, because the client may have rewritten the history before it.
   * Returns null if the last answer in the messages has no such id.
   */
  #findByCall(messages: readonly TurnMessage[]): { answers: OpenAnswer[]; from: number } | null {
    const open = this.#open.at(-1);
    const end = messages.findLastIndex(isAssistant);
    if (open === undefined || end < 0) return null;
    const from = messages.findLastIndex((message, at) => at < end && !isAssistant(message)) + 1;
    const ids = new Set(listCalls(messages.slice(from, end + 1)).map(({ id }) => id));
    const isSame = open.said.calls.some(({ id }) => isTold(id) && ids.has(id));
    return isSame ? { answers: [open], from } : null;
  }
}

function isAssistant({ role }: TurnMessage): boolean {
  return role === 'assistant';
}

function listCalls(messages: readonly TurnMessage[]): ReadCall[] {
  return messages
    .flatMap(({ content }) => content)
    .flatMap((block) => (block.type === 'tool_call' ? [block] : []));
}

/** Reads the parts of an answer that an echo must repeat; null if they are too long to be compared. */
function readSaid(content: readonly TurnBlock[]): Said | null {
  let text = '';
  const calls: ReadCall[] = [];
  let characters = 0;
  for (const block of content) {
    if (block.type === 'text' || block.type === 'refusal') text += block.text;
    if (block.type !== 'tool_call') continue;
    const { id, name, input } = block;
    calls.push({ id, name, input });
    characters += canonicalInput(input).length;
  }
  return text.length + characters > ANSWER_CHARACTERS ? null : { text, calls };
}

/** The digests of messages. The turns of a run share the messages that they repeat. */
const named = new WeakMap<TurnMessage, string>();

function nameMessage(message: TurnMessage): string {
  let name = named.get(message);
  if (name === undefined) {
    name = digestMessage(message);
    named.set(message, name);
  }
  return name;
}

/**
 * Makes a digest of a message from its role, texts and media, the ids and names of its calls, and the ids of its
 * results.
 */
function digestMessage({ role, content }: TurnMessage): string {
  let text = role === 'tool' ? 'user' : role;
  for (const block of content) {
    if (block.type === 'text') text += `\0${block.text}`;
    else if (block.type === 'tool_call') text += `\0call ${block.id} ${block.name}`;
    else if (block.type === 'tool_result') text += `\0result ${block.call_id}`;
    else if (block.type === 'media') text += `\0${block.data}`;
  }
  return hash('sha256', text.replace(/\s+/g, ' ').trim(), 'base64url').slice(0, 22);
}

/**
 * Compares an answer with its echo.
 * @param defaults of the tools that the echoing request declares
 * @returns both sides at their first difference; null if they mean the same, or differ only in the calls of a
 *   truncated answer
 */
function compareSaid(
  read: Said,
  repeated: Said,
  defaults: SchemaDefaults,
  isCut: boolean,
): { read: string; repeated: string } | null {
  if (!isSameText(read, repeated)) return showBoth(read.text.trim(), repeated.text.trim());
  if (repeated.calls.length === 0 && hasCallsInText(read, repeated)) return null;
  const echoed = leaveOutMadeUp(read.calls, repeated.calls);
  const isSame =
    read.calls.length === echoed.length &&
    read.calls.every((call, at) => isSameCall(call, echoed[at]!, defaults)) &&
    hasSameIds(read.calls, echoed);
  // The last call of a truncated answer has incomplete arguments, which clients repair or drop.
  if (isSame || (isCut && read.calls.length > 0)) return null;
  return showBoth(writeCalls(read.calls), writeCalls(repeated.calls));
}

function isSameText({ text: read, calls }: Said, { text: repeated, calls: repeatedCalls }: Said): boolean {
  if (read.includes(MASK) || repeated.includes(MASK)) return true;
  const said = squeeze(read);
  const echo = squeeze(repeated);
  if (echo === '' || PLACEHOLDERS.has(echo) || said.includes(echo)) return true;
  const uncut = echo.replace(CUT_MARK, '');
  if (uncut !== echo && said.startsWith(uncut)) return true;
  // The client describes the calls in words, with other text around them.
  if (calls.length > 0 && repeatedCalls.length === 0 && areTold(calls, repeated)) return echo.includes(said);
  return isReplaced(said, echo) || canonicalInput(read) === canonicalInput(repeated);
}

/** Whether the text contains the names of all calls, or is the arguments of one. */
function areTold(calls: readonly ReadCall[], text: string): boolean {
  if (calls.every(({ name }) => text.includes(name))) return true;
  const told = canonicalInput(text);
  return calls.some(({ input }) => canonicalInput(input) === told);
}

/** Whether the text of an echo without calls describes the calls, or is a part of the answer's text. */
function hasCallsInText(read: Said, repeated: Said): boolean {
  if (repeated.text.trim() === '') return false;
  return areTold(read.calls, repeated.text) || squeeze(read.text).includes(squeeze(repeated.text));
}

/**
 * Whether the echo contains little of what was read. The client has then replaced the text, because our reading
 * cannot be wrong in every word.
 */
function isReplaced(said: string, echo: string): boolean {
  const pieces = listPieces(said);
  if (pieces.size === 0) return false;
  const others = listPieces(echo);
  let shared = 0;
  for (const piece of pieces) if (others.has(piece)) shared += 1;
  return shared < pieces.size * SHARED_AT_LEAST;
}

function listPieces(text: string): Set<string> {
  const pieces = new Set<string>();
  const end = Math.min(text.length, SHARED_CHARACTERS) - PIECE;
  for (let at = 0; at <= end; at++) pieces.add(text.slice(at, at + PIECE));
  return pieces;
}

const TYPOGRAPHIC: readonly (readonly [RegExp, string])[] = [
  [/[‘’‚‛′]/g, "'"],
  [/[“”„‟″]/g, '"'],
  [/[–—―]|--/g, '-'],
  [/…/g, '...'],
];

function squeeze(text: string): string {
  let squeezed = text.replace(REASONING, '').toWellFormed().replace(/\s+/g, '');
  for (const [sign, plain] of TYPOGRAPHIC) squeezed = squeezed.replace(sign, plain);
  return squeezed;
}

function isSameCall(read: ReadCall, repeated: ReadCall, defaults: SchemaDefaults): boolean {
  const { name } = read;
  if (name !== repeated.name) return false;
  const [a, b] = [canonicalInput(read.input), canonicalInput(repeated.input)];
  if (a === b || a.includes(MASK) || b.includes(MASK)) return true;
  const [shortA, shortB] = [read, repeated].map(({ input }) =>
    canonicalInput(defaults.leaveOut(name, input)),
  );
  return shortA === shortB;
}

/**
 * Lists the calls of an echo without those that the client itself added, such as a call that loads its tools. If fewer
 * than the read calls would be left, none is removed.
 */
function leaveOutMadeUp(read: readonly ReadCall[], repeated: readonly ReadCall[]): readonly ReadCall[] {
  if (read.length === 0 || repeated.length <= read.length) return repeated;
  const forms = new Set(read.map(({ id }) => formOf(id)));
  const kept = repeated.filter(({ id }) => forms.has(formOf(id)));
  return kept.length < read.length ? repeated : kept;
}

/**
 * Finds the words before the varying part of a call's id, which all ids of one provider have in common; '' for an id
 * that our reading assigned.
 */
function formOf(id: string): string {
  return isTold(id) ? /^(?:[A-Za-z]+[_-])*/.exec(id)![0] : '';
}

/**
 * Writes a call's arguments as canonical text. Missing arguments, an empty object, null and a blank string are equal,
 * and so are a null field and a missing one. A string with JSON counts as its value; any other string stays unchanged.
 * The text is '' if the arguments are nested too deep.
 */
export function canonicalInput(input: unknown): string {
  let value = input;
  if (typeof value === 'string') {
    try {
      value = value.trim() === '' ? {} : parseExact(value);
    } catch {
      return value as string;
    }
  }
  try {
    return canonicalJson(dropNulls(value ?? {})).toWellFormed();
  } catch {
    // Nested deeper than the stack allows.
    return '';
  }
}

function dropNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || isRawNumber(value)) return value;
  if (Array.isArray(value)) return value.map(dropNulls);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => field !== null)
      .map(([name, field]) => [name, dropNulls(field)]),
  );
}

/** Whether the id comes from the provider. If the provider sends none, the decoder numbers the calls. */
function isTold(id: string): boolean {
  return id !== '' && !id.startsWith('order:');
}

/**
 * Whether all calls have the same ids, or all have different ones. Also true if an id does not come from the provider,
 * because such ids prove nothing.
 */
function hasSameIds(read: readonly ReadCall[], repeated: readonly ReadCall[]): boolean {
  const told = read.filter(({ id }, at) => isTold(id) && isTold(repeated[at]!.id));
  if (told.length < read.length) return true;
  if (read.every(({ id }, at) => id === repeated[at]!.id)) return true;
  const ids = new Set(read.map(({ id }) => id));
  return repeated.every(({ id }) => !ids.has(id));
}

function writeCalls(calls: readonly ReadCall[]): string {
  if (calls.length === 0) return '(no call)';
  return calls.map(({ id, name, input }) => `${name} ${canonicalInput(input)} [${id}]`).join('; ');
}

function showBoth(read: string, repeated: string): { read: string; repeated: string } {
  let at = 0;
  while (at < read.length && read[at] === repeated[at]) at++;
  const from = Math.max(0, at - SHOWN_BEFORE);
  const show = (text: string): string => {
    if (text === '') return '(nothing)';
    const end = from + SHOWN_CHARACTERS;
    return `${from > 0 ? '…' : ''}${text.slice(from, end)}${end < text.length ? '…' : ''}`.toWellFormed();
  };
  return { read: show(read), repeated: show(repeated) };
}
