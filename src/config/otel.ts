/** The collector that gets captured turns as spans, under the names of OpenTelemetry's specification. Main thread. */
import { z } from 'zod';
import { joinTracesPath, readPairs } from '../domain/otel-settings.ts';
import { note, onOff, type Values, type VariableTable, wholeNumber, wordFlag } from './values.ts';

export interface OtelConfig {
  /** The whole address of the signal. */
  readonly url: string;
  readonly encoding: 'protobuf' | 'json';
  /** Secret: never print. */
  readonly headers: Readonly<Record<string, string>>;
  readonly timeout_ms: number;
  readonly compresses: boolean;
  /** Attributes of the resource. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly has_content: boolean;
}

const otlpUrl = z
  .string()
  .refine((text) => /^https?:\/\/[^\s\\@#]+$/i.test(text) && URL.canParse(text))
  .describe('must be an http:// or https:// address without credentials or #');

const otlpHeaders = z
  .string()
  .transform((text) => readPairs(text))
  .refine((pairs) =>
    pairs?.every(
      ([name, value]) =>
        /^[a-z\d!#$%&'*+.^_`|~-]{1,100}$/i.test(name) && /^[\t\x20-\x7e]{0,8192}$/.test(value),
    ),
  )
  .transform((pairs) => Object.fromEntries((pairs ?? []).map(([name, value]) => [name.toLowerCase(), value])))
  .describe('must be headers as name=value, separated by commas, values percent-encoded');

const otlpAttributes = z
  .string()
  .transform((text) => readPairs(text))
  .refine((pairs) => pairs !== null && pairs.length <= 128)
  .transform((pairs) => Object.fromEntries(pairs ?? []))
  .describe('must be up to 128 attributes as name=value, separated by commas, values percent-encoded');

export const OTEL_VARIABLES = {
  OTEL_EXPORTER_OTLP_ENDPOINT: [otlpUrl, undefined],
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: [otlpUrl, undefined],
  OTEL_EXPORTER_OTLP_PROTOCOL: [
    z
      .enum(['http/protobuf', 'http/json'])
      .describe(
        'must be http/protobuf or http/json; grpc is not supported, so name the HTTP port of the collector',
      ),
    'http/protobuf',
  ],
  OTEL_EXPORTER_OTLP_HEADERS: [otlpHeaders, undefined],
  OTEL_EXPORTER_OTLP_TIMEOUT: [wholeNumber(1, 600_000, ' of milliseconds'), '10000'],
  OTEL_EXPORTER_OTLP_COMPRESSION: [z.enum(['none', 'gzip']).describe('must be gzip or none'), 'none'],
  OTEL_SERVICE_NAME: [note, undefined],
  OTEL_RESOURCE_ATTRIBUTES: [otlpAttributes, undefined],
  OTEL_SDK_DISABLED: [wordFlag, 'false'],
  GW_OTEL_CONTENT: [onOff, 'off'],
} as const satisfies VariableTable;

/** Makes the section from its variables. @returns null without an address, and with OTEL_SDK_DISABLED */
export function readOtel(v: Values<typeof OTEL_VARIABLES>): OtelConfig | null {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: traces } = v;
  if (v.OTEL_SDK_DISABLED || (base === null && traces === null)) return null;
  const named = v.OTEL_SERVICE_NAME === null ? {} : { 'service.name': v.OTEL_SERVICE_NAME };
  return Object.freeze({
    url: traces === null ? joinTracesPath(base!) : new URL(traces).href,
    encoding: v.OTEL_EXPORTER_OTLP_PROTOCOL === 'http/json' ? 'json' : 'protobuf',
    headers: Object.freeze(v.OTEL_EXPORTER_OTLP_HEADERS ?? {}),
    timeout_ms: v.OTEL_EXPORTER_OTLP_TIMEOUT,
    compresses: v.OTEL_EXPORTER_OTLP_COMPRESSION === 'gzip',
    attributes: Object.freeze({ 'service.name': 'understudy', ...v.OTEL_RESOURCE_ATTRIBUTES, ...named }),
    has_content: v.GW_OTEL_CONTENT,
  });
}
