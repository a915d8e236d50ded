/**
 * Schemas for the fields of bodies, queries and paths. They accept what the recorded FastAPI service accepts
 * (pydantic's lax mode: `"5"` and `5.0` are integers, `"yes"` is a flag, a number is not a text), and their
 * refusals have its wording. The `params` of a zod issue contain pydantic's `type` and `ctx`;
 * `src/http/validation.ts` turns them into the 422. Lengths of texts are in code points, as in Python. Pure;
 * any thread.
 *
 * Optional fields: `.default(value)` (absent only), `.optional()` (absent only), `.nullish()` (absent or
 * null). Objects: `z.object({…})` ignores unknown keys, `z.strictObject({…})` refuses them
 * (`extra_forbidden`).
 */
import { z } from 'zod';
import { ID_CHARACTERS } from '../limits.ts';
import { isRawNumber, roundedNumber } from '../std/exact-json.ts';
import { UNPRINTABLE } from '../std/unprintable.ts';
import { bareAddress, findEmailFault } from './email.ts';
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from './limits.ts';
import { ASK_ZOD, readQuickly } from './quick-read.ts';

/** A free-form object inside a body (`metadata`). */
export const FREE_OBJECT_BOUNDS = { depth: 32, values: 10_000, characters: 262_144 } as const;

/** The content of a refusal, in pydantic's vocabulary: the `params` of a zod issue with code `custom`. */
export interface FieldRefusal {
  type: string;
  msg: string;
  ctx?: Record<string, unknown>;
}

/** The part of zod's contexts that a field needs. */
interface IssueSink {
  issues: unknown[];
}

function refuse(sink: IssueSink, input: unknown, refusal: FieldRefusal): void {
  sink.issues.push({ code: 'custom', input, message: refusal.msg, params: refusal });
}

/**
 * Makes a schema that first converts its input with `read`. If `read` refuses the input, no other check runs.
 * The type says what a caller should send; `read` may accept more.
 */
function lax<Schema extends z.ZodType>(
  read: (input: unknown) => unknown,
  schema: Schema,
): z.ZodType<z.output<Schema>, z.input<Schema>> {
  return z.preprocess((input, context) => {
    const value = read(input);
    if (!(value instanceof Refused)) return value;
    refuse(context as unknown as IssueSink, input, value.refusal);
    return z.NEVER;
  }, schema) as unknown as z.ZodType<z.output<Schema>, z.input<Schema>>;
}

class Refused {
  readonly refusal: FieldRefusal;

  constructor(type: string, msg: string, ctx?: Record<string, unknown>) {
    this.refusal = ctx === undefined ? { type, msg } : { type, msg, ctx };
  }
}

interface TextBounds {
  /** Minimum length in code points; default 0. */
  min?: number;
  /** Maximum length in code points. Every text of the API has a maximum. */
  max: number;
  /** The form of the text; the pattern must be anchored. */
  pattern?: RegExp;
}

/**
 * Makes the schema of a text. It refuses numbers and flags, and a text with half a surrogate pair, which is
 * invalid Unicode.
 */
export function text({ min = 0, max, pattern }: TextBounds) {
  const schema = z.string().check((context) => {
    const refusal = judgeText(context.value, min, max, pattern);
    if (refusal !== null) refuse(context, context.value, refusal);
  });
  const described = schema.meta({
    ...(min > 0 ? { minLength: min } : {}),
    maxLength: max,
    ...(pattern === undefined ? {} : { pattern: pattern.source }),
  });
  return readQuickly(described, (input) =>
    typeof input === 'string' && judgeText(input, min, max, pattern) === null ? input : ASK_ZOD,
  );
}

function judgeText(value: string, min: number, max: number, pattern?: RegExp): FieldRefusal | null {
  if (!value.isWellFormed()) {
    const msg = 'Input should be a valid string, unable to parse raw data as a unicode string';
    return { type: 'string_unicode', msg };
  }
  if (value.length < 2 * min && countCharacters(value) < min) {
    const msg = `String should have at least ${min} character${min === 1 ? '' : 's'}`;
    return { type: 'string_too_short', msg, ctx: { min_length: min } };
  }
  if (value.length > max && (value.length > 2 * max || countCharacters(value) > max)) {
    const msg = `String should have at most ${max} character${max === 1 ? '' : 's'}`;
    return { type: 'string_too_long', msg, ctx: { max_length: max } };
  }
  if (pattern !== undefined && !pattern.test(value)) {
    const msg = `String should match pattern '${pattern.source}'`;
    return { type: 'string_pattern_mismatch', msg, ctx: { pattern: pattern.source } };
  }
  return null;
}

