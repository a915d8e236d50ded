/** Reads and checks the flags of `distill` and `loop`. Main thread. */

import { resolve } from 'node:path';
import { TIERS, type Tier } from '../domain/pattern.ts';
import { MODEL_CHARACTERS } from '../limits.ts';
import {
  isStudentEndpoint,
  NEVER_SERVE,
  SERVICE_ANSWERS_MAX,
  type StudentKind,
} from '../student/model/manifest.ts';
import { FINAL_COST } from '../teaching/calibration.ts';
import { HELD_OUT } from '../teaching/limits.ts';
import { type FlagKinds, readFlags } from './flags.ts';
import { UsageError } from './io.ts';
import { readSince } from './since.ts';

/**
 * Share of served steps that may be wrong (document 4, "Relegation"), and minimum number of steps for a statement about
 * this share.
 */
const TARGET_ERROR_DEFAULT = 0.05;
const SERVED_MIN_DEFAULT = 12;

/** The flags that both commands share, for `--help`. */
export const DISTILL_FLAGS_HELP = `  --db FILE            capture database; default: DATA_DIR/capture.mdb. A running gateway may be writing to it; the
                       sealed files beside it are also read
  --out DIR            the student's folder: new, empty, or made by this command
  --target-error E     share of served steps that may be wrong, 0.001 to 0.5; default: ${TARGET_ERROR_DEFAULT}
  --min-served N       held-out steps that the student must serve before its error rate counts; default: ${SERVED_MIN_DEFAULT}
  --never-serve NAME   a tool whose calls are never served; repeatable, or separated by commas
  --final-cost C       cost of an error in a call that changes something for good, as a multiple of any other error's,
                       1 to 100; default: ${FINAL_COST}. Such calls need more golden runs
  --since WHEN         teach only from runs that began then or later: 90m, 12h, 7d before the round, or a time such as
                       2026-05-01 or 2026-05-01T12:00Z
  --tier TIER          e1, e2 or e3, for the line that says how to import the patterns; default: e2
  --share S            share of the runs that a new version serves, 0 to 1; default: 1. See understudy student publish --share
  --student KIND       exemplar (default): answers from golden steps. http: the gateway asks a cheaper model, for the
                       agents and kinds of answers in which it agreed with golden answers
  --endpoint URL       of kind http: base address of the service, or the address of its requests, which ends with
                       /v1/messages or /v1/chat/completions and so sets the style; the key is SVC_STUDENT_KEY
  --model NAME         of kind http: the name of the model
  --style STYLE        of kind http: messages (default) or chat_completions
  --answers N          of kind http: answers to a step that must agree before it is served, 1 to ${SERVICE_ANSWERS_MAX}; default: 1
  --with-exemplar      of kind http: the answer derived from golden steps must also agree
  --held-out S         of kind http, and of exports: share of the golden runs that is held out, 0.05 to 0.9. For a
                       model that was taught with an export, use that export's share. Default: ${HELD_OUT.share}, and
                       more for agents with few golden runs
  --json               the report as JSON`;

export interface DistillFlags {
  /** An absolute path; null: the flag is absent, and the configured database is read. */
  db: string | null;
  /** An absolute path; '': a model is only measured, and nothing is written. */
  out: string;
  target_error: number;
  served_min: number;
  /** Tools whose calls are not served. */
  never_serve: string[];
  /** Cost of an error in a final call, as a multiple of the cost of any other error. */
  final_cost: number;
  /** Golden runs that began earlier are not used for teaching; null: all are used. */
  since_ms: number | null;
  tier: Tier;
  /** Share of the runs that the published version serves. */
  share: number;
  student: StudentKind;
  /**
   * For a student that calls a service, and for an export: share of the golden runs held out from teaching; null: the
   * default.
   */
  held_out: number | null;
  json: boolean;
  help: boolean;
  /** The command's other flags. */
  more: Readonly<Record<string, string | boolean | undefined>>;
}

const FLAGS = {
  db: 'text',
  out: 'text',
  'target-error': 'text',
  'min-served': 'text',
  'never-serve': 'list',
  'final-cost': 'text',
  since: 'text',
  tier: 'text',
  share: 'text',
  student: 'text',
  endpoint: 'text',
  model: 'text',
  style: 'text',
  answers: 'text',
  'with-exemplar': 'switch',
  'held-out': 'text',
  json: 'switch',
} as const;

/**
 * Reads and checks the flags. With `--help`, `--out` may be absent.
 * @param more options of one command
 * @throws UsageError
 */
