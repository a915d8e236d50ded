/**
 * The agents that judge the student, and seven studied ones, distinguish right from wrong answers. They accept whole
 * runs of the frontier model and other wordings of the facts, and reject planted errors. A sentence that forbids or
 * permits something decides steps, and a silent change of a world changes answers.
 */
import { describe, expect, it } from 'vitest';
import { HELD_BACK_AGENTS, JUDGES } from '../../bench/eval/held-back/agents.ts';
import { answerStep, movesNow } from '../../bench/eval/held-back/frontier.ts';
import type {
  Answer,
  HeldBackAgent,
  Move,
  Run,
  RunKind,
  ToolCall,
  Turn,
  WantedCall,
} from '../../bench/eval/held-back/held-back-agent.ts';
import { findWanted, judgeAnswer } from '../../bench/eval/held-back/truth.ts';
import { createPrng } from '../../src/std/prng.ts';
import { longFrom } from '../long-parts.ts';

const RUNS = 25;
const RESTRICTED_RUNS = 60;
/** The silent change must concern at least this share of the runs after it. */
const CHANGED_SHARE = 0.25;

interface Step {
  run: Run;
  turns: readonly Turn[];
  /** The right moves. Mistakes that the model corrects later are left out. */
  moves: readonly Move[];
  answer: Answer;
  judge(answer: Answer): string | null;
}

/** The steps of a run in which the frontier model makes no mistakes. */
function* stepsOf(agent: HeldBackAgent, kind: RunKind, seed: number): Generator<Step> {
  const prng = createPrng(seed ^ 0x2f6e2b1);
  const run = agent.start(seed, kind);
  const all = run.moves.bind(run);
  run.moves = (turns) => all(turns).filter(({ is_slip }) => is_slip !== true);
  const turns: Turn[] = [];
  for (;;) {
    const moves = movesNow(run, turns);
    const answer = answerStep(agent, run, turns, prng.uint32());
    yield {
      run,
      turns: [...turns],
      moves,
      answer,
      judge: (given) => judgeAnswer(agent, run, moves, given),
    };
    if (answer.calls.length === 0) return;
    turns.push({ answer, results: answer.calls.map((call) => run.perform(call)) });
  }
}

function* allSteps(agent: HeldBackAgent, kind: RunKind, runs = RUNS): Generator<Step> {
  for (let seed = 1; seed <= runs; seed++) yield* stepsOf(agent, kind, seed);
}

function withCall(answer: Answer, at: number, call: ToolCall): Answer {
  return { ...answer, calls: answer.calls.with(at, call) };
}

/** Another value of the same type. */
function spoil(value: unknown): unknown {
  if (typeof value === 'number') return value + 1;
  if (Array.isArray(value)) return value.slice(1);
  const text = String(value);
  const other = text.replace(/\d(?!.*\d)/s, (digit) => String((Number(digit) + 3) % 10));
  return other === text ? `${text}x` : other;
}

/** A sentence of the prompt or the task, and the calls that are wrong in a run that contains it. */
interface Sentence {
  says: RegExp;
  /** @param said the match of `says` in the prompt or the task */
  forbids: (call: ToolCall | WantedCall, said: RegExpExecArray) => boolean;
}

const tool =
  (...names: string[]): Sentence['forbids'] =>
  (call) =>
    names.includes(call.name);

/** Whether a call names the firm in its values or in its texts. */
const namesFirm = (call: ToolCall | WantedCall, firm: string): boolean =>
  'free' in call && call.free !== undefined
    ? Object.values(call.free).some(({ values }) => values.firm === firm)
    : JSON.stringify(call.input).includes(firm);

