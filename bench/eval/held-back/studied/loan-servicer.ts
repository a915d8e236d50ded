/**
 * A servicer of loans: it reads a borrower's request with the account, the schedule and the payments; it grants a
 * pause, moves the due day, waives a fee, sends statements, or refuses with a reason. Chat completions. Pure; bench
 * process.
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
import { anyOf } from '../independent.ts';
import { haveSameArguments } from '../truth.ts';
import { allCallsOf, callsOf } from '../turns.ts';
import { addDays, isoDate, longDate, PERSON_NAMES, plainMoney, weekday } from '../vocabulary.ts';
import { capital, pick } from '../wording.ts';
import {
  dotted,
  dueDate,
  hasArrears,
  LAST_DUE_DAY,
  makeSystem,
  makeTask,
  makeWorld,
  NOTICE_DAYS,
  NUMBERS,
  ordinal,
  PAID_MIN,
  PAUSE_MONTHS_MAX,
  RULE_WORDS,
  type Wish,
  type World,
} from './loan-servicer-world.ts';

const DAY_MS = 86_400_000;

/** What is decided about a wish, and how it is told. */
interface Decision {
  act: WantedCall | null;
  /** To the borrower. */
  replies: readonly string[];
  /** For the file, without a full stop. */
  notes: readonly string[];
  plans?: readonly string[];
  values: Readonly<Record<string, string>>;
  facts: Facts;
}

const TOOLS = [
  tool('find_borrower', 'Finds a borrower and the loans by e-mail address.', { email: 'string' }),
  tool('get_loan', 'Reads a loan.', { loan_id: 'string' }),
  tool('get_schedule', 'Reads the instalments of a loan around today.', { loan_id: 'string' }),
  tool('get_payments', 'Reads the last payments to a loan.', { loan_id: 'string' }),
  tool('get_fees', 'Reads the fees of a loan.', { loan_id: 'string' }),
  tool('quote_payoff', 'Says what paying off the loan costs on a banking day.', {
    loan_id: 'string',
    on: 'string',
  }),
  tool('grant_pause', 'Pauses instalments, beginning with the one that is due on first_due.', {
    loan_id: 'string',
    first_due: 'string',
    months: 'integer',
    reason: 'string',
  }),
  tool('change_due_day', 'Moves the due day, beginning with the instalment that was due on from_due.', {
    loan_id: 'string',
    day: 'integer',
    from_due: 'string',
  }),
  tool('waive_fee', 'Cancels a fee.', { loan_id: 'string', fee_id: 'string', reason: 'string' }),
  tool('send_statement', "Sends a statement to the borrower's address.", {
    loan_id: 'string',
    from: 'string',
    until: 'string',
  }),
  tool('open_case', 'Gives a matter to a team: hardship, fees or approvals.', {
    loan_id: 'string',
    team: 'string',
    summary: 'string',
  }),
  tool('reply_borrower', 'Answers a request.', { request_id: 'string', body: 'string' }),
];

/** Writes a day as 09/03/2026. */
const slashed = (day: number): string => isoDate(day).split('-').toReversed().join('/');
const spellings = (day: number): string[] => [isoDate(day), longDate(day), dotted(day)];

const REPLY_FRAMES: readonly ((text: string) => string)[] = [
  (text) =>
    `{Hello|Hi|Dear} <name>,\n\n{Thank you for your request.|Thanks for writing.|} ${text}\n\n{Kind regards|Best regards},\nFernhill Credit`,
  (text) =>
    `{Good day|Dear} <name>,\n\n${text} {Please ask if anything is unclear.|We are glad to help with anything else.|}\n\n{Regards|With kind regards},\nFernhill Credit`,
  (text) =>
    `{Dear|Hello} <first>, {about loan <id>|concerning your <product>}: ${text} {Your Fernhill team|Fernhill Credit}`,
];
const NOTE_FRAMES: readonly ((note: string) => string)[] = [
  (note) => `${capital(note)}.`,
  (note) => `{Loan|Account} <id>: ${note}.`,
  (note) => `{For the file|Note|File note}: ${note} ({loan <id>|<request>}).`,
  (note) => `{Request <request>|<request>} {is closed|done}: ${note}.`,
  (note) => `**<id>** {(<name>)|} – ${note}.\n\n{No open points.|Nothing else to do.|}`,
  (note) => `{Summary|Result} for <name>: ${note}.`,
];
const REPLIED_FRAMES: readonly ((note: string) => string)[] = [
  ...NOTE_FRAMES,
  (note) => `${capital(note)}; {reply sent|<name> has been told|the borrower knows}.`,
  (note) => `{Answered <name>|Replied to <name>}: ${note}.`,
];

