/**
 * Packs the state of a finished run for storage: its values without the names of the fields, which would take most of
 * the space. Pure; server threads.
 */
import { MONITOR_NAMES } from '../../src/domain/monitors/names.ts';
import { type PackedScores, packScores, type RunFacts, type RunState } from '../../src/domain/run.ts';

/** The order in which values are stored. A new field is appended. A removed field keeps its place. */
const FACTS = [
  'org_id',
  'project_id',
  'run_id',
  'agent_name',
  'model',
  'framework',
  'task_profile',
  'codebase_id',
  'experiment_id',
  'arm',
  'assignment_unit',
  'svc_version',
  'key_id',
] as const satisfies readonly (keyof RunFacts)[];

const FIELDS = [
  'fingerprint',
  'started_at_ms',
  'profile',
  'steps',
  'tokens',
  'last_index',
  'late_steps',
  'max_total_score',
  'fired_counts',
  'intervention',
  'told_at',
  'reports',
  'finish',
  'left_to_delete',
] as const satisfies readonly (keyof RunState)[];

/** Fields that are stored separately, or that a finished run does not have. */
type OtherField = 'facts' | 'monitors' | 'last';
type Missing =
  | Exclude<keyof RunFacts, (typeof FACTS)[number]>
  | Exclude<keyof RunState, (typeof FIELDS)[number] | OtherField>;
/** Does not compile if a field is missing in the lists above. */
const NOTHING_MISSING: Missing extends never ? true : Missing = true;

export type PackedState = [facts: unknown[], fields: unknown[], last: PackedScores, intervention: unknown];

/** Packs the state of a run; null for a run that is not finished. */
export function packState(state: RunState): PackedState | null {
  const { facts, finish, last } = state;
  if (facts === null || finish === null || !NOTHING_MISSING) return null;
  return [
    FACTS.map((name) => facts[name] ?? null),
    FIELDS.map((name) => state[name]),
    packScores(last),
    last.intervention,
  ];
}

export function unpackState([facts, fields, last, intervention]: PackedState): RunState {
  const [numbers, total_score, fired] = last;
  const named = Object.fromEntries(FACTS.map((name, at) => [name, facts[at] ?? null]));
  // `key_id` is the only optional field.
  if (named.key_id === null) delete named.key_id;
  return {
    ...(Object.fromEntries(FIELDS.map((name, at) => [name, fields[at] ?? null])) as unknown as RunState),
    facts: named as unknown as RunFacts,
    monitors: null,
    last: {
      scores: Object.fromEntries(
        MONITOR_NAMES.slice(0, numbers.length).map((name, at) => [name, numbers[at] ?? 0]),
      ) as unknown as RunState['last']['scores'],
      total_score,
      fired: fired.map((at) => MONITOR_NAMES[at]!),
      intervention: intervention as RunState['last']['intervention'],
    },
  };
}
