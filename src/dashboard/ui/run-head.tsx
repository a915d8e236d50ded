/** The head of a run's page: its task, its outcome, and its captured and reported figures. Browser. */

import { readForkTags } from '../../domain/fork-tags.ts';
import { titleOfMonitor } from '../../domain/monitors/names.ts';
import { hrefOf } from '../core/address.ts';
import { call } from '../core/api.ts';
import { type CapturedRun, sayTokens } from '../core/captured.ts';
import { ConversationReader, type ReadConversation } from '../core/conversation-reader.ts';
import { formatNumber, formatShort, formatSpan } from '../core/format.ts';
import type { ListedRun } from '../core/listed-runs.ts';
import { writeMarkdown } from '../core/markdown.ts';
import type { ReadRun, Run } from '../core/run-reader.ts';
import type { WholeRun } from '../core/whole-run.ts';
import { Badge, CopyButton, Stat, Time } from './basics.tsx';
import { saveFile } from './copy.ts';
import { Cost, sayCost } from './cost.tsx';
import { FiredBadges } from './monitor-badges.tsx';
import { act } from './notice.tsx';
import { RunBadges, SourceMark, TagBadges } from './run-badges.tsx';
import { RunEnd } from './run-end.tsx';
import { RunFamily } from './run-family.tsx';
import { RunNotes } from './run-notes.tsx';
import { findHighest } from './run-scores.tsx';

export function RunHead({ refresh, ...parts }: WholeRun & { refresh: () => void }) {
  const { run, conversation, reported } = parts;
  const outcome = run.outcome ?? '';
  return (
    <header class="conversation-head">
      <div class="page-head">
        <div>
          <h1 dir="auto">{run.task === null || run.task === '' ? run.run_id : run.task}</h1>
          <p>
            {listFacts(run, reported?.run ?? null)} · began <Time at={run.started_at} />
          </p>
        </div>
        {conversation === null ? null : (
          <div class="actions">
            <MarkButtons run={run} refresh={refresh} />
            <CompareLink run={run} />
            <CopyButton text={() => writeMarkdown(run, conversation.turns)} label="Copy as Markdown" />
            <button type="button" class="plain small" onClick={() => exportAll(run.run_id)}>
              Export JSON
            </button>
          </div>
        )}
      </div>
      <p class="badges">
        <Badge>
          <SourceMark run={run} />
        </Badge>
        <RunBadges run={run} />
        {reported === null ? null : <FiredBadges fired={reported.run.fired} />}
        <ExperimentBadge run={run} />
        <TagBadges tags={run.request_tags} />
      </p>
      <RunNotes run={run} refresh={conversation === null ? null : refresh} />
      <RunEnd run={run} turns={conversation?.turns ?? []} />
      {outcome.length > LONG_OUTCOME && !run.status_words.includes(outcome) ? (
        <p class="outcome" dir="auto">
          {outcome}
        </p>
      ) : null}
      <Figures {...parts} />
      {conversation === null ? null : (
        <>
          <RunFamily run={run} parent_is_captured={conversation.parent_is_captured} />
          <Golden run={run} />
        </>
      )}
    </header>
  );
}

/** An outcome with more characters is shown as a paragraph. */
const LONG_OUTCOME = 40;

/**
 * Links to the comparison of a fork with the run that it continues. For any other run, the reader chooses the second.
 */
function CompareLink({ run: { run_id, request_tags } }: { run: CapturedRun }) {
  const fork = readForkTags(request_tags);
  const runs: Record<string, string> = fork === null ? { a: run_id } : { a: fork.run_id, b: run_id };
  return (
    <a class="button plain small" href={hrefOf('compare', null, runs)}>
      {fork === null ? 'Compare with…' : 'Compare with its original'}
    </a>
  );
}

function listFacts(run: ListedRun, reported: Run | null): string {
  const { models, providers, notes, agent } = run;
  const facts = [
    ...(models.length === 0 ? ['no model answered'] : models),
    ...providers,
    ...notes,
    agent,
    ...(reported === null ? [] : [reported.framework, reported.task_profile, reported.codebase_id]),
  ];
  return [...new Set(facts)].filter(Boolean).join(' · ');
}

function ExperimentBadge({ run: { reported } }: { run: ListedRun }) {
  if (reported === null || reported.experiment_id === '') return null;
  return (
    <a class="badge plain" href={hrefOf('experiments', reported.experiment_id)}>
      {reported.experiment_id}: {reported.arm === '' ? 'no arm' : reported.arm}
    </a>
  );
}