const LOOKUPS: Readonly<Record<Wish, readonly string[]>> = {
  pause: ['get_schedule'],
  day: ['get_schedule'],
  fee: ['get_fees', 'get_payments'],
  statement: [],
  payoff: ['quote_payoff'],
  payment: ['get_payments'],
};

/** Moves a day at the weekend to Monday. */
function bankingDay(day: number): number {
  const after = { Saturday: 2, Sunday: 1 }[weekday(day)] ?? 0;
  return addDays(day, after);
}

function isDone(turns: readonly Turn[], wanted: WantedCall): boolean {
  return callsOf(turns, wanted.name).some(({ input }) =>
    haveSameArguments(wanted, { name: wanted.name, input }),
  );
}

function isRefused(turns: readonly Turn[], name: string): boolean {
  return allCallsOf(turns, name).some(({ is_error }) => is_error);
}

/** Gives a matter to a team. */
function makeCase(world: World, wish: 'pause' | 'fee', team: string, why: string): Decision {
  const { loan, borrower } = world;
  const topic = wish === 'pause' ? 'pause' : 'late fee';
  const values = { [`team_${wish}`]: team };
  return {
    act: {
      name: 'open_case',
      input: { loan_id: loan.id, team },
      free: {
        summary: {
          wordings: [
            `<name> asks about {a|the} ${topic}{ for <id>|}: ${why}. {Please decide.|Your decision, please.}`,
            `{Loan|Account} <id>, ${topic}: ${why}. {Please take over.|The borrower waits for an answer.}`,
            `{Request|Wish} of <name> (<id>), ${topic}; ${why}.`,
          ],
          values: { name: borrower.name, id: loan.id },
          facts: { needs: [[wish === 'pause' ? /pause|suspen|break/ : /fee/]] },
        },
      },
    },
    replies: [
      `{Our|The} team "${team}" decides about {the|your} ${topic} and {will write to you|gets in touch}{ soon|}.`,
      `I have {passed|given} {the matter of the ${topic}|your wish about the ${topic}} to our ${team} team.`,
      `{The ${topic}|Your ${topic}} is with the ${team} team now{, who will answer you|; please give them a few days}.`,
    ],
    notes: [
      `${topic}: case opened {for|with} the ${team} team`,
      `{passed|gave} the ${topic} to {the team "${team}"|the ${team} team}`,
      `the ${team} team decides about the ${topic}`,
    ],
    values,
    facts: {
      needs: [[team]],
      bars: [
        wish === 'pause' ? /pause is granted|have paused|granted a/ : /is waived|have waived|have cancelled/,
      ],
    },
  };
}

type Topic = 'pause' | 'new due day' | 'waiver of the fee';
const UNGRANTED: Readonly<Record<Topic, { deed: string; bar: RegExp }>> = {
  pause: { deed: 'grant a pause', bar: /have paused|pause is granted/ },
  'new due day': { deed: 'change the due day', bar: /day is now|have moved/ },
  'waiver of the fee': { deed: 'waive the late fee', bar: /is waived|have waived/ },
};

