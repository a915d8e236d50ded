/**
 * Badges of a run: how it ended, its sources, golden or why not, errors, and the student's share. Browser.
 */
import type { CapturedRun } from '../core/captured.ts';
import { countOf } from '../core/format.ts';
import { Badge, type Tone } from './basics.tsx';

/** Maximum number of tags beside a run in a list. */
const SHOWN_TAGS = 3;

const BADGE_CHARACTERS = 40;

const STATUS_TONES: Record<CapturedRun['status'], Tone> = {
  failed: 'bad',
  error: 'bad',
  running: 'warn',
  ok: 'good',
  unknown: 'plain',
};

const GOLDEN_MEANS =
  'Golden: complete, read exactly, and no sign that it went wrong. A student learns only from golden runs.';

/** The sources of a run: captured traffic, reports of the agent, or both. */
export function SourceMark({ run: { is_captured, reported } }: { run: CapturedRun }) {
  const words = is_captured ? (reported === null ? 'captured' : 'captured, reported') : 'reported';
  return <span class="run-source">{words}</span>;
}

/** Shows a run's state in badges. @param isShort whether to leave out badges that most runs have, as in a list */
export function RunBadges({ run, isShort = false }: { run: CapturedRun; isShort?: boolean }) {
  const why = run.reasons.map(({ words }) => words).join('; ');
  return (
    <>
      <StatusBadge run={run} isShort={isShort} />
      {run.mark !== null ? (
        <Badge tone={run.mark === 'good' ? 'good' : 'bad'} title={sayMark(run)}>
          marked {run.mark}
        </Badge>
      ) : null}
      {run.golden === true ? (
        <Badge tone="good" title={GOLDEN_MEANS}>
          golden
        </Badge>
      ) : null}
      {run.golden === false && run.is_captured && !isShort ? (
        <Badge tone="off" title={`${why}. ${GOLDEN_MEANS}`}>
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

/** The first SHOWN_TAGS tags, in a list. They come last, so that badges about problems have room. */
export function TagBadges({ tags }: { tags: readonly string[] }) {
  return (
    <>
      {tags.slice(0, SHOWN_TAGS).map((tag) => (
        <Badge key={tag} tone="plain" title={`tag ${tag}`}>
          {tag}
        </Badge>
      ))}
    </>
  );
}

/** The state of a run: the reported outcome if it is neither success nor failure, otherwise the status. */
function StatusBadge({
  run: { status, status_words, outcome },
  isShort,
}: {
  run: CapturedRun;
  isShort: boolean;
}) {
  // The page of a run shows a long outcome below.
  const isTold =
    outcome !== null &&
    outcome !== '' &&
    !/^(?:success|failure)$/i.test(outcome) &&
    (isShort || outcome.length <= BADGE_CHARACTERS);
  return (
    <Badge tone={STATUS_TONES[status]} title={isTold ? outcome : status_words}>
      {isTold ? outcome : status}
    </Badge>
  );
}

function sayMark({ mark, overruled }: CapturedRun): string {
  if (mark === 'bad') return 'A person marked it as bad';
  const against = overruled.map(({ words }) => words).join('; ');
  return against === ''
    ? 'A person says that it went well'
    : `A person marked it as good, despite: ${against}`;
}
