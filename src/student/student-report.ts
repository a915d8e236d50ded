/**
 * A report on the student in a directory: its versions, the agents of the serving version (without one, of the newest
 * version) with their state, and what the student has served and saved. Reads only files, and writes only an agent's
 * name. Server threads and the command line, when an operator asks.
 */
import { describeKindRefusal } from '../domain/kind-refusal.ts';
import type { StudentReport } from '../domain/student-report.ts';
import { type AgentNames, nameAgent, readAgentNames } from './agent-names.ts';
import { type LedgerCopy, listLedger, readLedgerFile, totalLedger } from './day-ledger.ts';
import { type KeptVersion, listVersions, readStudentManifest, StudentDirectoryError } from './directory.ts';
import type { WatchedAgentReport } from './model/drift-watch.ts';
import { GOLDEN_RUNS_MIN } from './model/limits.ts';
import type { StudentManifest } from './model/manifest.ts';
import { kindByTools } from './model/service-evidence.ts';
import { isSuspendedBy, NO_ORDERS, type Orders, readOrders, shareOf } from './orders.ts';
import { reportWatched } from './student-watch.ts';
import { readWatchFile } from './watch-file.ts';

/** Maximum number of kinds of an agent's answers that the dashboard lists. */
const MANIFEST_SHOWN_KINDS = 20;

export interface StudentPlaces {
  directory: string;
  mode: 'on' | 'shadow';
  watch_path: string;
  ledger_path: string;
}

/**
 * Reads the student's files, and makes the report. A file that cannot be read is listed in `problems`.
 * @param places null if relegation is off; the report is then empty
 */
export async function reportStudent(places: StudentPlaces | null): Promise<StudentReport> {
  const nothing: StudentReport = {
    mode: 'off',
    golden_runs_needed: GOLDEN_RUNS_MIN,
    problems: [],
    held: false,
    serving: null,
    versions: [],
    agents: [],
    ledger: [],
    ledger_total: null,
  };
  if (places === null) return nothing;
  const problems: string[] = [];
  /** Adds to the report what cannot be read, so that the report can show the rest. */
  const orElse = async <T>(reading: Promise<T>, otherwise: T): Promise<T> => {
    try {
      return await reading;
    } catch (error) {
      const isMissing = error instanceof StudentDirectoryError && error.code === 'missing';
      if (!isMissing) problems.push((error as Error).message);
      return otherwise;
    }
  };
  const { directory, mode, watch_path, ledger_path } = places;
  const versions = await orElse(listVersions(directory), []);
  const serving = await orElse(readStudentManifest(directory), null);
  const orders = await orElse(readOrders(directory), NO_ORDERS);
  const watched = reportWatched(await orElse(readWatchFile(watch_path), null), orders);
  const names = await orElse<AgentNames>(readAgentNames(directory), new Map());
  const ledger = await orElse<LedgerCopy | null>(
    readLedgerFile(ledger_path).then((copy) => copy ?? []),
    null,
  );
  const shown = serving ?? versions[0]?.manifest ?? null;
  return {
    ...nothing,
    mode,
    problems,
    held: orders.held,
    serving: serving?.version ?? null,
    versions: versions.map((kept) => describeVersion(kept, serving?.version ?? null, orders)),
    agents: shown === null ? [] : describeAgents(shown, orders, watched, names),
    ledger: ledger === null ? [] : listLedger(ledger),
    ledger_total: ledger === null ? null : totalLedger(ledger),
  };
}

/**
 * Names an agent variant of the student in a directory.
 * @param name null removes the name
 * @returns the variant's name as it is shown now; null if relegation is off or the report lists no such variant
 */
export async function renameAgent(
  places: StudentPlaces | null,
  agent: string,
  name: string | null,
): Promise<{ agent: string; name: string; is_named: boolean } | null> {
  const known = (await reportStudent(places)).agents.some((listed) => listed.agent === agent);
  if (places === null || !known) return null;
  await nameAgent(places.directory, agent, name);
  const renamed = (await reportStudent(places)).agents.find((listed) => listed.agent === agent);
  return renamed === undefined ? null : { agent, name: renamed.name, is_named: renamed.is_named };
}

