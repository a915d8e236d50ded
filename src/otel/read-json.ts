/**
 * Reads the JSON form of an OTLP request. It differs from protobuf's JSON: ids are hexadecimal, enums are numbers, and
 * names are in lowerCamelCase only (OTLP 1.9.0, "JSON Protobuf Encoding"). Some senders write the status as a name,
 * which is accepted. Numbers keep their digits. Unknown fields are ignored. A field of the wrong type is refused with
 * an error that names the field. Pure; any thread.
 *
 * Bounds: OTLP_BOUNDS, and those of any JSON body (src/http/json-body.ts), which apply first.
 */
import { digitsOf, exactNumber, isRawNumber, roundedNumber } from '../std/exact-json.ts';
import {
  type Attributes,
  type AttributeValue,
  type Origin,
  OtlpFault,
  type OtlpLog,
  OtlpMeter,
  type OtlpSpan,
} from './records.ts';

const NONE: Attributes = new Map();
/** The values of `Status.code` for an error: the number, or the name. */
const STATUS_ERROR = /^(?:2|(?:STATUS_CODE_)?ERROR)$/i;

/** Reads a request for traces. @param body the result of `parseUnrounded` @throws OtlpFault */
export function readSpansJson(body: unknown): OtlpSpan[] {
  return readRequest(body, ['resourceSpans', 'scopeSpans', 'spans'], readSpan);
}

/** Reads a request for logs. @param body the result of `parseUnrounded` @throws OtlpFault */
export function readLogsJson(body: unknown): OtlpLog[] {
  return readRequest(body, ['resourceLogs', 'scopeLogs', 'logRecords'], readLog);
}

const POINTS_OF = ['gauge', 'sum', 'histogram', 'exponentialHistogram', 'summary'];

/** Counts the data points in a request for metrics, without examining them. @throws OtlpFault */
export function countPointsJson(body: unknown): number {
  let points = 0;
  readRequest(body, ['resourceMetrics', 'scopeMetrics', 'metrics'], (metric, _origin, meter, place) => {
    for (const kind of POINTS_OF) {
      const data = asFields(metric[kind] ?? {}, `${place}.${kind}`);
      for (const _point of listOf(data, 'dataPoints', `${place}.${kind}.`)) {
        meter.takeValue(0);
        points++;
      }
    }
  });
  return points;
}

type Fields = Readonly<Record<string, unknown>>;

function readRequest<Record>(
  body: unknown,
  [groups, scopes, records]: readonly [string, string, string],
  readRecord: (fields: Fields, origin: Origin, meter: OtlpMeter, place: string) => Record,
): Record[] {
  const meter = new OtlpMeter();
  const found: Record[] = [];
  for (const [group, at] of listOf(asFields(body, 'the body'), groups, '')) {
    const resource = readAttributes(asFields(group.resource ?? {}, `${at}.resource`), at, meter);
    for (const [scoped, within] of listOf(group, scopes, `${at}.`)) {
      const scope = asText(asFields(scoped.scope ?? {}, `${within}.scope`).name, `${within}.scope.name`);
      const origin: Origin = { resource, scope };
      for (const [record, place] of listOf(scoped, records, `${within}.`)) {
        meter.takeRecord();
        found.push(readRecord(record, origin, meter, place));
      }
    }
  }
  return found;
}

function refuse(place: string, expected: string): never {
  throw new OtlpFault(`${place} must be ${expected}`);
}

function asFields(value: unknown, place: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || isRawNumber(value))
    refuse(place, 'an object');
  return value as Fields;
}

/** Yields the objects of a list, each with its place. Protobuf's JSON allows null for an empty list. */
function* listOf(fields: Fields, name: string, before: string): Generator<[Fields, string]> {
  const list = fields[name] ?? [];
  if (!Array.isArray(list)) refuse(`${before}${name}`, 'a list');
  for (const [at, item] of list.entries()) {
    const place = `${before}${name}[${at}]`;
    yield [asFields(item, place), place];
  }
}

function asText(value: unknown, place: string): string {
  if (value === undefined || value === null) return '';
  if (typeof value !== 'string') refuse(place, 'a text');
  return value;
}

function asId(value: unknown, place: string): string {
  const text = asText(value, place);
  if (!/^(?:[\da-f]{2})*$/i.test(text)) refuse(place, 'hexadecimal');
  return text.toLowerCase();
}

/** Reads a 64-bit integer, which may be a number or a text; 0 when absent. */
function asInteger(value: unknown, place: string): bigint {
  if (value === undefined || value === null) return 0n;
  const digits = digitsOf(value);
  if (digits !== null && /^-?\d{1,20}$/.test(digits)) return BigInt(digits);
  const rounded = roundedNumber(value);
  if (Number.isInteger(rounded)) return BigInt(rounded!);
  if (typeof value === 'string' && /^-?\d{1,20}$/.test(value)) return BigInt(value);
  return refuse(place, 'a whole number');
}

