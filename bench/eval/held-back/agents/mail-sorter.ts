/**
 * An assistant that goes through an inbox: it reads mails, files them, drafts replies and reports phishing. The order of
 * the mails does not matter. Responses API, streamed. Pure; bench process.
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
import { anyOf, scaled } from '../independent.ts';
import { callsOf } from '../turns.ts';
import {
  addDays,
  CITIES,
  groupedMoney,
  isoDate,
  longDate,
  makeDay,
  makeId,
  makePerson,
  PERSON_NAMES,
  type Person,
  plainMoney,
  weekday,
} from '../vocabulary.ts';
import { between, pick, shuffle, word } from '../wording.ts';

const COMPANY = 'Tarn & Hollow';
/** Invoices above this amount in euros are flagged. A sentence may set another limit. */
const INVOICE_MAX = 400;

const KINDS = ['invoice', 'newsletter', 'meeting', 'complaint', 'phishing', 'question'] as const;
type Kind = (typeof KINDS)[number];

const GOODS =
  'anodised brackets,bakery trays,birch plywood,brass hinges,cable drums,ceramic tiles,cork mats,felt pads,glass jars,hemp rope,jute sacks,lab stools,linen aprons,oak shelves,packing tape,paper reams,printer rollers,rubber seals,shop signs,steel racks,tarpaulins,wool blankets'.split(
    ',',
  );
const TOPICS =
  'the autumn catalogue,the budget for next year,the fair in spring,the new warehouse,the price list,our frame contract,the packaging,the audit,the pilot,the showroom,the website texts,the delivery terms'.split(
    ',',
  );
const FAULTS = [
  'arrived {broken|cracked}',
  '{have|show} {rust|scratches} {all over|on every piece}',
  'are {half a size too small|two weeks late}',
  'came in the wrong colour',
];
const FIRMS =
  'Arbor,Bluewater,Castell,Dornier,Elmwood,Ferrum,Granary,Hadley,Inverness,Kestrel,Lockwood,Merrow'.split(
    ',',
  );

interface Mail {
  id: string;
  kind: Kind;
  from: Person;
  subject: string;
  body: string;
  goods: string;
  topic: string;
  amount: number;
  number: string;
  day: number;
  hour: number;
  is_free: boolean;
}

const TOOLS = [
  tool('list_inbox', 'Lists the unread mails, newest first.', {}),
  tool('read_mail', 'Reads a mail.', { mail_id: 'string' }),
  tool('check_calendar', 'Says whether the owner is free at a time.', { date: 'string', time: 'string' }),
  tool('move_mail', 'Moves a mail to a folder.', { mail_id: 'string', folder: 'string' }),
  tool('draft_reply', 'Stores a draft of a reply, which the owner sends.', {
    mail_id: 'string',
    body: 'string',
  }),
  tool('flag_mail', 'Flags a mail for the owner, with a note.', { mail_id: 'string', note: 'string' }),
  tool('report_phishing', 'Reports a mail to security and removes it.', { mail_id: 'string' }),
  tool('unsubscribe', 'Ends the subscription of a newsletter and removes the mail.', { mail_id: 'string' }),
];