function Figures({ run, conversation, reported }: WholeRun) {
  const isOver = run.reported === null || run.reported.is_finished || run.is_captured;
  return (
    <div class="stats slim">
      {conversation === null ? null : (
        <Stat value={formatNumber(run.turns)} label="Turns" sub={sayOthers(run)} />
      )}
      {reported === null ? null : <Stat value={formatNumber(reported.run.steps)} label="Steps" />}
      <Stat
        value={formatSpan(run.duration_ms)}
        label={isOver ? 'Took' : 'So far'}
        sub={conversation === null ? undefined : sayWaiting(conversation)}
      />
      {conversation === null ? (
        <Stat value={formatShort(run.reported?.tokens ?? 0)} label="Tokens" sub="as reported" />
      ) : (
        <CapturedStats run={run} />
      )}
      {reported === null ? null : <HighestScore {...reported} />}
    </div>
  );
}

function CapturedStats({ run }: { run: CapturedRun }) {
  const cached = run.cache_read_tokens ?? 0;
  return (
    <>
      <Stat
        value={sayTokens(run)}
        label="Tokens in and out"
        sub={cached > 0 ? `${formatShort(cached)} from the cache` : undefined}
      />
      <Stat value={<Cost of={run} />} label="Cost" sub={sayCost(run, run.student_turns)} />
      <Stat value={formatNumber(run.errors)} label="Errors" tone={run.errors > 0 ? 'bad' : 'plain'} />
    </>
  );
}

/** The highest score of a single monitor in the read steps, and the run's highest weighted mean over all monitors. */
function HighestScore({ run, steps }: ReadRun) {
  const highest = findHighest(steps);
  if (highest === null) return null;
  const { name, score, step_index } = highest;
  const total = `weighted total ${run.max_total_score.toFixed(2)}`;
  const where =
    score === 0 ? 'all monitors scored 0' : `${titleOfMonitor(name)}, step ${step_index}; ${total}`;
  return <Stat value={score.toFixed(2)} label="Highest score" sub={where} />;
}

function sayOthers({ exchanges, turns }: CapturedRun): string | undefined {
  const others = exchanges - turns;
  return others > 0 ? `and ${formatNumber(others)} other requests` : undefined;
}

function sayWaiting({ turns }: ReadConversation): string | undefined {
  const waited = turns.reduce((sum, { latency_ms }) => sum + latency_ms, 0);
  return turns.length > 0 ? `${formatSpan(waited)} waiting` : undefined;
}

const exportAll = (run_id: string) =>
  act(async () => {
    const whole = new ConversationReader(run_id);
    whole.want(Number.POSITIVE_INFINITY);
    const { run, turns } = await whole.read(new AbortController().signal);
    saveFile(
      `conversation-${run_id.replaceAll(/[^\w.-]+/g, '-')}.json`,
      'application/json',
      JSON.stringify({ run, turns }, null, 2),
    );
  });

/** The meaning of golden, and the reasons against it. */
function Golden({ run: { golden, reasons } }: { run: CapturedRun }) {
  if (golden === null) return null;
  return (
    <details class="fold reasons">
      <summary>{golden ? 'What golden means' : 'Why it is not golden'}</summary>
      <p>
        A golden run is complete, was read exactly, and shows no sign that it went wrong. A student learns
        from golden runs alone. <a href="/docs/guides/traces#when-a-run-is-golden">The rules</a>
      </p>
      {golden ? null : (
        <ul>
          {reasons.map(({ words, difference }) => (
            <li key={words}>
              {words}
              {difference === undefined ? null : (
                <dl class="difference">
                  <dt>Read</dt>
                  <dd dir="auto">{difference.read}</dd>
                  <dt>Repeated</dt>
                  <dd dir="auto">{difference.repeated}</dd>
                </dl>
              )}
            </li>
          ))}
        </ul>
      )}
    </details>
  );
}

/** Buttons to mark the run as good or bad. The button of the present mark removes the mark. */
function MarkButtons({ run: { run_id, mark }, refresh }: { run: CapturedRun; refresh: () => void }) {
  const say = async (next: CapturedRun['mark']) => {
    const ask = { params: { id: run_id }, body: { mark: next === mark ? null : next } };
    if (await act(() => call('POST /capture/runs/{id}/mark', ask))) refresh();
  };
  return (
    <>
      {(['good', 'bad'] as const).map((choice) => (
        <button
          key={choice}
          type="button"
          class="plain small"
          aria-pressed={mark === choice}
          title={mark === choice ? 'Take the mark away' : undefined}
          onClick={() => say(choice)}
        >
          {mark === choice ? `Marked ${choice}` : `Mark ${choice}`}
        </button>
      ))}
    </>
  );
}