export function readDistillFlags(
  argv: string[],
  more: FlagKinds = {},
  nowMs: number = Date.now(),
): DistillFlags {
  const values: DistillFlags['more'] = readFlags(argv, { ...FLAGS, ...more });
  const text = (name: keyof typeof FLAGS): string | undefined => values[name] as string | undefined;
  const isHelp = values.help === true;
  const out = text('out');
  // Measuring a model writes no files.
  if (!isHelp && (out === '' || (out === undefined && values['model-url'] === undefined)))
    throw new UsageError('name the folder of the student: --out DIR');
  const student = readStudent(values);
  const heldOut = text('held-out');
  if (heldOut !== undefined && student.kind !== 'http' && values.export === undefined)
    throw new UsageError('--held-out requires --student http, --model-url or --export');
  const [db, since] = [text('db'), text('since')];
  if (db === '') throw new UsageError('--db takes the path of a file');
  return {
    db: db === undefined ? null : resolve(db),
    out: out === undefined ? '' : resolve(out),
    target_error: readNumber('--target-error', text('target-error'), TARGET_ERROR_DEFAULT, 0.001, 0.5),
    served_min: readWhole('--min-served', text('min-served'), SERVED_MIN_DEFAULT, 1, 1_000_000),
    never_serve: readNames('--never-serve', text('never-serve')),
    final_cost: readNumber('--final-cost', text('final-cost'), FINAL_COST, 1, 100),
    since_ms: since === undefined ? null : readSince(since, nowMs),
    tier: readTier(text('tier')),
    share: readNumber('--share', text('share'), 1, 0, 1),
    student,
    held_out: heldOut === undefined ? null : readNumber('--held-out', heldOut, 0, 0.05, 0.9),
    json: values.json === true,
    help: isHelp,
    more: values,
  };
}

/**
 * Removes `/v1` and a known path behind it from the end of a service's address, because people copy whole addresses.
 * @returns the rest, and the style that the path names; null without a known path
 */
function readPlace(address: string): { endpoint: string; style: 'messages' | 'chat_completions' | null } {
  const [, endpoint = address, path] = /^(.*?)\/v1(\/messages|\/chat\/completions)?\/*$/.exec(address) ?? [];
  const style = path === undefined ? null : path === '/messages' ? 'messages' : 'chat_completions';
  return { endpoint: endpoint.replace(/\/+$/, ''), style };
}

function readNumber(name: string, text: string | undefined, unset: number, min: number, max: number): number {
  if (text === undefined) return unset;
  const value = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) throw new UsageError(`${name} takes a number from ${min} to ${max}`);
  return value;
}

function readWhole(name: string, text: string | undefined, unset: number, min: number, max: number): number {
  if (text !== undefined && !/^\d{1,9}$/.test(text))
    throw new UsageError(`${name} takes a whole number from ${min} to ${max}`);
  return readNumber(name, text, unset, min, max);
}

/** Reads names that are separated by commas. @throws UsageError */
function readNames(flag: string, text: string | undefined): string[] {
  if (text === undefined) return [];
  const names = [...new Set(text.split(',').map((name) => name.trim()))];
  if (names.includes('')) throw new UsageError(`${flag} takes names of tools, separated by commas`);
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

/** Reads the flags that choose the kind of student. @throws UsageError */
function readStudent(values: DistillFlags['more']): StudentKind {
  const text = (name: keyof typeof FLAGS): string | undefined => values[name] as string | undefined;
  const url = values['model-url'] as string | undefined;
  if (url !== undefined && (values.student !== undefined || values.endpoint !== undefined))
    throw new UsageError('--model-url replaces --student and --endpoint');
  const kind = url === undefined ? (text('student') ?? 'exemplar') : 'http';
  const endpoint = url ?? text('endpoint');
  const [model, style] = [text('model'), text('style')];
  const isConsistent = values.answers !== undefined || values['with-exemplar'] !== undefined;
  if (kind === 'exemplar') {
    if (endpoint !== undefined || model !== undefined || style !== undefined)
      throw new UsageError('--endpoint, --model and --style require --student http');
    if (isConsistent) throw new UsageError('--answers and --with-exemplar require --student http');
    return { kind };
  }
  if (kind !== 'http') throw new UsageError('--student takes exemplar or http');
  const named = url === undefined ? '--endpoint' : '--model-url';
  if (endpoint === undefined || model === undefined)
    throw new UsageError(
      url === undefined
        ? '--student http requires --endpoint URL and --model NAME'
        : '--model-url requires --model NAME',
    );
  if (!isStudentEndpoint(endpoint))
    throw new UsageError(`${named} takes an http:// or https:// address without credentials, query or #`);
  if (model === '' || model.length > MODEL_CHARACTERS)
    throw new UsageError(`--model takes 1 to ${MODEL_CHARACTERS} characters`);
  if (style !== undefined && style !== 'messages' && style !== 'chat_completions')
    throw new UsageError('--style takes messages or chat_completions');
  const place = readPlace(endpoint);
  if (style !== undefined && place.style !== null && style !== place.style)
    throw new UsageError(`${named} ends with the path of a style other than --style ${style}`);
  const answers = readWhole('--answers', text('answers'), 1, 1, SERVICE_ANSWERS_MAX);
  return {
    kind,
    endpoint: place.endpoint,
    model,
    style: style ?? place.style ?? 'messages',
    ...(answers > 1 ? { answers } : {}),
    ...(values['with-exemplar'] === true ? { with_exemplar: true } : {}),
  };
}
