/**
 * Fingerprints of a conversation, so that requests can be grouped into runs without a label. Pure; runs where stored
 * copies are read, never on a server thread. Cost: one SHA-256 over the conversation.
 *
 * Prefixes. A conversation consists of sections: a section is a block with its role and kind; texts of the same role
 * that follow each other are one section. A section is hashed in pieces. The hash of a piece covers the piece and the
 * hash before it. After each message, the hash so far is that prefix's hash (22 characters of base64url, 132 bits). So
 * the n-th hash of two requests is equal when their first n messages mean the same.
 *
 * Ignored: cache markers and their place, key order, a string instead of a list of one text, text divided into several
 * blocks or messages of the same role, thinking and its signatures (clients drop them when they send the answer back),
 * arguments of a tool call as text or as JSON, fields that are null, fields of a call with the default values that the
 * tool's schema declares (clients fill them in). Not ignored: the ids of tool calls, which
 * distinguish runs that began with the same words. Gemini is an exception: it mostly gives no ids, so clients make up
 * their own.
 *
 * An answer alone. Clients rewrite what they sent before: they drop old messages, truncate old results, move a
 * reminder. Then no prefix is shared, and yet the request holds the last answer. So the answer is also fingerprinted
 * alone, and so is the last answer in the request: by its calls with their ids, otherwise by its words. Short answers
 * are left out, because many turns give the same one.
 *
 * The system prompt is not part of the hashes, because a date, a session's id or a listing of files in it may change
 * from request to request. A sketch of it (src/domain/prompt-sketch.ts) distinguishes agents whose conversations begin
 * alike. Tools are left out: they change within a run.
 *
 * Numbers are rounded to doubles here: a client whose language has no other numbers sends `2512292042121000001` back as
 * `2512292042121000000`, and it is the same conversation.
 *
 * Requests that continue an answer kept by the provider (`previous_response_id`, a `conversation`, a `thread`) start
 * from that answer's id, or the conversation's: the first hash stands for everything before.
 */

import { hash } from 'node:crypto';
import { sketchPrompt } from '../domain/prompt-sketch.ts';
import { SchemaDefaults } from '../domain/schema-defaults.ts';
import type { TurnBlock, TurnMessage } from '../domain/turn.ts';
import { isRawNumber, roundedNumber } from '../std/exact-json.ts';
import { type HashState, RememberedConversations } from './remembered-conversations.ts';
import type { WireAnswer, WireRequest } from './wire.ts';

/** An answer of this many characters is identified by its words alone; shorter ones ("Done.") occur in many turns. */
const TELLING_TEXT_CHARS = 64;

/** Like TELLING_TEXT_CHARS, for an answer that calls tools. Names, arguments and ids count together. */
const TELLING_CALL_CHARS = 40;

/** Maximum number of tools of one answer that the index names, and of characters of a name. */
const CALLED_TOOLS = { names: 16, characters: 128 } as const;

/** Deeper JSON is hashed as its text, including key order. */
const MAX_CANONICAL_DEPTH = 64;

/** Length of a hash in base64url characters. */
const HASH_CHARS = 22;

/** The fingerprints of one turn. */
export interface Conversation {
  /**
   * One fingerprint per prefix (see ExchangeEntry.conversation). If the request continues a previous answer, the link
   * to that answer comes first.
   */
  prefixes: string[];
  /**
   * A prefix that only a continuation of this very answer has: the request plus the answer; null without a finished
   * answer. When two runs began alike, it shows which of them a request continues.
   */
  answered: string | null;
  /**
   * If the provider keeps the answer: a prefix like `answered`, but made from the id of the provider's conversation, or
   * else from the answer's id. Otherwise null.
   */
  answered_id: string | null;
  /** The answer alone; null without a finished answer, and for one that is too short to identify. */
  answer_alone: string | null;
  /** The last answer in the request alone; null without one, and for one that is too short to identify. */
  last_answer_alone: string | null;
  /** Index among the prefixes at which the last answer in the request ends; -1 when the request contains no answer. */
  last_answer_at: number;
  /** Number of tool results after the last answer in the request that report a failure. */
  failed_results: number;
  /** Names of the tools that the answer calls, each once, the first CALLED_TOOLS. */
  tools: string[];
  /** Makes the sketch of the system prompt; a function, because few turns need one. */
  sketchSystem(): string;
}

