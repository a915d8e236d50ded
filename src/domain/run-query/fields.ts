/**
 * The fields of the run query language: names, kinds of values, and meanings. Lists, screens, the command
 * line and the guide (docs/queries.md) use this list. Constants; any thread.
 */
import { CHILD_KINDS } from '../child-kind.ts';
import { MONITOR_NAMES } from '../monitors/names.ts';
import { RUN_STATUSES } from '../run-status-name.ts';

/** Traits that `is:` tests. */
const RUN_TRAITS = ['golden', 'captured', 'reported', 'child', 'good', 'bad'] as const;
/** What `has:` tests. */
const RUN_HOLDINGS = [
  'error',
  'tool',
  'monitor',
  'outcome',
  'mark',
  'tag',
  'note',
  'feedback',
  'cost',
  'gap',
  'session',
  'child',
] as const;
/** Values of `kind:`: an agent's own run, or the kind of a child run. */
const RUN_KINDS = ['agent', ...CHILD_KINDS] as const;

const NAME_FIELDS = {
  text: 'Words anywhere in the listed data of a run: its task, id, tags, notes, models, tools and outcome',
  task: "The user's first words",
  run: "The run's id",
  session: "The client's session",
  parent: 'The run that this run is part of',
  agent: "The agent's reported name, or else the client program",
  model: 'A model that answered',
  provider: 'An upstream that answered',
  tool: 'A tool that the agent called',
  tag: 'A tag of the run, from a person or from the header `x-svc-tags`',
  key: 'The fingerprint of a credential that sent a request, or the id of the API key that reported the run',
  note: 'A note of the gateway (`GW_NOTE`), or of a person',
  outcome: 'The reported outcome',
  reason: 'Why a run is not golden, such as `failed_call` or `seq_gap`',
  project: "The reported run's project",
  framework: "The reported run's framework",
  profile: "The reported run's task profile",
  codebase: "The reported run's code base",
  experiment: "The reported run's experiment",
  arm: "The reported run's arm of the experiment",
} as const;

const NUMBER_FIELDS = {
  cost: 'Dollars for the turns of upstreams',
  tokens: 'All tokens: input, output and cached',
  input: 'Input tokens, without cached tokens',
  output: 'Tokens of the answers',
  cached: 'Tokens that providers read from their caches',
  turns: 'Answers of a model',
  steps: 'Reported steps',
  exchanges: 'Requests with their answers',
  errors: 'Failed calls, and results of tools that failed',
  aborted: 'Exchanges that the client, the upstream or the gateway ended early',
  score: 'The highest total score of the monitors, 0 to 1',
  feedback: 'The feedback score, 0 to 1',
} as const;

const DURATION_FIELDS = { duration: 'From the beginning of the run to its last answer or its end' } as const;

const TIME_FIELDS = {
  since: 'Began then or later',
  until: 'Began then or earlier',
  started: 'When the run began',
  finished: 'When its last answer ended, or when its end was reported',
  failed: 'When the last of its failed calls began',
} as const;

const CHOICE_FIELDS = {
  status: { describes: 'How the run ended, or that it is running', values: RUN_STATUSES },
  is: { describes: 'What the run is', values: RUN_TRAITS },
  has: { describes: 'What the run has', values: RUN_HOLDINGS },
  kind: { describes: "An agent's own run, or a child run of this kind", values: RUN_KINDS },
  served: { describes: 'Who answered at least one turn', values: ['student', 'upstream'] },
} as const;

const MONITOR_FIELDS = { monitor: 'A monitor that fired; with a number, at how many steps' } as const;

export type NameField = keyof typeof NAME_FIELDS;
export type NumberField = keyof typeof NUMBER_FIELDS | keyof typeof DURATION_FIELDS;
export type TimeField = keyof typeof TIME_FIELDS;
export type ChoiceField = keyof typeof CHOICE_FIELDS;
/** Every field but `sort`, which selects nothing. */
export type QueryField = NameField | NumberField | TimeField | ChoiceField | 'monitor';

/**
 * Kind of a field's values: `name` matches parts of names, `choice` and `monitor` take values from a list.
 */
type FieldKind = 'name' | 'number' | 'duration' | 'time' | 'choice' | 'monitor';

export interface FieldDefinition {
  kind: FieldKind;
  describes: string;
  /** Possible values of a choice, or the names of the monitors; empty for all other kinds. */
  values: readonly string[];
}

function define(kind: FieldKind, fields: Readonly<Record<string, string>>): [string, FieldDefinition][] {
  const values = kind === 'monitor' ? MONITOR_NAMES : [];
  return Object.entries(fields).map(([name, describes]) => [name, { kind, describes, values }]);
}

/** In the order in which they are listed. */
export const QUERY_FIELDS: ReadonlyMap<string, FieldDefinition> = new Map<string, FieldDefinition>([
  ...Object.entries(CHOICE_FIELDS).map(([name, { describes, values }]): [string, FieldDefinition] => [
    name,
    { kind: 'choice', describes, values },
  ]),
  ...define('name', NAME_FIELDS),
  ...define('monitor', MONITOR_FIELDS),
  ...define('number', NUMBER_FIELDS),
  ...define('duration', DURATION_FIELDS),
  ...define('time', TIME_FIELDS),
]);

/** Columns that `sort:` orders by. */
export const SORT_FIELDS = [
  'started',
  'finished',
  ...Object.keys(DURATION_FIELDS),
  ...Object.keys(NUMBER_FIELDS),
] as unknown as readonly SortField[];
export type SortField = 'started' | 'finished' | NumberField;
