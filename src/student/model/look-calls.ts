/**
 * Recognizes calls that only look, by the name of their tool. In doubt, a call does more than look. Pure; teaching and the
 * student's thread.
 */

import type { StudentBlock } from './decision.ts';
import { canonicalText } from './json-values.ts';

/** Names of tools that change nothing: their beginnings, or what they open. */
export const LOOKS =
  /^(?:(?:get|list|read|search|find|describe|show|fetch|look|lookup|view|inspect|browse)(?:[_A-Z-]|$)|(?:open|visit)[_-]?(?:web_?)?(?:[Pp]age|[Ss]ite|[Uu]rl|URL|[Ll]ink|[Ff]ile|[Dd]ocument)s?$)/;
/** Beginnings of names of tools that look as long as their arguments do not tell them to change anything. */
export const READS = /^(?:query|tail|head|count)(?:[_A-Z-]|$)/;
/** Words with which a query changes something. */
const CHANGES =
  /\b(?:insert|update|delete|drop|alter|create|replace|truncate|grant|merge|write|exec|execute|call|set|rm|mv)\b/i;

type CallBlock = Extract<StudentBlock, { type: 'tool_call' }>;

/** Whether a call changes nothing. */
export function isLookCall({ name, input }: CallBlock): boolean {
  return LOOKS.test(name) || (READS.test(name) && !CHANGES.test(canonicalText(input)));
}