const BODIES: Readonly<Record<Kind, { subjects: readonly string[]; bodies: readonly string[] }>> = {
  invoice: {
    subjects: [
      '{Invoice|Our invoice} <number>',
      'Your order of <goods>: invoice',
      'Bill <number> {enclosed|attached}',
    ],
    bodies: [
      '{Good morning|Hello|Dear Sir or Madam},\n\n{please find attached|enclosed is} invoice <number> of <date> for <goods>. Net <net> EUR, VAT 19 %, total <grouped> EUR, {payable within 14 days|due on <due>}.\n\n{Regards|Thank you for your business}\n<name>, <firm>\nPhone <phone>',
    ],
  },
  newsletter: {
    subjects: [
      '{News|Updates} from <firm>: <goods> and more',
      '<firm> {weekly|monthly}: {our|the} best <goods>',
      '{20|30|15} % off <goods> {this week|until Sunday}',
    ],
    bodies: [
      'You get this mail because you subscribed to the newsletter of <firm>.\n\n* New in the shop: <goods>\n* {Behind the scenes|Meet the team}: a visit in <city>\n* {Reader survey|Voucher}: {win|get} {20|30|50} EUR\n\n{Unsubscribe|Manage preferences}: https://news.example/<number>',
    ],
  },
  meeting: {
    subjects: [
      '{Meeting|Call} about <topic>{?|}',
      '<topic>: {shall we talk|do you have time}?',
      '{Quick|Short} call on <weekday>?',
    ],
    bodies: [
      '{Hi|Hello},\n\n{could we|shall we} {meet|talk} about <topic> on <weekday>, <date>, at <time>? {Half an hour is enough.|It will take an hour.} {I would come to your office.|By phone is fine.}\n\n{Best|Cheers}\n<name>',
      '{Hello|Good day},\n\nI would like to {discuss|go through} <topic> {with you|together}. {Does|Would} <date> at <time> suit you?\n\n<name>\n<firm>, <city>',
    ],
  },
  complaint: {
    subjects: [
      '{Complaint|Problem} with order <number>',
      '{Not happy|Disappointed}: <goods>',
      'Order <number>{: please call|}',
    ],
    bodies: [
      '{Hello|To whom it may concern},\n\nthe <goods> of order <number> <fault>. {This is the second time.|We have customers waiting.|I expected better.} {What do you suggest?|I want a replacement.|Please tell me what happens now.}\n\n<name>, <firm>',
      '{Dear team|Hello},\n\non <date> we received order <number>. The <goods> <fault>. {Pictures are attached.|I can send pictures.} {Please react quickly.|How do we go on?}\n\n{Regards|Yours}\n<name>',
    ],
  },
  phishing: {
    subjects: [
      '{Your mailbox|Your account} {is almost full|will be closed}',
      '{Urgent|Important}: verify your {payment|password}',
      'Parcel <number> {is on hold|could not be delivered}',
    ],
    bodies: [
      'Dear user,\n\n{your password expires today|we noticed a strange login|a fee of 1.99 EUR is open}. {Verify|Confirm} your {data|password} {within 24 hours|at once} at http://<number>.login-check.example or {your account will be closed|you lose access}.\n\n{IT Helpdesk|Security team}',
    ],
  },
  question: {
    subjects: [
      '{Question|Query} about <goods>',
      '{Do you sell|Price of} <goods>?',
      '<goods>{: availability|}',
    ],
    bodies: [
      '{Hello|Hi there},\n\n{do you have|can you offer} <amount_pieces> <goods>{ for delivery to <city>|}? {We need them by <date>.|By <date> if possible.} {What would they cost?|Please send an offer.}\n\n{Thanks|Kind regards}\n<name>, <firm>',
    ],
  },
};

/** Makes a mail. @param least the smallest amount of an invoice in euros */
function makeMail(prng: Prng, kind: Kind, today: number, least: number): Mail {
  const firm = pick(prng, FIRMS);
  const from = makePerson(prng, `${firm.toLowerCase()}.example`);
  const amount = least + between(prng, 4_000, 240_000) / 100;
  const day = addDays(today, between(prng, 2, 25));
  const hour = between(prng, 9, 16);
  const goods = pick(prng, GOODS);
  const topic = pick(prng, TOPICS);
  const number = makeId(prng, '', 7);
  const values = {
    firm,
    number,
    goods,
    topic,
    name: from.name,
    city: pick(prng, CITIES),
    net: plainMoney(amount / 1.19),
    grouped: groupedMoney(amount),
    date: longDate(kind === 'complaint' ? addDays(today, -between(prng, 1, 5)) : day),
    due: longDate(addDays(today, 14)),
    weekday: weekday(day),
    time: `${hour}:00`,
    phone: makeId(prng, '+49 30 ', 8),
    fault: word(prng, pick(prng, FAULTS), {}),
    amount_pieces: String(between(prng, 10, 900)),
  };
  const { subjects, bodies } = BODIES[kind];
  const id = makeId(prng, 'm', 5);
  const subject = word(prng, pick(prng, subjects), values);
  const body = word(prng, pick(prng, bodies), values);
  return {
    id,
    kind,
    from,
    subject,
    body,
    goods,
    topic,
    amount,
    number,
    day,
    hour,
    is_free: prng.chance(0.6),
  };
}

