/**
 * An agent that keeps a cloud bill small: it reads tables of instances and their usage, and stops or shrinks what is not
 * used, with several calls at once. Chat completions, without streaming. Pure; bench process.
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
import { anyOf } from '../independent.ts';
import { callsOf } from '../turns.ts';
import { addDays, isoDate, makeDay, makeId, makePerson, PERSON_NAMES, plainMoney } from '../vocabulary.ts';
import { between, pick, shuffle, word } from '../wording.ts';

/** Percent of CPU. An instance is idle if its peak stays below this. */
const IDLE_PEAK = 5;
/** Percent of CPU. An instance may get a smaller machine type if its peak stays below this. */
const SHRINK_PEAK = 40;
const DAYS = 14;

/** Machine types, each half as large as the next. */
const TYPES = ['c2-small', 'c2-medium', 'c2-large', 'c2-xlarge', 'c2-2xlarge', 'c2-4xlarge'];
const ROLES =
  'api batch bastion billing cache canary crawler etl export feed geo grafana ingest jobs kafka ledger loader mailer mirror notebook proxy queue render report scorer search staging sync thumbs worker'.split(
    ' ',
  );
const PROJECTS = 'aurora basalt cinder dovetail everglade flint gantry hollow inkwell juniper'.split(' ');
const ZONES = ['eu-west-1a', 'eu-west-1b', 'eu-central-1a', 'us-east-2c', 'ap-south-1a'];

type Intent = 'idle' | 'used' | 'dearest' | 'shrink';

interface Instance {
  id: string;
  name: string;
  type: number;
  zone: string;
  owner: string;
  state: 'running' | 'stopped';
  is_kept: boolean;
  day_cost: number;
  peak: number;
}

const TOOLS = [
  tool('list_instances', 'Prints the instances of a project as a table (cloudctl instances list).', {
    project: 'string',
    owner: 'string?',
  }),
  tool('show_usage', 'Prints the daily CPU and network usage of an instance (cloudctl metrics).', {
    instance_id: 'string',
    days: 'integer',
  }),
  tool('stop_instance', 'Stops a running instance.', { instance_id: 'string', reason: 'string' }),
  tool('label_instance', 'Sets a label of an instance.', { instance_id: 'string', label: 'string' }),
  tool('resize_instance', 'Changes the machine type of an instance.', {
    instance_id: 'string',
    machine_type: 'string',
  }),
];

const TASKS: Readonly<Record<Intent, readonly string[]>> = {
  idle: [
    '{Please stop|Stop|Shut down} {what|everything that} <owner> {no longer uses|left idle} in <project>.',
    '<owner> has left the team. {Look at|Check} {their|the} instances in {project |}<project> and stop {the idle ones|those that idle}.',
    'The bill of <project> is too high. {Begin with|Check} the instances of <owner>{: stop what idles| and stop the idle ones}.',
  ],
  used: [
    'Is <name> in <project> {still used|still doing anything|idle}?',
    '{Does anybody use|Is anything running on} <name>{ (project <project>)| in <project>}?',
  ],
  dearest: [
    '{Which running instance of|What in} <project> costs {most|the most}{ a day|}?',
    'The most expensive {running |}instance in <project>{, please|}?',
  ],
  shrink: [
    '<name> in <project> looks oversized. {Make it|Go} one size smaller if {its load allows it|you can}.',
    '{Can|Could} <name> ({project |}<project>) {run on a smaller machine|be smaller}? {If so, do it.|Change it if possible.}',
  ],
};