/**
 * Describes a kept version for the report. Fields of a manifest that cannot be read are null.
 * @param serving the number of the serving version; null when none serves
 */
export function describeVersion(
  { version, manifest, problem }: KeptVersion,
  serving: number | null,
  orders: Orders,
): StudentReport['versions'][number] {
  const measured = manifest?.measured;
  return {
    version,
    share: version === serving ? shareOf(orders, version) : 0,
    made_at: manifest?.made_at ?? null,
    valid_until: manifest?.valid_until ?? null,
    golden_runs: manifest?.golden.runs ?? null,
    agents: manifest?.coverage.agents?.length ?? null,
    steps: measured?.steps ?? null,
    served: measured?.served ?? null,
    errors: measured?.errors ?? null,
    error_at_most: measured?.error_at_most ?? null,
    tokens_saved_share: measured?.tokens_saved_share ?? null,
    uncovered: measured === undefined ? {} : { ...measured.uncovered },
    problem,
  };
}

/**
 * Describes the agents of a version with their state, and then all other agents in the watch's report.
 */
export function describeAgents(
  { coverage }: StudentManifest,
  orders: Orders,
  watched: readonly WatchedAgentReport[],
  names: AgentNames,
): StudentReport['agents'] {
  const listed: ListedAgent[] = coverage.agents ?? [];
  const known = new Set(listed.map(({ agent }) => agent));
  const unlisted = watched
    .filter(({ agent }) => !known.has(agent))
    .map(({ agent }): ListedAgent => ({ ...UNLISTED, agent }));
  return [...listed, ...unlisted].map((listedAgent) => {
    const seen = watched.find(({ agent }) => agent === listedAgent.agent);
    const isOrdered = isSuspendedBy(orders, listedAgent.agent, null);
    const isSuspended = seen?.state === 'suspended' || isOrdered;
    return {
      agent: listedAgent.agent,
      name: names.get(listedAgent.agent) ?? listedAgent.title ?? '',
      is_named: names.has(listedAgent.agent),
      tools: listedAgent.tools,
      state: isSuspended ? 'suspended' : listedAgent.threshold === null ? 'not_served' : 'serving',
      suspended_by: isOrdered ? 'operator' : (seen?.suspended_by ?? null),
      runs: listedAgent.runs,
      measured: listedAgent.measured,
      compared: seen?.compared ?? 0,
      wrong: seen?.wrong ?? 0,
      kinds: (listedAgent.kinds ?? [])
        .slice(0, MANIFEST_SHOWN_KINDS)
        .map((shownKind) => ({ ...shownKind, refusal: describeKindRefusal(shownKind) }))
        .map(({ kind, refused, refusal, runs, steps, errors, error_at_most }) => ({
          kind,
          refused,
          refusal: refusal === null ? '' : `${refusal.why}; ${refusal.remedy}`,
          runs,
          steps,
          errors,
          error_at_most,
          is_suspended:
            isSuspendedBy(orders, listedAgent.agent, kindByTools(kind)) ||
            seen?.kinds.find((seenKind) => seenKind.kind === kind || seenKind.kind === kindByTools(kind))
              ?.state === 'suspended',
        })),
    };
  });
}

type ListedAgent = Pick<
  NonNullable<StudentManifest['coverage']['agents']>[number],
  'agent' | 'title' | 'tools' | 'threshold' | 'runs' | 'measured' | 'kinds'
>;

/**
 * Figures for an agent that is not in the manifest: the agent belongs to another version or is beyond the manifest's
 * bound.
 */
const UNLISTED = { tools: [], threshold: 0, runs: 0, measured: { steps: 0, served: 0, errors: 0 } };
