/** Telemetry of agents over OTLP/HTTP. Requests and answers have OpenTelemetry's form. Data; any thread. */
import { z } from 'zod';
import { type EndpointReply, endpoint, errorBody, type RawBody } from './endpoint.ts';

const OTLP: RawBody = {
  media_types: ['application/json', 'application/x-protobuf'],
  words:
    'The export request of OTLP 1.x, as protobuf or as its JSON; with `Content-Encoding: gzip` or without',
};

/** Makes the schema of an answer. Its `partialSuccess` is present only if some records were refused. */
const partialSuccess = (
  rejected: 'rejectedSpans' | 'rejectedLogRecords' | 'rejectedDataPoints',
  id: string,
) =>
  z
    .object({
      partialSuccess: z
        .object({
          [rejected]: z.string().describe('Number of refused records, as text'),
          errorMessage: z.string().describe('Why'),
        })
        .optional()
        .describe('Absent if all records were accepted'),
    })
    .meta({ id });

/** The body of a refusal in OTLP: a Status of gRPC. */
const statusBody = z
  .object({ message: z.string().describe('What is wrong, in words') })
  .meta({ id: 'OtlpStatus' });

/** Makes a refusal. Its body has OTLP's form if the handler refuses, and this API's form if a check before it does. */
const refusal = (description: string): EndpointReply => ({
  description,
  schema: z.union([statusBody, errorBody]),
});

const refusals = {
  400: refusal('The body does not match its Content-Type and Content-Encoding, or is not valid OTLP'),
  413: refusal(
    'The body is larger than MAX_BODY_BYTES, compressed or decompressed, or has too many records or values',
  ),
  415: refusal(
    'The Content-Type is neither protobuf nor JSON, or the body has another Content-Encoding than gzip',
  ),
};

export const OTEL = {
  exportTraces: endpoint({
    id: 'otel_export_traces',
    method: 'POST',
    path: '/otel/v1/traces',
    auth: 'bearer',
    summary: 'Accepts spans over OTLP; tool calls become steps of runs',
    tag: 'telemetry',
    raw_body: OTLP,
    replies: {
      200: {
        description: 'Accepted; the answer has the encoding of the request',
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
    summary: 'Accepts log records over OTLP; tool calls become steps of runs',
    tag: 'telemetry',
    raw_body: OTLP,
    replies: {
      200: {
        description: 'Accepted; the answer has the encoding of the request',
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
    summary: 'Accepts metrics over OTLP but stores none of them',
    tag: 'telemetry',
    raw_body: OTLP,
    replies: {
      200: {
        description:
          'Read; every data point is counted as rejected. The answer has the encoding of the request',
        schema: partialSuccess('rejectedDataPoints', 'OtelMetricsRead'),
      },
      ...refusals,
    },
  }),
} as const;
