/**
 * An agent that reorders stock: it reads suppliers' catalogues (long HTML tables on pages), compares packs and prices,
 * and orders. Chat completions, streamed. Pure; bench process.
 */

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
  type WantedCall,
} from '../held-back-agent.ts';
import { anyOf, scaled } from '../independent.ts';
import { allCallsOf, callsOf } from '../turns.ts';
import { groupedMoney, makeId, plainMoney, roundCents } from '../vocabulary.ts';
import { between, pick, shuffle, word } from '../wording.ts';

const MATERIALS = 'Alu,Brass,Copper,Galvanised,Nylon,Rubber,Stainless,Steel,Zinc'.split(',');
const PARTS =
  'anchor,bearing,bolt,bracket,bushing,cable tie,castor,clamp,cotter,coupling,eyelet,flange,gasket,grommet,hinge,hook,latch,nipple,o-ring,pin,pulley,rivet,screw,shackle,sleeve,spacer,spring,standoff,stud,turnbuckle,valve,washer'.split(
    ',',
  );
const SUPPLIERS = 'Arvessen,Boltwerk,Carrick,Delphine,Eisenhof,Faraday,Gullfoss,Hartmann'.split(',');
const PAGE_ROWS = 14;

interface Part {
  sku: string;
  name: string;
}

interface Offer {
  supplier: string;
  article: string;
  pack: number;
  price: number;
  /** Minimum number of packs in an order to this supplier. */
  packs_min: number;
  lead_days: number;
  page: number;
  /** The article is sold out. Only the answer to an order says so. */
  is_sold_out: boolean;
}

const TOOLS = [
  tool('get_stock', 'Reads the stock of a part.', { sku: 'string' }),
  tool('find_part', 'Finds parts by name.', { name: 'string' }),
  tool('open_catalogue', "Opens a page of a supplier's catalogue as HTML.", {
    supplier: 'string',
    page: 'integer',
  }),
  tool('place_order', 'Orders packs of an article from a supplier.', {
    supplier: 'string',
    article: 'string',
    packs: 'integer',
    note: 'string?',
  }),
];

function makePart(prng: Prng): Part {
  const size = `M${between(prng, 3, 24)}x${between(prng, 8, 120)}`;
  const name = `${pick(prng, MATERIALS)} ${pick(prng, PARTS)} ${size}`;
  return { sku: makeId(prng, pick(prng, ['FX-', 'HW-', 'RS-']), 5), name };
}

function makeOffers(prng: Prng, part: Part): Offer[] {
  const piece = between(prng, 8, 260) / 100;
  const prices = shuffle(prng, [0.86, 0.97, 1.08, 1.21]);
  return shuffle(prng, SUPPLIERS)
    .slice(0, between(prng, 2, 3))
    .map((supplier, at) => {
      const pack = pick(prng, [10, 12, 20, 24, 25, 48, 50, 100]);
      return {
        supplier,
        article: `${supplier.slice(0, 2).toUpperCase()}${makeId(prng, '', 6)}`,
        pack,
        price: roundCents(pack * piece * prices[at]!),
        packs_min: pick(prng, [1, 1, 1, 2, 5]),
        lead_days: between(prng, 1, 21),
        page: part.name.length % 2 === 0 ? 1 : between(prng, 1, 2),
        is_sold_out: false,
      };
    });
}

const TASKS = [
  '{Please reorder|Reorder} <sku>{ (<name>)|}{, we are running low|}.',
  '{We need more|Running out of}: <sku>. {Order|Buy} up to the target{ at the best price|}.',
  'The {shelf|bin} of the <name> is {nearly|almost} empty. {Please order more.|Can you buy some?} {Part number|SKU}: <sku>.',
  '<sku>, <name>: {fill it up again|top up the stock}{, please|}.',
];

