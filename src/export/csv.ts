/**
 * Rows as CSV (RFC 4180, UTF-8, CRLF). A text that begins with `=`, `+`, `-`, `@`, a tab or a line break gets an
 * apostrophe in front, because a spreadsheet would run it as a formula. Spreadsheets hide the apostrophe. Numbers stay
 * numbers. Pure; server threads, command line.
 */
import { type ExportColumn, type ExportRow, textOf } from './columns.ts';

const FORMULA = /^[=+\-@\t\r\n]/;
const NEEDS_QUOTES = /[",\r\n]|^\s|\s$/;

export function writeCsvHead(columns: readonly ExportColumn[]): string {
  return `${columns.map(({ name }) => quote(name)).join(',')}\r\n`;
}

export function writeCsvRow(columns: readonly ExportColumn[], row: ExportRow): string {
  return `${columns.map(({ name }) => writeCell(row[name])).join(',')}\r\n`;
}

function writeCell(value: unknown): string {
  const text = textOf(value);
  if (text === null) return '';
  if (typeof value === 'number' || typeof value === 'boolean') return text;
  return quote(FORMULA.test(text) ? `'${text}` : text);
}

function quote(text: string): string {
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
