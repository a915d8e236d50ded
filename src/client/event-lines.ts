/**
 * Server-sent events out of the bytes of an answer, however these are cut (html.spec.whatwg.org, 9.2). Only `\n` and `\r\n` end a
 * line: the service writes no other end. Memory is one event. Pure; any thread.
 */
import { StringDecoder } from 'node:string_decoder';
import { UnexpectedAnswerError } from './errors.ts';

/** Longest event, in UTF-16 units; the service's have some hundreds. */
export const EVENT_UNITS_MAX = 1_048_576;

/** One event as the wire has it. */
export interface RawEvent {
  /** What to resume from, with this event or an earlier one; '' before the first. */
  id: string;
  name: string;
  data: string;
}

export class EventLines {
  /** What to resume from: what the last whole event named, or one before it; '' while nothing was named. */
  lastId: string;
  /** How long the service wants its readers to stay away before they come again; null: it did not say. */
  retryMs: number | null = null;
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';
  #id: string;
  #name = '';
  #data: string | null = null;

  /** @param lastId of an earlier connection */
  constructor(lastId = '') {
    this.lastId = lastId;
    this.#id = lastId;
  }

  /**
   * @returns the events that are whole now
   * @throws UnexpectedAnswerError for an event without end
   */
  *read(bytes: Buffer): Generator<RawEvent> {
    const lines = (this.#rest + this.#decoder.write(bytes)).split('\n');
    this.#rest = lines.pop()!;
    for (const line of lines) {
      const event = this.#take(line.endsWith('\r') ? line.slice(0, -1) : line);
      if (event !== null) yield event;
    }
    if (this.#rest.length + (this.#data?.length ?? 0) > EVENT_UNITS_MAX) {
      throw new UnexpectedAnswerError(`An event of the stream is longer than ${EVENT_UNITS_MAX} characters`);
    }
  }

  /** @returns the event that an empty line ends; null: there is none */
  #take(line: string): RawEvent | null {
    if (line === '') {
      // Not before: an event that breaks off is sent again.
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
