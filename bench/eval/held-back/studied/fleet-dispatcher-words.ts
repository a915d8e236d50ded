/** What the fleet dispatcher is told, and what it says. Pure; bench process. */

import type { Prng } from '../../../../src/std/prng.ts';
import { isoDate, weekday } from '../vocabulary.ts';
import { capital, pick, word } from '../wording.ts';
import { type Intent, type Question, RESERVE_MIN, type Rule, type World } from './fleet-dispatcher-world.ts';

export type Outcome =
  | Question
  | 'booked'
  | 'swapped'
  | 'rerouted'
  | 'moved'
  | 'relieved'
  | 'recorded'
  | 'claimed'
  | 'unrecorded'
  | 'assigned'
  | 'waits'
  | 'handed'
  | 'would book'
  | 'would reroute'
  | 'would assign';

export const RULE_WORDS: Readonly<Record<Rule, readonly string[]>> = {
  bays: [
    'Book no workshop today, the bays are being rebuilt: hand faults of vehicles over to the breakdown desk.',
    'The workshop takes no bookings from us at present. Every fault goes to the desk "breakdown", and you do nothing else about it.',
  ],
  way: [
    'Keep our vehicles out of the way <banned> until further notice.',
    'No vehicle may be sent by the way <banned> this week.',
  ],
  toll: ['No toll roads this week, the budget is used up.', 'You may only choose ways without toll today.'],
  drivers: [
    'Do not give routes to other drivers today; the desk "night" does that.',
    'Relief drivers are arranged by people this week: hand over to the night desk instead.',
  ],
  reserve: [
    'Today drivers may use their hours to the end, without the reserve.',
    'The reserve of driving time is not needed today.',
  ],
  rented: [
    'Rented vehicles may be used today, like our own.',
    'Today you may also give out the rented vehicles.',
  ],
  damage: [
    'Damage under 500 EUR is not recorded any more: only thank the driver.',
    'Do not write down incidents that cost less than 500 EUR; an answer is enough.',
  ],
  propose: [
    'Only tell me what you would do: change nothing, and send no messages.',
    'Make no changes and send no messages this time, I only want to hear what you would do.',
  ],
};

const QUESTIONS: Readonly<Record<Question, readonly string[]>> = {
  slot: [
    '{when|at what time} {do they expect me|is my slot} for unloading?',
    'what was the time for unloading again?',
  ],
  dock: [
    '{which|what} dock {do I have to go to|is it} {at the receiver|when I get there}?',
    'do you know at which dock they unload me?',
  ],
  hours: [
    'how {much driving|many hours} do I have left today?',
    'how long may I still drive today? {My display is off.|}',
  ],
  service: [
    'when is {this truck|my truck|the lorry} due for service?',
    'can you see the date of the next service{ for me|}?',
  ],
};

const LETTERS: Readonly<Record<Exclude<Intent, 'ask'>, readonly string[]>> = {
  minor: [
    '{Not urgent, but|Nothing dramatic:} <trouble>. {Can the workshop look at it|Can it be repaired} when I am back?',
    '<trouble>{, it started this morning|}. I can drive, {but please get it fixed|it just annoys me}.',
  ],
  major: [
    '{I had to stop|I am standing on the hard shoulder|I pulled over}: <trouble>. {What now?|I will not go on like this.}',
    '<trouble>! {Parked|Standing} near <near>, {the load is fine|goods are all right}. {Please help.|}',
  ],
  closed: [
    '<road> is closed {ahead|because of an accident}. {Which way should I take?|Is there another way?}',
    '{Police are turning everybody back on|They have just shut} <road>. {I need another way.|Where do I go?}',
  ],
  late: [
    '{Traffic is awful|Stuck in a jam}, I {will be|expect to be} there at <eta>{, not at <slot>|}. {Is that all right?|}',
    '{Loading took ages|They loaded me late}: I {make it by|arrive at} <eta> {at the earliest|, I think}. {Please tell them.|Can you sort it out?}',
  ],
  damage: [
    '{Sorry to say,|I have to report something:} <damage>. {I guess|They say} it is about <cost> euros.',
    '<damage> {this morning|just now}. {Costs maybe|Around} <cost> EUR. {What do I do?|Photos are in the app.}',
  ],
  extra: [
    '{We need|Please send us} a vehicle and a driver for <route>, it {came in late|is an extra load}.',
    '<route> is {still standing here|loaded and waits} without a truck. {Who takes it?|Can you find a vehicle and a driver?}',
  ],
};

