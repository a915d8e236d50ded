/**
 * Sends every declared endpoint each field at its bound and one beyond, values of every wrong type, and random values.
 * A request is either accepted or refused with 422, and the values that an error repeats are bounded.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Endpoint } from '../../src/contract/endpoint.ts';
import { SchemaViolation, type Violation, violationsBody } from '../../src/contract/violation.ts';
import { checkInput, readInput, ViolationList } from '../../src/http/validation.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';

const endpoints = await loadDeclaredEndpoints();
const withBody = endpoints.filter(({ body }) => body !== undefined);
const withQuery = endpoints.filter(({ query }) => query !== undefined);

interface Field {
  type?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  pattern?: string;
  maxItems?: number;
  anyOf?: Field[];
  $ref?: string;
}

/**
 * Checks a request against its endpoint's declaration, and the size and shape of the error if it is refused.
 * @returns the faults of the request; none if it is valid
 */
function judge(
  endpoint: Endpoint,
  { body = {}, query = '' }: { body?: unknown; query?: string },
): readonly Violation[] {
  const params = Object.fromEntries(Object.keys(endpoint.params?.shape ?? {}).map((name) => [name, 'an-id']));
  const request = {
    method: endpoint.method,
    path: endpoint.path,
    query,
    headers: new Map([['content-type', 'application/json']]),
    params,
    body: Buffer.from(JSON.stringify(body) ?? ''),
    address: '',
  };
  const found = new ViolationList();
  checkInput(endpoint, readInput(endpoint, request), found);
  try {
    found.throwAny();
    return [];
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(SchemaViolation);
    const { violations } = thrown as SchemaViolation;
    const answer = JSON.stringify({ detail: violations });
    expect(answer.length).toBeLessThan(300_000);
    expect(() => violationsBody.parse(JSON.parse(answer))).not.toThrow();
    for (const { loc, msg } of violations) {
      expect(['body', 'query', 'path']).toContain(loc[0]);
      expect(msg).toMatch(/\S/);
    }
    return violations;
  }
}

/** The fields of an object schema in JSON Schema. Of a field that may be null, only the other alternative. */
function fieldsOf(schema: z.ZodType | undefined): [name: string, field: Field][] {
  if (schema === undefined) return [];
  const { properties = {}, $defs = {} } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as {
    properties?: Record<string, Field>;
    $defs?: Record<string, Field>;
  };
  return Object.entries(properties).map(([name, given]) => {
    const chosen = given.anyOf?.find(({ type }) => type !== 'null') ?? given;
    return [
      name,
      chosen.$ref === undefined ? chosen : ($defs[chosen.$ref.slice('#/$defs/'.length)] ?? chosen),
    ];
  });
}

const isAbout = (name: string) => (violation: Violation) => violation.loc[1] === name;

/** Values at the bounds of a field, and one step beyond them. */
function boundsOf(field: Field): { inside: unknown[]; outside: unknown[] } {
  const { type, minLength, maxLength, minimum, maximum, maxItems } = field;
  const inside: unknown[] = [];
  const outside: unknown[] = [];
  if (type === 'string' && maxLength !== undefined && maxLength <= 2_000_000) {
    inside.push('x'.repeat(maxLength));
    outside.push('x'.repeat(maxLength + 1), '😀'.repeat(maxLength + 1));
    if (minLength !== undefined) outside.push('x'.repeat(minLength - 1));
  }
  if (type === 'integer' || type === 'number') {
    if (minimum !== undefined) inside.push(minimum);
    if (minimum !== undefined && Number.isSafeInteger(minimum - 1)) outside.push(minimum - 1);
    if (maximum !== undefined) inside.push(maximum);
    if (maximum !== undefined && Number.isSafeInteger(maximum + 1)) outside.push(maximum + 1);
  }
  if (type === 'array' && maxItems !== undefined)
    outside.push(Array.from({ length: maxItems + 1 }, () => null));
  return { inside, outside };
}

describe('the declared endpoints', () => {
  it('are not empty', () => {
    expect(withBody.length).toBeGreaterThan(3);
    expect(new Set(endpoints.map(({ id }) => id)).size).toBe(endpoints.length);
  });

  it('bound each text and each list of a body', () => {
    const unbounded = withBody.flatMap(({ id, body }) =>
      fieldsOf(body)
        .filter(([, { type, maxLength, maxItems, ...field }]) => {
          const isText =
            type === 'string' && !('enum' in field) && !('const' in field) && !('format' in field);
          return (isText && maxLength === undefined) || (type === 'array' && maxItems === undefined);
        })
        .map(([name]) => `${id}.${name}`),
    );
    // These fields are cut instead of refused (document 2, Finding).
    const cut = /\.(content|file_path|finding_type|query)$/;
    expect(unbounded.filter((name) => !cut.test(name))).toEqual([]);
  });
});

describe.each(withBody.map((declared) => [declared.id, declared] as const))('%s', (_id, declared) => {
  it('accepts each field at its bound, and refuses a value one beyond it', () => {
    for (const [name, field] of fieldsOf(declared.body)) {
      const { inside, outside } = boundsOf(field);
      for (const value of inside) {
        const about = judge(declared, { body: { [name]: value } }).filter(isAbout(name));
        const onlyForm = about.every(
          ({ type }) => type === 'string_pattern_mismatch' || type === 'value_error',
        );
        expect(onlyForm, `${name} at its bound: ${JSON.stringify(about).slice(0, 300)}`).toBe(true);
      }
      for (const value of outside) {
        const about = judge(declared, { body: { [name]: value } }).filter(isAbout(name));
        expect(about.length, `${name} past its bound`).toBeGreaterThan(0);
      }
    }
  });

  it('accepts any content of a body or refuses it with 422', () => {
    const names = fieldsOf(declared.body).map(([name]) => name);
    const odd = fc.constantFrom<unknown>(
      ...[null, true, 0, -1, 1.5, 1e300, '', '\u0000', '\ud800', 'x'.repeat(70_000), [], {}, [[]], { a: {} }],
      ...[Array.from({ length: 3_000 }, () => ({})), '9'.repeat(5_000), { __proto__: 1 }, '😀'.repeat(9_000)],
    );
    const key = names.length === 0 ? fc.string() : fc.oneof(fc.constantFrom(...names), fc.string());
    const object = fc.array(fc.tuple(key, fc.oneof(odd, fc.jsonValue())), { maxLength: 12 });
    fc.assert(
      fc.property(fc.oneof(object.map(Object.fromEntries), odd, fc.jsonValue()), (body) => {
        judge(declared, { body });
      }),
      { numRuns: 60 },
    );
  });
});

describe.each(withQuery.map((declared) => [declared.id, declared] as const))(
  'the query of %s',
  (_id, declared) => {
    it('accepts any content or refuses it with 422', () => {
      const names = Object.keys(declared.query!.shape);
      const value = fc.oneof(
        fc.string({ unit: 'binary' }).map((text) => encodeURIComponent(text.toWellFormed())),
        fc.constantFrom('%', '%ff', '+', '', '%00', '9'.repeat(5_000), '-1', 'NaN', '%F0%9F%98%80'),
      );
      const pair = fc.tuple(fc.constantFrom(...names), value).map(([name, text]) => `${name}=${text}`);
      fc.assert(
        fc.property(fc.array(pair, { maxLength: 5 }), (pairs) => {
          judge(declared, { query: pairs.join('&') });
        }),
        { numRuns: 60 },
      );
    });
  },
);
