/**
 * An agent that settles insurance claims: it reads the claim, the policy and its documents, decides, and writes to the
 * holder. Messages API, without streaming. Pure; bench process.
 */

import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import type { Facts } from '../facts.ts';
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
import { anyOf, scaled } from '../independent.ts';
import { callsOf } from '../turns.ts';
import {
  addDays,
  groupedMoney,
  isoDate,
  longDate,
  makeAddress,
  makeDay,
  makeId,
  makePerson,
  PERSON_NAMES,
  type Person,
  plainMoney,
  roundCents,
} from '../vocabulary.ts';
import { between, pick, shuffle, word } from '../wording.ts';

/** Euros that the agent may settle alone. */
const SETTLE_MAX = 5_000;
const PERMITTED_MAX = 20_000;

const CAUSES = ['water', 'storm', 'theft', 'fire', 'glass', 'lightning'] as const;
type Cause = (typeof CAUSES)[number];

/** What was damaged, and what a repair consists of. */
const DAMAGES: Readonly<Record<Cause, { things: readonly string[]; items: readonly string[] }>> = {
  water: {
    things: ['parquet in the hall', 'kitchen ceiling', 'bathroom wall', 'cellar floor'],
    items: ['drying for two weeks', 'remove wet plaster', 'new skirting boards', 'repaint ceiling'],
  },
  storm: {
    things: ['ridge tiles', 'garden shed', 'gutter and fascia', 'satellite mast'],
    items: ['scaffold', 'replace tiles', 'new battens', 'carpenter, hours'],
  },
  theft: {
    things: ['cargo bicycle', 'two laptops', 'camera with lenses', 'power tools'],
    items: ['replacement value', 'accessories', 'new lock', 'locksmith'],
  },
  fire: {
    things: ['cooker hood', 'living room carpet', 'balcony furniture', 'wooden staircase'],
    items: ['soot cleaning', 'replace worktop', 'electrician, hours', 'ozone treatment'],
  },
  glass: {
    things: ['patio door', 'shop window', 'conservatory roof pane', 'shower screen'],
    items: ['double glazing unit', 'fitting', 'disposal', 'emergency boarding'],
  },
  lightning: {
    things: ['heating control', 'router and television', 'alarm system', 'garage door drive'],
    items: ['replacement unit', 'electrician, hours', 'surge protector', 'testing'],
  },
};
const CIRCUMSTANCES: Readonly<Record<Cause, readonly string[]>> = {
  water: ['a hose of the washing machine burst', 'a pipe behind the tiles leaked for some days'],
  storm: ['a gust during the night tore it loose', 'a branch came down on it'],
  theft: ['it was gone in the morning and the lock lay on the ground', 'the cellar door had been forced'],
  fire: ['a pan with oil caught fire', 'a candle set light to it'],
  glass: ['a ladder fell against it', 'it cracked from one edge to the other'],
  lightning: ['lightning struck the house next door', 'nothing worked after the thunderstorm'],
};

const TOOLS = [
  tool('get_claim', 'Reads a claim with the list of its documents.', { claim_id: 'string' }),
  tool('get_policy', 'Reads the policy as text.', { policy_number: 'string' }),
  tool('read_document', 'Reads a document of a claim as text.', { document_id: 'string' }),
  tool('settle_claim', 'Pays an amount to the holder and closes the claim.', {
    claim_id: 'string',
    amount: 'number',
    reason: 'string',
  }),
  tool('decline_claim', 'Closes the claim without a payment.', { claim_id: 'string', reason: 'string' }),
  tool('refer_claim', 'Hands the claim to an adjuster.', { claim_id: 'string', reason: 'string' }),
  tool('request_document', 'Asks the holder for a document and keeps the claim open.', {
    claim_id: 'string',
    document_kind: 'string',
  }),
  tool('send_letter', 'Sends a letter to the holder.', { claim_id: 'string', body: 'string' }),
];

type Outcome =
  | { does: 'settle'; amount: number }
  | { does: 'decline'; why: 'excluded' | 'not in force' | 'below excess' }
  | { does: 'refer' }
  | { does: 'request'; document: string }
  | { does: 'propose'; amount: number };

interface Document {
  document_id: string;
  title: string;
  text: string;
}

interface Claim {
  id: string;
  policy: string;
  holder: Person;
  address: string;
  cause: Cause;
  thing: string;
  total: number;
  excess: number;
  limit: number;
  excluded: readonly Cause[];
  happened: number;
  begins: number;
  today: number;
  has_estimate: boolean;
  has_report: boolean;
}