/** The fingerprints of a turn that cannot be read. */
export const NO_CONVERSATION: Conversation = Object.freeze({
  prefixes: [],
  answered: null,
  answered_id: null,
  answer_alone: null,
  last_answer_alone: null,
  last_answer_at: -1,
  failed_results: 0,
  tools: [],
  sketchSystem: () => '',
});

/**
 * Fingerprints a turn.
 * @param withIds whether the ids of tool calls come from the provider and are therefore hashed
 */
export function fingerprintConversation(
  asked: WireRequest,
  answer: WireAnswer | null,
  withIds: boolean,
): Conversation {
  const { normal: request } = asked;
  const prefixes: string[] = [];
  const { messages, previous_answer_id: previousId } = request;
  const link = previousId === null ? '' : linkToAnswer(previousId);
  if (link !== '') prefixes.push(link);
  const state: ChainState = {
    chain: new Chain({ ...EMPTY_STATE, before: link }),
    mark: '',
    withIds,
    defaults: new SchemaDefaults(request.tools),
    alone: null,
  };
  const {
    last_answer_alone: lastAnswerAlone,
    last_answer_at: lastAnswerAt,
    to,
  } = addMessages(state, messages, prefixes);
  let answered: string | null = null;
  let answerAlone: string | null = null;
  if (answer !== null && prefixes.length > 0 && answer.stop_word !== null && answer.error === null) {
    const alone = new AnswerAlone();
    state.alone = alone;
    addMessage(state, { role: 'assistant', content: answer.content });
    answered = state.chain.takeHash();
    answerAlone = alone.finish();
  }
  const answeredId = asked.is_kept ? (asked.kept_in ?? answer?.id ?? null) : null;
  return {
    prefixes,
    answered,
    answered_id: answered === null || answeredId === null ? null : linkToAnswer(answeredId),
    answer_alone: answerAlone,
    last_answer_alone: lastAnswerAlone,
    last_answer_at: lastAnswerAt,
    failed_results: countFailedResults(messages.slice(to + 1)),
    tools: answer === null ? [] : listCalledTools(answer.content),
    sketchSystem: () => sketchPrompt(leaveOutBilling(textsOf(request.system))),
  };
}

export const remembered = new RememberedConversations();

/**
 * Hashes the messages of a request. Messages whose hashes are remembered from an earlier request are not hashed again,
 * except for the first message and the messages from the last answer on.
 * @param prefixes receives the hashes of all messages
 * @returns the last answer's own hash (null without one), its index among the prefixes, and the index of its last
 *   message (both -1 without an answer)
 */
function addMessages(
  state: ChainState,
  messages: readonly TurnMessage[],
  prefixes: string[],
): { last_answer_alone: string | null; last_answer_at: number; to: number } {
  const [from, to] = findLastAnswer(messages);
  const links = prefixes.length;
  let alone: string | null = null;
  let at = 0;
  let resumed: ReturnType<RememberedConversations['find']> = null;
  let key = '';
  const states: HashState[] = [];
  while (at < messages.length) {
    if (at === from) state.alone = new AnswerAlone();
    addMessage(state, messages[at]!);
    prefixes.push(state.chain.takeHash());
    states.push(state.chain.save(state.mark));
    if (at === to) {
      alone = state.alone?.finish() ?? null;
      state.alone = null;
    }
    at += 1;
    if (at > 1) continue;
    // The first message decides which conversations may be the same. The messages from the last answer on are always
    // hashed, because that answer is also hashed alone.
    key = `${prefixes.at(-1)}${state.withIds}`;
    resumed = remembered.find(key, messages, from < 0 ? messages.length : from);
    if (resumed === null) continue;
    prefixes.push(...resumed.prefixes.slice(1));
    state.chain = new Chain(resumed.state);
    state.mark = resumed.state.mark;
    states.length = 0;
    at = resumed.count;
  }
  if (messages.length > 1)
    remembered.add(key, messages, prefixes.slice(links), states, resumed, state.chain.chars);
  return { last_answer_alone: alone, last_answer_at: to < 0 ? -1 : links + to, to };
}

function textsOf(blocks: readonly TurnBlock[]): string[] {
  return blocks.flatMap((block) => (block.type === 'text' && block.text !== '' ? [block.text] : []));
}

function listCalledTools(content: readonly TurnBlock[]): string[] {
  const names = new Set<string>();
  for (const block of content)
    if (block.type === 'tool_call' && block.name !== '' && names.size < CALLED_TOOLS.names)
      names.add(block.name.slice(0, CALLED_TOOLS.characters).toWellFormed());
  return [...names];
}

