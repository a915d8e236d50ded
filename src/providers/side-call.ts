/**
 * Recognises side calls, which a coding agent makes in addition to its work: a title for the session, a summary of the
 * conversation, a check whether a command is safe. The request's wording decides, because few clients mark their side
 * calls. Pure; runs where stored copies are read.
 */
import type { SideKind } from '../domain/child-kind.ts';
import type { NormalRequest } from '../domain/turn.ts';

/** Maximum number of characters of a text that are examined: an instruction is at its beginning or at its end. */
const LOOKED_AT_CHARACTERS = 600;

/** Phrases in the system prompts of side calls, by client: docs/clients.md. */
const TASKS: readonly (readonly [RegExp, SideKind])[] = [
  [
    /\btitle generator\b|\b(?:generate|write|create) an? (?:\S+ ){0,4}title\b|\btitle for (?:this|the|a) (?:\S+ )?(?:session|conversation|thread|chat)\b|\bnam(?:e|ing) (?:this|the|an?) (?:\S+ )?(?:session|conversation|thread|chat)\b/i,
    'title',
  ],
  [/\b(?:new|same) (?:conversation )?topic\b/i, 'title'],
  [
    /\bsafety (?:check|review|classifier)\b|\b(?:security|risk) (?:monitor|classifier|assessment|reviewer)\b|\bcommand injection\b|\bprocess bash commands\b/i,
    'safety_check',
  ],
  [
    /\bsummari[sz](?:e|es|ing|ation|er)\b|\bsummary of\b|\bcompact(?:s|ing|ion)? (?:the |this |a )?conversation\b/i,
    'summary',
  ],
];

/** The user's last words ask for a title. */
const TITLE_WANTED =
  /\b(?:generate|write|create|give|suggest|provide) (?:me )?(?:an? |the )?(?:\S+ ){0,4}title\b|\btitle for (?:this|the|a|our) (?:\S+ )?(?:session|conversation|thread|chat)\b/i;

/** The user's last words ask for a summary of the preceding conversation. */
const SUMMARY_WANTED =
  /\b(?:create|write|provide|generate) an? (?:\S+ ){0,3}(?:summary of (?:the|our|this) conversation|prompt for continuing)/i;

/** Minimum length of a client's instructions for a summary. People ask for one in a sentence. */
const INSTRUCTION_CHARACTERS = 200;

/**
 * Recognises a side call. Without `offersTools`, the client may work without tools, and its own work may be to
 * summarise or to name a topic. Its system prompt alone is then no evidence: the user's last words must ask for a title
 * or a summary.
 * @param offersTools whether the client offers its model tools in every call of its work
 * @returns null for a call of the work itself
 */
export function findSideCall(request: NormalRequest, offersTools: boolean): SideKind | null {
  const { system, messages, tools } = request;
  const last = messages.at(-1);
  const asked = last?.role === 'user' ? last.content.findLast((block) => block.type === 'text') : undefined;
  const text = asked?.type === 'text' ? asked.text : '';
  const wanted = text.slice(0, LOOKED_AT_CHARACTERS);
  const mayBeSummary = offersTools || text.length >= INSTRUCTION_CHARACTERS;
  if (messages.length > 2 && mayBeSummary && SUMMARY_WANTED.test(wanted)) return 'summary';
  if (tools.length > 0) return null;
  const kind = TASKS.find(([words]) =>
    system.some((block) => block.type === 'text' && words.test(block.text.slice(0, LOOKED_AT_CHARACTERS))),
  )?.[1];
  if (offersTools) return kind ?? 'side_call';
  const isAlone = !messages.some(({ role }) => role === 'assistant');
  return kind === 'title' && isAlone && TITLE_WANTED.test(wanted) ? 'title' : null;
}
