/**
 * Writes an export request of spans in both forms of OTLP (opentelemetry-proto 1.9.0; the field numbers are those of
 * read-protobuf.ts). Pure; any thread.
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

/** A number that is always sent as a double, even if it is whole. */
interface Double {
  double: number;
}

type SpanAttribute = string | number | boolean | readonly string[] | Double;

/** Attributes of a span. null and undefined values are left out. */
export type SpanAttributes = Readonly<Record<string, SpanAttribute | null | undefined>>;

export interface WrittenSpan {
  /** 32 hexadecimal digits. */
  trace_id: string;
  /** 16 hexadecimal digits. */
  span_id: string;
  /** '' if absent. */
  parent_span_id: string;
  trace_state: string;
  /** The lower eight bits are the W3C trace flags. The next two bits show whether the parent is remote. */
  flags: number;
  name: string;
  kind: 'internal' | 'client';
  start_ms: number;
  end_ms: number;
  attributes: SpanAttributes;
  is_error: boolean;
}

export interface SpanSource {
  resource: SpanAttributes;
  scope: { name: string; version: string };
}

const KINDS = { internal: 1, client: 3 } as const;
const STATUS_ERROR = 2;

export function writeSpansProtobuf(
  { resource, scope }: SpanSource,
  spans: readonly WrittenSpan[],
): Uint8Array {
  const writer = new BinaryWriter();
  open(writer, 1);
  open(writer, 1);
  writeAttributes(writer, 1, resource);
  writer.join();
  open(writer, 2);
  open(writer, 1);
  writer.tag(1, WireType.LengthDelimited).string(scope.name);
  writer.tag(2, WireType.LengthDelimited).string(scope.version);
  writer.join();
  for (const span of spans) writeSpan(writer, span);
  return writer.join().join().finish();
}

function open(writer: BinaryWriter, field: number): void {
  writer.tag(field, WireType.LengthDelimited).fork();
}

function writeSpan(writer: BinaryWriter, span: WrittenSpan): void {
  open(writer, 2);
  writer.tag(1, WireType.LengthDelimited).bytes(Buffer.from(span.trace_id, 'hex'));
  writer.tag(2, WireType.LengthDelimited).bytes(Buffer.from(span.span_id, 'hex'));
  if (span.trace_state !== '') writer.tag(3, WireType.LengthDelimited).string(span.trace_state);
  if (span.parent_span_id !== '')
    writer.tag(4, WireType.LengthDelimited).bytes(Buffer.from(span.parent_span_id, 'hex'));
  writer.tag(5, WireType.LengthDelimited).string(span.name);
  writer.tag(6, WireType.Varint).int32(KINDS[span.kind]);
  writer.tag(7, WireType.Bit64).fixed64(toNanoseconds(span.start_ms));
  writer.tag(8, WireType.Bit64).fixed64(toNanoseconds(span.end_ms));
  writeAttributes(writer, 9, span.attributes);
  if (span.is_error) {
    open(writer, 15);
    writer.tag(3, WireType.Varint).int32(STATUS_ERROR).join();
  }
  writer.tag(16, WireType.Bit32).fixed32(span.flags);
  writer.join();
}

function writeAttributes(writer: BinaryWriter, field: number, attributes: SpanAttributes): void {
  for (const [key, value] of knownOf(attributes)) {
    open(writer, field);
    writer.tag(1, WireType.LengthDelimited).string(key);
    open(writer, 2);
    writeValue(writer, value);
    writer.join().join();
  }
}

function writeValue(writer: BinaryWriter, value: SpanAttribute): void {
  if (typeof value === 'string') writer.tag(1, WireType.LengthDelimited).string(value);
  else if (typeof value === 'boolean') writer.tag(2, WireType.Varint).bool(value);
  else if (typeof value === 'number') {
    if (Number.isSafeInteger(value)) writer.tag(3, WireType.Varint).int64(value);
    else writer.tag(4, WireType.Bit64).double(value);
  } else if ('double' in value) writer.tag(4, WireType.Bit64).double(value.double);
  else {
    open(writer, 5);
    for (const item of value) {
      open(writer, 1);
      writer.tag(1, WireType.LengthDelimited).string(item).join();
    }
    writer.join();
  }
}

export function writeSpansJson({ resource, scope }: SpanSource, spans: readonly WrittenSpan[]): Uint8Array {
  const request = {
    resourceSpans: [
      {
        resource: { attributes: describeAttributes(resource) },
        scopeSpans: [{ scope, spans: spans.map(describeSpan) }],
      },
    ],
  };
  return Buffer.from(JSON.stringify(request));
}

function describeSpan(span: WrittenSpan): object {
  return {
    traceId: span.trace_id,
    spanId: span.span_id,
    ...(span.trace_state === '' ? {} : { traceState: span.trace_state }),
    ...(span.parent_span_id === '' ? {} : { parentSpanId: span.parent_span_id }),
    name: span.name,
    kind: KINDS[span.kind],
    startTimeUnixNano: String(toNanoseconds(span.start_ms)),
    endTimeUnixNano: String(toNanoseconds(span.end_ms)),
    attributes: describeAttributes(span.attributes),
    ...(span.is_error ? { status: { code: STATUS_ERROR } } : {}),
    flags: span.flags,
  };
}

function describeAttributes(attributes: SpanAttributes): object[] {
  return knownOf(attributes).map(([key, value]) => ({ key, value: describeValue(value) }));
}

function describeValue(value: SpanAttribute): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number')
    return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  if ('double' in value) return { doubleValue: value.double };
  return { arrayValue: { values: value.map((item) => ({ stringValue: item })) } };
}

function knownOf(attributes: SpanAttributes): [string, SpanAttribute][] {
  return Object.entries(attributes).filter(
    (entry): entry is [string, SpanAttribute] => entry[1] !== null && entry[1] !== undefined,
  );
}

/** Converts milliseconds to nanoseconds, rounded to whole microseconds. */
function toNanoseconds(ms: number): bigint {
  return BigInt(Math.round(ms * 1_000)) * 1_000n;
}
