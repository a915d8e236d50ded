/**
 * The world of the property manager: a tenant with a lease, an account, a house with rules, and firms that repair.
 * Pure; bench process.
 */

import type { Prng } from '../../../../src/std/prng.ts';
import {
  addDays,
  isoDate,
  makeAddress,
  makeId,
  makePerson,
  type Person,
  plainMoney,
  roundCents,
  weekday,
} from '../vocabulary.ts';
import { between, pick, shuffle } from '../wording.ts';

/** Highest call-out charge without a sentence that says otherwise. */
export const CALL_OUT_MAX = 140;
/** No firm has a lower call-out charge. A sentence of a restricted run allows no higher one. */
export const CALL_OUT_LEAST = 60;

/** A defect in the words of a tenant and in short, and what a description of it must contain. */
type Defect = readonly [says: string, short: string, key: RegExp];

const DEFECTS: Readonly<Record<string, readonly Defect[]>> = {
  plumber: [
    [
      '{the tap in the kitchen|the kitchen tap} {drips|will not stop dripping}',
      'dripping kitchen tap',
      /tap/,
    ],
    ['the toilet {keeps running|does not flush properly}', 'faulty toilet flush', /toilet/],
    ['the shower {does not drain|is clogged, I stand in water}', 'blocked shower drain', /shower/],
    ['the washbasin {leaks at the bottom|drips onto the floor}', 'leaking washbasin', /washbasin/],
  ],
  electrician: [
    [
      '{the sockets in the living room are|every socket in the living room is} dead',
      'dead sockets',
      /socket/,
    ],
    ['the ceiling light in the hall {flickers|buzzes and flickers}', 'flickering hall light', /light/],
    ['the fuse {blows|goes} whenever I {cook|run the oven}', 'fuse that blows', /fuse/],
    ['the doorbell {is silent|does not ring any more}', 'silent doorbell', /doorbell/],
  ],
  heating: [
    ['the radiators {stay cold|do not get warm}', 'cold radiators', /radiator/],
    ['the thermostat {shows nothing|has a blank display}', 'dead thermostat', /thermostat/],
    ['the boiler {keeps going out|shows an error and stops}', 'boiler that stops', /boiler/],
  ],
  locksmith: [
    ['the key {sticks in the front door|will not turn in the door}', 'key that sticks', /key/],
    ['the letterbox {does not lock|lock is broken}', 'broken letterbox lock', /letterbox/],
    ['the cellar door {cannot be locked|does not lock any more}', 'cellar door without lock', /cellar/],
  ],
  glazier: [
    ['the bedroom window {is cracked|has a long crack}', 'cracked bedroom window', /window/],
    ['the pane of the balcony door {is misty inside|has gone misty}', 'misty balcony pane', /pane/],
  ],
  carpenter: [
    ['the wardrobe door {fell off|hangs loose}', 'loose wardrobe door', /wardrobe/],
    ['a floorboard {in the hall |}{has come up|is loose}', 'loose floorboard', /floorboard/],
    ['the blinds {do not go down|are stuck}', 'stuck blinds', /blind/],
  ],
};
export const TRADES = Object.keys(DEFECTS);
const EMERGENCIES: readonly Defect[] = [
  ['{it smells of gas in the kitchen|there is a smell of gas in the hall}', 'smell of gas', /gas/],
  ['water {drips|is running} through the {bathroom |}ceiling', 'water through the ceiling', /ceiling/],
];
export const FIRMS = [
  ...['Bramble & Daughters', 'Copperline', 'Dale Services', 'Everfix', 'Flintlock Trades', 'Gable Works'],
  ...[
    'Hearthside',
    'Ironbridge Repairs',
    'Jackdaw Crafts',
    'Larch & Partners',
    'Millrace',
    'Northgate Trades',
  ],
];

type Stance = 'allowed' | 'forbidden' | 'consent';
/** Questions about the house, the heading of their rule, and what an answer must contain. */
const TOPICS: readonly (readonly [asks: string, heading: string, key: RegExp])[] = [
  ['{may I|am I allowed to|would it be OK to} keep a {small |}dog', 'Dogs', /dog/],
  ['{can I|may I} {leave|park} my bicycle in the stairwell', 'Bicycles in the stairwell', /bicycle|bike/],
  ['{is it OK to|may we} {have a barbecue|use a grill} on the balcony', 'Barbecues', /barbecue|grill/],
  ['{may I|can I} {take in a lodger|sublet one room}', 'Lodgers', /lodger|sublet|subletting/],
  ['{may I|can we} put up a satellite dish', 'Satellite dishes', /dish/],
  ['{am I allowed to|may I} paint the walls {dark blue|green|in another colour}', 'Painting', /paint/],
  ['{may I|is it all right to} {run a dryer|put up a tumble dryer} in the cellar', 'Dryers', /dryer/],
];
const STANCES: Readonly<Record<Stance, readonly string[]>> = {
  allowed: [
    'These are welcome; no permission is needed.',
    'Permitted for every flat.',
    'Tenants may do as they like here.',
  ],
  forbidden: ['Not permitted in this house.', 'Prohibited for all flats.', 'These are ruled out.'],
  consent: [
    'Only after the owner has agreed.',
    'The owner decides on each request.',
    'Needs the consent of the owner.',
  ],
};

