/** Settings of relegation: the student, and the steps from which it learns. Main thread. */
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { RELEGATION_WIRES, type RelegationWire } from '../domain/exchange.ts';
import type { Prices } from '../domain/price.ts';
import { ConfigError } from './config-error.ts';
import {
  bucketUrl,
  headerKey,
  keys,
  onOff,
  path,
  splitList,
  type Values,
  type VariableTable,
  wholeNumber,
} from './values.ts';

const STUDENT_TIMEOUT_MAX_MS = 600_000;

export interface TeachingConfig {
  /**
   * Key for the service behind a student of kind `http`, also during a round. Secret, never print; ''
   * for none.
   */
  readonly student_key: string;
  /** Wire formats whose steps are relegated and taught. */
  readonly relegation_wires: readonly RelegationWire[];
}

export interface RelegationConfig {
  /** Absolute path of the directory in which `distill` or `loop` publishes the student. */
  readonly directory: string;
  /** `shadow`: the upstream serves every step, and the student's answer is only compared. */
  readonly mode: 'on' | 'shadow';
  /**
   * The place through which several gateways share the student; null: the student is not shared.
   */
  readonly shared: { readonly place: string; readonly role: 'share' | 'follow' } | null;
  /** Key for the service behind a student of kind `http`. Secret, never print; '' for none. */
  readonly key: string;
  /** Clients' credentials that the student may serve before the upstream has accepted them; secret: never print. */
  readonly client_keys: readonly string[];
  /** Share of covered steps that the upstream serves nevertheless, for comparison. */
  readonly audit_share: number;
  /** Whether a run stays with the upstream after the upstream has served a step of it. */
  readonly sticky: boolean;
  /** Absolute; the file of the watch over the student. */
  readonly watch_path: string;
  /** Absolute; the file of what the student has served and saved. */
  readonly ledger_path: string;
  /** How long a step waits for the student; null: the default of its kind. */
  readonly timeout_ms: number | null;
  /** Dollars per million tokens, by model; null: savings are not reported in money. */
  readonly prices: Prices | null;
}

const relegationWires = z
  .string()
  .transform((text) => splitList(text))
  .pipe(z.array(z.enum(RELEGATION_WIRES)).min(1))
  .transform((list) => Object.freeze([...new Set(list)]))
  .describe(`must be one or more of ${RELEGATION_WIRES.join(', ')}, separated by commas`);

const relegationMode = z.enum(['on', 'shadow', 'off']).describe('must be on, shadow or off');

const studentSharing = z.enum(['share', 'follow']).describe('must be share or follow');

const relegationAudit = z
  .string()
  .regex(/^(0(\.\d{1,6})?|1(\.0{1,6})?)$/)
  .transform(Number)
  .describe('must be a share from 0 to 1 such as 0.05, with at most six decimal places');

export const RELEGATION_VARIABLES = {
  SVC_DISTILL_DIR: [path, undefined],
  GW_RELEGATION: [relegationMode, 'on'],
  GW_RELEGATION_AUDIT: [relegationAudit, '0.05'],
  GW_RELEGATION_STICKY: [onOff, 'off'],
  GW_RELEGATION_WIRES: [relegationWires, 'messages'],
  STUDENT_BUCKET_URL: [bucketUrl, undefined],
  STUDENT_SHARING: [studentSharing, 'follow'],
  SVC_STUDENT_KEY: [headerKey, undefined],
  SVC_STUDENT_KEYS: [keys, undefined],
  GW_STUDENT_TIMEOUT_MS: [wholeNumber(1, STUDENT_TIMEOUT_MAX_MS, ' of milliseconds'), undefined],
} as const satisfies VariableTable;

export function readTeaching(v: Values<typeof RELEGATION_VARIABLES>): TeachingConfig {
  return { student_key: v.SVC_STUDENT_KEY ?? '', relegation_wires: v.GW_RELEGATION_WIRES };
}

/**
 * Makes the section from its variables.
 * @returns null without a directory, and with `off`
 * @throws ConfigError for a shared place without a directory
 */
export function readRelegation(
  v: Values<typeof RELEGATION_VARIABLES>,
  data_dir: string,
  prices: Prices | null,
): RelegationConfig | null {
  const { SVC_DISTILL_DIR: directory, GW_RELEGATION: mode } = v;
  if (directory === null && v.STUDENT_BUCKET_URL !== null)
    throw new ConfigError(
      'STUDENT_BUCKET_URL',
      v.STUDENT_BUCKET_URL,
      'SVC_DISTILL_DIR must name the directory of the student',
    );
  if (directory === null || mode === 'off') return null;
  return Object.freeze({
    directory: resolve(directory),
    mode,
    shared:
      v.STUDENT_BUCKET_URL === null
        ? null
        : Object.freeze({ place: v.STUDENT_BUCKET_URL, role: v.STUDENT_SHARING }),
    key: v.SVC_STUDENT_KEY ?? '',
    client_keys: Object.freeze([...new Set(v.SVC_STUDENT_KEYS ?? [])]),
    audit_share: v.GW_RELEGATION_AUDIT,
    sticky: v.GW_RELEGATION_STICKY,
    watch_path: join(data_dir, 'student-watch.json'),
    ledger_path: join(data_dir, 'student-ledger.json'),
    timeout_ms: v.GW_STUDENT_TIMEOUT_MS,
    prices,
  });
}