function makeInstances(prng: Prng, owners: readonly string[]): Instance[] {
  const count = between(prng, 14, 24);
  const costs = shuffle(prng, [...Array(60).keys()]).slice(0, count);
  return costs.map((cost, at) => ({
    id: makeId(prng, 'i-', 9),
    name: `${pick(prng, ROLES)}-${pick(prng, ['dev', 'test', 'prod', 'demo', 'old'])}-${between(prng, 100, 999)}`,
    type: between(prng, 1, TYPES.length - 1),
    zone: pick(prng, ZONES),
    // The first owner has a few instances, the others have many.
    owner: at < 4 ? owners[0]! : pick(prng, owners.slice(1)),
    state: prng.chance(0.75) ? 'running' : 'stopped',
    is_kept: prng.chance(0.2),
    day_cost: (220 + cost * 147 + between(prng, 0, 40)) / 100,
    peak: prng.chance(0.45) ? between(prng, 1, IDLE_PEAK - 1) : between(prng, IDLE_PEAK + 4, 96),
  }));
}

/** The machine types that a text must not name: all except the named ones. */
function barTypes(...named: readonly string[]): RegExp[] {
  const others = TYPES.filter((type) => !named.includes(type));
  return [/\bc[013-9]-/, ...others.map((type) => new RegExp(`\\b${type}\\b`))];
}

class WatcherRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #kind: RunKind;
  readonly #intent: Intent;
  readonly #project: string;
  readonly #owner: string;
  readonly #today: number;
  readonly #all: readonly Instance[];
  /** The instance that the task names. */
  readonly #named: Instance;
  readonly #usage = new Map<string, string>();
  /** Whether a sentence permits the agent to stop instances that are tagged `keep`. */
  readonly #may_stop_kept: boolean;
  /** Dollars a day. A sentence forbids the agent to stop instances that cost more. */
  readonly #cost_max: number;
  readonly #reads_only: boolean;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#today = makeDay(prng);
    const owners = Array.from({ length: 6 }, () => makePerson(prng, 'x').email.replace('@x', ''));
    this.#owner = owners[0]!;
    this.#project = `${pick(prng, PROJECTS)}-${between(prng, 10, 99)}`;
    const instances = makeInstances(prng, owners);
    const way = kind === 'restricted' ? prng.below(3) : 3;
    this.#intent =
      way === 3
        ? pick(prng, ['idle', 'idle', 'idle', 'used', 'dearest', 'shrink', 'shrink'] as const)
        : pick(prng, way === 2 ? (['idle', 'shrink'] as const) : (['idle'] as const));
    this.#named = pick(prng, instances.slice(4));
    this.#named.state = 'running';
    const first = instances[0]!;
    if (kind === 'restricted') {
      Object.assign(first, { state: 'running', peak: 2, is_kept: way === 1 });
      this.#named.peak = between(prng, 8, SHRINK_PEAK - 8);
    }
    this.#may_stop_kept = way === 1;
    this.#cost_max = way === 0 ? Math.floor(first.day_cost) - 1 : Number.POSITIVE_INFINITY;
    this.#reads_only = way === 2;
    this.#all = shuffle(prng, instances);
    for (const instance of this.#all) this.#usage.set(instance.id, this.#writeUsage(prng, instance));
    const rule = [
      ` Do not stop anything that costs more than ${this.#cost_max} dollars a day.`,
      ' This time you may also stop instances that are tagged keep.',
      ' Do not change anything today, only say what you would do.',
      '',
    ][way]!;
    this.system = [
      `You keep the cloud bill of Quillhaven small. Today is ${isoDate(this.#today)}.`,
      `A running instance is idle if its CPU peak of the last ${DAYS} days is below ${IDLE_PEAK} %. Look at the usage before you decide. Never stop instances that are tagged keep.`,
      `An instance may go to the next smaller type if its peak stays below ${SHRINK_PEAK} %. Sizes, from small to large: ${TYPES.join(', ')}.`,
      'End with a short report: names, and costs in dollars a day.',
    ].join('\n');
    const asked = word(prng, pick(prng, TASKS[this.#intent]), {
      owner: this.#owner,
      project: this.#project,
      name: this.#named.name,
    });
    this.task = `${asked}${rule}`;
  }

  #writeUsage(prng: Prng, { id, peak, name }: Instance): string {
    const top = prng.below(DAYS);
    const rows = Array.from({ length: DAYS }, (_, at) => {
      const highest = at === top ? peak : between(prng, 0, Math.max(0, peak - 1));
      const average = Math.round(highest * 4) / 10;
      const day = isoDate(addDays(this.#today, at - DAYS));
      return [
        day.padEnd(12),
        average.toFixed(1).padStart(8),
        highest.toFixed(1).padStart(8),
        String(between(prng, 0, 900)).padStart(9),
        String(between(prng, 0, 400)).padStart(9),
      ].join('');
    });
    return [
      `# cloudctl metrics ${id} (${name})`,
      'DATE          CPU AVG CPU PEAK    NET IN   NET OUT',
      ...rows,
      '# cpu in percent of all cores, net in MiB',
    ].join('\n');
  }

  #table(owner: unknown): string {
    const rows = this.#all
      .filter((each) => owner === undefined || each.owner === owner)
      .map(({ id, name, type, zone, state, owner: of, is_kept, day_cost }) =>
        [
          id.padEnd(14),
          name.padEnd(22),
          TYPES[type]!.padEnd(12),
          zone.padEnd(15),
          state.padEnd(9),
          of.padEnd(26),
          (is_kept ? 'keep' : '-').padEnd(6),
          plainMoney(day_cost).padStart(8),
        ].join(''),
      );
    return [
      'ID            NAME                  TYPE        ZONE           STATE    OWNER                     TAGS     $/DAY',
      ...rows,
      `${rows.length} instances`,
    ].join('\n');
  }

  perform({ name, input }: ToolCall): Result {
    if (name === 'list_instances')
      return input.project === this.#project
        ? good(this.#table(input.owner))
        : bad(`cloudctl: project "${String(input.project)}" not found`);
    const found = this.#all.find(({ id }) => id === input.instance_id);
    if (found === undefined) return bad('cloudctl: no such instance');
    if (name === 'show_usage') {
      if (input.days !== DAYS) return bad(`cloudctl: days must be ${DAYS}`);
      return good(this.#usage.get(found.id)!);
    }
    if (name === 'resize_instance' && !TYPES.includes(String(input.machine_type)))
      return bad('cloudctl: no such machine type');
    return good(`${found.id} ${name === 'stop_instance' ? 'stopping' : 'updated'}`);
  }

  /** The instances whose usage the agent must read. */
  get #watched(): Instance[] {
    if (this.#intent === 'dearest') return [];
    if (this.#intent !== 'idle') return [this.#named];
    return this.#all.filter(
      ({ owner, state, is_kept, day_cost }) =>
        owner === this.#owner &&
        state === 'running' &&
        (!is_kept || this.#may_stop_kept) &&
        day_cost <= this.#cost_max,
    );
  }

  get #idle(): Instance[] {
    return this.#watched.filter(({ peak }) => peak < IDLE_PEAK);
  }

  get #shrinks(): boolean {
    return this.#named.peak < SHRINK_PEAK;
  }

  moves(turns: readonly Turn[]): Move[] {
    const list = { name: 'list_instances', input: { project: this.#project } };
    if (callsOf(turns, 'list_instances').length === 0)
      return this.#intent === 'idle'
        ? [
            { weight: 0.65, calls: [{ ...list, input: { ...list.input, owner: this.#owner } }] },
            { weight: 0.35, calls: [list] },
          ]
        : only(list);
    const seen = new Set(callsOf(turns, 'show_usage').map(({ input }) => input.instance_id));
    const looks = this.#watched
      .filter(({ id }) => !seen.has(id))
      .map(({ id }) => ({ name: 'show_usage', input: { instance_id: id, days: DAYS } }));
    if (looks.length > 0) return anyOf(looks, 0.75);
    const done = new Set(
      ['stop_instance', 'label_instance', 'resize_instance'].flatMap((name) =>
        callsOf(turns, name).map(({ input }) => input.instance_id),
      ),
    );
    const deeds = this.#deeds().filter(({ input }) => !done.has(input.instance_id));
    return deeds.length > 0 ? anyOf(deeds, 0.8) : ending(this.#report());
  }

  #deeds(): WantedCall[] {
    if (this.#reads_only) return [];
    if (this.#intent === 'shrink')
      return this.#shrinks
        ? [
            {
              name: 'resize_instance',
              input: { instance_id: this.#named.id, machine_type: TYPES[this.#named.type - 1]! },
            },
          ]
        : [];
    if (this.#intent !== 'idle') return [];
    return this.#idle.map(({ id, peak }) =>
      // In a changed run, the model only marks the instances that it would stop.
      this.#kind === 'changed'
        ? { name: 'label_instance', input: { instance_id: id, label: 'idle' } }
        : {
            name: 'stop_instance',
            input: { instance_id: id },
            free: { reason: this.#reason(peak) },
          },
    );
  }

  #reason(peak: number): FreeText {
    return {
      wordings: [
        'Idle: {CPU peak|peak} <peak> % in <days> days',
        '{No load|Not used}{ for <days> days|}',
        '{Peak CPU|CPU} {never above|at most} <peak> %{, idle|}',
        'idle {for two weeks|instance of <owner>}',
      ],
      values: { peak: String(peak), days: String(DAYS), owner: this.#owner },
      facts: { needs: [], bars: [/in use|busy/] },
    };
  }

  #report(): FreeText {
    switch (this.#intent) {
      case 'idle':
        return this.#reportIdle();
      case 'used':
        return this.#reportUsed();
      case 'dearest':
        return this.#reportDearest();
      case 'shrink':
        return this.#reportShrink();
    }
  }

  #reportIdle(): FreeText {
    const idle = this.#idle;
    const saved = plainMoney(idle.reduce((sum, { day_cost }) => sum + day_cost, 0));
    const names = idle.map(({ name }) => name);
    const values = {
      names: names.join(', '),
      and: names.join(' and '),
      count: String(names.length),
      saved,
      owner: this.#owner,
      project: this.#project,
      days: String(DAYS),
    };
    if (idle.length === 0)
      return {
        wordings: [
          '{None|No instance} of <owner>{ in <project>|} {is idle|idles}{ that I may stop|}; {I stopped nothing|nothing was stopped}.',
          '{Nothing to stop|I stopped nothing}: {no idle instances of <owner>|<owner> has no idle instances}{ in <project>|}.',
        ],
        values,
        facts: { needs: [[/\bno\b|none|nothing/]], bars: [/stopped (the|\d|[a-z]+-)/] },
      };
    const needs = [...names.map((name) => [name]), [saved]];
    if (this.#reads_only || this.#kind === 'changed')
      return {
        wordings: this.#reads_only
          ? [
              'I would stop <names>: {that saves|saving} <saved> dollars a day.',
              '{Idle|Candidates}: <and>. {Stopping them|That} would save $<saved> a day.',
            ]
          : [
              '{Labelled|I labelled} <names> as idle; {stopping them would save|they cost} $<saved> a day.',
              '<and> {carry|have} the label idle now{: <saved> dollars a day|, $<saved> a day together}. {Nothing was stopped.|}',
            ],
        values,
        facts: { needs, bars: [/\b(i|have|were) stopped (?!them)/, /\bsaved\b/] },
      };
    return {
      wordings: [
        '{Stopped|I stopped} <names>{ of <owner>|}: {that saves|saves} <saved> dollars a day.',
        '<and> {were|had been} idle{ for <days> days|} and {are stopped|stop now}{. Saved:|, which saves} $<saved> a day.',
        '<count> idle{,| and} stopped: <names>. {Saving|Savings}: <saved> dollars a day.',
      ],
      values,
      facts: { needs, bars: [/would|nothing/] },
    };
  }

  #reportUsed(): FreeText {
    const { name, peak, day_cost, owner } = this.#named;
    const isIdle = peak < IDLE_PEAK;
    return {
      wordings: isIdle
        ? [
            '{No, |}<name> {is idle|idles}: its CPU {never went above|peak was} <peak> %{ in <days> days|}{. It costs $<cost> a day|}.',
            '{It is idle|Not in use}: <name> peaked at <peak> %{ and costs <cost> dollars a day|}.',
          ]
        : [
            '{Yes, |}<name> is {in use|used}: its CPU {peak was|peaked at} <peak> %{ in <days> days|}{; it costs $<cost> a day|}.',
            '<name> {works|is busy}{, yes|}: <peak> % at its peak{, <cost> dollars a day|}.',
          ],
      values: { name, owner, peak: String(peak), days: String(DAYS), cost: plainMoney(day_cost) },
      facts: {
        needs: [[name], [String(peak)]],
        bars: [isIdle ? /\byes\b|is (in use|used|busy)/ : /\bidle|not in use|\bno\b/],
      },
    };
  }

  #reportDearest(): FreeText {
    const [dearest] = this.#all
      .filter(({ state }) => state === 'running')
      .toSorted((a, b) => b.day_cost - a.day_cost);
    const { name, day_cost, type, owner, id } = dearest!;
    return {
      wordings: [
        '{It is |}<name>, {at|with} {$<cost>|<cost> dollars} a day{ (<type>, owner <owner>)|}.',
        '<name> {costs most|is the most expensive one}: <cost> dollars a day{. It belongs to <owner>|}.',
        'The {dearest|most expensive} {running |}instance{ of <project>|} is <name> {(<id>) |}for $<cost> a day.',
      ],
      values: { name, id, cost: plainMoney(day_cost), type: TYPES[type]!, owner, project: this.#project },
      facts: { needs: [[name], [plainMoney(day_cost)]], bars: barTypes(TYPES[type]!) },
    };
  }

  #reportShrink(): FreeText {
    const { name, peak, type, owner, day_cost } = this.#named;
    const values = {
      name,
      owner,
      cost: plainMoney(day_cost),
      peak: String(peak),
      old: TYPES[type]!,
      small: TYPES[type - 1]!,
      limit: String(SHRINK_PEAK),
      days: String(DAYS),
    };
    if (!this.#shrinks)
      return {
        wordings: [
          '{No: |}<name> {peaks at|reached} <peak> %, {too much for a smaller type|so it stays on <old>}.',
          '<name> {needs|keeps} <old>: its peak {was|is} <peak> %{, above <limit> %|}.',
        ],
        values,
        facts: {
          needs: [[name], [values.peak]],
          bars: [/resized|runs on .* now|changed to/, ...barTypes(values.old)],
        },
      };
    const needs = [[name], [values.small]];
    return this.#reads_only
      ? {
          wordings: [
            'I would {move|change} <name> from <old> to <small>{: its peak is <peak> %|}.',
            '<name> {would fit on|could run on} <small>{; it peaks at <peak> %|}. {I changed nothing.|}',
          ],
          values,
          facts: {
            needs: [...needs, [/would|could/]],
            bars: [/resized|runs on .* now/, ...barTypes(values.old, values.small)],
          },
        }
      : {
          wordings: [
            '{Resized|I resized} <name> from <old> to <small>{: its peak was <peak> %|}.',
            '<name> runs on <small> now{ instead of <old>|}{; the peak of <days> days was <peak> %|}.',
          ],
          values,
          facts: { needs, bars: [/would|could|stays/, ...barTypes(values.old, values.small)] },
        };
  }
}

export const costWatcher: HeldBackAgent = {
  name: 'cost watcher',
  model: 'gpt-5.5',
  wire: 'chat_completions',
  is_streaming: false,
  is_labelled: true,
  tools: TOOLS,
  asides: [
    '{Listing|I list} the instances.',
    "{Let me|I'll} {check|look at} {the usage|how busy they are}{ first|}.",
    '{That is clear.|Now I act.|}',
  ],
  aside_share: 0.2,
  names: PERSON_NAMES,
  start: (seed, kind) => new WatcherRun(seed, kind),
};
