/** The name that an operator gives an agent variant of a student. Pure; any thread. */

/** Maximum characters of a name. */
export const AGENT_NAME_CHARACTERS = 80;

/** A name on one line; '' if it has no printable character. */
export function cleanAgentName(name: string): string {
  return name
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
    .slice(0, AGENT_NAME_CHARACTERS);
}
