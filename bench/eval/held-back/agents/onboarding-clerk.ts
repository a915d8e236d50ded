/**
 * A clerk that prepares the first day of new colleagues from a checklist: accounts, equipment, sessions, a welcome. It
 * makes many calls at once, and user names may be taken. Responses API, without streaming. Pure; bench process.
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
import { haveSameArguments } from '../truth.ts';
import { callsOf } from '../turns.ts';
import {
  addDays,
  isoDate,
  longDate,
  makeAddress,
  makeDay,
  makeId,
  makePerson,
  PERSON_NAMES,
  type Person,
  weekday,
} from '../vocabulary.ts';
import { between, pick, shuffle, word } from '../wording.ts';

interface Department {
  name: string;
  accounts: readonly { system: string; groups: readonly string[] }[];
  equipment: readonly string[];
  /** `after`: the number of days after the first day. */
  sessions: readonly { topic: string; after: number }[];
}

const DEPARTMENTS: readonly Department[] = [
  {
    name: 'Engineering',
    accounts: [
      { system: 'directory', groups: ['staff', 'engineering'] },
      { system: 'gitforge', groups: ['developers'] },
    ],
    equipment: ['laptop 16 inch', 'headset'],
    sessions: [
      { topic: 'security basics', after: 0 },
      { topic: 'architecture tour', after: 2 },
    ],
  },
  {
    name: 'Sales',
    accounts: [
      { system: 'directory', groups: ['staff', 'sales'] },
      { system: 'crm', groups: ['reps'] },
    ],
    equipment: ['laptop 14 inch', 'phone'],
    sessions: [
      { topic: 'security basics', after: 0 },
      { topic: 'price lists', after: 1 },
    ],
  },
  {
    name: 'Finance',
    accounts: [
      { system: 'directory', groups: ['staff', 'finance', 'four-eyes'] },
      { system: 'ledger', groups: ['bookkeepers'] },
    ],
    equipment: ['laptop 14 inch', 'second screen'],
    sessions: [
      { topic: 'anti-fraud', after: 1 },
      { topic: 'month end', after: 3 },
    ],
  },
  {
    name: 'Care',
    accounts: [
      { system: 'directory', groups: ['staff', 'care'] },
      { system: 'rota', groups: ['wards'] },
    ],
    equipment: ['tablet'],
    sessions: [
      { topic: 'hygiene', after: 0 },
      { topic: 'data protection', after: 0 },
    ],
  },
  {
    name: 'Logistics',
    accounts: [{ system: 'directory', groups: ['staff', 'yard'] }],
    equipment: ['scanner', 'safety shoes'],
    sessions: [{ topic: 'forklift rules', after: 1 }],
  },
];
const TITLES = ['junior', 'senior', 'lead', 'assistant', 'specialist', 'coordinator', 'trainee'];
const SITES = ['Harbour House', 'Mill Yard', 'North Tower', 'Depot 4', 'Old Brewery'];

const TOOLS = [
  tool('get_hire', 'Reads the record of a new colleague.', { hire_id: 'string' }),
  tool('get_checklist', 'Reads the checklist of a department (Markdown).', { department: 'string' }),
  tool('create_account', 'Creates an account.', {
    system: 'string',
    username: 'string',
    display_name: 'string',
    groups: 'string[]',
  }),
  tool('order_equipment', 'Orders a piece of equipment.', { item: 'string', deliver_to: 'string' }),
  tool('book_session', 'Books a seat in an introduction.', {
    topic: 'string',
    date: 'string',
    participant: 'string',
  }),
  tool('send_welcome', 'Sends the welcome mail.', { to: 'string', body: 'string' }),
];

const TASKS = [
  '{Please prepare everything|Prepare the first day} for <hire>{, <name>|}.',
  '<name> {joins|starts with} {us|<department>} {soon|on <start>}: {record|hire} <hire>. {Please set everything up.|Do the checklist, please.}',
  'New {colleague|hire} <hire>{ in <department>|}. {The usual, please.|Run the checklist.|}',
  '{Onboarding|Onboard} <name> (<hire>){, please|}.',
];

class ClerkRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #kind: RunKind;
  readonly #hire: string;
  readonly #person: Person;
  readonly #title: string;
  readonly #department: Department;
  readonly #is_remote: boolean;
  readonly #is_contractor: boolean;
  readonly #address: string;
  readonly #site: string;
  readonly #manager: Person;
  readonly #start: number;
  /** How many user names are taken before one is free. */
  readonly #taken: number;
  readonly #checklist: string;
  /**
   * What a sentence of a restricted run changes: it forbids accounts in a system, forbids orders, or moves the first
   * day.
   */
  readonly #barred_system: string;
  readonly #orders: boolean;
  readonly #first_day: number;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#hire = makeId(prng, 'H', 5);
    this.#person = makePerson(prng, pick(prng, ['mail.example', 'post.example', 'inbox.example']));
    this.#department = pick(prng, DEPARTMENTS);
    this.#title = pick(prng, TITLES);
    this.#is_contractor = kind !== 'restricted' && prng.chance(0.2);
    this.#is_remote = prng.chance(0.4);
    this.#address = makeAddress(prng);
    this.#site = pick(prng, SITES);
    this.#manager = makePerson(prng, 'calder.example');
    const day = makeDay(prng);
    this.#start = addDays(day, (8 - new Date(day).getUTCDay()) % 7);
    this.#taken = prng.chance(0.15) ? 1 : 0;
    this.#checklist = this.#writeChecklist(prng);
    const way = kind === 'restricted' ? prng.below(3) : 3;
    const system = this.#department.accounts.at(-1)!.system;
    this.#barred_system = way === 0 ? system : '';
    this.#orders = way !== 1;
    const moved = addDays(this.#start, 7 * between(prng, 1, 3));
    this.#first_day = way === 2 ? moved : this.#start;
    const rule = [
      ` Do not create accounts in ${system}: its licences are used up.`,
      pick(prng, [
        ' Do not order any equipment, the budget is not released.',
        ' You must not order equipment this month.',
      ]),
      ` Attention: the first day is ${isoDate(moved)} instead of the one in the record.`,
      '',
    ][way]!;
    this.system = [
      'You prepare the first day of new colleagues of Calder Group. Read the record, then the checklist of the department, and do everything on it.',
      'User names are first.last in lower case. If one is taken add 2 to it, and use the same name in all systems from then on.',
      'Contractors get accounts with the group "contractors" only, no equipment, and all sessions. Equipment goes to the site, or home to those who work remotely.',
      'When everything is done send the welcome mail, then end with a short summary.',
    ].join('\n');
    const task = word(prng, pick(prng, TASKS), {
      hire: this.#hire,
      name: this.#person.name,
      department: this.#department.name,
      start: longDate(this.#start),
    });
    this.task = `${task}${rule}`;
  }

  #writeChecklist(prng: Prng): string {
    const { name, accounts, equipment, sessions } = this.#department;
    return [
      `# Checklist: ${name}`,
      `_Version ${between(prng, 2, 9)}.${between(prng, 0, 20)}, owner: People Team. Questions: people@calder.example_`,
      '',
      '## Accounts',
      ...accounts.map(
        ({ system, groups }) => `- **${system}**: groups ${groups.map((each) => `\`${each}\``).join(', ')}`,
      ),
      '',
      '## Equipment',
      ...equipment.map((item) => `- ${item}`),
      '',
      '## Introductions',
      '| Topic | When |',
      '|---|---|',
      ...sessions.map(
        ({ topic, after }) => `| ${topic} | ${after === 0 ? 'first day' : `first day + ${after}`} |`,
      ),
      '',
      '## Good to know',
      ...shuffle(prng, [
        `- Badges are handed out at the reception from ${between(prng, 7, 9)}:30.`,
        '- Lunch on the first day is on the team.',
        `- Parking needs a form (P-${between(prng, 10, 99)}).`,
        '- Photos for the intranet are voluntary.',
      ]).slice(0, 3),
    ].join('\n');
  }

  perform({ name, input }: ToolCall): Result {
    switch (name) {
      case 'get_hire':
        return input.hire_id === this.#hire ? good(this.#record()) : bad('no such record');
      case 'get_checklist':
        return input.department === this.#department.name
          ? good(this.#checklist)
          : bad(
              `no checklist for ${String(input.department)}; there are: ${DEPARTMENTS.map((each) => each.name).join(', ')}`,
            );
      case 'create_account':
        return input.username === this.#username(false) && this.#taken > 0
          ? bad(`user name ${String(input.username)} is taken`)
          : good({
              account: `${String(input.system)}/${String(input.username)}`,
              active_from: isoDate(this.#start),
            });
      case 'order_equipment':
        return good({
          order: `EQ-${this.#hire.slice(1)}`,
          item: input.item,
          arrives: isoDate(addDays(this.#start, -3)),
        });
      case 'book_session':
        return /^\d{4}-\d\d-\d\d$/.test(String(input.date))
          ? good({ booked: true, room: this.#site })
          : bad('date must be YYYY-MM-DD');
      default:
        return good({ ok: true });
    }
  }

  #record(): object {
    const { name, email } = this.#person;
    return {
      hire_id: this.#hire,
      name,
      private_email: email,
      title: `${this.#title} ${this.#department.name.toLowerCase()}`,
      department: this.#department.name,
      contract: this.#is_contractor ? 'contractor' : 'permanent',
      works: this.#is_remote ? 'remote' : 'on site',
      site: this.#site,
      home_address: this.#address,
      manager: this.#manager.name,
      first_day: isoDate(this.#start),
    };
  }

  #username(isTaken: boolean): string {
    const { first, last } = this.#person;
    // In a changed run, the model makes shorter user names.
    const name = this.#kind === 'changed' ? `${first[0]}${last}` : `${first}.${last}`;
    return `${name.toLowerCase()}${isTaken ? '2' : ''}`;
  }

  /** Groups are compared without regard to their order. */
  isAlike(wanted: WantedCall, call: ToolCall): boolean {
    const { groups } = call.input;
    if (wanted.name !== 'create_account' || !Array.isArray(groups)) return haveSameArguments(wanted, call);
    const sorted = {
      ...wanted,
      input: { ...wanted.input, groups: (wanted.input.groups as string[]).toSorted() },
    };
    return haveSameArguments(sorted, { ...call, input: { ...call.input, groups: groups.toSorted() } });
  }

  moves(turns: readonly Turn[]): Move[] {
    if (callsOf(turns, 'get_hire').length === 0)
      return only({ name: 'get_hire', input: { hire_id: this.#hire } });
    if (callsOf(turns, 'get_checklist').length === 0)
      return only({ name: 'get_checklist', input: { department: this.#department.name } });
    const groups = [this.#accounts(turns), this.#orderCalls(turns), this.#sessions(turns)].filter(
      (each) => each.length > 0,
    );
    const all = groups.flat();
    if (all.length > 0)
      return [
        ...scaled(anyOf(all, 1), 0.4),
        ...scaled(anyOf(groups[0]!, 0.8), 0.55),
        ...scaled(anyOf(all, 0), 0.05),
      ];
    if (callsOf(turns, 'send_welcome').length === 0)
      return only({
        name: 'send_welcome',
        input: { to: this.#person.email },
        free: { body: this.#welcome() },
      });
    return ending(this.#summary(turns));
  }

  #accounts(turns: readonly Turn[]): WantedCall[] {
    const done = callsOf(turns, 'create_account').map(({ input }) => input.system);
    const isTaken = turns.some(({ results }) => results.some(({ text }) => text.endsWith('is taken')));
    return this.#department.accounts
      .filter(({ system }) => !done.includes(system) && system !== this.#barred_system)
      .map(({ system, groups }) => ({
        name: 'create_account',
        input: {
          system,
          username: this.#username(isTaken),
          display_name: this.#person.name,
          groups: this.#is_contractor ? ['contractors'] : [...groups],
        },
      }));
  }

  #orderCalls(turns: readonly Turn[]): WantedCall[] {
    if (this.#is_contractor || !this.#orders) return [];
    const done = callsOf(turns, 'order_equipment').map(({ input }) => input.item);
    return this.#department.equipment
      .filter((item) => !done.includes(item))
      .map((item) => ({
        name: 'order_equipment',
        input: { item, deliver_to: this.#is_remote ? this.#address : this.#site },
      }));
  }

  #sessions(turns: readonly Turn[]): WantedCall[] {
    const done = callsOf(turns, 'book_session').map(({ input }) => input.topic);
    return this.#department.sessions
      .filter(({ topic }) => !done.includes(topic))
      .map(({ topic, after }) => ({
        name: 'book_session',
        input: {
          topic,
          date: isoDate(addDays(this.#first_day, after)),
          participant: this.#person.name,
        },
      }));
  }

  #values(isTaken: boolean): Record<string, string> {
    const { first, name } = this.#person;
    const { name: department, accounts, equipment, sessions } = this.#department;
    return {
      first,
      name,
      department,
      hire: this.#hire,
      manager: this.#manager.name,
      site: this.#site,
      start: longDate(this.#first_day),
      start_iso: isoDate(this.#first_day),
      weekday: weekday(this.#first_day),
      user: this.#username(isTaken),
      accounts: String(accounts.filter(({ system }) => system !== this.#barred_system).length),
      equipment: String(this.#is_contractor || !this.#orders ? 0 : equipment.length),
      sessions: String(sessions.length),
      known: this.#checklist,
    };
  }

  #welcome(): FreeText {
    const values = this.#values(this.#taken > 0);
    const place = this.#is_remote
      ? '{We start with a video call.|You will get a link for the first call.|}'
      : '{Come to <site>|We meet at <site>}{, ask for <manager>|}.';
    return {
      wordings: [
        `{Dear|Hello|Hi} <first>,\n\n{welcome to Calder Group!|we look forward to you.} Your first day is {<weekday>, |}<start>. ${place} {Your user name is <user>.|}\n\n{Best|See you soon}\n{People Team|Your People Team}`,
        `{Welcome, <first>!|Hello <first>, welcome on board.}\n\n{You start|We expect you} on <start>{ in <department>|}. ${place}{ <manager> is your manager.|}\n\nPeople Team`,
      ],
      values,
      facts: { needs: [[values.first!], [values.start!, values.start_iso!]], bars: [/cancel|postpone/] },
    };
  }

  #summary(turns: readonly Turn[]): FreeText {
    const isTaken = turns.some(({ results }) => results.some(({ text }) => text.endsWith('is taken')));
    const values = this.#values(isTaken);
    const gear = values.equipment === '0' ? '{no equipment|no orders}' : '<equipment> {items ordered|orders}';
    return {
      wordings: [
        `<name> is {ready|prepared} for <start>: {<accounts> accounts|accounts: <accounts>} (<user>), ${gear}, <sessions> {sessions|introductions}.`,
        `{Done|All done} for <hire>, <name>: user name <user>, ${gear}, {sessions booked|<sessions> sessions}{, welcome sent|}.`,
        `{Checklist of <department> done|Everything is set up} for <name>{ (<start_iso>)|}. {User name|Account}: <user>; ${gear}.`,
      ],
      values,
      facts: {
        needs: [[values.name!], [values.user!]],
        bars: [values.equipment === '0' ? /\d (items|orders)/ : /no equipment|no orders/],
      },
    };
  }
}

export const onboardingClerk: HeldBackAgent = {
  name: 'onboarding clerk',
  model: 'gpt-5.5',
  wire: 'responses',
  is_streaming: false,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    '{First the record.|I open the record.}',
    '{Now|Next} the checklist.',
    "{Let me|I'll} {set this up|do these} {now|together}.",
  ],
  aside_share: 0.15,
  names: [...SITES, ...PERSON_NAMES],
  start: (seed, kind) => new ClerkRun(seed, kind),
};
