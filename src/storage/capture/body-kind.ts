/** What a body is, as far as that decides how it is searched: text in one piece, events, frames or a file. Any thread. */
import { ATTACHMENT_BYTES_MIN } from '../../limits.ts';
import { isBinary } from './attachments.ts';

const EVENT_STREAM_FRAMES = /application\/vnd\.amazon\.eventstream/i;
const SERVER_SENT_EVENTS = /text\/event-stream/i;
const OPENING_BRACE = 0x7b;
/** How a stream of events begins, whatever its type says. */
const EVENT_BEGINNINGS = ['data:', 'event:', 'id:', 'retry:', ':'].map((field) => Buffer.from(field));

/** The last media type that is neither of frames nor of events nor of files, whatever the body's size: nearly all are of the same. */
let textType: string | null = null;

/** Whether the body is text, in one piece. */
export function isOfText(raw: Buffer, contentType: string | null): boolean {
  if (contentType === textType && !beginsAsEvents(raw)) return true;
  if (isSearchedInParts(raw, contentType) || isBinary(raw, contentType)) return false;
  // Short ones are not judged by their type.
  const isJudged = raw.length >= ATTACHMENT_BYTES_MIN;
  if (isJudged && (contentType === null || !EVENT_STREAM_FRAMES.test(contentType))) textType = contentType;
  return true;
}

/** Whether secrets in this body may come in pieces. */
export function isSearchedInParts(raw: Buffer, contentType: string | null): boolean {
  return (contentType !== null && SERVER_SENT_EVENTS.test(contentType)) || beginsAsEvents(raw);
}

function beginsAsEvents(raw: Buffer): boolean {
  // JSON is nearly all there is.
  if (raw.length === 0 || raw[0] === OPENING_BRACE) return false;
  return EVENT_BEGINNINGS.some((field) => field.equals(raw.subarray(0, field.length)));
}

/** Whether a body of that type is binary frames with checksums. */
export function isOfFrames(contentType: string | null): boolean {
  return contentType !== null && contentType !== textType && EVENT_STREAM_FRAMES.test(contentType);
}
