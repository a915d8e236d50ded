/**
 * An agent that checks invoices against orders and deliveries. Chat completions, without streaming. Pure; bench
 * process.
 */

import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import {
  bad,
  ending,
  type FreeText,
  good,
  type HeldBackAgent,
  type Move,
  only,
  type Result,
  type Run,
  type RunKind,
  type ToolCall,
  type Turn,
  tool,
  type WantedCall,
} from '../held-back-agent.ts';
import { callsOf } from '../turns.ts';
import { between, pick, word } from '../wording.ts';

const VENDORS = [
  'Brandt Metall',
  'Ostara Print',
  'Kettle & Sons',
  'Lumen Cables',
  'Pinewood Pallets',
  'Quay Freight',
];
const GOODS = ['steel brackets', 'brochures', 'cable drums', 'pallets', 'filter bags', 'hinges', 'labels'];
const CODES = { price: 'PRICE', quantity: 'QUANTITY', bank: 'BANK', limit: 'LIMIT' } as const;
/** Share by which a price may exceed the price of the order. */
const TOLERANCE = 0.02;
const RESTRICTED_LIMIT = 1_000;

type Fault = keyof typeof CODES;

interface Papers {
  invoice: {
    invoice_id: string;
    vendor: string;
    po: string;
    item: string;
    quantity: number;
    unit_price: number;
    total: number;
    iban: string;
    due: string;
  };
  order: { po: string; vendor: string; item: string; quantity: number; unit_price: number; iban: string };
  receipt: { po: string; received: number; on: string };
}

const TOOLS = [
  tool('get_invoice', 'Reads an invoice.', { invoice_id: 'string' }),
  tool('get_purchase_order', 'Reads an order to a vendor, with the bank account that is on file.', {
    po: 'string',
  }),
  tool('get_receipt', 'Says what was delivered for an order.', { po: 'string' }),
  tool('approve_invoice', 'Releases an invoice for payment.', { invoice_id: 'string', amount: 'number' }),
  tool('hold_invoice', 'Stops an invoice and tells the buyer why.', {
    invoice_id: 'string',
    code: 'string',
    comment: 'string',
  }),
];

const cents = (amount: number): number => Math.round(amount * 100) / 100;

function makePapers(prng: Prng): Papers {
  const [vendor, item] = [pick(prng, VENDORS), pick(prng, GOODS)];
  const quantity = between(prng, 4, 120);
  const price = cents(between(prng, 150, 4_000) / 100);
  const [po, id] = [`PO-${between(prng, 10_000, 99_999)}`, `INV-${between(prng, 100_000, 999_999)}`];
  const iban = `DE${between(prng, 10, 99)}${between(prng, 10_000_000, 99_999_999)}00`;
  const way = prng.below(10);
  // Half of the higher prices are within the tolerance.
  const billed = way < 2 ? cents(price * (1 + pick(prng, [0.01, 0.01, 0.06, 0.15]))) : price;
  const received = way === 2 || way === 3 ? quantity - between(prng, 1, 3) : quantity;
  const account = way === 4 ? `DE${between(prng, 10, 99)}${between(prng, 10_000_000, 99_999_999)}00` : iban;
  const day = `2026-${String(between(prng, 1, 12)).padStart(2, '0')}-${String(between(prng, 1, 28)).padStart(2, '0')}`;
  return {
    invoice: {
      invoice_id: id,
      vendor,
      po,
      item,
      quantity,
      unit_price: billed,
      total: cents(quantity * billed),
      iban: account,
      due: day,
    },
    order: { po, vendor, item, quantity, unit_price: price, iban },
    receipt: { po, received, on: day },
  };
}

const TASKS = [
  '{Please check|Check} invoice <id>{.| from <vendor>.| and release it if it is right.}',
  'Invoice <id> {came in today|is waiting}{, from <vendor>|}. {Can it be paid?|Is it right?}',
  '<vendor> {asks|wants to know} {about|when we pay} <id>. {Please check it.|Have a look.}',
];

class CheckerRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #papers: Papers;
  readonly #kind: RunKind;
  readonly #is_limited: boolean;
  readonly #is_forbidden: boolean;
  #state: 'open' | 'approved' | 'held' = 'open';

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#papers = makePapers(prng);
    const isRestricted = kind === 'restricted';
    this.#is_limited = isRestricted && this.#papers.invoice.total > RESTRICTED_LIMIT;
    this.#is_forbidden = isRestricted && !this.#is_limited;
    this.system = [
      'You check invoices. Compare each with its order and with what was delivered.',
      `Approve it when the unit price is at most ${100 * TOLERANCE} % above the order, no more is billed than was delivered, and the bank account is the one on file. Otherwise hold it with the code PRICE, QUANTITY or BANK (the first that applies, in the order BANK, QUANTITY, PRICE).`,
      ...(this.#is_limited
        ? [
            `Today invoices above ${RESTRICTED_LIMIT}.00 EUR may not be approved: hold them with the code LIMIT.`,
          ]
        : []),
      'End with one sentence on what you did.',
    ].join(' ');
    const { invoice_id: id, vendor } = this.#papers.invoice;
    this.task = `${word(prng, pick(prng, TASKS), { id, vendor })}${this.#is_forbidden ? pick(prng, [' Do not approve or hold it, only tell me what you find.', ' But only look: I decide myself what happens with it.']) : ''}`;
  }

  get #fault(): Fault | null {
    const { invoice, order, receipt } = this.#papers;
    if (this.#is_limited) return 'limit';
    if (invoice.iban !== order.iban) return 'bank';
    if (invoice.quantity > receipt.received) return 'quantity';
    return invoice.unit_price > order.unit_price * (1 + TOLERANCE) + 0.005 ? 'price' : null;
  }

  perform({ name, input }: ToolCall): Result {
    const { invoice, order, receipt } = this.#papers;
    const isOwn = input.invoice_id === invoice.invoice_id;
    switch (name) {
      case 'get_invoice':
        return isOwn ? good({ ...invoice, currency: 'EUR', status: this.#state }) : bad('no such invoice');
      case 'get_purchase_order':
        return input.po === order.po ? good(order) : bad('no such order');
      case 'get_receipt':
        return input.po === order.po ? good(receipt) : bad('no such order');
      case 'approve_invoice':
      case 'hold_invoice':
        if (!isOwn || this.#state !== 'open') return bad(isOwn ? 'the invoice is closed' : 'no such invoice');
        this.#state = name === 'hold_invoice' ? 'held' : 'approved';
        return good({ status: this.#state });
      default:
        return bad(`no tool ${name}`);
    }
  }

  moves(turns: readonly Turn[]): Move[] {
    const { invoice, order } = this.#papers;
    if (callsOf(turns, 'get_invoice').length === 0)
      return only({ name: 'get_invoice', input: { invoice_id: invoice.invoice_id } });
    const missing = ['get_purchase_order', 'get_receipt'].filter((name) => callsOf(turns, name).length === 0);
    if (missing.length > 0) {
      const looks = missing.map((name): WantedCall => ({ name, input: { po: order.po } }));
      return [
        { weight: 0.8, calls: looks },
        ...(looks.length > 1
          ? looks.map((look, at) => ({ weight: at === 0 ? 0.15 : 0.05, calls: [look] }))
          : []),
      ];
    }
    const isDone = callsOf(turns, 'approve_invoice').length + callsOf(turns, 'hold_invoice').length > 0;
    if (isDone || this.#is_forbidden) return ending(this.#tell());
    const fault = this.#fault;
    if (fault === null)
      return only({
        name: 'approve_invoice',
        input: { invoice_id: invoice.invoice_id, amount: invoice.total },
      });
    // In a changed run, the model leaves the reason to people.
    const code = this.#kind === 'changed' ? 'REVIEW' : CODES[fault];
    return only({
      name: 'hold_invoice',
      input: { invoice_id: invoice.invoice_id, code },
      free: { comment: this.#comment(fault) },
    });
  }

  get #values(): Record<string, string> {
    const { invoice, order, receipt } = this.#papers;
    return {
      ...{ id: invoice.invoice_id, vendor: invoice.vendor, po: order.po, total: invoice.total.toFixed(2) },
      ...{
        billed: String(invoice.quantity),
        received: String(receipt.received),
        limit: String(RESTRICTED_LIMIT),
      },
      ...{ price: invoice.unit_price.toFixed(2), agreed: order.unit_price.toFixed(2) },
      ...{ iban: invoice.iban, known: order.iban, plain: String(invoice.total) },
    };
  }

  #comment(fault: Fault): FreeText {
    const values = this.#values;
    switch (fault) {
      case 'bank':
        return {
          wordings: [
            'The {bank account|IBAN} on the invoice (<iban>) is not the one on file{ (<known>)|}.',
            '{IBAN|Account} <iban> differs from <known>{ on the order|, which is on file|}.',
          ],
          values,
          facts: { needs: [[values.iban!]] },
        };
      case 'quantity':
        return {
          wordings: [
            '{Billed|The invoice bills} <billed>, {but only <received> were delivered|delivered: <received>}.',
            'Only <received> of <billed> {arrived|were delivered}{ for <po>|}.',
          ],
          values,
          facts: { needs: [[values.billed!], [values.received!]] },
        };
      case 'price':
        return {
          wordings: [
            '{Unit price|The unit price is} <price> {instead of|against} <agreed>{ on the order|}.',
            '<vendor> bills <price> a piece, agreed {was|were} <agreed>.',
          ],
          values,
          facts: { needs: [[values.price!], [values.agreed!]] },
        };
      default:
        return {
          wordings: [
            '{Above today’s limit|The total of <total> is above the limit of <limit>}.',
            '<total> EUR {is|lies} above {today’s limit|<limit>}.',
          ],
          values,
          facts: { needs: [[/limit|above/]] },
        };
    }
  }

  /** Matches a text that gives the billed quantity as the delivered one. */
  get #falseCount(): RegExp {
    return new RegExp(`only ${this.#papers.invoice.quantity}\\b`);
  }

  #tell(): FreeText {
    const values = this.#values;
    const fault = this.#fault;
    const total = [values.total!, values.plain!];
    const words = {
      bank: /bank|iban|account/,
      quantity: /quantit|deliver|received/,
      price: /price/,
      limit: /limit/,
    };
    const reasons = {
      bank: 'the bank account is not the one on file',
      quantity: '{more is billed than was delivered|only <received> of <billed> were delivered}',
      price: 'the {unit price|price} is {too high|above the order}',
      limit: 'it is above the limit of today',
    };
    if (this.#is_forbidden)
      return fault === null
        ? {
            wordings: [
              '{Everything agrees|All is in order}: <id> {could be approved|can be paid}. {I did nothing with it.|}',
            ],
            values,
            facts: { needs: [[/could|can be/]], bars: [/\b(have|was|is) (approved|held)|on hold/] },
          }
        : {
            wordings: [
              `{I found|There is} a problem with <id>: ${reasons[fault]}. {I did nothing with it.|}`,
            ],
            values,
            facts: { needs: [[words[fault]]], bars: [/\b(have|was|is) (approved|held)|on hold/] },
          };
    return fault === null
      ? {
          wordings: [
            '{Approved|I approved} <id>{ from <vendor>|} {over|for} <total> EUR{: order, delivery and account agree|}.',
            '<id> {is approved|was approved} ({<total> EUR|EUR <total>}).',
          ],
          values,
          facts: { needs: [[values.id!], [/approved/], total], bars: [/not approved|held|on hold/] },
        }
      : {
          wordings: [
            `{Held|I held|I put on hold} <id>: ${reasons[fault]}.`,
            `<id> is {held|on hold}, because ${reasons[fault]}.`,
          ],
          values,
          facts: {
            needs: [[values.id!], [/held|hold/], [words[fault]]],
            bars: [/\bapproved\b/, this.#falseCount],
          },
        };
  }
}

export const invoiceChecker: HeldBackAgent = {
  name: 'invoice checker',
  model: 'gpt-5.5-mini',
  wire: 'chat_completions',
  is_streaming: false,
  is_labelled: true,
  tools: TOOLS,
  asides: ['{Reading|Checking} the {invoice|papers}.', 'Now {order and delivery|the comparison}.'],
  aside_share: 0.1,
  names: VENDORS,
  start: (seed, kind) => new CheckerRun(seed, kind),
};
