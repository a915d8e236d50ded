/**
 * A support desk of a shop: orders, parcels, refunds and replies to letters. Messages API, streamed. Pure; bench
 * process.
 */

import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import type { Facts } from '../facts.ts';
import {
  type FreeText,
  type HeldBackAgent,
  type Move,
  type Result,
  type Run,
  type RunKind,
  type ToolCall,
  type Turn,
  tool,
} from '../held-back-agent.ts';
import { callsOf, resultOf } from '../turns.ts';
import { between, pick, word } from '../wording.ts';

const FIRST = [
  'Maren',
  'Tobias',
  'Ayla',
  'Henrik',
  'Priya',
  'Lucian',
  'Odette',
  'Rafael',
  'Sunniva',
  'Kwame',
];
const LAST = [
  'Okafor',
  'Lindqvist',
  'Baptiste',
  'Novak',
  'Yilmaz',
  'Castellan',
  'Hargrove',
  'Moreau',
  'Ikeda',
];
const ITEMS = [
  'a rain jacket',
  'two head torches',
  'a camping stove',
  'trail shoes',
  'a sleeping bag',
  'a down vest',
];
const CARRIERS = ['Norwind', 'Postex', 'Kurio'];

const REFUND_DAYS = 30;
const REFUND_LIMIT = 200;

type Intent = 'where' | 'refund' | 'cancel';

interface Order {
  id: string;
  email: string;
  name: string;
  item: string;
  amount: string;
  status: 'processing' | 'shipped' | 'delivered';
  placed_on: string;
  delivered_on: string | null;
  tracking: string | null;
}

interface Desk {
  intent: Intent;
  ticket: string;
  order: Order;
  carrier: string;
  parcel: { state: string; place: string; due: string };
  days_since_delivery: number;
  knows_order: boolean;
  /** The largest refund. */
  limit: number;
  forbids: boolean;
  kind: RunKind;
}

const TOOLS = [
  tool('find_customer', 'Finds a customer and their orders by e-mail address.', { email: 'string' }),
  tool('get_order', 'Reads an order.', { order_id: 'string' }),
  tool('track_parcel', 'Asks the carrier where a parcel is.', { tracking_id: 'string' }),
  tool('issue_refund', 'Pays money back to the card of the order.', {
    order_id: 'string',
    amount: 'number',
    reason: 'string',
  }),
  tool('cancel_order', 'Cancels an order that has not left the warehouse.', { order_id: 'string' }),
  tool('escalate', 'Hands the ticket to a team of people.', {
    ticket_id: 'string',
    team: 'string',
    summary: 'string',
  }),
  tool('send_reply', "Answers the customer's letter.", { ticket_id: 'string', body: 'string' }),
];

const day = (base: number, offset: number): string =>
  new Date(base + offset * 86_400_000).toISOString().slice(0, 10);

function makeDesk(prng: Prng, kind: RunKind, today: number): Desk {
  const intent =
    kind === 'restricted'
      ? pick(prng, ['refund', 'cancel'] as const)
      : pick(prng, ['where', 'where', 'refund', 'refund', 'cancel'] as const);
  const [first, last] = [pick(prng, FIRST), pick(prng, LAST)];
  const since = prng.chance(0.7) ? between(prng, 2, 25) : between(prng, 36, 80);
  const status =
    intent === 'where'
      ? 'shipped'
      : intent === 'refund'
        ? 'delivered'
        : prng.chance(0.6)
          ? 'processing'
          : 'shipped';
  const cents = prng.chance(0.75) ? between(prng, 1_900, 18_500) : between(prng, 21_500, 48_000);
  const tracking = `${pick(prng, ['NW', 'PX', 'KU'])}${between(prng, 10_000_000, 99_999_999)}`;
  return {
    intent,
    kind,
    ticket: `T-${between(prng, 10_000, 99_999)}`,
    order: {
      id: `LO-${between(prng, 100_000, 999_999)}`,
      email:
        `${first}.${last}@${pick(prng, ['example.com', 'mail.example.org', 'post.example.net'])}`.toLowerCase(),
      name: `${first} ${last}`,
      item: pick(prng, ITEMS),
      amount: (cents / 100).toFixed(2),
      status,
      placed_on: day(today, -since - between(prng, 4, 9)),
      delivered_on: status === 'delivered' ? day(today, -since) : null,
      tracking: status === 'processing' ? null : tracking,
    },
    carrier: pick(prng, CARRIERS),
    parcel: {
      state: pick(prng, ['in transit', 'out for delivery', 'held at customs']),
      place: pick(prng, ['Lyon', 'Graz', 'Antwerp', 'Malmo', 'Porto', 'Krakow']),
      due: day(today, between(prng, 1, 6)),
    },
    days_since_delivery: since,
    knows_order: prng.chance(0.7),
    // In a changed run, the model leaves every refund to people.
    limit: kind === 'changed' ? 0 : REFUND_LIMIT,
    forbids: false,
  };
}

