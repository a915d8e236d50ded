/**
 * Assembles the tool calls of a chat-completions stream from the pieces in its deltas. A piece belongs to the call with
 * its `index`. Some servers leave the index out, send null, or send the same index for several calls. With such
 * servers, a new call is recognised by another id with a name, or by a name after complete arguments. Pure; runs where
 * stored copies are read.
 *
 * Forms seen beside OpenAI's: one index for all calls (Gemini's and Ollama's compatible endpoints), no index (Mistral),
 * the name repeated with each piece (older vLLM, Qwen), arguments as an object (Ollama, llama.cpp).
 */

import type { TurnBlock } from '../../domain/turn.ts';
import { asArray, asIndex, asObject, asText, type JsonObject, parseLenient } from '../json-reading.ts';
import { callBlock, type NormalReading } from '../normal-reading.ts';

/** Follows JSON that arrives in pieces, to notice the end of its first value. */
class JsonProgress {
  #depth = 0;
  #isString = false;
  #isEscaped = false;
  #hasBegun = false;

  /** Whether an object or array has begun and ended. */
  get isWhole(): boolean {
    return this.#hasBegun && this.#depth === 0;
  }

  add(text: string): void {
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (this.#isString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (code === 0x5c) this.#isEscaped = true;
        else if (code === 0x22) this.#isString = false;
      } else if (code === 0x22) this.#isString = true;
      else if (code === 0x7b || code === 0x5b) {
        this.#depth += 1;
        this.#hasBegun = true;
      } else if (code === 0x7d || code === 0x5d) this.#depth -= 1;
    }
  }
}

interface OpenCall {
  id: string | null;
  name: string;
  text: string;
  progress: JsonProgress;
  /** Arguments that came as a value. */
  value: unknown;
}

/** A parsed piece. */
interface Piece {
  index: number | null;
  id: string | null;
  name: string | null;
  text: string;
  /** Arguments as a value; undefined when they are text or missing. */
  value: unknown;
}

export class StreamedCalls {
  readonly #reading: NormalReading;
  readonly #calls: OpenCall[] = [];
  readonly #byIndex = new Map<number, OpenCall>();

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  /** Adds the calls of one delta. */
  add(delta: JsonObject): void {
    const { tool_calls: calls, function_call: call } = delta;
    const pieces = Array.isArray(calls) ? this.#reading.take(calls) : asArray(calls ? [calls] : null);
    for (const piece of pieces) this.#addPiece(readPiece(asObject(piece)));
    // `function_call`, the older form, has one call.
    if (typeof call === 'object' && call !== null) this.#addPiece(readPiece({ index: 0, function: call }));
  }

  finish(): TurnBlock[] {
    return this.#calls.map(({ id, name, text, value }) => {
      const input = text.trim() === '' && value !== undefined ? value : parseLenient(text);
      return callBlock(id, name, input);
    });
  }

  #addPiece(piece: Piece): void {
    let call = this.#find(piece);
    if (call !== null && isResent(call, piece)) return;
    if (call === null || beginsAnother(call, piece)) {
      if (!this.#reading.takeOne()) return;
      call = { id: null, name: '', text: '', progress: new JsonProgress(), value: undefined };
      this.#calls.push(call);
    }
    if (piece.index !== null) this.#byIndex.set(piece.index, call);
    call.id ??= piece.id;
    addName(call, piece.name);
    call.text += piece.text;
    call.progress.add(piece.text);
    if (piece.value !== undefined) call.value = piece.value;
  }

  /** Finds the call that a piece may belong to; null: the piece begins a call. */
  #find({ index, id, name }: Piece): OpenCall | null {
    const known = index === null ? undefined : this.#byIndex.get(index);
    if (known !== undefined) return known;
    if (id !== null) return this.#calls.findLast((call) => call.id === id) ?? null;
    if (index !== null && name !== null) return null;
    return this.#calls.at(-1) ?? null;
  }
}

function readPiece(piece: JsonObject): Piece {
  const body = asObject(piece.function ?? piece.custom);
  const given = body.arguments ?? body.input;
  const isValue = typeof given === 'object' && given !== null;
  return {
    index: asIndex(piece.index),
    id: asText(piece.id),
    name: asText(body.name),
    text: asText(given) ?? '',
    value: isValue ? given : undefined,
  };
}

function hasWholeArguments({ progress, value }: OpenCall): boolean {
  return progress.isWhole || value !== undefined;
}

/** Whether the piece repeats a whole call, as some servers do at the end of a stream. */
function isResent(call: OpenCall, { id, name, text, value }: Piece): boolean {
  if (id === null || id !== call.id || name !== call.name || !hasWholeArguments(call)) return false;
  return value === undefined ? text === call.text : JSON.stringify(value) === JSON.stringify(call.value);
}

function beginsAnother(call: OpenCall, { id, name, text, value }: Piece): boolean {
  if (name === null) return false;
  const isWhole = hasWholeArguments(call);
  if (id !== null && call.id !== null && id !== call.id) {
    // Some servers make a new id for each piece of a call.
    const goesOn = name === call.name && call.text !== '' && !isWhole && !text.startsWith('{');
    return !goesOn;
  }
  return isWhole && (text !== '' || value !== undefined);
}

/** Adds to a call's name. The name arrives whole, in pieces before the arguments, or whole with each piece. */
function addName(call: OpenCall, name: string | null): void {
  if (name === null || name === call.name) return;
  if (call.text !== '' || call.value !== undefined) {
    if (call.name === '') call.name = name;
  } else call.name = call.name !== '' && name.startsWith(call.name) ? name : call.name + name;
}
