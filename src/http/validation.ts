/**
 * Validates a request's path, query and body with the schemas of its endpoint, and makes the
 * handler's input or a 422 in the format of FastAPI and pydantic v2 (document 4, "Credentials,
 * roles, errors"). The cost of a refusal and the values that it repeats are bounded. A repeated value is
 * masked where it looks like a key, and a text is masked under the name of a credential. Server threads.
 */
import type { z } from 'zod';
import type { Endpoint } from '../contract/endpoint.ts';
import type { FieldRefusal } from '../contract/fields.ts';
import { holdsFreeJson } from '../contract/free-json.ts';
import { ASK_ZOD, quickReadOf } from '../contract/quick-read.ts';
import type { ApiRequest } from '../contract/route.ts';
import { SchemaViolation, type Violation } from '../contract/violation.ts';
import { CatalogueError } from '../errors.ts';
import { isCredentialHeader } from '../redaction/header-names.ts';
import { MASK, maskText } from '../redaction/mask.ts';
import { isRawNumber } from '../std/exact-json.ts';
import { parseJsonBody } from './json-body.ts';

/**
 * Bounds of a 422: number of errors; and for repeated values of the request, characters, number of
 * values and levels of nesting.
 */
const ECHO_BOUNDS = { errors: 100, characters: 16_384, values: 100, depth: 8 } as const;

/** The location of a value; the first part of `loc`. */
export type Place = 'path' | 'query' | 'body';

/**
 * The parts of a request before validation: path and query as texts, and the body as JSON or as a text. `body` is
 * undefined if the endpoint takes no body or the request has none.
 */
export interface RawInput {
  path: unknown;
  query: Readonly<Record<string, string>>;
  body: unknown;
}

/** The parts of a request after validation: the output of their schemas. */
interface CheckedInput {
  params: Record<string, unknown>;
  query: Record<string, unknown>;
  body: unknown;
}

/**
 * Reads the parts that the endpoint uses.
 * @param alsoQuery names that are read from the query besides the schema's
 * @throws CatalogueError `malformed_request` for a body that is not JSON, `encoded_body` for a compressed one
 */
export function readInput(
  endpoint: Endpoint,
  request: ApiRequest,
  alsoQuery: readonly string[] = [],
): RawInput {
  const { query } = request;
  return {
    path: request.params,
    query: query === '' ? {} : readQuery(query, Object.keys(endpoint.query?.shape ?? {}), alsoQuery),
    body: endpoint.body === undefined ? undefined : readBody(request, endpoint.body),
  };
}

/**
 * Reads the named values of a query. The last value of a repeated name counts, as in the original service.
 */
function readQuery(query: string, ...names: (readonly string[])[]): Record<string, string> {
  const values: Record<string, string> = {};
  // The server returns each byte as a character. A query with non-ASCII bytes is decoded as UTF-8.
  const parsed = new URLSearchParams(
    /[^\0-\x7f]/.test(query) ? Buffer.from(query, 'latin1').toString() : query,
  );
  for (const name of names.flat()) {
    const value = parsed.getAll(name).at(-1);
    if (value !== undefined) values[name] = value;
  }
  return values;
}

/** Matches a `Content-Encoding` that means no encoding: empty, or `identity`, even several times. */
const IDENTITY = /^\s*(identity\s*)?(,\s*(identity\s*)?)*$/i;

/**
 * Reads the body. A body that is not declared as JSON counts as a text, so a schema for an object
 * refuses it with 422, as in the original service.
 */
function readBody({ headers, body }: ApiRequest, schema: z.ZodType): unknown {
  if (body.length === 0) return undefined;
  const encoding = headers.get('content-encoding');
  if (encoding !== undefined && !IDENTITY.test(encoding)) throw new CatalogueError('encoded_body');
  if (isJsonType(headers.get('content-type') ?? '')) {
    const value = parseJsonBody(body, holdsFreeJson(schema) ? 'unrounded' : 'rounded') ?? undefined;
    // Object schemas must refuse a number, but a number with kept digits is an object.
    return isRawNumber(value) ? Number(value.rawJSON) : value;
  }
  return Buffer.from(body.subarray(0, ECHO_BOUNDS.characters)).toString();
}

