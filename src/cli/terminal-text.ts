/**
 * Text for a terminal: made harmless, measured, truncated to a width, coloured, laid out in columns. Pure; command
 * line.
 *
 * Bodies, headers and paths were written by strangers. An escape sequence in them could recolour, rewrite or retitle
 * the reader's terminal. A bidirectional override could show a different text. So each such character is shown as its
 * code.
 */

/**
 * C0 except tab and line feed, DEL, C1 (8-bit escape sequences), line separators, bidirectional controls, lone
 * surrogates.
 */
const HARMFUL =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]|\p{Surrogate}/gu;

/** The text with every character that could act on a terminal shown as `\xNN` or `\u{NNNN}`; CRLF becomes LF. */
export function makeHarmless(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(HARMFUL, (char) => {
    const code = char.codePointAt(0)!;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
  });
}

/** The harmless text on one line: line breaks become `⏎`, and tabs become spaces. */
export function makeHarmlessLine(text: string): string {
  return makeHarmless(text).replaceAll('\n', '⏎').replaceAll('\t', ' ');
}

/** JSON for a terminal or a pipe: the same value, without characters that act on a terminal. */
export function formatJson(value: unknown, indent: number): string {
  return escapeJson(JSON.stringify(value, null, indent));
}

/**
 * Escapes characters that act on a terminal in a text that is JSON or a part of it. In JSON they occur only inside
 * strings. JSON itself already escapes C0 characters and lone surrogates.
 */
export function escapeJson(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const WIDE =
  /^(?:\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Emoji_Presentation}|[\u3000-\u303f\uff01-\uff60])$/u;
const NO_WIDTH = /^[\p{Mn}\p{Me}\u200b-\u200d]$/u;

/** Columns that a text without control characters occupies. */
export function measureWidth(text: string): number {
  let width = 0;
  for (const char of text) width += measureChar(char);
  return width;
}

function measureChar(char: string): number {
  if (char < '\u0300') return 1;
  return NO_WIDTH.test(char) ? 0 : WIDE.test(char) ? 2 : 1;
}

/** Truncates a text that is wider than `columns`, and ends it with an ellipsis. */
function cutToWidth(text: string, columns: number): string {
  if (text.length <= columns && measureWidth(text) <= columns) return text;
  let width = 0;
  let kept = '';
  for (const char of text) {
    const next = width + measureChar(char);
    if (next > columns - 1) break;
    width = next;
    kept += char;
  }
  return `${kept}…`;
}

/**
 * The lines of a text, broken at blanks if they are too long; a word that is too long itself is broken anywhere.
 * Colours of the palette take no room, and continue over a line's end.
 * @param columns at least 1; Infinity for no limit
 */
export function wrapText(text: string, columns: number): string[] {
  const lines = text.split('\n');
  if (columns === Number.POSITIVE_INFINITY) return lines;
  const wrapped: string[] = [];
  for (const line of lines) {
    if (line.length <= columns && measureWidth(line) <= columns) wrapped.push(line);
    else wrapLine(line, columns, wrapped);
  }
  return wrapped;
}

