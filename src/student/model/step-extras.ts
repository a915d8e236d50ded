/**
 * What of a request is not in the normal form, and the scope that it makes with the rest of what an agent sends
 * alike with every step. Pure; analysis and the student's thread.
 */

import type { NormalRequest } from '../../domain/turn.ts';
import { STUDENT_CORE } from '../../limits.ts';
import { hashJson, isObject } from './json-values.ts';
import { ToolDates } from './tool-dates.ts';

/** What of a request is not in the normal form. A wire reads it, for golden and live steps alike. */
export interface StepExtras {
  /** Values of the beta header, see {@link readBetas}. */
  betas: readonly string[];
  /** Rules of the API that it breaks, by name. */
  breaches: readonly string[];
  /** When it was asked; null: nobody knows. */
  at_ms: number | null;
  /** Top-level fields that the normal form has no word for (temperature, top_p, stop_sequences, service_tier, …). */
  settings: Readonly<Record<string, unknown>>;
  /** In words, why no student may answer; '' when one may. */
  unsupported: string;
  /** Where it came in, as `nameOrigin` names it. */
  origin: string;
}

/** Fields of a request that the normal form holds, or that say nothing of the answer. */
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

/** Of fields that are left out, the types that the normal form tells apart. */
const NORMAL_TYPES: Readonly<Record<string, readonly unknown[]>> = {
  thinking: ['enabled', 'disabled', 'adaptive'],
  output_format: ['json_schema'],
};

/** Of a Messages request, the fields that the normal form has no word for. */
export function readMessagesSettings(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const settings: Record<string, unknown> = {};
  for (const key of Object.keys(body)) {
    const value = body[key];
    if (value === undefined || value === null || key === '__proto__') continue;
    if (!LEFT_OUT.has(key) || hasUnknownType(key, value)) settings[key] = value;
  }
  return settings;
}

/** Values of a beta header as they came, as words: split at commas, trimmed, sorted. */
export function readBetas(headers: readonly string[]): string[] {
  const words = headers
    .flatMap((header) => header.split(','))
    .map((word) => word.trim())
    .filter((word) => word !== '');
  return [...new Set(words)].sort();
}

/** What a request has beside the normal form, where nothing speaks against a student. */
export function plainExtras(settings: Readonly<Record<string, unknown>> = {}): StepExtras {
  return { betas: [], breaches: [], at_ms: null, settings, unsupported: '', origin: '' };
}

/** Whether a field that the normal form holds is of a type that it has no word for: then it is a setting like others. */
function hasUnknownType(key: string, value: unknown): boolean {
  const known = NORMAL_TYPES[key];
  return known !== undefined && !(isObject(value) && known.includes(value.type));
}

/** Model, tools, settings, tool choice, thinking and response schema, as a hash. */
export function fingerprintScope(
  request: NormalRequest,
  extras: StepExtras,
  dates = new ToolDates(extras.at_ms),
): string {
  const { model, tools, tool_choice, thinking, response_schema } = request;
  const { betas, settings, origin } = extras;
  // A budget of thinking that follows max_tokens changes from request to request; the mode and the effort do not.
  const parts = [
    model,
    tools.map(({ kind, name, description, input_schema, settings: its }) => [
      kind,
      name,
      description,
      input_schema,
      dropCacheMarks(its),
    ]),
    betas,
    settings,
    tool_choice,
    thinking === null ? null : [thinking.mode, thinking.effort],
    response_schema,
    ...(origin === '' ? [] : [origin]),
  ];
  let text = '';
  for (const seed of [1, 2]) {
    const hash = hashJson(
      parts,
      seed,
      { left: STUDENT_CORE.scope_read, level: (its) => dates.level(its) },
      STUDENT_CORE.scope_depth,
    );
    text += hash.toString(16).padStart(8, '0');
  }
  return text;
}

function dropCacheMarks(settings: unknown): unknown {
  if (!isObject(settings) || settings.cache_control === undefined) return settings;
  const { cache_control: _marker, ...rest } = settings;
  return Object.keys(rest).length === 0 ? null : rest;
}
