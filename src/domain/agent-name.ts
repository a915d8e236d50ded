/** The name that an operator gives an agent variant of a student. Pure; any thread. */

/** Maximum characters of a name. */
export const AGENT_NAME_CHARACTERS = 80;

/** Makes a name of one line without invisible characters, cut to AGENT_NAME_CHARACTERS; '' if no character is left. */
export function cleanAgentName(name: string): string {
  return name
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
    .slice(0, AGENT_NAME_CHARACTERS);
}