/** A character, or a colour of the palette. */
const PAINTED_CHAR = /\u001b\[\d+m|./gsu;

function wrapLine(line: string, columns: number, lines: string[]): void {
  let kept = '';
  let width = 0;
  /** Length of `kept` up to the last blank, where it may be broken. */
  let cut = 0;
  /** Columns after the last blank. */
  let tail = 0;
  for (const [char] of line.matchAll(PAINTED_CHAR)) {
    const charWidth = char.length > 2 ? 0 : measureChar(char);
    if (charWidth > 0 && width + charWidth > columns && width > 0) {
      const at = cut > 0 ? cut : kept.length;
      lines.push(kept.slice(0, at).trimEnd());
      width = cut > 0 ? tail : 0;
      kept = kept.slice(at);
      cut = 0;
    }
    kept += char;
    width += charWidth;
    tail += charWidth;
    if (char !== ' ') continue;
    cut = kept.length;
    tail = 0;
  }
  lines.push(kept);
}

/** Colours by meaning. */
export interface Palette {
  strong(text: string): string;
  dim(text: string): string;
  good(text: string): string;
  bad(text: string): string;
  call(text: string): string;
}

/** Colours for a terminal that shows them, or none. */
export function choosePalette(hasColor: boolean): Palette {
  const paint =
    (open: number, close: number) =>
    (text: string): string =>
      hasColor && text !== '' ? `\u001b[${open}m${text}\u001b[${close}m` : text;
  return {
    strong: paint(1, 22),
    dim: paint(2, 22),
    good: paint(32, 39),
    bad: paint(31, 39),
    call: paint(36, 39),
  };
}

/** A column of a table. */
interface Column {
  title: string;
  align: 'left' | 'right';
  /** When the table is too wide, this column shrinks to at least `min` columns; others keep their width. */
  min?: number;
  /** A wider cell is truncated even if there is room, because one long cell would pad every line. */
  max?: number;
  /** If shrinking is not enough, columns with this number are left out, the highest number first. */
  dispensable?: number;
}

/** A cell: its text (harmless, one line) and its colour, applied after padding. */
export interface Cell {
  text: string;
  paint?: (text: string) => string;
}

/**
 * Lays out a table, one line per row, two spaces between columns.
 * @param width columns to fit into; Infinity for no limit
 */
export function layOutTable(columns: Column[], rows: Cell[][], width: number, palette: Palette): string {
  return [...layOutLines(columns, () => rows, width, palette)].join('');
}

/**
 * Like {@link layOutTable}, line by line, for tables larger than memory should hold.
 * @param makeRows called once to measure, possibly again for each column left out, and once to lay out
 */
export function* layOutLines(
  columns: Column[],
  makeRows: () => Iterable<Cell[]>,
  width: number,
  palette: Palette,
): Generator<string> {
  const widths = columns.map((column) => measureWidth(column.title));
  for (const row of makeRows())
    for (const [i, cell] of row.entries()) {
      const most = columns[i]!.max ?? Number.POSITIVE_INFINITY;
      widths[i] = Math.max(widths[i]!, Math.min(most, measureWidth(cell.text)));
    }
  const excess = shrink(columns, widths, width);
  if (excess > 0) {
    const expendable = columns.reduce((worst, { dispensable: own = 0 }) => Math.max(worst, own), 0);
    const keep = (_: unknown, i: number): boolean => (columns[i]!.dispensable ?? 0) !== expendable;
    if (expendable > 0) {
      const makeKept = function* (): Generator<Cell[]> {
        for (const row of makeRows()) yield row.filter(keep);
      };
      yield* layOutLines(columns.filter(keep), makeKept, width, palette);
      return;
    }
  }
  const title = columns.map((column): Cell => ({ text: column.title, paint: palette.dim }));
  const layOutRow = (row: Cell[]): string =>
    `${row.map((cell, i) => layOutCell(cell, columns[i]!, widths[i]!, i === row.length - 1)).join('  ')}\n`;
  yield layOutRow(title);
  for (const row of makeRows()) yield layOutRow(row);
}

/** Shrinks columns towards their `min`; returns by how much the table is still too wide. */
function shrink(columns: Column[], widths: number[], width: number): number {
  let excess = widths.reduce((sum, columnWidth) => sum + columnWidth, 0) + 2 * (columns.length - 1) - width;
  // Shrink from the right, because the most important columns are on the left.
  for (let i = columns.length - 1; i >= 0 && excess > 0; i -= 1) {
    const { min } = columns[i]!;
    if (min === undefined) continue;
    const give = Math.min(excess, Math.max(0, widths[i]! - min));
    widths[i]! -= give;
    excess -= give;
  }
  return excess;
}

function layOutCell(cell: Cell, column: Column, width: number, isLast: boolean): string {
  const text = cutToWidth(cell.text, width);
  const painted = cell.paint === undefined ? text : cell.paint(text);
  const padding = ' '.repeat(Math.max(0, width - measureWidth(text)));
  if (column.align === 'right') return padding + painted;
  return isLast ? painted : painted + padding;
}
