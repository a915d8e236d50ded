/**
 * Addresses of pages in calls: a relative address and the absolute one that it means are the same (RFC 3986, section 5).
 * The base is the page that was opened last. Pure; teaching and the student's thread.
 */

import type { StudentBlock } from './decision.ts';
import { isObject } from './json-values.ts';

/** The sources of a step. */
type Sources = readonly { name: string; value: unknown }[];

/** Names of arguments that hold an address. */
const NAMES = /^(?:page_?)?(?:url|uri|href|link)$/i;
const ABSOLUTE = /^https?:\/\/[^\s"'<>)\]]+/i;
const SITES = /https?:\/\/[\w-]+(?:\.[\w-]+)*(?::\d+)?/gi;
const ADDRESS_CHARACTERS = 2_000;

/** Spells each address absolutely. An address stays as it is when the step does not show what it is relative to. */
export function spellAddresses(
  content: readonly StudentBlock[],
  step: { sources: Sources },
): readonly StudentBlock[] {
  if (!content.some((block) => block.type === 'tool_call' && hasAddress(block.input))) return content;
  const base = findBase(step);
  return content.map((block) => {
    if (block.type !== 'tool_call' || !hasAddress(block.input)) return block;
    const input = Object.entries(block.input).map(([key, value]) => [
      key,
      isAddress(key, value) ? (resolveAddress(value, base) ?? value) : value,
    ]);
    return { ...block, input: Object.fromEntries(input) as unknown };
  });
}

function hasAddress(input: unknown): input is Record<string, unknown> {
  return isObject(input) && Object.entries(input).some(([key, value]) => isAddress(key, value));
}

function isAddress(key: string, value: unknown): value is string {
  return NAMES.test(key) && typeof value === 'string' && value !== '' && value.length <= ADDRESS_CHARACTERS;
}

/**
 * Makes an address absolute.
 * @returns undefined for a relative address without a base, and for another scheme
 */
export function resolveAddress(address: string, base: string | undefined): string | undefined {
  if (!ABSOLUTE.test(address) && (base === undefined || /^[a-z][a-z\d+.-]*:/i.test(address)))
    return undefined;
  return URL.parse(address, base)?.href;
}

/** The address among a call's arguments; undefined without one. */
export function addressOf(input: unknown): string | undefined {
  if (!isObject(input)) return undefined;
  return Object.entries(input).flatMap(([key, value]) => (isAddress(key, value) ? [value] : []))[0];
}

/**
 * The page that was opened last; without one, the only site that the task and the prompt name. undefined: neither is
 * known.
 */
function findBase({ sources }: { sources: Sources }): string | undefined {
  const opened = sources.flatMap(({ name, value }) =>
    name.startsWith('call:') && isObject(value)
      ? Object.entries(value).flatMap(([key, at]) => (isAddress(key, at) ? [at] : []))
      : [],
  );
  const absolute = opened.findIndex((address) => ABSOLUTE.test(address));
  const first = absolute < 0 ? findOnlySite(sources) : opened[absolute];
  // The addresses of later calls may be relative to this address.
  const later = opened.slice(0, absolute < 0 ? undefined : absolute).reverse();
  return later.reduce((base: string | undefined, address) => resolveAddress(address, base) ?? base, first);
}

function findOnlySite(sources: Sources): string | undefined {
  const sites = new Set(
    sources.flatMap(({ name, value }) =>
      (name === 'task' || name === 'system') && typeof value === 'string'
        ? (value.match(SITES) ?? []).flatMap((address) => URL.parse(address)?.origin ?? [])
        : [],
    ),
  );
  return sites.size === 1 ? `${[...sites][0]!}/` : undefined;
}
