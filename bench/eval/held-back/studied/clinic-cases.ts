/**
 * The cases of the clinic scheduler: a patient with a wish, a record and free times, and the message that says it. Pure;
 * bench process.
 */

import type { Prng } from '../../../../src/std/prng.ts';
import {
  addDays,
  CITIES,
  isoDate,
  longDate,
  makeDay,
  makeId,
  makePerson,
  type Person,
  weekday,
} from '../vocabulary.ts';
import { between, pick, shuffle, word } from '../wording.ts';
import { type Complaint, DEPARTMENTS, EMERGENCIES } from './clinic-departments.ts';

type Intent = 'book' | 'move' | 'cancel' | 'swap' | 'urgent' | 'question';
export type Rule = 'ill' | 'late start' | 'frozen' | 'waived' | 'practice';

export interface Slot {
  doctor: string;
  day: number;
  time: string;
}

export interface Visit extends Slot {
  id: string;
  department: string;
}

/** When the patient can come, and to whom. */
interface Wish {
  part: 'morning' | 'afternoon' | null;
  weekday: string | null;
  from: number | null;
  doctor: string | null;
}

export interface Case {
  intent: Intent;
  today: number;
  patient: Person;
  id: string;
  born: number;
  namesakes: readonly { id: string; born: number }[];
  knows_id: boolean;
  /** Of the new or the moved appointment, or of the question. */
  department: string;
  complaint: Complaint;
  wish: Wish;
  referrals: readonly { department: string; day: number }[];
  has_questionnaire: boolean;
  /** The day of the questionnaire, if there is one. */
  filled_in: number;
  city: string;
  visits: readonly Visit[];
  /** The visit that the message names; it may be missing in the record. */
  named: Visit;
  is_lost: boolean;
  slots: readonly Slot[];
  /** Another patient takes this time before it can be booked. */
  taken: Slot | null;
}

export const MONDAY_TO_FRIDAY = 5;
export const PAGES = 2;
const NOON = '12:00';
const AFTERNOON = '13:00';
export const LATE_START = '10:00';

/** Lists working days, the first one not before `start`. */
export function workdays(start: number, count: number): number[] {
  const days: number[] = [];
  for (let day = start; days.length < count; day = addDays(day, 1))
    if (!/^S/.test(weekday(day))) days.push(day);
  return days;
}

function clock(prng: Prng): string {
  return `${String(between(prng, 8, 17)).padStart(2, '0')}:${pick(prng, ['00', '20', '40'])}`;
}

/** Writes a time so that texts sort as times do. */
export const instant = ({ day, time }: Slot): string => `${isoDate(day)} ${time}`;
/** Writes a day without its year. */
export const shortDate = (day: number): string => longDate(day).replace(/ \d{4}$/, '');

/** Whether a free time is one that the patient can and wants to take. */
export function suitsWish({ part, weekday: barred, from, doctor }: Wish, slot: Slot): boolean {
  if (part === 'morning' && slot.time >= NOON) return false;
  if (part === 'afternoon' && slot.time < AFTERNOON) return false;
  if (barred === weekday(slot.day) || (from !== null && slot.day < from)) return false;
  return doctor === null || doctor === slot.doctor;
}

/** Makes free times on days; with `isFull` none of them suits. */
function makeSlots(
  prng: Prng,
  days: readonly number[],
  doctors: readonly string[],
  wish: Wish,
  isFull: boolean,
): Slot[] {
  for (;;) {
    const slots = days.flatMap((day) =>
      doctors.flatMap((doctor) =>
        prng.chance(0.6)
          ? [...new Set(Array.from({ length: between(prng, 1, 4) }, () => clock(prng)))]
              .toSorted()
              .map((time) => ({ doctor, day, time }))
          : [],
      ),
    );
    if (isFull) return slots.filter((slot) => !suitsWish(wish, slot));
    if (slots.filter((slot) => suitsWish(wish, slot)).length > 1) return slots;
  }
}

