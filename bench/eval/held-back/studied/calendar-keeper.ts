/**
 * An assistant that keeps a calendar: it books, moves and cancels meetings. Messages API, without streaming. Pure;
 * bench process.
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
import { callsOf } from '../turns.ts';
import { between, pick, shuffle, word } from '../wording.ts';

const PEOPLE = ['Ines', 'Jonas', 'Farida', 'Mikkel', 'Tomoko', 'Selim', 'Greta', 'Olu', 'Bruna', 'Dmitri'];
const TOPICS = ['budget', 'roadmap', 'hiring', 'launch', 'audit', 'migration', 'offsite', 'pricing'];
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const DAY_MS = 86_400_000;
const OPENS = 9 * 60;
const CLOSES = 17 * 60;
const STEP = 30;

interface Meeting {
  event_id: string;
  title: string;
  start: string;
  end: string;
}

type Intent = 'book' | 'cancel' | 'tell';

const clock = (minutes: number): string =>
  `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
const minutesOf = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
const iso = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

const TOOLS = [
  tool('find_person', 'Finds the e-mail address of a colleague.', { name: 'string' }),
  tool('list_events', 'Lists the meetings of a day.', { date: 'string' }),
  tool('create_event', 'Books a meeting.', {
    title: 'string',
    date: 'string',
    start: 'string',
    end: 'string',
    attendees: 'string[]',
  }),
  tool('delete_event', 'Cancels a meeting and tells those who were invited.', {
    event_id: 'string',
    message: 'string',
  }),
];

const TASKS: Readonly<Record<Intent, readonly string[]>> = {
  book: [
    '{Please book|Book|Set up} <length> minutes with <person> <when> about the <topic>{, as early as possible|, the first free slot}{.| please.}',
    '{I need|Find me} <length> minutes with <person> <when> for the <topic>: {first free slot|as early as it goes}.',
  ],
  cancel: [
    '{Please cancel|Cancel|Call off} the <topic> meeting <when>{.|, something came up.}',
    'The <topic> meeting <when> {has to go|is off}, please {cancel it|take it out}.',
  ],
  tell: ['What {is on|do I have} <when>?', '{Tell me|Show me} my {day|meetings} <when>.'],
};

/** A sentence of the prompt that limits bookings before an hour. */
interface Rule {
  sentence: string;
  earliest: number;
  asks: boolean;
}

function makeRule(prng: Prng, kind: RunKind, intent: Intent): Rule {
  const none = { sentence: '', earliest: OPENS, asks: false };
  if (kind !== 'restricted') return none;
  if (intent === 'cancel' || prng.chance(0.5))
    return {
      ...none,
      asks: true,
      sentence: pick(prng, [
        ' Do not change anything yet, tell me first what you would do.',
        ' But ask me before you touch the calendar.',
      ]),
    };
  return {
    ...none,
    earliest: 14 * 60,
    sentence: pick(prng, [' Not before 14:00.', ' Nothing in the morning: 14:00 at the earliest.']),
  };
}

class KeeperRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #intent: Intent;
  readonly #person: string;
  readonly #topic: string;
  readonly #date: string;
  readonly #length: number;
  readonly #rule: Rule;
  readonly #kind: RunKind;
  readonly #day: Meeting[];

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#intent =
      kind === 'restricted'
        ? pick(prng, ['book', 'cancel'] as const)
        : pick(prng, ['book', 'book', 'book', 'cancel', 'tell'] as const);
    this.#person = pick(prng, PEOPLE);
    this.#length = pick(prng, [30, 60]);
    const today = Date.UTC(2026, prng.below(12), between(prng, 1, 28));
    const ahead = between(prng, 1, 6);
    const date = today + ahead * DAY_MS;
    this.#date = iso(date);
    const topics = shuffle(prng, TOPICS);
    this.#topic = topics.pop()!;
    this.#day = this.#fillDay(prng, topics);
    this.#rule = makeRule(prng, kind, this.#intent);
    const weekday = WEEKDAYS[new Date(date).getUTCDay()]!;
    const when = ahead === 1 ? 'tomorrow' : pick(prng, [`on ${weekday}`, `on ${this.#date}`]);
    this.system = `You keep the calendar of Noor. Today is ${WEEKDAYS[new Date(today).getUTCDay()]}, ${iso(today)}. The working day is from ${clock(OPENS)} to ${clock(CLOSES)}; meetings begin on the full or half hour. Dates are YYYY-MM-DD and times HH:MM.`;
    const values = { length: String(this.#length), person: this.#person, topic: this.#topic, when };
    this.task = word(prng, pick(prng, TASKS[this.#intent]), values) + this.#rule.sentence;
  }

  #fillDay(prng: Prng, topics: string[]): Meeting[] {
    const meetings: Meeting[] = [];
    const isFull = prng.chance(0.1);
    for (let at = OPENS; at < CLOSES; ) {
      const length = pick(prng, [30, 60, 90]);
      const end = isFull ? Math.min(CLOSES, at + 120) : at + length;
      if ((isFull || prng.chance(0.5)) && end <= CLOSES)
        meetings.push({
          event_id: `ev_${between(prng, 10_000, 99_999)}`,
          title: `${pick(prng, ['Review', 'Sync', 'Meeting', 'Call'])}: ${pick(prng, topics)}`,
          start: clock(at),
          end: clock(end),
        });
      at = end;
    }
    if (this.#intent === 'cancel' && prng.chance(0.9) && meetings.length > 0)
      pick(prng, meetings).title = `Meeting: ${this.#topic}`;
    return meetings;
  }

  /** When the meeting begins; null: there is no room. */
  get #slot(): number | null {
    for (let at = this.#rule.earliest; at + this.#length <= CLOSES; at += STEP)
      if (this.#day.every(({ start, end }) => at + this.#length <= minutesOf(start) || at >= minutesOf(end)))
        return at;
    return null;
  }

  get #found(): Meeting | undefined {
    return this.#day.find(({ title }) => title.endsWith(`: ${this.#topic}`));
  }

  get #email(): string {
    return `${this.#person.toLowerCase()}@norrvik.example`;
  }

  /** In a changed run, the model ends meetings five minutes early. */
  get #end(): string {
    return clock((this.#slot ?? 0) + this.#length - (this.#kind === 'changed' ? 5 : 0));
  }

  perform({ name, input }: ToolCall): Result {
    switch (name) {
      case 'find_person':
        return typeof input.name === 'string' && PEOPLE.includes(input.name)
          ? good({ name: input.name, email: `${input.name.toLowerCase()}@norrvik.example` })
          : bad('no such colleague');
      case 'list_events':
        if (typeof input.date !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(input.date))
          return bad('date must be YYYY-MM-DD');
        return good({ date: input.date, events: input.date === this.#date ? this.#day : [] });
      case 'create_event':
        return good({ event_id: `ev_${this.#date.replaceAll('-', '')}`, status: 'booked' });
      case 'delete_event':
        return this.#day.some(({ event_id }) => event_id === input.event_id)
          ? good({ status: 'cancelled' })
          : bad('no such event');
      default:
        return bad(`no tool ${name}`);
    }
  }

  moves(turns: readonly Turn[]): Move[] {
    const list: WantedCall = { name: 'list_events', input: { date: this.#date } };
    const find: WantedCall = { name: 'find_person', input: { name: this.#person } };
    const hasListed = callsOf(turns, 'list_events').length > 0;
    const hasFound = callsOf(turns, 'find_person').length > 0;
    if (this.#intent === 'book' && !hasListed && !hasFound)
      return [
        { weight: 0.7, calls: [find, list] },
        { weight: 0.15, calls: [find] },
        { weight: 0.15, calls: [list] },
      ];
    if (!hasListed) return this.#list(turns, list);
    if (this.#intent === 'tell') return ending(this.#tell());
    const isDone = callsOf(turns, 'create_event').length + callsOf(turns, 'delete_event').length > 0;
    if (this.#intent === 'cancel') {
      if (this.#found === undefined || this.#rule.asks || isDone) return ending(this.#tellCancel());
      return only({
        name: 'delete_event',
        input: { event_id: this.#found.event_id },
        free: { message: this.#message() },
      });
    }
    if (this.#slot === null) return ending(this.#tellBooked());
    if (!hasFound) return [{ weight: 1, calls: [find] }];
    if (this.#rule.asks || isDone) return ending(this.#tellBooked());
    return only({
      name: 'create_event',
      input: { date: this.#date, start: clock(this.#slot), end: this.#end, attendees: [this.#email] },
      free: {
        title: {
          wordings: [
            '{<Topic>|The <topic>} with <person>',
            '<Topic>{ meeting|}',
            '<person>{: | / }<topic>',
          ].map((title) => title.replaceAll('<Topic>', '<top>')),
          values: {
            topic: this.#topic,
            person: this.#person,
            top: this.#topic[0]!.toUpperCase() + this.#topic.slice(1),
          },
          facts: { needs: [[this.#topic]] },
        },
      },
    });
  }

  /** Lists the call and, until a call has failed, a slip: a date in words, which the tool refuses. */
  #list(turns: readonly Turn[], list: WantedCall): Move[] {
    const slip: Move = {
      weight: 0.03,
      is_slip: true,
      calls: [{ name: 'list_events', input: { date: new Date(this.#date).toUTCString().slice(5, 16) } }],
    };
    const hasTried = turns.some(({ results }) => results.some(({ is_error }) => is_error));
    return [{ weight: 0.97, calls: [list] }, ...(hasTried ? [] : [slip])];
  }

  #message(): FreeText {
    return {
      wordings: [
        '{Sorry|Unfortunately}, {the <topic> meeting is cancelled|we have to cancel the <topic> meeting}.',
        'The <topic> meeting {does not take place|is off}. {We will find another date.|}',
      ],
      values: { topic: this.#topic },
      facts: { needs: [[this.#topic]] },
    };
  }

  #tell(): FreeText {
    const list = this.#day.map(({ start, end, title }) => `${start} to ${end} ${title}`).join('; ');
    const values = { date: this.#date, list, count: String(this.#day.length) };
    return this.#day.length === 0
      ? {
          wordings: [
            '{Nothing|There is nothing|You have nothing} {on <date>|that day}.',
            'Your day is free{: no meetings on <date>|}.',
          ],
          values,
          facts: { needs: [[/nothing|free|no meetings/]] },
        }
      : {
          wordings: [
            '{On <date> you have|You have|There are} {<count> meetings|these meetings}: <list>.',
            '<list>.',
          ],
          values,
          facts: { needs: this.#day.flatMap(({ start, title }) => [[start], [title]]) },
        };
  }

  #tellCancel(): FreeText {
    const found = this.#found;
    const values = { topic: this.#topic, date: this.#date, start: found?.start ?? '' };
    if (found === undefined)
      return {
        wordings: [
          '{I found no|There is no} <topic> meeting {on <date>|that day}{, so nothing was cancelled|}.',
          '{There was nothing to cancel|Nothing to cancel}: no <topic> meeting {on <date>|that day}.',
        ],
        values,
        facts: { needs: [[/no .*meeting/]], bars: [/is cancelled|i cancelled|have cancelled/] },
      };
    return this.#rule.asks
      ? {
          wordings: [
            'I would cancel the <topic> meeting at <start>{ on <date>|}. {Shall I?|May I go ahead?}',
          ],
          values,
          facts: { needs: [[/would/], [found.start]], bars: [/is cancelled|have cancelled/] },
        }
      : {
          wordings: [
            '{The|Your} <topic> meeting {at <start>|on <date>|on <date> at <start>} {is cancelled|has been cancelled}.',
            'Cancelled: {the <topic> meeting|<topic>} at <start>.',
          ],
          values,
          facts: { needs: [[/cancelled/], [this.#topic]], bars: [/would|no .*meeting/] },
        };
  }

  #tellBooked(): FreeText {
    const slot = this.#slot;
    const values = {
      ...{ topic: this.#topic, person: this.#person, date: this.#date },
      ...{ start: clock(slot ?? 0), end: this.#end, length: String(this.#length) },
    };
    if (slot === null)
      return {
        wordings: [
          '{There is no room|I found no free slot} for <length> minutes {on <date>|that day}.',
          'No {free slot|room} of <length> minutes {on <date>|that day}. {Another day?|}',
        ],
        values,
        facts: { needs: [[/no (room|free slot)/]], bars: [/booked/] },
      };
    return this.#rule.asks
      ? {
          wordings: ['I would book <start> to <end> on <date> with <person>. {Shall I?|Is that all right?}'],
          values,
          facts: { needs: [[/would/], [values.start]], bars: [/is booked|have booked/] },
        }
      : {
          wordings: [
            '{Booked|Done}: <person>, <date> {from <start> to <end>|at <start>}, {about the <topic>|<topic>}.',
            '{You meet|You are meeting} <person> on <date> {at <start>|from <start> to <end>}{ about the <topic>|}.',
          ],
          values,
          facts: { needs: [[values.start], [this.#person]], bars: [/would|no (room|free slot)/] },
        };
  }
}

export const calendarKeeper: HeldBackAgent = {
  name: 'calendar keeper',
  model: 'claude-haiku-5',
  wire: 'messages',
  is_streaming: false,
  is_labelled: true,
  tools: TOOLS,
  asides: ["{I'll|Let me} {check|look at} {the calendar|that day}.", '{One moment|Looking}.'],
  aside_share: 0.3,
  names: PEOPLE,
  start: (seed, kind) => new KeeperRun(seed, kind),
};
