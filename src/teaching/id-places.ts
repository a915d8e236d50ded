/**
 * Finds the places of a step whose numbers are ids: order numbers, ticket numbers. The size of an id has no meaning, so
 * a new id is never unusual, however far it is from golden ids. Pure; teaching.
 */

import { isObject, readNumber } from '../student/model/json-values.ts';
import type { LearnedStep } from '../student/model/learned-step.ts';
import { visitNumbers } from '../student/model/number-places.ts';
import type { NumberPlace } from '../student/model/student-model.ts';

/** Names of fields, and words before numbers of a task, that introduce an id. */
const ID_NAME =
  /(?:^|[^a-z])(?:id|no|nr|num|number|ref|reference|key|code|sku|uuid|serial|ticket|order|invoice|case|account|customer|user|issue|request|alert)$/i;
const CAMEL_ID = /[a-z](?:Id|No|Nr|Number|Ref|Key|Code)$/;
/** Share of a place's numbers that are ids. */
const ID_SHARE = 0.9;
const NODES = 200;

/** A place's name; equal places have equal names. */
export function nameOfPlace({ from, path }: NumberPlace): string {
  return JSON.stringify([from, path]);
}

/** Names of the places whose numbers are ids. */
export function findIdPlaces(steps: readonly LearnedStep[]): Set<string> {
  const counts = new Map<string, { all: number; ids: number }>();
  for (const { step, answer } of steps) {
    const ids = new Set<number>();
    for (const { value } of step.sources) collectIds(value, '', ids, { left: NODES });
    for (const block of answer.content)
      if (block.type === 'tool_call') collectIds(block.input, '', ids, { left: NODES });
    visitNumbers(step, (place, number) => {
      const name = nameOfPlace(place);
      const count = counts.get(name) ?? { all: 0, ids: 0 };
      counts.set(name, count);
      count.all++;
      if (Number.isInteger(number) && (isIdName(place.path.at(-1) ?? '') || ids.has(number))) count.ids++;
    });
  }
  return new Set([...counts].filter(([, { all, ids }]) => ids >= ID_SHARE * all).map(([name]) => name));
}

function isIdName(name: string): boolean {
  return ID_NAME.test(name) || CAMEL_ID.test(name);
}

/** Collects the whole numbers of fields whose name introduces an id. */
function collectIds(value: unknown, name: string, ids: Set<number>, room: { left: number }): void {
  if (room.left-- <= 0) return;
  const number = readNumber(value);
  if (number !== undefined) {
    if (Number.isInteger(number) && isIdName(name)) ids.add(number);
  } else if (Array.isArray(value)) for (const item of value) collectIds(item, name, ids, room);
  else if (isObject(value)) for (const key of Object.keys(value)) collectIds(value[key], key, ids, room);
}
