/**
 * Reads the protobuf form of an OTLP request. Field numbers are those of opentelemetry-proto 1.9.0
 * (`collector/trace/v1`, `collector/logs/v1`, `collector/metrics/v1`, `trace/v1`, `logs/v1`, `metrics/v1`, `common/v1`,
 * `resource/v1`), all of them stable. Unneeded fields are skipped without decoding. Pure; any thread.
 *
 * Bounds: OTLP_BOUNDS; time and memory are linear in the body.
 */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { exactNumber, type RawNumber } from '../std/exact-json.ts';
import {
  type Attributes,
  type AttributeValue,
  type Origin,
  OtlpFault,
  type OtlpLog,
  OtlpMeter,
  type OtlpSpan,
} from './records.ts';

/** The value of `Status.code` for an error. */
const STATUS_ERROR = 2;

/** Reads a request for traces. @throws OtlpFault */
export function readSpansProtobuf(body: Uint8Array): OtlpSpan[] {
  return readRequest(body, readSpan);
}

/** Reads a request for logs. @throws OtlpFault */
export function readLogsProtobuf(body: Uint8Array): OtlpLog[] {
  return readRequest(body, readLog);
}

/**
 * Field numbers in Metric of the kinds of data: gauge, sum, histogram, exponential histogram, summary. Each kind has
 * its data points in field 1.
 */
const POINTS_OF = [5, 7, 9, 10, 11];

/** Counts the data points in a request for metrics, without examining them. @throws OtlpFault */
export function countPointsProtobuf(body: Uint8Array): number {
  let points = 0;
  readRequest(body, (metric, _origin, meter) => {
    for (const kind of POINTS_OF)
      for (const data of childrenOf(metric, kind, meter))
        for (const _point of childrenOf(data, 1, meter)) points++;
  });
  return points;
}

type ReadRecord<Record> = (bytes: Uint8Array, origin: Origin, meter: OtlpMeter) => Record;

/**
 * Reads the records of an Export…ServiceRequest: Resource… → Scope… → records. All signals use the same field numbers.
 * @throws OtlpFault
 */
function readRequest<Record>(body: Uint8Array, readRecord: ReadRecord<Record>): Record[] {
  const meter = new OtlpMeter();
  const records: Record[] = [];
  try {
    for (const group of childrenOf(body, 1, meter)) {
      const resource = readResource(group, meter);
      for (const scoped of childrenOf(group, 2, meter)) {
        const origin: Origin = { resource, scope: readScopeName(scoped, meter) };
        for (const record of childrenOf(scoped, 2, meter)) {
          meter.takeRecord();
          records.push(readRecord(record, origin, meter));
        }
      }
    }
  } catch (thrown) {
    if (thrown instanceof OtlpFault) throw thrown;
    throw new OtlpFault('The body is not the protobuf message that this address accepts');
  }
  return records;
}

/**
 * Yields the messages of a repeated field. Empty messages also count towards the bounds, because a body could have
 * millions of them.
 */
function* childrenOf(bytes: Uint8Array, wanted: number, meter: OtlpMeter): Generator<Uint8Array> {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === wanted) {
      meter.takeValue(0);
      yield takeBytes(reader, wire);
    } else pass(reader, wire, field);
  }
}

function readResource(group: Uint8Array, meter: OtlpMeter): Attributes {
  const attributes = new Map<string, AttributeValue>();
  for (const resource of childrenOf(group, 1, meter)) {
    for (const pair of childrenOf(resource, 1, meter)) attributes.set(...readKeyValue(pair, meter, 1));
  }
  return attributes;
}

function takeBytes(reader: BinaryReader, wire: WireType): Uint8Array {
  if (wire !== WireType.LengthDelimited) throw new OtlpFault('A protobuf field has the wrong type');
  return reader.bytes();
}

/** Skips a field. Groups are refused, because OTLP has none: protobuf had removed them before OTLP existed. */
function pass(reader: BinaryReader, wire: WireType, field: number): void {
  if (wire === WireType.StartGroup || wire === WireType.EndGroup)
    throw new OtlpFault('The body contains a protobuf group, which OTLP does not have');
  reader.skip(wire, field);
}

const utf8 = new TextDecoder();

function takeText(reader: BinaryReader, wire: WireType): string {
  return utf8.decode(takeBytes(reader, wire));
}

function takeId(reader: BinaryReader, wire: WireType): string {
  return Buffer.from(takeBytes(reader, wire)).toString('hex');
}

function takeTime(reader: BinaryReader, wire: WireType): number {
  if (wire !== WireType.Bit64) throw new OtlpFault('A time is not a fixed64');
  return Number(BigInt(reader.fixed64()) / 1_000n) / 1_000;
}

function takeVarint(reader: BinaryReader, wire: WireType): number | RawNumber {
  if (wire !== WireType.Varint) throw new OtlpFault('A protobuf field has the wrong type');
  return exactNumber(String(reader.int64()));
}

function readScopeName(scoped: Uint8Array, meter: OtlpMeter): string {
  for (const scope of childrenOf(scoped, 1, meter)) {
    for (const name of childrenOf(scope, 1, meter)) return utf8.decode(name);
  }
  return '';
}

