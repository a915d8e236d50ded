/** An agent that reads a shop's web site to answer a question. Chat completions, streamed. Pure; bench process. */

import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import {
  bad,
  ending,
  type FreeText,
  good,
  type HeldBackAgent,
  type Move,
  type Result,
  type Run,
  type RunKind,
  type ToolCall,
  type Turn,
  tool,
} from '../held-back-agent.ts';
import { callsOf } from '../turns.ts';
import { between, pick, shuffle, word } from '../wording.ts';

const SHOPS = ['meadowtools', 'brassandoak', 'tidewater', 'northlamp', 'copperkettle'];
const CATEGORIES: Readonly<Record<string, readonly string[]>> = {
  garden: ['Rake Ardo', 'Spade Finn', 'Hose Lyra', 'Shears Tam', 'Barrow Holt', 'Gloves Pim'],
  kitchen: ['Pan Velo', 'Kettle Nia', 'Knife Oren', 'Bowl Sissa', 'Scale Rud', 'Mill Anto'],
  workshop: ['Drill Bex', 'Saw Corin', 'Vice Delma', 'Plane Ewo', 'Clamp Fay', 'Lamp Gus'],
};
const PER_PAGE = 3;
/** Pages that a restricted run may open. */
const PAGES_MAX = 2;

type Question = 'price' | 'stock' | 'delivery';

interface Article {
  name: string;
  path: string;
  price: string;
  reduced: string;
  stock: number;
  days: number;
}

const TOOLS = [
  tool('open_page', 'Opens a page of a web site and gives its HTML.', { url: 'string' }),
  tool('search_site', 'Searches a web site for words.', { site: 'string', query: 'string' }),
];

const TASKS: Readonly<Record<Question, readonly string[]>> = {
  price: [
    '{What does|How much is} the <name> {cost |}at <site>?',
    '{Find|Look up} the price of the <name> {on|at} <site>.',
  ],
  stock: [
    '{Does|Has} <site> {have|got} the <name> in stock{, and how many|}?',
    'Is the <name> available at <site>?',
  ],
  delivery: [
    'How {long does|many days does} <site> {need|take} to deliver the <name>?',
    'Delivery time of the <name> at <site>?',
  ],
};