const SENTENCES: Readonly<Record<string, readonly Sentence[]>> = {
  'claims handler': [
    {
      says: /Do not settle any claims for|has to go to an adjuster/,
      forbids: tool('settle_claim', 'decline_claim'),
    },
    { says: /you may settle estimates of up to 20000/, forbids: tool('refer_claim') },
    { says: /Only tell me|do not close it yet/, forbids: tool('settle_claim', 'refer_claim', 'send_letter') },
  ],
  'cost watcher': [
    {
      says: /Do not change anything today/,
      forbids: tool('stop_instance', 'resize_instance', 'label_instance'),
    },
  ],
  'mail sorter': [
    { says: /Do not draft any replies/, forbids: tool('draft_reply') },
    {
      says: /Do not touch newsletters/,
      forbids: ({ name, input }) => name === 'unsubscribe' || input.folder === 'Archive',
    },
    { says: /Flag invoices above/, forbids: ({ input }) => input.folder === 'Accounting' },
  ],
  'stock purchaser': [
    { says: /order nothing and tell me|do not order\.|Wait with the order/, forbids: tool('place_order') },
    {
      says: /Do not buy anything from (\w+)/,
      forbids: ({ name, input }, [, supplier]) => name === 'place_order' && input.supplier === supplier,
    },
  ],
  'pipeline mender': [
    { says: /do not edit files|may not change any files/, forbids: tool('edit_file', 'run_pipeline') },
    { says: /Do not run the pipeline|you must not start it/, forbids: tool('run_pipeline') },
  ],
  'onboarding clerk': [
    {
      says: /Do not create accounts in (\w+)/,
      forbids: ({ name, input }, [, system]) => name === 'create_account' && input.system === system,
    },
    { says: /Do not order any equipment|must not order equipment/, forbids: tool('order_equipment') },
  ],
  'text localiser': [
    {
      says: /Do not touch (\w+)\.\*/,
      forbids: ({ name, input }, [, section]) =>
        name === 'save_translation' && String(input.key).startsWith(`${section}.`),
    },
    {
      says: /Only the strings of (\w+)\.\*/,
      forbids: ({ name, input }, [, section]) =>
        name === 'save_translation' && !String(input.key).startsWith(`${section}.`),
    },
  ],
  'code reviewer': [
    {
      says: /Do not approve anything|You may not approve/,
      forbids: ({ input }) => input.verdict === 'approve',
    },
    { says: /Ignore debug output/, forbids: tool('post_comment') },
    { says: /you may approve in spite of remarks/, forbids: ({ input }) => input.verdict === 'comment' },
  ],
  'lab assistant': [
    { says: /Do not release anything|may not release any results/, forbids: tool('release_results') },
    { says: /No readings may be excluded|Do not exclude readings/, forbids: tool('exclude_reading') },
    {
      says: /RSD of up to 14 %/,
      forbids: ({ name, input }) => name === 'exclude_reading' || input.dilution === 1,
    },
    {
      says: /(?:Order nothing on|Keep) ([A-Z]+-\d+)/,
      forbids: ({ name, input }, [, instrument]) =>
        name === 'order_measurement' && input.instrument === instrument,
    },
    { says: /3 readings at most|more than 3 readings/, forbids: ({ input }) => Number(input.readings) > 3 },
    {
      says: /Only tell me what you find|Change nothing/,
      forbids: tool('release_results', 'exclude_reading', 'order_measurement', 'request_sample'),
    },
  ],
  'property manager': [
    { says: /Book no craftsmen|may not book any firms/, forbids: tool('book_job') },
    {
      says: /Do not book (.+) any more|do not work with (.+) for the time being/,
      forbids: (call, [, firm, other]) => call.name === 'send_message' && namesFirm(call, (firm ?? other)!),
    },
    {
      says: /(?:- |office: )(?:For )?(.+) (?:may be booked at any price|the highest call-out does not)/,
      forbids: (call, [, firm]) => call.name === 'send_message' && !namesFirm(call, firm!),
    },
    { says: /call-out of more than 60 EUR|only firms up to 60 EUR/, forbids: tool('book_job') },
    { says: /Do not record notices|record none/, forbids: tool('record_notice') },
    { says: /Send no messages|Do not write to the tenant/, forbids: tool('send_message') },
  ],
  'fleet dispatcher': [
    { says: /Book no workshop|takes no bookings from us/, forbids: tool('book_workshop') },
    {
      says: /by the way (.+) this week|out of the way (.+) until/,
      forbids: ({ name, input }, [, way, other]) => name === 'set_way' && input.way === (way ?? other),
    },
    {
      says: /No toll roads this week|only choose ways without toll/,
      forbids: (call) =>
        call.name === 'send_message' && 'free' in call && (call.free?.text?.values.toll ?? '0') !== '0',
    },
    {
      says: /Do not give routes to other drivers|Relief drivers are arranged/,
      forbids: tool('assign_driver'),
    },
    {
      says: /without the reserve|reserve of driving time is not needed/,
      forbids: tool('assign_driver', 'hand_over'),
    },
    {
      says: /Rented vehicles may be used|may also give out the rented/,
      forbids: ({ name, input }) => name === 'assign_vehicle' && !String(input.plate).startsWith('RX'),
    },
    {
      says: /Damage under 500 EUR|cost less than 500 EUR/,
      forbids: tool('record_incident', 'hand_over'),
    },
    {
      says: /change nothing, and send no messages|Make no changes and send no messages/,
      forbids: tool('book_workshop', 'set_way', 'assign_vehicle', 'assign_driver', 'send_message'),
    },
  ],
  'loan servicer': [
    { says: /No pauses are granted|may not grant pauses/, forbids: tool('grant_pause') },
    {
      says: /one month at most|longer than one month/,
      forbids: ({ name, input }) => name === 'grant_pause' && input.months !== 1,
    },
    {
      says: /pauses of up to six months/,
      forbids: ({ name, input }) => name === 'grant_pause' && Number(input.months) < 4,
    },
    { says: /Do not waive fees|No fees are waived/, forbids: tool('waive_fee') },
    {
      says: /however late the payment came|how late a payment was/,
      forbids: (call) =>
        call.name === 'reply_borrower' && 'free' in call && !/waived/.test(String(call.free?.body?.wordings)),
    },
    { says: /the 1st and the 15th/, forbids: tool('change_due_day') },
    { says: /Send no replies|Do not write to borrowers/, forbids: tool('reply_borrower') },
    {
      says: /Change nothing and send no reply|do not touch the account/,
      forbids: tool('grant_pause', 'change_due_day', 'waive_fee', 'open_case', 'reply_borrower'),
    },
  ],
  'clinic scheduler': [
    {
      says: /book nothing with Dr (\w+)|appointment with Dr (\w+) for the time being/,
      forbids: ({ name, input }, [, doctor, other]) =>
        name === 'book_appointment' && input.doctor === (doctor ?? other),
    },
    {
      says: /no appointments before 10:00|no patient may be booked before 10:00/,
      forbids: ({ name, input }) => name === 'book_appointment' && String(input.time) < '10:00',
    },
    {
      says: /Do not move or cancel|you may not cancel or move/,
      forbids: tool('move_appointment', 'cancel_appointment'),
    },
    {
      says: /book without them, and do not ask|You may book without a referral/,
      forbids: ({ input }) => input.paper === 'referral',
    },
    {
      says: /change nothing and ask for nothing|Do not book anything yet/,
      forbids: tool('book_appointment', 'request_papers', 'add_to_waiting_list'),
    },
  ],
  'catalogue editor': [
    { says: /Publish nothing today|you must not publish until/, forbids: tool('publish') },
    { says: /heavier than 1 kg|more than 1 kg are entered/, forbids: tool('publish') },
    {
      says: /Leave the attribute (\w+) alone|Do not set (\w+) this week/,
      forbids: ({ name, input }, [, left, other]) =>
        name === 'set_attribute' && input.name === (left ?? other),
    },
    {
      says: /a contradiction does not send a sheet back|publish in spite of contradictions/,
      forbids: tool('return_sheet'),
    },
    {
      says: /change nothing\.|Do not write anything into the catalogue/,
      forbids: tool('create_product', 'set_attribute', 'flag_contradiction', 'publish', 'return_sheet'),
    },
  ],
};

