/**
 * Rules that chat-completions and responses share. As far as we know, the API would refuse a request that breaks one of
 * them. A rule that an agent's golden requests broke does not count for that agent. Pure; teaching and the student's
 * thread. Source: OpenAI's API reference, and its error answers.
 */

import type { JsonObject } from '../../providers/json-reading.ts';
import { roundedNumber } from '../../std/exact-json.ts';
import type { Breaches } from './wire.ts';

const TOOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/;

/** A tool as either wire declares it. */
interface DeclaredTool {
  type?: unknown;
  name?: unknown;
  parameters?: unknown;
}

export function areStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function isWithin(value: number | null, least: number, most: number): boolean {
  return value !== null && value >= least && value <= most;
}

/**
 * Checks the settings of a request.
 * @param lengths names of the fields that limit the answer's length
 */
export function checkOpenAiSettings(body: JsonObject, lengths: readonly string[], breaches: Breaches): void {
  const within = (value: unknown, least: number, most: number): boolean =>
    value == null || isWithin(roundedNumber(value), least, most);
  breaches.expect('model', typeof body.model === 'string' && body.model !== '');
  breaches.expect('stream', body.stream == null || typeof body.stream === 'boolean');
  breaches.expect('temperature', within(body.temperature, 0, 2));
  breaches.expect('top_p', within(body.top_p, 0, 1));
  for (const name of lengths) {
    const value = body[name];
    const length = roundedNumber(value);
    breaches.expect(name, value == null || (Number.isSafeInteger(length) && length! >= 1));
  }
  breaches.expect('field __proto__', !Object.hasOwn(body, '__proto__'));
}

/**
 * Checks the tools of a request, and the choice among them.
 * @param chosen the tool that must be called; undefined when the request names no such tool
 */
export function checkOpenAiTools(
  body: JsonObject,
  tools: readonly DeclaredTool[],
  chosen: unknown,
  breaches: Breaches,
): void {
  breaches.expect('tools', body.tools == null || Array.isArray(body.tools));
  const names = new Set<unknown>();
  for (const { type, name, parameters } of tools) {
    breaches.expect('tools', typeof type === 'string');
    if (type !== 'function') continue;
    const isNamed = typeof name === 'string' && TOOL_NAME.test(name) && !names.has(name);
    const isSchema = parameters == null || (typeof parameters === 'object' && !Array.isArray(parameters));
    breaches.expect('tools', isNamed && isSchema);
    names.add(name);
  }
  breaches.expect('tool_choice', chosen === undefined || names.has(chosen));
  if (tools.length > 0) return;
  breaches.expect(
    'tool_choice',
    body.tool_choice == null || body.tool_choice === 'none' || body.tool_choice === 'auto',
  );
  breaches.expect('parallel_tool_calls', body.parallel_tool_calls == null);
}
