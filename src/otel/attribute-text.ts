/**
 * Converts attributes to the texts of a step. A text is null (unknown) if the attribute is missing, or if the sender
 * has replaced its content by a placeholder. An empty attribute gives an empty text. Pure; any thread.
 */

import { isRawNumber, parseExact } from '../std/exact-json.ts';
import { OTLP_BOUNDS } from './limits.ts';
import type { Attributes, AttributeValue } from './records.ts';

/** Values that instrumentations send instead of content. */
const PLACEHOLDER = /^(?:<redacted>|\[redacted\]|__redacted__|redacted)$/i;

/** Converts a value to the text of a step: a text stays unchanged, any other value becomes JSON; '' when absent. */
export function textOf(value: AttributeValue | undefined): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value.toWellFormed();
  try {
    return JSON.stringify(value).toWellFormed();
  } catch {
    // The value is JSON from within a text. It is nested too deeply to be written.
    return '';
  }
}

/** Finds the text of the first attribute with a text; '' if no attribute has a text. */
export function firstText(attributes: Attributes, names: readonly string[]): string {
  return firstKnown(attributes, names) ?? '';
}

/**
 * Finds the text of the first attribute with a text. If no attribute has a text: '' if one of them is empty, and null
 * if all are unknown.
 */
export function firstKnown(attributes: Attributes, names: readonly string[]): string | null {
  let known: string | null = null;
  for (const name of names) {
    const text = knownText(attributes.get(name));
    if (text !== null && text !== '') return text;
    known ??= text;
  }
  return known;
}

/** Converts a value to text; null for a missing value or a placeholder. */
export function knownText(value: AttributeValue | undefined): string | null {
  if (value === undefined || value === null) return null;
  const text = textOf(value);
  return PLACEHOLDER.test(text) ? null : text;
}

/**
 * Converts a tool's input or output to text: the texts of a list whose parts are all texts, otherwise as `knownText`.
 * @returns null for a missing value or a placeholder
 */
export function contentOf(value: AttributeValue | undefined): string | null {
  const list = typeof value === 'string' && value.startsWith('[') ? parseJson(value) : value;
  const parts = Array.isArray(list) ? list.map(partText) : [];
  if (parts.length === 0 || parts.includes(null)) return knownText(value);
  return parts.join('\n').toWellFormed();
}

/** Returns the text of a part; null for a part that is not text. */
function partText(part: unknown): string | null {
  if (!isFields(part)) return null;
  const { type, text, content } = part;
  if (type !== undefined && type !== 'text') return null;
  if (typeof text === 'string') return text;
  return type === 'text' && typeof content === 'string' ? content : null;
}

/** Reads the texts of a message's content: a text, or the text parts of a list; '' for other content. */
export function spokenText(content: unknown): string {
  const value =
    typeof content === 'string' && content.startsWith('[') ? (parseJson(content) ?? content) : content;
  if (typeof value === 'string') return knownText(value) ?? '';
  if (!Array.isArray(value)) return '';
  return value
    .flatMap((part) => (typeof part === 'string' ? part : (partText(part) ?? [])))
    .filter((text) => text !== '')
    .join('\n')
    .toWellFormed();
}

/** Parses JSON; undefined for a text that is not JSON, or is longer than `messages_characters`. */
export function parseJson(text: string): AttributeValue | undefined {
  if (text.length > OTLP_BOUNDS.messages_characters) return undefined;
  try {
    return parseExact(text) as AttributeValue;
  } catch {
    // The sender has cut the text, or the text is not JSON.
    return undefined;
  }
}

/** Whether the value is an object with names. */
export function isFields(value: unknown): value is Readonly<Record<string, AttributeValue>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawNumber(value);
}
