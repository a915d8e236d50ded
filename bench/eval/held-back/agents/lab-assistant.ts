/**
 * An assistant of a laboratory that checks batches of measurements: it reads a method, tables and series of readings,
 * excludes faulty readings, orders measurements and new samples, reports an instrument that drifts, and releases what
 * is right. Messages API, streamed. Pure; bench process.
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
import { haveSameArguments } from '../truth.ts';
import { allCallsOf, callsOf } from '../turns.ts';
import { pick, word } from '../wording.ts';
import {
  ANALYTES,
  type Batch,
  CLIENTS,
  type Intent,
  type Method,
  makeBatch,
  makeMethod,
  type Rule,
  type Sample,
  type State,
  summarise,
  writeMethod,
} from './measured-batch.ts';

const DILUTIONS = [2, 5, 10, 20, 50] as const;
/** Maximum number of readings that a sentence allows for a repeat. */
const FEW_READINGS = 3;
/** The relative standard deviation in percent that a sentence permits. No sample has a larger one. */
const PERMITTED_RSD = 14;

const TOOLS = [
  tool('get_batch', 'Reads the client, method, instrument and samples of a batch.', { batch_id: 'string' }),
  tool('read_method', 'Reads the text of a method.', { method_id: 'string' }),
  tool('summarise_batch', 'Mean and relative standard deviation of the control and of each sample.', {
    batch_id: 'string',
  }),
  tool('read_series', 'The readings of a sample, with events of the instrument.', {
    batch_id: 'string',
    sample_id: 'string',
  }),
  tool('list_instruments', 'Lists the instruments of a technique and whether they are idle.', {
    technique: 'string',
  }),
  tool('exclude_reading', 'Leaves a reading of a sample out of its result.', {
    sample_id: 'string',
    reading: 'integer',
    reason: 'string',
  }),
  tool('order_measurement', 'Orders a repeated measurement of a sample.', {
    sample_id: 'string',
    instrument: 'string',
    dilution: 'integer',
    readings: 'integer',
    reason: 'string',
  }),
  tool('request_sample', 'Asks the client for more of a sample.', {
    client_id: 'string',
    sample_id: 'string',
    volume_ml: 'integer',
    message: 'string',
  }),
  tool('request_service', 'Reports a problem of an instrument.', { instrument: 'string', problem: 'string' }),
  tool('hold_batch', 'Stops a batch.', { batch_id: 'string', reason: 'string' }),
  tool('release_results', 'Releases the results of samples to the client.', {
    batch_id: 'string',
    sample_ids: 'string[]',
  }),
];

const TASKS: Readonly<Record<Intent, readonly string[]>> = {
  check: [
    '{Please check|Check|Please go through} batch <batch>{ and release what is fine|, and release whatever you can}.',
    '<batch> {has finished|came off the instrument}{ an hour ago|}. {Quality control, please.|Can you take it from here?}',
    '{The people of <client> are|<client> is} {waiting for|asking about} <batch>. {Do the checks and release it.|Is it good? If so, out with it.}',
    'Morning! The {night|weekend} run of <analyte>, <batch>, {is done|has ended}: {the usual, please|please check it}.',
    'QC of <batch>{ (<analyte>)|}{, thanks|}.',
    '{I am off now.|I have to leave.} {Could you finish|Please finish} <batch> for me{, it only needs its checks|}?',
  ],
  look: [
    '<sample> in <batch> {scatters|looks odd to me|jumps around}. {Please find out why and do what is needed.|Can you look into it?}',
    '{What is wrong with|What happened to} <sample>{ of <client>|}? {Batch <batch>.|It is in <batch>.} {Please sort it out.|Take care of it, please.}',
    '{Could you deal with|Please deal with} <sample> ({batch |}<batch>): {the readings do not agree|too much spread}.',
  ],
  ask: [
    '{What did we get for|What came out for} <sample> in <batch>? {Their limit is <limit> <unit>.|Is it above <limit> <unit>?}',
    '{<client> wants to know|The client asks} whether <sample>{ of batch <batch>| (<batch>)} {is above|exceeds} <limit> <unit>.',
    'Quick question{ for the phone|}: <sample>, <batch>, {above|over} <limit> <unit> or not?',
  ],
};

