/** Settings for capture and storage. Main thread. */
import { strict as assert } from 'node:assert';
import { z } from 'zod';
import { isRunHeader } from '../domain/client-run.ts';
import type { LocalKeep } from '../domain/local-keep.ts';
import type { Prices } from '../domain/price.ts';
import { SHIPPED_PRICES } from '../domain/price-table.ts';
import { DEFAULTS } from '../limits.ts';
import {
  bucketUrl,
  bytes,
  flag,
  note,
  onOff,
  parseJson,
  splitList,
  type Values,
  type VariableTable,
  wholeNumber,
} from './values.ts';

/**
 * Maximum GW_MAX_CAPTURE_BYTES and MAX_BODY_BYTES: one stored body is one buffer, and the decoder needs room for a
 * second.
 */
export const CAPTURE_BYTES_MAX = 1 << 30;

/** Maximum number of models in GW_PRICES. */
const PRICED_MODELS_MAX = 1_000;

/** Maximum number of tiers of a model in GW_PRICES, and of characters of a tier's name. */
const PRICED_TIERS_MAX = 20;
const TIER_CHARS_MAX = 64;

/** Maximum number of headers that SVC_RUN_HEADERS may name. */
const RUN_HEADERS_MAX = 16;

assert(DEFAULTS.GW_MAX_CAPTURE_BYTES <= CAPTURE_BYTES_MAX, 'the default body cap is inside its own range');

export interface CaptureConfig {
  /** false: only forward, to measure the cost of capture. */
  readonly enabled: boolean;
  /** Absolute path of the capture database. */
  readonly db: string;
  /** '': no note. */
  readonly note: string;
  /** Headers that name a request's run if x-svc-run is absent; lower case. */
  readonly run_headers: readonly string[];
  /** Keys inside bodies are masked in the stored copy. */
  readonly redact: boolean;
  /**
   * The bucket for sealed files, and how long they also stay on the local disk; null: they stay on
   * the local disk.
   */
  readonly bucket: {
    readonly place: string;
    readonly keep: LocalKeep;
    /** The live file is sealed when its first exchange is this old, however small it is; null: not by age alone. */
    readonly seal_after_ms: number | null;
  } | null;
  /** The bucket whose captures this service shows in place of local ones; null: local ones. */
  readonly read_from: string | null;
  readonly max_queue: number;
  readonly max_queue_bytes: number;
  /** Maximum bytes of each body. */
  readonly max_capture_bytes: number;
  /** Dollars per million tokens, by model; null: the cost of conversations is not reported. */
  readonly prices: Prices | null;
}

const runHeaders = z
  .string()
  .transform((text) => splitList(text).map((name) => name.toLowerCase()))
  .refine((list) => list.length <= RUN_HEADERS_MAX && list.every(isRunHeader))
  .describe(
    `must be up to ${RUN_HEADERS_MAX} names of headers without credentials (x-session-id counts as a credential), separated by commas, and none of x-svc-run, x-svc-seq, x-svc-tags, host, connection and content-length`,
  );

const price = z.number().min(0).max(1_000_000);

const rates = {
  input: price,
  output: price,
  cache_read: price.optional(),
  cache_write: price.optional(),
  cache_write_1h: price.optional(),
};

const tierPrice = {
  ...rates,
  above: z.strictObject({ tokens: z.int().min(1).max(1_000_000_000), ...rates }).optional(),
};

/** Answers name tiers in upper and lower case. */
const tierName = z
  .string()
  .min(1)
  .max(TIER_CHARS_MAX)
  .regex(/^[^A-Z]+$/);

const modelPrice = z.strictObject({
  ...tierPrice,
  tiers: z
    .record(tierName, z.union([price, z.strictObject(tierPrice)]))
    .refine((tiers) => Object.keys(tiers).length <= PRICED_TIERS_MAX)
    .optional(),
});

