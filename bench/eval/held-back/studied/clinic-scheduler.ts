/**
 * The scheduler of a clinic: it answers patients' messages, books, moves and cancels appointments, asks for missing
 * papers and hands urgent cases over. Responses API, streamed. Pure; bench process.
 */

import { createPrng } from '../../../../src/std/prng.ts';
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
import { allCallsOf, callsOf } from '../turns.ts';
import { addDays, isoDate, longDate, PERSON_NAMES, weekday } from '../vocabulary.ts';
import { pick, word } from '../wording.ts';
import {
  bestOf,
  byInstant,
  type Case,
  drawCase,
  hasReferral,
  instant,
  LATE_START,
  MONDAY_TO_FRIDAY,
  PAGES,
  type Rule,
  type Slot,
  shortDate,
  suitsWish,
  type Visit,
  workdays,
  writeTask,
} from './clinic-cases.ts';
import { DEPARTMENTS } from './clinic-departments.ts';

const TOOLS = [
  tool('find_patient', 'Finds patients by their full name.', { name: 'string' }),
  tool('open_record', "Opens a patient's record: papers, referrals and appointments.", {
    patient_id: 'string',
  }),
  tool('referral_rules', 'Reads what a department demands of patients.', { department: 'string' }),
  tool('doctor_hours', 'Lists the free times of a department for five working days.', {
    department: 'string',
    from: 'string?',
  }),
  tool('book_appointment', 'Books a free time.', {
    patient_id: 'string',
    doctor: 'string',
    date: 'string',
    time: 'string',
    reason: 'string',
  }),
  tool('move_appointment', 'Moves an appointment to a free time of the same doctor.', {
    appointment_id: 'string',
    date: 'string',
    time: 'string',
  }),
  tool('cancel_appointment', 'Cancels an appointment.', { appointment_id: 'string' }),
  tool('request_papers', 'Asks a patient for a paper: referral or questionnaire.', {
    patient_id: 'string',
    paper: 'string',
    message: 'string',
  }),
  tool('add_to_waiting_list', 'Puts a patient on the waiting list of a department.', {
    patient_id: 'string',
    department: 'string',
    note: 'string',
  }),
  tool('hand_over', 'Hands a patient over to people: nurse or reception.', {
    patient_id: 'string',
    team: 'string',
    summary: 'string',
  }),
];

const RULE_WORDS: Readonly<Record<Rule, readonly string[]>> = {
  ill: [
    'Dr <doctor> is ill: book nothing with Dr <doctor>.',
    'Give patients no appointment with Dr <doctor> for the time being.',
  ],
  'late start': [
    'Because of building work, offer no appointments before 10:00.',
    'Until further notice no patient may be booked before 10:00.',
  ],
  frozen: [
    'Do not move or cancel appointments yourself today; hand such wishes over to the reception.',
    'The calendar is being repaired: you may not cancel or move anything, the reception does that.',
  ],
  waived: [
    'This month referrals are not necessary: book without them, and do not ask for them.',
    'You may book without a referral until further notice; ask no patient for one.',
  ],
  practice: [
    'This is a test: change nothing and ask for nothing, only tell the patient which appointment you would give.',
    'Do not book anything yet. Only say which appointment you would offer.',
  ],
};

/** One of the facts that the last answer tells. */
interface Piece {
  wordings: readonly string[];
  values: Readonly<Record<string, string>>;
  needs: Facts['needs'];
  bars: readonly RegExp[];
}

class SchedulerRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #case: Case;
  readonly #kind: RunKind;
  readonly #rule: Rule | null;
  readonly #ill: string | null;
  /** How often the model makes independent calls at once in this run. */
  readonly #together: number;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#rule =
      kind === 'restricted'
        ? pick(prng, ['ill', 'late start', 'frozen', 'waived', 'practice'] as const)
        : null;
    this.#case = drawCase(prng, this.#rule);
    this.#together = pick(prng, [0.8, 0.8, 0.1]);
    this.#ill = this.#rule === 'ill' ? bestOf(this.#case)!.doctor : null;
    const rule =
      this.#rule === null ? '' : word(prng, pick(prng, RULE_WORDS[this.#rule]), { doctor: this.#ill ?? '' });
    const { today } = this.#case;
    this.system = [
      `You are the scheduler of the Riverside Clinic. Today is ${weekday(today)}, ${isoDate(today)}.`,
      `Departments: ${Object.keys(DEPARTMENTS).join(', ')}. Choose the department by the complaint.`,
      'New appointments: read the record, the rules of the department and the free times. Ask for every paper that is missing. Without a valid referral, where one is needed, book nothing. Otherwise take the earliest time that suits the patient; if the patient names a doctor, with this doctor. If the patient is free only from a day on, pass this day as "from". If nothing suits in the first list, read the one that follows it; if nothing suits there, use the waiting list.',
      'Morning is before 12:00, afternoon is from 13:00 on. A moved appointment keeps its doctor and gets the earliest time that suits on another day. Appointments of today and tomorrow are moved or cancelled by the reception: hand over.',
      'Emergencies (pressure on the chest, sudden weakness or trouble speaking, breathlessness at rest, heavy bleeding, sudden loss of sight, swelling of tongue or throat): hand over to the nurse at once, book nothing, and tell the patient to call 112 if it gets worse.',
      `End with the answer to the patient.${rule === '' ? '' : `\n${rule}`}`,
    ].join('\n');
    this.task = writeTask(prng, this.#case);
  }

  perform({ name, input }: ToolCall): Result {
    const each = this.#case;
    switch (name) {
      case 'find_patient':
        return input.name === each.patient.name ? good(this.#patients()) : good({ found: 0, patients: [] });
      case 'referral_rules': {
        const department = DEPARTMENTS[String(input.department)];
        return department === undefined ? bad('error: no such department') : good(department.rules);
      }
      case 'doctor_hours':
        return input.department === each.department
          ? good(this.#hours(input.from))
          : bad('error: no free times are kept for this department');
      case 'move_appointment':
      case 'cancel_appointment': {
        const visit = each.visits.find(({ id }) => id === input.appointment_id);
        if (visit === undefined || each.is_lost) return bad('error: no such appointment');
        return name === 'cancel_appointment'
          ? good({ cancelled: visit.id })
          : this.#occupy({ ...input, doctor: visit.doctor }, visit.id);
      }
    }
    if (!TOOLS.some((known) => known.name === name)) return bad(`error: no tool ${name}`);
    if (input.patient_id !== each.id) return bad('error: no such patient');
    if (name === 'open_record') return good(this.#record());
    if (name === 'book_appointment') return this.#occupy(input, `A-${Number(each.id) % 90_000}`);
    if (name === 'request_papers') return good(`sent to ${each.patient.email}`);
    return good(name === 'hand_over' ? { handed_over_to: input.team } : { listed: true, place: this.#place });
  }

  /** The place on the waiting list. */
  get #place(): number {
    return 2 + (Number(this.#case.id) % 37);
  }

  #patients(): object {
    const { patient, id, born, namesakes } = this.#case;
    const patients = [...namesakes, { id, born }]
      .toSorted((a, b) => (a.id < b.id ? -1 : 1))
      .map((each) => ({ patient_id: each.id, name: patient.name, born: isoDate(each.born) }));
    return { found: patients.length, patients };
  }

  #record(): string {
    const { patient, id, born, city, referrals, has_questionnaire, filled_in, visits, is_lost, named } =
      this.#case;
    const kept = is_lost ? visits.filter((visit) => visit !== named) : visits;
    return [
      `Patient ${id}: ${patient.name}, born ${isoDate(born)}, ${city}`,
      `Questionnaire: ${has_questionnaire ? `on file since ${isoDate(filled_in)}` : 'none on file'}`,
      'Referrals:',
      ...(referrals.length === 0
        ? ['- none']
        : referrals.map(({ department, day }) => `- ${department}, issued ${isoDate(day)}`)),
      'Appointments:',
      ...(kept.length === 0
        ? ['- none']
        : kept
            .toSorted(byInstant)
            .map((visit) => `- ${visit.id} | ${instant(visit)} | Dr ${visit.doctor} | ${visit.department}`)),
    ].join('\n');
  }

  #pageDays(from: unknown): { days: number[]; next: number } {
    const start = typeof from === 'string' ? Date.parse(from) : addDays(this.#case.today, 1);
    const days = workdays(start, MONDAY_TO_FRIDAY + 1);
    return { days: days.slice(0, MONDAY_TO_FRIDAY), next: days[MONDAY_TO_FRIDAY]! };
  }

  #hours(from: unknown): string {
    if (from !== undefined && !/^\d{4}-\d\d-\d\d$/.test(String(from)))
      return 'error: from must be YYYY-MM-DD';
    const { department, slots } = this.#case;
    const { days, next } = this.#pageDays(from);
    const doctors = DEPARTMENTS[department]!.doctors;
    const times = (doctor: string, day: number): string[] =>
      slots.filter((slot) => slot.doctor === doctor && slot.day === day).map(({ time }) => time);
    // In a changed run, the list is grouped by doctor, and its days have another form.
    if (this.#kind === 'changed')
      return [
        `${department.toUpperCase()}: free times`,
        ...doctors.flatMap((doctor) => [
          `Dr ${doctor}`,
          ...days.flatMap((day) => {
            const free = times(doctor, day);
            return free.length === 0 ? [] : [`  ${weekday(day)}, ${longDate(day)}: ${free.join(' / ')}`];
          }),
        ]),
        `continues on ${longDate(next)}`,
      ].join('\n');
    const rows = days.flatMap((day) =>
      doctors.map((doctor) => {
        const free = times(doctor, day);
        return `${weekday(day).slice(0, 3)} ${isoDate(day)} | Dr ${doctor.padEnd(9)} | ${free.length === 0 ? '-' : free.join(' ')}`;
      }),
    );
    return ['day            | doctor       | free times', ...rows, `(next list: from ${isoDate(next)})`].join(
      '\n',
    );
  }

  #occupy(input: ToolCall['input'], id: string): Result {
    const { slots, taken } = this.#case;
    const slot = slots.find(
      ({ doctor, day, time }) =>
        doctor === input.doctor && isoDate(day) === input.date && time === input.time,
    );
    if (slot === undefined) return bad('error: this time is not free');
    if (slot === taken) return bad('error: this time has just been taken by another patient');
    return good({ appointment_id: id, doctor: `Dr ${slot.doctor}`, at: `${input.date}T${slot.time}` });
  }

  #suits(slot: Slot): boolean {
    if (slot.doctor === this.#ill || (this.#rule === 'late start' && slot.time < LATE_START)) return false;
    return suitsWish(this.#case.wish, slot);
  }

  moves(turns: readonly Turn[]): Move[] {
    const { intent, patient, knows_id, department } = this.#case;
    if (intent === 'question')
      return callsOf(turns, 'referral_rules').length > 0
        ? ending(this.#combine([this.#tellRules()]))
        : only({ name: 'referral_rules', input: { department } });
    if (!knows_id && callsOf(turns, 'find_patient').length === 0)
      return only({ name: 'find_patient', input: { name: patient.name } });
    if (intent === 'urgent') return this.#urge(turns);
    const looks = this.#looks(turns);
    const options = this.#deeds(turns);
    const deeds = options[0]!;
    if (looks.length + deeds.length === 0) return ending(this.#tell(turns));
    if (looks.length > 0)
      return [...anyOf(looks, this.#together), ...scaled(anyOf([...looks, ...deeds], 0), 0)];
    // Further free times may be read although they are not needed.
    const idle = this.#needsHours(turns) ? [] : this.#nextHours(turns, true);
    return [
      ...options.flatMap((option) => scaled(anyOf(option, this.#together), 1 / options.length)),
      ...scaled(anyOf([...idle, ...deeds], 0), 0),
    ];
  }

  #urge(turns: readonly Turn[]): Move[] {
    if (callsOf(turns, 'hand_over').length > 0) return ending(this.#combine([this.#tellUrgent()]));
    const { short, about } = this.#case.complaint;
    const hand = this.#handOver('nurse', {
      wordings: [
        '{Urgent|Emergency}: <name> {reports|describes} <short>. {Please call back at once.|}',
        '<name> (patient <id>): <short>. {Please take over now.|Needs a call right away.}',
        '{Possible emergency|Signs of an emergency}, <short>. {Nothing was booked.|Please ring the patient now.}',
        '{Please phone|Call} <name> {immediately|now}: <short>{, says the message|}.',
      ],
      values: { name: this.#case.patient.name, id: this.#case.id, short },
      facts: { needs: [[about]], bars: [/not urgent|routine/] },
    });
    const record = { name: 'open_record', input: { patient_id: this.#case.id } };
    const isRead = callsOf(turns, 'open_record').length > 0;
    return [
      { weight: 0.75, calls: [hand] },
      ...(isRead
        ? []
        : [
            { weight: 0.25, calls: [record] },
            { weight: 0, calls: [record, hand] },
          ]),
    ];
  }

  #handOver(team: 'nurse' | 'reception', summary: FreeText): WantedCall {
    return { name: 'hand_over', input: { patient_id: this.#case.id, team }, free: { summary } };
  }

  get #books(): boolean {
    return this.#case.intent === 'book' || this.#case.intent === 'swap';
  }

  /** The reception moves or cancels the appointment. */
  get #isForReception(): boolean {
    const { named, today } = this.#case;
    return this.#rule === 'frozen' || named.day <= addDays(today, 1);
  }

  /** Lists what must still be read. */
  #looks(turns: readonly Turn[]): WantedCall[] {
    const { id, department } = this.#case;
    const isRead = (name: string): boolean => callsOf(turns, name).length > 0;
    const record = isRead('open_record') ? [] : [{ name: 'open_record', input: { patient_id: id } }];
    const rules =
      !this.#books || isRead('referral_rules') ? [] : [{ name: 'referral_rules', input: { department } }];
    return [...record, ...rules, ...(this.#needsHours(turns) ? this.#nextHours(turns, false) : [])];
  }

  /** Whether free times are needed, as far as the model knows. */
  #needsHours(turns: readonly Turn[]): boolean {
    const isRead = callsOf(turns, 'open_record').length > 0;
    if (this.#case.intent === 'move') return isRead && !this.#case.is_lost && !this.#isForReception;
    if (!this.#books) return false;
    return !(isRead && callsOf(turns, 'referral_rules').length > 0 && !this.#mayBook);
  }

  get #mayBook(): boolean {
    return this.#rule === 'waived' || hasReferral(this.#case);
  }

  /** Lists the call that reads the next free times; empty: a suitable time is known, or all pages are read. */
  #nextHours(turns: readonly Turn[], isIdle: boolean): WantedCall[] {
    const { department, wish } = this.#case;
    if (isIdle && !this.#books) return [];
    const read = callsOf(turns, 'doctor_hours');
    const last = read.at(-1);
    if (last === undefined) {
      const from = wish.from === null ? {} : { from: isoDate(wish.from) };
      return [{ name: 'doctor_hours', input: { department, ...from } }];
    }
    if (read.length >= PAGES || this.#free(turns).length > 0 || this.#isDone(turns)) return [];
    const { next } = this.#pageDays(last.input.from);
    return [{ name: 'doctor_hours', input: { department, from: isoDate(next) } }];
  }

  #isDone(turns: readonly Turn[]): boolean {
    return ['book_appointment', 'move_appointment', 'add_to_waiting_list'].some(
      (name) => callsOf(turns, name).length > 0,
    );
  }

  /** Lists the earliest times that suit, among those that were read and were not refused. */
  #free(turns: readonly Turn[]): Slot[] {
    const days = callsOf(turns, 'doctor_hours').flatMap(({ input }) => this.#pageDays(input.from).days);
    const wasRefused = ['book_appointment', 'move_appointment'].some((name) =>
      allCallsOf(turns, name).some(({ is_error }) => is_error),
    );
    const free = this.#case.slots
      .filter((slot) => days.includes(slot.day) && this.#suits(slot))
      .filter((slot) => !(wasRefused && slot === this.#case.taken))
      .toSorted(byInstant);
    return free.filter((slot) => instant(slot) === instant(free[0]!));
  }

  /** Lists what is left to do, once for each doctor that is free at the earliest time. */
  #deeds(turns: readonly Turn[]): WantedCall[][] {
    if (callsOf(turns, 'open_record').length === 0 || this.#rule === 'practice') return [[]];
    const deeds = [...this.#papers(turns), ...this.#visitDeeds(turns)];
    const waits = this.#needsHours(turns) && this.#nextHours(turns, false).length > 0;
    const needsRules = this.#books && callsOf(turns, 'referral_rules').length === 0;
    if (!this.#needsHours(turns) || waits || needsRules || this.#isDone(turns)) return [deeds];
    const free = this.#free(turns);
    if (free.length === 0) return [[...deeds, this.#wait()]];
    return free.map((slot) => [this.#take(slot), ...deeds]);
  }

  #missing(): ('referral' | 'questionnaire')[] {
    const { department, has_questionnaire } = this.#case;
    return [
      ...(this.#mayBook ? [] : (['referral'] as const)),
      ...(DEPARTMENTS[department]!.needs_questionnaire && !has_questionnaire
        ? (['questionnaire'] as const)
        : []),
    ];
  }

  #papers(turns: readonly Turn[]): WantedCall[] {
    if (!this.#books || callsOf(turns, 'referral_rules').length === 0) return [];
    const asked = callsOf(turns, 'request_papers').map(({ input }) => input.paper);
    return this.#missing()
      .filter((paper) => !asked.includes(paper))
      .map((paper) => this.#request(paper));
  }

  #request(paper: 'referral' | 'questionnaire'): WantedCall {
    const { id, patient, department } = this.#case;
    const days = String(DEPARTMENTS[department]!.referral_days ?? '');
    const wordings = {
      referral: [
        '{Dear|Hello} <first>, {please send us|we need} a {current|valid} referral for <department>{, at most <days> days old|}.',
        '{For|In} <department> {a referral is necessary|we need a referral}{ that is not older than <days> days|}. {Please ask your family doctor.|Can you send one?}',
        '{Could you|Please} {get|send} a referral {for <department>|to <department>}{ from your family doctor|}? {Then we can book.|We will book as soon as it is here.}',
      ],
      questionnaire: [
        '{Please|Could you please} {fill in|complete} the questionnaire {of <department>|before your visit}{, <first>|}.',
        '{Dear|Hello} <first>, {your questionnaire is not on file|we have no questionnaire from you}. {Please send it back.|Please fill it in.}',
        '{For|Before} your visit in <department> we {need|ask for} the {completed |}questionnaire. {Thank you!|}',
      ],
    }[paper];
    return {
      name: 'request_papers',
      input: { patient_id: id, paper },
      free: {
        message: {
          wordings,
          values: { first: patient.first, department, days },
          facts: { needs: [[paper]], bars: [paper === 'referral' ? /questionnaire/ : /referral/] },
        },
      },
    };
  }

  /** Lists what is left to do with the appointment that the message names, apart from moving it. */
  #visitDeeds(turns: readonly Turn[]): WantedCall[] {
    const { intent, named, is_lost, patient, id } = this.#case;
    if (intent === 'book' || is_lost) return [];
    if (!this.#isForReception) {
      const isOpen = intent !== 'move' && callsOf(turns, 'cancel_appointment').length === 0;
      return isOpen ? [{ name: 'cancel_appointment', input: { appointment_id: named.id } }] : [];
    }
    if (callsOf(turns, 'hand_over').length > 0) return [];
    const wish = intent === 'move' ? 'move' : 'cancel';
    const [deed, done] =
      intent === 'move' ? ['{move|reschedule}', '{moved|rescheduled}'] : ['cancel', 'cancelled'];
    return [
      this.#handOver('reception', {
        wordings: [
          `<name> {wants|would like} to ${deed} <visit> (<on>, Dr <doctor>). {Please take over.|}`,
          `Please ${deed} {appointment |}<visit> of <name>{, <on>|}{ with Dr <doctor>|}.`,
          `{Appointment|Visit} <visit> on <on> {should|is to} be ${done}{, asked by <name>|}. {I may not do it.|Please see to it.}`,
          `Patient <id>: {asks to|wishes to} ${deed} <visit>{ on <on>|}.`,
        ],
        values: {
          name: patient.name,
          id,
          visit: named.id,
          on: isoDate(named.day),
          doctor: named.doctor,
        },
        facts: {
          needs: [[named.id], [wish === 'move' ? /mov|reschedul/ : /cancel/]],
          bars: [wish === 'move' ? /cancel/ : /mov|reschedul/],
        },
      }),
    ];
  }

  #take({ doctor, day, time }: Slot): WantedCall {
    const { intent, id, named, complaint } = this.#case;
    const [date, { short, about }] = [isoDate(day), complaint];
    if (intent === 'move')
      return { name: 'move_appointment', input: { appointment_id: named.id, date, time } };
    return {
      name: 'book_appointment',
      input: { patient_id: id, doctor, date, time },
      free: {
        reason: {
          wordings: [
            '{<short>|Complaint: <short>}',
            '{Patient|The patient} {reports|mentions} <short>',
            '{Visit because of|Appointment for} <short>',
            '<short>{, first visit for this|, please examine|, as written in the message}',
            'New {visit|appointment}: <short>',
          ],
          values: { short },
          facts: { needs: [[about]] },
        },
      },
    };
  }

  #wait(): WantedCall {
    const { id, department, intent, complaint, named } = this.#case;
    const isMove = intent === 'move';
    return {
      name: 'add_to_waiting_list',
      input: { patient_id: id, department },
      free: {
        note: {
          wordings: isMove
            ? [
                '{Wants to move|Would like to move} <visit>{, Dr <doctor>|}. {Nothing suited.|}',
                'No {time|slot} suits for {moving|a move of} <visit>{ with Dr <doctor>|}.',
                '<visit> {is to be moved|should be moved}, {but no time suits|no suitable time yet}.',
              ]
            : [
                '<short>{, no suitable time|, nothing free that suits}.',
                '{No slot suits|Nothing suited so far}: <short>.',
                '{Waiting for|Needs} an appointment for <short>{ with the wishes of the message|}.',
              ],
          values: { visit: named.id, doctor: named.doctor, short: complaint.short },
          facts: { needs: [[isMove ? named.id : complaint.about]] },
        },
      },
    };
  }

  /** Puts the pieces into one answer, in any order. */
  #combine(pieces: readonly Piece[]): FreeText {
    const { patient } = this.#case;
    const texts = pieces.map(({ wordings }) => `{${wordings.join('|')}}`);
    const bodies = texts.length > 1 ? [texts.join(' '), texts.toReversed().join(' ')] : texts;
    return {
      wordings: bodies.flatMap((body) => [
        `{Dear|Hello} <name>, ${body} {Kind regards, Riverside Clinic|Your clinic team|}`,
        body,
        `{Hello|Hi} <first>, {thank you for your message|thanks for writing}. ${body}`,
        `${body} {Please let us know if anything changes.|}`,
        `{Good day|Dear} <first>, ${body} {Best regards, Riverside Clinic|}`,
      ]),
      values: Object.assign(
        { name: patient.name, first: patient.first },
        ...pieces.map(({ values }) => values),
      ),
      facts: {
        needs: pieces.flatMap(({ needs }) => needs),
        bars: pieces.flatMap(({ bars }) => bars),
      },
    };
  }

  #tell(turns: readonly Turn[]): FreeText {
    const { intent, is_lost } = this.#case;
    if (this.#rule === 'practice') {
      const free = this.#free(turns);
      return this.#combine([tellOffer(free)]);
    }
    const pieces: Piece[] = [];
    if (this.#books) {
      if (this.#mayBook) pieces.push(this.#tellTime(turns, 'book_appointment'));
      pieces.push(...this.#missing().map((paper) => this.#tellPaper(paper)));
    }
    if (intent === 'move' || intent === 'cancel' || intent === 'swap') {
      if (is_lost) pieces.push(this.#tellLost());
      else if (this.#isForReception) pieces.push(this.#tellReception());
      else if (intent === 'move') pieces.push(this.#tellTime(turns, 'move_appointment'));
      else pieces.push(this.#tellCancelled());
    }
    return this.#combine(pieces);
  }

  /** Tells the new time, or that the patient is on the waiting list. */
  #tellTime(turns: readonly Turn[], name: 'book_appointment' | 'move_appointment'): Piece {
    const made = callsOf(turns, name).at(-1);
    const { department, named } = this.#case;
    if (made === undefined)
      return {
        wordings: [
          '{Unfortunately|Sorry,} no time suits {at the moment|right now}, so you are on the waiting list of <department>{ (place <place>)|, at place <place>}.',
          '{I have put|We put} you on the waiting list {of|for} <department>{: there is no suitable time so far|, as nothing suits}. {You are number <place>.|Your place is <place>.|}',
          '<department> has {nothing|no free time} that suits{ you|} {in the next two weeks|at present}. {You are on the waiting list now|I added you to the waiting list}, {place|number} <place>.',
          '{Nothing fits your wishes|No slot matches your wishes} in <department> yet; {the waiting list has your name now|you are on the waiting list}{ as number <place>| (place <place>)}.',
          '{Place|Number} <place> on the waiting list of <department> is yours{, as no time suits|: nothing suits at present}.',
          '{You are on|I put you on} the waiting list of <department>{; place <place>|, place <place>}. {As soon as a time suits, we write to you.|Nothing that is free suits your wishes.}',
        ],
        values: { department, place: String(this.#place) },
        needs: [[/waiting list/]],
        bars: [/see you on|is booked|have booked|was moved to/],
      };
    const day = Date.parse(String(made.input.date));
    const doctor = name === 'book_appointment' ? String(made.input.doctor) : named.doctor;
    return tellSlot({ doctor, day, time: String(made.input.time) }, name === 'move_appointment');
  }

  #tellPaper(paper: 'referral' | 'questionnaire'): Piece {
    const { department } = this.#case;
    const days = String(DEPARTMENTS[department]!.referral_days ?? '');
    if (paper === 'questionnaire')
      return {
        wordings: [
          '{Please fill in|Please complete} the questionnaire {that I sent you|that we sent you}.',
          '{We still need|One thing is missing:} {your|the} questionnaire{; you have mail|}.',
          'The questionnaire {is on its way to you|was sent to you}; please {return it|send it back}.',
        ],
        values: { department },
        needs: [[/questionnaire/]],
        bars: [],
      };
    return {
      wordings: [
        '{Before we can book|Before an appointment is possible}, we need a referral for <department> that is at most <days> days old.',
        '<department> {needs|requires} a referral{ of the last <days> days|, not older than <days> days}. {Please send it to us.|As soon as we have it, we give you a time.}',
        '{Sorry, without|Without} a {valid|current} referral (<days> days at most) {we cannot give you a time in|there is no appointment in} <department>.',
        'There is no valid referral for <department> in your record: {it may be <days> days old at most|we accept the last <days> days only}. {I have asked you for one.|}',
        '{Could you|Please} get {us |}a referral for <department>, {not older than|at most} <days> days{, from your family doctor|}? {Nothing is booked so far.|}',
      ],
      values: { department, days },
      needs: [[/referral/]],
      bars: [/is booked for|have booked|see you on|is yours|no referral is needed/],
    };
  }

  #tellLost(): Piece {
    const { named } = this.#case;
    return {
      wordings: [
        '{I cannot find|We do not find} {this|that} appointment{ in your record|}. {Could you check the date <on>?|Is it Dr <doctor> on <on>?}',
        'There is no {such appointment|appointment like that} in your record{, neither on <on>|}. {Please check.|Which one do you mean?}',
        '{Your record has no|In your record there is no} appointment with Dr <doctor>{ on <on>|}. {Nothing was changed.|Please tell us which one you mean.}',
      ],
      values: { doctor: named.doctor, on: isoDate(named.day) },
      needs: [[/no (?:such )?appointment|cannot find|do not find|not found/]],
      bars: [/is cancelled|was moved|have cancelled|have moved/],
    };
  }

  #tellReception(): Piece {
    const { named, intent } = this.#case;
    const done = intent === 'move' ? '{moved|rescheduled}' : 'cancelled';
    return {
      wordings: [
        `{The reception|Our reception} {takes care of|handles} your appointment on OLD at <old_time>{ with Dr <old_doctor>|}.`,
        `{I have handed|We handed} your wish to {the|our} reception: OLD, <old_time>{, Dr <old_doctor>|}.`,
        `Your appointment of OLD (<old_time>) {can only be ${done} by|has to be ${done} by} the reception{, which will contact you|}.`,
        `{About|As for} OLD, <old_time>: the reception {will get back to you|calls you back}.`,
      ].map((each) => each.replaceAll('OLD', OLD)),
      values: oldValues(named),
      needs: [[/reception/]],
      bars: [/is cancelled|have cancelled|was moved|have moved/],
    };
  }

  #tellCancelled(): Piece {
    const { named } = this.#case;
    return {
      wordings: [
        'Your appointment on OLD at <old_time>{ with Dr <old_doctor>|} {is|has been} cancelled.',
        '{I have cancelled|We cancelled} OLD, <old_time>{, with Dr <old_doctor>|}.',
        '{Cancelled|Cancelled as you wished}: OLD, <old_time>, Dr <old_doctor>.',
        'The {visit|appointment} with Dr <old_doctor> (OLD, <old_time>) {is|was} cancelled.',
        '{As you wished|As requested}, OLD at <old_time> is cancelled{; Dr <old_doctor> knows|}.',
        '{You are|You have been} taken off the list of Dr <old_doctor>: the appointment of OLD{, <old_time>,|} is cancelled.',
      ].map((each) => each.replaceAll('OLD', OLD)),
      values: oldValues(named),
      needs: [
        [/cancelled/],
        [named.doctor, isoDate(named.day), longDate(named.day), shortDate(named.day), named.time],
      ],
      bars: [/not cancelled|reception/],
    };
  }

  #tellUrgent(): Piece {
    const { short } = this.#case.complaint;
    return {
      wordings: [
        '{Our|The} nurse {will call|is going to call} you {at once|right away}. {If it gets worse|Should it get worse}, call 112.',
        '{This may be|This can be} an emergency: {a|our} nurse calls you now{, please stay near the phone|}. Call 112 if it gets worse.',
        '{Please call 112|Dial 112} {if it becomes worse|as soon as it gets worse}. {I have told the nurse|The nurse knows about it} and {you will get a call now|she calls you}.',
        '{I handed your message to the nurse|Your message is with the nurse}{ (<short>)|}; {if anything gets worse, 112|call 112 if it worsens}.',
        '{With|For} <short> we {book nothing|do not wait for an appointment}: {the nurse phones you|our nurse is calling you}, and 112 {helps|is the number} if it gets worse.',
      ],
      values: { short },
      needs: [[/nurse/], ['112']],
      bars: [/see you on|have booked|is booked/],
    };
  }

  #tellRules(): Piece {
    const { department } = this.#case;
    const days = DEPARTMENTS[department]!.referral_days;
    if (days === null)
      return {
        wordings: [
          'No, {you do not need a referral|no referral is needed} {for|in} <department>.',
          '<department> {sees you without a referral|does not ask for a referral}.',
          '{You can come|You may come} to <department> without a referral.',
          'A referral is not {necessary|needed} for <department>{, just ask for an appointment|}.',
          '{For|In} <department> {you need no referral|there is no need for a referral}.',
        ],
        values: { department },
        needs: [
          [/without (?:a |any )?referral|no referral|not (?:need|ask|necessary)|n't need|no need|is not n/],
        ],
        bars: [/days old|is required/],
      };
    return {
      wordings: [
        'Yes, <department> {needs|requires} a referral, at most <days> days old.',
        'You need a referral for <department>{; it|, which} may be up to <days> days old.',
        '{Yes|That is right}: {for|in} <department> a referral is {required|needed}{ and|, and it} must not be older than <days> days.',
        'A referral of the last <days> days is {necessary|required} for <department>.',
        '<department>: {referral needed|only with a referral}, {not older than|<days> days at most, so not older than} <days> days.',
      ],
      values: { department, days: String(days) },
      needs: [[/referral/], [String(days)]],
      bars: [/no referral|without|do not need/],
    };
  }
}

/** The date of the new time, and of the appointment that the message names. */
const NEW = '{<iso>|<weekday>, <long>|<long>|<weekday> <short>|<short>}';
const OLD = '{<old_iso>|<old_long>|<old_weekday>, <old_short>|<old_short>}';

function oldValues({ doctor, day, time }: Visit): Record<string, string> {
  return {
    old_doctor: doctor,
    old_iso: isoDate(day),
    old_long: longDate(day),
    old_short: shortDate(day),
    old_weekday: weekday(day),
    old_time: time,
  };
}

function slotValues({ doctor, day, time }: Slot): Record<string, string> {
  return {
    doctor,
    iso: isoDate(day),
    long: longDate(day),
    short: shortDate(day),
    weekday: weekday(day),
    time,
  };
}

function tellSlot(slot: Slot, isMoved: boolean): Piece {
  const wordings = isMoved
    ? [
        'Your appointment with Dr <doctor> {was|has been} moved to NEW at <time>.',
        '{I have moved|We moved} your {visit|appointment} to NEW, <time>{ (Dr <doctor>)|}.',
        '{New time|Your new time}: NEW, <time>{, Dr <doctor>|, again with Dr <doctor>}.',
        'Dr <doctor> {now sees you|expects you} on NEW at <time> instead.',
        '{Moved|Rescheduled}: NEW at <time>{, same doctor|, Dr <doctor>}.',
        '{Please come|Come} on NEW at <time> instead{; Dr <doctor> is informed|}.',
        'The {appointment|visit} with Dr <doctor> is now {on|at} {<time> on NEW|NEW, <time>}.',
      ]
    : [
        '{You have|There is} an appointment {with|for you with} Dr <doctor> on NEW at <time>.',
        'Dr <doctor> {will see|sees|expects} you on NEW at <time>.',
        '{I have booked|We have booked} NEW, <time>, with Dr <doctor>{ for you|}.',
        'Your {appointment|visit}: NEW, <time>, Dr <doctor>.',
        '{Please come|Come} on NEW at <time>; {you will see|your doctor is} Dr <doctor>.',
        '<time> on NEW is {yours, with Dr <doctor>|reserved for you: Dr <doctor>}.',
        'The {earliest|first} {time|appointment} that {suits|fits} is NEW at <time> with Dr <doctor>, and {it is yours|I booked it}.',
      ];
  return {
    wordings: wordings.map((each) => each.replaceAll('NEW', NEW)),
    values: slotValues(slot),
    needs: [
      [isoDate(slot.day), longDate(slot.day), shortDate(slot.day)],
      [slot.time],
      ...(isMoved ? [] : [[slot.doctor]]),
    ],
    bars: [
      /waiting list|would (?:give|offer)|before we can book|without a (?:valid|current) referral/,
      ...(isMoved ? [/is cancelled/] : []),
    ],
  };
}

/** Tells the time that the model would give; each doctor that is free then is right. */
function tellOffer(free: readonly Slot[]): Piece {
  const slot = free[0]!;
  return {
    wordings: [
      '{I would give you|We would offer you} NEW at <time> with Dr <doctor>. {Nothing is booked yet.|}',
      '{My offer would be|The offer would be} NEW, <time>, Dr <doctor>{; I have not booked it|}.',
      'Dr <doctor> would {see you|have time} on NEW at <time>{, not booked yet|}.',
      '{The earliest that would suit|What would suit} is NEW at <time> with Dr <doctor>.',
      'It would be {<time> on NEW|NEW, <time>}, {with|and the doctor would be} Dr <doctor>.',
    ].map((each) => each.replaceAll('NEW', NEW)),
    values: {
      ...slotValues(slot),
      others: free.map(({ doctor }) => doctor).join(', '),
    },
    needs: [
      [/would/],
      [isoDate(slot.day), longDate(slot.day), shortDate(slot.day)],
      [slot.time],
      free.map(({ doctor }) => doctor),
    ],
    bars: [/have booked|is booked for|is yours|waiting list/],
  };
}

export const clinicScheduler: HeldBackAgent = {
  name: 'clinic scheduler',
  model: 'gpt-5.5',
  wire: 'responses',
  is_streaming: true,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    "{I'll|Let me} {read the record|look at the free times|check the rules}.",
    '{Reading|Checking} {the record|the rules|the calendar}.',
    '{That is clear|I have what I need}{. Next step|}.',
    '{On to|Now} {what is left|the next step}.',
  ],
  aside_share: 0.25,
  names: PERSON_NAMES,
  start: (seed, kind) => new SchedulerRun(seed, kind),
};
