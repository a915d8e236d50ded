/**
 * What the property manager writes: messages to a tenant, summaries for a team and notes for the file, with the facts
 * that they must state. Pure; bench process.
 */

import type { Facts } from '../facts.ts';
import type { FreeText } from '../held-back-agent.ts';
import { groupedMoney, isoDate, longDate, plainMoney } from '../vocabulary.ts';
import type { Flat, Intent, Offer } from './rented-flat.ts';

/** The outcome of a run. */
export type Outcome =
  | { is: 'booked'; offer: Offer; payer: 'tenant' | 'owner' }
  | { is: 'known'; job: Offer }
  | { is: 'handed over'; team: string }
  | { is: 'balance' }
  | { is: 'notice'; ends: number }
  | { is: 'unsigned'; other: string }
  | { is: 'answered'; stance: 'allowed' | 'forbidden' };

/** Sentences with the same meaning, and what each of them must contain. */
interface Said {
  sentences: readonly string[];
  needs: Facts['needs'];
  bars?: readonly RegExp[];
}

const YOU_PAY = /you (?:have to |must )?(?:pay|bear)(?! nothing)/;

export function describeDefect({ defect: [, short, key], person, phone }: Flat): FreeText {
  return {
    wordings: [
      '{Repair of|Please repair}: <short>{. Tenant: <name>, <phone>|}',
      '<short>{, tenant <name>|}{, please call <phone> before|}',
      '{Tenant reports|<name> reports} <short>',
    ],
    values: { short, name: person.name, phone },
    facts: { needs: [[key]] },
  };
}

/** The summary for a team that takes over. */
export function writeSummary(flat: Flat, intent: Intent): FreeText {
  const { defect, topic, person, due, address, phone } = flat;
  const { sentences, needs } = summarise(flat, intent);
  return {
    wordings: sentences,
    values: {
      ...{ name: person.name, short: defect[1], address, phone, topic: topic[1].toLowerCase() },
      due: plainMoney(due),
    },
    facts: { needs: [[person.name], ...needs] },
  };
}

function summarise({ defect, topic, due }: Flat, intent: Intent): Said {
  switch (intent) {
    case 'defect':
    case 'emergency':
      return {
        sentences: [
          '<name>{, <address>|}: <short>. {Please take over.|Please decide.|}',
          '{Tenant|The tenant} <name> reports <short>{. Phone: <phone>|}',
        ],
        needs: [[defect[2]]],
      };
    case 'balance':
      return {
        sentences: [
          '<name> {owes|is behind with} <due> EUR{, more than two rents|}.',
          '{Arrears of|Open:} <due> EUR{, tenant|,} <name>{. Please agree on instalments.|}',
        ],
        needs: [spellMoney(due)],
      };
    case 'notice':
      return {
        sentences: [
          '<name> {gives notice|wants to end the lease}. {Please record it.|Please take over.}',
          'Notice {of|from} <name>{, <address>|}',
        ],
        needs: [[/notice|end the lease|terminat/]],
      };
    case 'question':
      return {
        sentences: [
          '<name> asks about <topic>. {The house rules require consent.|Does the owner agree?}',
          'Consent {wanted|needed}: <topic>, tenant <name>{ (<address>)|}',
        ],
        needs: [[topic[2]]],
      };
  }
}

/** The message to the tenant. */
export function writeBody(flat: Flat, intent: Intent, outcome: Outcome): FreeText {
  const { sentences, needs, bars = [] } = tellTenant(flat, intent, outcome);
  return {
    wordings: sentences.map(
      (sentence) =>
        `{Dear|Hello|Hi} <first>, ${sentence} {Kind regards, Kestrel & Rowe|Best wishes, Kestrel & Rowe|Kestrel & Rowe}`,
    ),
    values: valuesOf(flat, outcome),
    facts: { needs, bars },
  };
}

