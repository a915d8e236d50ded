/**
 * The texts of an exchange, for the full-text index and for the places that a search shows. Pure; capture process,
 * capture reader, command line.
 *
 * Bound: TEXT_CHARS bytes of a body that is not a readable turn. Turns have the bounds of normal-turn.ts.
 */
import type { ExchangeTexts, PlacedText, TextPlace } from '../domain/placed-text.ts';
import type { NormalAnswer, NormalRequest, NormalTurn, TurnBlock, TurnRole } from '../domain/turn.ts';
import { isRawNumber, parseExact } from '../std/exact-json.ts';
import { decodeContent } from './content-encoding.ts';
import { normalizeTurn } from './normal-turn.ts';
import type { StoredExchange } from './stored-exchange.ts';

/** Maximum number of bytes, after decompression, that are read of a body that is not a turn. */
const TEXT_CHARS = 1 << 20;
/** JSON below this depth is not read. */
const MAX_DEPTH = 64;

/** Lists the texts of a stored exchange. */
export function listExchangeTexts(stored: StoredExchange): ExchangeTexts {
  return listReadTexts(stored, normalizeTurn(stored));
}

/**
 * Lists the texts of a stored exchange that was already read. If rounded numbers may change a text, the exchange is
 * read again with exact numbers.
 * @param turn the exchange as a turn; null: the exchange is not a turn, and the texts are those of its bodies. The
 *   bodies are also listed for a turn of which no message could be read
 */
export function listReadTexts(stored: StoredExchange, turn: NormalTurn | null): ExchangeTexts {
  if (turn === null) return { setup: [], messages: [listBodyTexts(stored)], answer: [] };
  const list = new TextList();
  const texts = list.listTurn(turn.request, turn.answer);
  if (list.hasRounded) {
    const exact = normalizeTurn(stored);
    if (exact !== null) return new TextList().listTurn(exact.request, exact.answer);
  }
  if (turn.problem === '' || turn.request.messages.length > 0) return texts;
  return { ...texts, messages: [listBodyTexts(stored)] };
}

/**
 * Lists the texts of both bodies in any format: strings and names of JSON, or plain text. Binary content is skipped.
 */
function listBodyTexts(stored: StoredExchange): PlacedText[] {
  const request = readBodyText(stored.request_body, stored.request_headers);
  const response = readBodyText(stored.response_body, stored.response_headers);
  return [request, response].filter((text) => text !== '').map((text) => ({ place: 'body', text }));
}

function readBodyText(body: Uint8Array, headers: readonly string[]): string {
  const { bytes } = decodeContent(body, headers);
  const head = bytes.subarray(0, TEXT_CHARS);
  // Binary content has zero bytes; text has none.
  if (head.includes(0)) return '';
  const text = new TextDecoder().decode(head);
  if (bytes.length > head.length) return text;
  try {
    const found: PlacedText[] = [];
    new TextList().addStrings(found, parseExact(text), 'body');
    return found.map((each) => each.text).join('\n');
  } catch {
    return text;
  }
}

function placeOf(role: TurnRole): TextPlace {
  if (role === 'assistant') return 'answer';
  if (role === 'system') return 'system';
  return role === 'tool' ? 'tool_result' : 'prompt';
}

/** Lists texts one after the other. */
class TextList {
  /** Whether a number may have had more digits before it was parsed. */
  hasRounded = false;

  listTurn(request: NormalRequest, answer: NormalAnswer): ExchangeTexts {
    const setup: PlacedText[] = [];
    for (const block of request.system) this.#addBlock(setup, block, 'system');
    for (const { name, description, input_schema } of request.tools) {
      setup.push({ place: 'tools', text: `${name} ${description}` });
      this.addStrings(setup, input_schema, 'tools');
    }
    const messages = request.messages.map(({ role, content }) => {
      const texts: PlacedText[] = [];
      for (const block of content) this.#addBlock(texts, block, placeOf(role));
      return texts;
    });
    const answered: PlacedText[] = [];
    for (const block of answer.content) this.#addBlock(answered, block, 'answer');
    if (answer.error !== null) answered.push({ place: 'error', text: answer.error });
    return { setup, messages, answer: answered };
  }

  #addBlock(texts: PlacedText[], block: TurnBlock, place: TextPlace): void {
    switch (block.type) {
      case 'text':
      case 'refusal':
        texts.push({ place, text: block.text });
        return;
      case 'thinking':
        if (block.text !== '') texts.push({ place: 'thinking', text: block.text });
        return;
      case 'tool_call':
        texts.push({ place: 'tool_call', text: block.name });
        this.addStrings(texts, block.input, 'tool_call');
        return;
      case 'tool_result':
        for (const inner of block.content)
          this.#addBlock(texts, inner, block.is_error ? 'error' : 'tool_result');
        return;
      case 'media':
        if (block.source === 'text' || block.source === 'url') texts.push({ place, text: block.data });
        return;
      case 'other':
        this.addStrings(texts, block.value, place);
        return;
      case 'cache_point':
        return;
    }
  }

  /** Adds the strings, numbers and member names of a JSON value. */
  addStrings(texts: PlacedText[], value: unknown, place: TextPlace, depth = 0): void {
    if (typeof value === 'string') texts.push({ place, text: value });
    else if (typeof value === 'number') {
      this.hasRounded ||= !Number.isSafeInteger(value);
      texts.push({ place, text: String(value) });
    } else if (isRawNumber(value)) texts.push({ place, text: value.rawJSON });
    else if (typeof value !== 'object' || value === null || depth >= MAX_DEPTH) return;
    else if (Array.isArray(value)) for (const item of value) this.addStrings(texts, item, place, depth + 1);
    else
      for (const [name, member] of Object.entries(value)) {
        texts.push({ place, text: name });
        this.addStrings(texts, member, place, depth + 1);
      }
  }
}
