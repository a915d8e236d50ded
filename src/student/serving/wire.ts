/**
 * A wire: one of the formats in which a client asks for a step and is answered. The student's inner step knows none of
 * them: a wire reads a request into the normal form and what stands beside that, and writes the student's answer. Types,
 * and what several wires share; analysis and the student's thread.
 */

import { randomBytes } from 'node:crypto';
import type { NormalRequest } from '../../domain/turn.ts';
import type { JsonObject } from '../../providers/json-reading.ts';
import type { NormalReading } from '../../providers/normal-reading.ts';
import type { StudentAnswer } from '../model/decision.ts';
import type { ApiVersion, RelegationWire } from './protocol.ts';

/** What the headers of a step say to its wire. */
export interface WireHead {
  /** Values of the wire's beta header as they came. */
  betas: readonly string[];
  /** Of the Messages API; other wires do not look at it. */
  api_version: ApiVersion;
  /** Where it came in, as `nameOrigin` names it. */
  origin: string;
}

/** An answer on the wire, and the ids that it gave. */
export interface WireAnswer {
  body: Uint8Array<ArrayBuffer>;
  request_id: string;
  /** Of its tool calls, in order. */
  call_ids: string[];
}

export interface Wire {
  readonly name: RelegationWire;
  /** Under it a request that the student answers may hold its calls' ids; each in quotes. */
  readonly result_id_key: string;
  readRequest(body: JsonObject, reading: NormalReading): NormalRequest;
  /** Rules of the API that the request breaks, by name, sorted: golden requests teach which of them do not matter. */
  findBreaches(body: JsonObject, head: WireHead): string[];
  /** Top-level fields that the normal form has no word for: they tell agents apart. */
  readSettings(body: JsonObject): Record<string, unknown>;
  /** In words, why no student may answer such a request; '' when one may. */
  findUnsupported(body: JsonObject): string;
  /** Whether a whole answer of the model's own is asked for: the last word is not the model's. */
  endsWithUser(body: JsonObject): boolean;
  /** Words at which the API ends an answer. */
  stopWords(body: JsonObject): string[];
  /** Names of tools that an answer of this wire can call; null: all that the normal form calls functions. */
  callable(body: JsonObject): ReadonlySet<string> | null;
  writeAnswer(answer: StudentAnswer, body: JsonObject): WireAnswer;
}

/** Characters of one delta; the APIs' are shorter, a client's line buffer may not take much longer ones. */
const DELTA_CHARACTERS = 4_096;
const ALPHABET = '0123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** An id as APIs draw them: 5.8 bits a character. */
export function drawId(prefix: string, characters: number): string {
  let id = prefix;
  for (const byte of randomBytes(characters)) id += ALPHABET[byte % ALPHABET.length];
  return id;
}

/** Pieces of a text, none of which ends within a surrogate pair. */
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

/** Fields of a request but some, those that are null left out. */
export function otherFields(body: JsonObject, leftOut: ReadonlySet<string>): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const key of Object.keys(body)) {
    const value = body[key];
    if (value !== undefined && value !== null && key !== '__proto__' && !leftOut.has(key))
      fields[key] = value;
  }
  return fields;
}

/** Collects the names of broken rules. */
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
