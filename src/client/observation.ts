/**
 * A tool's result or error as text for the monitors. Pure; any thread.
 */

/**
 * Returns the text of content parts in the formats of providers and frameworks. Texts are unchanged and
 * joined by line ends. Another part, such as an image or a file, becomes its type in brackets; '' for
 * anything but a text or a list.
 */
export function textOfParts(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map(textOfPart).join('\n');
}

function textOfPart(part: unknown): string {
  if (typeof part === 'string') return part;
  if (typeof part !== 'object' || part === null) return '';
  const { text, type } = part as { text?: unknown; type?: unknown };
  if (typeof text === 'string') return text;
  return typeof type === 'string' ? `[${type}]` : '';
}

/**
 * Writes a thrown value as text: an Error as `TypeError: it is not a number`, a text unchanged, and another value as
 * JSON, or with `String` if it has no JSON (undefined, a function).
 */
export function textOfError(thrown: unknown): string {
  if (thrown instanceof Error) return `${thrown.name}: ${thrown.message}`;
  return typeof thrown === 'string' ? thrown : (JSON.stringify(thrown) ?? String(thrown));
}
