/**
 * A wire is an API format in which a client sends a step and receives the answer. The student's core knows no wire:
 * each wire reads a request into the normal form with its extras, and writes the student's answer. Types, and what
 * several wires share; teaching and the student's thread.
 */

import { randomBytes } from 'node:crypto';
import type { NormalRequest } from '../../domain/turn.ts';
import type { JsonObject } from '../../providers/json-reading.ts';
import type { NormalReading } from '../../providers/normal-reading.ts';
import type { CallForms, StudentAnswer } from '../model/decision.ts';
import type { ApiVersion, RelegationWire } from './protocol.ts';

/** The headers of a step that matter to its wire. */
export interface WireHead {
  /** Values of the wire's beta header as received. */
  betas: readonly string[];
  /** Version of the Messages API; other wires ignore it. */
  api_version: ApiVersion;
  /** The address at which the request arrived, as `nameOrigin` names it. */
  origin: string;
}

/** An answer on the wire, and the ids that were assigned. */
export interface WireAnswer {
  body: Uint8Array<ArrayBuffer>;
  request_id: string;
  /** Ids of its tool calls, in order. */
  call_ids: string[];
}

export interface Wire {
  readonly name: RelegationWire;
  /**
   * The JSON key, in quotes, under which a later request contains the ids of an answer's calls.
   */
  readonly result_id_key: string;
  readRequest(body: JsonObject, reading: NormalReading): NormalRequest;
  /**
   * Names of the API rules that the request breaks, sorted. Golden requests show which of them the upstream tolerates.
   */
  findBreaches(body: JsonObject, head: WireHead): string[];
  /** Top-level fields that the normal form does not model; they distinguish agents. */
  readSettings(body: JsonObject): Record<string, unknown>;
  /** Why no student may answer the request, in words; '': a student may. */
  findUnsupported(body: JsonObject): string;
  /** Whether the request asks for a whole answer: the last message is not the model's. */
  endsWithUser(body: JsonObject): boolean;
  /** Words at which the API ends an answer. */
  stopWords(body: JsonObject): string[];
  /** The tools that an answer of this wire can call. */
  callable(body: JsonObject): CallForms;
  writeAnswer(answer: StudentAnswer, body: JsonObject): WireAnswer;
}

/**
 * Maximum characters per delta. The APIs send shorter deltas; a client's line buffer may not accept much longer ones.
 */
const DELTA_CHARACTERS = 4_096;
const ALPHABET = '0123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** Draws a random id like those of the APIs, with 5.8 bits per character. */
export function drawId(prefix: string, characters: number): string {
  let id = prefix;
  for (const byte of randomBytes(characters)) id += ALPHABET[byte % ALPHABET.length];
  return id;
}

/** Cuts a text into pieces of at most DELTA_CHARACTERS; no piece ends within a surrogate pair. '': no pieces. */
export function cutText(text: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + DELTA_CHARACTERS, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last <= 0xdbff) end--;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

/** Collects the fields of a request, except those in `leftOut`, those that are null, and `__proto__`. */
export function otherFields(body: JsonObject, leftOut: ReadonlySet<string>): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const key of Object.keys(body)) {
    const value = body[key];
    if (value !== undefined && value !== null && key !== '__proto__' && !leftOut.has(key))
      fields[key] = value;
  }
  return fields;
}

/** Collects the names of broken rules. `list` returns the first BREACHES_MAX of them, sorted. */
export class Breaches {
  readonly #names = new Set<string>();

  expect(name: string, isRight: boolean): void {
    if (!isRight) this.#names.add(name);
  }

  list(): string[] {
    return [...this.#names].sort().slice(0, BREACHES_MAX);
  }
}

const BREACHES_MAX = 20;
