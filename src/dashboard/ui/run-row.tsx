/** A run in the list, and the list's head. A captured and a reported run have the same columns. Browser. */
import { MONITOR_NAMES } from '../../domain/monitors/names.ts';
import type { SortField } from '../../domain/run-query/fields.ts';
import { hrefOf } from '../core/address.ts';
import { sayTokens } from '../core/captured.ts';
import { formatNumber, formatShort, formatSpan } from '../core/format.ts';
import { type ListedRun, type RunScope, scopeFilters } from '../core/listed-runs.ts';
import { memo } from '../core/memo.ts';
import { Time } from './basics.tsx';
import { Cost } from './cost.tsx';
import { FiredBadges } from './monitor-badges.tsx';
import { SortHeading } from './query-bar.tsx';
import { RunBadges, SourceMark, TagBadges } from './run-badges.tsx';
import { FamilyBadges } from './run-family.tsx';

/** The headings of the list of runs. @param q the query whose order the headings change; absent: they change nothing */
export function RunListHead({ q, scope }: { q?: string; scope: RunScope }) {
  const isCaptures = scope === 'captures';
  return (
    <div class="run-row run-head">
      <span>Task</span>
      <span class="run-model">Model, agent</span>
      <span class="number">
        {isCaptures ? <Heading q={q} field="turns" title="Turns" /> : null}
        <Heading q={q} field="steps" title="Steps" />
      </span>
      <span class="number">
        {isCaptures ? <Heading q={q} field="cost" title="Cost" /> : null}
        <Heading q={q} field="tokens" title="Tokens" />
      </span>
      <span class="number run-score">
        <Heading q={q} field="score" title="Score" />
      </span>
      <span class="number">
        <Heading q={q} field="started" title="Began" />
        <Heading q={q} field="duration" title="Took" />
      </span>
      <span class="run-head-state">
        <span>State</span>
        {isCaptures ? <Heading q={q} field="errors" title="Errors" /> : null}
      </span>
    </div>
  );
}

function Heading({ q, field, title }: { q: string | undefined; field: SortField; title: string }) {
  if (q === undefined) return <span>{title}</span>;
  return (
    <SortHeading q={q} field={field}>
      {title}
    </SortHeading>
  );
}

export const RunRow = memo(({ run }: { run: ListedRun }) => {
  const { run_id, reported, models, agent } = run;
  const isPart = run.parent_run_id !== null;
  // A found text links to the turn that contains it.
  const place: Record<string, string> =
    run.found === undefined ? {} : { turn: String(run.found.exchange_id) };
  return (
    <a
      class={`run-row ${isPart ? 'part' : ''}`}
      href={hrefOf('runs', run_id, { ...scopeFilters(), ...place })}
    >
      <span class="run-task">
        <b dir="auto">{sayTask(run)}</b>
        {run.found === undefined ? (
          <span class="faint">
            <SourceMark run={run} />
            <span class="run-model-beside">{models.join(', ')}</span> {describe(run)}
          </span>
        ) : (
          <FoundText found={run.found} />
        )}
      </span>
      <span class="run-model">
        <span>{models.join(', ') || '–'}</span>
        <span class="faint">{agent}</span>
      </span>
      <span class="number run-size">
        {run.is_captured ? <span>{countTurns(run.turns)}</span> : null}
        {reported === null ? null : <span>{countSteps(reported.steps)}</span>}
      </span>
      <span class="number run-used">
        {run.is_captured ? (
          <span class="run-cost">
            <Cost of={run} />
          </span>
        ) : null}
        <span class="faint run-tokens">{sayUsed(run)}</span>
      </span>
      <span
        class="number run-score"
        title={`Highest total score of a step: the weighted mean of the ${MONITOR_NAMES.length} monitors`}
      >
        {reported === null || reported.steps === 0 ? '' : reported.max_total_score.toFixed(2)}
      </span>
      <span class="number run-when">
        <Time at={run.started_at} />
        <span class="faint">{sayTook(run)}</span>
      </span>
      <span class="run-state">
        <RunBadges run={run} isShort />
        {reported === null ? null : <FiredBadges fired={reported.fired} />}
        <FamilyBadges run={run} />
        <TagBadges tags={[...run.tags, ...run.request_tags]} />
      </span>
    </a>
  );
});

/** Maximum number of characters shown before a match. With more, the match would be outside the column. */
const BEFORE_CHARACTERS = 40;

function FoundText({ found: { place, before, match, after } }: { found: NonNullable<ListedRun['found']> }) {
  const cut = before.length > BEFORE_CHARACTERS;
  return (
    <span class="faint" dir="auto">
      {place.replaceAll('_', ' ')}: {cut ? `…${before.slice(-BEFORE_CHARACTERS)}` : before}
      <mark>{match}</mark>
      {after}
    </span>
  );
}

function sayTask({ task, run_id, is_captured }: ListedRun) {
  if (task === null) return <i class="faint">not read yet</i>;
  if (task !== '') return task;
  return is_captured ? <i class="faint">no text</i> : run_id;
}

function describe({ run_id, notes, reported }: ListedRun): string {
  const other = reported !== null && reported.run_id !== run_id ? reported.run_id : '';
  return [run_id, other, ...notes, reported?.codebase_id ?? ''].filter(Boolean).join(' · ');
}

const countTurns = (turns: number) => `${formatNumber(turns)} ${turns === 1 ? 'turn' : 'turns'}`;
const countSteps = (steps: number) => `${formatNumber(steps)} ${steps === 1 ? 'step' : 'steps'}`;

function sayUsed(run: ListedRun): string {
  if (run.is_captured) return sayTokens(run);
  const tokens = run.reported?.tokens ?? 0;
  return tokens === 0 ? '' : `${formatShort(tokens)} tokens`;
}

/** Says how long a run took; '' for a reported run that is still running. */
function sayTook({ is_captured, reported, duration_ms }: ListedRun): string {
  return is_captured || reported?.is_finished === true ? formatSpan(duration_ms) : '';
}
