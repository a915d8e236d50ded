/** A captured run in badges: golden or why not, errors, and how much of it the student answered. Browser. */
import type { CapturedRun } from '../core/captured.ts';
import { countOf } from '../core/format.ts';
import { Badge } from './basics.tsx';

export function RunBadges({ run }: { run: CapturedRun }) {
  const why = run.reasons.map(({ words }) => words).join('; ');
  return (
    <>
      {run.golden === true ? <Badge tone="good">golden</Badge> : null}
      {run.golden === false ? (
        <Badge tone="off" title={why}>
          not golden
        </Badge>
      ) : null}
      {run.student_turns > 0 ? (
        <Badge tone="student" title={`The student answered ${run.student_turns} of ${run.turns} turns`}>
          student {run.student_turns}/{run.turns}
        </Badge>
      ) : null}
      {run.errors > 0 ? <Badge tone="bad">{countOf(run.errors, 'error')}</Badge> : null}
      {run.aborted > 0 ? <Badge tone="warn">{run.aborted} broken off</Badge> : null}
      {run.gaps.length > 0 ? <Badge tone="warn">{countOf(run.gaps.length, 'gap')}</Badge> : null}
    </>
  );
}
