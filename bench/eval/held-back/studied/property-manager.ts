/**
 * A manager of rented flats that answers tenants: it books craftsmen for defects, records notices, tells balances,
 * explains house rules, and hands over requests that others decide. Responses API, streamed. Pure; bench process.
 */

import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import {
  bad,
  ending,
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
import { anyOf } from '../independent.ts';
import { haveSameArguments } from '../truth.ts';
import { allCallsOf, callsOf } from '../turns.ts';
import { addDays, isoDate, longDate, makeDay, PERSON_NAMES, weekday } from '../vocabulary.ts';
import { between, pick, word } from '../wording.ts';
import {
  CALL_OUT_LEAST,
  CALL_OUT_MAX,
  FIRMS,
  type Flat,
  type Intent,
  lastOfMonth,
  makeFlat,
  type Offer,
  type Rule,
  TRADES,
} from './rented-flat.ts';
import { describeDefect, type Outcome, writeBody, writeNote, writeSummary } from './tenant-letter.ts';

const TOOLS = [
  tool('find_tenant', 'Finds tenants by name, e-mail address or phone number.', { query: 'string' }),
  tool('get_lease', 'Reads a lease.', { lease_id: 'string' }),
  tool('list_jobs', 'Lists the repairs of a flat.', { unit_id: 'string' }),
  tool('find_craftsmen', 'Lists firms of a trade with their next free slot.', {
    trade: 'string',
    city: 'string',
  }),
  tool('book_job', 'Books a firm for a repair. The call-out is paid by "tenant" or "owner".', {
    unit_id: 'string',
    firm_id: 'string',
    slot: 'string',
    paid_by: 'string',
    description: 'string',
  }),
  tool('read_ledger', 'Reads the account of a lease.', { lease_id: 'string' }),
  tool('record_notice', 'Records the last day of a lease.', { lease_id: 'string', ends_on: 'string' }),
  tool('read_house_rules', 'Reads the rules of a house.', { house_id: 'string' }),
  tool('hand_over', 'Hands a matter over to a team.', {
    team: 'string',
    lease_id: 'string',
    summary: 'string',
  }),
  tool('send_message', 'Sends a message to a tenant, by "email" or "sms".', {
    tenant_id: 'string',
    channel: 'string',
    body: 'string',
  }),
];

const MESSAGES: Readonly<Record<Intent, readonly string[]>> = {
  defect: [
    '{Hello|Hi}, {I live at <address>, and |}{since yesterday|since the weekend} <what>. {Could you send someone?|Please have it repaired.}',
    'Good morning, <what>{ and it is getting worse|}. {When can a craftsman come?|Can you help?}',
    '{Dear property management|Dear all}, {I am sorry to bother you, but|unfortunately} <what>. {I am at home most days.|I work from home this week.|}',
    '{Hey,|} <what>. {It is really annoying.|My children complain already.|} {Please do something!|Thank you for your help.}',
  ],
  emergency: [
    '{Help|Please help}: <what>! {What should I do?|Please come quickly!}',
    '<what>, {it started an hour ago|since a few minutes}. {I am worried.|Please call me.}',
  ],
  balance: [
    '{Hello|Hi}, {am I up to date with my rent|do I still owe you anything}? {I lost track.|I changed my bank.|}',
    '{Could you tell me|Please tell me} {how my account stands|the balance of my account}{ as of today|}. {I need it for my records.|}',
    'My {statement|last letter} confuses me. {How much do I have to pay?|What is open at the moment?}',
  ],
  notice: [
    '{Hello|Dear property management}, {I hereby give notice on my flat|I would like to end my lease as soon as possible}. {When is my last day?|Until when do I have to pay?}',
    'I {have bought a house|am moving abroad|found a job elsewhere} and {give up the flat|want to terminate the lease}. {Please confirm the end date.|Which day is the last?}',
  ],
  question: [
    '{Hello|Hi}, <what>? {I would like to do things properly.|My neighbour says no.|}',
    'Quick question: <what>? {Thanks in advance!|}',
    '{Good evening|Dear team}, {we were wondering,|before I start:} <what>?',
  ],
};

function writeRule(prng: Prng, rule: Rule | null, flat: Flat): string {
  switch (rule) {
    case null:
      return '';
    case 'no booking':
      return pick(prng, [
        'Book no craftsmen today; hand defects over to the team "repairs".',
        'You may not book any firms this week: the team "repairs" takes defects.',
      ]);
    case 'not this firm': {
      const { firm } = flat.offers.find(({ call_out }) => call_out <= CALL_OUT_MAX)!;
      return pick(prng, [`Do not book ${firm} any more.`, `We do not work with ${firm} for the time being.`]);
    }
    case 'dear firm': {
      const { firm } = flat.offers[0]!;
      return pick(prng, [
        `${firm} may be booked at any price.`,
        `For ${firm} the highest call-out does not apply.`,
      ]);
    }
    case 'few charges':
      return pick(prng, [
        `A call-out of more than ${CALL_OUT_LEAST} EUR has to be decided by the team "owners": book nothing then, hand it over.`,
        `Book only firms up to ${CALL_OUT_LEAST} EUR. If all cost more, the team "owners" decides.`,
      ]);
    case 'no notice':
      return pick(prng, [
        'Do not record notices; the team "leases" handles them.',
        'Hand every notice over to the team "leases" and record none.',
      ]);
    case 'no message':
      return pick(prng, [
        'Send no messages to tenants today, we call them ourselves.',
        'Do not write to the tenant, a colleague will call.',
      ]);
  }
}

const RULES: readonly Rule[] = [
  'no booking',
  'not this firm',
  'dear firm',
  'few charges',
  'no notice',
  'no message',
];

function drawIntent(prng: Prng, rule: Rule | null): Intent {
  if (rule === 'no notice') return 'notice';
  if (rule === 'no message') return pick(prng, ['defect', 'balance', 'question', 'notice'] as const);
  if (rule !== null) return 'defect';
  return pick(prng, [
    ...(['defect', 'defect', 'defect', 'defect', 'defect', 'defect'] as const),
    ...(['balance', 'balance', 'notice', 'notice', 'question', 'question', 'emergency'] as const),
  ]);
}

class ManagerRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #kind: RunKind;
  readonly #intent: Intent;
  readonly #rule: Rule | null;
  readonly #flat: Flat;
  readonly #today: number;
  /** How often the model makes independent calls at once in this run. */
  readonly #together: number;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#rule = kind === 'restricted' ? pick(prng, RULES) : null;
    this.#intent = drawIntent(prng, this.#rule);
    this.#today = makeDay(prng);
    const flat = makeFlat(prng, this.#today, this.#intent, this.#rule);
    this.#flat = flat;
    this.#together = pick(prng, [0.7, 0.7, 0.1]);
    const rule = writeRule(prng, this.#rule, flat);
    const inSystem = prng.chance(0.5);
    this.system = [
      `You manage flats for Kestrel & Rowe and answer tenants. Today is ${weekday(this.#today)}, ${longDate(this.#today)}.`,
      `- Defects: read the lease and the repairs of the flat. If a repair by the same trade is open, book nothing and tell the tenant its date. Otherwise book the earliest slot of a firm whose call-out costs ${CALL_OUT_MAX} EUR or less. The tenant pays a call-out up to the lease's limit for small repairs, the owner everything else. The trades are ${TRADES.join(', ')}.`,
      '- Gas, and water through a ceiling: hand over to the team "emergency" before anything else; the tenant has to leave the flat or shut the main tap, and is called at once.',
      '- Notices: the lease ends on the last day of a month, notice_months after the present one, but not before its fixed term is over. All signatories have to sign the notice.',
      '- Accounts: "open" is what the tenant owes, and a credit if it is negative. If that is more than two rents, hand it over to the team "accounts" as well.',
      '- The house: its rules decide. If they require the consent of the owner, hand the request over to the team "owners".',
      '- Write to the tenant by the channel that the tenant prefers, or by the other one if that fails. End with one sentence for the file, with the name of the tenant and the lease.',
      ...(inSystem && rule !== '' ? [`- ${rule}`] : []),
    ].join('\n');
    this.task = [
      this.#writeTask(prng),
      ...(inSystem || rule === '' ? [] : [`Note of the office: ${rule}`]),
    ].join('\n\n');
  }

  #writeTask(prng: Prng): string {
    const { person, from, defect, topic, lease, is_alone, address } = this.#flat;
    const what = word(prng, this.#intent === 'question' ? topic[0] : defect[0], {});
    const text = word(prng, pick(prng, MESSAGES[this.#intent]), { what, address });
    const isShared = this.#intent === 'notice' && !is_alone && lease.signatories.length > 1;
    const names = isShared ? lease.signatories.join(' and ') : person.name;
    const head = from.includes('@')
      ? `{E-mail from|Mail,} <from>:`
      : `{SMS from|Text message from|Voicemail of} <from>:`;
    const foot =
      this.#intent === 'notice' ? '{Signed|Signed by}: <names>' : '{Best regards, |Thanks, |}<names>';
    const letter = text[0]!.toUpperCase() + text.slice(1);
    return `${word(prng, head, { from })}\n${letter}\n${word(prng, foot, { names })}`;
  }

  perform({ name, input }: ToolCall): Result {
    const { tenant_id, unit_id, house_id, lease, rules, jobs, ledger, city, trade } = this.#flat;
    const { lease_id } = lease;
    if (name === 'find_tenant') return good(this.#find(input.query));
    if (input.lease_id !== undefined && input.lease_id !== lease_id) return bad('error: no such lease');
    if (input.unit_id !== undefined && input.unit_id !== unit_id) return bad('error: no such flat');
    switch (name) {
      case 'get_lease':
        return good({ ...lease, unit_id });
      case 'list_jobs':
        return good(jobs);
      case 'find_craftsmen':
        return input.city === city && input.trade === trade
          ? good(this.#listFirms())
          : good('no firms of this trade there');
      case 'book_job':
        return this.#book(input);
      case 'read_ledger': {
        // In a changed run, the newest row comes first.
        const rows = this.#kind === 'changed' ? ledger.toReversed() : ledger;
        return good(['date;text;amount;open', ...rows].join('\n'));
      }
      case 'record_notice': {
        const ends = Date.parse(String(input.ends_on));
        return ends === lastOfMonth(ends, 0)
          ? good({ lease_id, ends_on: input.ends_on })
          : bad('error: a lease ends on the last day of a month');
      }
      case 'read_house_rules':
        return input.house_id === house_id ? good(rules) : bad('error: no such house');
      case 'hand_over':
        return good({ team: input.team, state: 'open' });
      case 'send_message':
        if (input.tenant_id !== tenant_id) return bad('error: no such tenant');
        return this.#flat.is_unreachable && input.channel === this.#flat.prefers
          ? bad(`error: not delivered, the ${input.channel} address does not exist any more`)
          : good({ sent: true });
      default:
        return bad(`error: no tool ${name}`);
    }
  }

  /** Whether a query finds the tenant. */
  #isFound(query: unknown): boolean {
    const { person, phone } = this.#flat;
    return [person.name, person.email, phone].some(
      (each) => each.toLowerCase() === String(query).toLowerCase(),
    );
  }

  #find(query: unknown): object[] {
    if (!this.#isFound(query)) return [];
    const { person, phone, prefers, tenant_id, unit_id, house_id, lease, address, city } = this.#flat;
    const { name, email } = person;
    return [
      { tenant_id, name, email, phone, prefers, unit_id, house_id, address, city, lease_id: lease.lease_id },
    ];
  }

  #listFirms(): string {
    // In a changed run, firms are listed by name, not by slot.
    const offers =
      this.#kind === 'changed'
        ? this.#flat.offers.toSorted((a, b) => (a.firm < b.firm ? -1 : 1))
        : this.#flat.offers;
    return [
      '| id | firm | call-out EUR | next free slot |',
      '|---|---|--:|---|',
      ...offers.map(
        ({ firm_id, firm, call_out, slot }) => `| ${firm_id} | ${firm} | ${call_out} | ${slot} |`,
      ),
    ].join('\n');
  }

  #book({ firm_id, slot }: ToolCall['input']): Result {
    const offer = this.#flat.offers.find((each) => each.firm_id === firm_id && each.slot === slot);
    if (offer === undefined) return bad('error: the firm has no such slot');
    return this.#flat.is_gone && offer === this.#bookable[0]
      ? bad(`error: ${offer.firm} has given the slot ${slot} to another customer and has no other one`)
      : good({ job: `J-${firm_id}`, state: 'booked' });
  }

  /** Offers that the rules allow, earliest first. */
  get #bookable(): Offer[] {
    const usual = ({ call_out }: Offer): boolean => call_out <= CALL_OUT_MAX;
    const allowed = this.#flat.offers.filter(usual);
    switch (this.#rule) {
      case 'not this firm':
        return allowed.slice(1);
      case 'dear firm':
        return this.#flat.offers.filter((offer, at) => at === 0 || usual(offer));
      case 'few charges':
      case 'no booking':
        return [];
      default:
        return allowed;
    }
  }

  isAlike(wanted: WantedCall, call: ToolCall): boolean {
    if (wanted.name === 'find_tenant' && call.name === 'find_tenant' && this.#isFound(wanted.input.query))
      return this.#isFound(call.input.query);
    return wanted.name === call.name && haveSameArguments(wanted, call);
  }

  moves(turns: readonly Turn[]): Move[] {
    const queries = callsOf(turns, 'find_tenant').map(({ input }) => input.query);
    if (!queries.some((query) => this.#isFound(query))) return this.#searches(queries);
    const reads = this.#reads(turns);
    if (reads.length > 0) return reads;
    const outcome = this.#outcome(turns);
    const acts = this.#acts(turns, outcome);
    const isWritten = this.#rule === 'no message' || callsOf(turns, 'send_message').length > 0;
    if (outcome.is === 'handed over' && this.#intent !== 'emergency' && !isWritten && acts.length > 0)
      return anyOf([...acts, this.#write(turns, outcome)], this.#together / 2);
    if (acts.length > 0) return [...only(...acts), ...this.#slips(turns, outcome)];
    return isWritten
      ? ending(writeNote(this.#flat, outcome, this.#rule !== 'no message'))
      : only(this.#write(turns, outcome));
  }

  #searches(tried: readonly unknown[]): Move[] {
    const { person, from } = this.#flat;
    const find = (query: string): WantedCall => ({ name: 'find_tenant', input: { query } });
    return tried.includes(from)
      ? only(find(person.name))
      : [
          { weight: 0.85, calls: [find(from)] },
          { weight: 0.15, calls: [find(person.name)] },
        ];
  }

  /** The calls that read what the decision needs; empty: everything is read. */
  #reads(turns: readonly Turn[]): Move[] {
    const { lease, unit_id, house_id, trade, city, due, job } = this.#flat;
    const unread = (name: string, input: ToolCall['input']): WantedCall[] =>
      callsOf(turns, name).length > 0 ? [] : [{ name, input }];
    const leases = unread('get_lease', { lease_id: lease.lease_id });
    switch (this.#intent) {
      case 'emergency':
        return [];
      case 'balance': {
        const ledger = unread('read_ledger', { lease_id: lease.lease_id });
        // The agent needs the rent to decide whether a debt is too large.
        return ledger.length > 0 || due > 0 ? anyOf([...ledger, ...leases], 0.3) : [];
      }
      case 'notice':
        return this.#rule === 'no notice' ? [] : anyOf(leases, 1);
      case 'question':
        return anyOf(unread('read_house_rules', { house_id }), 1);
      case 'defect': {
        const first = [...leases, ...unread('list_jobs', { unit_id })];
        const mayBook = job === null && this.#rule !== 'no booking';
        if (first.length > 0 || !mayBook) return anyOf(first, this.#together);
        return anyOf(unread('find_craftsmen', { trade, city }), 1);
      }
    }
  }

  #outcome(turns: readonly Turn[]): Outcome {
    const { lease, due, stance, is_alone, person, job } = this.#flat;
    switch (this.#intent) {
      case 'emergency':
        return { is: 'handed over', team: 'emergency' };
      case 'balance':
        return due > 2 * lease.rent ? { is: 'handed over', team: 'accounts' } : { is: 'balance' };
      case 'question':
        return stance === 'consent' ? { is: 'handed over', team: 'owners' } : { is: 'answered', stance };
      case 'notice': {
        if (this.#rule === 'no notice') return { is: 'handed over', team: 'leases' };
        if (is_alone)
          return { is: 'unsigned', other: lease.signatories.find((name) => name !== person.name)! };
        const fixed = lease.fixed_until === null ? 0 : Date.parse(lease.fixed_until);
        return { is: 'notice', ends: Math.max(fixed, lastOfMonth(this.#today, lease.notice_months)) };
      }
      case 'defect': {
        if (job !== null) return { is: 'known', job };
        const isGone = allCallsOf(turns, 'book_job').some(({ is_error }) => is_error);
        const offer = this.#bookable[isGone ? 1 : 0];
        if (offer === undefined)
          return { is: 'handed over', team: this.#rule === 'no booking' ? 'repairs' : 'owners' };
        const payer = offer.call_out <= lease.small_repairs_up_to ? 'tenant' : 'owner';
        return { is: 'booked', offer, payer };
      }
    }
  }

  #acts(turns: readonly Turn[], outcome: Outcome): WantedCall[] {
    const { lease, unit_id } = this.#flat;
    const { lease_id } = lease;
    const isDone = (name: string): boolean => callsOf(turns, name).length > 0;
    switch (outcome.is) {
      case 'booked': {
        const { firm_id, slot } = outcome.offer;
        const input = { unit_id, firm_id, slot, paid_by: outcome.payer };
        return isDone('book_job')
          ? []
          : [{ name: 'book_job', input, free: { description: describeDefect(this.#flat) } }];
      }
      case 'notice':
        return isDone('record_notice')
          ? []
          : [{ name: 'record_notice', input: { lease_id, ends_on: isoDate(outcome.ends) } }];
      case 'handed over':
        return isDone('hand_over')
          ? []
          : [
              {
                name: 'hand_over',
                input: { team: outcome.team, lease_id },
                free: { summary: writeSummary(this.#flat, this.#intent) },
              },
            ];
      default:
        return [];
    }
  }

  /** The message to the tenant. After a failure it uses the other channel. */
  #write(turns: readonly Turn[], outcome: Outcome): WantedCall {
    const { tenant_id, prefers } = this.#flat;
    const isFailed = allCallsOf(turns, 'send_message').some(({ is_error }) => is_error);
    const other = prefers === 'sms' ? 'email' : 'sms';
    return {
      name: 'send_message',
      input: { tenant_id, channel: isFailed ? other : prefers },
      free: { body: writeBody(this.#flat, this.#intent, outcome) },
    };
  }

  /** The model forgets that leases end with a month. */
  #slips(turns: readonly Turn[], outcome: Outcome): Move[] {
    if (outcome.is !== 'notice' || allCallsOf(turns, 'record_notice').length > 0) return [];
    const day = isoDate(addDays(outcome.ends, -between(createPrng(outcome.ends), 2, 20)));
    const input = { lease_id: this.#flat.lease.lease_id, ends_on: day };
    return [{ weight: 0.06, is_slip: true, calls: [{ name: 'record_notice', input }] }];
  }
}

export const propertyManager: HeldBackAgent = {
  name: 'property manager',
  model: 'gpt-5.5-mini',
  wire: 'responses',
  is_streaming: true,
  is_labelled: true,
  tools: TOOLS,
  asides: [
    "{First|I'll start}: who {is writing|this is}.",
    '{Let me|I will} {check|look at} {the file|what we have}.',
    '{That settles it|Clear}. {Going on.|Next step.}',
    '{One moment|Right}.',
  ],
  aside_share: 0.25,
  names: [...PERSON_NAMES, ...FIRMS],
  start: (seed, kind) => new ManagerRun(seed, kind),
};