function writeRule(prng: Prng, rule: Rule | null, instrument: string): string {
  switch (rule) {
    case null:
      return '';
    case 'no release':
      return pick(prng, [
        ' Do not release anything today, the auditors are in the house.',
        ' You may not release any results until Friday.',
      ]);
    case 'no exclusion':
      return pick(prng, [
        ' No readings may be excluded this week: have such samples measured again.',
        ' Do not exclude readings, order a repeat instead.',
      ]);
    case 'spread':
      return pick(prng, [
        ` For now an RSD of up to ${PERMITTED_RSD} % is acceptable, whatever the method says.`,
        ` You may accept samples with an RSD of up to ${PERMITTED_RSD} %.`,
      ]);
    case 'reserved':
      return pick(prng, [
        ` Order nothing on ${instrument}, it is reserved.`,
        ` Keep ${instrument} free: no orders on it.`,
      ]);
    case 'few readings':
      return pick(prng, [
        ` Repeats may have ${FEW_READINGS} readings at most, we are short of gas.`,
        ` Save material: never order more than ${FEW_READINGS} readings.`,
      ]);
    case 'only tell':
      return pick(prng, [
        ' Only tell me what you find, I want to decide myself.',
        ' Change nothing: just say what should be done.',
      ]);
  }
}

const RULES: readonly Rule[] = [
  'no release',
  'no exclusion',
  'spread',
  'reserved',
  'few readings',
  'only tell',
];
const REPEATED = 'again|repeat|re-?measur|new measurement';
const EXCLUDED = 'exclu|left out|leave out|leaving out|dropp|discard|remov|without reading';
const REQUESTED =
  'more of|new sample|more sample|more material|fresh|asked for|another sample|not enough|too little';

/** Matches a text in which one clause contains both the id and one of the words. */
function clauseWith(id: string, words: string): RegExp {
  const rest = '(?:[^;.]|\\.\\d)*';
  const name = `${id.toLowerCase()}(?!\\d)`;
  return new RegExp(`${name}${rest}(?:${words})|(?:${words})${rest}${name}`);
}

class AssistantRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #intent: Intent;
  readonly #rule: Rule | null;
  readonly #method: Method;
  readonly #batch: Batch;
  /** The sample that the task names. */
  readonly #named: Sample;
  readonly #limit: string;
  /** How often the model makes independent calls at once in this run. */
  readonly #together: number;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    const draw = prng.float();
    const isRestricted = kind === 'restricted';
    this.#intent = isRestricted || draw < 0.7 ? 'check' : draw < 0.87 ? 'look' : 'ask';
    this.#rule = isRestricted ? pick(prng, RULES) : null;
    this.#method = makeMethod(prng, kind);
    this.#batch = makeBatch(prng, this.#method, this.#intent, this.#rule);
    const { samples, id, client, instrument } = this.#batch;
    this.#named = samples.find(({ state }) => state === (this.#intent === 'look' ? this.#worst : 'fine'))!;
    const { decimals, analyte, unit } = this.#method;
    const factor = pick(prng, [0.6, 0.8, 0.9, 1.15, 1.3, 1.8]);
    this.#limit = (Number(this.#named.mean) * factor).toFixed(decimals);
    this.#together = pick(prng, [0.8, 0.8, 0.15]);
    const rule = writeRule(prng, this.#rule, instrument);
    const inSystem = prng.chance(0.5);
    this.system = [
      'You check measurements of the Tarn Street laboratory. Read the batch and its method before you decide anything, and compare the control and the samples with the method.',
      'If the control is out of its tolerance, request service for the instrument, hold the batch and do nothing else with it. If a sample has too large an RSD, read its series: if the instrument noted an event at exactly one reading, exclude that reading (they are numbered from one); otherwise order a repeat. A sample above the working range needs a repeat, too. If not enough of a sample is left for a repeat, request as much as a repeat uses from the client.',
      `Repeats run on the instrument of the batch or, if that is not available, on an idle one of the same technique. At the end release all results that need no repeat. Close with one or two sentences for the journal.${inSystem ? rule : ''}`,
    ].join('\n');
    const task = word(prng, pick(prng, TASKS[this.#intent]), {
      ...{ batch: id, client, analyte, unit },
      sample: this.#named.id,
      limit: this.#limit,
    });
    this.task = inSystem ? task : `${task}${rule}`;
  }

  get #worst(): State {
    return this.#batch.samples.some(({ state }) => state === 'noisy') ? 'noisy' : 'apart';
  }

  /** Samples that the run is about. */
  get #samples(): readonly Sample[] {
    return this.#intent === 'look' ? [this.#named] : this.#batch.samples;
  }

  perform({ name, input }: ToolCall): Result {
    const { id, samples, control, client, client_id, instrument } = this.#batch;
    const { technique, unit } = this.#method;
    if (name === 'read_method')
      return input.method_id === this.#method.id ? good(writeMethod(this.#method)) : bad('no such method');
    if (name === 'list_instruments')
      return input.technique === technique ? good(this.#listInstruments()) : bad('no such technique');
    if (name === 'request_service')
      return good({ service: `V-${id.slice(-3)}`, instrument: input.instrument });
    if (input.batch_id !== undefined && input.batch_id !== id) return bad(`no batch ${input.batch_id}`);
    if (name === 'hold_batch') return good({ batch: id, state: 'on hold' });
    if (name === 'release_results') return good({ released: (input.sample_ids as string[]).length });
    if (name === 'get_batch')
      return good({
        batch: id,
        client: { id: client_id, name: client },
        method: this.#method.id,
        ...{ technique, instrument },
        control: { id: control.id, nominal: Number(control.nominal) },
        samples: samples.map(({ id, volume_ml }) => ({ id, left_ml: volume_ml })),
      });
    if (name === 'summarise_batch') {
      const row = (cells: readonly string[]): string =>
        cells
          .map((cell) => cell.padEnd(10))
          .join('')
          .trimEnd();
      return good(
        [
          row(['sample', 'n', `mean ${unit}`.padEnd(14), 'RSD %']),
          row([control.id, '5', control.mean.padEnd(14), control.rsd]),
          ...samples.map(({ id, readings, mean, rsd }) =>
            row([id, String(readings.length), mean.padEnd(14), rsd]),
          ),
        ].join('\n'),
      );
    }
    const sample = samples.find(({ id }) => id === input.sample_id);
    return sample === undefined ? bad(`no sample ${input.sample_id}`) : this.#performOn(sample, name, input);
  }

  #performOn(sample: Sample, name: string, input: ToolCall['input']): Result {
    const { instrument, is_booked, booked_until } = this.#batch;
    const { decimals, high, unit } = this.#method;
    switch (name) {
      case 'read_series':
        return good(
          [
            'reading,value,event',
            ...sample.readings.map((value, at) => `${at + 1},${value},${sample.events[at] ?? ''}`),
          ].join('\n'),
        );
      case 'exclude_reading': {
        const kept = sample.readings.filter((_, at) => at + 1 !== input.reading).map(Number);
        return good({ sample: sample.id, n: kept.length, ...summarise(kept, decimals) });
      }
      case 'order_measurement':
        if (input.instrument === instrument && is_booked)
          return bad(`${instrument} is booked until ${booked_until}`);
        if (sample.state === 'over' && Number(sample.mean) / Number(input.dilution) > high)
          return bad(
            `rejected: ${sample.mean} ${unit} at factor ${input.dilution} is above the working range`,
          );
        return good({ order: `R-${sample.id.slice(2)}`, instrument: input.instrument, state: 'queued' });
      case 'request_sample':
        return good({ requested: sample.id, volume_ml: input.volume_ml });
      default:
        return bad(`no tool ${name}`);
    }
  }

  #listInstruments(): string {
    const { instrument, idle, broken, is_booked, booked_until } = this.#batch;
    return [
      '| instrument | state |',
      '|---|---|',
      ...[
        [instrument, is_booked ? `booked until ${booked_until}` : 'idle'],
        [idle, 'idle'],
        [broken, 'in service'],
      ]
        .toSorted(([a], [b]) => (a! < b! ? -1 : 1))
        .map((cells) => `| ${cells.join(' | ')} |`),
    ].join('\n');
  }

  /** Released samples are compared without regard to their order. */
  isAlike(wanted: WantedCall, { name, input }: ToolCall): boolean {
    const { sample_ids } = input;
    const given = Array.isArray(sample_ids) ? { ...input, sample_ids: sample_ids.toSorted() } : input;
    return wanted.name === name && haveSameArguments(wanted, { name, input: given });
  }

  moves(turns: readonly Turn[]): Move[] {
    const { id, is_drifting } = this.#batch;
    const summary = { name: 'summarise_batch', input: { batch_id: id } };
    const isSummarised = callsOf(turns, 'summarise_batch').length > 0;
    if (this.#intent === 'ask') return isSummarised ? ending(this.#answer()) : only(summary);
    const get = { name: 'get_batch', input: { batch_id: id } };
    if (callsOf(turns, 'get_batch').length === 0)
      return isSummarised
        ? only(get)
        : [
            { weight: 0.8, calls: [get] },
            { weight: 0.2, calls: [get, summary] },
            { weight: 0.05, calls: [summary] },
          ];
    const reads = [
      ...(this.#intent === 'look' ? this.#unread(turns) : isSummarised ? [] : [summary]),
      ...(callsOf(turns, 'read_method').length > 0
        ? []
        : [{ name: 'read_method', input: { method_id: this.#method.id } }]),
    ];
    const mayRead = isSummarised || this.#intent === 'check' ? [] : [{ weight: 0.1, calls: [summary] }];
    if (reads.length > 0) return [...anyOf(reads, this.#together), ...mayRead];
    if (is_drifting) {
      const stops = this.#stops().filter(({ name }) => callsOf(turns, name).length === 0);
      return stops.length > 0 ? anyOf(stops, this.#together) : ending(this.#tellDrift());
    }
    return this.#work(turns);
  }

  /** Reads series, acts, releases, and ends. */
  #work(turns: readonly Turn[]): Move[] {
    const reads = this.#unread(turns);
    const acts = this.#acts(turns);
    const usual = reads.length > 0 ? anyOf(reads, this.#together) : anyOf(acts, this.#together);
    if (reads.length + acts.length > 0)
      return [
        ...usual,
        ...scaled(anyOf([...reads, ...acts], 0), reads.length > 0 && acts.length > 0 ? 0.1 : 0),
        ...this.#looksAround(turns, acts),
        ...this.#slips(turns, acts),
      ];
    const released = this.#released.map(({ id }) => id).toSorted();
    if (released.length > 0 && callsOf(turns, 'release_results').length === 0)
      return only({
        name: 'release_results',
        input: { batch_id: this.#batch.id, sample_ids: released },
      });
    return ending(this.#tell());
  }

  /** Whether the readings of a sample vary so much that its series must be read. */
  #isSuspect({ state }: Sample): boolean {
    return (state === 'noisy' || state === 'apart') && this.#rule !== 'spread';
  }

  #unread(turns: readonly Turn[]): WantedCall[] {
    const read = new Set(callsOf(turns, 'read_series').map(({ input }) => input.sample_id));
    return this.#samples
      .filter((sample) => this.#isSuspect(sample) && !read.has(sample.id))
      .map(({ id }) => ({ name: 'read_series', input: { batch_id: this.#batch.id, sample_id: id } }));
  }

  #deedOf(sample: Sample): 'exclude' | 'repeat' | 'request' | null {
    if (!this.#isSuspect(sample) && sample.state !== 'over') return null;
    if (sample.state === 'apart' && this.#rule !== 'no exclusion') return 'exclude';
    return sample.is_scarce ? 'request' : 'repeat';
  }

  #withDeed(deed: 'exclude' | 'repeat' | 'request'): Sample[] {
    return this.#samples.filter((sample) => this.#deedOf(sample) === deed);
  }

  get #released(): Sample[] {
    if (this.#intent !== 'check' || this.#rule === 'no release' || this.#rule === 'only tell') return [];
    return this.#samples.filter((sample) => (this.#deedOf(sample) ?? 'exclude') === 'exclude');
  }

  /** The calls that are possible after these turns. A sample whose series must be read first is left out. */
  #acts(turns: readonly Turn[]): WantedCall[] {
    if (this.#rule === 'only tell') return [];
    const unread = new Set(this.#unread(turns).map(({ input }) => input.sample_id));
    const done = new Set(
      ['exclude_reading', 'order_measurement', 'request_sample'].flatMap((name) =>
        callsOf(turns, name).map(({ input }) => input.sample_id),
      ),
    );
    const open = (deed: 'exclude' | 'repeat' | 'request'): Sample[] =>
      this.#withDeed(deed).filter(({ id }) => !unread.has(id) && !done.has(id));
    const repeats = open('repeat');
    const instrument = this.#instrumentNow(turns);
    return [
      ...open('exclude').map((sample) => this.#exclude(sample)),
      ...open('request').map((sample) => this.#request(sample)),
      ...(instrument !== null
        ? repeats.map((sample) => this.#repeat(sample, instrument))
        : repeats.length > 0
          ? [this.#list]
          : []),
    ];
  }

  get #list(): WantedCall {
    return { name: 'list_instruments', input: { technique: this.#method.technique } };
  }

  /**
   * The instrument for repeats; null: the agent knows that the batch's instrument cannot be used, but not which one is
   * idle.
   */
  #instrumentNow(turns: readonly Turn[]): string | null {
    const { instrument, idle, is_booked } = this.#batch;
    const isListed = callsOf(turns, 'list_instruments').length > 0;
    const isRefused = allCallsOf(turns, 'order_measurement').some(({ result }) =>
      /booked until/.test(result),
    );
    const isOut = this.#rule === 'reserved' || isRefused || (isListed && is_booked);
    if (!isOut) return instrument;
    return isListed ? idle : null;
  }

  /** The model may look for idle instruments before it orders. */
  #looksAround(turns: readonly Turn[], acts: readonly WantedCall[]): Move[] {
    const isOpen =
      callsOf(turns, 'list_instruments').length === 0 &&
      acts.some(({ name }) => name === 'order_measurement');
    return isOpen ? [{ weight: 0.08, calls: [this.#list] }] : [];
  }

  /** The model forgets to dilute. */
  #slips(turns: readonly Turn[], acts: readonly WantedCall[]): Move[] {
    const order = acts.find(({ name, input }) => name === 'order_measurement' && input.dilution !== 1);
    const isKnown = allCallsOf(turns, 'order_measurement').some(({ is_error }) => is_error);
    if (order === undefined || isKnown) return [];
    return [{ weight: 0.03, is_slip: true, calls: [{ ...order, input: { ...order.input, dilution: 1 } }] }];
  }

  #values(sample: Sample): Record<string, string> {
    const { unit, high, rsd: limit, analyte, volume_ml } = this.#method;
    const faulty = sample.events.findIndex((event) => event !== null);
    return {
      ...{ id: sample.id, mean: sample.mean, rsd: sample.rsd, unit, analyte },
      ...{ limit: String(limit), high: String(high), left: String(sample.volume_ml) },
      volume: String(volume_ml),
      reading: String(faulty + 1),
      value: sample.readings[faulty] ?? '',
      event: sample.events[faulty] ?? '',
    };
  }

  #exclude(sample: Sample): WantedCall {
    const values = this.#values(sample);
    return {
      name: 'exclude_reading',
      input: { sample_id: sample.id, reading: Number(values.reading) },
      free: {
        reason: {
          wordings: [
            '{Instrument noted|The instrument noted}: <event>{ (<value> <unit>)|}',
            '<event> {at|during} {this reading|reading <reading>}{, RSD <rsd> %|}',
            '<value> <unit> {is an outlier|is apart}: <event>',
          ],
          values,
          facts: { needs: [[values.event!]], bars: [/dilut|working range|drift/] },
        },
      },
    };
  }

  #repeat(sample: Sample, instrument: string): WantedCall {
    const { high, readings } = this.#method;
    const values = this.#values(sample);
    const isOver = sample.state === 'over';
    const dilution = isOver ? DILUTIONS.find((factor) => Number(sample.mean) / factor <= high)! : 1;
    const over: FreeText = {
      wordings: [
        '{Mean|The mean} {of |}<mean> <unit> is {above|over} the {working |}range{ (<high> <unit>)|}',
        '{Above|Over} <high> <unit>{, the end of the range|}: <mean> <unit>',
        '<mean> <unit> exceeds {the range|<high> <unit>}',
      ],
      values,
      facts: { needs: [[sample.mean], [/above|over|exceed|beyond|outside|higher/]], bars: [/rsd|scatter/] },
    };
    const wide: FreeText = {
      wordings: [
        'RSD {of |}<rsd> %{, <limit> % {allowed|at most}|}',
        '{Readings scatter|The readings scatter|Too much scatter}: {RSD |}<rsd> %{ instead of <limit> %|}',
        '{Spread|Repeatability} of <rsd> % is {too large|over the limit{ of <limit> %|}}',
      ],
      values,
      facts: { needs: [[sample.rsd]], bars: [/above the|dilut|working range/] },
    };
    return {
      name: 'order_measurement',
      input: {
        sample_id: sample.id,
        instrument,
        dilution,
        readings: this.#rule === 'few readings' ? FEW_READINGS : readings,
      },
      free: { reason: isOver ? over : wide },
    };
  }

  #request(sample: Sample): WantedCall {
    const { volume_ml } = this.#method;
    const values = { ...this.#values(sample), client: this.#batch.client };
    return {
      name: 'request_sample',
      input: { client_id: this.#batch.client_id, sample_id: sample.id, volume_ml },
      free: {
        message: {
          wordings: [
            '{Dear client|Hello|Good day}, {we have to|we must} measure <analyte> in <id> again, but only <left> mL {are left|remain}. {Please send us|Could you send us} {another |}<volume> mL{?|.}',
            '{Dear team of <client>|Dear Sir or Madam}, {for a repeat of|to repeat} <id> we need <volume> mL{ and have <left> mL left|}. {Please send more.|Could you provide it this week?}',
          ],
          values,
          facts: { needs: [[sample.id], [String(volume_ml)]], bars: [/released|all results are/] },
        },
      },
    };
  }

  get #driftValues(): Record<string, string> {
    const { control, instrument, id } = this.#batch;
    const { unit, tolerance } = this.#method;
    const away = (100 * Math.abs(Number(control.mean) - Number(control.nominal))) / Number(control.nominal);
    return {
      ...{ control: control.id, mean: control.mean, nominal: control.nominal, instrument, batch: id, unit },
      ...{ tolerance: String(tolerance), away: away.toFixed(1), side: this.#side },
    };
  }

  get #side(): string {
    const { control } = this.#batch;
    return Number(control.mean) > Number(control.nominal) ? 'high' : 'low';
  }

  #stops(): WantedCall[] {
    const { control, instrument, id } = this.#batch;
    const values = this.#driftValues;
    const bars = [this.#side === 'high' ? /too low/ : /too high/];
    return [
      {
        name: 'request_service',
        input: { instrument },
        free: {
          problem: {
            wordings: [
              '{Control|The control} <control> {reads|gave} <mean> <unit> instead of <nominal> <unit>{, that is too <side>|}. {Please recalibrate.|Please check the calibration.|}',
              '{Drift|The instrument drifts}: <mean> <unit> for a control of <nominal> <unit>{ (<away> % off, <tolerance> % allowed)|}',
            ],
            values,
            facts: { needs: [[control.mean], [control.nominal]], bars },
          },
        },
      },
      {
        name: 'hold_batch',
        input: { batch_id: id },
        free: {
          reason: {
            wordings: [
              '{Control|The control} {is |}{out of tolerance|outside its tolerance}{: <mean> <unit>, nominal <nominal>|}',
              'Control <control> too <side>{, service requested for <instrument>|}',
              '<instrument> drifts{: control <away> % off|, see the control}',
            ],
            values,
            facts: { needs: [[/control|drift/]], bars },
          },
        },
      },
    ];
  }

  #tellDrift(): FreeText {
    const { control, instrument } = this.#batch;
    return {
      wordings: [
        '<batch> is on hold: {control|the control} <control> gave <mean> <unit> instead of <nominal>. {Service is requested|I requested service} for <instrument>.',
        '{Control|The control} {out of tolerance|too <side>} (<mean> <unit>, nominal <nominal>){, so nothing was released|}; {<batch> held|I put <batch> on hold}, service for <instrument> {requested|is on its way}.',
        '{I stopped|Stopped} <batch>: <instrument> {drifts|has drifted}, the control read <mean> <unit>{ (<away> % off)|}. {Service was asked for and the batch is on hold.|On hold until the service has been.}',
      ],
      values: this.#driftValues,
      facts: {
        needs: [[control.mean], [instrument], [/\bhold\b|\bheld\b|stopped/]],
        bars: [/measured again|\d (?:results|samples)/, this.#side === 'high' ? /too low/ : /too high/],
      },
    };
  }

  #answer(): FreeText {
    const { mean, id } = this.#named;
    const isAbove = Number(mean) > Number(this.#limit);
    const { unit } = this.#method;
    return {
      wordings: isAbove
        ? [
            '<id> {gave|came out at} <mean> <unit>, which is above {the limit|<limit> <unit>}.',
            '{Yes|Yes, it is above}: <id> has <mean> <unit>{, more than <limit>|}, so the limit is exceeded.',
            '<mean> <unit> for <id>: {above|over} {the limit of |}<limit> <unit>.',
          ]
        : [
            '<id> {gave|came out at} <mean> <unit>, which is below {the limit|<limit> <unit>}.',
            '{No|No, it is not}: <id> has <mean> <unit>{, less than <limit>|}, so it is below the limit.',
            '<mean> <unit> for <id>: {below|under} {the limit of |}<limit> <unit>.',
          ],
      values: { id, mean, unit, limit: this.#limit },
      facts: isAbove
        ? {
            needs: [[mean], [/above|exceed|\bover\b|higher|more than/]],
            bars: [/below|under|within|not above|not exceed|less than|lower/],
          }
        : {
            needs: [[mean], [/below|under|within|not above|not exceed|lower|less than|does not/]],
            bars: [/is above|exceeds|is over\b|exceeded|more than/],
          },
    };
  }

  /** The last text: what was done, or what should be done if the task asks only for that. */
  #tell(): FreeText {
    const { id } = this.#batch;
    const [repeats, excluded, requested] = (['repeat', 'exclude', 'request'] as const).map((deed) =>
      this.#withDeed(deed),
    ) as [Sample[], Sample[], Sample[]];
    const released = this.#released.length;
    const list = (samples: readonly Sample[], tell: (sample: Sample) => string): string =>
      samples
        .map(tell)
        .join(', ')
        .replace(/, (?!.*, )/, ' and ');
    const values = {
      batch: id,
      count: String(released),
      repeats: list(repeats, ({ id }) => id),
      excluded: list(excluded, (sample) => `reading ${this.#values(sample).reading} of ${sample.id}`),
      requested: list(requested, ({ id }) => id),
    };
    const isDone = this.#rule !== 'only tell';
    const parts = [
      ...(repeats.length === 0
        ? []
        : isDone
          ? [
              '{<repeats> {to be measured again|will be measured again}|{repeat ordered|a repeat is ordered} for <repeats>}',
            ]
          : ['{<repeats> should be measured again|<repeats> needs a repeat}']),
      ...(excluded.length === 0
        ? []
        : isDone
          ? ['{<excluded> excluded|<excluded> left out}']
          : ['{<excluded> should be excluded|<excluded> could be left out}']),
      ...(requested.length === 0
        ? []
        : ['{more of <requested> requested|asked the client for more of <requested>}']),
    ];
    return { wordings: this.#journal(parts, released), values, facts: this.#needs(released) };
  }

  #journal(parts: readonly string[], released: number): string[] {
    const found = parts.length === 0 ? ['{no faults found|all in order}'] : parts;
    if (this.#intent === 'look')
      return [`{Done|Result}: ${found.join('; ')}{ (<batch>)|}.`, `<batch>: ${found.join('; ')}.`];
    const last =
      this.#rule === 'only tell'
        ? '{nothing was changed|I changed nothing}'
        : released === 0
          ? '{nothing was released|no results released}'
          : '{<count> results released|<count> results are released}';
    return [
      `<batch>: ${[...found, last].join('; ')}.`,
      `{Checked|I checked} <batch>: ${last}; ${found.join('; ')}.`,
      `{Done|Result}: ${[last, ...found].join('; ')} (<batch>).`,
    ];
  }

  #needs(released: number): Facts {
    const deeds = { repeat: REPEATED, exclude: EXCLUDED, request: REQUESTED } as const;
    const needs = this.#samples.flatMap((sample) => {
      const deed = this.#deedOf(sample);
      return deed === null ? [] : [[clauseWith(sample.id, deeds[deed])]];
    });
    const bars = (['repeat', 'exclude', 'request'] as const)
      .filter((deed) => this.#withDeed(deed).length === 0)
      .map((deed) => new RegExp(deeds[deed]));
    for (const sample of this.#withDeed('exclude')) {
      const { id = '', reading = '' } = this.#values(sample);
      bars.push(new RegExp(`reading (?!${reading} )\\d+ of ${id.toLowerCase()}`));
    }
    if (this.#intent === 'look') return { needs, bars };
    const isTold = this.#rule === 'only tell';
    const last = isTold
      ? [/nothing|not changed|no changes/]
      : released === 0
        ? [/nothing|no results|not released|none/]
        : [String(released)];
    const barred =
      released === 0 ? [/\d (?:results|samples)|results are released|have released/] : [/nothing|no results/];
    return { needs: [...needs, [this.#batch.id], last], bars: [...bars, ...barred] };
  }
}

export const labAssistant: HeldBackAgent = {
  name: 'lab assistant',
  model: 'claude-opus-5',
  wire: 'messages',
  is_streaming: true,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    "{I'll|Let me} {start with|read} {the batch|the numbers}.",
    '{Comparing|Now I compare} {this|the means} with the method.',
    '{One|The next} {sample|thing} {needs attention|at a time}.',
    '{The numbers are in|Good}. {Next step.|Going on.|}',
  ],
  aside_share: 0.35,
  names: [...ANALYTES.map(([name]) => name), ...CLIENTS],
  start: (seed, kind) => new AssistantRun(seed, kind),
};