/** Refuses a wish. @param needs what the reason must contain */
function refuse(topic: Topic, reason: string, needs: Facts['needs'], values: Decision['values']): Decision {
  const { deed, bar } = UNGRANTED[topic];
  return {
    act: null,
    replies: [
      `{Unfortunately|I am sorry, but} {we cannot|it is not possible to} ${deed}: ${reason}.`,
      `{We have to say no|Our answer is no} to the ${topic}, {because|since} ${reason}.`,
      `{Regarding|As to} the ${topic}, {we are unable to help|we cannot do that}: ${reason}.`,
    ],
    notes: [
      `{refused|declined} the ${topic} ({reason: |}${reason})`,
      `{no|said no} to the ${topic}, {as|since} ${reason}`,
      `${topic} {refused|declined}: ${reason}`,
    ],
    values,
    facts: {
      needs: [...needs, [/cannot|can't|not possible|unable|\bno to\b|refused|declined/]],
      bars: [bar],
    },
  };
}

class ServicerRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #world: World;
  /** How often the model makes independent calls at once in this run. */
  readonly #together: number;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    const world = makeWorld(prng, kind);
    this.#world = world;
    this.#together = pick(prng, [0.8, 0.5, 0.1]);
    const task = makeTask(prng, world);
    const rule = world.rule === null ? '' : pick(prng, RULE_WORDS[world.rule]);
    const isInTask = world.rule === 'plan' || (world.rule !== null && prng.chance(0.25));
    this.system = isInTask || rule === '' ? makeSystem(world) : `${makeSystem(world)}\n${rule}`;
    this.task = isInTask ? `${task}\n\n---\n${rule}` : task;
  }

  perform({ name, input }: ToolCall): Result {
    const { loan, other, borrower, request } = this.#world;
    if (name === 'find_borrower')
      return input.email === borrower.email
        ? good({
            name: borrower.name,
            loans: [loan, ...(other === null ? [] : [other])].map(({ id, product }) => ({ id, product })),
          })
        : bad('no borrower with this address');
    if (name === 'reply_borrower')
      return input.request_id === request ? good({ sent: true }) : bad('no such request');
    if (input.loan_id !== loan.id) return bad('no such loan');
    switch (name) {
      case 'get_loan':
        return good(this.#loan());
      case 'get_schedule':
        return good(this.#schedule());
      case 'get_payments':
        return good(this.#payments());
      case 'get_fees':
        return good(this.#fees());
      default:
        return this.#change(name, input);
    }
  }

  #change(name: string, input: ToolCall['input']): Result {
    const { day, statement, payoff, today, request } = this.#world;
    const number = request.slice(2);
    switch (name) {
      case 'quote_payoff': {
        const on = bankingDay(payoff.on);
        if (input.on !== isoDate(on))
          return bad(`${String(input.on)} is not a banking day; next banking day: ${isoDate(on)}`);
        return good(`Payoff on ${isoDate(on)}: EUR ${plainMoney(payoff.amount)}, valid for this day only`);
      }
      case 'change_due_day':
        return day.is_debit_sent && input.from_due === isoDate(this.#firstDue)
          ? bad(
              `the debit of ${String(input.from_due)} has been sent to the bank; earliest: ${isoDate(this.#secondDue)}`,
            )
          : good({ due_day: input.day, from_due: input.from_due });
      case 'send_statement':
        return String(input.until) > isoDate(statement.booked_until) && String(input.until) <= isoDate(today)
          ? bad(`booked until ${isoDate(statement.booked_until)} only; choose this day or an earlier one`)
          : good(`statement ${number} queued for e-mail`);
      case 'grant_pause':
        return good({ pause: `P-${number}`, first_due: input.first_due, months: input.months });
      case 'waive_fee':
        return good({ fee: input.fee_id, state: 'waived' });
      case 'open_case':
        return good({ case_id: `C-${number}`, team: input.team });
      default:
        return bad(`no tool ${name}`);
    }
  }

  #loan(): object {
    const { loan, borrower, pause, day } = this.#world;
    return {
      loan_id: loan.id,
      product: loan.product,
      borrower: { name: borrower.name, email: borrower.email },
      balance: { amount: plainMoney(loan.balance), currency: 'EUR' },
      terms: {
        instalment: plainMoney(loan.instalment),
        due_day: loan.due_day,
        due_day_changed_on: day.trouble === 'changed' ? isoDate(this.#dayChangedOn) : null,
      },
      history: {
        instalments_paid: loan.paid,
        last_pause_on: pause.trouble === 'used' ? isoDate(this.#lastPause) : null,
      },
    };
  }

  #schedule(): string {
    const { loan } = this.#world;
    const rows = [-3, -2, -1, 0, 1, 2, 3].map((at) => {
      const state = at >= 0 ? 'open' : at === -1 && hasArrears(this.#world) ? 'unpaid' : 'paid';
      const number = String(loan.paid + at + 1).padStart(3);
      return `${number}  ${dotted(dueDate(this.#world, at))}  ${plainMoney(loan.instalment).padStart(9)}  ${state}`;
    });
    return [' no  due              total  state', ...rows].join('\n');
  }

  #payments(): string {
    const { loan, fee, payment, wishes } = this.#world;
    const past = [-4, -3, -2, ...(hasArrears(this.#world) ? [] : [-1])].filter((at) => -at <= loan.paid);
    const rows = past.map((at) => {
      const days = at === -2 && wishes.includes('fee') ? fee.late_days : 0;
      return `${slashed(addDays(dueDate(this.#world, at), days))},${plainMoney(loan.instalment)},instalment,booked`;
    });
    const isListed = wishes.includes('payment') && payment.state !== 'missing';
    const state = payment.state === 'booked' ? 'booked' : 'returned by the bank';
    return [
      'date,amount,kind,state',
      ...rows,
      ...(isListed ? [`${slashed(payment.on)},${plainMoney(payment.amount)},transfer,${state}`] : []),
    ].join('\n');
  }

  #fees(): string {
    const { fee, loan } = this.#world;
    const due = dueDate(this.#world, -2);
    const earlier =
      fee.trouble === 'second'
        ? [`- F-${loan.id.slice(-5)} late fee 12.00 EUR, waived on ${isoDate(this.#waivedOn)}`]
        : loan.paid > 20 && loan.paid % 3 === 0
          ? [`- F-${loan.id.slice(-5)} late fee 12.00 EUR, waived on ${isoDate(dueDate(this.#world, -19))}`]
          : [];
    return [
      ...earlier,
      `- ${fee.id} late fee ${plainMoney(fee.amount)} EUR, charged on ${isoDate(addDays(due, 1))} for the instalment due on ${isoDate(due)}, open`,
    ].join('\n');
  }

  get #lastPause(): number {
    return dueDate(this.#world, -2 - (this.#world.loan.paid % 8));
  }

  get #dayChangedOn(): number {
    return addDays(dueDate(this.#world, -3 - (this.#world.loan.paid % 7)), 4);
  }

  get #waivedOn(): number {
    return addDays(dueDate(this.#world, -4 - (this.#world.loan.paid % 6)), 3);
  }

  /** The due date of the first instalment that a new due day can concern. */
  get #firstDue(): number {
    const next = dueDate(this.#world, 0);
    return next - this.#world.today >= NOTICE_DAYS * DAY_MS ? next : dueDate(this.#world, 1);
  }

  get #secondDue(): number {
    return this.#firstDue === dueDate(this.#world, 0) ? dueDate(this.#world, 1) : dueDate(this.#world, 2);
  }

  moves(turns: readonly Turn[]): Move[] {
    const { loan, borrower, knows_loan, request, rule } = this.#world;
    if (!knows_loan && callsOf(turns, 'find_borrower').length === 0)
      return only({ name: 'find_borrower', input: { email: borrower.email } });
    const looks = this.#lookups(turns).filter((call) => !isDone(turns, call));
    if (looks.length > 0) return anyOf(looks, this.#together);
    const decisions = this.#world.wishes.map((wish) => this.#decide(wish, turns));
    if (rule === 'plan') return ending(this.#tell(decisions, NOTE_FRAMES, true));
    const acts = decisions.flatMap(({ act }) => (act === null || isDone(turns, act) ? [] : [act]));
    if (acts.length > 0) return anyOf(acts, this.#together);
    if (rule === 'no reply') return ending(this.#tell(decisions, NOTE_FRAMES, false));
    if (callsOf(turns, 'reply_borrower').length > 0)
      return ending(this.#tell(decisions, REPLIED_FRAMES, false));
    return only({
      name: 'reply_borrower',
      input: { request_id: request },
      free: { body: this.#reply(decisions, loan.product) },
    });
  }

  #lookups(turns: readonly Turn[]): WantedCall[] {
    const { wishes, loan, payoff } = this.#world;
    const on = isRefused(turns, 'quote_payoff') ? bankingDay(payoff.on) : payoff.on;
    return [...new Set(['get_loan', ...wishes.flatMap((wish) => LOOKUPS[wish])])].map((name) => ({
      name,
      input: { loan_id: loan.id, ...(name === 'quote_payoff' ? { on: isoDate(on) } : {}) },
    }));
  }

  #decide(wish: Wish, turns: readonly Turn[]): Decision {
    switch (wish) {
      case 'pause':
        return this.#decidePause();
      case 'day':
        return this.#decideDay(turns);
      case 'fee':
        return this.#decideFee();
      case 'statement':
        return this.#decideStatement(turns);
      case 'payoff':
        return this.#tellPayoff();
      case 'payment':
        return this.#tellPayment();
    }
  }

  #decidePause(): Decision {
    const world = this.#world;
    const { pause, loan, rule, kind } = world;
    const span = (months: number): string => `${months} month${months === 1 ? '' : 's'}`;
    if (pause.trouble === 'arrears' || hasArrears(world)) {
      const unpaid = dueDate(world, -1);
      return makeCase(world, 'pause', 'hardship', `the instalment of ${isoDate(unpaid)} is unpaid`);
    }
    if (rule === 'no pauses') return makeCase(world, 'pause', 'hardship', `wants ${span(pause.months)}`);
    if (pause.trouble === 'used')
      return refuse(
        'pause',
        `{the last pause|the last one} began on ${isoDate(this.#lastPause)}`,
        [spellings(this.#lastPause)],
        {
          last_pause: longDate(this.#lastPause),
          last_pause_dotted: dotted(this.#lastPause),
        },
      );
    if (pause.trouble === 'young')
      return refuse(
        'pause',
        `{only|so far,} ${loan.paid} instalments {are|have been} paid, and ${PAID_MIN} are needed`,
        [[`${loan.paid} instalments`, String(loan.paid), NUMBERS[loan.paid]!]],
        { paid: String(loan.paid) },
      );
    const limit = rule === 'one month' ? 1 : rule === 'six months' ? 6 : PAUSE_MONTHS_MAX;
    const months = Math.min(pause.months, limit);
    // In a changed run, the model leaves pauses and fees to people.
    if (kind === 'changed') return makeCase(world, 'pause', 'approvals', `wants ${span(pause.months)}`);
    return this.#pause(months, span(months));
  }

  #pause(months: number, span: string): Decision {
    const world = this.#world;
    const first = dueDate(world, 0);
    const words = span.replace(/^\d+/, NUMBERS[months]!);
    return {
      act: {
        name: 'grant_pause',
        input: { loan_id: world.loan.id, first_due: isoDate(first), months },
        free: {
          reason: {
            wordings: [
              '{Borrower|Request <request>} {asks for|wants} a pause{, all conditions are met|}',
              '{No arrears|Account in order}, {no pause in the last 12 months|enough instalments paid}',
              'As requested by <name>{ in <request>|}: <span>',
            ],
            values: { ...this.#values, span },
            facts: { needs: [], bars: [/arrears exist|unpaid|refus|declin/] },
          },
        },
      },
      replies: [
        '{We have paused|I have paused} your instalments for <pause_words>, {beginning with the one of|from} <pause_from>.',
        'Your pause is granted: <pause_span>, {from|starting with the instalment of} <pause_from>. {The next payment is due on <pause_end>.|}',
        '{You need not pay for|Nothing is due for} <pause_words> {from|beginning on} <pause_from>; payments {go on|resume} on <pause_end>.',
      ],
      notes: [
        '{granted a pause|paused} for <pause_span> from <pause_first>',
        'pause of <pause_words>, first instalment <pause_from>',
        '<pause_span> without instalments, {from <pause_first>|beginning on <pause_from>}',
      ],
      plans: [
        'I would {grant|give} a pause of <pause_span>{ from <pause_first>|}',
        'a pause of <pause_words> would be {possible|right}{, from <pause_from>|}',
      ],
      values: {
        ...{ pause_span: span, pause_words: words, pause_from: longDate(first), pause_first: isoDate(first) },
        ...{
          pause_end: longDate(dueDate(world, months)),
          pause_end_dotted: dotted(dueDate(world, months)),
          pause_dotted: dotted(first),
        },
        pause_end_iso: isoDate(dueDate(world, months)),
      },
      facts: {
        needs: [[span, words]],
        bars: [/cannot grant|no pause|pause (?:is|was) (?:refused|declined)/],
      },
    };
  }

  #decideDay(turns: readonly Turn[]): Decision {
    const world = this.#world;
    const { day, rule, loan } = world;
    const values = { day: ordinal(day.day), day_number: String(day.day) };
    if (hasArrears(world)) {
      const unpaid = dueDate(world, -1);
      return refuse(
        'new due day',
        `the instalment of ${isoDate(unpaid)} is {unpaid|not paid}`,
        [spellings(unpaid)],
        { ...values, unpaid: longDate(unpaid), unpaid_dotted: dotted(unpaid) },
      );
    }
    if (day.trouble === 'changed') {
      const on = this.#dayChangedOn;
      return refuse('new due day', `it was {changed|moved} on ${isoDate(on)}{ already|}`, [spellings(on)], {
        ...values,
        changed: longDate(on),
        changed_dotted: dotted(on),
      });
    }
    if (day.trouble === 'bad day')
      return refuse(
        'new due day',
        `{the ${LAST_DUE_DAY}th is the last possible day|only days up to the ${LAST_DUE_DAY}th are possible}`,
        [[`${LAST_DUE_DAY}th`, String(LAST_DUE_DAY)]],
        values,
      );
    if (rule === 'two days')
      return refuse(
        'new due day',
        '{only the 1st and the 15th are possible|the system knows only the 1st and the 15th}',
        [[/15th/]],
        values,
      );
    const from = isRefused(turns, 'change_due_day') ? this.#secondDue : this.#firstDue;
    return {
      act: { name: 'change_due_day', input: { loan_id: loan.id, day: day.day, from_due: isoDate(from) } },
      replies: [
        'Your due day is now the <day>{, beginning with the instalment of <from_long>|}.',
        'We have moved your {due day|instalments} to the <day>. {The first that changes is the one of <from_long>.|}',
        'From the instalment of <from_long>{ on|}, {we debit|your instalments are due} on the <day>.',
      ],
      notes: [
        '{moved|changed} the due day to the <day> from <from>',
        'due day is now the <day>, {first for the instalment of|from} <from_long>',
        'new due day: the <day>{ (from <from>)|}',
      ],
      plans: [
        'I would {move|change} the due day to the <day>{ from <from>|}',
        'the due day would become the <day>',
      ],
      values: { ...values, from: isoDate(from), from_long: longDate(from), from_dotted: dotted(from) },
      facts: {
        needs: [[ordinal(day.day), new RegExp(`day(?: is| to| of|:)?(?: now)?(?: the)? ${day.day}\\b`)]],
        bars: [/cannot change|due day (?:refused|declined)/],
      },
    };
  }

  #decideFee(): Decision {
    const world = this.#world;
    const { fee, rule, kind, loan } = world;
    const amount = plainMoney(fee.amount);
    const values = {
      fee: amount,
      fee_id: fee.id,
      late: String(fee.late_days),
      late_words: fee.late_days === 1 ? '1 day' : `${fee.late_days} days`,
    };
    if (rule === 'no waivers')
      return refuse(
        'waiver of the fee',
        '{no fees are waived at present|fees stay this month}',
        [[/fee/]],
        values,
      );
    if (fee.trouble === 'large') return makeCase(world, 'fee', 'fees', `${amount} EUR is above the limit`);
    if (fee.trouble === 'too late' && rule !== 'goodwill')
      return refuse(
        'waiver of the fee',
        `the payment came ${fee.late_days} days {late|after the due date}`,
        [[String(fee.late_days)]],
        values,
      );
    if (fee.trouble === 'second') {
      const on = this.#waivedOn;
      return refuse(
        'waiver of the fee',
        `{one|another fee} was waived on ${isoDate(on)}{ already|}`,
        [spellings(on)],
        { ...values, waived: longDate(on), waived_dotted: dotted(on) },
      );
    }
    if (kind === 'changed')
      return makeCase(world, 'fee', 'approvals', `${amount} EUR, paid ${fee.late_days} days late`);
    return {
      act: {
        name: 'waive_fee',
        input: { loan_id: loan.id, fee_id: fee.id },
        free: {
          reason: {
            wordings: [
              '{Payment|The payment} came <late_words> {late|after the due date}',
              '{First|Only} waiver in 12 months{, <fee> EUR|}',
              '{As asked|Requested} by <name>, {conditions are met|allowed by the rules}',
            ],
            values: { ...this.#values, ...values },
            facts: { needs: [], bars: [/refus|declin|cannot/] },
          },
        },
      },
      replies: [
        '{We have waived|I have waived} the late fee of <fee> EUR.',
        'The fee of <fee> EUR {is waived|has been waived}{, you need not pay it|}.',
        '{Good news: the|The} late fee (<fee> EUR) is {cancelled|waived}.',
      ],
      notes: [
        'waived {late fee|fee} <fee_id> ({<fee> EUR|EUR <fee>})',
        '{late fee|fee} of <fee> EUR waived{, paid <late_words> late|}',
        'late fee <fee> EUR {cancelled|is waived}',
      ],
      plans: [
        'I would waive the late fee of <fee> EUR{, since the payment came <late_words> late|}',
        'the fee of <fee> EUR would be waived',
      ],
      values,
      facts: { needs: [[amount]], bars: [/cannot waive|fee (?:refused|declined|stays)/] },
    };
  }

  #decideStatement(turns: readonly Turn[]): Decision {
    const { statement, today, loan } = this.#world;
    const isOver = statement.year < new Date(today).getUTCFullYear();
    const last = isRefused(turns, 'send_statement') ? statement.booked_until : today;
    const until = isOver ? Date.UTC(statement.year, 11, 31) : last;
    return {
      act: {
        name: 'send_statement',
        input: { loan_id: loan.id, from: `${statement.year}-01-01`, until: isoDate(until) },
      },
      replies: [
        '{The statement|Your statement} for <year> {is on its way|comes} by e-mail{, it ends on <until>|}.',
        '{We have sent|I have sent} the statement for <year>{ (until <until>)|} to your address.',
        'You {will receive|get} {an e-mail with|} the statement of <year>{ shortly|}.',
      ],
      notes: [
        'sent the statement for <year>{ (until <until_iso>)|}',
        'statement <year> {sent|is on its way}',
        '<year>: statement sent{ by e-mail|}',
      ],
      values: {
        year: String(statement.year),
        until: longDate(until),
        until_iso: isoDate(until),
        until_dotted: dotted(until),
      },
      facts: { needs: [[String(statement.year)], [/statement/]], bars: [/no statement/] },
    };
  }

  #tellPayoff(): Decision {
    const { payoff } = this.#world;
    const on = bankingDay(payoff.on);
    return {
      act: null,
      replies: [
        '{Paying off|Closing} the loan on <payoff_on> costs <payoff> EUR.',
        'On <payoff_on> the payoff is <payoff> EUR. {This holds for that day only.|}',
        '{Please transfer|You would have to pay} <payoff> EUR{, to arrive|} on <payoff_on>.',
      ],
      notes: [
        '{quoted|told} the payoff: <payoff> EUR on <payoff_iso>',
        'payoff on <payoff_on> {is|comes to} <payoff> EUR',
        '<payoff> EUR would close the loan on <payoff_iso>',
      ],
      values: {
        payoff: plainMoney(payoff.amount),
        payoff_on: longDate(on),
        payoff_iso: isoDate(on),
        payoff_dotted: dotted(on),
      },
      facts: { needs: [[plainMoney(payoff.amount)], spellings(on)] },
    };
  }

  #tellPayment(): Decision {
    const { payment } = this.#world;
    const values = {
      paid: plainMoney(payment.amount),
      paid_on: longDate(payment.on),
      paid_iso: isoDate(payment.on),
      paid_dotted: dotted(payment.on),
    };
    switch (payment.state) {
      case 'booked':
        return {
          act: null,
          replies: [
            'Your payment of <paid> EUR {arrived|was booked} on <paid_on>.',
            '{Yes, we|We} have received <paid> EUR{ (<paid_on>)|}.',
            'The <paid> EUR {of|from} <paid_on> are booked.',
          ],
          notes: [
            'payment of <paid> EUR {is booked|arrived}{ on <paid_iso>|}',
            '<paid> EUR of <paid_on> received',
            'confirmed {the payment of|the receipt of} <paid> EUR, booked',
          ],
          values,
          facts: {
            needs: [[plainMoney(payment.amount)], [/booked|arrived|received/]],
            bars: [/returned|not (?:arrived|received|booked|there)/],
          },
        };
      case 'returned':
        return {
          act: null,
          replies: [
            'Your payment of <paid> EUR was returned by {the|your} bank. {Please pay again.|}',
            '{Unfortunately your|Your} bank returned the <paid> EUR of <paid_on>{, please ask there|}.',
          ],
          notes: [
            'payment of <paid> EUR was returned{ (<paid_iso>)|}',
            'bank returned <paid> EUR of <paid_on>',
            '<paid> EUR: returned by the bank',
          ],
          values,
          facts: {
            needs: [[plainMoney(payment.amount)], [/returned/]],
            bars: [/we have received|is booked|arrived on/],
          },
        };
      case 'missing':
        return {
          act: null,
          replies: [
            'We have not received {a payment|any payment} of <paid> EUR{ so far|}.',
            '{The|Your} <paid> EUR of <paid_on> {have|are} not {arrived|there}{ yet|}. {Please ask your bank.|}',
          ],
          notes: [
            'payment of <paid> EUR not received{ so far|}',
            '<paid> EUR of <paid_on> {not arrived|not found}',
            'no payment of <paid> EUR {found|on the account}',
          ],
          values,
          facts: {
            needs: [[plainMoney(payment.amount)], [/not |no payment/]],
            bars: [/returned|we have received|is booked/],
          },
        };
    }
  }

  get #values(): Record<string, string> {
    const { loan, borrower, request, other } = this.#world;
    return {
      ...{ id: loan.id, product: loan.product, name: borrower.name, first: borrower.first, request },
      ...{ instalment: plainMoney(loan.instalment), balance: plainMoney(loan.balance) },
      ...(other === null ? {} : { other: other.id }),
    };
  }

  #reply(decisions: readonly Decision[], product: string): FreeText {
    const texts = crossed(
      decisions.map(({ replies }) => replies),
      [' ', ' {Also:|As to your other question:|} ', '\n\n'],
    );
    return {
      wordings: texts.flatMap((text) => REPLY_FRAMES.map((frame) => frame(text))),
      ...this.#facts(decisions),
      values: { ...this.#facts(decisions).values, product },
    };
  }

  #tell(decisions: readonly Decision[], frames: typeof NOTE_FRAMES, isPlan: boolean): FreeText {
    const notes = crossed(
      decisions.map((decision) => (isPlan ? (decision.plans ?? []) : decision.notes)),
      ['; ', ', and ', '; besides, '],
    );
    const { values, facts } = this.#facts(decisions);
    return {
      wordings: notes.flatMap((note) => frames.map((frame) => frame(note))),
      values,
      facts: isPlan ? { needs: [...facts.needs, [/would/]], bars: facts.bars ?? [] } : facts,
    };
  }

  #facts(decisions: readonly Decision[]): { values: Record<string, string>; facts: Facts } {
    return {
      values: Object.assign(this.#values, ...decisions.map(({ values }) => values)),
      facts: {
        needs: decisions.flatMap(({ facts }) => facts.needs),
        bars: decisions.flatMap(({ facts }) => facts.bars ?? []),
      },
    };
  }
}

/** Joins one text of each list in all ways. */
function crossed(lists: readonly (readonly string[])[], joints: readonly string[]): string[] {
  return lists.reduce<string[]>(
    (texts, list) =>
      texts.length === 0
        ? [...list]
        : texts.flatMap((text) => list.flatMap((next) => joints.map((joint) => `${text}${joint}${next}`))),
    [],
  );
}

export const loanServicer: HeldBackAgent = {
  name: 'loan servicer',
  model: 'gpt-5.5',
  wire: 'chat_completions',
  is_streaming: false,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    "{Let me|I'll} {read|look at} the {loan|account}.",
    '{Checking|I check} {the rules|what applies}.',
    '{Now|Next}: {the decision|what the borrower asked for}.',
  ],
  aside_share: 0.25,
  names: PERSON_NAMES,
  start: (seed, kind) => new ServicerRun(seed, kind),
};