function makeWish(prng: Prng, today: number, doctor: string | null): Wish {
  return {
    part: prng.chance(0.45) ? pick(prng, ['morning', 'afternoon'] as const) : null,
    weekday: prng.chance(0.2) ? weekday(workdays(addDays(today, between(prng, 1, 7)), 1)[0]!) : null,
    from: prng.chance(0.25) ? addDays(today, between(prng, 4, 14)) : null,
    doctor,
  };
}

/** Makes the appointments of a record, in different departments; the first is the one that the message names. */
function makeVisits(prng: Prng, today: number, except: string | null): Visit[] {
  const departments = shuffle(
    prng,
    Object.keys(DEPARTMENTS).filter((each) => each !== except),
  );
  return departments.slice(0, between(prng, 1, 3)).map((department, at) => ({
    id: makeId(prng, 'A-', 5),
    department,
    doctor: pick(prng, DEPARTMENTS[department]!.doctors),
    day:
      at === 0 && prng.chance(0.2)
        ? addDays(today, prng.below(2))
        : workdays(addDays(today, 3 + 9 * at + prng.below(7)), 1)[0]!,
    time: clock(prng),
  }));
}

function makeCase(prng: Prng, intent: Intent): Case {
  const [today] = workdays(makeDay(prng), 1) as [number];
  const isNew = intent !== 'move' && intent !== 'cancel';
  const chosen = pick(prng, Object.keys(DEPARTMENTS));
  const visits = makeVisits(prng, today, isNew ? chosen : null);
  const named = visits[0]!;
  const department = isNew ? chosen : named.department;
  const { doctors, complaints, referral_days } = DEPARTMENTS[department]!;
  const wish = makeWish(prng, today, isNew && prng.chance(0.3) ? pick(prng, doctors) : null);
  // A moved appointment keeps its doctor.
  if (!isNew) wish.doctor = named.doctor;
  const start = wish.from ?? addDays(today, 1);
  const pages = workdays(start, PAGES * MONDAY_TO_FRIDAY);
  const full = pick(prng, [0, 0, 0, 0, 0, 0, 0, 1, 1, 2]);
  const early = workdays(addDays(today, 1), 2 * MONDAY_TO_FRIDAY).filter((day) => day < pages[0]!);
  const slots = [
    ...makeSlots(prng, early, doctors, wish, true),
    ...Array.from({ length: PAGES }, (_, page) => {
      const days = pages.slice(page * MONDAY_TO_FRIDAY, (page + 1) * MONDAY_TO_FRIDAY);
      return makeSlots(prng, days, doctors, wish, page < full);
    }).flat(),
  ].filter(({ day }) => isNew || isoDate(day) !== isoDate(named.day));
  const suiting = slots.filter((slot) => suitsWish(wish, slot)).toSorted(byInstant);
  const age = referral_days === null ? 400 : referral_days;
  const referral = pick(prng, [1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3]);
  return {
    ...{ intent, today, department, wish, visits, named, slots },
    is_lost: !isNew && prng.chance(0.08),
    patient: makePerson(prng, 'example.org'),
    id: makeId(prng, '', 6),
    born: Date.UTC(between(prng, 1938, 2006), prng.below(12), between(prng, 1, 28)),
    namesakes: Array.from({ length: prng.below(3) }, () => ({
      id: makeId(prng, '', 6),
      born: Date.UTC(between(prng, 1938, 2006), prng.below(12), between(prng, 1, 28)),
    })),
    knows_id: prng.chance(0.7),
    complaint: pick(prng, intent === 'urgent' ? EMERGENCIES : complaints),
    referrals: [
      ...(referral === 3
        ? []
        : [
            {
              department,
              day: addDays(today, -(referral === 1 ? between(prng, 2, age - 1) : age + between(prng, 2, 60))),
            },
          ]),
      ...(prng.chance(0.4)
        ? [
            {
              department: pick(
                prng,
                Object.keys(DEPARTMENTS).filter((each) => each !== department),
              ),
              day: addDays(today, -between(prng, 2, 25)),
            },
          ]
        : []),
    ],
    has_questionnaire: prng.chance(0.65),
    filled_in: addDays(today, -between(prng, 20, 700)),
    city: pick(prng, CITIES),
    taken: prng.chance(0.15) ? (suiting[0] ?? null) : null,
  };
}