function makeClaim(prng: Prng, kind: RunKind): Claim {
  const today = makeDay(prng);
  const cause = pick(prng, CAUSES);
  const happened = addDays(today, -between(prng, 3, 40));
  const isUsual = kind !== 'restricted';
  const isLarge = isUsual && prng.chance(0.15);
  const isLate = isUsual && prng.chance(0.08);
  const others = shuffle(
    prng,
    CAUSES.filter((each) => each !== cause),
  );
  return {
    id: makeId(prng, 'CL-', 7),
    policy: makeId(prng, pick(prng, ['HH', 'HC', 'BD']), 8),
    holder: makePerson(prng, pick(prng, ['example.com', 'mail.example.net', 'post.example.org'])),
    address: makeAddress(prng),
    cause,
    thing: pick(prng, DAMAGES[cause].things),
    total: isLarge ? between(prng, 510_000, 1_400_000) / 100 : between(prng, 12_000, 480_000) / 100,
    excess: pick(prng, [100, 150, 250, 300, 500]),
    limit: pick(prng, [1_500, 2_500, 4_000, 10_000, 25_000]),
    excluded: others.slice(0, 1).concat(isUsual && prng.chance(0.1) ? [cause] : []),
    happened,
    begins: isLate ? addDays(happened, between(prng, 2, 60)) : addDays(happened, -between(prng, 40, 1_500)),
    today,
    has_estimate: !isUsual || prng.chance(0.85),
    has_report: !isUsual || prng.chance(0.7),
  };
}

/** An estimate of the repair: lines whose costs add up to the total. */
function writeEstimate(prng: Prng, { cause, thing, total, holder, happened }: Claim): string {
  const items = shuffle(prng, DAMAGES[cause].items).slice(0, between(prng, 2, 4));
  let left = Math.round(total * 100);
  const lines = items.map((item, at) => {
    const cents = at === items.length - 1 ? left : Math.floor((left * between(prng, 25, 60)) / 100);
    left -= cents;
    return `${String(at + 1).padStart(2)}  ${item.padEnd(30)}${groupedMoney(cents / 100).padStart(12)} EUR`;
  });
  const firm = makePerson(prng, 'firm.example');
  return [
    `${firm.last} & ${pick(prng, ['Sons', 'Partners', 'Co.'])}, ${makeAddress(prng)}`,
    `Estimate no. ${between(prng, 1_000, 9_999)} of ${longDate(addDays(happened, between(prng, 1, 3)))}`,
    `Customer: ${holder.name}`,
    `Object: ${thing}`,
    '',
    ...lines,
    '-'.repeat(50),
    `    Total including VAT           ${groupedMoney(total).padStart(12)} EUR`,
    '',
    `This estimate is valid for ${pick(prng, [30, 45, 60, 90])} days. Work can begin ${pick(prng, ['at once', 'in about ten days', 'next month'])}.`,
  ].join('\n');
}

function writePolicy(
  prng: Prng,
  { policy, holder, address, begins, excess, limit, cause, excluded }: Claim,
): string {
  const covered = CAUSES.filter((each) => !excluded.includes(each));
  return [
    'FENNMARK MUTUAL - POLICY SCHEDULE',
    `Policy ${policy}`,
    `Holder: ${holder.name}, ${address}`,
    `Cover begins: ${isoDate(begins)} at 00:00`,
    `Premium: ${groupedMoney(between(prng, 9_000, 90_000) / 100)} EUR a year, paid ${pick(prng, ['yearly', 'monthly', 'quarterly'])}`,
    '',
    '1 What is covered',
    ...covered.map(
      (each, at) =>
        `1.${at + 1} ${each}: up to ${groupedMoney(each === cause ? limit : between(prng, 1, 40) * 500)} EUR for each event`,
    ),
    '2 What is not covered',
    ...excluded.map((each, at) => `2.${at + 1} damage by ${each}, whatever its origin`),
    `2.${excluded.length + 1} wear, and damage that the holder caused on purpose`,
    '3 Excess',
    `3.1 The holder bears the first ${groupedMoney(excess)} EUR of each event.`,
    '4 Duties after an event',
    '4.1 The holder reports the event within 60 days and keeps damaged things for inspection.',
    '4.2 Theft must be reported to the police.',
  ].join('\n');
}

