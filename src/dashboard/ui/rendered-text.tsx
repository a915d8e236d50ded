/**
 * Renders Markdown and indents JSON, or shows the raw text if the reader prefers. Text never becomes markup:
 * each part is put as text into an element of this file, links have no target, and images and HTML stay text.
 * Browser.
 */
import { signal } from '@preact/signals';
import { Lexer, type Token, type Tokens } from 'marked';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { LongText } from './long-text.tsx';

/** Whether the whole page shows texts unrendered. */
export const isRaw = signal(false);

/** A longer text is not rendered. */
const MOST_CHARACTERS = 100_000;
/** A part that is nested deeper is not rendered. */
const MOST_LEVELS = 12;

/** Texts of people and models, which are mostly Markdown. */
export function ProseText({ text, lines }: { text: string; lines?: number }) {
  const isPlain =
    isRaw.value || text.length > MOST_CHARACTERS || !/[*_`#|>[\]]|^\s*(?:[-+]|\d+[.)])\s/m.test(text);
  const more = lines === undefined ? {} : { lines };
  return <LongText text={text} {...more} {...(isPlain ? {} : { draw: drawMarkdown })} />;
}

/** Inputs and results of tools, which are often JSON. */
export function DataText({ text }: { text: string }) {
  const laid = useMemo(() => indentJson(text), [text]);
  return <LongText text={isRaw.value ? text : laid} kind="code" />;
}

/** A new function that TypeScript does not know yet. undefined in older browsers, which lack it. */
const { rawJSON } = JSON as { rawJSON?: (text: string) => unknown };

/** Keeps the original form of a number, if the browser provides it. Other values stay as they are. */
function keepDigits(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  return typeof value === 'number' && source !== undefined && rawJSON !== undefined ? rawJSON(source) : value;
}

/**
 * Indents a JSON object or list. Any other text, a text longer than MOST_CHARACTERS, and a text whose numbers would
 * lose digits are returned unchanged.
 */
function indentJson(text: string): string {
  if (!/^\s*[[{]/.test(text) || text.length > MOST_CHARACTERS) return text;
  if (rawJSON === undefined && /\d{16}|\d[.eE]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text, keepDigits), null, 2);
  } catch {
    return text;
  }
}

function drawMarkdown(text: string): ComponentChildren {
  let tokens: Token[];
  try {
    tokens = Lexer.lex(text);
  } catch {
    return text;
  }
  return drawAll(tokens, 0);
}

function drawAll(tokens: readonly Token[], level: number): ComponentChildren {
  return tokens.map((token, at) => <Part key={at} token={token} level={level} />);
}

function Part({ token, level }: { token: Token; level: number }) {
  if (level > MOST_LEVELS) return <span>{token.raw}</span>;
  const inside = () => drawAll((token as Tokens.Generic).tokens ?? [], level + 1);
  switch (token.type) {
    case 'space':
      return null;
    case 'heading':
      // A heading in a text becomes a paragraph, because only the page's own headings belong to the outline of the
      // page.
      return <p class="md-heading">{inside()}</p>;
    case 'paragraph':
      return <p>{inside()}</p>;
    case 'blockquote':
      return <blockquote>{inside()}</blockquote>;
    case 'hr':
      return <hr />;
    case 'code':
      return <pre>{token.text}</pre>;
    case 'list':
      return <List list={token as Tokens.List} level={level} />;
    case 'table':
      return <TableView table={token as Tokens.Table} level={level} />;
    case 'strong':
      return <strong>{inside()}</strong>;
    case 'em':
      return <em>{inside()}</em>;
    case 'del':
      return <del>{inside()}</del>;
    case 'codespan':
      return <code>{token.text}</code>;
    case 'br':
      return <br />;
    case 'link':
      return token.text === token.href ? (
        <span>{token.raw}</span>
      ) : (
        <span>
          {inside()} ({token.href})
        </span>
      );
    case 'checkbox':
      return <span>{token.checked ? '☑ ' : '☐ '}</span>;
    case 'escape':
      return <span>{token.text}</span>;
    case 'text':
      return token.tokens === undefined ? <span>{token.raw}</span> : <span>{inside()}</span>;
    default:
      return <span>{token.raw}</span>;
  }
}

function List({ list, level }: { list: Tokens.List; level: number }) {
  const items = list.items.map((item, at) => <li key={at}>{drawAll(item.tokens, level + 1)}</li>);
  return list.ordered ? <ol start={list.start === '' ? 1 : list.start}>{items}</ol> : <ul>{items}</ul>;
}

function TableView({ table: { header, rows }, level }: { table: Tokens.Table; level: number }) {
  return (
    <table class="kept md-table">
      <thead>
        <tr>
          {header.map((cell, at) => (
            <th key={at}>{drawAll(cell.tokens, level + 1)}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          <tr key={at}>
            {row.map((cell, place) => (
              <td key={place}>{drawAll(cell.tokens, level + 1)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