/** Compares times, the earlier first. */
export function byInstant(a: Slot, b: Slot): number {
  return instant(a) < instant(b) ? -1 : instant(a) > instant(b) ? 1 : 0;
}

/** Whether the department's rules accept one of the patient's referrals. */
export function hasReferral({ department, referrals, today }: Case): boolean {
  const days = DEPARTMENTS[department]!.referral_days;
  return (
    days === null ||
    referrals.some((each) => each.department === department && each.day >= addDays(today, -days))
  );
}

/** Finds the earliest time that suits. */
export function bestOf({ slots, wish }: Case): Slot | undefined {
  return slots.filter((slot) => suitsWish(wish, slot)).toSorted(byInstant)[0];
}

/** Whether the rule decides a step of this case. */
function decides(rule: Rule, each: Case): boolean {
  const best = bestOf(each);
  if (rule === 'frozen') return !each.is_lost && each.named.day > addDays(each.today, 1);
  if (rule === 'waived') return !hasReferral(each);
  if (!hasReferral(each) || best === undefined) return false;
  if (rule === 'ill') return each.wish.doctor === null;
  return rule === 'practice' || best.time < LATE_START;
}

const INTENTS: readonly Intent[] = [
  ...(['book', 'book', 'book', 'book', 'book', 'book', 'book', 'book'] as const),
  ...(['move', 'move', 'move', 'cancel', 'cancel', 'cancel'] as const),
  ...(['swap', 'swap', 'urgent', 'urgent', 'question'] as const),
];

/** Draws a case. @param rule a sentence that must decide a step of it */
export function drawCase(prng: Prng, rule: Rule | null): Case {
  for (;;) {
    const intent =
      rule === null
        ? pick(prng, INTENTS)
        : rule === 'frozen'
          ? pick(prng, ['move', 'cancel'] as const)
          : 'book';
    const drawn = makeCase(prng, intent);
    if (rule === null || decides(rule, drawn)) return drawn;
  }
}

const MESSAGES: Readonly<Record<Intent, readonly string[]>> = {
  book: [
    '{Hello|Hi|Good morning}, <complaint>. {Can I get an appointment|Could a doctor have a look}? <wish> {Thank you|Best regards}, <first>',
    '{Dear team|Dear clinic}, <complaint>{, so I would like to see someone|, and I would like to have that checked}. <wish>',
    'I need {an appointment|a slot}, {since|because} <complaint>. <wish>',
    '{Please book me in with|I would like an appointment in} <department>: <complaint>. <wish> {Thanks!|}',
    '<complaint> - {when can I come by|do you have anything free|when is there a free appointment}? <wish>',
    '{It is me again|This is <name>}. <complaint>. {I think a doctor should see it|Please find me a time}. <wish>',
  ],
  move: [
    '{Hello|Hi}, {I cannot make it to|something came up, I cannot come to} my appointment <which>. {Can we move it|Could I come another day}? <wish>',
    '{Could you|Please} {reschedule|move} my {visit|appointment} <which>{, please|}. <wish> {Thank you|Thanks}, <first>',
    'About my appointment <which>: {work got in the way|my daughter needs me that day}. {Another time, please|When else could I come}? <wish>',
    'I {have to|must} {postpone|shift} {the appointment|my visit} <which>. <wish>',
  ],
  cancel: [
    '{Hello|Hi}, please cancel my {appointment|visit} <which>. {I feel fine again|It is no longer needed}. {Thanks|Regards}, <first>',
    'I {will not come|am not coming} to the appointment <which>{, sorry|}. {Please give it to another patient|You can strike it out}.',
    '{Can you take me off the list|Please delete the appointment} <which>? {I found a doctor nearer to home.|I have to travel.|}',
    'The appointment <which> {can be dropped|is not necessary any more}. {Kind regards|Best}, <name>',
  ],
  swap: [
    '{Hello|Hi}, two things: please cancel my appointment <which>, and <complaint>, so I need {a new one|an appointment for that}. <wish>',
    '<complaint>. {Can I have an appointment for it|Please give me a time}? <wish> And I do not need the one <which> any more{, please cancel it|}.',
  ],
  urgent: [
    '{Hello|Hi}, <complaint>. {Can I come in next week|Do you have an appointment for me}?',
    '<complaint>. {What should I do|I do not want to bother anyone, but can a doctor have a look}?',
    '{Good evening|Dear team}, <complaint>. {Please give me an appointment soon.|Is that normal?} <first>',
  ],
  question: [
    '{Hello|Hi}, {only a question|just asking}: do I need a referral for <department>{, and how old may it be|}?',
    '{Before I book|Before I ask for an appointment}: {what about referrals in|is a referral necessary for} <department>? {How old may it be?|}',
    'My family doctor asks whether <department> {wants|requires} a referral{ from her|}. {Can you tell me?|}',
  ],
};