function readSpan(bytes: Uint8Array, origin: Origin, meter: OtlpMeter): OtlpSpan {
  const attributes = new Map<string, AttributeValue>();
  const events: { name: string; attributes: Attributes }[] = [];
  const span = {
    origin,
    trace_id: '',
    span_id: '',
    parent_span_id: '',
    name: '',
    start_ms: 0,
    end_ms: 0,
    attributes,
    events,
    is_error: false,
    status_message: '',
  };
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    switch (field) {
      case 1:
        span.trace_id = takeId(reader, wire);
        break;
      case 2:
        span.span_id = takeId(reader, wire);
        break;
      case 4:
        span.parent_span_id = takeId(reader, wire);
        break;
      case 5:
        span.name = takeText(reader, wire);
        break;
      case 7:
        span.start_ms = takeTime(reader, wire);
        break;
      case 8:
        span.end_ms = takeTime(reader, wire);
        break;
      case 9:
        attributes.set(...readKeyValue(takeBytes(reader, wire), meter, 1));
        break;
      case 11:
        events.push(readEvent(takeBytes(reader, wire), meter));
        break;
      case 15: {
        const status = readStatus(takeBytes(reader, wire));
        span.is_error = status.code === STATUS_ERROR;
        span.status_message = status.message;
        break;
      }
      default:
        pass(reader, wire, field);
    }
  }
  return span;
}

function readEvent(bytes: Uint8Array, meter: OtlpMeter): { name: string; attributes: Attributes } {
  meter.takeValue(0);
  const attributes = new Map<string, AttributeValue>();
  let name = '';
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 2) name = takeText(reader, wire);
    else if (field === 3) attributes.set(...readKeyValue(takeBytes(reader, wire), meter, 1));
    else pass(reader, wire, field);
  }
  return { name, attributes };
}

function readStatus(bytes: Uint8Array): { message: string; code: number | RawNumber } {
  const status: { message: string; code: number | RawNumber } = { message: '', code: 0 };
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 2) status.message = takeText(reader, wire);
    else if (field === 3) status.code = takeVarint(reader, wire);
    else pass(reader, wire, field);
  }
  return status;
}

function readLog(bytes: Uint8Array, origin: Origin, meter: OtlpMeter): OtlpLog {
  const attributes = new Map<string, AttributeValue>();
  let time_ms = 0;
  let observed_ms = 0;
  let eventName = '';
  let body: AttributeValue = null;
  let trace_id = '';
  let span_id = '';
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    switch (field) {
      case 1:
        time_ms = takeTime(reader, wire);
        break;
      case 5:
        body = readValue(takeBytes(reader, wire), meter, 1);
        break;
      case 6:
        attributes.set(...readKeyValue(takeBytes(reader, wire), meter, 1));
        break;
      case 9:
        trace_id = takeId(reader, wire);
        break;
      case 10:
        span_id = takeId(reader, wire);
        break;
      case 11:
        observed_ms = takeTime(reader, wire);
        break;
      case 12:
        eventName = takeText(reader, wire);
        break;
      default:
        pass(reader, wire, field);
    }
  }
  const named = eventName === '' ? attributes.get('event.name') : eventName;
  return {
    origin,
    trace_id,
    span_id,
    at_ms: time_ms === 0 ? observed_ms : time_ms,
    event_name: typeof named === 'string' ? named : '',
    body,
    attributes,
  };
}

function readKeyValue(bytes: Uint8Array, meter: OtlpMeter, depth: number): [string, AttributeValue] {
  meter.takeValue(depth);
  let key = '';
  let value: AttributeValue = null;
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1) key = takeText(reader, wire);
    else if (field === 2) value = readValue(takeBytes(reader, wire), meter, depth);
    else pass(reader, wire, field);
  }
  return [key, value];
}

/**
 * Reads an AnyValue; null if it has no member. If it has several members, the last one is used, as in every oneof.
 * @throws OtlpFault
 */
function readValue(bytes: Uint8Array, meter: OtlpMeter, depth: number): AttributeValue {
  meter.takeValue(depth);
  let value: AttributeValue = null;
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    switch (field) {
      case 1:
        value = takeText(reader, wire);
        break;
      case 2:
        value = takeVarint(reader, wire) !== 0;
        break;
      case 3:
        value = takeVarint(reader, wire);
        break;
      case 4:
        if (wire !== WireType.Bit64) throw new OtlpFault('A double has the wrong length');
        value = reader.double();
        break;
      case 5:
        value = [...childrenOf(takeBytes(reader, wire), 1, meter)].map((child) =>
          readValue(child, meter, depth + 1),
        );
        break;
      case 6:
        value = Object.fromEntries(
          [...childrenOf(takeBytes(reader, wire), 1, meter)].map((child) =>
            readKeyValue(child, meter, depth + 1),
          ),
        );
        break;
      case 7:
        value = Buffer.from(takeBytes(reader, wire)).toString('base64');
        break;
      default:
        pass(reader, wire, field);
    }
  }
  return value;
}
