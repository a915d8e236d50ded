/**
 * Whether a request is a call that a coding agent makes beside its work: a title for the session, a summary of what was said, a
 * look at whether a command is safe. Told by what it asks, since few clients say so. Pure; where stored copies are read.
 */
import type { SideKind } from '../domain/client-run.ts';
import type { TurnRequest } from './turn.ts';

/** Of a text that says what is wanted: it stands at its beginning or at its end. */
const LOOKED_AT_CHARACTERS = 600;

/** What system prompts of such calls say, by client: docs/clients.md. */
const TASKS: readonly (readonly [RegExp, SideKind])[] = [
  [
    /\btitle generator\b|\b(?:generate|write|create) an? (?:\S+ ){0,4}title\b|\btitle for (?:this|the|a) (?:\S+ )?(?:session|conversation|thread|chat)\b/i,
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

/** Without tools some agents do their work itself, and may be told to sum up or to check. */
const TITLES = TASKS.filter(([, kind]) => kind === 'title');

/** A user's last words that ask for the conversation itself; the conversation stands before them. */
const SUMMARY_WANTED =
  /\b(?:create|write|provide|generate) an? (?:\S+ ){0,3}(?:summary of (?:the|our|this) conversation|prompt for continuing)/i;

/**
 * @param offersTools the client offers its model tools in every call of its work
 * @returns null for a call of the work itself
 */
export function findSideCall(request: TurnRequest, offersTools: boolean): SideKind | null {
  const { system, messages, tools } = request;
  const last = messages.at(-1);
  const asked = last?.role === 'user' ? last.parts.findLast((part) => part.type === 'text') : undefined;
  const wanted = asked?.type === 'text' ? asked.text : '';
  if (messages.length > 2 && SUMMARY_WANTED.test(wanted.slice(0, LOOKED_AT_CHARACTERS))) return 'summary';
  if (tools.length > 0) return null;
  for (const [words, kind] of offersTools ? TASKS : TITLES)
    if (system.some((text) => words.test(text.slice(0, LOOKED_AT_CHARACTERS)))) return kind;
  return offersTools ? 'side_call' : null;
}