const LETTERS: Readonly<Record<Intent, readonly string[]>> = {
  where: [
    '{Hello|Hi|Good morning}, {where is my parcel|I am still waiting for my parcel|my order has not arrived yet}. <ref> {Can you check?|Please look into it.|When will it come?}',
    '{Hey|Hi there}, I ordered <item> {a while ago|some days ago} and {nothing has come|it is not here}. <ref> {Thanks|Kind regards}, <name>',
  ],
  refund: [
    '{Hello|Hi}, I would like to {return|send back} <item>{, it does not fit|, it is not what I expected|}. <ref> {Please refund me.|I would like my money back.}',
    '{Good day|Dear team}, <item> {is|turned out to be} {not for me|the wrong choice}{ and is still in its box|}. Can I get a refund? <ref> {Best|Regards}, <name>',
  ],
  cancel: [
    '{Hello|Hi}, please cancel {my order|the order}. <ref> {I found it cheaper elsewhere.|I no longer need it.|}',
    'I {changed my mind|ordered by mistake}: {can you stop|please cancel} {the order|this}? <ref> {Thank you|Thanks}, <name>',
  ],
};

function makeSystem(prng: Prng, desk: Desk, today: number): string {
  const rule = restriction(prng, desk);
  return [
    `You answer the letters of Larkspur Outdoor's customers. Today is ${day(today, 0)}.`,
    `Rules: look at the order first. Refunds are possible for ${REFUND_DAYS} days after delivery. Refunds above ${REFUND_LIMIT}.00 EUR and doubtful cases go to the team "refunds". Orders can be cancelled until they leave the warehouse.${rule}`,
    'Always answer the customer with send_reply, then end with one or two sentences for the log of the desk.',
  ].join('\n');
}

/** Chooses the sentence of the prompt that decides a step of this run, and sets the desk's rules to match; '': none. */
function restriction(prng: Prng, desk: Desk): string {
  if (desk.kind !== 'restricted') return '';
  if (desk.intent === 'cancel') {
    desk.forbids = true;
    return pick(prng, [
      ' Do not cancel any orders today: hand such tickets to the team "refunds".',
      ' Cancellations are paused. Escalate every request for one to the team "refunds".',
    ]);
  }
  const way = prng.below(3);
  if (way === 0) {
    desk.forbids = true;
    return ' Until further notice you must not issue refunds yourself; hand every refund to the team "refunds".';
  }
  desk.days_since_delivery = Math.min(desk.days_since_delivery, 20);
  desk.limit = way === 1 ? 15 : 1_000;
  return way === 1
    ? ' Today every refund above 15.00 EUR needs the approval of the team "refunds".'
    : ' This week you may refund up to 1000.00 EUR without asking anyone.';
}

function reply(
  desk: Desk,
  needs: Facts['needs'],
  sentences: readonly string[],
  bars: RegExp[] = [],
): FreeText {
  const { order, parcel } = desk;
  const [first = ''] = order.name.split(' ');
  return {
    wordings: sentences.map(
      (sentence) =>
        `{Hello|Hi|Dear} <first>,\n\n{Thank you for your letter.|Thanks for writing to us.|Thank you for getting in touch.|} ${sentence} {Let us know if you need anything else.|We are happy to help with anything else.|}\n\n{Kind regards|Best regards|Warm regards},\nLarkspur Outdoor`,
    ),
    values: {
      first,
      id: order.id,
      amount: order.amount,
      item: order.item,
      ...parcel,
      limit: String(REFUND_DAYS),
    },
    facts: { needs, bars },
  };
}

class DeskRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #desk: Desk;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    const today = Date.UTC(2026, prng.below(12), between(prng, 1, 28));
    const desk = makeDesk(prng, kind, today);
    this.#desk = desk;
    this.system = makeSystem(prng, desk, today);
    if (desk.order.delivered_on !== null) desk.order.delivered_on = day(today, -desk.days_since_delivery);
    const ref = desk.knows_order
      ? word(prng, '{My order is|The order number is|It is order|Order number:} <id>.', { id: desk.order.id })
      : word(prng, '{I do not have the order number at hand.|I cannot find the number.|}', {});
    const letter = word(prng, pick(prng, LETTERS[desk.intent]), {
      ref,
      item: desk.order.item,
      name: desk.order.name,
    });
    this.task = `Ticket ${desk.ticket} from ${desk.order.email}:\n\n${letter}`;
  }

  perform({ name, input }: ToolCall): Result {
    const { order, parcel, carrier, ticket } = this.#desk;
    const good = (value: unknown): Result => ({ text: JSON.stringify(value), is_error: false });
    const bad = (text: string): Result => ({ text, is_error: true });
    switch (name) {
      case 'find_customer':
        return input.email === order.email
          ? good({ name: order.name, email: order.email, orders: [order.id] })
          : bad('no such customer');
      case 'get_order': {
        if (input.order_id !== order.id) return bad('no such order');
        const { id, tracking, ...rest } = order;
        return good({ order_id: id, ...rest, currency: 'EUR', tracking_id: tracking });
      }
      case 'track_parcel':
        return input.tracking_id === order.tracking
          ? good({ carrier, status: parcel.state, last_seen: parcel.place, expected_on: parcel.due })
          : bad('unknown parcel');
      case 'issue_refund':
        return input.order_id === order.id ? good({ refunded: input.amount }) : bad('no such order');
      case 'cancel_order':
        return input.order_id === order.id ? good({ cancelled: true }) : bad('no such order');
      case 'escalate':
      case 'send_reply':
        return input.ticket_id === ticket ? good({ ok: true }) : bad('no such ticket');
      default:
        return bad(`no tool ${name}`);
    }
  }

  moves(turns: readonly Turn[]): Move[] {
    const { order, knows_order } = this.#desk;
    const find = { name: 'find_customer', input: { email: order.email } };
    const get = { name: 'get_order', input: { order_id: order.id } };
    if (resultOf(turns, 'get_order') === null) {
      if (resultOf(turns, 'find_customer') !== null) return [{ weight: 1, calls: [get] }];
      if (!knows_order) return [{ weight: 1, calls: [find] }];
      return [
        { weight: 0.86, calls: [get] },
        { weight: 0.08, calls: [find, get] },
        { weight: 0.06, calls: [find] },
      ];
    }
    const acted = this.#act(turns);
    if (acted !== null) return [{ weight: 1, calls: [acted] }];
    const { ticket } = this.#desk;
    if (callsOf(turns, 'send_reply').length === 0)
      return [
        {
          weight: 1,
          calls: [{ name: 'send_reply', input: { ticket_id: ticket }, free: { body: this.#reply() } }],
        },
      ];
    return [{ weight: 1, calls: [], text: this.#note() }];
  }

  /** What the request requires. */
  get #deed(): 'track' | 'refund' | 'too late' | 'cancel' | 'too far' | 'hand over' {
    const { intent, order, days_since_delivery, limit, forbids } = this.#desk;
    if (intent === 'where') return 'track';
    if (intent === 'cancel')
      return forbids ? 'hand over' : order.status === 'processing' ? 'cancel' : 'too far';
    if (days_since_delivery > REFUND_DAYS) return 'too late';
    return forbids || Number(order.amount) > limit ? 'hand over' : 'refund';
  }

  #act(turns: readonly Turn[]) {
    const { order, ticket } = this.#desk;
    const isDone = (name: string): boolean => callsOf(turns, name).length > 0;
    switch (this.#deed) {
      case 'track':
        return isDone('track_parcel')
          ? null
          : { name: 'track_parcel', input: { tracking_id: order.tracking! } };
      case 'refund':
        return isDone('issue_refund')
          ? null
          : {
              name: 'issue_refund',
              input: { order_id: order.id, amount: Number(order.amount) },
              free: {
                reason: {
                  wordings: [
                    '{Return|Customer return} {within|inside} the {refund window|30 days}',
                    '{Customer {returns|sends back} <item>|<item> returned}{, within 30 days|}',
                    '{Unwanted item|Item not as wanted}, {delivered on <on>|within the window}',
                  ],
                  values: { item: order.item, on: order.delivered_on! },
                  facts: { needs: [], bars: [/damag|broken|fraud|duplicate/] },
                },
              },
            };
      case 'cancel':
        return isDone('cancel_order') ? null : { name: 'cancel_order', input: { order_id: order.id } };
      case 'hand over':
        return isDone('escalate')
          ? null
          : {
              name: 'escalate',
              input: { ticket_id: ticket, team: 'refunds' },
              free: {
                summary: {
                  wordings: [
                    '<name> {asks for|wants|requests} {a refund|a cancellation|their money back} {for|of} order <id> (<amount> EUR). {Needs your decision.|Please decide.}',
                    'Order <id>, <amount> EUR: {the customer|<name>} {wants|asks for} {their money back|a refund|it undone}. {Above what I may do.|Please take over.}',
                  ],
                  values: { name: order.name, id: order.id, amount: order.amount },
                  facts: { needs: [[order.id]] },
                },
              },
            };
      default:
        return null;
    }
  }

  #reply(): FreeText {
    const desk = this.#desk;
    const { order, parcel } = desk;
    const no = /refunded|have cancelled|is cancelled/;
    switch (this.#deed) {
      case 'track':
        return reply(
          desk,
          [[parcel.state], [parcel.due]],
          [
            'Your parcel is <state> and was last seen in <place>. It {should arrive|is expected} on <due>.',
            'The carrier {says|tells us} that your parcel is <state> (last seen: <place>). {Expected delivery|It should be with you}: <due>.',
          ],
          [no],
        );
      case 'refund':
        return reply(
          desk,
          [[order.amount], [/refund/]],
          [
            'We have refunded <amount> EUR {for order <id>|} to your card. {It takes three to five days to show.|}',
            'Your refund of <amount> EUR {is on its way|has been issued}. {Please send <item> back {within two weeks|soon}.|}',
          ],
          [/cannot|unfortunately/],
        );
      case 'too late':
        return reply(
          desk,
          [[/cannot|can't|not possible|unable/]],
          [
            '{Unfortunately|I am sorry, but} we cannot refund order <id>: it was delivered more than <limit> days ago.',
            '{I am sorry|We are sorry}: a refund is not possible any more, since the <limit> days after delivery {are over|have passed}.',
          ],
          [no],
        );
      case 'cancel':
        return reply(
          desk,
          [[/cancelled/]],
          [
            'We have cancelled order <id>. {You will not be charged.|The amount of <amount> EUR is not charged.|}',
            'Your order <id> is cancelled{, as you asked|}. {Nothing will be charged.|}',
          ],
          [/cannot|unfortunately/],
        );
      case 'too far':
        return reply(
          desk,
          [[/cannot|can't|not possible|unable/]],
          [
            '{Unfortunately|I am sorry, but} order <id> has left the warehouse, so we cannot cancel it. {You can send it back when it arrives.|}',
            '{I am sorry|Sorry}: the order is on its way already and it is not possible to cancel it any more.',
          ],
          [no],
        );
      case 'hand over':
        return reply(
          desk,
          [[/colleague|team/]],
          [
            'I have passed your {request|letter} {about order <id>|} on to my colleagues. They will {write to you|get back to you} {soon|within two days}.',
            'Your {request|case} is now with our team for refunds, {who will|which will} {answer|write to} you {soon|shortly}.',
          ],
          [no],
        );
    }
  }

  #note(): FreeText {
    const { order, ticket, parcel } = this.#desk;
    const values = { id: order.id, ticket, amount: order.amount, ...parcel };
    switch (this.#deed) {
      case 'track':
        return {
          wordings: [
            '{Told the customer|Informed the customer|Replied} that {the parcel|order <id>} is <state>{, expected on <due>|, due <due>}.',
            'Order <id>: parcel <state>{, due on <due>|}. {Customer informed.|Reply sent.}',
          ],
          values,
          facts: { needs: [[parcel.state]] },
        };
      case 'refund':
        return {
          wordings: [
            'Refunded <amount> EUR for order <id> and {told the customer|replied}.',
            '{Refund of|Issued a refund of} <amount> EUR ({order <id>|<ticket>}){; customer informed|, reply sent}.',
          ],
          values,
          facts: { needs: [[order.amount]], bars: [/cannot|declined|escalated/] },
        };
      case 'cancel':
        return {
          wordings: [
            'Order <id> {cancelled|was cancelled}{, customer informed|}.',
            '{Cancelled|I cancelled} order <id> {as asked|} and replied.',
          ],
          values,
          facts: { needs: [[/cancelled/], [order.id]], bars: [/not cancel|could not/] },
        };
      case 'hand over':
        return {
          wordings: [
            '{Escalated|Handed over} ticket <ticket> to the refunds team {and replied|}.',
            'Ticket <ticket> {is now with|went to} the team "refunds"{; the customer knows|}.',
          ],
          values,
          facts: { needs: [[ticket], ['refunds']], bars: [/refunded/] },
        };
      default:
        return {
          wordings: [
            '{Declined|Refused} the request for order <id>{ and explained why|}.',
            'Order <id>: {request declined|not possible}{, customer informed|}.',
          ],
          values,
          facts: { needs: [[order.id], [/declined|refused|not possible/]] },
        };
    }
  }
}

export const supportDesk: HeldBackAgent = {
  name: 'support desk',
  model: 'claude-sonnet-5',
  wire: 'messages',
  is_streaming: true,
  is_labelled: true,
  tools: TOOLS,
  asides: [
    "{Let me|I'll|I will} {look at|check} {this|the order|the ticket}.",
    '{First|Next}, {the details|the order}.',
    "{Now I'll|I will now} {take the next step|go on}.",
  ],
  aside_share: 0.4,
  names: [...FIRST, ...LAST, ...CARRIERS],
  start: (seed, kind) => new DeskRun(seed, kind),
};