function makeDocuments(prng: Prng, claim: Claim): Document[] {
  const { cause, has_estimate, has_report, holder, happened, thing } = claim;
  const make = (title: string, text: string): Document => ({
    document_id: makeId(prng, 'D', 6),
    title,
    text,
  });
  const station = makeAddress(prng);
  return shuffle(prng, [
    ...(has_estimate ? [make('repair estimate', writeEstimate(prng, claim))] : []),
    ...(cause === 'theft' && has_report
      ? [
          make(
            'police report',
            `Police station ${station}\nFile ${makeId(prng, 'P', 8)}\n${holder.name} reports on ${longDate(addDays(happened, 1))} that unknown persons took: ${thing}. Traces were secured. There is no suspect so far.`,
          ),
        ]
      : []),
    make(
      'statement of the holder',
      `I noticed it on ${longDate(happened)} at about ${between(prng, 6, 22)}:${between(prng, 10, 59)}. What happened: ${pick(prng, CIRCUMSTANCES[cause])}. Damaged or lost: ${thing}. I have told the neighbours and taken ${between(prng, 2, 12)} pictures. ${holder.name}`,
    ),
    ...(prng.chance(0.5)
      ? [
          make(
            'photographs',
            `${between(prng, 2, 12)} pictures of: ${thing}. Machine description: damage is visible.`,
          ),
        ]
      : []),
  ]);
}

const TASKS = [
  '{Please handle|Please decide|Work on} claim <id>{, <holder>|}.',
  '<holder> {called again|wrote twice} about the <thing>. {The claim is|It is claim} <id>; {please finish it|can you get it done today?}',
  'New in the {queue|inbox}: <id> (<cause>). {Take it from here.|Yours.|Please settle or decline.}',
  '{Next one:|} <id>. {<cause> damage, reported by <holder>.|}',
];

class HandlerRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #claim: Claim;
  readonly #policy: string;
  readonly #documents: readonly Document[];
  readonly #outcome: Outcome;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    const claim = makeClaim(prng, kind);
    const usual = decide(claim, SETTLE_MAX);
    // In a changed run, the model wants an invoice before it pays.
    const changed: Outcome = { does: 'request', document: 'invoice' };
    const { outcome, rule, wish } =
      kind === 'restricted'
        ? restrict(prng, claim)
        : { outcome: kind === 'changed' && usual.does === 'settle' ? changed : usual, rule: '', wish: '' };
    this.#claim = claim;
    this.#outcome = outcome;
    this.#policy = writePolicy(prng, claim);
    this.#documents = makeDocuments(prng, claim);
    this.system = [
      `You settle claims of Fennmark Mutual. Today is ${isoDate(claim.today)}.`,
      'Read the claim, its policy and the documents that matter. Decline if the cover had not begun, if the cause is excluded, or if the damage is not above the excess.',
      'Ask for a repair estimate if it is missing, and for theft also for a police report. The payment is the total of the estimate minus the excess, at most the limit for the cause.',
      `You may settle claims whose estimate is at most ${SETTLE_MAX} EUR; refer larger ones.${rule}`,
      'After the decision write to the holder, then end with one sentence for the file.',
    ].join('\n');
    this.task = `${word(prng, pick(prng, TASKS), {
      id: claim.id,
      holder: claim.holder.name,
      thing: claim.thing,
      cause: claim.cause,
    })}${wish}`;
  }

  perform({ name, input }: ToolCall): Result {
    const claim = this.#claim;
    if (name === 'get_policy')
      return input.policy_number === claim.policy ? good(this.#policy) : bad('unknown policy');
    if (name === 'read_document') {
      const found = this.#documents.find(({ document_id }) => document_id === input.document_id);
      return found === undefined ? bad('unknown document') : good(found.text);
    }
    if (input.claim_id !== claim.id) return bad('unknown claim');
    if (name !== 'get_claim') return good({ claim_id: claim.id, ok: true });
    return good({
      claim_id: claim.id,
      policy_number: claim.policy,
      holder: { name: claim.holder.name, email: claim.holder.email },
      cause: claim.cause,
      object: claim.thing,
      happened_on: isoDate(claim.happened),
      place: claim.address,
      documents: this.#documents.map(({ document_id, title }) => ({ document_id, title })),
      status: 'open',
    });
  }

  moves(turns: readonly Turn[]): Move[] {
    const claim = this.#claim;
    if (callsOf(turns, 'get_claim').length === 0)
      return only({ name: 'get_claim', input: { claim_id: claim.id } });
    const decision = this.#decision();
    const isDecided = decision !== null && callsOf(turns, decision.name).length > 0;
    if (isDecided)
      return callsOf(turns, 'send_letter').length === 0
        ? only({ name: 'send_letter', input: { claim_id: claim.id }, free: { body: this.#letter() } })
        : ending(this.#note());
    const { needed, others } = this.#unread(turns);
    const together = anyOf(needed, 0.6);
    const extra = anyOf([...needed, ...others], 0.8);
    if (needed.length > 0) return [...scaled(together, 0.9), ...scaled(extra, 0.1)];
    if (decision === null) return ending(this.#proposal());
    return [{ weight: 1, calls: [decision] }, ...scaled(anyOf(others, 0.2), others.length > 0 ? 0.05 : 0)];
  }

  /** The policy and the documents that are not read yet. */
  #unread(turns: readonly Turn[]): { needed: WantedCall[]; others: WantedCall[] } {
    const read = new Set(callsOf(turns, 'read_document').map(({ input }) => input.document_id));
    const policy = { name: 'get_policy', input: { policy_number: this.#claim.policy } };
    const isKnown = callsOf(turns, 'get_policy').length > 0;
    const needed: WantedCall[] = isKnown ? [] : [policy];
    const others: WantedCall[] = [];
    for (const { document_id, title } of this.#documents) {
      if (read.has(document_id)) continue;
      const look = { name: 'read_document', input: { document_id } };
      (title === 'repair estimate' && this.#needsEstimate ? needed : others).push(look);
    }
    return { needed, others };
  }

  get #needsEstimate(): boolean {
    const outcome = this.#outcome;
    if (outcome.does === 'decline') return outcome.why === 'below excess';
    if (outcome.does === 'request') return outcome.document === 'invoice';
    // In a restricted run, a sentence may require an adjuster for any claim.
    return outcome.does !== 'refer' || this.#claim.total > SETTLE_MAX;
  }

  get #values(): Record<string, string> {
    const { id, holder, cause, thing, total, excess, limit, happened, begins, policy } = this.#claim;
    const outcome = this.#outcome;
    const amount = 'amount' in outcome ? outcome.amount : 0;
    return {
      id,
      cause,
      thing,
      policy,
      holder: holder.name,
      first: holder.first,
      last: holder.last,
      total: groupedMoney(total),
      excess: groupedMoney(excess),
      plain_excess: String(excess),
      limit: groupedMoney(limit),
      happened: longDate(happened),
      happened_iso: isoDate(happened),
      begins: longDate(begins),
      begins_iso: isoDate(begins),
      amount: groupedMoney(amount),
      plain: plainMoney(amount),
      document: outcome.does === 'request' ? outcome.document : '',
      max: groupedMoney(SETTLE_MAX),
    };
  }

  #text(wordings: readonly string[], needs: Facts['needs'], bars: RegExp[] = []): FreeText {
    return { wordings, values: this.#values, facts: { needs, bars } };
  }

  get #money(): string[] {
    const { amount, plain } = this.#values;
    return [amount!, plain!];
  }

  /** The call that decides the claim; null: the task forbids a decision. */
  #decision(): WantedCall | null {
    const claim_id = this.#claim.id;
    const outcome = this.#outcome;
    switch (outcome.does) {
      case 'settle':
        return {
          name: 'settle_claim',
          input: { claim_id, amount: outcome.amount },
          free: { reason: this.#text(SETTLE_REASONS, [], [/declin|exclud|not covered|refer/]) },
        };
      case 'decline':
        return {
          name: 'decline_claim',
          input: { claim_id },
          free: { reason: this.#text(DECLINE_REASONS[outcome.why], [DECLINE_NEEDS[outcome.why]]) },
        };
      case 'refer':
        return {
          name: 'refer_claim',
          input: { claim_id },
          free: { reason: this.#text(REFER_REASONS, [], [/declin|settled|was paid/]) },
        };
      case 'request':
        return { name: 'request_document', input: { claim_id, document_kind: outcome.document } };
      case 'propose':
        return null;
    }
  }

  #letter(): FreeText {
    const outcome = this.#outcome;
    const frame = (body: string): string =>
      `{Dear <holder>|Dear <first> <last>|Hello <first>},\n\n{Thank you for your patience.|We have looked at your claim <id>.|} ${body}\n\n{Kind regards|With best regards|Yours sincerely},\nFennmark Mutual`;
    switch (outcome.does) {
      case 'settle':
        return this.#text(SETTLE_LETTERS.map(frame), [this.#money], [/unfortunately|cannot pay/]);
      case 'decline':
        return this.#text(
          DECLINE_LETTERS[outcome.why].map(frame),
          [[/cannot|unable|not possible|no payment/], DECLINE_NEEDS[outcome.why]],
          [/we (will )?pay you|we are paying/],
        );
      case 'request':
        return this.#text(
          [
            '{Please send us|We still need|To go on we need} {the|a} <document> {for the <thing>|}.',
            'We cannot decide yet: {a <document> is missing|there is no <document> so far}. {Please send it.|Could you send it to us?}',
          ].map(frame),
          [[outcome.document]],
          [/declined|have paid/],
        );
      default:
        return this.#text(
          [
            '{An adjuster|One of our adjusters} {will look at|takes over} your claim {about the <thing>|} and {will call you|contacts you} {soon|in the next days}.',
            'We {passed|handed} your claim to an adjuster{, who will be in touch|, who decides about it}.',
          ].map(frame),
          [[/adjuster/]],
          [/declined|have paid|cannot pay/],
        );
    }
  }

  #note(): FreeText {
    const outcome = this.#outcome;
    switch (outcome.does) {
      case 'settle':
        return this.#text(
          [
            '<id> {settled|is settled}{ for <holder>|}: <amount> EUR{ (<total> minus the excess of <excess>)|}.',
            '{Paid|I paid} <plain> EUR for <id> and {told|wrote to} the holder.',
            '{<cause> damage|The <cause> claim} <id>: <amount> EUR paid{, holder informed|}.',
          ],
          [[this.#claim.id], this.#money],
          [/declin|referred/],
        );
      case 'decline':
        return this.#text(
          [
            '<id> {declined|is declined}{, holder informed|}.',
            '{I declined|Declined} <id>{ and told <holder>|}.',
          ],
          [[this.#claim.id], [/declin/]],
          [/paid|settled/],
        );
      case 'request':
        return this.#text(
          [
            '<id> {waits|is waiting} for {the|a} <document>.',
            '{Asked|I asked} for {a|the} <document>; <id> stays open.',
          ],
          [[this.#claim.id], [outcome.document]],
          [/paid|settled|declin/],
        );
      default:
        return this.#text(
          [
            '<id> {went|is handed|was handed} to an adjuster.',
            '{Referred|I referred} <id> to an adjuster{ and told <holder>|}.',
          ],
          [[this.#claim.id], [/adjuster/]],
          [/paid|settled|declin/],
        );
    }
  }

  #proposal(): FreeText {
    return this.#text(
      [
        'I would {pay|settle} <amount> EUR for <id>: <total> minus the excess of <excess>{, within the limit of <limit>|}.',
        '{My proposal|What I would pay} for <id>: <plain> EUR{. Nothing is decided yet.|.}',
      ],
      [[this.#claim.id], this.#money, [/would|proposal/]],
      [/have paid|is settled|has been/],
    );
  }
}

const SETTLE_REASONS = [
  '{Covered|Insured} <cause> damage{ to the <thing>|}, <total> EUR {less|minus} the excess of <excess>{ EUR|}',
  'Estimate of <total>, excess <excess>{, limit <limit>|}',
  '{<cause> is covered|Cover for <cause>}; {estimate|total} <total> EUR{, paid up to the limit|}',
];
const REFER_REASONS = [
  '{Estimate of|Damage of} <total> EUR{ is above my limit| needs an adjuster|}',
  '<cause>, <thing>: {please decide|for an adjuster}',
  '{Needs a decision by an adjuster|Not mine to decide}: <total> EUR',
];

type DeclineReason = Extract<Outcome, { does: 'decline' }>['why'];

const DECLINE_NEEDS: Readonly<Record<DeclineReason, RegExp[]>> = {
  excluded: [/exclu|not (covered|insured)|does not cover/],
  'not in force': [/not (yet )?(in force|begun)|began|begins|before|starts/],
  'below excess': [/excess/],
};
const DECLINE_REASONS: Readonly<Record<DeclineReason, readonly string[]>> = {
  excluded: [
    '{Damage by <cause>|<cause>} is {excluded|not covered}{ by policy <policy>|}',
    'Policy excludes <cause>',
  ],
  'not in force': [
    '{Event|Damage} of <happened> {was|is} before the cover {began|begins} (<begins>)',
    'Policy <policy> {was not in force|had not begun} on <happened_iso>{; it begins <begins_iso>|}',
  ],
  'below excess': [
    '{Total|Estimate} of <total> EUR is {within|below} the excess of <excess>{ EUR|}',
    'Damage does not exceed the excess{ (<excess> EUR)|}',
  ],
};
const SETTLE_LETTERS = [
  'We {pay you|have paid you|are paying you} <amount> EUR for the <thing>. {This is the estimate of <total> EUR minus your excess of <excess> EUR.|}',
  '{Your policy covers the damage.|The damage is covered.} {You receive|We transfer} <plain> EUR{ within five working days|}.',
  'The {<cause> damage|damage} is {accepted|covered}: {<amount> EUR are on their way|we have transferred <amount> EUR}{, after the excess of <plain_excess> EUR|}.',
];
const DECLINE_LETTERS: Readonly<Record<DeclineReason, readonly string[]>> = {
  excluded: [
    '{Unfortunately|We are sorry, but} we cannot pay for the <thing>, because your policy {excludes <cause>|does not cover <cause>}.',
    'A payment is not possible: damage by <cause> is {excluded from|not covered by} policy <policy>.',
  ],
  'not in force': [
    '{Unfortunately|We are sorry, but} we cannot pay: the damage {happened|occurred} on <happened>, before your cover began on <begins>.',
    'We are unable to pay for the <thing>, because your cover {only began on <begins>|had not begun on <happened>}.',
  ],
  'below excess': [
    '{Unfortunately|We are sorry, but} no payment {is due|results}: the damage of <total> EUR {is not above|does not exceed} your excess of <excess> EUR.',
    'We cannot pay for the <thing>, because the total {stays within|is below} the excess{ of <plain_excess> EUR|}.',
  ],
};

function decide(claim: Claim, settle_max: number): Outcome {
  const { happened, begins, excluded, cause, has_estimate, has_report, total, excess, limit } = claim;
  if (happened < begins) return { does: 'decline', why: 'not in force' };
  if (excluded.includes(cause)) return { does: 'decline', why: 'excluded' };
  if (!has_estimate) return { does: 'request', document: 'repair estimate' };
  if (cause === 'theft' && !has_report) return { does: 'request', document: 'police report' };
  if (total <= excess) return { does: 'decline', why: 'below excess' };
  if (total > settle_max) return { does: 'refer' };
  return { does: 'settle', amount: roundCents(Math.min(total - excess, limit)) };
}

/** Gives the claim everything that a payment needs, and adds a sentence that changes the decision. */
function restrict(prng: Prng, claim: Claim): { outcome: Outcome; rule: string; wish: string } {
  claim.total = roundCents(claim.excess + between(prng, 20_000, 300_000) / 100);
  const way = prng.below(3);
  if (way === 0)
    return {
      outcome: { does: 'refer' },
      rule: pick(prng, [
        ` Do not settle any claims for ${claim.cause} this month; refer them to an adjuster.`,
        ` Until further notice every ${claim.cause} claim has to go to an adjuster.`,
      ]),
      wish: '',
    };
  if (way === 1) {
    claim.total = between(prng, 560_000, 1_500_000) / 100;
    return {
      outcome: decide(claim, PERMITTED_MAX),
      rule: ` Exception for this week: you may settle estimates of up to ${PERMITTED_MAX} EUR yourself.`,
      wish: '',
    };
  }
  const decided = decide(claim, SETTLE_MAX);
  return {
    outcome: { does: 'propose', amount: decided.does === 'settle' ? decided.amount : 0 },
    rule: '',
    wish: pick(prng, [
      ' Only tell me what you would pay; do not decide and do not write to anyone.',
      ' Please do not close it yet: I just want to know the amount.',
    ]),
  };
}

export const claimsHandler: HeldBackAgent = {
  name: 'claims handler',
  model: 'claude-opus-5',
  wire: 'messages',
  is_streaming: false,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    "{I'll|Let me} {open the claim|read the papers|check the cover} {first|}.",
    '{The policy matters here.|Now the decision.|Everything is there.}',
  ],
  aside_share: 0.3,
  names: PERSON_NAMES,
  start: (seed, kind) => new HandlerRun(seed, kind),
};
