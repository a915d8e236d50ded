/**
 * Texts as they are meant: Markdown laid out, JSON indented; raw at the reader's wish. Nothing in a text becomes markup: each
 * part of it is an element of this file with text in it, links have no target, and images and HTML stay text. Browser.
 */
import { signal } from '@preact/signals';
import { Lexer, type Token, type Tokens } from 'marked';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { LongText } from './long-text.tsx';

/** Texts as they were sent, everywhere on the page. */
export const isRaw = signal(false);

/** A longer text stays as it is. */
const MOST_CHARACTERS = 100_000;
/** Nested deeper, a part stays as it is. */
const MOST_LEVELS = 12;

/** What people and models say, which is mostly Markdown. */
export function ProseText({ text, lines }: { text: string; lines?: number }) {
  const isPlain =
    isRaw.value || text.length > MOST_CHARACTERS || !/[*_`#|>[\]]|^\s*(?:[-+]|\d+[.)])\s/m.test(text);
  const more = lines === undefined ? {} : { lines };
  return <LongText text={text} {...more} {...(isPlain ? {} : { draw: drawMarkdown })} />;
}

/** What tools take and give, which is often JSON. */
export function DataText({ text }: { text: string }) {
  const laid = useMemo(() => indentJson(text), [text]);
  return <LongText text={isRaw.value ? text : laid} kind="code" />;
}

/** What TypeScript does not know yet; an older browser has neither. */
const { rawJSON } = JSON as { rawJSON?: (text: string) => unknown };

/** A number as it was written, where the browser tells. */
function keepDigits(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  return typeof value === 'number' && source !== undefined && rawJSON !== undefined ? rawJSON(source) : value;
}

/** A text that is no JSON comes back as it is, and so does one whose digits would be lost. */
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
      // The page's own headings are its outline.
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