/** Whether a type is `application/json` or `application/…+json`, with parameters or without. */
function isJsonType(contentType: string): boolean {
  if (contentType === 'application/json') return true;
  const semicolon = contentType.indexOf(';');
  const type = (semicolon < 0 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
  return /^application\/([^\s,/;]+\+)?json$/.test(type);
}

/**
 * Validates the parts with the endpoint's schemas.
 * @param found receives the violations: path first, then query, then body
 * @returns the outputs of the schemas; null if there are violations
 */
export function checkInput(endpoint: Endpoint, raw: RawInput, found: ViolationList): CheckedInput | null {
  const before = found.count;
  const params = endpoint.params === undefined ? {} : check(endpoint.params, raw.path, 'path', found);
  const query = endpoint.query === undefined ? {} : check(endpoint.query, raw.query, 'query', found);
  const body = endpoint.body === undefined ? undefined : check(endpoint.body, raw.body, 'body', found);
  if (found.count > before) return null;
  return { params, query, body } as CheckedInput;
}

/**
 * Validates one part with its schema, and adds its violations to `found`.
 * @returns the schema's output; undefined if there are violations
 */
export function check(schema: z.ZodType, raw: unknown, place: Place, found: ViolationList): unknown {
  const quick = quickReadOf(schema)?.(raw) ?? ASK_ZOD;
  if (quick !== ASK_ZOD) return quick;
  const result = schema.safeParse(raw);
  if (result.success) return result.data;
  found.addIssues(result.error.issues as unknown as Issue[], raw, place);
  return undefined;
}

/** The parts of zod's issues that become violations. */
interface Issue {
  code: string;
  path: (string | number)[];
  message: string;
  params?: FieldRefusal;
  expected?: string;
  origin?: string;
  minimum?: number;
  maximum?: number;
  inclusive?: boolean;
  values?: unknown[];
  keys?: string[];
  errors?: Issue[][];
}

type Judgement = Pick<Violation, 'type' | 'msg' | 'ctx'>;

/** The violations of one request; bounded. */
export class ViolationList {
  readonly #violations: Violation[] = [];
  readonly #echo = new Echo();
  /** Number of violations, including those beyond the bound. */
  count = 0;

  /** Throws a SchemaViolation with the violations. Does nothing without a violation. */
  throwAny(): void {
    if (this.count > 0) throw new SchemaViolation(this.#violations);
  }

  /**
   * Adds a violation for each issue, up to the bound.
   * @param raw the whole part of the request at `place`
   * @param prefix path in `raw` to the value to which the issues' paths are relative
   */
  addIssues(
    issues: readonly Issue[],
    raw: unknown,
    place: Place,
    prefix: readonly (string | number)[] = [],
  ): void {
    for (const issue of issues) {
      if (this.count >= ECHO_BOUNDS.errors) {
        this.count++;
        continue;
      }
      const path = prefix.length === 0 ? issue.path : [...prefix, ...issue.path];
      if (issue.code === 'unrecognized_keys') {
        for (const key of issue.keys ?? []) {
          this.#add([...path, key], raw, place, {
            type: 'extra_forbidden',
            msg: 'Extra inputs are not permitted',
          });
        }
      } else if (issue.code === 'invalid_union' && (issue.errors?.length ?? 0) > 0) {
        // Report only the errors of the alternative that is closest to the value.
        const closest = issue.errors!.reduce((best, next) => (next.length < best.length ? next : best));
        this.addIssues(closest, raw, place, path);
      } else {
        this.#add(path, raw, place, judgeIssue(issue, valueAt(raw, path)));
      }
    }
  }

  #add(path: readonly (string | number)[], raw: unknown, place: Place, judgement: Judgement): void {
    if (++this.count > ECHO_BOUNDS.errors) return;
    const loc = [place, ...path.map(nameStep)];
    const input = valueAt(raw, path);
    if (input === undefined || (path.length === 0 && input === null && place === 'body')) {
      const parent = place === 'body' && path.length > 0 ? valueAt(raw, path.slice(0, -1)) : null;
      const shown = this.#echo.show(parent ?? null, '');
      this.#violations.push({ type: 'missing', loc, msg: 'Field required', input: shown });
      return;
    }
    const { type, msg, ctx } = judgement;
    const shown = this.#echo.show(input, String(path.at(-1) ?? ''));
    this.#violations.push({ type, loc, msg, input: shown, ...(ctx === undefined ? {} : { ctx }) });
  }
}

/** Bounds and cleans a key, which may come from the request. */
function nameStep(step: string | number): string | number {
  return typeof step === 'number' ? step : step.slice(0, 200).toWellFormed();
}

function judgeIssue(issue: Issue, input: unknown): Judgement {
  if (issue.params?.type !== undefined) {
    const { type, msg, ctx } = issue.params;
    return ctx === undefined ? { type, msg } : { type, msg, ctx };
  }
  switch (issue.code) {
    case 'invalid_type':
      return judgeType(issue.expected ?? '', input);
    case 'invalid_value': {
      const expected = joinWords((issue.values ?? []).map(quote));
      return { type: 'literal_error', msg: `Input should be ${expected}`, ctx: { expected } };
    }
    case 'too_small':
    case 'too_big':
      return judgeSize(issue, input);
    default:
      return { type: 'value_error', msg: `Value error, ${issue.message}`, ctx: { error: issue.message } };
  }
}

