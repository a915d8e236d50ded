/**
 * Compares two answers to one step value by value: the student's and the upstream's. Pure; command line and capture
 * reader.
 */

import type { TurnBlock } from '../domain/turn.ts';
import { isRawNumber } from '../std/exact-json.ts';
import { answersAgree } from '../student/model/agreement.ts';
import type { JudgeAnswer } from '../student/model/decision.ts';

/** One value of both answers; null: the answer lacks it. */
interface ComparedValue {
  /** `text`, `call 1`, `call 1.customer.id`. */
  place: string;
  student: string | null;
  upstream: string | null;
}

export interface AnswerComparison {
  /** Whether audits count the two answers as equal (`src/student/model/equivalence.ts`). */
  agree: boolean;
  /**
   * Whether two readings of the upstream's answer differ (`src/student/serving/answer-bytes.ts`). Its content is
   * then unknown.
   */
  reading_differs: boolean;
  /** The values that differ come first. */
  values: ComparedValue[];
}

/** Maximum number of listed values of one answer. */
const VALUES = 200;
const VALUE_CHARACTERS = 2_000;

/**
 * Compares the student's answer, given or proposed, with the upstream's.
 * @param agrees how the student judges whether the upstream's answer is equivalent; absent if `student` is not the
 *   answer that the student proposes now
 */
export function compareAnswers(
  student: readonly TurnBlock[],
  upstream: readonly TurnBlock[],
  readingDiffers = false,
  agrees: JudgeAnswer = (other) => answersAgree({ content: takeBlocks(student) }, { content: [...other] }),
): AnswerComparison {
  const studentValues = listValues(student);
  const upstreamValues = listValues(upstream);
  const places = [...new Set([...studentValues.keys(), ...upstreamValues.keys()])];
  const values = places.map((place) => ({
    place,
    student: studentValues.get(place) ?? null,
    upstream: upstreamValues.get(place) ?? null,
  }));
  const differs = (value: ComparedValue) => value.student !== value.upstream;
  return {
    agree: !readingDiffers && agrees(takeBlocks(upstream)),
    reading_differs: readingDiffers,
    values: [...values.filter(differs), ...values.filter((value) => !differs(value))],
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
    const isBranch = typeof value === 'object' && value !== null && !isRawNumber(value);
    if (isBranch && depth < 12 && Object.keys(value).length > 0) {
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
