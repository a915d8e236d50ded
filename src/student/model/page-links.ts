/**
 * The links of a page, as a list that rules and marks can read: for example the link that the task names, and the link
 * to the next page. Reads HTML and Markdown. Pure; teaching and the student's thread.
 */

import { resolveAddress } from './addresses.ts';

/** A link with the text that people see, and `rel` where the page has it. `url`: the absolute address, if known. */
interface PageLink {
  text: string;
  href: string;
  url?: string;
  rel?: string;
}

/** Maximum number of links, and of characters of the page that are searched, of a text and of an address. */
const LINKS = 64;
const PAGE = 24_000;
const TEXT = 120;
const ADDRESS = 400;

const ANCHOR = /<a\s([^<>]{0,600})>([\s\S]{0,400}?)<\/a>/gi;
const ATTRIBUTE = /([a-z-]{1,20})\s*=\s*(?:"([^"]*)"|'([^']*)')/gi;
const MARKDOWN = /(?<!!)\[([^\][\n]{1,120})\]\(([^()\s]{1,400})\)/g;
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: ' ' };

/**
 * Reads the links of a page.
 * @param base address of the page; undefined: unknown
 */
export function readLinks(page: string, base: string | undefined): PageLink[] {
  const text = page.slice(0, PAGE);
  const found: PageLink[] = [];
  const add = (words: string, href: string | undefined, rel?: string): void => {
    if (href === undefined || href === '' || href.length > ADDRESS || found.length >= LINKS) return;
    const url = resolveAddress(href, base);
    found.push({
      text: words.slice(0, TEXT),
      href,
      ...(url === undefined ? {} : { url }),
      ...(rel === undefined ? {} : { rel }),
    });
  };
  if (text.includes('<a'))
    for (const [, head = '', inner = ''] of text.matchAll(ANCHOR)) {
      const attributes = new Map<string, string>();
      for (const [, name = '', double, single] of head.matchAll(ATTRIBUTE))
        attributes.set(name.toLowerCase(), decode(double ?? single ?? ''));
      add(readWords(inner), attributes.get('href'), attributes.get('rel'));
    }
  if (text.includes(']('))
    for (const [, words = '', href = ''] of text.matchAll(MARKDOWN)) add(words.trim(), href);
  return found;
}

function readWords(html: string): string {
  return decode(html.replace(/<[^>]{0,200}>/g, ' '))
    .replace(/\s+/g, ' ')
    .trim();
}

function decode(text: string): string {
  return text.replace(/&([a-z]{2,4});/g, (whole, name: string) => ENTITIES[name] ?? whole);
}
