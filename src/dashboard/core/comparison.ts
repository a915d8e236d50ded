/** Two runs side by side: their turns, aligned up to where the runs first differ and by number from there. Pure; browser. */
import { blocksOf, type CapturedTurn, type Message } from './captured.ts';

export interface ComparedTurns {
  /** null: this run has no such turn. */
  a: CapturedTurn | null;
  b: CapturedTurn | null;
  /** What was new in the request differs. */
  asks_differ: boolean;
  /** The answers differ. */
  answers_differ: boolean;
}

interface Comparison {
  pairs: ComparedTurns[];
  /** Pairs before the first that differs; all of them where none does. */
  same: number;
  /** Attempts that failed, of both; they are compared with nothing. */
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

/** Ids of calls are drawn anew by each answer, and signatures of thinking too. */
function writeBlocks(content: readonly { type: string }[]): string {
  return JSON.stringify(blocksOf(content), (key, value: unknown) =>
    key === 'id' || key === 'call_id' || key === 'signature' ? undefined : value,
  );
}