/** Counts the code points of a text. */
export function countCharacters(value: string): number {
  let count = value.length;
  for (let at = 0; at < value.length - 1; at++) {
    const unit = value.charCodeAt(at);
    if (unit >= 0xd800 && unit <= 0xdbff && (value.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      count--;
      at++;
    }
  }
  return count;
}

/**
 * Makes the schema of a text that is cut to a maximum of code points instead of refused (document 2,
 * Finding).
 */
export function cutText({ min = 0, max }: Omit<TextBounds, 'pattern'>) {
  return lax((input) => {
    if (typeof input !== 'string') return input;
    const refusal = judgeText(input, min, Number.POSITIVE_INFINITY);
    return refusal === null ? cutCharacters(input, max) : new Refused(refusal.type, refusal.msg, refusal.ctx);
  }, z.string().min(min));
}

/** Returns the first `max` code points of a text. */
export function cutCharacters(value: string, max: number): string {
  if (value.length <= max) return value;
  let at = 0;
  for (let count = 0; count < max && at < value.length; count++) {
    at += value.codePointAt(at)! > 0xffff ? 2 : 1;
  }
  return value.slice(0, at);
}

/** Letters, digits, marks, symbols and spaces. */
const PRINTABLE = new RegExp(`^[^${UNPRINTABLE}]*$`, 'u');

/** Makes the schema of a text of printable characters. */
export function printable(bounds: Omit<TextBounds, 'pattern'>) {
  return text({ ...bounds, pattern: PRINTABLE });
}

/**
 * Makes the schema of a name that the caller chose or was given, such as that of a run, an organization or a
 * code base: 1 to 128 printable characters.
 */
export function identifier() {
  return printable({ min: 1, max: ID_CHARACTERS });
}

/**
 * Makes the schema of a name that is only looked up. Document 1 gives `org_id` and `project_id` no bounds. So
 * the schema accepts any text, and the later look-up does not find a name that cannot exist.
 */
export function reference() {
  return text({ max: ID_CHARACTERS });
}

interface NumberBounds {
  /** The smallest value. */
  ge?: number;
  /** The largest value. */
  le?: number;
}

/**
 * Makes the schema of a whole number. It also accepts `5.0`, `"5"`, `" +5 "` and `"1_000"`, and true and
 * false as 1 and 0.
 */
export function integer({ ge, le }: NumberBounds = {}) {
  const least = ge ?? Number.MIN_SAFE_INTEGER;
  const most = le ?? Number.MAX_SAFE_INTEGER;
  const schema = lax(readInteger, bounded(wholeNumber(), { ge: least, le: most }));
  return readQuickly(schema, (input) =>
    Number.isSafeInteger(input) && (input as number) >= least && (input as number) <= most ? input : ASK_ZOD,
  );
}

/** Makes the schema of a finite number. It also accepts `"5.5"`, and true and false as 1 and 0. */
export function decimal(bounds: NumberBounds = {}) {
  return lax(readDecimal, bounded(z.number(), bounds));
}

/**
 * Makes a schema of numbers that is described as whole. It needs no integer check, because `readInteger`
 * returns only whole numbers. Zod's check would refuse large numbers a second time.
 */
function wholeNumber() {
  return z.number().meta({ type: 'integer' });
}

function bounded<Schema extends z.ZodNumber>(schema: Schema, { ge, le }: NumberBounds): Schema {
  let result = schema;
  if (ge !== undefined) result = result.min(ge) as Schema;
  if (le !== undefined) result = result.max(le) as Schema;
  return result;
}

/**
 * Makes the schema of a whole number that is clamped to its bounds instead of being refused (document 4:
 * `limit` and `offset`). The schema declares no bounds, because every whole number is valid.
 */
function heldInteger(ge: number, le: number) {
  return lax((input) => {
    const value = readInteger(input);
    return typeof value === 'number' ? Math.min(Math.max(value, ge), le) : value;
  }, wholeNumber());
}

/** Makes the fields `limit` and `offset` of a listing's query. */
export function pageFields() {
  return {
    limit: heldInteger(1, PAGE_LIMIT_MAX).default(PAGE_LIMIT_DEFAULT),
    offset: heldInteger(0, Number.MAX_SAFE_INTEGER).default(0),
  };
}

/**
 * Makes the fields of the query of a list that is read page by page with a cursor.
 * @param max longest cursor, in characters
 */
export function cursorFields(max: number) {
  return {
    limit: heldInteger(1, PAGE_LIMIT_MAX).default(PAGE_LIMIT_DEFAULT),
    cursor: text({ max }).nullish(),
  };
}

/** The field of an answer that says where the next page begins. */
export const nextCursor = z
  .string()
  .nullable()
  .describe('Send it back as `cursor` for the next page; null: this is the last page');

const INT_PARSING = 'Input should be a valid integer, unable to parse string as an integer';
const INT_PARSING_SIZE = 'Unable to parse input string as an integer, exceeded maximum size';
/** Python's `sys.int_info.default_max_str_digits`. */
const INT_DIGITS = 4_300;

/**
 * Converts an input to a whole number.
 * @returns a finite number, or a refusal; undefined for undefined
 */
function readInteger(given: unknown): unknown {
  const input = roundedNumber(given) ?? given;
  if (typeof input === 'number') return readWhole(input);
  if (typeof input === 'boolean') return input ? 1 : 0;
  if (input === undefined) return input;
  if (typeof input !== 'string') return new Refused('int_type', 'Input should be a valid integer');
  if (input.length > INT_DIGITS) {
    return /^\s*[+-]?\d[\d_]*(\.0*)?\s*$/.test(input)
      ? new Refused('int_parsing_size', INT_PARSING_SIZE)
      : new Refused('int_parsing', INT_PARSING);
  }
  const trimmed = input.trim();
  if (!/^[+-]?\d+(_\d+)*(\.0*)?$/.test(trimmed)) return new Refused('int_parsing', INT_PARSING);
  return holdFinite(Number(trimmed.replaceAll('_', '')));
}

function readWhole(value: number): unknown {
  if (Number.isInteger(value)) return holdFinite(value);
  if (!Number.isFinite(value)) return new Refused('finite_number', 'Input should be a finite number');
  const msg = 'Input should be a valid integer, got a number with a fractional part';
  return new Refused('int_from_float', msg);
}

/**
 * Bounds a whole number. Python's integers are unlimited, but a double represents only safe integers exactly.
 * A larger number becomes the first integer beyond the safe ones, so that the check of the bounds refuses it.
 */
function holdFinite(value: number): number {
  if (Number.isSafeInteger(value)) return value;
  return Math.sign(value) * (Number.MAX_SAFE_INTEGER + 1);
}

function readDecimal(given: unknown): unknown {
  const input = roundedNumber(given) ?? given;
  if (typeof input === 'boolean') return input ? 1 : 0;
  let value = input;
  if (typeof input === 'string') {
    const trimmed = input.length > INT_DIGITS ? '' : input.trim();
    if (/^[+-]?(inf(inity)?|nan)$/i.test(trimmed)) {
      return new Refused('finite_number', 'Input should be a finite number');
    }
    if (!/^[+-]?(\d+(_\d+)*\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(trimmed)) {
      const msg = 'Input should be a valid number, unable to parse string as a number';
      return new Refused('float_parsing', msg);
    }
    value = Number(trimmed.replaceAll('_', ''));
  } else if (typeof input !== 'number' && input !== undefined) {
    return new Refused('float_type', 'Input should be a valid number');
  }
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return new Refused('finite_number', 'Input should be a finite number');
  }
  return value;
}

const TRUE_WORDS: ReadonlySet<string> = new Set(['1', 'true', 't', 'yes', 'y', 'on']);
const FALSE_WORDS: ReadonlySet<string> = new Set(['0', 'false', 'f', 'no', 'n', 'off']);

/**
 * Makes the schema of a flag. Besides true and false it accepts the numbers 1 and 0, and, in upper or lower
 * case, the texts `1`, `true`, `t`, `yes`, `y` and `on` as true, and `0`, `false`, `f`, `no`, `n` and `off`
 * as false.
 */
export function flag() {
  const schema = lax((given) => {
    const input = roundedNumber(given) ?? given;
    if (typeof input === 'boolean') return input;
    if (typeof input === 'number' && !Number.isInteger(input)) return input;
    if (typeof input !== 'number' && typeof input !== 'string') return input;
    const word = String(input).slice(0, 8).toLowerCase();
    if (TRUE_WORDS.has(word)) return true;
    if (FALSE_WORDS.has(word)) return false;
    return new Refused('bool_parsing', 'Input should be a valid boolean, unable to interpret input');
  }, z.boolean());
  return readQuickly(schema, (input) => (typeof input === 'boolean' ? input : ASK_ZOD));
}

/** Makes the schema of a text that must be one of the given texts. */
export function literal<const Values extends readonly [string, ...string[]]>(values: Values) {
  return z.enum(values);
}

interface ListBounds {
  min?: number;
  /** Every list of the API has a maximum. A longer list is refused before its items are checked. */
  max: number;
}

/** Makes the schema of a list whose items `item` accepts. */
export function list<Item extends z.ZodType>(item: Item, { min = 0, max }: ListBounds) {
  return lax(
    (input) => {
      if (!Array.isArray(input)) return input;
      if (input.length < min) {
        const msg = `List should have at least ${min} ${itemWord(min)} after validation, not ${input.length}`;
        return new Refused('too_short', msg, {
          field_type: 'List',
          min_length: min,
          actual_length: input.length,
        });
      }
      if (input.length > max) {
        const msg = `List should have at most ${max} ${itemWord(max)} after validation, not ${input.length}`;
        return new Refused('too_long', msg, {
          field_type: 'List',
          max_length: max,
          actual_length: input.length,
        });
      }
      return input;
    },
    z.array(item).meta({ ...(min > 0 ? { minItems: min } : {}), maxItems: max }),
  );
}

function itemWord(count: number): string {
  return count === 1 ? 'item' : 'items';
}

/**
 * Makes the schema of an e-mail address. Only its form is checked. The part after the @ becomes lower case,
 * because addresses are compared that way. People paste addresses with space around them, and with a name
 * before an address in brackets. Both forms are accepted.
 */
export function email() {
  return lax(
    (input) => {
      if (typeof input !== 'string') return input;
      const address = bareAddress(input);
      const reason = findEmailFault(address);
      if (reason !== null) {
        return new Refused('value_error', `value is not a valid email address: ${reason}`, { reason });
      }
      const at = address.lastIndexOf('@');
      return address.slice(0, at) + address.slice(at).toLowerCase();
    },
    z.string().meta({ format: 'email' }),
  );
}

/** Makes the schema of a time in RFC 3339 with a zone. The output is in UTC with milliseconds and `Z`. */
export function timestamp() {
  return lax(
    (input) => {
      if (typeof input !== 'string') return input;
      const isForm = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)$/.test(input);
      const time = isForm && isDayOfMonth(input) ? Date.parse(input) : Number.NaN;
      if (!Number.isNaN(time)) return new Date(time).toISOString();
      const error = 'expected the form of RFC 3339, with a zone';
      return new Refused('datetime_parsing', `Input should be a valid datetime, ${error}`, { error });
    },
    z.string().meta({ format: 'date-time' }),
  );
}