/**
 * - `defect`, `emergency`: something is broken
 * - `balance`: what the tenant owes
 * - `notice`: the tenant moves out
 * - `question`: about the house
 */
export type Intent = 'defect' | 'emergency' | 'balance' | 'notice' | 'question';
/** What a sentence of a restricted run forbids, limits or permits. */
export type Rule = 'no booking' | 'not this firm' | 'dear firm' | 'few charges' | 'no notice' | 'no message';

export interface Offer {
  firm_id: string;
  firm: string;
  call_out: number;
  slot: string;
}

interface Lease {
  lease_id: string;
  signatories: readonly string[];
  rent: number;
  notice_months: number;
  fixed_until: string | null;
  small_repairs_up_to: number;
}

export interface Flat {
  person: Person;
  phone: string;
  prefers: 'email' | 'sms';
  /** The preferred channel does not reach the tenant. */
  is_unreachable: boolean;
  /** The tenant writes from an unknown number. */
  is_unknown: boolean;
  from: string;
  tenant_id: string;
  unit_id: string;
  house_id: string;
  city: string;
  address: string;
  lease: Lease;
  trade: string;
  defect: Defect;
  /** An open job for the same defect. */
  job: Offer | null;
  jobs: string;
  offers: readonly Offer[];
  /** The first slot is gone when it is booked. */
  is_gone: boolean;
  due: number;
  ledger: readonly string[];
  topic: (typeof TOPICS)[number];
  stance: Stance;
  rules: string;
  /** Only one of two signatories gives notice. */
  is_alone: boolean;
}

function makeOffers(prng: Prng, today: number, rule: Rule | null): Offer[] {
  const firms = shuffle(prng, FIRMS).slice(0, between(prng, 4, 6));
  const slots = shuffle(
    prng,
    Array.from({ length: 12 }, (_, at) => at),
  )
    .slice(0, firms.length)
    .toSorted((a, b) => a - b)
    .map(
      (at) =>
        `${isoDate(addDays(today, 1 + Math.floor(at / 2)))} ${at % 2 === 0 ? '08' : '13'}:${pick(prng, ['00', '15', '30'])}`,
    );
  // In some runs, the first firm is expensive.
  const isFirstDear = rule === 'dear firm' || (rule === null && prng.chance(0.35));
  return firms.map((firm, at) => ({
    firm_id: makeId(prng, 'F', 4),
    firm,
    call_out:
      (at === 0 && isFirstDear) || (at > 2 && prng.chance(0.4))
        ? between(prng, CALL_OUT_MAX + 5, 240)
        : between(prng, CALL_OUT_LEAST + 5, CALL_OUT_MAX - 2),
    slot: slots[at]!,
  }));
}

function writeJobs(prng: Prng, today: number, trade: string, job: Offer | null, short: string): string {
  const line = (
    state: string,
    kind: string,
    what: string,
    { firm, slot }: Pick<Offer, 'firm' | 'slot'>,
  ): string => `${makeId(prng, 'J-', 5)}  ${state.padEnd(7)}${kind.padEnd(13)}${firm}, ${slot}: ${what}`;
  const others = shuffle(
    prng,
    TRADES.filter((each) => each !== trade),
  ).slice(0, between(prng, 0, 2));
  const lines = others.map((kind) => {
    const days = between(prng, -300, 6);
    const slot = `${isoDate(addDays(today, days))} 10:00`;
    return line(days < 0 ? 'closed' : 'open', kind, pick(prng, DEFECTS[kind]!)[1], {
      firm: pick(prng, FIRMS),
      slot,
    });
  });
  if (job !== null) lines.push(line('open', trade, short, job));
  else if (prng.chance(0.3))
    lines.push(
      line('closed', trade, pick(prng, DEFECTS[trade]!)[1], {
        firm: pick(prng, FIRMS),
        slot: `${isoDate(addDays(today, -between(prng, 20, 400)))} 09:00`,
      }),
    );
  return lines.length === 0 ? 'no repairs' : shuffle(prng, lines).join('\n');
}