/** Last answers in words that no agent uses. null: this wording has no such answer. */
const OTHER_WORDS: Readonly<
  Record<string, (values: Readonly<Record<string, string>>, wording: string) => string | null>
> = {
  'claims handler': ({ id, plain }, wording) =>
    wording.includes('settled') ? `Claim ${id} is closed: the holder gets ${plain} euros from us.` : null,
  'cost watcher': ({ name, cost, owner }, wording) =>
    wording.includes('<type>') ? `That is ${name} (${owner}); you pay ${cost} USD every day for it.` : null,
  'mail sorter': ({ parts, total }) =>
    `There were ${total} new mails, namely ${parts}. Nothing is left to do.`,
  'stock purchaser': ({ supplier, packs, total, sku }, wording) =>
    wording.includes('rdered|I ordered} <packs>')
      ? `Purchase of ${sku} complete: ${supplier}, ${packs} packs, EUR ${total} in all.`
      : null,
  'pipeline mender': ({ name, now, cause }, wording) =>
    wording.startsWith('<name> {runs again') && now !== undefined && !cause!.includes(';')
      ? `Green again: ${name}. Its query now asks for ${now}, as the source has called the column since last night.`
      : null,
  'onboarding clerk': ({ name, user }, wording) =>
    wording.includes('no equipment') ? null : `${name} can begin. Login: ${user}.`,
  'text localiser': ({ count, file }) => `${file} is complete now; texts that I wrote: ${count}.`,
  'code reviewer': ({ number }, wording) =>
    wording.includes('I approved') ? `PR ${number} may be merged; I have approved it.` : null,
  'lab assistant': ({ batch, count, repeats, excluded, requested }) =>
    repeats === '' && requested === '' && excluded !== '' && count !== '0'
      ? `Results that went out from ${batch}: ${count}, after I had removed ${excluded}.`
      : null,
  'property manager': ({ name, lease, firm, iso, time, payer }) =>
    payer === undefined
      ? null
      : `Visit of ${firm} arranged for ${name} of ${lease} (${iso}, ${time}). The ${payer} settles the bill.`,
  'fleet dispatcher': ({ route, plate, other, driver, receiver, time }, wording) =>
    wording.startsWith('Slot of <route> moved')
      ? `${receiver} agreed to unload ${route} at ${time}.`
      : other === undefined || driver !== undefined
        ? null
        : `The load changes trucks, ${other} instead of ${plate}.`,
  'loan servicer': ({ name, payoff, payoff_on, team_pause, team_fee, paid, day, pause_span, fee, year }) =>
    payoff === undefined ||
    [team_pause, team_fee, paid, day, pause_span, fee, year].some((other) => other !== undefined)
      ? null
      : `${name} can settle everything with EUR ${payoff} (${payoff_on}).`,
  'clinic scheduler': ({ doctor, iso, time, old_iso }) =>
    iso === undefined || old_iso !== undefined
      ? null
      : `Doctor ${doctor} awaits you; be here by ${time} on ${iso}. Remember the questionnaire if we asked for it.`,
  'catalogue editor': ({ sku, count, brand }, wording) =>
    wording.startsWith('{Published|I published}') && !wording.includes('Flagged')
      ? `Shoppers can see ${sku} of ${brand} now, since it went live with ${count} attributes.`
      : null,
};

