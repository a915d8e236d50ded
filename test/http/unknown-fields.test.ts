/** The answer names the fields of a request that its endpoint does not know. */
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { endpoint } from '../../src/contract/endpoint.ts';
import { RUNS } from '../../src/contract/runs.ts';
import { UNKNOWN_FIELDS, UnknownFields } from '../../src/http/unknown-fields.ts';

const probe = endpoint({
  id: 'probe',
  method: 'POST',
  path: '/probe',
  auth: 'bearer',
  summary: 'probe',
  tag: 'probe',
  query: z.object({ limit: z.string().optional() }),
  body: z.object({
    task: z.string(),
    steps: z
      .array(z.object({ action: z.string(), at: z.object({ line: z.number() }).optional() }))
      .default([]),
    metadata: z.record(z.string(), z.unknown()).optional(),
    settings: z.strictObject({ on: z.boolean() }).optional(),
    anything: z.looseObject({}).optional(),
  }),
  replies: {},
});
const fields = new UnknownFields(probe, ['org_id']);

describe('unknown fields', () => {
  it('are absent if every field is known, or any field is allowed', () => {
    expect(fields.describe('', { task: 't', org_id: 'o' })).toBeNull();
    expect(fields.describe('limit=1&org_id=o', { steps: [{ action: 'a', at: { line: 1 } }] })).toBeNull();
    const free = { metadata: { any: 1 }, anything: { goes: 1 }, settings: { on: true, off: false } };
    expect(fields.describe('', free)).toBeNull();
    for (const odd of [undefined, null, 7, 'text', [{ a: 1 }], { steps: { a: 1 } }, { steps: [null, 1] }])
      expect(fields.describe('', odd)).toBeNull();
  });

  it('are named with their place, in the query, in the body and within it', () => {
    expect(fields.describe('limt=5&limt=6', { taks: 't', steps: [{}, { input: 'x', at: { col: 2 } }] })).toBe(
      'unknown fields are ignored: query.limt, body.taks, body.steps[1].input, body.steps[1].at.col',
    );
    // A misspelt token count of a logged step.
    expect(new UnknownFields(RUNS.logStep, []).describe('', { step_index: 1, tokens_used: 4 })).toBe(
      'unknown fields are ignored: body.tokens_used',
    );
  });

  it('make a valid header, whatever their names are, and a short one', () => {
    const names = Array.from({ length: 500 }, (_, at) => `${at}\r\nset-cookie: ü\ud800${'x'.repeat(900)}`);
    const warning = fields.describe('', Object.fromEntries(names.map((name) => [name, 1])))!;
    expect(warning).toMatch(/^[\x20-\x7e]+, and more$/);
    expect(warning.split(', ')).toHaveLength(UNKNOWN_FIELDS.names + 1);
    expect(warning.length).toBeLessThan(8_192);
    const many = Array.from({ length: 100_000 }, () => ({ odd: 1 }));
    expect(fields.describe('', { steps: many })).toContain('body.steps[7].odd, and more');
  });
});