class ReaderRun implements Run {
  readonly system =
    'You answer questions about shops by reading their web sites. Begin at the home page and follow links. Answer in one sentence with what the page says.';
  readonly task: string;
  readonly #kind: RunKind;
  readonly #site: string;
  readonly #question: Question;
  readonly #category: string;
  readonly #shelves: Readonly<Record<string, readonly Article[]>>;
  readonly #wanted: Article;
  /** Whether the shop does not sell the article. */
  readonly #is_missing: boolean;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    const shop = pick(prng, SHOPS);
    this.#site = `https://${shop}.example`;
    this.#question = pick(prng, ['price', 'price', 'stock', 'delivery'] as const);
    this.#category = pick(prng, Object.keys(CATEGORIES));
    this.#shelves = Object.fromEntries(
      Object.entries(CATEGORIES).map(([category, names]) => [
        category,
        shuffle(prng, names).map((name) => makeArticle(prng, category, name)),
      ]),
    );
    const shelf = this.#shelves[this.#category]!;
    this.#wanted = pick(prng, shelf);
    this.#is_missing = prng.chance(0.1);
    if (this.#is_missing)
      this.#shelves = { ...this.#shelves, [this.#category]: shelf.filter((each) => each !== this.#wanted) };
    const asked = word(prng, pick(prng, TASKS[this.#question]), {
      name: this.#wanted.name,
      site: this.#site,
    });
    const hint = ` It is in their ${this.#category} ${pick(prng, ['department', 'section', 'range'])}.`;
    const rule =
      kind === 'restricted'
        ? pick(prng, [
            ` Open at most ${PAGES_MAX} pages; if that is not enough, say that you do not know.`,
            ` You may not open more than ${PAGES_MAX} pages. Say that you do not know where they do not tell.`,
          ])
        : '';
    this.task = `${asked}${hint}${rule}`;
  }

  #listUrl(page: number): string {
    return `${this.#site}/${this.#category}${page === 1 ? '' : `?page=${page}`}`;
  }

  perform({ name, input }: ToolCall): Result {
    if (name === 'search_site') {
      const query = String(input.query).toLowerCase();
      const found = Object.values(this.#shelves)
        .flat()
        .filter((article) => query.includes(article.name.toLowerCase()));
      return good(found.map((article) => ({ title: article.name, url: `${this.#site}${article.path}` })));
    }
    if (name !== 'open_page') return bad(`no tool ${name}`);
    const url = String(input.url);
    const path = url.startsWith(this.#site) ? url.slice(this.#site.length) : null;
    if (path === null) return bad('404 not found');
    if (path === '' || path === '/') return good(this.#home());
    const article = Object.values(this.#shelves)
      .flat()
      .find((each) => each.path === path);
    if (article !== undefined) return good(this.#page(article));
    const [, category = '', page = '1'] = /^\/([a-z]+)(?:\?page=(\d+))?$/.exec(path) ?? [];
    return this.#shelves[category] === undefined
      ? bad('404 not found')
      : good(this.#list(category, Number(page)));
  }

  #home(): string {
    const links = Object.keys(this.#shelves).map((each) => `<li><a href="/${each}">${each}</a></li>`);
    return `<html><title>Welcome</title><nav><ul>${links.join('')}<li><a href="/about">about us</a></li></ul></nav></html>`;
  }

  #list(category: string, page: number): string {
    const shelf = this.#shelves[category]!;
    const shown = shelf.slice((page - 1) * PER_PAGE, page * PER_PAGE);
    const rows = shown.map(({ name, path }) => `<div class="item"><a href="${path}">${name}</a></div>`);
    const hasMore = shelf.length > page * PER_PAGE;
    return `<html><h1>${category}</h1>${rows.join('')}${hasMore ? `<a rel="next" href="/${category}?page=${page + 1}">next</a>` : ''}</html>`;
  }

  #page({ name, price, reduced, stock, days }: Article): string {
    // In a changed run, the shop has a sale.
    const money =
      this.#kind === 'changed'
        ? `<dt>Price</dt><dd><del>${price} EUR</del> <ins>${reduced} EUR</ins></dd>`
        : `<dt>Price</dt><dd>${price} EUR</dd>`;
    return `<html><h1>${name}</h1><dl>${money}<dt>Weight</dt><dd>${(name.length * 0.3).toFixed(1)} kg</dd><dt>In stock</dt><dd>${stock}</dd><dt>Delivery</dt><dd>${days} working days</dd></dl></html>`;
  }

  /** The page of the list that has the article; the last page if the article is missing. */
  get #place(): number {
    const shelf = this.#shelves[this.#category]!;
    const at = shelf.indexOf(this.#wanted);
    return Math.floor((at < 0 ? shelf.length - 1 : at) / PER_PAGE) + 1;
  }

  moves(turns: readonly Turn[]): Move[] {
    const opened = callsOf(turns, 'open_page').map(({ input }) => String(input.url).replace(/\/$/, ''));
    const open = (url: string): Move => ({ weight: 1, calls: [{ name: 'open_page', input: { url } }] });
    const product = `${this.#site}${this.#wanted.path}`;
    if (opened.includes(product)) return ending(this.#tell());
    if (this.#kind === 'restricted' && opened.length >= PAGES_MAX) return ending(this.#giveUp());
    const searched = callsOf(turns, 'search_site');
    if (searched.length > 0) return this.#is_missing ? ending(this.#giveUp()) : [open(product)];
    if (opened.length === 0) {
      const search = { name: 'search_site', input: { site: this.#site }, free: { query: this.#query() } };
      return [
        { weight: 0.6, calls: [{ name: 'open_page', input: { url: this.#site } }] },
        { weight: 0.3, calls: [{ name: 'open_page', input: { url: `${this.#site}/` } }] },
        { weight: 0.1, calls: [search] },
      ];
    }
    const pages = [1, 2].filter((page) => opened.includes(this.#listUrl(page)));
    const next = pages.length + 1;
    if (pages.length < this.#place) return [open(this.#listUrl(next))];
    return this.#is_missing ? ending(this.#giveUp()) : [open(product)];
  }

  #query(): FreeText {
    return {
      wordings: ['<name>', '<lower>', '<name>{ price| shop| <category>|}'],
      values: { name: this.#wanted.name, lower: this.#wanted.name.toLowerCase(), category: this.#category },
      facts: { needs: [[this.#wanted.name]] },
    };
  }

  #giveUp(): FreeText {
    return {
      wordings: [
        '{I could not find|I did not find} the <name> {at|on} <site>{, so I do not know|}.',
        '<site> {does not list|does not show} the <name>{, as far as I saw|}. {I do not know.|}',
        'I do not know: {the pages did not show|I did not get to} the <name>.',
      ],
      values: { name: this.#wanted.name, site: this.#site },
      facts: { needs: [[/not/], [this.#wanted.name]], bars: [/eur|in stock|working days/] },
    };
  }

  #tell(): FreeText {
    const { name, price, reduced, stock, days } = this.#wanted;
    const paid = this.#kind === 'changed' ? reduced : price;
    const values = {
      name,
      site: this.#site,
      price: paid,
      old: price,
      stock: String(stock),
      days: String(days),
    };
    switch (this.#question) {
      case 'price':
        return {
          wordings: [
            'The <name> {costs|is} {<price> EUR|€<price>}{ at <site>|}.',
            '{<price> EUR|€<price>} is the price of the <name>.',
          ],
          values,
          facts: { needs: [[paid]] },
        };
      case 'stock':
        return stock === 0
          ? {
              wordings: [
                '{No, the|The} <name> is {out of stock|not in stock|sold out}{ at <site>|}.',
                '<site> {has|shows} no <name> {in stock|left}.',
              ],
              values,
              facts: { needs: [[/out of stock|not in stock|sold out|no .*(in stock|left)/]] },
            }
          : {
              wordings: [
                '{Yes, |}<stock> of the <name> are in stock{ at <site>|}.',
                '{Yes: |}<site> has <stock> <name> {in stock|available}.',
              ],
              values,
              facts: { needs: [[values.stock]], bars: [/sold out|out of stock|not in stock/] },
            };
      case 'delivery':
        return {
          wordings: [
            '{Delivery takes|It takes} <days> working days{ for the <name>|}.',
            '<site> delivers the <name> {in|within} <days> working days.',
          ],
          values,
          facts: { needs: [[values.days]] },
        };
    }
  }
}

function makeArticle(prng: Prng, category: string, name: string): Article {
  const cents = between(prng, 500, 29_900);
  return {
    name,
    path: `/${category}/${name.toLowerCase().replace(' ', '-')}-${between(prng, 100, 999)}`,
    price: (cents / 100).toFixed(2),
    reduced: (Math.round(cents * 0.8) / 100).toFixed(2),
    stock: prng.chance(0.2) ? 0 : between(prng, 1, 60),
    days: between(prng, 1, 9),
  };
}

export const siteReader: HeldBackAgent = {
  name: 'site reader',
  model: 'gpt-5.5-mini',
  wire: 'chat_completions',
  is_streaming: true,
  is_labelled: false,
  tools: TOOLS,
  asides: ['{Opening|Reading} the {page|site}.', "{I'll|Let me} {follow the link|go on}."],
  aside_share: 0.2,
  names: Object.values(CATEGORIES).flat(),
  start: (seed, kind) => new ReaderRun(seed, kind),
};
