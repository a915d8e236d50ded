/**
 * Decides how a body is searched, by its kind: text, event stream, binary frames or file. Any thread.
 */
import { ATTACHMENT_BYTES_MIN } from '../../limits.ts';
import { isBinary } from './attachments.ts';

const EVENT_STREAM_FRAMES = /application\/vnd\.amazon\.eventstream/i;
const SERVER_SENT_EVENTS = /text\/event-stream/i;
const OPENING_BRACE = 0x7b;
/** How an event stream begins, whatever its media type says. */
const EVENT_BEGINNINGS = ['data:', 'event:', 'id:', 'retry:', ':'].map((field) => Buffer.from(field));

/** Cache: the last media type that is neither frames nor events nor files. Nearly all bodies have the same type. */
let textType: string | null = null;

/** Whether the body is neither an event stream nor a file. Binary frames (`isOfFrames`) count as text here. */
export function isOfText(raw: Buffer, contentType: string | null): boolean {
  if (contentType === textType && !beginsAsEvents(raw)) return true;
  if (isSearchedInParts(raw, contentType) || isBinary(raw, contentType)) return false;
  // Short bodies are never files, so their types are not cached.
  const isJudged = raw.length >= ATTACHMENT_BYTES_MIN;
  if (isJudged && (contentType === null || !EVENT_STREAM_FRAMES.test(contentType))) textType = contentType;
  return true;
}

/** Whether secrets in this body may be split into parts. */
export function isSearchedInParts(raw: Buffer, contentType: string | null): boolean {
  return (contentType !== null && SERVER_SENT_EVENTS.test(contentType)) || beginsAsEvents(raw);
}

function beginsAsEvents(raw: Buffer): boolean {
  // Nearly all bodies are JSON.
  if (raw.length === 0 || raw[0] === OPENING_BRACE) return false;
  return EVENT_BEGINNINGS.some((field) => field.equals(raw.subarray(0, field.length)));
}

/** Whether the media type is that of binary frames with checksums. */
export function isOfFrames(contentType: string | null): boolean {
  return contentType !== null && contentType !== textType && EVENT_STREAM_FRAMES.test(contentType);
}