function countFailedResults(messages: readonly TurnMessage[]): number {
  const blocks = messages.flatMap(({ content }) => content);
  return blocks.filter((block) => block.type === 'tool_result' && block.is_error).length;
}

/**
 * Finds the first and the last message of the last answer in a request, because a wire that lists items divides one
 * answer into several messages. -1 for both without an answer.
 */
function findLastAnswer(messages: readonly TurnMessage[]): [from: number, to: number] {
  let to = messages.length - 1;
  while (to >= 0 && messages[to]!.role !== 'assistant') to -= 1;
  let from = to;
  while (from > 0 && messages[from - 1]!.role === 'assistant') from -= 1;
  return [from, to];
}

/** Leaves out the billing line with which some coding agents begin: its checksum changes from request to request. */
function leaveOutBilling(blocks: readonly string[]): readonly string[] {
  const isBilling = (block: string): boolean => block.startsWith('x-anthropic-billing-header');
  return blocks.some(isBilling) ? blocks.filter((block) => !isBilling(block)) : blocks;
}

const EMPTY_STATE: HashState = { before: '', piece: '', mark: '', chars: 0 };

/**
 * A longer section is hashed in pieces of this length, however its texts are divided. So the hash after a message costs
 * at most one piece, even if many texts of the same role follow each other.
 */
const PIECE_CHARS = 8_192;

/** One running hash, which can be read at any point. */
class Chain {
  /** The hash before the current piece of a section; '' at the beginning. */
  #before: string;
  /** The last piece of the current section, at most PIECE_CHARS characters. */
  #piece: string;
  /** The hash that includes the current piece; null: not computed yet. */
  #hash: string | null = null;
  /** Characters that were added. */
  chars: number;

  constructor({ before, piece, chars }: HashState) {
    this.#before = before;
    this.#piece = piece;
    this.chars = chars;
  }

