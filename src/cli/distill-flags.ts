/** Reads and checks the flags of `distill` and `loop`. Main thread. */

import { resolve } from 'node:path';
import { TIERS, type Tier } from '../domain/pattern.ts';
import { MODEL_CHARACTERS, NEVER_SERVE, SERVED_MIN_DEFAULT, TARGET_ERROR_DEFAULT } from '../limits.ts';
import { isStudentEndpoint, type StudentKind } from '../student/model/manifest.ts';
import { type FlagKinds, readFlags } from './flags.ts';
import { UsageError } from './io.ts';

/** The flags that both commands have, for `--help`. */
export const DISTILL_FLAGS_HELP = `  --db FILE            capture database; DATA_DIR/capture.mdb when not given. A running gateway may be writing to it; the
                       sealed files beside it are read with it
  --out DIR            where the student lives: new, empty, or one that was made by this command
  --target-error E     share of served steps that may be wrong, 0.001 to 0.5; ${TARGET_ERROR_DEFAULT} when not given
  --min-served N       steps kept apart that it must serve before its error counts for anything; ${SERVED_MIN_DEFAULT}
  --never-serve NAME   a tool of which no call is ever served; may be given several times, or with commas
  --tier TIER          e1, e2 or e3: named in the line that says how to import the patterns; e2
  --share S            share of the runs that a new version serves, 0 to 1; 1. See understudy student publish --share
  --student KIND       exemplar (default): answers from golden steps itself. http: the gateway asks a cheaper model
                       where golden steps allow it
  --endpoint URL       of kind http: base address of the service, up to and without /v1; its key is SVC_STUDENT_KEY
  --model NAME         of kind http: the model that is asked for
  --style STYLE        of kind http: messages (default) or chat_completions
  --json               the report as JSON`;

export interface DistillFlags {
  /** null: the configured one. Absolute. */
  db: string | null;
  /** Absolute. */
  out: string;
  target_error: number;
  served_min: number;
  /** Tools of which no call is served. */
  never_serve: string[];
  tier: Tier;
  /** Of the runs, how much what is published serves. */
  share: number;
  student: StudentKind;
  json: boolean;
  help: boolean;
  /** What the command has besides. */
  more: Readonly<Record<string, string | boolean | undefined>>;
}

const FLAGS = {
  db: 'text',
  out: 'text',
  'target-error': 'text',
  'min-served': 'text',
  'never-serve': 'list',
  tier: 'text',
  share: 'text',
  student: 'text',
  endpoint: 'text',
  model: 'text',
  style: 'text',
  json: 'switch',
} as const;

/**
 * @param more options of the one command
 * @throws UsageError
 */
export function readDistillFlags(argv: string[], more: FlagKinds = {}): DistillFlags {
  const values: DistillFlags['more'] = readFlags(argv, { ...FLAGS, ...more });
  const text = (name: keyof typeof FLAGS): string | undefined => values[name] as string | undefined;
  const isHelp = values.help === true;
  const out = text('out');
  if (!isHelp && (out === undefined || out === ''))
    throw new UsageError('say where the student goes: --out DIR');
  const db = text('db');
  if (db === '') throw new UsageError('--db takes the path of a file');
  return {
    db: db === undefined ? null : resolve(db),
    out: resolve(out ?? '.'),
    target_error: readNumber('--target-error', text('target-error'), TARGET_ERROR_DEFAULT, 0.001, 0.5),
    served_min: readWhole('--min-served', text('min-served'), SERVED_MIN_DEFAULT, 1, 1_000_000),
    never_serve: readNames('--never-serve', text('never-serve')),
    tier: readTier(text('tier')),
    share: readNumber('--share', text('share'), 1, 0, 1),
    student: readStudent(text('student') ?? 'exemplar', text('endpoint'), text('model'), text('style')),
    json: values.json === true,
    help: isHelp,
    more: values,
  };
}

function readNumber(name: string, text: string | undefined, unset: number, min: number, max: number): number {
  if (text === undefined) return unset;
  const value = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) throw new UsageError(`${name} takes a number from ${min} to ${max}`);
  return value;
}

function readWhole(name: string, text: string | undefined, unset: number, min: number, max: number): number {
  if (text !== undefined && !/^\d{1,9}$/.test(text)) throw new UsageError(`${name} takes a whole number`);
  return readNumber(name, text, unset, min, max);
}

/** Names with commas between them. */
function readNames(flag: string, text: string | undefined): string[] {
  if (text === undefined) return [];
  const names = [...new Set(text.split(',').map((name) => name.trim()))];
  if (names.includes('')) throw new UsageError(`${flag} takes names of tools, with commas between them`);
  if (names.some((name) => name.length > NEVER_SERVE.characters))
    throw new UsageError(`${flag} takes names of at most ${NEVER_SERVE.characters} characters`);
  if (names.length > NEVER_SERVE.names)
    throw new UsageError(`${flag} takes at most ${NEVER_SERVE.names} names`);
  return names;
}

function readTier(text: string | undefined): Tier {
  const tier = TIERS.find((known) => known === (text ?? 'e2'));
  if (tier === undefined) throw new UsageError(`--tier takes one of ${TIERS.join(', ')}`);
  return tier;
}

function readStudent(
  kind: string,
  endpoint: string | undefined,
  model: string | undefined,
  style: string | undefined,
): StudentKind {
  if (kind === 'exemplar') {
    if (endpoint !== undefined || model !== undefined || style !== undefined)
      throw new UsageError('--endpoint, --model and --style go with --student http');
    return { kind };
  }
  if (kind !== 'http') throw new UsageError('--student takes exemplar or http');
  if (endpoint === undefined || model === undefined)
    throw new UsageError('--student http takes --endpoint URL and --model NAME');
  if (!isStudentEndpoint(endpoint))
    throw new UsageError('--endpoint takes an http:// or https:// address without credentials, query or #');
  if (model === '' || model.length > MODEL_CHARACTERS)
    throw new UsageError(`--model takes 1 to ${MODEL_CHARACTERS} characters`);
  if (style !== undefined && style !== 'messages' && style !== 'chat_completions')
    throw new UsageError('--style takes messages or chat_completions');
  return { kind, endpoint: endpoint.replace(/\/+$/, ''), model, style: style ?? 'messages' };
}
