/**
 * Splits a decoded answer into its frames: one JSON value, server-sent events (WHATWG HTML, section 9.2), the AWS event
 * stream (`application/vnd.amazon.eventstream`, each message with two CRC-32 checksums) or Gemini's JSON array of
 * chunks. Pure; runs where stored copies are read, never on a server thread.
 */

import { EventStreamCodec } from '@smithy/core/event-streams';
import { createParser } from 'eventsource-parser';
import { asObject, asText, parseJson } from './json-reading.ts';

/** The framing of an answer. */
type Framing = 'json' | 'events' | 'event_stream' | 'empty';

/** The result of reading. */
interface FramesRead {
  /** The first unreadable part in words; '' if all was readable. */
  problem: string;
  /** Whether a JSON array of chunks is truncated. */
  is_cut_off: boolean;
}

/** Receives the frames, in order. */
export interface FrameSink {
  readWhole(value: unknown): void;
  readEvent(name: string, value: unknown): void;
  /**
   * Whether an event may be parsed faster because the digits of its numbers do not matter, as in most events. If
   * left out, digits always matter.
   */
  isPlain?(text: string): boolean;
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
 * Feeds an answer's frames to the sink: those before an unreadable part, and those after it if the framing allows.
 * @param contentType the answer's; if it is wrong or absent, the first bytes decide
 * @param isPlain whether the digits of the answer's numbers do not matter
 */
export function readFrames(
  bytes: Uint8Array,
  contentType: string,
  sink: FrameSink,
  isPlain = false,
): FramesRead {
  switch (tellFraming(bytes, contentType)) {
    case 'empty':
      return { problem: '', is_cut_off: false };
    case 'event_stream':
      return { problem: readEventStream(bytes, sink, isPlain), is_cut_off: false };
    case 'events':
      return { problem: readServerSentEvents(utf8.decode(bytes), sink, isPlain), is_cut_off: false };
    case 'json':
      return readJson(utf8.decode(bytes), sink, isPlain);
  }
}

/**
 * Determines the framing by the content type or, if that is not informative, by the first bytes. A body that begins
 * like JSON is read as JSON, unless the content type is Amazon's event stream.
 */
function tellFraming(bytes: Uint8Array, contentType: string): Framing {
  if (bytes.byteLength === 0) return 'empty';
  const type = contentType.toLowerCase();
  if (type.includes('application/vnd.amazon.eventstream')) return 'event_stream';
  let first = bytes[0] === 0xef ? 3 : 0;
  while (first < bytes.byteLength && isSpace(bytes[first]!)) first++;
  if (first >= bytes.byteLength) return 'empty';
  const byte = bytes[first];
  // `{` or `[`: no server-sent event begins like this, and some providers answer errors in JSON under
  // text/event-stream.
  if (byte === 0x7b || byte === 0x5b) return 'json';
  if (type.includes('text/event-stream')) return 'events';
  const head = utf8.decode(bytes.subarray(first, first + 8));
  if (/^(data|event|id|retry)?:/.test(head)) return 'events';
  if (byte === 0) return 'event_stream';
  return 'json';
}

function readJson(text: string, sink: FrameSink, isPlain: boolean): FramesRead {
  let value: unknown;
  try {
    value = parseJson(text, isPlain);
  } catch (error) {
    if (text.trimStart().startsWith('[')) {
      const chunks = readCutArray(text);
      if (chunks !== null) {
        for (const item of chunks) sink.readEvent('', item);
        return { problem: '', is_cut_off: true };
      }
    }
    return { problem: `not JSON (${(error as Error).message.slice(0, 120)})`, is_cut_off: false };
  }
  if (Array.isArray(value)) for (const item of value) sink.readEvent('', item);
  else sink.readWhole(value);
  return { problem: '', is_cut_off: false };
}

/**
 * Reads the complete objects of a truncated JSON array, as in an interrupted stream of chunks.
 * @returns null for text that does not begin an array of objects, and for an object that is not JSON
 */
function readCutArray(text: string): unknown[] | null {
  const chunks: unknown[] = [];
  let at = text.indexOf('[') + 1;
  for (;;) {
    while (at < text.length && /[\s,]/.test(text[at]!)) at += 1;
    if (at >= text.length) return chunks;
    if (text[at] !== '{') return null;
    const end = endOfObject(text, at);
    if (end < 0) return chunks;
    try {
      chunks.push(parseJson(text.slice(at, end)));
    } catch {
      return null;
    }
    at = end;
  }
}

/** Finds the end of the object that begins at `from`; -1 when the text ends before the object does. */
function endOfObject(text: string, from: number): number {
  const marks = /["{}]/g;
  let depth = 0;
  marks.lastIndex = from;
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    if (mark[0] === '"') {
      const end = endOfString(text, mark.index);
      if (end < 0) return -1;
      marks.lastIndex = end;
    } else {
      depth += mark[0] === '{' ? 1 : -1;
      if (depth === 0) return mark.index + 1;
    }
  }
  return -1;
}

function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf('"', from + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let escapes = 0;
    while (text[quote - 1 - escapes] === '\\') escapes += 1;
    if (escapes % 2 === 0) return quote + 1;
  }
  return -1;
}

function readServerSentEvents(text: string, sink: FrameSink, isPlain: boolean): string {
  let problem = '';
  let count = 0;
  const parser = createParser({
    onEvent: (event) => {
      count += 1;
      if (event.data === '[DONE]' || event.data === '') return;
      let value: unknown;
      try {
        value = parseJson(event.data, isPlain || sink.isPlain?.(event.data) === true);
      } catch {
        if (problem === '') problem = `event ${count} is not JSON`;
        return;
      }
      sink.readEvent(event.event ?? '', value);
    },
  });
  parser.feed(text);
  // Some servers leave out the blank line after the last event; a truncated event shows as bad JSON.
  parser.feed('\n\n');
  if (count === 0 && problem === '') problem = 'an event stream without one whole event';
  return problem;
}

function readEventStream(bytes: Uint8Array, sink: FrameSink, isPlain: boolean): string {
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
      const value: unknown = text === '' ? {} : parseJson(text, isPlain);
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