  /**
   * Returns the state from which the hash can continue.
   * @param mark of the text that the next message may continue
   */
  save(mark: string): HashState {
    return { before: this.#before, piece: this.#piece, mark, chars: this.chars };
  }

  /** Begins a section. @param head its role and kind, between zero characters */
  begin(head: string): void {
    if (this.#piece !== '') this.#before = this.takeHash();
    this.#piece = '';
    this.add(head);
  }

  add(text: string): void {
    this.chars += text.length;
    this.#hash = null;
    this.#piece += text;
    if (this.#piece.length <= PIECE_CHARS) return;
    const rest = this.#piece;
    let at = 0;
    for (; rest.length - at > PIECE_CHARS; at += PIECE_CHARS)
      this.#before = hashPiece(this.#before, rest.slice(at, at + PIECE_CHARS));
    this.#piece = rest.slice(at);
  }

  takeHash(): string {
    this.#hash ??= hashPiece(this.#before, this.#piece);
    return this.#hash;
  }
}

/**
 * Hashes a piece together with the hash before the piece. The first piece of a section begins with a zero character, so
 * it is clear where the hash before it ends.
 */
function hashPiece(before: string, piece: string): string {
  return hash('sha256', before + piece, 'base64url').slice(0, HASH_CHARS);
}

interface ChainState {
  chain: Chain;
  /** Role and kind of the current text; text of the same role and kind continues without a new mark. */
  mark: string;
  withIds: boolean;
  /** The defaults of the tools that the request declares. */
  defaults: SchemaDefaults;
  /** A second hash that receives the same input while an answer is hashed; otherwise null. */
  alone: AnswerAlone | null;
}

/**
 * One answer, hashed alone. Calls with the provider's ids identify it, whatever a client has changed in the surrounding
 * words. Otherwise everything counts except leading and trailing white space, which clients trim.
 */
class AnswerAlone {
  #words = '';
  #calls = '';

  addText(text: string): void {
    this.#words += text;
  }

  addPart(words: string, isCallWithId: boolean): void {
    if (isCallWithId) this.#calls += `\u0000${words}`;
    else this.#words += `\u0000${words}`;
  }

  finish(): string | null {
    const telling = this.#calls === '' ? this.#words.trim() : this.#calls;
    if (telling.length < (this.#calls === '' ? TELLING_TEXT_CHARS : TELLING_CALL_CHARS)) return null;
    return hash('sha256', `alone\u0000${telling}`, 'base64url').slice(0, HASH_CHARS);
  }
}

function addMessage(state: ChainState, { role, content }: TurnMessage): void {
  for (const block of content) {
    switch (block.type) {
      case 'thinking':
      case 'cache_point':
        break;
      case 'text':
      case 'refusal':
        if (block.text === '') break;
        addMark(state, role);
        state.chain.add(block.text);
        state.alone?.addText(block.text);
        break;
      default: {
        if (role === 'assistant' && isSpeech(block)) break;
        const words = describeBlock(block, state);
        state.mark = '';
        state.chain.begin(`\u0000${block.type === 'tool_result' ? 'tool' : role}\u0000`);
        state.chain.add(words);
        // Added without serializing: JSON would copy an image once more.
        if (block.type === 'media') state.chain.add(block.data);
        state.alone?.addPart(words, block.type === 'tool_call' && state.withIds && block.id !== '');
      }
    }
  }
}

/** Whether the block is the audio of an answer. Clients send its id back, not its bytes. */
function isSpeech(block: TurnBlock): boolean {
  return block.type === 'media' ? block.kind === 'audio' : block.type === 'other' && block.name === 'audio';
}

function addMark(state: ChainState, role: string): void {
  if (state.mark === role) return;
  state.mark = role;
  state.chain.begin(`\u0000${role}\u0000text\u0000`);
}

type OtherBlock = Exclude<TurnBlock, { type: 'text' | 'refusal' | 'thinking' | 'cache_point' }>;

/** Describes a block that is not text in a canonical form. */
function describeBlock(
  block: OtherBlock,
  { withIds, defaults }: Pick<ChainState, 'withIds' | 'defaults'>,
): string {
  switch (block.type) {
    case 'tool_call': {
      const { type, id, name, input } = block;
      return fingerprintJson([type, withIds ? id || null : null, name, defaults.leaveOut(name, input)]);
    }
    case 'tool_result': {
      const { type, is_error, content } = block;
      const id = withIds ? block.call_id : null;
      const joined = joinTexts(content);
      const [text] = joined;
      // A single text, usually a long one, needs no quotes, because it is the last part.
      return joined.length === 1 && typeof text === 'string'
        ? `${fingerprintJson([type, id, is_error])}\u0000${text}`
        : fingerprintJson([type, id, is_error, joined]);
    }
    case 'media':
      return fingerprintJson([block.type, block.kind, block.media_type, block.data.length]);
    case 'other':
      return fingerprintJson([block.type, block.name, leaveOutMarks(block.value)]);
  }
}

/**
 * Fields in which an answer may differ from the copy that a client sends back: ids and states of tools that the
 * provider runs, and signatures.
 */
const MARKS: ReadonlySet<string> = new Set([
  'type',
  'id',
  'status',
  'citations',
  'thoughtSignature',
  'thought_signature',
]);

function leaveOutMarks(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([name]) => !MARKS.has(name)));
}

/** Joins adjacent texts in a tool result's blocks, so that a string and a list of texts are the same. */
function joinTexts(blocks: readonly TurnBlock[]): unknown[] {
  const joined: unknown[] = [];
  let text = '';
  for (const block of blocks) {
    if (block.type === 'thinking' || block.type === 'cache_point') continue;
    if (block.type === 'text' || block.type === 'refusal') {
      text += block.text;
      continue;
    }
    if (text !== '') joined.push(text);
    text = '';
    joined.push(block);
  }
  if (text !== '') joined.push(text);
  return joined;
}

function linkToAnswer(id: string): string {
  return hash('sha256', `answer\u0000${id}`, 'base64url').slice(0, HASH_CHARS);
}

/**
 * Writes JSON with sorted keys, without cache markers and null fields. Numbers are rounded to doubles, because a client
 * that rounds them still continues the same conversation. Values at MAX_CANONICAL_DEPTH are written as they are.
 */
function fingerprintJson(value: unknown, depth = 0): string {
  if (typeof value !== 'object' || value === null || depth >= MAX_CANONICAL_DEPTH) {
    return JSON.stringify(value) ?? 'null';
  }
  if (isRawNumber(value)) return JSON.stringify(roundedNumber(value));
  if (Array.isArray(value)) return `[${value.map((item) => fingerprintJson(item, depth + 1)).join(',')}]`;
  const entries: string[] = [];
  for (const key of Object.keys(value).sort()) {
    if (key === 'cache_control') continue;
    const item = (value as Record<string, unknown>)[key];
    if (item !== undefined && item !== null)
      entries.push(`${JSON.stringify(key)}:${fingerprintJson(item, depth + 1)}`);
  }
  return `{${entries.join(',')}}`;
}
