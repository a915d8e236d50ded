/**
 * Requests of the Gemini wire in normal form, and its parts, which answers share. Pure; runs where stored copies are
 * read, never on a server thread. Source: the Gemini API reference. Protobuf's JSON accepts camelCase and snake_case,
 * so this reader does, too. A part of any kind may have the signature of a thought.
 */

import type {
  NormalRequest,
  TurnBlock,
  TurnMessage,
  TurnThinking,
  TurnTool,
  TurnToolChoice,
} from '../../domain/turn.ts';
import { asCount, asObject, asText, type JsonObject, pick } from '../json-reading.ts';
import {
  callBlock,
  emptyRequest,
  functionTool,
  mediaKind,
  type NormalReading,
  providerTool,
} from '../normal-reading.ts';

/** Reads the model's name from a path such as `/v1beta/models/NAME:generateContent`; null when it has none. */
export function readGeminiModel(path: string): string | null {
  const end = Math.max(path.lastIndexOf(':'), path.lastIndexOf('%3A'), path.lastIndexOf('%3a'));
  if (end < 0) return null;
  const name = path.slice(path.lastIndexOf('/', end) + 1, end);
  try {
    return asText(decodeURIComponent(name));
  } catch {
    return asText(name);
  }
}

/** Reads the body of a generateContent request. */
export function readNormalGemini(value: unknown, reading: NormalReading, path: string): NormalRequest {
  const body = asObject(value);
  const config = asObject(pick(body, 'generationConfig', 'generation_config'));
  const instruction = asObject(pick(body, 'systemInstruction', 'system_instruction'));
  const contents = Array.isArray(body.contents)
    ? reading.take(body.contents)
    : [body.contents].filter(Boolean);
  const messages = contents.map((item): TurnMessage => {
    const content = asObject(item);
    const role = content.role === 'model' ? 'assistant' : content.role === 'function' ? 'tool' : 'user';
    return { role, content: readParts(content.parts, reading) };
  });
  const tools: TurnTool[] = [];
  for (const item of takeOneOrMore(body.tools, reading)) {
    for (const [kind, declared] of Object.entries(asObject(item))) {
      if (kind !== 'functionDeclarations' && kind !== 'function_declarations') {
        tools.push(providerTool(kind, asObject(declared)));
      } else for (const tool of reading.take(declared)) tools.push(readTool(asObject(tool)));
    }
  }
  return {
    ...emptyRequest(readGeminiModel(path)),
    system: readParts(instruction.parts, reading),
    messages,
    tools,
    tool_choice: readToolChoice(asObject(pick(body, 'toolConfig', 'tool_config')), reading),
    thinking: readThinking(asObject(pick(config, 'thinkingConfig', 'thinking_config'))),
    response_schema: readFormat(config),
    max_output_tokens: asCount(pick(config, 'maxOutputTokens', 'max_output_tokens')),
  };
}

/** Returns the items of a list, or a single item that a client has sent without a list. */
function takeOneOrMore(value: unknown, reading: NormalReading): unknown[] {
  return Array.isArray(value) ? reading.take(value) : [value].filter(Boolean);
}

/** Reads the parts of a content, or a single part that a client has sent without a list. */
export function readParts(value: unknown, reading: NormalReading): TurnBlock[] {
  return takeOneOrMore(value, reading).map((item) => readPart(asObject(item), reading));
}

function readPart(part: JsonObject, reading: NormalReading): TurnBlock {
  const signature = asText(pick(part, 'thoughtSignature', 'thought_signature'));
  if (typeof part.text === 'string') {
    const { text } = part;
    if (part.thought === true) return { type: 'thinking', text, signature, redacted: false };
    return signature === null ? { type: 'text', text } : { type: 'text', text, signature };
  }
  const call = pick(part, 'functionCall', 'function_call');
  if (call !== undefined) {
    const body = asObject(call);
    return callBlock(body.id, body.name, body.args ?? {}, signature);
  }
  const result = pick(part, 'functionResponse', 'function_response');
  if (result !== undefined) return readResult(asObject(result), reading);
  const inline = pick(part, 'inlineData', 'inline_data');
  const file = pick(part, 'fileData', 'file_data');
  if (inline !== undefined || file !== undefined) return readMedia(asObject(inline ?? file));
  return { type: 'other', name: Object.keys(part)[0] ?? '', value: part };
}

function readResult(body: JsonObject, reading: NormalReading): TurnBlock {
  const response = asObject(body.response);
  const content: TurnBlock[] = [{ type: 'text', text: JSON.stringify(response) }];
  for (const item of reading.take(body.parts)) {
    const part = asObject(item);
    const media = pick(part, 'inlineData', 'inline_data') ?? pick(part, 'fileData', 'file_data');
    content.push(
      media === undefined
        ? { type: 'other', name: Object.keys(part)[0] ?? '', value: part }
        : readMedia(asObject(media)),
    );
  }
  return {
    type: 'tool_result',
    call_id: asText(body.id),
    name: asText(body.name),
    is_error: response.error !== undefined,
    content,
  };
}

function readMedia(body: JsonObject): TurnBlock {
  const mediaType = asText(pick(body, 'mimeType', 'mime_type'));
  const data = asText(body.data);
  return {
    type: 'media',
    kind: mediaKind(mediaType),
    media_type: mediaType,
    source: data === null ? 'url' : 'base64',
    data: data ?? asText(pick(body, 'fileUri', 'file_uri')) ?? '',
  };
}

function readTool(tool: JsonObject): TurnTool {
  const { name, description, ...rest } = tool;
  const more: JsonObject = {};
  let schema: unknown = null;
  for (const [key, value] of Object.entries(rest)) {
    if (key === 'parameters' || key === 'parametersJsonSchema' || key === 'parameters_json_schema')
      schema = value;
    else more[key] = value;
  }
  return functionTool(name, description, schema, more);
}

function readToolChoice(config: JsonObject, reading: NormalReading): TurnToolChoice | null {
  const calling = asObject(pick(config, 'functionCallingConfig', 'function_calling_config'));
  const mode = asText(calling.mode)?.toLowerCase();
  if (mode !== 'auto' && mode !== 'any' && mode !== 'none' && mode !== 'validated') return null;
  const names: string[] = [];
  for (const name of reading.take(pick(calling, 'allowedFunctionNames', 'allowed_function_names'))) {
    if (typeof name === 'string') names.push(name);
  }
  return { mode, names, parallel: null };
}

function readThinking(config: JsonObject): TurnThinking | null {
  const budget = pick(config, 'thinkingBudget', 'thinking_budget');
  const effort = asText(pick(config, 'thinkingLevel', 'thinking_level'))?.toLowerCase() ?? null;
  if (budget === 0) return { mode: 'off', budget_tokens: null, effort };
  const tokens = asCount(budget);
  if (tokens !== null) return { mode: 'on', budget_tokens: tokens, effort };
  return budget === -1 || effort !== null ? { mode: 'adaptive', budget_tokens: null, effort } : null;
}

function readFormat(config: JsonObject): NormalRequest['response_schema'] {
  const schema =
    pick(config, 'responseJsonSchema', 'response_json_schema') ??
    pick(config, 'responseSchema', 'response_schema');
  const mime = asText(pick(config, 'responseMimeType', 'response_mime_type'));
  if (schema === undefined && mime !== 'application/json') return null;
  return { schema: schema ?? null, name: null, strict: null };
}
