/**
 * JSON text with the positions of its parts, used to change one part and leave every other byte unchanged. The text
 * has already been parsed, so it is valid JSON. Pure; command line.
 */

/** An object, a list or another value, with its start and end offsets. */
interface JsonNode {
  start: number;
  end: number;
  kind: 'object' | 'list' | 'other';
  members: JsonMember[];
}

interface JsonMember {
  /** Start of the key, or of a list's value. */
  start: number;
  /** null in a list. */
  key: string | null;
  value: JsonNode;
}

const BLANK = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\]|\\.)*"/y;
const OTHER = /[^,\]} \t\r\n]+/y;

/** Finds the parts of a JSON text. @throws RangeError for text that is nested too deeply */
export function readPlaces(text: string): JsonNode {
  return readNode(text, skip(BLANK, text, 0));
}

function readNode(text: string, start: number): JsonNode {
  const first = text[start];
  if (first !== '{' && first !== '[') {
    const end = skip(first === '"' ? STRING : OTHER, text, start);
    return { start, end, kind: 'other', members: [] };
  }
  const members: JsonMember[] = [];
  let at = skip(BLANK, text, start + 1);
  while (text[at] !== '}' && text[at] !== ']') {
    const member = { start: at, key: null as string | null };
    if (first === '{') {
      const end = skip(STRING, text, at);
      member.key = JSON.parse(text.slice(at, end)) as string;
      at = skip(BLANK, text, skip(BLANK, text, end) + 1);
    }
    const value = readNode(text, at);
    members.push({ ...member, value });
    at = skip(BLANK, text, value.end);
    if (text[at] === ',') at = skip(BLANK, text, at + 1);
  }
  return { start, end: at + 1, kind: first === '{' ? 'object' : 'list', members };
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  pattern.test(text);
  return pattern.lastIndex === 0 ? at : pattern.lastIndex;
}

/**
 * Finds the member with this key; undefined without one. Of several members with the same key, the last one counts, as
 * for parsers.
 */
export function findMember(node: JsonNode, key: string): JsonMember | undefined {
  return node.members.findLast((member) => member.key === key);
}

/** Removes a member and its comma. */
export function removeMember(text: string, { start, end, members }: JsonNode, member: JsonMember): string {
  const at = members.indexOf(member);
  const cut = (from: number, to: number) => text.slice(0, from) + text.slice(to);
  if (members.length === 1) return cut(start + 1, end - 1);
  const next = members[at + 1];
  return next === undefined
    ? cut(members[at - 1]!.value.end, member.value.end)
    : cut(member.start, next.start);
}

/**
 * Appends a member to its object or list, formatted like its neighbours.
 * @param key null for a list
 * @param unit indentation of one level
 */
export function addMember(
  text: string,
  node: JsonNode,
  key: string | null,
  value: unknown,
  unit: string,
): string {
  const { start, end, members } = node;
  const last = members.at(-1);
  const own = /(?:^|\n)([ \t]*)[^\n]*$/.exec(text.slice(0, start))![1]!;
  const newline = text.includes('\r\n') ? '\r\n' : '\n';
  const isOneLine = last === undefined ? !text.includes('\n') && text.length > 2 && node.start > 0 : false;
  const before =
    last === undefined
      ? isOneLine
        ? ''
        : `${newline}${own}${unit}`
      : text.slice(start + 1, members[0]!.start);
  const written = write(key, value, before, unit);
  if (last !== undefined)
    return `${text.slice(0, last.value.end)},${before}${written}${text.slice(last.value.end)}`;
  const after = isOneLine ? '' : `${newline}${own}`;
  return `${text.slice(0, start + 1)}${before}${written}${after}${text.slice(end - 1)}`;
}

/**
 * Writes a member.
 * @param before the text before the member. If it has a line end, the value is written on several lines
 */
function write(key: string | null, value: unknown, before: string, unit: string): string {
  const lines = before.includes('\n') ? unit : '';
  const colon = lines === '' ? ':' : ': ';
  const text = `${key === null ? '' : JSON.stringify(key) + colon}${JSON.stringify(value, null, lines)}`;
  return text.replaceAll('\n', before.slice(before.search(/\r?\n[ \t]*$/)));
}
