/**
 * Takes the frames of a decoded answer apart: one JSON value, server-sent events (WHATWG HTML, section 9.2), the AWS
 * event stream (`application/vnd.amazon.eventstream`, each message with two CRC-32 checksums) or Gemini's JSON array
 * of chunks. Pure; runs where stored copies are read, never on a server thread.
 */

import { EventStreamCodec } from '@smithy/core/event-streams';
import { createParser } from 'eventsource-parser';
import { asObject, asText, parseJson } from './json-reading.ts';

/** How an answer was framed. */
export type Framing = 'json' | 'events' | 'event_stream' | 'empty';

/** Where the frames go, in order. */
export interface FrameSink {
  readWhole(value: unknown): void;
  readEvent(name: string, value: unknown): void;
}

const utf8 = new TextDecoder();
const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === 'string' ? bytes : utf8.decode(bytes)),
  (text) => new TextEncoder().encode(text),
);

/** Smallest message: two lengths, the prelude's checksum and the message's. */
const MIN_EVENT_STREAM_MESSAGE = 16;

/** An AWS event-stream message is at most 24 MiB (its specification: 16 MiB of payload and headers of 128 KiB). */
const MAX_EVENT_STREAM_MESSAGE = 24 * 1024 * 1024;

/**
 * Feeds an answer's frames to the sink.
 * @param contentType the answer's; a wrong or absent one is made up for by looking at the first bytes
 * @returns '' or, in words, the first thing that could not be read; frames before it, and after it where the framing
 * allows, were given to the sink
 */
export function readFrames(bytes: Uint8Array, contentType: string, sink: FrameSink): string {
  switch (tellFraming(bytes, contentType)) {
    case 'empty':
      return '';
    case 'event_stream':
      return readEventStream(bytes, sink);
    case 'events':
      return readServerSentEvents(utf8.decode(bytes), sink);
    case 'json':
      return readJson(utf8.decode(bytes), sink);
  }
}

/** How the bytes are framed, by content type and, where it says nothing useful, by the first bytes. */
function tellFraming(bytes: Uint8Array, contentType: string): Framing {
  if (bytes.byteLength === 0) return 'empty';
  const type = contentType.toLowerCase();
  if (type.includes('application/vnd.amazon.eventstream')) return 'event_stream';
  let first = bytes[0] === 0xef ? 3 : 0;
  while (first < bytes.byteLength && isSpace(bytes[first]!)) first++;
  if (first >= bytes.byteLength) return 'empty';
  const byte = bytes[first];
  // `{` or `[`: no server-sent event begins so, and some providers answer errors in JSON under text/event-stream.
  if (byte === 0x7b || byte === 0x5b) return 'json';
  if (type.includes('text/event-stream')) return 'events';
  const head = utf8.decode(bytes.subarray(first, first + 8));
  if (/^(data|event|id|retry)?:/.test(head)) return 'events';
  if (byte === 0) return 'event_stream';
  return 'json';
}

function readJson(text: string, sink: FrameSink): string {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (error) {
    return `not JSON (${(error as Error).message.slice(0, 120)})`;
  }
  if (Array.isArray(value)) for (const item of value) sink.readEvent('', item);
  else sink.readWhole(value);
  return '';
}

function readServerSentEvents(text: string, sink: FrameSink): string {
  let problem = '';
  let count = 0;
  const parser = createParser({
    onEvent: (event) => {
      count += 1;
      if (event.data === '[DONE]' || event.data === '') return;
      let value: unknown;
      try {
        value = parseJson(event.data);
      } catch {
        if (problem === '') problem = `event ${count} is not JSON`;
        return;
      }
      sink.readEvent(event.event ?? '', value);
    },
  });
  parser.feed(text);
  // Some servers leave out the blank line after the last event; and an event cut off in its middle shows as bad JSON.
  parser.feed('\n\n');
  if (count === 0 && problem === '') problem = 'an event stream without one whole event';
  return problem;
}

function readEventStream(bytes: Uint8Array, sink: FrameSink): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  let count = 0;
  while (at < bytes.byteLength) {
    count += 1;
    const left = bytes.byteLength - at;
    if (left < 4) return `message ${count} of the event stream is cut off`;
    const length = view.getUint32(at, false);
    if (length < MIN_EVENT_STREAM_MESSAGE || length > MAX_EVENT_STREAM_MESSAGE) {
      return `message ${count} of the event stream has an impossible length (${length})`;
    }
    if (length > left) return `message ${count} of the event stream is cut off`;
    try {
      const message = codec.decode(bytes.subarray(at, at + length));
      const header = (name: string): string => asText(asObject(message.headers[name]).value) ?? '';
      const text = utf8.decode(message.body);
      const value: unknown = text === '' ? {} : parseJson(text);
      const kind = header(':message-type');
      if (kind === 'exception') sink.readEvent('exception', { type: header(':exception-type'), value });
      else if (kind === 'error') {
        sink.readEvent('exception', {
          type: header(':error-code'),
          value: { message: header(':error-message') },
        });
      } else sink.readEvent(header(':event-type'), value);
    } catch (error) {
      return `message ${count} of the event stream is damaged (${(error as Error).message.slice(0, 120)})`;
    }
    at += length;
  }
  return '';
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;
}
