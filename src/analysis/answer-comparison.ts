/**
 * Two answers to one step side by side: the student's and the upstream's, value by value. Pure; command line and capture
 * reader.
 */

import type { TurnBlock } from '../domain/turn.ts';
import { answersAgree } from '../student/model/agreement.ts';

/** One value of both answers; null: that answer has none there. */
export interface ComparedValue {
  /** `text`, `call 1`, `call 1.customer.id`. */
  place: string;
  student: string | null;
  upstream: string | null;
}

export interface AnswerComparison {
  /** As audits compare them (`answersAgree`). */
  agree: boolean;
  /** Values that differ first, in their order. */
  values: ComparedValue[];
}

/** Values of one answer that are told. */
const VALUES = 200;
const VALUE_CHARACTERS = 2_000;

/** Compares what the student said, or would have said, with what the upstream said. */
export function compareAnswers(
  student: readonly TurnBlock[],
  upstream: readonly TurnBlock[],
): AnswerComparison {
  const mine = listValues(student);
  const theirs = listValues(upstream);
  const places = [...new Set([...mine.keys(), ...theirs.keys()])];
  const values = places.map((place) => ({
    place,
    student: mine.get(place) ?? null,
    upstream: theirs.get(place) ?? null,
  }));
  const differs = (one: ComparedValue) => one.student !== one.upstream;
  return {
    agree: answersAgree({ content: takeBlocks(student) }, { content: takeBlocks(upstream) }),
    values: [...values.filter(differs), ...values.filter((one) => !differs(one))],
  };
}

function takeBlocks(blocks: readonly TurnBlock[]) {
  return blocks.filter((block) => block.type === 'text' || block.type === 'tool_call');
}

function listValues(blocks: readonly TurnBlock[]): Map<string, string> {
  const found = new Map<string, string>();
  let calls = 0;
  let texts = 0;
  const add = (place: string, value: string): void => {
    if (found.size < VALUES) found.set(place, value.slice(0, VALUE_CHARACTERS));
  };
  const walk = (place: string, value: unknown, depth: number): void => {
    if (typeof value === 'object' && value !== null && depth < 12 && Object.keys(value).length > 0) {
      for (const [key, item] of Object.entries(value)) walk(`${place}.${key}`, item, depth + 1);
    } else add(place, typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));
  };
  for (const block of takeBlocks(blocks)) {
    if (block.type === 'text') {
      texts += 1;
      add(texts === 1 ? 'text' : `text ${texts}`, block.text);
    } else {
      calls += 1;
      add(`call ${calls}`, block.name);
      walk(`call ${calls}`, block.input, 0);
    }
  }
  return found;
}
