/**
 * Two runs side by side. Turns are paired up to the first difference, and from there by their number. Pure;
 * browser.
 */
import { blocksOf, type CapturedTurn, type Message } from './captured.ts';

export interface ComparedTurns {
  /** null: this run has no such turn. */
  a: CapturedTurn | null;
  b: CapturedTurn | null;
  /** The new parts of the requests differ. */
  asks_differ: boolean;
  /** The answers differ. */
  answers_differ: boolean;
}

interface Comparison {
  pairs: ComparedTurns[];
  /** Number of pairs before the first difference. */
  same: number;
  /** Failed attempts of both runs, which are not compared. */
  left_out: number;
}

export function compareTurns(a: readonly CapturedTurn[], b: readonly CapturedTurn[]): Comparison {
  const [left, right] = [answered(a), answered(b)];
  const pairs = Array.from({ length: Math.max(left.length, right.length) }, (_, at) =>
    comparePair(left[at] ?? null, right[at] ?? null),
  );
  const first = pairs.findIndex(({ asks_differ, answers_differ }) => asks_differ || answers_differ);
  const left_out = a.length + b.length - left.length - right.length;
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

function answered(turns: readonly CapturedTurn[]): CapturedTurn[] {
  return turns.filter(({ kind, failed, aborted }) => kind === 'turn' && !failed && !aborted);
}

function writeAsk({ system, tools, messages_added }: CapturedTurn): string {
  const said = messages_added.map(({ role, content }: Message) => [role, writeBlocks(content)]);
  return JSON.stringify([system === null ? null : writeBlocks(system), tools, said]);
}

/** Ids of calls and signatures of thinking are different in each answer. */
function writeBlocks(content: readonly { type: string }[]): string {
  return JSON.stringify(blocksOf(content), (key, value: unknown) =>
    key === 'id' || key === 'call_id' || key === 'signature' ? undefined : value,
  );
}
