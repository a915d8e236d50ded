/**
 * Conversations that were fingerprinted recently. An agent's next request repeats its conversation and adds a little,
 * so the hash continues from the end of the previous request, and only the new messages are hashed. Comparing texts
 * takes a tenth of the time of hashing them. Used by conversation.ts. Capture process with its sealing thread, capture
 * reader, command line. The student's thread loads this file, but caches nothing. Bounds: REMEMBERED_CHARS characters
 * in all; CANDIDATES conversations with the same first message. The conversation that was added first is dropped first;
 * one that continues is added again. Conversations shorter than SHORT_CHARS are not kept, because hashing them takes
 * little time, nor are those longer than a quarter of REMEMBERED_CHARS.
 */
import type { TurnBlock, TurnMessage } from '../domain/turn.ts';

const REMEMBERED_CHARS = 16 << 20;
const SHORT_CHARS = 16_384;
const CANDIDATES = 8;
/** The running hash after a message. */
export interface HashState {
  /** The hash before the last piece of a section, and that piece so far. */
  before: string;
  piece: string;
  /** The running role and kind (conversation.ts). */
  mark: string;
  /** Characters that were hashed. */
  chars: number;
}

/** A message as it was hashed, because later code may change the message itself. */
interface HashedMessage {
  role: string;
  content: TurnBlock[];
}

interface Remembered {
  key: string;
  messages: readonly HashedMessage[];
  /** One hash after each message. */
  prefixes: readonly string[];
  /** The running hash after each message. */
  states: readonly HashState[];
  chars: number;
}

/** The place where a conversation continues. */
interface Resumed {
  /** Messages that need not be hashed. */
  count: number;
  /** Hashes of those messages. */
  prefixes: readonly string[];
  state: HashState;
  from: Remembered;
}

export class RememberedConversations {
  /** In the order in which they were added. */
  readonly #all = new Set<Remembered>();
  readonly #byKey = new Map<string, Remembered[]>();
  #chars = 0;

  /**
   * Finds the longest beginning of a conversation that was hashed before; null without any.
   * @param key distinguishes conversations with another beginning or another kind of hash
   * @param most messages that may be skipped
   */
  find(key: string, messages: readonly TurnMessage[], most: number): Resumed | null {
    let best: Resumed | null = null;
    for (const from of this.#byKey.get(key) ?? []) {
      const count = Math.min(countEqual(from.messages, messages), most);
      if (count > (best?.count ?? 0))
        best = { count, prefixes: from.prefixes.slice(0, count), state: from.states[count - 1]!, from };
    }
    return best;
  }

  /**
   * Remembers a conversation, unless it has fewer than SHORT_CHARS or more than a quarter of REMEMBERED_CHARS.
   * @param prefixes after each message
   * @param states after each message that was hashed now
   * @param resumed the beginning that `find` returned
   * @param chars of the whole conversation
   */
  add(
    key: string,
    messages: readonly TurnMessage[],
    prefixes: readonly string[],
    states: readonly HashState[],
    resumed: Resumed | null,
    chars: number,
  ): void {
    if (chars < SHORT_CHARS || chars > REMEMBERED_CHARS / 4) return;
    const count = resumed?.count ?? 0;
    const kept = resumed === null ? [] : resumed.from.messages.slice(0, count);
    for (let at = count; at < messages.length; at++) kept.push(copyHashed(messages[at]!));
    const remembered: Remembered = {
      key,
      messages: kept,
      prefixes,
      states: resumed === null ? states : [...resumed.from.states.slice(0, count), ...states],
      chars,
    };
    // The new conversation contains all of the earlier one, except for at most the last two messages, which the client
    // has changed since.
    if (resumed !== null && resumed.count >= resumed.from.messages.length - 2) this.#drop(resumed.from);
    const candidates = this.#byKey.get(key) ?? [];
    if (candidates.length >= CANDIDATES) this.#drop(candidates[0]!);
    this.#byKey.set(key, [...(this.#byKey.get(key) ?? []), remembered]);
    this.#all.add(remembered);
    this.#chars += chars;
    while (this.#chars > REMEMBERED_CHARS) this.#drop(this.#all.values().next().value!);
  }

  /** Forgets all conversations. */
  clear(): void {
    this.#all.clear();
    this.#byKey.clear();
    this.#chars = 0;
  }

  #drop(gone: Remembered): void {
    if (!this.#all.delete(gone)) return;
    this.#chars -= gone.chars;
    const left = (this.#byKey.get(gone.key) ?? []).filter((candidate) => candidate !== gone);
    if (left.length === 0) this.#byKey.delete(gone.key);
    else this.#byKey.set(gone.key, left);
  }
}

function isHashed({ type }: TurnBlock): boolean {
  return type !== 'thinking' && type !== 'cache_point';
}

function copyHashed({ role, content }: TurnMessage): HashedMessage {
  return { role, content: content.filter(isHashed).map((block) => ({ ...block })) };
}

/** Counts the messages at the beginning in which two conversations are equal, as far as they are hashed. */
function countEqual(before: readonly HashedMessage[], messages: readonly TurnMessage[]): number {
  const most = Math.min(before.length, messages.length);
  for (let at = 0; at < most; at++) {
    const { role, content } = messages[at]!;
    if (role !== before[at]!.role || !areSameBlocks(before[at]!.content, content)) return at;
  }
  return most;
}

function areSameBlocks(before: readonly TurnBlock[], blocks: readonly TurnBlock[]): boolean {
  let at = 0;
  for (const block of blocks) {
    if (!isHashed(block)) continue;
    const known = before[at++];
    if (known === undefined || !isSameBlock(known, block)) return false;
  }
  return at === before.length;
}

function isSameBlock(before: TurnBlock, block: TurnBlock): boolean {
  if (before.type === 'text' && block.type === 'text') return before.text === block.text;
  if (before.type === 'refusal' && block.type === 'refusal') return before.text === block.text;
  if (before.type === 'tool_call' && block.type === 'tool_call')
    return before.id === block.id && before.name === block.name && isSameJson(before.input, block.input);
  if (before.type === 'tool_result' && block.type === 'tool_result')
    return (
      before.call_id === block.call_id &&
      before.is_error === block.is_error &&
      areSameBlocks(before.content.filter(isHashed), block.content)
    );
  if (before.type === 'media' && block.type === 'media')
    return before.kind === block.kind && before.media_type === block.media_type && before.data === block.data;
  if (before.type === 'other' && block.type === 'other')
    return before.name === block.name && isSameJson(before.value, block.value);
  return false;
}

/** Deeper values count as different. */
const MAX_DEPTH = 64;

/** Whether two parsed values are the same; values that only mean the same may count as different. */
function isSameJson(before: unknown, value: unknown, depth = 0): boolean {
  if (before === value) return true;
  if (typeof before !== 'object' || typeof value !== 'object' || before === null || value === null)
    return false;
  if (depth >= MAX_DEPTH || Array.isArray(before) !== Array.isArray(value)) return false;
  const names = Object.keys(before);
  if (names.length !== Object.keys(value).length) return false;
  return names.every(
    (name) =>
      Object.hasOwn(value, name) &&
      isSameJson(
        (before as Record<string, unknown>)[name],
        (value as Record<string, unknown>)[name],
        depth + 1,
      ),
  );
}