/** Converts nanoseconds to milliseconds. */
function asTime(value: unknown, place: string): number {
  return Number(asInteger(value, place) / 1_000n) / 1_000;
}

function readSpan(fields: Fields, origin: Origin, meter: OtlpMeter, place: string): OtlpSpan {
  const events = [...listOf(fields, 'events', `${place}.`)].map(([event, at]) => {
    meter.takeValue(0);
    return { name: asText(event.name, `${at}.name`), attributes: readAttributes(event, at, meter) };
  });
  const status = asFields(fields.status ?? {}, `${place}.status`);
  return {
    origin,
    trace_id: asId(fields.traceId, `${place}.traceId`),
    span_id: asId(fields.spanId, `${place}.spanId`),
    parent_span_id: asId(fields.parentSpanId, `${place}.parentSpanId`),
    name: asText(fields.name, `${place}.name`),
    start_ms: asTime(fields.startTimeUnixNano, `${place}.startTimeUnixNano`),
    end_ms: asTime(fields.endTimeUnixNano, `${place}.endTimeUnixNano`),
    attributes: readAttributes(fields, place, meter),
    events,
    is_error: STATUS_ERROR.test(String(status.code ?? '')),
    status_message: asText(status.message, `${place}.status.message`),
  };
}

function readLog(fields: Fields, origin: Origin, meter: OtlpMeter, place: string): OtlpLog {
  const attributes = readAttributes(fields, place, meter);
  const time_ms = asTime(fields.timeUnixNano, `${place}.timeUnixNano`);
  const observed_ms = asTime(fields.observedTimeUnixNano, `${place}.observedTimeUnixNano`);
  const named = asText(fields.eventName, `${place}.eventName`) || attributes.get('event.name');
  return {
    origin,
    trace_id: asId(fields.traceId, `${place}.traceId`),
    span_id: asId(fields.spanId, `${place}.spanId`),
    at_ms: time_ms === 0 ? observed_ms : time_ms,
    event_name: typeof named === 'string' ? named : '',
    body: readValue(fields.body, `${place}.body`, meter, 1),
    attributes,
  };
}

function readAttributes(fields: Fields, place: string, meter: OtlpMeter): Attributes {
  const list = fields.attributes;
  if (list === undefined || list === null || (Array.isArray(list) && list.length === 0)) return NONE;
  return new Map(readPairs(fields, 'attributes', `${place}.`, meter, 1));
}

function* readPairs(
  fields: Fields,
  name: string,
  before: string,
  meter: OtlpMeter,
  depth: number,
): Generator<[string, AttributeValue]> {
  for (const [pair, at] of listOf(fields, name, before)) {
    meter.takeValue(depth);
    yield [asText(pair.key, `${at}.key`), readValue(pair.value, `${at}.value`, meter, depth)];
  }
}

/** Reads an AnyValue; null for an empty value. */
function readValue(value: unknown, place: string, meter: OtlpMeter, depth: number): AttributeValue {
  meter.takeValue(depth);
  if (value === undefined || value === null) return null;
  const fields = asFields(value, place);
  const { stringValue, boolValue, intValue, doubleValue, arrayValue, kvlistValue, bytesValue } = fields;
  if (present(stringValue)) return asText(stringValue, `${place}.stringValue`);
  if (present(boolValue))
    return typeof boolValue === 'boolean' ? boolValue : refuse(`${place}.boolValue`, 'true or false');
  if (present(intValue)) {
    return exactNumber(String(asInteger(intValue, `${place}.intValue`)));
  }
  if (present(doubleValue)) {
    if (typeof doubleValue === 'number' || isRawNumber(doubleValue)) return doubleValue;
    return typeof doubleValue === 'string' ? Number(doubleValue) : refuse(`${place}.doubleValue`, 'a number');
  }
  if (present(arrayValue)) {
    const list = asFields(arrayValue, `${place}.arrayValue`).values ?? [];
    if (!Array.isArray(list)) return refuse(`${place}.arrayValue.values`, 'a list');
    return list.map((item, at) => readValue(item, `${place}.arrayValue.values[${at}]`, meter, depth + 1));
  }
  if (present(kvlistValue)) {
    const pairs = asFields(kvlistValue, `${place}.kvlistValue`);
    return Object.fromEntries(readPairs(pairs, 'values', `${place}.kvlistValue.`, meter, depth + 1));
  }
  return present(bytesValue) ? asText(bytesValue, `${place}.bytesValue`) : null;
}

function present(value: unknown): boolean {
  return value !== undefined && value !== null;
}