const prices = z
  .string()
  .transform((text, context) => {
    const value = parseJson(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const { extends: base, ...own } = value as { extends?: unknown };
      const parsed = z.record(z.string().min(1).max(200), modelPrice).safeParse(own);
      if (parsed.success && Object.keys(parsed.data).length <= PRICED_MODELS_MAX) {
        if (base === undefined) return Object.freeze(parsed.data);
        if (base === 'shipped') return Object.freeze({ ...SHIPPED_PRICES, ...parsed.data });
      }
    }
    context.addIssue('not prices');
    return z.NEVER;
  })
  .describe(
    'must be a JSON object of models, each with dollars per million tokens: {"model": {"input": 3, "output": 15}}; with "extends": "shipped" it extends the built-in table',
  );

const HOUR_MS = 3_600_000;
const SEAL_UNITS = { m: 60_000, h: HOUR_MS, d: 24 * HOUR_MS } as const;

const sealAfter = z
  .string()
  .transform((text, context): number => {
    const [, digits = '', unit = ''] = /^([1-9]\d{0,3})(m|h|d)$/.exec(text) ?? [];
    if (unit in SEAL_UNITS) return Number(digits) * SEAL_UNITS[unit as keyof typeof SEAL_UNITS];
    context.addIssue('not a time in this form');
    return z.NEVER;
  })
  .describe('must be a time of 1 to 9999 minutes, hours or days, such as 15m, 1h or 1d');

const KEEP_UNITS = { h: HOUR_MS, d: 24 * HOUR_MS } as const;
const BYTE_UNITS = { MiB: 1 << 20, GiB: 1 << 30 } as const;

const localKeep = z
  .string()
  .transform((text, context): LocalKeep => {
    if (text === 'all') return text;
    const [, digits = '', unit = ''] = /^(\d{1,9})(h|d|MiB|GiB)$/.exec(text) ?? [];
    if (unit in KEEP_UNITS) return { age_ms: Number(digits) * KEEP_UNITS[unit as keyof typeof KEEP_UNITS] };
    if (unit in BYTE_UNITS) return { bytes: Number(digits) * BYTE_UNITS[unit as keyof typeof BYTE_UNITS] };
    context.addIssue('not a valid time or size');
    return z.NEVER;
  })
  .describe('must be a time such as 7d or 12h, a size such as 50GiB or 500MiB, or all');

export const CAPTURE_VARIABLES = {
  GW_NOTE: [note, ''],
  SVC_RUN_HEADERS: [runHeaders, undefined],
  GW_CAPTURE: [onOff, 'on'],
  CAPTURE_BUCKET_URL: [bucketUrl, undefined],
  CAPTURE_LOCAL_KEEP: [localKeep, '7d'],
  CAPTURE_SEAL_AFTER: [sealAfter, undefined],
  CAPTURE_READ_URL: [bucketUrl, undefined],
  SVC_REDACT: [flag, '1'],
  GW_PRICES: [prices, undefined],
  GW_MAX_QUEUE: [wholeNumber(1, Number.MAX_SAFE_INTEGER, ' of exchanges'), String(DEFAULTS.GW_MAX_QUEUE)],
  GW_MAX_QUEUE_BYTES: [bytes(), String(DEFAULTS.GW_MAX_QUEUE_BYTES)],
  GW_MAX_CAPTURE_BYTES: [bytes(CAPTURE_BYTES_MAX), String(DEFAULTS.GW_MAX_CAPTURE_BYTES)],
} as const satisfies VariableTable;

/** Makes the section from its variables. @param db absolute path of the capture database */
export function readCapture(v: Values<typeof CAPTURE_VARIABLES>, db: string): CaptureConfig {
  return Object.freeze({
    enabled: v.GW_CAPTURE,
    db,
    note: v.GW_NOTE,
    run_headers: Object.freeze(v.SVC_RUN_HEADERS ?? []),
    redact: v.SVC_REDACT,
    bucket:
      v.CAPTURE_BUCKET_URL === null
        ? null
        : Object.freeze({
            place: v.CAPTURE_BUCKET_URL,
            keep: v.CAPTURE_LOCAL_KEEP,
            seal_after_ms: v.CAPTURE_SEAL_AFTER,
          }),
    read_from: v.CAPTURE_READ_URL,
    max_queue: v.GW_MAX_QUEUE,
    max_queue_bytes: v.GW_MAX_QUEUE_BYTES,
    max_capture_bytes: v.GW_MAX_CAPTURE_BYTES,
    prices: v.GW_PRICES,
  });
}
