/**
 * The guides of `docs/` as pages under `/docs/guides`: Markdown made into HTML at the first request. They
 * have no scripts, and load nothing from other hosts. Server threads.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Marked, type Tokens } from 'marked';
import { endpoint } from '../contract/endpoint.ts';
import type { ApiReply, ApiRoute } from '../contract/route.ts';
import { escapeHtml, PAGE_STYLE, pageReply } from './page.ts';

/** The path under which the guides are served. */
const ROOT = '/docs/guides';

/** The guide that lists the other guides. */
const INDEX = 'README';

interface Guide {
  /** The file's name without `.md`. */
  name: string;
  title: string;
  markdown: string;
}

interface Heading {
  id: string;
  depth: number;
  html: string;
}

/** Returns the folder `docs/`. From this module, it is one level further up in the built tree. */
function findGuides(): URL {
  const isBuilt = import.meta.url.endsWith('.js');
  return new URL(isBuilt ? '../../../docs/' : '../../docs/', import.meta.url);
}

/** Makes one route per guide; none if the folder is missing. */
export function guideRoutes(folder: URL = findGuides()): ApiRoute[] {
  if (!existsSync(folder)) return [];
  const read = readdirSync(folder)
    .filter((file) => file.endsWith('.md'))
    .sort()
    .map((file): Guide => {
      const markdown = readFileSync(new URL(file, folder), 'utf8');
      const title = /^# (.+)$/m.exec(markdown)?.[1] ?? basename(file, '.md');
      return { name: basename(file, '.md'), title, markdown };
    });
  const guides = sortAsTold(read);
  return guides.map((guide) => {
    let reply: ApiReply | null = null;
    return {
      endpoint: endpoint({
        id: `guide_${guide.name.replace(/\W/g, '_')}`,
        method: 'GET',
        path: addressOf(guide.name),
        auth: 'open',
        summary: 'A guide',
        tag: 'service',
        replies: { 200: { description: 'A page', media_type: 'text/html' } },
        hidden: true,
      }),
      handle: () => {
        reply ??= pageReply(renderGuide(guide, guides));
        return reply;
      },
    };
  });
}

/** Sorts the guides in the order in which docs/README.md lists them. */
function sortAsTold(guides: readonly Guide[]): Guide[] {
  const told = guides.find(({ name }) => name === INDEX)?.markdown ?? '';
  const placeOf = ({ name }: Guide) => {
    const at = told.indexOf(`(${name}.md)`);
    return name === INDEX ? -1 : at < 0 ? Number.POSITIVE_INFINITY : at;
  };
  return guides.toSorted((a, b) => {
    const [before, behind] = [placeOf(a), placeOf(b)];
    return before === behind ? 0 : before - behind;
  });
}

function addressOf(name: string): string {
  return name === INDEX ? ROOT : `${ROOT}/${name}`;
}

function renderGuide(guide: Guide, all: readonly Guide[]): string {
  const names = new Set(all.map(({ name }) => name));
  const { html, headings } = renderMarkdown(guide.markdown, names);
  const others = all.map(({ name, title }) => {
    const here = name === guide.name ? ' aria-current="page"' : '';
    return `<li><a href="${addressOf(name)}"${here}>${escapeHtml(title)}</a></li>`;
  });
  const parts = headings
    .filter(({ depth }) => depth === 2)
    .map(({ id, html: title }) => `<li><a href="#${id}">${title}</a></li>`);
  const contents = parts.length < 2 ? '' : `<p>On this page</p><ul>${parts.join('\n')}</ul>`;
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(guide.title)} · Understudy</title><style>${PAGE_STYLE}</style>
<main class="guide">
<p class="faint"><a href="/">Dashboard</a> · <a href="/docs">API</a> · <a href="${ROOT}">All guides</a></p>
${html}
</main>
<nav aria-label="Guides">
${contents}
<p>Guides</p><ul>${others.join('\n')}</ul></nav>
</html>
`;
}

/**
 * Renders Markdown as HTML, and lists its headings.
 * @param names guides to which a link may lead; a link to another file becomes its text and the file's path
 */
function renderMarkdown(markdown: string, names: ReadonlySet<string>): { html: string; headings: Heading[] } {
  const headings: Heading[] = [];
  const taken = new Map<string, number>();
  const marked = new Marked({
    renderer: {
      // The guides contain no HTML; anything that looks like HTML is a word in angle brackets.
      html: ({ text }) => escapeHtml(text),
      code: ({ text }) => `<pre tabindex="0">${escapeHtml(text)}</pre>\n`,
      heading({ tokens, depth }: Tokens.Heading) {
        const html = this.parser.parseInline(tokens);
        const slug = slugOf(this.parser.parseInline(tokens, this.parser.textRenderer));
        const times = taken.get(slug) ?? 0;
        taken.set(slug, times + 1);
        const id = times === 0 ? slug : `${slug}-${times}`;
        headings.push({ id, depth, html: html.replace(/<\/?a\b[^>]*>/g, '') });
        return `<h${depth} id="${id}">${html}</h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const html = this.parser.parseInline(tokens);
        const address = resolveLink(href, names);
        if (address !== null) return `<a href="${escapeHtml(address)}">${html}</a>`;
        const path = href.replace(/^(\.\.\/)+/, '').replace(/#.*/, '');
        const shown = html.includes(path) ? '' : ` <small>(<code>${escapeHtml(path)}</code>)</small>`;
        return `${html}${shown}`;
      },
      image: ({ text }) => escapeHtml(text),
    },
  });
  return { html: marked.parse(markdown, { async: false }), headings };
}

/** Makes GitHub's anchor for a title, which the guides use in links. */
function slugOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\s-]/g, '')
    .replaceAll(' ', '-');
}

/** Finds the address to which a link leads; null: the link leads to a file that is not served. */
function resolveLink(href: string, names: ReadonlySet<string>): string | null {
  if (/^(https?:|#)/.test(href)) return href;
  const [, name = '', heading = ''] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? [];
  return names.has(name) ? addressOf(name) + heading : null;
}
