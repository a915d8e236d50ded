/**
 * Finds out whether a body may contain free JSON of the sender, such as metadata. The digits of numbers in
 * such JSON must not change. Pure; any thread.
 */
import { z } from 'zod';

const known = new WeakMap<z.ZodType, boolean>();

/**
 * Whether a field of the body accepts any JSON. A body that is free-form as a whole does not count, because its handler
 * knows the form.
 */
export function holdsFreeJson(body: z.ZodType): boolean {
  let holds = known.get(body);
  if (holds === undefined) {
    holds = !isFree(body) && isFreeWithin(body);
    known.set(body, holds);
  }
  return holds;
}

function isFree(schema: z.ZodType): boolean {
  return schema instanceof z.ZodUnknown || schema instanceof z.ZodAny;
}

function isFreeWithin(schema: z.ZodType): boolean {
  if (isFree(schema) || schema instanceof z.ZodRecord) return true;
  if (schema instanceof z.ZodObject) {
    const { shape, catchall } = schema.def;
    if (catchall !== undefined && isFree(catchall as z.ZodType)) return true;
    return Object.values(shape).some((field) => isFreeWithin(field as z.ZodType));
  }
  if (schema instanceof z.ZodArray) return isFreeWithin(schema.def.element as z.ZodType);
  if (schema instanceof z.ZodUnion)
    return schema.def.options.some((option) => isFreeWithin(option as z.ZodType));
  if (schema instanceof z.ZodPipe)
    return isFreeWithin(schema.def.in as z.ZodType) || isFreeWithin(schema.def.out as z.ZodType);
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return isFreeWithin(schema.def.innerType as z.ZodType);
  return false;
}