const HEADERS = {
  known: [
    '{Message|E-mail} from <name> (patient <id>):',
    'From: <name>\nPatient number: <id>\n',
    '{Voice mail|Voice message}, written down. Patient <id>, <name>:',
    'Portal, patient <id> (<name>, born <born>):',
  ],
  unknown: [
    'Web form\nName: <name>\nBorn: <born>\nPatient number: -\n',
    '{E-mail|Message} from <name>, born {on |}<born>. No patient number.\n',
    'Call noted by the reception: <name> (born <born>) says:',
  ],
};

function wordWish(prng: Prng, { part, weekday: barred, from, doctor }: Wish, isNew: boolean): string {
  const said: string[] = [];
  if (part === 'morning')
    said.push('{I can only come before noon|It has to be in the morning|Mornings only, please}.');
  if (part === 'afternoon')
    said.push('{I work until noon, so the afternoon please|Only afternoons work for me|After lunch only}.');
  if (barred !== null)
    said.push(`{Not on a ${barred}, please|${barred}s are impossible for me|Any day but ${barred}}.`);
  if (from !== null)
    said.push(
      `{I am back on ${shortDate(from)}|Not before ${shortDate(from)}, please|Any time from ${shortDate(from)} on}.`,
    );
  if (doctor !== null && isNew)
    said.push(`{I would like to see Dr ${doctor}|Dr ${doctor} knows me, so with Dr ${doctor} please}.`);
  if (said.length === 0) said.push('{As soon as possible.|The earlier the better.|I can come at any time.|}');
  return word(prng, shuffle(prng, said).join(' '), {});
}

function nameVisit(prng: Prng, { named }: Case): string {
  return pick(prng, [
    `with Dr ${named.doctor}`,
    `on ${shortDate(named.day)}`,
    `in ${named.department}`,
    `with Dr ${named.doctor} on ${weekday(named.day)}`,
  ]);
}

function upperFirst(text: string): string {
  return `${text[0]!.toUpperCase()}${text.slice(1)}`;
}

/** Writes the patient's message, with a header. */
export function writeTask(prng: Prng, each: Case): string {
  const values = {
    name: each.patient.name,
    first: each.patient.first,
    id: each.id,
    born: longDate(each.born),
    department: each.department,
    which: nameVisit(prng, each),
    complaint: word(prng, each.complaint.says, {}),
    wish: wordWish(prng, each.wish, each.intent === 'book' || each.intent === 'swap'),
  };
  const header = word(prng, pick(prng, each.knows_id ? HEADERS.known : HEADERS.unknown), values);
  return `${header}\n${upperFirst(word(prng, pick(prng, MESSAGES[each.intent]), values))}`;
}
