/**
 * Two runs side by side. Turns are paired by their order: the first of both runs, the second of both, and so on. Pure;
 * browser.
 */
import { type Block, blocksOf, type CapturedTurn, type Message } from './captured.ts';

export interface ComparedTurns {
  /** null: this run has no such turn. */
  a: CapturedTurn | null;
  b: CapturedTurn | null;
  /** The new parts of the requests differ, or one of the runs has no such turn. */
  asks_differ: boolean;
  /** The answers differ, or one of the runs has no such turn. */
  answers_differ: boolean;
}

interface Comparison {
  pairs: ComparedTurns[];
  /** Number of pairs before the first difference. */
  same: number;
  /**
   * Number of exchanges of both runs that are not compared: failed and aborted ones, and requests that are not turns.
   */
  left_out: number;
}

/** Which of two runs continues the other, and from which model turn on (counted from 1). */
export interface Fork {
  side: 'a' | 'b';
  turn: number;
}

/**
 * Compares two runs turn by turn.
 * @param fork which run is a fork of the other, and from which turn on; null: neither is. The fork replayed the earlier
 *   turns, so only the original run has them, and they are not compared
 */
export function compareTurns(
  a: readonly CapturedTurn[],
  b: readonly CapturedTurn[],
  fork: Fork | null = null,
): Comparison {
  const ofA = fork?.side === 'b' ? turnsFrom(a, fork.turn) : a;
  const ofB = fork?.side === 'a' ? turnsFrom(b, fork.turn) : b;
  const [left, right] = [answered(ofA), answered(ofB)];
  const pairs = Array.from({ length: Math.max(left.length, right.length) }, (_, at) => {
    const pair = comparePair(left[at] ?? null, right[at] ?? null);
    return fork !== null && at === 0 ? compareForkPoint(pair) : pair;
  });
  const first = pairs.findIndex(({ asks_differ, answers_differ }) => asks_differ || answers_differ);
  const left_out = ofA.length + ofB.length - left.length - right.length;
  return { pairs, same: first === -1 ? pairs.length : first, left_out };
}

function comparePair(a: CapturedTurn | null, b: CapturedTurn | null): ComparedTurns {
  if (a === null || b === null) return { a, b, asks_differ: true, answers_differ: true };
  return {
    a,
    b,
    asks_differ: writeAsk(a) !== writeAsk(b),
    answers_differ: writeBlocks(a.content) !== writeBlocks(b.content),
  };
}

/**
 * Compares the requests of a fork's first turn and of its counterpart. The fork's request repeats the whole
 * conversation, so only the last messages of both are compared.
 */
function compareForkPoint({ a, b, ...differ }: ComparedTurns): ComparedTurns {
  if (a === null || b === null) return { a, b, ...differ };
  const count = Math.min(a.messages_added.length, b.messages_added.length);
  const endOf = ({ messages_added: added }: CapturedTurn) => writeMessages(added.slice(added.length - count));
  return { ...differ, a, b, asks_differ: endOf(a) !== endOf(b) };
}

function turnsFrom(turns: readonly CapturedTurn[], turn: number): readonly CapturedTurn[] {
  let seen = 0;
  const at = turns.findIndex(({ kind }) => kind === 'turn' && ++seen === turn);
  return at === -1 ? [] : turns.slice(at);
}

function answered(turns: readonly CapturedTurn[]): CapturedTurn[] {
  return turns.filter(({ kind, failed, aborted }) => kind === 'turn' && !failed && !aborted);
}

function writeAsk({ system, tools, messages_added }: CapturedTurn): string {
  return JSON.stringify([system === null ? null : writeBlocks(system), tools, writeMessages(messages_added)]);
}

function writeMessages(messages: readonly Message[]): string {
  return JSON.stringify(messages.map(({ role, content }) => [role, writeBlocks(content)]));
}

/** Fields of a block, or of a provider's own block, whose values the provider makes anew for each answer. */
const MADE_ANEW: ReadonlySet<string> = new Set([
  'id',
  'call_id',
  'tool_use_id',
  'signature',
  'thoughtSignature',
  'thought_signature',
]);

/** Writes blocks as JSON, without what the provider makes anew. Fields of the same names in a call's input count. */
function writeBlocks(content: readonly { type: string }[]): string {
  return JSON.stringify(blocksOf(content).map(dropMadeAnew));
}

function dropMadeAnew(block: Block): object {
  const kept = leaveOut(block);
  if (block.type === 'tool_result') return { ...kept, content: block.content.map(dropMadeAnew) };
  return block.type === 'other' ? { ...kept, value: leaveOut(block.value) } : kept;
}

function leaveOut(value: unknown): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { value };
  return Object.fromEntries(Object.entries(value).filter(([name]) => !MADE_ANEW.has(name)));
}
