/**
 * Describes why a student does not serve a kind of answer and what would change that, for reports, commands and
 * screens. Pure; any thread.
 */

/** What golden runs showed about a kind of answer, and why it is not served. */
interface RefusedKind {
  refused: 'too_few' | 'too_wrong' | 'never_serve' | null;
  /** Golden runs and steps that count as evidence, and the wrong steps among them. */
  runs: number;
  steps: number;
  errors: number;
  /**
   * Golden runs for which the student had an answer of this kind, at any score; absent in older manifests.
   */
  seen_runs?: number | null | undefined;
  /** Golden runs needed if all further runs are right; absent in older manifests. */
  needed_runs?: number | null | undefined;
}

/** If more golden runs than this are needed, the text does not advise recording them. */
const ADVISED_RUNS = 1_000;

/** Describes in two clauses why the kind is not served, and what would change that; null for a kind that is served. */
export function describeKindRefusal(kind: RefusedKind): { why: string; remedy: string } | null {
  switch (kind.refused) {
    case null:
      return null;
    case 'never_serve':
      return {
        why: 'an operator excluded it',
        remedy: 'would be served if a round ran without --never-serve for its tool',
      };
    case 'too_few':
      return describeFew(kind);
    case 'too_wrong':
      return describeWrong(kind);
  }
}

function describeFew({ runs, steps, errors, seen_runs, needed_runs }: RefusedKind) {
  const needed = needed_runs ?? null;
  const seen = Math.max(runs, seen_runs ?? 0);
  const enough = needed === null ? 'more golden runs had it' : `${number(needed)} golden runs had it`;
  if (errors > 0)
    return {
      why: `wrong in ${number(errors)} of ${number(steps)} golden steps`,
      remedy: `would be served if ${enough} and no further one were wrong`,
    };
  if (seen > runs)
    return {
      why: `of ${countRuns(seen)} with it, ${runs === 0 ? 'none is' : `only ${number(runs)} ${runs === 1 ? 'is' : 'are'}`} near enough to another one`,
      remedy: `would be served if ${needed === null ? 'more' : number(needed)} golden runs were alike`,
    };
  return { why: `only ${countRuns(runs)} had it`, remedy: `would be served if ${enough}` };
}

function describeWrong({ steps, errors, needed_runs }: RefusedKind) {
  const needed = needed_runs ?? Number.POSITIVE_INFINITY;
  const remedy =
    needed <= ADVISED_RUNS
      ? `would be served if ${number(needed)} golden runs had it and no further one were wrong`
      : 'would be served if golden runs answered such steps alike';
  // A kind may also fail on held-out runs, whose errors are not counted here.
  if (errors === 0) return { why: 'wrong too often in held-out runs', remedy };
  return { why: `wrong in ${number(errors)} of ${number(steps)} golden steps`, remedy };
}

function countRuns(runs: number): string {
  return runs === 0 ? 'no golden run' : runs === 1 ? '1 golden run' : `${number(runs)} golden runs`;
}

function number(n: number): string {
  return n.toLocaleString('en-US');
}