function valuesOf({ person, lease, defect, due, topic }: Flat, outcome: Outcome): Record<string, string> {
  const offer = outcome.is === 'booked' ? outcome.offer : outcome.is === 'known' ? outcome.job : null;
  const [day = '', time = ''] = offer?.slot.split(' ') ?? [];
  return {
    ...{ first: person.first, name: person.name, short: defect[1], topic: topic[1].toLowerCase() },
    ...{ lease: lease.lease_id, amount: groupedMoney(Math.abs(due)) },
    ...(offer === null
      ? {}
      : { firm: offer.firm, day: longDate(Date.parse(day)), iso: day, time, cost: String(offer.call_out) }),
    ...(outcome.is === 'booked' ? { payer: outcome.payer } : {}),
    ...(outcome.is === 'notice' ? { ends: longDate(outcome.ends), ends_iso: isoDate(outcome.ends) } : {}),
    ...(outcome.is === 'unsigned' ? { other: outcome.other } : {}),
    ...(outcome.is === 'handed over' ? { team: outcome.team } : {}),
  };
}

/** Spellings of an amount without its sign. */
function spellMoney(amount: number): string[] {
  const size = Math.abs(amount);
  return [groupedMoney(size), plainMoney(size), String(size)];
}

/** Spellings of an appointment: firm, day and time. */
function needsVisit({ firm, slot }: Offer): Facts['needs'] {
  const [day = '', time = ''] = slot.split(' ');
  return [[firm], [longDate(Date.parse(day)), day], [time]];
}

function tellTenant(flat: Flat, intent: Intent, outcome: Outcome): Said {
  switch (outcome.is) {
    case 'booked':
      return tellVisit(outcome.offer, outcome.payer);
    case 'known':
      return {
        sentences: [
          '{this is known already|we know about it}: <firm> {comes|will come} on <day> at <time>.',
          '{a repair is booked already|someone is on the way}: <firm>, <day>, <time>.',
        ],
        needs: needsVisit(outcome.job),
        bars: [YOU_PAY, /you owe/],
      };
    case 'handed over':
      return tellTeam(flat, intent);
    case 'balance':
      return tellBalance(flat);
    case 'notice':
      return {
        sentences: [
          '{we have recorded your notice|your notice is recorded}. {Your lease ends on|The last day of your lease is|The lease runs until} <ends>.',
          '{thank you for your notice|we confirm your notice}: the lease ends on <ends>. {Please arrange a date for the keys.|}',
        ],
        needs: [[longDate(outcome.ends), isoDate(outcome.ends)]],
        bars: [/signature is missing|(?:has|have) to sign|colleague/],
      };
    case 'unsigned':
      return {
        sentences: [
          '{we cannot record your notice yet|your notice is not complete}: <other> has to sign it, too.',
          'the lease {was signed by two people|has two signatories}, so <other> {must|has to} sign the notice as well.',
        ],
        needs: [[outcome.other], [/\bsign|signature/]],
        bars: [/recorded your|is recorded|lease ends/],
      };
    case 'answered':
      return tellAnswer(flat, outcome.stance);
  }
}

function tellVisit(offer: Offer, payer: 'tenant' | 'owner'): Said {
  const visit = needsVisit(offer);
  return payer === 'tenant'
    ? {
        sentences: [
          '<firm> {comes|will come} on <day> at <time>. {The call-out of <cost> EUR is a small repair, so you pay it.|Under your lease you pay the call-out (<cost> EUR).}',
          'we have booked <firm> for <day>, <time>. You pay the call-out of <cost> EUR{ under your lease|}.',
        ],
        needs: [...visit, [YOU_PAY], [String(offer.call_out)]],
        bars: [/owner (?:pays|bears|takes)|pay nothing|free of charge/],
      }
    : {
        sentences: [
          '<firm> {comes|will come} on <day> at <time>. {The owner pays.|You pay nothing: the owner bears the cost.}',
          'we have booked <firm> for <day>, <time>. The owner {pays|takes} the {call-out|bill}.',
        ],
        needs: [...visit, [/owner|free of charge|pay nothing/]],
        bars: [YOU_PAY],
      };
}