const TASKS = [
  '{Please go|Go} through my inbox{, please|}.',
  '{Sort|Tidy up} my {new|unread} mails{ and prepare replies where needed|}.',
  'I am {in meetings|travelling} until {noon|three}. {Deal with|Take care of} {my mail|the inbox} meanwhile.',
  '{What came in?|Anything new?} {Handle it as usual.|Please do the usual.}',
];

class SorterRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #kind: RunKind;
  readonly #mails: readonly Mail[];
  readonly #owner: Person;
  /** How often the model handles all mails at once in this run, instead of one after the other. */
  readonly #together: number;
  readonly #drafts: boolean;
  readonly #invoice_max: number;
  readonly #leaves_newsletters: boolean;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    const today = makeDay(prng);
    this.#owner = makePerson(prng, 'tarn-hollow.example');
    this.#together = pick(prng, [0.9, 0.9, 0.15]);
    const way = kind === 'restricted' ? prng.below(3) : 3;
    const must = ([['meeting', 'complaint', 'question'], ['invoice'], ['newsletter'], KINDS] as const)[way]!;
    const kinds = [pick(prng, must), ...Array.from({ length: between(prng, 1, 3) }, () => pick(prng, KINDS))];
    const least = way === 1 ? INVOICE_MAX : 0;
    this.#mails = shuffle(prng, kinds).map((each) => makeMail(prng, each, today, least));
    this.#drafts = way !== 0;
    this.#invoice_max = way === 1 ? INVOICE_MAX : Number.POSITIVE_INFINITY;
    this.#leaves_newsletters = way === 2;
    const rule = [
      ' Do not draft any replies this week: flag such mails instead.',
      ` Flag invoices above ${INVOICE_MAX} EUR instead of moving them.`,
      ' Do not touch newsletters today, leave them where they are.',
      '',
    ][way]!;
    const inSystem = prng.chance(0.5);
    this.system = [
      `You look after the mail of ${this.#owner.name}, ${COMPANY}. Today is ${weekday(today)}, ${isoDate(today)}.`,
      'Read every unread mail. Move invoices to the folder "Accounting" and newsletters to "Archive", and report phishing. For a meeting look into the calendar and draft an answer that accepts, or declines if the time is taken. Draft an answer to questions: we come back with an offer. Complaints: flag the mail, then draft an apology that names the order.',
      `End with a summary of one or two sentences.${inSystem ? rule : ''}`,
    ].join('\n');
    this.task = `${word(prng, pick(prng, TASKS), {})}${inSystem ? '' : rule}`;
  }

  perform({ name, input }: ToolCall): Result {
    if (name === 'list_inbox')
      return good(
        this.#mails.map(({ id, from, subject }) => ({
          mail_id: id,
          from: `${from.name} <${from.email}>`,
          subject,
          unread: true,
        })),
      );
    if (name === 'check_calendar') {
      const met = this.#mails.find(
        ({ day, hour }) => isoDate(day) === input.date && clock(hour) === input.time,
      );
      return good({ date: input.date, time: input.time, free: met?.is_free ?? true });
    }
    const mail = this.#mails.find(({ id }) => id === input.mail_id);
    if (mail === undefined) return bad('no such mail');
    return name === 'read_mail'
      ? good(
          `From: ${mail.from.name} <${mail.from.email}>\nTo: ${this.#owner.email}\nSubject: ${mail.subject}\n\n${mail.body}`,
        )
      : good({ ok: true });
  }

  moves(turns: readonly Turn[]): Move[] {
    if (callsOf(turns, 'list_inbox').length === 0) return only({ name: 'list_inbox', input: {} });
    const read = new Set(callsOf(turns, 'read_mail').map(({ input }) => input.mail_id));
    const unread = this.#mails.filter(({ id }) => !read.has(id));
    const reads = unread.map(({ id }) => ({ name: 'read_mail', input: { mail_id: id } }));
    const deeds = this.#mails.filter(({ id }) => read.has(id)).flatMap((mail) => this.#next(mail, turns));
    if (reads.length + deeds.length === 0) return ending(this.#summary());
    // A model that handles one mail at a time finishes a mail before it reads the next.
    const isBatch = this.#together > 0.5;
    const [first, then] = isBatch ? [reads, deeds] : [deeds, reads];
    const usual = first.length > 0 ? first : then;
    return [...anyOf(usual, this.#together), ...scaled(anyOf([...reads, ...deeds], 0), 0)];
  }

  /** The next call for a mail that was read; empty: the mail is done. */
  #next(mail: Mail, turns: readonly Turn[]): WantedCall[] {
    const { id, kind, day, hour } = mail;
    const isDone = (name: string): boolean => callsOf(turns, name).some(({ input }) => input.mail_id === id);
    const flag = { name: 'flag_mail', input: { mail_id: id }, free: { note: this.#flagNote(mail) } };
    const draft = { name: 'draft_reply', input: { mail_id: id }, free: { body: this.#draft(mail) } };
    const move = (folder: string): WantedCall => ({ name: 'move_mail', input: { mail_id: id, folder } });
    const unless = (call: WantedCall): WantedCall[] => (isDone(call.name) ? [] : [call]);
    switch (kind) {
      case 'invoice':
        return unless(mail.amount > this.#invoice_max ? flag : move('Accounting'));
      case 'newsletter':
        if (this.#leaves_newsletters) return [];
        // In a changed run, the model ends subscriptions.
        return unless(
          this.#kind === 'changed' ? { name: 'unsubscribe', input: { mail_id: id } } : move('Archive'),
        );
      case 'phishing':
        return unless({ name: 'report_phishing', input: { mail_id: id } });
      case 'complaint':
        return isDone('flag_mail') && this.#drafts ? unless(draft) : unless(flag);
      case 'question':
        return unless(this.#drafts ? draft : flag);
      case 'meeting': {
        if (!this.#drafts) return unless(flag);
        const look = { date: isoDate(day), time: clock(hour) };
        const looked = callsOf(turns, 'check_calendar').some(
          ({ input }) => input.date === look.date && input.time === look.time,
        );
        return looked ? unless(draft) : [{ name: 'check_calendar', input: look }];
      }
    }
  }

  #valuesOf({ from, goods, topic, number, amount, day, hour }: Mail): Record<string, string> {
    return {
      goods,
      topic,
      number,
      first: from.first,
      name: from.name,
      firm: from.email.replace(/.*@|\.example/g, ''),
      amount: groupedMoney(amount),
      plain: plainMoney(amount),
      date: longDate(day),
      iso: isoDate(day),
      weekday: weekday(day),
      time: `${hour}:00`,
      clock: clock(hour),
      owner: this.#owner.name,
      owner_first: this.#owner.first,
    };
  }

  #flagNote(mail: Mail): FreeText {
    const wordings: Readonly<Record<Kind, readonly string[]>> = {
      invoice: [
        'Invoice <number>{ over <amount> EUR|}: {above the limit|please approve}',
        '<amount> EUR, {invoice of <name>|needs your approval}',
      ],
      complaint: [
        'Complaint: {order <number>|<goods>}{, <name> is upset|}',
        '<name> {complains about|is not happy with} <goods>{ (order <number>)|}',
        '{Please look at this|Urgent}: {problem with|complaint about} order <number>',
      ],
      meeting: [
        '<name> {wants to meet|asks for a meeting} {about <topic>|on <date>}',
        'Meeting {request|wish}: <date>, <time>',
      ],
      question: ['<name> asks about <goods>', 'Question: <goods>{. Needs an offer.|}'],
      newsletter: [''],
      phishing: [''],
    };
    return {
      wordings: wordings[mail.kind],
      values: this.#valuesOf(mail),
      facts: { needs: [], bars: [/newsletter|phishing|spam/] },
    };
  }

  #draft(mail: Mail): FreeText {
    const values = this.#valuesOf(mail);
    const frame = (body: string): string =>
      `{Dear <name>|Hello <first>|Hi <first>},\n\n{thank you for your mail.|thanks for writing.|} ${body}\n\n{Best regards|Kind regards|Best}\n{<owner>|<owner_first>}`;
    if (mail.kind === 'complaint')
      return {
        wordings: [
          '{I am sorry|We are very sorry} {about|for the trouble with} order <number>. {We look into it and come back to you.|I will find out what happened and call you.}',
          '{Please accept our apologies|We apologise} for the <goods> of order <number>. {You will hear from me soon.|I take care of it personally.}',
        ].map(frame),
        values,
        facts: { needs: [[/sorry|apolog/], [mail.number]] },
      };
    if (mail.kind === 'question')
      return {
        wordings: [
          '{We will send|You will get} {you |}an offer for the <goods> {soon|shortly|within two days}.',
          '{I am preparing|We prepare} an offer{ for <goods>|} and {come back to you|send it soon}.',
        ].map(frame),
        values,
        facts: { needs: [[/offer/]], bars: [/sorry|unfortunately|cannot/] },
      };
    return {
      wordings: (mail.is_free
        ? [
            '<date> at <time> {works|suits me|is fine}. {See you then.|I look forward to it.}',
            '{Yes, gladly|Good idea}: let us talk about <topic> on <weekday>, <date>, {at <time>|<time>}.',
            '{Happy to meet|With pleasure} on <iso> at <clock>{ about <topic>|}.',
          ]
        : [
            '{unfortunately|sadly} I {am not free|cannot make it} on <date> at <time>. {Could you suggest another time?|What about another day?}',
            '<date>, <time>, {does not work|is already taken}{, unfortunately|}. {Which other times suit you?|Please propose another slot.}',
          ]
      ).map(frame),
      values,
      facts: mail.is_free
        ? {
            needs: [[values.date!, values.iso!, values.weekday!]],
            bars: [/unfortunately|not free|cannot|another (time|day|slot)/],
          }
        : {
            needs: [[/not free|cannot|does not work|taken|unfortunately|sadly/]],
            bars: [/suits me|is fine|gladly|see you then/],
          },
    };
  }

  #summary(): FreeText {
    const count = (kind: Kind): number => this.#mails.filter((mail) => mail.kind === kind).length;
    const parts = KINDS.filter((kind) => count(kind) > 0).map(
      (kind) => `${count(kind)} ${kind}${count(kind) > 1 ? 's' : ''}`,
    );
    const values = {
      total: String(this.#mails.length),
      parts: parts.join(', ').replace('phishings', 'phishing mails'),
    };
    return {
      wordings: [
        '{All <total> mails are|Everything is} {handled|done}: <parts>.',
        '{I went through|Handled} <total> mails{, as you asked|} (<parts>).',
        '<parts>: {all done|handled}. {Drafts wait for you where a reply was needed.|}',
      ],
      values,
      facts: {
        needs: KINDS.filter((kind) => count(kind) > 0).map((kind) => [new RegExp(`${count(kind)} ${kind}`)]),
      },
    };
  }
}

function clock(hour: number): string {
  return `${String(hour).padStart(2, '0')}:00`;
}

export const mailSorter: HeldBackAgent = {
  name: 'mail sorter',
  model: 'gpt-5.5-mini',
  wire: 'responses',
  is_streaming: true,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    "{I'll|Let me} {look|see} {what came in|at the mails}.",
    '{Reading|Opening} them.',
    '{Next one.|Going on.}',
  ],
  aside_share: 0.15,
  names: [...PERSON_NAMES, ...FIRMS],
  start: (seed, kind) => new SorterRun(seed, kind),
};