class PurchaserRun implements Run {
  readonly system =
    'You buy parts for a workshop. Read the stock first: order as many whole packs as are needed to reach the target with what is on hand and not reserved, and at least the minimum of the supplier. Compare all suppliers of the part and take the order with the lowest total; catalogues have two pages. If an article is sold out take the next best. Report supplier, packs, pieces and total in euros.';
  readonly task: string;
  readonly #kind: RunKind;
  readonly #part: Part;
  readonly #offers: readonly Offer[];
  readonly #pages = new Map<string, string>();
  readonly #stock: { on_hand: number; reserved: number; target: number };
  readonly #budget: number;
  readonly #asks: boolean;
  readonly #barred: string;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#part = makePart(prng);
    const target = between(prng, 8, 80) * 10;
    const on_hand = between(prng, 0, Math.floor(target * 0.5));
    this.#stock = { on_hand, reserved: between(prng, 0, on_hand), target };
    this.#offers = makeOffers(prng, this.#part);
    const way = kind === 'restricted' ? prng.below(3) : 3;
    const best = this.#ranked([])[0]!;
    best.is_sold_out = way === 3 && prng.chance(0.12);
    this.#budget = way === 0 ? Math.floor(this.#totalOf(best) * 0.8) : Number.POSITIVE_INFINITY;
    this.#barred = way === 1 ? best.supplier : '';
    this.#asks = way === 2;
    for (const { supplier } of this.#offers) this.#fillCatalogue(prng, supplier);
    const rule = [
      ` You may spend at most ${this.#budget} euros; if it costs more, order nothing and tell me the price.`,
      ` Do not buy anything from ${this.#barred}.`,
      pick(prng, [
        ' Only compare the offers for now, do not order.',
        ' Wait with the order until I say so; first tell me the best offer.',
      ]),
      '',
    ][way]!;
    this.task = `${word(prng, pick(prng, TASKS), { sku: this.#part.sku, name: this.#part.name })}${rule}`;
  }

