/** Schemas of live requests: right values pass, wrong ones do not, and hostile schemas cost little. */
import { describe, expect, it } from 'vitest';
import {
  countOpenRepeats,
  TOOL_SCHEMA_CHARACTERS,
  ToolSchemas,
} from '../../../src/student/serving/tool-schemas.ts';

const schemas = new ToolSchemas();

describe('a tool’s schema', () => {
  const order = {
    type: 'object',
    properties: {
      id: { type: 'string', pattern: '^ORD-\\d{6}$' },
      pattern: { type: 'string' },
      count: { type: 'integer', minimum: 1 },
      kind: { enum: ['a', 'b'] },
      lines: { type: 'array', items: { $ref: '#/$defs/line' }, maxItems: 2 },
    },
    required: ['id'],
    additionalProperties: false,
    $defs: { line: { type: 'object', properties: { sku: { type: 'string' } }, required: ['sku'] } },
  };

  it.each([
    { id: 'ORD-123456' },
    { id: 'ORD-123456', count: 3, kind: 'a', pattern: '(a+)+$', lines: [{ sku: 'x' }] },
  ])('accepts what conforms to it: %j', (value) => {
    expect(schemas.accepts(order, value)).toBe(true);
    // From the second use on, the schema is compiled.
    expect(schemas.accepts(structuredClone(order), value)).toBe(true);
  });

  it.each([
    {},
    { id: 5 },
    { id: 'ORD-12345' },
    { id: 'ORD-123456', count: 0 },
    { id: 'ORD-123456', count: 1.5 },
    { id: 'ORD-123456', kind: 'c' },
    { id: 'ORD-123456', lines: [{}] },
    { id: 'ORD-123456', lines: [{ sku: 'x' }, { sku: 'x' }, { sku: 'x' }] },
    { id: 'ORD-123456', more: 1 },
  ])('refuses what does not: %j', (value) => {
    expect(schemas.accepts(order, value)).toBe(false);
  });

  it('does not change the request', () => {
    const schema = structuredClone(order);
    schemas.accepts(schema, { id: 'ORD-123456' });
    expect(Object.getOwnPropertyNames(schema)).toEqual(Object.keys(order));
  });

  const multiplying: Record<string, unknown> = { $defs: { a0: { type: 'object' } } };
  for (let at = 1; at < 40; at++) {
    const before = { $ref: `#/$defs/a${at - 1}` };
    (multiplying.$defs as Record<string, unknown>)[`a${at}`] = { allOf: [before, before] };
  }
  multiplying.$ref = '#/$defs/a39';
  let deep: unknown = { type: 'object' };
  for (let at = 0; at < 100; at++) deep = { not: deep };
  const hostile: [string, unknown][] = [
    ['null', null],
    ['true', true],
    ['a text', 'object'],
    ['a list', [{ type: 'object' }]],
    ['missing', undefined],
    ['circular', { $ref: '#' }],
    ['circular in two steps', { $ref: '#/$defs/a', $defs: { a: { anyOf: [{ $ref: '#' }] } } }],
    ['multiplying', multiplying],
    ['deep', deep],
    ['remote', { $ref: 'https://example.com/schema.json' }],
    ['a file', { $ref: 'file:///etc/passwd' }],
    ['dangling', { $ref: '#/$defs/none' }],
    ['a prototype', { $ref: '#/__proto__/toString' }],
    ['dynamic', { $dynamicRef: '#a' }],
    ['too large', { type: 'object', description: 'x'.repeat(TOOL_SCHEMA_CHARACTERS) }],
    ['a slow pattern', { properties: { a: { pattern: '^(a+)+$' } } }],
    ['a slow pattern of names', { patternProperties: { '(x|xx)*y': { type: 'string' } } }],
    ['no pattern', { properties: { a: { pattern: '(' } } }],
  ];
  it.each(hostile)('that cannot be used accepts nothing: %s', (_name, schema) => {
    expect(schemas.accepts(schema, { a: `${'a'.repeat(60)}!` })).toBe(false);
  });

  it('with a pattern refuses very long texts unchecked', () => {
    const schema = { properties: { a: { pattern: '^x*y*z*$' } } };
    expect(schemas.accepts(schema, { a: 'xxyz' })).toBe(true);
    expect(schemas.accepts(schema, { a: 'x'.repeat(100_000) })).toBe(false);
  });
});

describe('a pattern', () => {
  it.each([
    ['^[A-Z]{2}-\\d+$', 1],
    ['^[^@]+@[^@]+\\.[^@]+$', 3],
    ['^(?:ab|cd)x?$', 0],
    ['^(abc)+$', 1],
    ['^\\(a+\\)$', 1],
    ['^[()+*]+$', 1],
  ])('is tame: %s', (pattern, repeats) => {
    expect(countOpenRepeats(pattern)).toBe(repeats);
  });
  it.each([
    '(a+)+',
    '(a*)*b',
    '(?:a|aa)+$',
    '((a)+b)*',
    '(a{2,})+',
    '(a?){30}',
    '(a)\\1',
    '(?=a)b',
    '(?<!a)b',
    '.*.*.*.*x',
    'a'.repeat(300),
    5,
  ])('is not: %s', (pattern) => {
    expect(countOpenRepeats(pattern)).toBeNull();
  });
});
