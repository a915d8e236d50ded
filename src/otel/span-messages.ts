/**
 * Reads the messages to and from a model in a span, in all known forms: attributes of the GenAI conventions, on the
 * span or on its events; one event per message (the conventions before 1.37); and the numbered attributes of
 * OpenInference and OpenLLMetry. Pure; any thread.
 */
import { isFields, knownText, parseJson, spokenText, textOf } from './attribute-text.ts';
import type { Attributes, AttributeValue, OtlpSpan } from './records.ts';

/** A message in the form of the GenAI conventions. */
export interface SpanMessage {
  role: string;
  parts: readonly Readonly<Record<string, AttributeValue>>[];
}

export const INPUT_MESSAGES = 'gen_ai.input.messages';
export const OUTPUT_MESSAGES = 'gen_ai.output.messages';

/** Reads the messages in an attribute of the span, or in the same attribute of its events. */
export function messagesOf({ attributes, events }: OtlpSpan, name: string): SpanMessage[] {
  const own = readMessages(attributes.get(name));
  return own.length > 0 ? own : events.flatMap((event) => readMessages(event.attributes.get(name)));
}

/** Reads messages from an attribute with a structured value or with JSON. */
function readMessages(value: AttributeValue | undefined): SpanMessage[] {
  const list = typeof value === 'string' ? parseJson(value) : value;
  if (!Array.isArray(list)) return [];
  return list.flatMap((message: unknown): SpanMessage[] => {
    if (!isFields(message) || typeof message.role !== 'string') return [];
    const { role, parts, content } = message;
    if (Array.isArray(parts)) return [{ role, parts: parts.filter(isFields) }];
    // A message in the form of the providers' APIs.
    const text = spokenText(content);
    return text === '' ? [] : [{ role, parts: [{ type: 'text', content: text }] }];
  });
}

/** Joins the texts of a message; '' without one. */
export function textsOf({ parts }: SpanMessage): string {
  return parts
    .flatMap((part) => (part.type === 'text' ? [textOf(part.content ?? part.text)] : []))
    .filter((text) => text !== '')
    .join('\n');
}

/** Finds the user's first prompt to a model; '' if absent. A tool's result does not count as a prompt. */
export function promptOf(span: OtlpSpan): string {
  const plain = knownText(span.attributes.get('user_prompt')) ?? '';
  if (plain !== '') return plain;
  for (const message of messagesOf(span, INPUT_MESSAGES)) {
    const text = message.role === 'user' ? textsOf(message) : '';
    if (text !== '') return text;
  }
  return promptOfEvents(span) || promptOfNumbered(span.attributes) || promptOfAiSdk(span.attributes);
}

/**
 * Reads the first prompt from events: `gen_ai.user.message`, one event per message, or `gen_ai.content.prompt`, one
 * event for all messages. '' if absent.
 */
function promptOfEvents({ events }: OtlpSpan): string {
  for (const { name, attributes } of events) {
    if (name === 'gen_ai.user.message') {
      const body = attributes.get('gen_ai.event.content');
      const parsed = typeof body === 'string' ? parseJson(body) : body;
      const text = spokenText(attributes.get('content') ?? (isFields(parsed) ? parsed.content : undefined));
      if (text !== '') return text;
    } else if (name === 'gen_ai.content.prompt') {
      const value = attributes.get('gen_ai.prompt');
      const first = readMessages(value).find(({ role }) => role === 'user');
      if (first !== undefined) return textsOf(first);
    }
  }
  return '';
}

/** The names of numbered attributes with the role of a message. */
const NUMBERED = [
  /^(?<messages>llm\.input_messages\.)(?<at>\d{1,6})\.message\.role$/,
  /^(?<messages>gen_ai\.prompt\.)(?<at>\d{1,6})\.role$/,
];

/**
 * Reads the first prompt from numbered attributes: `llm.input_messages.N.message.…`, `gen_ai.prompt.N.…`; '' if absent.
 */
function promptOfNumbered(attributes: Attributes): string {
  const found: { at: number; message: string }[] = [];
  for (const [name, role] of attributes) {
    if (role !== 'user') continue;
    for (const pattern of NUMBERED) {
      const { messages, at } = pattern.exec(name)?.groups ?? {};
      if (messages !== undefined) found.push({ at: Number(at), message: name.slice(0, -'role'.length) });
    }
  }
  found.sort((a, b) => a.at - b.at);
  for (const { message } of found) {
    const text = spokenText(attributes.get(`${message}content`)) || textOfContents(attributes, message);
    if (text !== '') return text;
  }
  return '';
}

/** Joins the texts of the numbered parts of a message; '' without one. */
function textOfContents(attributes: Attributes, message: string): string {
  const texts: string[] = [];
  for (let at = 0; ; at++) {
    const part = `${message}contents.${at}.message_content.`;
    const text = knownText(attributes.get(`${part}text`));
    if (text === null && !attributes.has(`${part}type`)) return texts.join('\n');
    if (text !== null && text !== '') texts.push(text);
  }
}

/** Reads the first prompt from the attributes of the AI SDK 5 and 6; '' if absent. */
function promptOfAiSdk(attributes: Attributes): string {
  const value = attributes.get('ai.prompt');
  const prompt = typeof value === 'string' ? parseJson(value) : undefined;
  const messages = attributes.get('ai.prompt.messages') ?? (isFields(prompt) ? prompt.messages : undefined);
  const first = readMessages(messages).find(({ role }) => role === 'user');
  if (first !== undefined) return textsOf(first);
  return isFields(prompt) && typeof prompt.prompt === 'string' ? (knownText(prompt.prompt) ?? '') : '';
}