const HEADERS: readonly string[] = [
  'From <name> (<driver>), <route>, <clock>:',
  'Cab unit <plate>, <clock>:',
  'Text message from <name>, <clock>:',
];

export function makeTask(prng: Prng, world: World): string {
  const { intent, driver, lorry, route, clock, question, trouble, damage, road, eta } = world;
  const values = {
    ...{ clock, road, eta, name: driver.name, driver: driver.id, plate: lorry.plate, route: route.id },
    ...{ near: route.near, slot: route.slot, trouble: trouble.words, damage: damage.words },
    cost: String(damage.cost),
  };
  const letter = word(prng, pick(prng, intent === 'ask' ? QUESTIONS[question] : LETTERS[intent]), values);
  const text = word(prng, pick(prng, ['', '', '{Hi|Hello|Morning}, ', '{Dispatch|Control}: ']), {});
  const header = intent === 'extra' ? '{Depot <near>|<near> depot}, <clock>:' : pick(prng, HEADERS);
  const capital = text === '' ? `${letter[0]!.toUpperCase()}${letter.slice(1)}` : `${text} ${letter}`;
  return `${word(prng, header, values)}\n${capital}`;
}

export function makeSystem({ today }: World): string {
  return [
    `You are the dispatcher of Harrow Freight. Today is ${weekday(today)}, ${isoDate(today)}. Messages come from drivers and depots; look things up before you act.`,
    `- Brakes, steering, tyres, cooling: the vehicle stops. Give the route to a free vehicle of the same type at the nearest depot, the smallest that carries the load, and book the workshop for today. No such vehicle: desk "breakdown". Other faults wait: book the workshop for the day on which the vehicle is back. If the workshop is full, take the next free day.`,
    `- A closed road: set the fastest way that the vehicle fits under and for which the driver has the hours. No way: desk "traffic".`,
    `- A late driver: if the hours last for the rest of the route, move the slot to the driver's time, or to the first one that the receiver has after it. Otherwise give the route to the ready driver of the nearest depot with the most hours. No such driver: desk "night".`,
    `- Every driver keeps ${RESERVE_MIN} minutes in reserve. Without a reading of the card, the list of the home depot has the hours.`,
    `- Damage is recorded. If it belongs to a third party, the desk "claims" gets it, too.`,
    `- A depot's extra load gets the smallest vehicle of its type that carries it, and the ready driver with the most hours. Without both it waits. Rented vehicles (RX) are not ours to give.`,
    `- Then answer the sender with send_message, and close with a line or two for the log.`,
  ].join('\n');
}

/** What is said about an outcome. */
interface Said {
  /** To the sender. */
  messages: readonly string[];
  /** For the log, without a full stop. */
  notes: readonly string[];
  /** Of each group, a text must contain one spelling: the name of a value, or a pattern. */
  needs: readonly (readonly (string | RegExp)[])[];
  bars?: readonly RegExp[];
}

const UNDONE = /\bwould\b|handed over|passed on to/;
const DONE = /\b(?:is|was|have|been) (?:booked|set|assigned)|i (?:booked|set|assigned|gave)/;