describe('the agents that judge', () => {
  it('are six, cover all wire formats, and are all tested here', () => {
    expect(JUDGES).toHaveLength(6);
    for (const { name } of JUDGES) expect(SENTENCES).toHaveProperty([name]);
    expect(new Set(JUDGES.map(({ wire }) => wire)).size).toBe(3);
  });
});

const TESTED = HELD_BACK_AGENTS.filter(({ name }) => Object.hasOwn(SENTENCES, name));

for (const [at, agent] of TESTED.entries())
  describe(`the ${agent.name}`, longFrom(at, 3), () => {
    it.each(['usual', 'restricted', 'changed'] as const)(
      'accepts whole runs of the frontier model: %s',
      (kind) => {
        let ends = 0;
        for (const { answer, judge } of allSteps(agent, kind)) {
          expect(judge(answer)).toBeNull();
          if (answer.calls.length === 0) ends++;
        }
        expect(ends).toBe(RUNS);
      },
    );

    it('rejects every argument that has another value or is left out', () => {
      let planted = 0;
      for (const { run, moves, answer, judge } of allSteps(agent, 'usual'))
        for (const [at, call] of answer.calls.entries()) {
          const { free = {} } = findWanted(run, moves, call)!;
          for (const field of Object.keys(call.input)) {
            const text = free[field];
            if (text !== undefined && (text.facts?.needs.length ?? 0) > 0) {
              const empty = { ...call, input: { ...call.input, [field]: 'As agreed.' } };
              expect(judge(withCall(answer, at, empty))).not.toBeNull();
            }
            // Every page of a catalogue may be read.
            if (text !== undefined || field === 'page') continue;
            const { [field]: value, ...rest } = call.input;
            const other = { ...call, input: { ...call.input, [field]: spoil(value) } };
            expect(
              judge(withCall(answer, at, other)),
              `${run.task}: ${JSON.stringify(other)}`,
            ).not.toBeNull();
            // Without the owner, the call lists the instances of all owners, which contain the same facts.
            if (field !== 'owner')
              expect(judge(withCall(answer, at, { ...call, input: rest }))).not.toBeNull();
            planted++;
          }
        }
      expect(planted).toBeGreaterThan(RUNS);
    });

    it('rejects texts without content, with another number, or with the name of a stranger', () => {
      const numbers = { planted: 0, found: 0 };
      for (const { run, answer, moves, judge } of allSteps(agent, 'usual')) {
        if (answer.calls.length > 0) continue;
        expect(judge({ text: 'Done.', calls: [] })).not.toBeNull();
        expect(moves.every(({ text }) => text !== undefined)).toBe(true);
        const known = JSON.stringify([run.system, run.task, moves]).toLowerCase();
        const stranger = agent.names.find((name) => !known.includes(name.toLowerCase()));
        if (stranger !== undefined)
          expect(judge({ text: `${answer.text} ${stranger}`, calls: [] })).not.toBeNull();
        const other = spoil(answer.text) as string;
        numbers.planted++;
        if (judge({ text: other, calls: [] }) !== null) numbers.found++;
      }
      // The other number may happen to be right.
      expect(numbers.found).toBeGreaterThanOrEqual(0.9 * numbers.planted);
    });

    it('accepts other words for the same facts', () => {
      let tried = 0;
      for (const { moves, judge } of allSteps(agent, 'usual', RESTRICTED_RUNS)) {
        const text = moves.find((move) => move.text !== undefined)?.text;
        const other = text === undefined ? null : OTHER_WORDS[agent.name]!(text.values, text.wordings[0]!);
        if (other === null) continue;
        expect(judge({ text: other, calls: [] })).toBeNull();
        tried++;
      }
      expect(tried).toBeGreaterThan(2);
    });

    it('obeys each sentence that forbids or permits', () => {
      for (const { says, forbids } of SENTENCES[agent.name]!) {
        let runs = 0;
        for (const { run, turns, moves, judge } of allSteps(agent, 'restricted', RESTRICTED_RUNS)) {
          const said = says.exec(`${run.system}\n${run.task}`);
          if (said === null) continue;
          if (turns.length === 0) runs++;
          for (const call of moves.flatMap(({ calls }) => calls)) expect(forbids(call, said)).toBe(false);
          const calls = turns.flatMap(({ answer }) => answer.calls);
          for (const call of calls) expect(forbids(call, said)).toBe(false);
          expect(judge({ text: '', calls: [] })).not.toBeNull();
        }
        expect(runs, String(says)).toBeGreaterThan(2);
      }
    });

    it('gives other answers or gets other results in enough runs after the silent change', () => {
      let concerned = 0;
      for (let seed = 1; seed <= RESTRICTED_RUNS; seed++) if (isConcerned(agent, seed)) concerned++;
      expect(concerned).toBeGreaterThanOrEqual(CHANGED_SHARE * RESTRICTED_RUNS);
    });
  });

/** Whether the usual answers to the steps of a changed run are wrong at some step, or a tool's result differs. */
function isConcerned(agent: HeldBackAgent, seed: number): boolean {
  const usual = agent.start(seed, 'usual');
  for (const { turns, judge } of stepsOf(agent, 'changed', seed)) {
    const last = turns.at(-1);
    const results = last?.answer.calls.map((call) => usual.perform(call).text) ?? [];
    if (results.some((text, at) => text !== last!.results[at]!.text)) return true;
    if (judge(answerStep(agent, usual, turns, seed)) !== null) return true;
  }
  return false;
}