function tellBalance({ due }: Flat): Said {
  if (due === 0)
    return {
      sentences: [
        'your account is {settled|balanced}, {nothing is open|you owe nothing}.',
        '{you are up to date|everything is paid}: there is nothing to pay at the moment.',
      ],
      needs: [[/nothing|settled|0\.00|up to date/]],
      bars: [/you owe (?!nothing)|credit of|arrears/],
    };
  return due < 0
    ? {
        sentences: [
          'you have a credit of <amount> EUR{ with us|}.',
          'you {have paid|paid} <amount> EUR {too much|more than you owed}: {this is your credit|it stays as a credit}.',
        ],
        needs: [spellMoney(due), [/credit/]],
        bars: [/you owe |arrears|outstanding|please pay/],
      }
    : {
        sentences: [
          'you owe <amount> EUR{ at the moment|}. {Please pay it this month.|}',
          '<amount> EUR {are|is} open on your account. {Please pay soon.|Please transfer them.}',
        ],
        needs: [spellMoney(due), [/you owe|\bopen\b|outstanding|please pay|arrears/]],
        bars: [/credit|nothing|settled|colleague|team/],
      };
}

/** Tells the tenant that a team decides. */
function tellTeam({ defect, due, topic }: Flat, intent: Intent): Said {
  const colleagues = [/colleague|team/];
  switch (intent) {
    case 'emergency': {
      const isGas = defect[1].includes('gas');
      const call = 'Our emergency team {calls|will call} you {right away|at once}.';
      return {
        sentences: isGas
          ? [`please leave the flat {now|at once}{ and do not use any switches|}. ${call}`]
          : [`please {shut|close} the main tap{ if you can|}. ${call}`],
        needs: [[/emergency/], [isGas ? /leave/ : /main tap/]],
        bars: [isGas ? /main tap/ : /\bgas\b|leave the flat/],
      };
    }
    case 'balance':
      return {
        sentences: [
          'you owe <amount> EUR. Our {colleagues|team} for accounts {will write|will talk} to you {about it|about instalments}.',
          '<amount> EUR are open on your account. My colleagues in accounts will {contact you|get in touch}.',
        ],
        needs: [spellMoney(due), colleagues],
        bars: [/credit|nothing|settled/],
      };
    case 'notice':
      return {
        sentences: [
          '{I have passed your notice on to|your notice is with} our team for leases. They will {confirm the end date|write to you}.',
          'my colleagues for leases {look after|handle} your notice and {will write to you|will answer soon}.',
        ],
        needs: [colleagues, [/notice/]],
        bars: [/is recorded|have recorded|lease ends/],
      };
    case 'question':
      return {
        sentences: [
          'the owner has to agree to that (<topic>). {We have asked|My colleagues ask}, and {will write to you|will let you know}.',
          '<topic>: {this needs|that requires} the consent of the owner{, whom we have asked|}.',
        ],
        needs: [[/owner/], [topic[2]]],
        bars: [/not allowed|is allowed|forbidden|you may (?!hear)/],
      };
    case 'defect':
      return {
        sentences: [
          '{I have passed this on to|your message (<short>) is with} my colleagues. They will {arrange|see to} the repair.',
          'our team {looks|will look} into it (<short>) and {calls|will call} you about a date.',
        ],
        needs: [colleagues],
        bars: [/booked|comes on|will come on/, YOU_PAY],
      };
  }
}

function tellAnswer({ topic: [, , key] }: Flat, stance: 'allowed' | 'forbidden'): Said {
  return stance === 'allowed'
    ? {
        sentences: [
          'yes, {that is allowed|the house rules allow it} (<topic>).',
          '<topic>: {allowed|fine}{ in your house|}, {go ahead|you need not ask anyone}.',
        ],
        needs: [[key], [/allow|fine|permitted|\byes\b|go ahead/]],
        bars: [/not (?:be )?(?:allow|permit)|forbid|prohibit|unfortunately|owner/],
      }
    : {
        sentences: [
          '{unfortunately|I am sorry, but} the house rules {do not allow|forbid} that (<topic>).',
          '<topic>: {this is|that is} not allowed in your house{, I am sorry|}.',
        ],
        needs: [[key], [/not (?:be )?(?:allow|permit)|forbid|prohibit/]],
        bars: [/\byes\b|is fine|go ahead|owner/],
      };
}

/**
 * The note for the file.
 * @param isTold whether the tenant got a message
 */