export const SAID: Readonly<Record<Outcome, Said>> = {
  slot: {
    messages: [
      'Your slot at <receiver> is <slot>.',
      '{They expect you|You are expected} at <slot>{, dock <dock>|}.',
      '<slot>, at <receiver>{ in <to>|}.',
    ],
    notes: [
      '{told|gave} <who> the {slot|time for unloading}, <slot>',
      'slot of <route>: <slot>',
      '<receiver> unloads {<route>|<who>} at <slot>',
    ],
    needs: [['slot']],
  },
  dock: {
    messages: [
      '{It is|You have} dock <dock>{ at <receiver>|}.',
      'Dock <dock>{, slot <slot>|}.',
      '<receiver> unloads you at dock <dock>.',
    ],
    notes: [
      '{told|gave} <who> the dock, {number|no.} <dock>',
      'dock <dock> for <route>',
      '<route> is unloaded at dock <dock>',
    ],
    needs: [['dock']],
  },
  hours: {
    messages: [
      'You have <left> {left today|of driving left}.',
      '{Still|There are} <left> {left|on your card} today.',
      'Driving time left: <left>.',
    ],
    notes: [
      '{told|gave} <who> the driving time left, <left>',
      '<who> may drive <left> more{ today|}',
      'hours of <who>: <left> left',
    ],
    needs: [
      [
        'left',
        'left_clock',
        'left_min',
        /\b<left_hours> ?(?:h|hours?)\b.{0,5}\b<left_rest> ?(?:m|min|minutes)\b/,
      ],
    ],
  },
  service: {
    messages: [
      '{The next service|Service} of <plate> is {due on|planned for} <service_day>.',
      '<plate> {goes|has to go} to service on <service_on>.',
      'Due on <service_on>.',
    ],
    notes: [
      'service of <plate> is due on <service_on>',
      '{told|gave} <who> the date of the service, <service_day>',
      '<plate>: next service <service_on>',
    ],
    needs: [['service_on', 'service_day']],
  },
  booked: {
    messages: [
      '{Thanks|Thank you}, {drive on|you can go on}. The workshop {looks at|takes} <plate> on <date>.',
      'Workshop for the <part> {is booked|booked}: <day>. {Drive carefully.|}',
      'Noted. <plate> {is in the workshop|has its bay} on <date>{, the booking is <booking>|}.',
    ],
    notes: [
      '{booked|reserved} {a bay|the workshop} for <plate> on <date> (<part>)',
      '<plate> {goes|is booked} into the workshop on <day>{, <booking>|}',
      'workshop for the <part> of <plate>: <date>',
    ],
    needs: [['date', 'day']],
    bars: [UNDONE],
  },
  swapped: {
    messages: [
      '{Stay where you are|Do not drive on}. <other> from <near> takes {over <route>|your load}, <plate> {goes|is booked} into the workshop{ on <date>|}.',
      '<other> {comes|is coming} from <near>{ and takes the load|}. {The workshop has <plate> on its list for <date>.|<plate> is booked for repair.}',
      '{Leave <plate> there|Please stop}: we {send|have sent} <other>. {Workshop is booked (<date>).|The workshop knows.}',
    ],
    notes: [
      '<route> {goes on with|now has} <other>, and <plate> goes to the workshop on <date>',
      '{replaced|swapped} <plate> (<part>) {by|for} <other>{; workshop <day>|}',
      '<other> {took over|takes over} <route>{ from <plate>|}, bay for <plate> on <date>',
    ],
    needs: [['other']],
    bars: [UNDONE],
  },
  rerouted: {
    messages: [
      '{Take|Please take} the way <way>: <km> km, <minutes> minutes{, <toll> EUR toll|}.',
      'New way in your navigation: <way>{, about <took>|}. {Safe trip!|}',
      '{Go|Drive} by the way <way>. {It takes <minutes> minutes.|<km> km from where you are.|}',
    ],
    notes: [
      '{sent|set} <route> by <way>{ (<km> km, <minutes> min)|}',
      '<route> avoids <road> by <way>',
      '<way> instead of <road>{ for <who>|}, <minutes> minutes',
    ],
    needs: [['way']],
    bars: [UNDONE, /no (?:other )?way/],
  },
  moved: {
    messages: [
      '{No problem|All right}, <receiver> {expects|takes} you at <time>.',
      'Your new slot is <time>{ instead of <slot>|}. {Your hours suffice.|You have <left> left, that is enough.|}',
      'Slot moved to <time>. {Drive safely.|Take your time.|}',
    ],
    notes: [
      'slot of <route> moved {to <time>|from <slot> to <time>}',
      '{moved|postponed} the unloading of <route> to <time>',
      '<receiver> unloads <route> at <time>{, hours of <who> suffice (<left>)|}',
    ],
    needs: [['time']],
    bars: [UNDONE, /relie(?:f|ve)/],
  },
  relieved: {
    messages: [
      'Your hours ({<left>|<left> left}) do not suffice. <driver> takes over <route> {at|near} <near>.',
      '{Stop at <near>|Please go to <near>}: <driver> relieves you there.',
      '<driver> {from <near>|} {will drive|drives} the rest{ of <route>|}, {you have only <left> left|since your hours end too early}.',
    ],
    notes: [
      '<route> {goes|went} to <driver> ({hours of <who>: <left>|<who> is out of hours})',
      '<driver> {relieves|takes over from} <who>{ at <near>|} on <route>',
      '{gave|assigned} <route> to <driver>{, as <who> has only <left> left|}',
    ],
    needs: [['driver', 'driver_id']],
    bars: [UNDONE, /slot moved/],
  },
  recorded: {
    messages: [
      '{Thanks|Thank you} for {telling us|the report}, it is in the file of <plate>.',
      '{Noted|Recorded}: <what>. {Drive on.|You can go on.|}',
      'I have recorded <what>{, about <cost> EUR|}. {Please keep the photos.|}',
    ],
    notes: [
      'recorded <what> for <plate>{, about <cost> EUR|}',
      '<what> ({<cost> EUR|<kind>}) {is|now} in the file of <plate>',
      'incident on <plate> recorded: <what>',
    ],
    needs: [[/record|file|noted/], [/<spelling>/, 'plate']],
    bars: [UNDONE, /claims/],
  },
  claimed: {
    messages: [
      '{Thanks|Thank you}, it is recorded, and the claims desk {takes care of|gets in touch about} it.',
      'Recorded: <what>. {The desk for claims|Claims} {will call|calls} the owner.',
      '{Please leave your details there.|Stay friendly.} Our claims desk has {the case|<what>} now.',
    ],
    notes: [
      'recorded <what> for <plate>, {and claims has the case|case with the claims desk}',
      '<what> (<cost> EUR) {recorded and given|in the file, passed} to claims',
      'claims desk {took|has} the case of <plate>: <what>',
    ],
    needs: [[/claims/]],
    bars: [/\bwould\b|not recorded/],
  },
  unrecorded: {
    messages: [
      '{Thanks|Thank you} for telling us. {That is below 500 EUR, nothing to record.|No record is needed.|Nothing else to do.}',
      '{All right|Noted}, {drive on|no paperwork}: under 500 EUR we keep no record. {Thanks!|}',
    ],
    notes: [
      '{thanked <who>|<who> thanked}, no record {of <what>|under 500 EUR}',
      '<what>, <cost> EUR: not recorded',
      'nothing recorded, {<what> costs <cost> EUR|the damage is below the limit}',
    ],
    needs: [[/thank|no record|not recorded|nothing|500/]],
    bars: [UNDONE, /is recorded|in the file|have recorded|claims/],
  },
  assigned: {
    messages: [
      '<other> and <driver> take <route>.',
      '<route> {goes|leaves} with <other>, <driver> drives.',
      '{Done|Solved}: <driver> {drives <other>|with <other>}{ to <to>|}.',
    ],
    notes: [
      '{gave|assigned} <other> and <driver> to <route>',
      '<route> {runs|leaves <near>} with <other>, {driven by <driver>|driver: <driver>}',
      '<driver> takes <route> {in|with} <other>',
    ],
    needs: [['other'], ['driver', 'driver_id']],
    bars: [UNDONE, /\bwaits?\b|no driver/],
  },
  waits: {
    messages: [
      '{Sorry|I am sorry}, {nothing suitable is free|we have no vehicle with a driver} {now|today}: <route> {has to wait|must wait}.',
      '<route> has to wait, {there is no free pair of vehicle and driver|no driver can take it} at <near>. {Please tell the customer.|}',
    ],
    notes: [
      '<route> waits at <near>: {no vehicle with a driver|nothing suitable is free}',
      '{no vehicle and driver|nothing} for <route>, it has to wait',
      'load of <route> must wait, no driver can take it',
    ],
    needs: [[/wait/]],
    bars: [/\bwould\b|\btakes? <route>/],
  },
  handed: {
    messages: [
      '{Our|The} <desk> desk {has your case now|takes over} and {will call you|gets in touch}{ soon|}.',
      'The desk "<desk>" {calls you|gets back to you}{ shortly|}.',
      'I have {passed this on to|handed this over to} the <desk> desk.',
    ],
    notes: [
      '<route> handed over to the <desk> desk',
      'case of <who> is with the {desk "<desk>"|<desk> desk}',
      '{passed|gave} <route> ({<plate>|<who>}) {on to|over to} the <desk> desk',
    ],
    needs: [['desk']],
    bars: [/\bwould\b|slot moved|takes over r-|is booked for/],
  },
  'would book': {
    messages: [],
    notes: [
      'I would book {a bay|the workshop} for <plate> on <date>{ (<part>)|}',
      '<plate> would {go|be sent} to the workshop on <day>',
      'the <part> can wait: I would {reserve|book} a bay on <date>',
    ],
    needs: [[/would/], ['date', 'day']],
    bars: [DONE],
  },
  'would reroute': {
    messages: [],
    notes: [
      'I would send <route> by <way>{: <km> km, <minutes> minutes|}',
      '<way> would be the {best|fastest} way that fits{, <minutes> min|}',
      '{to avoid <road>|instead of <road>}, <who> would take <way>',
    ],
    needs: [[/would/], ['way']],
    bars: [DONE],
  },
  'would assign': {
    messages: [],
    notes: [
      'I would give <route> to <driver> {with|in} <other>',
      '<other> with <driver> would take <route>',
      'for <route> I would {choose|take} <other> and <driver>',
    ],
    needs: [[/would/], ['other'], ['driver', 'driver_id']],
    bars: [DONE],
  },
};