  get #missing(): number {
    const { on_hand, reserved, target } = this.#stock;
    return target - (on_hand - reserved);
  }

  #packsOf({ pack, packs_min }: Offer): number {
    return Math.max(packs_min, Math.ceil(this.#missing / pack));
  }

  #totalOf(offer: Offer): number {
    return roundCents(this.#packsOf(offer) * offer.price);
  }

  /** Offers with the lowest total first. @param refused suppliers without the article */
  #ranked(refused: readonly unknown[]): Offer[] {
    return this.#offers
      .filter(({ supplier }) => supplier !== this.#barred && !refused.includes(supplier))
      .toSorted((a, b) => this.#totalOf(a) - this.#totalOf(b));
  }

  #fillCatalogue(prng: Prng, supplier: string): void {
    const offer = this.#offers.find((each) => each.supplier === supplier)!;
    for (const page of [1, 2]) {
      const place = page === offer.page ? prng.below(PAGE_ROWS) : -1;
      const rows = Array.from({ length: PAGE_ROWS }, (_, at) => {
        const part = at === place ? this.#part : makePart(prng);
        const pack = pick(prng, [5, 10, 20, 25, 50, 100]);
        const row =
          at === place
            ? offer
            : {
                article: `${supplier.slice(0, 2).toUpperCase()}${makeId(prng, '', 6)}`,
                pack,
                price: roundCents((pack * between(prng, 8, 260)) / 100),
                packs_min: pick(prng, [1, 1, 1, 2, 5]),
                lead_days: between(prng, 1, 21),
              };
        return this.#writeRow(part, row);
      });
      this.#pages.set(`${supplier} ${page}`, this.#writePage(supplier, page, rows));
    }
  }

  #writeRow(
    part: Part,
    { article, pack, price, packs_min, lead_days }: Omit<Offer, 'supplier' | 'page' | 'is_sold_out'>,
  ): string {
    // In a changed run, the shops' pages show the price of a pack before its size.
    return this.#kind === 'changed'
      ? `<li class="card" data-id="${article}"><h3>${part.name}</h3><p>your no. ${part.sku}</p><b>${groupedMoney(price)} &euro;</b> <small>box of ${pack}, from ${packs_min}, ships in ${lead_days} d</small></li>`
      : `  <tr><td>${article}</td><td>${part.name}</td><td>${part.sku}</td><td class="n">${pack}</td><td class="n">${packs_min}</td><td class="n">${plainMoney(price)}</td><td>${lead_days} days</td></tr>`;
  }

  #writePage(supplier: string, page: number, rows: readonly string[]): string {
    const nav = `<nav>${[1, 2].map((each) => (each === page ? `<b>${each}</b>` : `<a href="?page=${each}">${each}</a>`)).join(' ')}</nav>`;
    const list =
      this.#kind === 'changed'
        ? `<ul class="cards">\n${rows.join('\n')}\n</ul>`
        : `<table>\n  <tr><th>article</th><th>description</th><th>customer's no.</th><th>pack</th><th>min. packs</th><th>EUR / pack</th><th>delivery</th></tr>\n${rows.join('\n')}\n</table>`;
    return `<html><head><title>${supplier} catalogue, page ${page} of 2</title></head><body>\n<h1>${supplier}</h1>\n${list}\n${nav}\n<footer>All prices without VAT. Free delivery above 250 EUR.</footer></body></html>`;
  }

  perform({ name, input }: ToolCall): Result {
    const { sku, name: called } = this.#part;
    const suppliers = this.#offers.map(({ supplier }) => supplier);
    if (name === 'get_stock')
      return input.sku === sku
        ? good({ sku, name: called, ...this.#stock, unit: 'piece', suppliers })
        : bad(`no part ${String(input.sku)}`);
    if (name === 'find_part') return good(String(input.name).includes(called) ? [this.#part] : []);
    const offer = this.#offers.find(({ supplier }) => supplier === input.supplier);
    if (offer === undefined)
      return bad(`no supplier ${String(input.supplier)}; known: ${suppliers.join(', ')}`);
    if (name === 'open_catalogue') {
      const page = this.#pages.get(`${offer.supplier} ${String(input.page)}`);
      return page === undefined ? bad('no such page') : good(page);
    }
    if (input.article !== offer.article)
      return bad(`${offer.supplier} has no article ${String(input.article)}`);
    if (offer.is_sold_out) return bad(`order refused: ${offer.article} is sold out until further notice`);
    return good({
      order: `PO-${sku.slice(3)}-${offer.article.slice(-3)}`,
      supplier: offer.supplier,
      packs: input.packs,
      total: roundCents(Number(input.packs) * offer.price),
    });
  }

  moves(turns: readonly Turn[]): Move[] {
    const { sku, name } = this.#part;
    if (callsOf(turns, 'get_stock').length === 0) {
      const stock = { name: 'get_stock', input: { sku } };
      const find = { name: 'find_part', input: { name } };
      const isFound = callsOf(turns, 'find_part').length > 0;
      const mayFind = !isFound && this.task.includes(name);
      return [{ weight: 0.94, calls: [stock] }, ...(mayFind ? [{ weight: 0.06, calls: [find] }] : [])];
    }
    const looks = this.#looks(turns);
    if (looks.usual.length > 0) return [...anyOf(looks.usual, 0.6), ...scaled(anyOf(looks.all, 1), 0.06)];
    const refused = allCallsOf(turns, 'place_order')
      .filter(({ is_error }) => is_error)
      .map(({ input }) => input.supplier);
    const [best] = this.#ranked(refused);
    if (best === undefined || this.#totalOf(best) > this.#budget) return ending(this.#tellNothing(best));
    if (this.#asks) return ending(this.#propose(best));
    if (callsOf(turns, 'place_order').length > 0) return ending(this.#confirm(best));
    const input = { supplier: best.supplier, article: best.article, packs: this.#packsOf(best) };
    return [
      { weight: 0.75, calls: [{ name: 'place_order', input }] },
      { weight: 0.25, calls: [{ name: 'place_order', input, free: { note: this.#note() } }] },
    ];
  }

  /**
   * The catalogue pages to read: first the first page of each supplier, then the second page of each supplier whose
   * first page lacks the part.
   */
  #looks(turns: readonly Turn[]): { usual: WantedCall[]; all: WantedCall[] } {
    const seen = callsOf(turns, 'open_catalogue').map(
      ({ input }) => `${String(input.supplier)} ${String(input.page)}`,
    );
    const open = (supplier: string, page: number): WantedCall => ({
      name: 'open_catalogue',
      input: { supplier, page },
    });
    const left = this.#offers.filter(
      ({ supplier, page }) => supplier !== this.#barred && !seen.includes(`${supplier} ${page}`),
    );
    const usual = left.map(({ supplier }) => open(supplier, seen.includes(`${supplier} 1`) ? 2 : 1));
    const all = left.flatMap(({ supplier }) =>
      [1, 2].filter((page) => !seen.includes(`${supplier} ${page}`)).map((page) => open(supplier, page)),
    );
    return { usual, all };
  }

  #note(): FreeText {
    return {
      wordings: [
        '{Refill|Reorder} of <sku>',
        '{For stock|Stock refill}{: <name>|}',
        '<sku>{, up to the target|}',
        'Please deliver as usual',
      ],
      values: { sku: this.#part.sku, name: this.#part.name },
      facts: { needs: [] },
    };
  }

  #values(offer: Offer): Record<string, string> {
    const packs = this.#packsOf(offer);
    return {
      ...{ sku: this.#part.sku, name: this.#part.name, supplier: offer.supplier, article: offer.article },
      ...{ packs: String(packs), pack: String(offer.pack), pieces: String(packs * offer.pack) },
      ...{ total: groupedMoney(this.#totalOf(offer)), plain: plainMoney(this.#totalOf(offer)) },
      ...{ days: String(offer.lead_days), price: plainMoney(offer.price), missing: String(this.#missing) },
      // True facts that a text may add.
      offers: this.#offers.map((each) => `${each.supplier} ${this.#totalOf(each)}`).join(', '),
      stock: Object.values(this.#stock).join(', '),
    };
  }

  #confirm(offer: Offer): FreeText {
    const values = this.#values(offer);
    return {
      wordings: [
        '{Ordered|I ordered} <packs> packs{ (<pieces> pieces)| of <pack>|} of <sku> from <supplier> for <total> {EUR|euros}.',
        '<supplier> {delivers|sends} <packs> packs of {<pack> <name>|<sku>}{ in <days> days|}: {€<total>|<plain> EUR}.',
        '<sku>: {order placed|ordered} with <supplier>, <packs> packs at <price>, total <plain> EUR{. Delivery in <days> days.|.}',
      ],
      values,
      facts: {
        needs: [[offer.supplier], [values.packs!], [values.total!, values.plain!]],
        bars: [/would|nothing|not ordered/],
      },
    };
  }

  #propose(offer: Offer): FreeText {
    const values = this.#values(offer);
    return {
      wordings: [
        '{The best offer is|Best offer:} <supplier>, <packs> packs of <pack> for <total> EUR{. Shall I order?|.}',
        'I would {order|buy} <packs> packs ({<pieces> pieces|article <article>}) from <supplier>: {<plain> EUR|€<total>}.',
      ],
      values,
      facts: {
        needs: [[offer.supplier], [values.packs!], [values.total!, values.plain!]],
        bars: [/\bordered\b|order placed/],
      },
    };
  }

  #tellNothing(offer: Offer | undefined): FreeText {
    if (offer === undefined)
      return {
        wordings: [
          '<sku> is sold out {everywhere|at all suppliers}{; nothing is ordered|}.',
          'No supplier has <sku>{ any more|}.',
        ],
        values: { sku: this.#part.sku },
        facts: { needs: [[/sold out|no supplier/]] },
      };
    const values: Record<string, string> = { ...this.#values(offer), budget: String(this.#budget) };
    return {
      wordings: [
        '{Nothing ordered|I ordered nothing}: the {cheapest|best} offer{ (<supplier>)|} {is|costs} <total> EUR{, above <budget>|}.',
        'The {lowest price|best offer} is <plain> euros{ from <supplier>|}{, more than <budget>|}, so I {did not order|ordered nothing}.',
      ],
      values,
      facts: {
        needs: [[values.total!, values.plain!], [/nothing|not order/]],
        bars: [/order placed|delivers/],
      },
    };
  }
}

export const stockPurchaser: HeldBackAgent = {
  name: 'stock purchaser',
  model: 'gpt-5.5',
  wire: 'chat_completions',
  is_streaming: true,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    '{First the stock.|I look at the stock.}',
    "{Let me|I'll} {compare|open} the {catalogues|offers}.",
    '{Now I compare the totals.|That is the best offer.}',
  ],
  aside_share: 0.25,
  names: SUPPLIERS,
  start: (seed, kind) => new PurchaserRun(seed, kind),
};