export function writeNote(flat: Flat, outcome: Outcome, isTold: boolean): FreeText {
  const { sentences, needs, bars = [] } = noteOutcome(flat, outcome);
  const told = isTold ? '{, tenant informed|, tenant knows|}' : '{, tenant not informed|}';
  const known = isTold ? /not (?:been )?informed/ : /tenant (?:informed|knows)|wrote to|sent a message/;
  return {
    wordings: sentences.map((sentence) => sentence.replace('<told>', told)),
    values: valuesOf(flat, outcome),
    facts: { needs: [[flat.person.name], [flat.lease.lease_id], ...needs], bars: [...bars, known] },
  };
}

function noteOutcome(flat: Flat, outcome: Outcome): Said {
  switch (outcome.is) {
    case 'booked': {
      const [firm, day] = needsVisit(outcome.offer);
      return {
        sentences: [
          '<name> (<lease>): <firm> booked for <day>, <time> (<short>), paid by the <payer><told>.',
          '{Booked|I booked} <firm> on <day> at <time> for <name>, lease <lease>, at the expense of the <payer><told>.',
        ],
        needs: [firm!, day!, [outcome.payer]],
        bars: outcome.payer === 'tenant' ? [/owner/] : [/(?:by|of) the tenant/],
      };
    }
    case 'known':
      return {
        sentences: [
          '<name> (<lease>): <short> is known already, <firm> {comes|is due} on <day><told>.',
          '{Nothing booked|No new repair} for <name> (<lease>): <firm> is booked for <day>, <time><told>.',
        ],
        needs: needsVisit(outcome.job).slice(0, 2),
        bars: [/i booked|paid by/],
      };
    case 'handed over':
      return {
        sentences: [
          '<name> (<lease>): handed over to the team "<team>"<told>.',
          '{The matter of|Message of} <name> (<lease>) {is with|went to} the team "<team>"<told>.',
        ],
        needs: [[outcome.team]],
        bars: [/booked|recorded/],
      };
    case 'balance':
      return noteBalance(flat);
    case 'notice':
      return {
        sentences: [
          '<name> (<lease>): notice recorded, {the lease |}ends on <ends><told>.',
          '{Recorded|I recorded} the notice of <name> for <lease>; last day: <ends><told>.',
        ],
        needs: [[longDate(outcome.ends), isoDate(outcome.ends)]],
        bars: [/not recorded/],
      };
    case 'unsigned':
      return {
        sentences: [
          '<name> (<lease>): notice without the signature of <other>, not recorded<told>.',
          '{Notice|The notice} of <name> (<lease>) {not recorded|has to wait}: <other> has not signed<told>.',
        ],
        needs: [[outcome.other], [/sign/]],
        bars: [/(?<!not )recorded/],
      };
    case 'answered':
      return outcome.stance === 'allowed'
        ? {
            sentences: [
              '<name> (<lease>) asked about <topic>: {allowed|permitted}<told>.',
              '<name> (<lease>), <topic>: the house rules allow it<told>.',
            ],
            needs: [[flat.topic[2]], [/allow|permit/]],
            bars: [/not (?:allow|permit)|forbid|prohibit/],
          }
        : {
            sentences: [
              '<name> (<lease>) asked about <topic>: {not allowed|forbidden}<told>.',
              '<name> (<lease>), <topic>: the house rules forbid it<told>.',
            ],
            needs: [[flat.topic[2]], [/not (?:allow|permit)|forbid|prohibit/]],
          };
  }
}

function noteBalance({ due }: Flat): Said {
  if (due === 0)
    return {
      sentences: ['<name> (<lease>): account settled<told>.', '<lease>, <name>: nothing open<told>.'],
      needs: [[/settled|nothing|0\.00/]],
      bars: [/owes|credit of/],
    };
  return due < 0
    ? {
        sentences: [
          '<name> (<lease>): credit of <amount> EUR<told>.',
          '<name> (<lease>) {has|has got} a credit of <amount> EUR<told>.',
        ],
        needs: [spellMoney(due), [/credit|too much/]],
        bars: [/owes/],
      }
    : {
        sentences: ['<name> (<lease>): <amount> EUR open<told>.', '<lease>: <name> owes <amount> EUR<told>.'],
        needs: [spellMoney(due)],
        bars: [/credit|settled/],
      };
}
