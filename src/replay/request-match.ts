/**
 * Finds the recorded exchange that a request repeats, and where a request differs from the expected request. Pure,
 * except that it reads the recorded run; command line.
 */

import { commonLength, findDifference } from '../captures/prompt-difference.ts';
import { readPrompt } from '../providers/prompt-parts.ts';
import {
  fitsMasked,
  keyOfText,
  normalizeBody,
  type RecordedExchange,
  type RecordedRun,
} from './recorded-run.ts';

/** A request that an agent sends. */
export interface AskedRequest {
  method: string;
  /** The path with its query. */
  path: string;
  headers: readonly string[];
  body: Uint8Array;
}

/** The recorded exchange that a request repeats. */
type Match =
  | { type: 'found'; exchange: RecordedExchange; is_again: boolean }
  /** The request differs from all recorded requests for this path. `exchange` is the next of these. */
  | { type: 'differs'; exchange: RecordedExchange; where: string }
  /** The path has no recorded exchange, or all of its exchanges were served. */
  | { type: 'unknown'; where: string };

/** Number of characters that are shown on both sides of a difference. */
const SHOWN_CHARS = 40;

/**
 * Serves each exchange once, in the run's order. If all exchanges that fit a request are served, the request gets the
 * answer of the last one again.
 */
export class RequestMatcher {
  readonly #run: RecordedRun;
  readonly #served = new Set<number>();

  constructor(run: RecordedRun) {
    this.#run = run;
  }

  /** Exchanges that were never requested. */
  get unserved(): RecordedExchange[] {
    return this.#run.exchanges.filter(({ id }) => !this.#served.has(id));
  }

  /** Number of the next turn to serve. After the last turn, it is one more than the number of turns. */
  get next_turn(): number {
    const next = this.#run.exchanges.find(({ id, turn }) => turn !== null && !this.#served.has(id));
    return next?.turn ?? this.#run.exchanges.filter(({ turn }) => turn !== null).length + 1;
  }

  find(request: AskedRequest): Match {
    const text = normalizeBody(request.body);
    const key = keyOfText(text);
    const here = this.#run.exchanges.filter(
      (exchange) => exchange.method === request.method && isSamePath(exchange.path, request.path),
    );
    const fits = (exchange: RecordedExchange): boolean =>
      exchange.request_key === key ||
      (exchange.has_masks && fitsMasked(this.#run.requestText(exchange), text));
    const fitting = here.filter(fits);
    const exchange = fitting.find(({ id }) => !this.#served.has(id)) ?? fitting.at(-1);
    if (exchange !== undefined) {
      const is_again = this.#served.has(exchange.id);
      this.#served.add(exchange.id);
      return { type: 'found', exchange, is_again };
    }
    const expected = here.find(({ id }) => !this.#served.has(id));
    if (expected === undefined) {
      const name = `${request.method} ${request.path}`;
      const where = here.length === 0 ? `the run has no ${name}` : `the run has no further ${name}`;
      return { type: 'unknown', where };
    }
    return { type: 'differs', exchange: expected, where: this.#describe(expected, request, text) };
  }

  /** Marks an exchange as served although the request differs. */
  take(exchange: RecordedExchange): void {
    this.#served.add(exchange.id);
  }

  #describe(expected: RecordedExchange, request: AskedRequest, text: string): string {
    const stored = this.#run.copy(expected);
    const before = stored === undefined ? null : readPrompt(stored);
    const after =
      stored === undefined
        ? null
        : readPrompt({
            ...stored,
            request_body: request.body,
            request_headers: request.headers,
            truncated: false,
          });
    const found = before === null || after === null ? null : findDifference(before.parts, after.parts);
    if (found !== null) {
      const { place, offset, before: was, after: is } = found.difference;
      return `${place} differs after ${offset} characters: ${quote(was)} was recorded, ${quote(is)} was requested`;
    }
    if (before !== null && after !== null && after.parts.length > before.parts.length)
      return `${after.parts[before.parts.length]!.name} was not recorded: the request has more parts`;
    const recorded = this.#run.requestText(expected);
    const at = commonLength(recorded, text);
    const from = Math.max(0, at - SHOWN_CHARS);
    return `the body differs: ${quote(recorded.slice(from, at + SHOWN_CHARS))} was recorded, ${quote(text.slice(from, at + SHOWN_CHARS))} was requested`;
  }
}

/** Whether two paths are the same, with or without the prefix of the gateway's route in the agent's base URL. */
function isSamePath(recorded: string, asked: string): boolean {
  return recorded === asked || endsWithPath(recorded, asked) || endsWithPath(asked, recorded);
}

function endsWithPath(longer: string, shorter: string): boolean {
  return shorter.startsWith('/') && shorter.length > 1 && longer.endsWith(shorter);
}

function quote(text: string): string {
  return text === '' ? 'nothing' : JSON.stringify(text);
}
