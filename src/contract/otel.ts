/** Telemetry of agents as OTLP over HTTP carries it: what goes in and out is OpenTelemetry's. Data; any thread. */
import { z } from 'zod';
import { type EndpointReply, endpoint, errorBody, type RawBody } from './endpoint.ts';

const OTLP: RawBody = {
  media_types: ['application/json', 'application/x-protobuf'],
  words:
    'The export request of OTLP 1.x, as protobuf or as its JSON; with `Content-Encoding: gzip` or without',
};

/** What is only in an answer that took less than it was sent. */
const partialSuccess = (
  rejected: 'rejectedSpans' | 'rejectedLogRecords' | 'rejectedDataPoints',
  id: string,
) =>
  z
    .object({
      partialSuccess: z
        .object({
          [rejected]: z.string().describe('How many were not taken, as text'),
          errorMessage: z.string().describe('Why'),
        })
        .optional()
        .describe('Left out when all was taken'),
    })
    .meta({ id });

/** What OTLP says of a request that was not taken: a Status of gRPC. */
const statusBody = z
  .object({ message: z.string().describe('What is wrong, in words') })
  .meta({ id: 'OtlpStatus' });

/** From the handler as OTLP says it; from the checks before it as the rest of the API does. */
const refusal = (description: string): EndpointReply => ({
  description,
  schema: z.union([statusBody, errorBody]),
});

const refusals = {
  400: refusal('The body is not what its Content-Type and Content-Encoding say, or not what OTLP says'),
  413: refusal(
    'The body is larger than MAX_BODY_BYTES, as sent or unpacked, or holds too many records or values',
  ),
  415: refusal('Another Content-Type than those two, or another Content-Encoding than gzip'),
};

export const OTEL = {
  exportTraces: endpoint({
    id: 'otel_export_traces',
    method: 'POST',
    path: '/otel/v1/traces',
    auth: 'bearer',
    summary: 'Takes spans over OTLP; tool calls become steps of runs',
    tag: 'telemetry',
    raw_body: OTLP,
    replies: {
      200: {
        description: 'Taken, in the encoding of the request',
        schema: partialSuccess('rejectedSpans', 'OtelTracesTaken'),
      },
      ...refusals,
    },
  }),
  exportLogs: endpoint({
    id: 'otel_export_logs',
    method: 'POST',
    path: '/otel/v1/logs',
    auth: 'bearer',
    summary: 'Takes log records over OTLP; tool calls become steps of runs',
    tag: 'telemetry',
    raw_body: OTLP,
    replies: {
      200: {
        description: 'Taken, in the encoding of the request',
        schema: partialSuccess('rejectedLogRecords', 'OtelLogsTaken'),
      },
      ...refusals,
    },
  }),
  exportMetrics: endpoint({
    id: 'otel_export_metrics',
    method: 'POST',
    path: '/otel/v1/metrics',
    auth: 'bearer',
    summary: 'Reads metrics over OTLP and keeps none of them',
    tag: 'telemetry',
    raw_body: OTLP,
    replies: {
      200: {
        description: 'Read; every data point is counted as rejected, in the encoding of the request',
        schema: partialSuccess('rejectedDataPoints', 'OtelMetricsRead'),
      },
      ...refusals,
    },
  }),
} as const;
