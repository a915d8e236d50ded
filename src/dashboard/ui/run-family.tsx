/** Runs that belong together: the parent and the children of a run. Browser. */
import { quoteValue } from '../../domain/run-query/words.ts';
import type { CapturedRun } from '../core/captured.ts';
import { countOf } from '../core/format.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { Badge } from './basics.tsx';

/** What a run does within another run. */
const KINDS: Readonly<Record<NonNullable<CapturedRun['kind']>, string>> = {
  subagent: 'sub-agent',
  title: 'makes a title',
  summary: 'makes a summary',
  safety_check: 'safety check',
  side_call: 'side call',
};

function sayKind(kind: CapturedRun['kind']): string {
  return kind === null ? 'part of another run' : KINDS[kind];
}

/** Badges of a run in a list: whether the run has a parent run, and the number of its child runs. */
export function FamilyBadges({ run }: { run: CapturedRun }) {
  const { parent_run_id, kind, child_runs } = run;
  return (
    <>
      {parent_run_id === null ? null : <Badge title={`Part of ${parent_run_id}`}>{sayKind(kind)}</Badge>}
      {child_runs.length === 0 ? null : (
        <Badge title={child_runs.map(({ run_id }) => run_id).join('\n')}>
          {countOf(child_runs.length, 'child run')}
        </Badge>
      )}
    </>
  );
}

/** Links on the page of a run: to the parent run, the child runs and all runs of the session. */
export function RunFamily({ run, parent_is_captured }: { run: CapturedRun; parent_is_captured: boolean }) {
  const { run_id, session_id, parent_run_id, kind, child_runs } = run;
  const hasSession = session_id !== null && (session_id !== run_id || child_runs.length > 0);
  if (parent_run_id === null && child_runs.length === 0 && !hasSession) return null;
  return (
    <nav class="family" aria-label="Runs that belong together">
      {parent_run_id === null ? null : (
        <p>
          <Badge>{sayKind(kind)}</Badge> Part of{' '}
          {parent_is_captured ? (
            <a href={hrefOfCaptured(parent_run_id)}>{parent_run_id}</a>
          ) : (
            <>
              <span>{parent_run_id}</span>, which is missing: none of it passed this gateway, or it was
              deleted by age
            </>
          )}
        </p>
      )}
      {child_runs.length === 0 ? null : (
        <details class="fold" open={child_runs.length <= 5}>
          <summary>{countOf(child_runs.length, 'child run')}</summary>
          <ul>
            {child_runs.map((child) => (
              <li key={child.run_id}>
                <Badge>{sayKind(child.kind)}</Badge> <a href={hrefOfCaptured(child.run_id)}>{child.run_id}</a>
              </li>
            ))}
          </ul>
        </details>
      )}
      {hasSession ? (
        <p>
          <a href={hrefOfCaptured(null, { q: `session:=${quoteValue(session_id, false)}` })}>
            All runs of its session
          </a>
        </p>
      ) : null}
    </nav>
  );
}
