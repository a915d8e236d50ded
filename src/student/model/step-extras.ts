/**
 * The parts of a request that the normal form lacks, and the scope: a fingerprint of all that an agent sends unchanged
 * with every step. Pure; teaching and the student's thread.
 */

import type { NormalRequest } from '../../domain/turn.ts';
import { hashJson, isObject, readNumber } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';
import { ToolDates } from './tool-dates.ts';

/** The parts of a request that the normal form lacks. A wire reads them, for golden and live steps alike. */
export interface StepExtras {
  /** Values of the beta header, see {@link readBetas}. */
  betas: readonly string[];
  /** Names of the API rules that the request breaks. */
  breaches: readonly string[];
  /** Time of the request; null when unknown. */
  at_ms: number | null;
  /** Top-level fields that the normal form does not model (temperature, top_p, stop_sequences, service_tier, …). */
  settings: Readonly<Record<string, unknown>>;
  /** Why no student may answer, in words; '': a student may. */
  unsupported: string;
  /** The address at which the request arrived, as `nameOrigin` names it. */
  origin: string;
}

/** Fields of a request that the normal form holds, or that do not affect the answer. */
const LEFT_OUT = new Set([
  'model',
  'messages',
  'system',
  'tools',
  'tool_choice',
  'thinking',
  'max_tokens',
  'stream',
  'metadata',
  'output_format',
  'cache_control',
]);

/** For some of the fields: the types that the normal form models. */
const NORMAL_TYPES: Readonly<Record<string, readonly unknown[]>> = {
  thinking: ['enabled', 'disabled', 'adaptive'],
  output_format: ['json_schema'],
};

/** The fields of a Messages request that the normal form does not model. */
export function readMessagesSettings(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const settings: Record<string, unknown> = {};
  for (const key of Object.keys(body)) {
    const value = body[key];
    if (value === undefined || value === null || key === '__proto__') continue;
    if (!LEFT_OUT.has(key) || hasUnknownType(key, value)) settings[key] = value;
  }
  return settings;
}

/** Values of a beta header as words: split at commas, trimmed, sorted. */
export function readBetas(headers: readonly string[]): string[] {
  const words = headers
    .flatMap((header) => header.split(','))
    .map((word) => word.trim())
    .filter((word) => word !== '');
  return [...new Set(words)].sort();
}

/** Makes the extras of a request that has settings but nothing else, so that any student may answer it. */
export function plainExtras(settings: Readonly<Record<string, unknown>> = {}): StepExtras {
  return { betas: [], breaches: [], at_ms: null, settings, unsupported: '', origin: '' };
}

/** Whether a field of the normal form has a type that the form does not model. It then counts as a setting. */
function hasUnknownType(key: string, value: unknown): boolean {
  const known = NORMAL_TYPES[key];
  return known !== undefined && !(isObject(value) && known.includes(value.type));
}

/**
 * A hash of model, tools, betas, settings, tool choice, thinking, response schema and origin. Settings with the API's
 * default value do not count, nor do cache points of tools, nor dates in descriptions that name the day of the request.
 */
export function fingerprintScope(
  request: NormalRequest,
  extras: StepExtras,
  dates = new ToolDates(extras.at_ms),
): string {
  const { model, tools, tool_choice, thinking, response_schema } = request;
  const { betas, settings, origin } = extras;
  // A thinking budget that follows max_tokens changes from request to request; mode and effort do not.
  const parts = [
    model,
    tools
      .toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
      .map(({ kind, name, description, input_schema, settings: toolSettings }) => [
        kind,
        name,
        description,
        input_schema,
        dropCacheMarks(toolSettings),
      ]),
    betas,
    dropDefaults(settings),
    isDefaultChoice(tool_choice) ? null : tool_choice,
    thinking === null ? null : [thinking.mode, thinking.effort],
    response_schema,
    ...(origin === '' ? [] : [origin]),
  ];
  let text = '';
  for (const seed of [1, 2]) {
    const hash = hashJson(
      parts,
      seed,
      { left: STUDENT_CORE.scope_read, level: (text) => dates.level(text) },
      STUDENT_CORE.scope_depth,
    );
    text += hash.toString(16).padStart(8, '0');
  }
  return text;
}

/** Defaults of the providers' APIs for settings that a request leaves out. */
const DEFAULTS: Readonly<Record<string, number>> = {
  temperature: 1,
  top_p: 1,
  n: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
};

/** Drops settings that have the default value, because they mean the same as no setting. */
function dropDefaults(settings: StepExtras['settings']): StepExtras['settings'] {
  const isDefault = (key: string): boolean =>
    Object.hasOwn(DEFAULTS, key) && readNumber(settings[key]) === DEFAULTS[key];
  if (!Object.keys(settings).some(isDefault)) return settings;
  return Object.fromEntries(Object.entries(settings).filter(([key]) => !isDefault(key)));
}

function isDefaultChoice(choice: NormalRequest['tool_choice']): boolean {
  return choice !== null && choice.mode === 'auto' && choice.names.length === 0 && choice.parallel !== false;
}

function dropCacheMarks(settings: unknown): unknown {
  if (!isObject(settings) || settings.cache_control === undefined) return settings;
  const { cache_control: _marker, ...rest } = settings;
  return Object.keys(rest).length === 0 ? null : rest;
}
