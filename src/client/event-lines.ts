/**
 * Parses server-sent events from an answer's bytes, however they are split (html.spec.whatwg.org,
 * 9.2). Only one event is in memory at a time. Pure; any thread.
 */
import { UnexpectedAnswerError } from './errors.ts';

/** Longest event, in UTF-16 units; the service's events have a few hundred. */
export const EVENT_UNITS_MAX = 1_048_576;

/** One event as received. */
interface RawEvent {
  /**
   * The id after which a new connection resumes: that of this event, or of an earlier event if this one has no id; ''
   * before the first id.
   */
  id: string;
  name: string;
  data: string;
}

export class EventLines {
  /** The id after which a new connection resumes: the last id in a complete event; '' before the first id. */
  lastId: string;
  /**
   * How many milliseconds readers should wait before they reconnect; null if the service has not sent a time.
   */
  retryMs: number | null = null;
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #maxUnits: number;
  /** True until the first text was read, which may begin with a byte order mark. */
  #isFirst = true;
  /** Whether the last chunk ended with `\r`. The next chunk may then begin with the matching `\n`. */
  #endedInReturn = false;
  #rest = '';
  #id: string;
  #name = '';
  #data: string | null = null;

  /**
   * @param lastId the last id of an earlier connection
   * @param maxUnits longest event, in UTF-16 units
   */
  constructor(lastId = '', maxUnits = EVENT_UNITS_MAX) {
    this.#maxUnits = maxUnits;
    this.lastId = lastId;
    this.#id = lastId;
  }

  /**
   * Reads bytes and yields the events that they complete.
   * @throws UnexpectedAnswerError for an event over the limit
   */
  *read(bytes: Uint8Array): Generator<RawEvent> {
    const lines = (this.#rest + this.#decode(bytes)).split(/\r\n|\n|\r/);
    this.#rest = lines.pop()!;
    for (const line of lines) {
      const event = this.#take(line);
      if (event !== null) yield event;
    }
    if (this.#rest.length + (this.#data?.length ?? 0) > this.#maxUnits) {
      throw new UnexpectedAnswerError(`An event of the stream is longer than ${this.#maxUnits} characters`);
    }
  }

  /**
   * Decodes the complete characters of the bytes. Removes a byte order mark, and a `\n` that belongs to the
   * `\r` at the end of the last chunk.
   */
  #decode(bytes: Uint8Array): string {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (text === '') return text;
    if (this.#isFirst && text.startsWith('\ufeff')) text = text.slice(1);
    this.#isFirst = false;
    if (this.#endedInReturn && text.startsWith('\n')) text = text.slice(1);
    this.#endedInReturn = text.endsWith('\r');
    return text;
  }

  /**
   * Reads a line.
   * @returns the event that an empty line completes; null if the line is not empty, or if no data came before it
   */
  #take(line: string): RawEvent | null {
    if (line === '') {
      // Update the id only after a complete event, because an incomplete event is sent again.
      this.lastId = this.#id;
      const event = this.#data === null ? null : { id: this.lastId, name: this.#name, data: this.#data };
      this.#name = '';
      this.#data = null;
      return event;
    }
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
    else if (field === 'event') this.#name = value;
    else if (field === 'id' && !value.includes('\0')) this.#id = value;
    else if (field === 'retry' && /^[0-9]{1,9}$/.test(value)) this.retryMs = Number(value);
    return null;
  }
}