function judgeType(expected: string, input: unknown): Judgement {
  switch (expected) {
    case 'string':
      return { type: 'string_type', msg: 'Input should be a valid string' };
    case 'int':
      return typeof input === 'number'
        ? {
            type: 'int_from_float',
            msg: 'Input should be a valid integer, got a number with a fractional part',
          }
        : { type: 'int_type', msg: 'Input should be a valid integer' };
    case 'number':
      return { type: 'float_type', msg: 'Input should be a valid number' };
    case 'boolean':
      return { type: 'bool_type', msg: 'Input should be a valid boolean' };
    case 'array':
      return { type: 'list_type', msg: 'Input should be a valid list' };
    case 'record':
      return { type: 'dict_type', msg: 'Input should be a valid dictionary' };
    case 'object': {
      const msg = 'Input should be a valid dictionary or object to extract fields from';
      return { type: 'model_attributes_type', msg };
    }
    default: {
      const error = `expected ${expected}`;
      return { type: 'value_error', msg: `Value error, ${error}`, ctx: { error } };
    }
  }
}

function judgeSize(issue: Issue, input: unknown): Judgement {
  const isSmall = issue.code === 'too_small';
  const bound = (isSmall ? issue.minimum : issue.maximum) ?? 0;
  const words = isSmall ? 'at least' : 'at most';
  if (issue.origin === 'string') {
    const msg = `String should have ${words} ${bound} character${bound === 1 ? '' : 's'}`;
    return isSmall
      ? { type: 'string_too_short', msg, ctx: { min_length: bound } }
      : { type: 'string_too_long', msg, ctx: { max_length: bound } };
  }
  if (issue.origin === 'array') {
    const actual_length = Array.isArray(input) ? input.length : 0;
    const msg = `List should have ${words} ${bound} item${bound === 1 ? '' : 's'} after validation, not ${actual_length}`;
    return isSmall
      ? { type: 'too_short', msg, ctx: { field_type: 'List', min_length: bound, actual_length } }
      : { type: 'too_long', msg, ctx: { field_type: 'List', max_length: bound, actual_length } };
  }
  const than = isSmall ? 'greater than' : 'less than';
  if (issue.inclusive === false) {
    return {
      type: isSmall ? 'greater_than' : 'less_than',
      msg: `Input should be ${than} ${bound}`,
      ctx: isSmall ? { gt: bound } : { lt: bound },
    };
  }
  return {
    type: isSmall ? 'greater_than_equal' : 'less_than_equal',
    msg: `Input should be ${than} or equal to ${bound}`,
    ctx: isSmall ? { ge: bound } : { le: bound },
  };
}

/** Formats a value as Python prints a literal. */
function quote(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}

function joinWords(words: string[]): string {
  return words.length < 2 ? (words[0] ?? '') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** Returns the value at the path; undefined if the path does not exist. */
function valueAt(raw: unknown, path: readonly (string | number)[]): unknown {
  let value = raw;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string | number, unknown>)[step];
  }
  return value;
}

/**
 * Makes the masked copies of offending values for an answer. Their size is bounded over all violations of a request.
 */
class Echo {
  #characters: number = ECHO_BOUNDS.characters;
  #values: number = ECHO_BOUNDS.values;

  /**
   * Copies a value, cut at the bounds.
   * @param name the field's name; a text in a field that is named like a credential is replaced by the mask
   */
  show(value: unknown, name: string, depth = 0): unknown {
    if (name !== '' && typeof value === 'string' && isCredentialHeader(name.slice(0, 200))) return MASK;
    if (typeof value === 'string') return this.#showText(value);
    if (typeof value !== 'object' || value === null || isRawNumber(value)) return value;
    if (depth >= ECHO_BOUNDS.depth) return '…';
    if (Array.isArray(value)) {
      const items: unknown[] = [];
      for (const item of value) {
        if (--this.#values < 0) break;
        items.push(this.show(item, '', depth + 1));
      }
      return items;
    }
    const shown: [string, unknown][] = [];
    for (const key in value) {
      if (--this.#values < 0) break;
      const label = this.#showText(key.slice(0, 200));
      shown.push([label, this.show((value as Record<string, unknown>)[key], key, depth + 1)]);
    }
    return Object.fromEntries(shown);
  }

  #showText(text: string): string {
    const cut = text.length <= this.#characters ? text : `${text.slice(0, Math.max(0, this.#characters))}…`;
    this.#characters -= Math.min(text.length, Math.max(0, this.#characters));
    return maskText(cut.toWellFormed());
  }
}