export const LOG_FRAMES: readonly ((note: string) => string)[] = [
  (note) => `${capital(note)}.`,
  (note) => `${capital(note)}{; <who> knows|; <who> has been told|, message sent}.`,
  (note) => `{Log <clock>|<clock>|For the log}: ${note}.`,
  (note) => `{Settled|Closed|Done}: ${note}. {Nothing else is open.|}`,
  (note) => `{Answered <who>|Message of <who> answered}: ${note}.`,
  (note) => `**{Result|Outcome}:** ${note}.\n\n{No further action.|Sender informed.}`,
  (note) => `{The message of <clock> is dealt with|That one is settled}. ${capital(note)}.`,
];
export const PLAN_FRAMES: readonly ((note: string) => string)[] = [
  (note) => `${capital(note)}.`,
  (note) => `{Nothing is changed|I changed nothing}: ${note}.`,
  (note) => `{My plan|Proposal|Suggestion}: ${note}. {Shall I?|Say the word.|}`,
  (note) => `${capital(note)}{, if you agree|, no message sent yet}.`,
  (note) => `{As asked, only the plan|Without any change so far}: ${note}.`,
  (note) => `**Plan:** ${note}.\n\n{Nothing is done yet.|Waiting for your word.}`,
];

export const GREETINGS = [
  '',
  '',
  '{Hello|Hi there}. ',
  '{Thanks for the message.|Got it.} ',
  '{Copy.|Understood.} ',
];
export const SUMMARIES: readonly string[] = [
  '<who>, <route> (<plate>): <why>. {Please take over.|Your decision, please.}',
  '<why>. {Route|Concerns} <route>, {vehicle|lorry} <plate>, {sender|reported by} <who>.',
  '{Please take care of|Please handle} <route>: <why>{; plate <plate>|}.',
];
