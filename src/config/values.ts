/**
 * Schemas of values that several sections of the configuration share. The description of a schema says which
 * values are allowed; errors quote it. Main thread.
 */
import { isIP } from 'node:net';
import { z } from 'zod';
import { ConfigError } from './config-error.ts';

/** The variables of a section: the schema of each, and its default as text (undefined: none). */
export type VariableTable = Record<string, readonly [schema: z.ZodType, unset: string | undefined]>;

/** The values of a section's variables; null for an unset one. */
export type Values<Table extends VariableTable> = {
  [Name in keyof Table]: z.output<Table[Name][0]> | (Table[Name][1] extends undefined ? null : never);
};

/** Maximum length of GW_NOTE and --note, which are written into every exchange. */
const NOTE_CHARACTERS = 200;

/** Maximum number of keys in SVC_KEYS. Each is compared with every credential. */
export const STATIC_KEYS_MAX = 1_000;

/** Parses the value of a variable or flag. @throws ConfigError when the text is not allowed */
export function parseText<T>(name: string, schema: z.ZodType<T>, text: string): T {
  const result = schema.safeParse(text);
  if (result.success) return result.data;
  throw new ConfigError(name, text, schema.description ?? 'this value is not allowed');
}

/** A whole number in decimal digits, nothing else: no sign, no exponent, no unit. */
export function wholeNumber(min: number, max: number, unit = '') {
  return z
    .string()
    .regex(/^\d{1,16}$/)
    .transform(Number)
    .refine((n) => n >= min && n <= max)
    .describe(`must be a whole number${unit} from ${min} to ${max}, in digits`);
}

export const bytes = (max: number = Number.MAX_SAFE_INTEGER) => wholeNumber(1, max, ' of bytes');

export const port = wholeNumber(0, 65_535).describe('must be a port from 0 (any free one) to 65535');

export const host = z
  .string()
  .refine((text) => isIP(text) !== 0 || /^(?=.{1,253}$)[a-z\d]([a-z\d.-]*[a-z\d])?$/i.test(text))
  .describe('must be an IP address or a host name');

export const path = z
  .string()
  .regex(/^\P{Cc}+$/u)
  .describe('must be a path: one character or more, and no control characters');

export const flag = z
  .enum(['0', '1'])
  .transform((text) => text === '1')
  .describe('must be 1 (on) or 0 (off)');

export const onOff = z
  .enum(['on', 'off'])
  .transform((text) => text === 'on')
  .describe('must be on or off');

/** A switch that may also be written `false` or `true`, as some documents do. */
export const wordFlag = z
  .enum(['0', '1', 'false', 'true'])
  .transform((text) => text === '1' || text === 'true')
  .describe('must be true or false');

export const secret = z.string().min(1).max(4_096).describe('must be up to 4096 characters');

/** A value that is sent unchanged in a header. */
export const headerKey = z
  .string()
  .regex(/^[\x21-\x7e]{1,1000}$/)
  .describe('must be 1 to 1000 printable ASCII characters without spaces');

/**
 * Checks the beginning of a bucket's address. `src/storage/bucket` checks the whole address when the service starts.
 */
export const bucketUrl = z
  .string()
  .regex(/^(?:s3:\/\/[^\s@]+|file:\/\/\/[^\s?#]+)$/)
  .describe(
    'must be a bucket like s3://bucket/prefix?endpoint=https://storage.example&region=eu-central-1, without credentials, or file:///folder',
  );

export const keys = z
  .string()
  .transform((text) => splitList(text))
  .refine((list) => list.length <= STATIC_KEYS_MAX && list.every((key) => /^[\x21-\x7e]{1,256}$/.test(key)))
  .describe(
    `must be up to ${STATIC_KEYS_MAX} keys of 1 to 256 visible ASCII characters, separated by commas`,
  );

export const note = z
  .string()
  .max(NOTE_CHARACTERS)
  .regex(/^\P{Cc}*$/u)
  .describe(`must be up to ${NOTE_CHARACTERS} printable characters`);

const BASE_RULE =
  'must be an http:// or https:// address, with a path or without, but no credentials, query or #';

/**
 * An upstream's address, with `{region}` if `placeholder` allows it. The operator's text is kept, except for
 * trailing slashes, because the client's path begins with one.
 */
export function base(placeholder = false) {
  return z
    .string()
    .refine((text) => {
      const concrete = placeholder ? text.replaceAll('{region}', 'us-east-1') : text;
      if (!/^https?:\/\/[^\s\\{}?#@]+$/i.test(concrete) || !URL.canParse(concrete)) return false;
      return new URL(concrete).hostname !== '';
    })
    .transform((text) => text.replace(/\/+$/, ''))
    .describe(placeholder ? `${BASE_RULE}; {region} stands for the region` : BASE_RULE);
}

export const origin = (example: string) =>
  z
    .string()
    .transform((text) => text.toLowerCase().replace(/\/$/, ''))
    .refine(isOrigin)
    .describe(
      `must be an address like ${example}, with no path, and with a port only if the port is not the default`,
    );

/** Whether the text is what a browser sends as `Origin`: scheme, host and a port that is not the scheme's own. */
export function isOrigin(text: string): boolean {
  return /^https?:\/\/[^/]/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

export function splitList(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** Parses JSON. @returns undefined for text that is not JSON */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