/** Rows of an account, oldest first: the last rents are unpaid if something is due. */
function writeLedger(prng: Prng, today: number, rent: number, due: number): string[] {
  const rows: string[] = [];
  let open = 0;
  const book = (daysAgo: number, text: string, amount: number): void => {
    open = roundCents(open + amount);
    rows.push([isoDate(addDays(today, -daysAgo)), text, plainMoney(amount), plainMoney(open)].join(';'));
  };
  const unpaid = Math.max(0, Math.ceil(due / rent));
  for (let month = unpaid + between(prng, 1, 4); month > 0; month--) {
    book(month * 30, 'rent', rent);
    if (month > unpaid) book(month * 30 - between(prng, 1, 9), 'payment received', -rent);
    if (month === unpaid + 1 && prng.chance(0.3)) {
      const costs = roundCents(between(prng, 3_000, 30_000) / 100);
      book(unpaid * 30 + 15, pick(prng, ['heating costs', 'service charge']), costs);
      book(unpaid * 30 + 10, 'payment received', -costs);
    }
  }
  if (due !== open) book(between(prng, 1, 4), 'payment received', due - open);
  return rows;
}

/** What a tenant owes; a credit is negative. */
function drawDue(prng: Prng, rent: number): number {
  const cents = between(prng, 4_000, 40_000) / 100;
  return roundCents(pick(prng, [0, -cents, cents, rent + cents, rent * 2 + cents]));
}

export function makeFlat(prng: Prng, today: number, intent: Intent, rule: Rule | null): Flat {
  const person = makePerson(prng, pick(prng, ['postbox.example', 'mailhaven.example', 'inbox.example']));
  const phone = `+44 7700 ${makeId(prng, '9', 5)}`;
  const trade = pick(prng, TRADES);
  const defect = intent === 'emergency' ? pick(prng, EMERGENCIES) : pick(prng, DEFECTS[trade]!);
  const offers = makeOffers(prng, today, rule);
  const job = rule === null && prng.chance(0.2) ? { ...pick(prng, offers), firm: pick(prng, FIRMS) } : null;
  const rent = between(prng, 62, 190) * 10;
  const due = drawDue(prng, rent);
  const other = makePerson(prng, 'postbox.example');
  const isShared = other.name !== person.name && prng.chance(0.4);
  const isAlone = isShared && rule === null && prng.chance(0.6);
  const topic = pick(prng, TOPICS);
  const stance = pick(prng, ['allowed', 'forbidden', 'consent'] as const);
  const isUnknown = rule === null && prng.chance(0.08);
  const address = makeAddress(prng);
  const prefers = pick(prng, ['email', 'sms'] as const);
  return {
    ...{ person, phone, prefers, trade, defect, job, offers, due, topic, stance },
    is_unreachable: rule === null && prng.chance(0.09),
    is_unknown: isUnknown,
    from: isUnknown
      ? `+44 7700 ${makeId(prng, '8', 5)}`
      : prng.chance(prefers === 'sms' ? 0.8 : 0.15)
        ? phone
        : person.email,
    tenant_id: makeId(prng, 'T', 5),
    unit_id: `${makeId(prng, 'U', 3)}-${between(prng, 1, 9)}`,
    house_id: makeId(prng, 'H', 4),
    city: address.slice(address.indexOf(', ') + 2),
    address,
    lease: {
      lease_id: makeId(prng, 'L-', 6),
      signatories: isShared ? shuffle(prng, [person.name, other.name]) : [person.name],
      rent,
      notice_months: between(prng, 1, 4),
      fixed_until: prng.chance(0.3) ? isoDate(lastOfMonth(today, between(prng, 2, 14))) : null,
      small_repairs_up_to: pick(prng, [75, 90, 100, 120]),
    },
    jobs: writeJobs(prng, today, trade, job, defect[1]),
    is_gone: rule === null && prng.chance(0.18),
    ledger: writeLedger(prng, today, rent, due),
    rules: writeHouseRules(prng, topic, stance),
    is_alone: isAlone,
  };
}

function writeHouseRules(prng: Prng, [, asked]: Flat['topic'], stance: Stance): string {
  const sections = TOPICS.map(([, heading]) => {
    const kind = heading === asked ? stance : pick(prng, ['allowed', 'forbidden', 'consent'] as const);
    return `${heading}. ${pick(prng, STANCES[kind])}`;
  });
  return shuffle(prng, [
    ...sections,
    `Quiet. After ${between(prng, 9, 11)} pm voices and music stay at room volume.`,
    `Waste. Bins are emptied on ${weekday(between(prng, 0, 6) * 86_400_000)}; glass goes to the yard.`,
    'Stairs. Each floor is cleaned in turn, see the plan in the entrance.',
  ]).join('\n\n');
}

/** The last day of the month that is `months` after the month of `day`. */
export function lastOfMonth(day: number, months: number): number {
  const date = new Date(day);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months + 1, 0);
}
