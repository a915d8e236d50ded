/** The fast reader gives the same result as zod, or calls zod. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { flag, identifier, integer, list, text } from '../../src/contract/fields.ts';
import { ASK_ZOD, quickReadOf } from '../../src/contract/quick-read.ts';
import { finishBody, runParams, runStartBody, stepBody } from '../../src/contract/runs.ts';
import { tenantFields, tenantQuery } from '../../src/contract/tenant-fields.ts';
import { drawsOf } from '../long-parts.ts';

/** Valid inputs, and inputs that are invalid or unusual in every way that JSON permits. */
const anyField = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom('', 'a', '\ud800', 'x'.repeat(200), '5', ' +5 ', 'true', 'on', 'NaN'),
  fc.integer(),
  fc.double(),
  fc.constantFrom(-0, 0.5, 2 ** 53, -(2 ** 53), 1e308, Number.NaN, Number.POSITIVE_INFINITY),
  fc.boolean(),
  fc.constantFrom(null, undefined),
  fc.jsonValue({ maxDepth: 2 }),
);

function bodiesOf(names: readonly string[]): fc.Arbitrary<unknown> {
  const fields = Object.fromEntries([...names, 'unknown', '__proto__'].map((name) => [name, anyField]));
  return fc.oneof(fc.record(fields, { requiredKeys: [] }), anyField, fc.array(anyField, { maxLength: 3 }));
}

const SCHEMAS: Record<string, z.ZodObject> = {
  step: stepBody,
  finish: finishBody,
  params: runParams,
  mixed: z.object({
    a: text({ min: 2, max: 5 }),
    b: integer({ ge: -3, le: 9 }).default(4),
    c: flag(),
    d: identifier(),
  }),
  tenant: tenantFields,
  query: tenantQuery,
  absent: z.object({
    a: text({ max: 5 }).optional(),
    b: identifier().nullish(),
    c: flag().nullable(),
    d: integer({ ge: 0 }).nullable().default(4),
    e: integer({ ge: 0 }).optional().nullable().describe('as it is'),
  }),
};

describe('a quick reading', () => {
  it.each(Object.keys(SCHEMAS))('of %s agrees with zod, and accepts nothing that zod refuses', (name) => {
    const schema = SCHEMAS[name]!;
    const read = quickReadOf(schema)!;
    expect(read).not.toBeNull();
    fc.assert(
      fc.property(bodiesOf(Object.keys(schema.shape)), (input) => {
        const quick = read(input);
        if (quick === ASK_ZOD) return;
        const judged = schema.safeParse(input);
        expect(judged.success).toBe(true);
        expect(quick).toStrictEqual(judged.data);
        expect(Object.keys(quick as object)).toEqual(Object.keys(judged.data as object));
      }),
      drawsOf(2_000),
    );
  });

  it('accepts a plain step without zod', () => {
    const step = {
      step_index: 3,
      action: 'bash',
      action_input: 'ls',
      thought: '',
      observation: 'a.txt',
      is_error: false,
      tokens: 12,
      more: 'ignored',
    };
    const { more, ...known } = step;
    expect(quickReadOf(stepBody)!(step)).toStrictEqual(known);
    expect(quickReadOf(stepBody)!({ step_index: 0 })).toStrictEqual(stepBody.parse({ step_index: 0 }));
    expect(quickReadOf(stepBody)!({ ...step, tokens: '12' })).toBe(ASK_ZOD);
    expect(quickReadOf(stepBody)!([])).toBe(ASK_ZOD);
  });

  it('accepts a request with one tenant or none without zod', () => {
    const read = quickReadOf(tenantFields)!;
    expect(read({ step_index: 3 })).toStrictEqual({});
    expect(read({ org_id: 'acme', project_id: null, more: 1 })).toStrictEqual({
      org_id: 'acme',
      project_id: null,
    });
    expect(read({ org_id: '' })).toBe(ASK_ZOD);
    expect(read({ project_id: 5 })).toBe(ASK_ZOD);
  });

  it('calls zod for parts, rules and shapes that it does not know', () => {
    expect(quickReadOf(runStartBody)).toBeNull();
    expect(quickReadOf(z.strictObject({ a: text({ max: 5 }) }))).toBeNull();
    expect(quickReadOf(z.object({ a: text({ max: 5 }) }).refine(() => false))).toBeNull();
    expect(quickReadOf(z.object({ a: text({ max: 5 }).refine(() => false) }))).toBeNull();
    expect(
      quickReadOf(
        z.object({
          a: flag()
            .default(false)
            .refine(() => false),
        }),
      ),
    ).toBeNull();
    // A default within a part affects the result for a missing value, so zod reads it.
    expect(quickReadOf(z.object({ a: flag().default(false).optional() }))).toBeNull();
    expect(quickReadOf(z.object({ a: z.string().nullish() }))).toBeNull();
    expect(quickReadOf(z.object({ a: list(flag(), { max: 3 }) }))).toBeNull();
    expect(quickReadOf(z.object({ a: z.object({}).default({}) }))).toBeNull();
  });
});
