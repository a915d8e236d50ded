/**
 * Text that agents' clients add to a user's messages for the model, such as the date, files and available skills. The
 * user did not say it, so it is not part of the task. Pure; any thread.
 */

/** The elements in which Claude Code, Codex, Cline and Cline's relatives enclose the text that they add. */
const ELEMENTS = [
  'system-reminder',
  'environment_context',
  'user_instructions',
  'environment_details',
  'command-message',
] as const;
/** Maximum number of elements of one kind that are removed from one text. Further ones stay. */
const REMOVED = 64;
const ALONE = new RegExp(String.raw`^\s*<(${ELEMENTS.join('|')})>[\s\S]*</\1>\s*$`);

/** Whether a text consists only of an element that a client has added. */
export function isClientWords(text: string): boolean {
  return ALONE.test(text);
}

/**
 * Removes the elements that a client has added, and the white space around the remaining text. An element without an
 * end extends to the end of the text.
 */
export function stripClientWords(text: string): string {
  let rest = text;
  for (const element of ELEMENTS) {
    for (let removed = 0; removed < REMOVED; removed++) {
      const open = rest.indexOf(`<${element}>`);
      if (open < 0) break;
      const close = rest.indexOf(`</${element}>`, open);
      rest = rest.slice(0, open) + (close < 0 ? '' : rest.slice(close + element.length + 3));
    }
  }
  return rest.trim();
}
