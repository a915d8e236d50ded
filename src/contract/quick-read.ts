/**
 * Functions that read an input faster than its zod schema does. Such a quick reading handles only inputs that already have
 * the form that the schema requires, as most inputs do. For these, its output equals zod's. For all other inputs it returns
 * `ASK_ZOD`. Then zod reads the input, and either converts it or reports the errors. Any thread.
 */
import { z } from 'zod';
import { isRawNumber } from '../std/exact-json.ts';

/** Returned instead of a value: zod must decide. */
export const ASK_ZOD: unique symbol = Symbol('ask zod');

/** The schema's output for an input, or {@link ASK_ZOD}. */
type QuickRead = (input: unknown) => unknown;

const known = new WeakMap<z.ZodType, QuickRead | null>();

/** Registers the quick reading of a schema. A copy of the schema (`meta`, `refine`) does not inherit it. */
export function readQuickly<Schema extends z.ZodType>(schema: Schema, read: QuickRead): Schema {
  known.set(schema, read);
  return schema;
}

/**
 * Returns the quick reading of a schema: the registered one, or one made from its parts; null if a part has
 * no quick reading.
 */
export function quickReadOf(schema: z.ZodType): QuickRead | null {
  let read = known.get(schema);
  if (read === undefined) {
    read = compile(schema);
    known.set(schema, read);
  }
  return read;
}

function compile(schema: z.ZodType): QuickRead | null {
  if ((schema.def.checks?.length ?? 0) > 0) return null;
  if (schema instanceof z.ZodDefault) return compileDefault(schema);
  if (schema instanceof z.ZodOptional) return compileAbsence(schema, undefined);
  if (schema instanceof z.ZodNullable) return compileAbsence(schema, null);
  return schema instanceof z.ZodObject ? compileObject(schema) : null;
}

function compileDefault({ def }: z.ZodDefault): QuickRead | null {
  const { innerType, defaultValue } = def;
  const read = quickReadOf(innerType as z.ZodType);
  // A default that is an object could be modified by a caller.
  if (read === null || typeof defaultValue === 'object') return null;
  return (input) => (input === undefined ? defaultValue : read(input));
}

/**
 * Makes the quick reading of an optional or nullable schema.
 * @param absent the input that is returned unchanged
 */
function compileAbsence({ def }: z.ZodOptional | z.ZodNullable, absent: undefined | null): QuickRead | null {
  const read = quickReadOf(def.innerType as z.ZodType);
  // An inner schema that accepts this input itself, such as a default, decides the output.
  if (read === null || read(absent) !== ASK_ZOD) return null;
  return (input) => (input === absent ? absent : read(input));
}

/** Makes the quick reading of an object that ignores unknown keys; null for other objects, or if a field has none. */
function compileObject({ def }: z.ZodObject): QuickRead | null {
  if (def.catchall !== undefined) return null;
  const names = Object.keys(def.shape);
  const reads: QuickRead[] = [];
  for (const name of names) {
    const read = quickReadOf(def.shape[name] as z.ZodType);
    if (read === null) return null;
    reads.push(read);
  }
  return (input) => {
    if (typeof input !== 'object' || input === null || Array.isArray(input) || isRawNumber(input))
      return ASK_ZOD;
    const output: Record<string, unknown> = {};
    for (let at = 0; at < names.length; at++) {
      const name = names[at]!;
      const value = reads[at]!((input as Record<string, unknown>)[name]);
      if (value === ASK_ZOD) return ASK_ZOD;
      if (value === undefined && !(name in input)) continue;
      output[name] = value;
    }
    return output;
  };
}