/**
 * Whether the day of a date exists in its month. `Date.parse` would read the 30th of February as the 2nd of
 * March.
 */
function isDayOfMonth(input: string): boolean {
  const [year, month, day] = input.slice(0, 10).split('-').map(Number);
  return day! >= 1 && day! <= new Date(Date.UTC(year!, month!, 0)).getUTCDate();
}

/**
 * Makes the schema of a free-form JSON object, which is stored unchanged. Depth, number of values and
 * characters are bounded (`FREE_OBJECT_BOUNDS`).
 */
export function freeObject() {
  return lax((input) => {
    if (typeof input !== 'object' || input === null || Array.isArray(input) || isRawNumber(input)) {
      return input === undefined ? input : new Refused('dict_type', 'Input should be a valid dictionary');
    }
    const error = findObjectFault(input);
    return error === null ? input : new Refused('value_error', `Value error, ${error}`, { error });
  }, z.looseObject({}));
}

/**
 * Finds out why a free-form object is refused; null: it is accepted. Iterative, because the depth of a
 * hostile object is unlimited.
 */
function findObjectFault(root: object): string | null {
  const { depth: maxDepth, values: maxValues, characters: maxCharacters } = FREE_OBJECT_BOUNDS;
  const stack: [value: unknown, depth: number][] = [[root, 1]];
  let values = 0;
  let characters = 0;
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const [value, depth] = next;
    if (++values > maxValues) return `an object may have at most ${maxValues} values`;
    if (typeof value === 'string') {
      characters += value.length;
      if (!value.isWellFormed()) return 'texts must be valid Unicode';
    } else if (typeof value === 'object' && value !== null && !isRawNumber(value)) {
      if (depth > maxDepth) return `an object may be nested at most ${maxDepth} levels deep`;
      const isList = Array.isArray(value);
      const keys = isList ? [] : Object.keys(value);
      const size = isList ? value.length : keys.length;
      if (values + stack.length + size > maxValues) return `an object may have at most ${maxValues} values`;
      for (const key of keys) {
        characters += key.length;
        if (!key.isWellFormed()) return 'keys must be valid Unicode';
        if (key === '__proto__') return 'an object cannot have a key __proto__';
      }
      for (const item of Object.values(value)) stack.push([item, depth + 1]);
    }
    if (characters > maxCharacters) return `an object may have at most ${maxCharacters} characters`;
  }
  return null;
}
