/**
 * The student in a directory as somebody looks at it: its versions, the agents of the one that serves with what becomes of
 * them, and what it has served and saved. Reads files alone. Server threads and the command line, when an operator asks.
 */
import type { StudentReport } from '../domain/student-report.ts';
import { GOLDEN_RUNS_MIN, MANIFEST_SHOWN_KINDS } from '../limits.ts';
import { listLedger, readLedgerFile } from './day-ledger.ts';
import { type KeptVersion, listVersions, readStudentManifest, StudentDirectoryError } from './directory.ts';
import type { WatchedAgentReport } from './model/drift-watch.ts';
import type { StudentManifest } from './model/manifest.ts';
import { kindByTools } from './model/service-evidence.ts';
import { isSuspendedBy, NO_ORDERS, type Orders, readOrders, shareOf } from './orders.ts';
import { reportWatched } from './student-watch.ts';
import { readWatchFile } from './watch-file.ts';

export interface StudentPlaces {
  directory: string;
  mode: 'on' | 'shadow';
  watch_path: string;
  ledger_path: string;
}

/** @param places null: relegation is off */
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
  };
  if (places === null) return nothing;
  const problems: string[] = [];
  /** What cannot be read is named, and the rest shown. */
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
  const ledger = await orElse(readLedgerFile(ledger_path), null);
  const shown = serving ?? versions[0]?.manifest ?? null;
  return {
    ...nothing,
    mode,
    problems,
    held: orders.held,
    serving: serving?.version ?? null,
    versions: versions.map((kept) => describeVersion(kept, serving?.version ?? null, orders)),
    agents: shown === null ? [] : describeAgents(shown, orders, watched),
    ledger: ledger === null ? [] : listLedger(ledger),
  };
}

/** A version that is kept. @param serving the one that serves; null: none does */
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

/** The agents of a version with what becomes of them, and those that audits or operators have ended beside them. */
export function describeAgents(
  { coverage }: StudentManifest,
  orders: Orders,
  watched: readonly WatchedAgentReport[],
): StudentReport['agents'] {
  const listed: ListedAgent[] = coverage.agents ?? [];
  const known = new Set(listed.map(({ agent }) => agent));
  const unlisted = watched
    .filter(({ agent }) => !known.has(agent))
    .map(({ agent }): ListedAgent => ({ ...UNLISTED, agent }));
  return [...listed, ...unlisted].map((its) => {
    const seen = watched.find(({ agent }) => agent === its.agent);
    const isOrdered = isSuspendedBy(orders, its.agent, null);
    const isSuspended = seen?.state === 'suspended' || isOrdered;
    return {
      agent: its.agent,
      tools: its.tools,
      state: isSuspended ? 'suspended' : its.threshold === null ? 'not_served' : 'serving',
      suspended_by: isOrdered ? 'operator' : (seen?.suspended_by ?? null),
      runs: its.runs,
      measured: its.measured,
      compared: seen?.compared ?? 0,
      wrong: seen?.wrong ?? 0,
      kinds: (its.kinds ?? [])
        .slice(0, MANIFEST_SHOWN_KINDS)
        .map(({ kind, refused, runs, steps, errors, error_at_most }) => ({
          kind,
          refused,
          runs,
          steps,
          errors,
          error_at_most,
          is_suspended:
            isSuspendedBy(orders, its.agent, kindByTools(kind)) ||
            seen?.kinds.find((one) => one.kind === kindByTools(kind))?.state === 'suspended',
        })),
    };
  });
}

type ListedAgent = Pick<
  NonNullable<StudentManifest['coverage']['agents']>[number],
  'agent' | 'tools' | 'threshold' | 'runs' | 'measured' | 'kinds'
>;

/** An agent of another version, or one of so many that the manifest has no room for. */
const UNLISTED = { tools: [], threshold: 0, runs: 0, measured: { steps: 0, served: 0, errors: 0 } };
