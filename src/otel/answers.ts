/** OTLP answers: a partial success, or a status with the error, in the encoding of the request. Pure; any thread. */
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

export type OtlpEncoding = 'protobuf' | 'json';

/** The name of the field with the number of rejected items, by signal. In protobuf, all signals use field 1. */
const REJECTED: Readonly<Record<string, string>> = {
  traces: 'rejectedSpans',
  logs: 'rejectedLogRecords',
  metrics: 'rejectedDataPoints',
};

/**
 * Writes an Export…ServiceResponse, which is empty if everything was accepted.
 * @param path the path of the request, which determines the field's name
 */
export function writePartialSuccess(
  encoding: OtlpEncoding,
  path: string,
  { count, reason }: { count: number; reason: string },
): Uint8Array {
  if (encoding === 'json') {
    const rejected = REJECTED[/\/(\w+)\/?$/.exec(path)?.[1] ?? ''] ?? 'rejectedLogRecords';
    const answer = count === 0 ? {} : { partialSuccess: { [rejected]: String(count), errorMessage: reason } };
    return Buffer.from(JSON.stringify(answer));
  }
  if (count === 0) return new Uint8Array();
  const writer = new BinaryWriter();
  writer.tag(1, WireType.LengthDelimited).fork();
  writer.tag(1, WireType.Varint).int64(count);
  writer.tag(2, WireType.LengthDelimited).string(reason);
  return writer.join().finish();
}

/**
 * Reads `partial_success.rejected_spans` of an answer in protobuf; 0 when absent.
 * @throws Error if the bytes are not valid protobuf
 */
export function readRejectedSpans(answer: Uint8Array): number {
  let rejected = 0;
  const outer = new BinaryReader(answer);
  while (outer.pos < outer.len) {
    const [field, wire] = outer.tag();
    if (field !== 1 || wire !== WireType.LengthDelimited) {
      outer.skip(wire, field);
      continue;
    }
    const inner = new BinaryReader(outer.bytes());
    while (inner.pos < inner.len) {
      const [part, form] = inner.tag();
      if (part === 1 && form === WireType.Varint) rejected = Number(inner.int64());
      else inner.skip(form, part);
    }
  }
  return rejected;
}

/** Writes a google.rpc.Status without its code, which OTLP does not use. */
export function writeStatus(encoding: OtlpEncoding, message: string): Uint8Array {
  if (encoding === 'json') return Buffer.from(JSON.stringify({ message }));
  return new BinaryWriter().tag(2, WireType.LengthDelimited).string(message).finish();
}
