/** A captured run in badges: golden or why not, errors, and how much of it the student answered. Browser. */
import type { CapturedRun } from '../core/captured.ts';
import { countOf } from '../core/format.ts';
import { Badge, type Tone } from './basics.tsx';

const STATUS_TONES: Record<CapturedRun['status'], Tone> = {
  failed: 'bad',
  error: 'bad',
  running: 'warn',
  ok: 'good',
  unknown: 'plain',
};

export function RunBadges({ run }: { run: CapturedRun }) {
  const why = run.reasons.map(({ words }) => words).join('; ');
  return (
    <>
      <Badge tone={STATUS_TONES[run.status]} title={run.status_words}>
        {run.status}
      </Badge>

      {run.golden === true ? <Badge tone="good">golden</Badge> : null}
      {run.golden === false ? (
        <Badge tone="off" title={why}>
          not golden
        </Badge>
      ) : null}
      {run.mark !== null ? (
        <Badge tone={run.mark === 'good' ? 'good' : 'bad'} title={sayMark(run)}>
          marked {run.mark}
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

function sayMark({ mark, overruled }: CapturedRun): string {
  if (mark === 'bad') return 'A person says that it did not go well';
  const against = overruled.map(({ words }) => words).join('; ');
  return against === ''
    ? 'A person says that it went well'
    : `A person says that it went well, despite: ${against}`;
}
