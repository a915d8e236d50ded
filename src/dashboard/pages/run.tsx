/** One run: the six scores over its steps, the steps with their texts, and what the monitors said, as it goes on. Browser. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { MONITOR_NAMES, titleOfMonitor } from '../../domain/monitors/names.ts';
import { hrefOf } from '../core/address.ts';
import { call } from '../core/api.ts';
import { formatClock, formatNumber, formatShort, formatSpan } from '../core/format.ts';
import { useLive } from '../core/live.ts';
import { memo } from '../core/memo.ts';
import { useResource } from '../core/resource.ts';
import { type ReadRun, type Run, RunReader, type Step } from '../core/run-reader.ts';
import { isOperator, organization, server } from '../core/session.ts';
import { Badge, Id, Panel, Stat, Time } from '../ui/basics.tsx';
import { LineChart } from '../ui/chart.tsx';
import { LongText } from '../ui/long-text.tsx';
import { FiredBadges, StateBadge } from '../ui/monitor-badges.tsx';
import { Empty, Loaded } from '../ui/states.tsx';

/** From the first event of some until the run is read again. */
const SETTLE_MS = 300;
const WITHOUT_STREAM_MS = 3_000;
const WITH_STREAM_MS = 30_000;

export function RunPage({ run_id }: { run_id: string }) {
  const org_id = organization.value!.id;
  const has_stream = server.value?.has_live_stream === true;
  const reader = useMemo(() => new RunReader(org_id, run_id), [org_id, run_id]);
  const read = useResource(`run ${org_id} ${run_id}`, (signal) => reader.read(signal), {
    every_ms: has_stream ? WITH_STREAM_MS : WITHOUT_STREAM_MS,
  });
  const more = () => {
    reader.want();
    read.refresh();
  };
  return (
    <>
      <nav class="crumbs" aria-label="Way back">
        <a href={hrefOf('runs')}>Runs</a>
        <span aria-hidden="true">/</span>
        <Id id={run_id} />
      </nav>
      {has_stream ? (
        <Follow org_id={org_id} run_id={run_id} reader={reader} again={() => read.refresh()} />
      ) : null}
      <Loaded from={read} lines={12} heading="Run">
        {(known) => (
          <>
            <RunHead run={known.run} />
            <Scores {...known} />
            <Steps {...known} more={more} />
          </>
        )}
      </Loaded>
    </>
  );
}

/** Has the run read again when the stream tells of it. */
function Follow({
  org_id,
  run_id,
  reader,
  again,
}: {
  org_id: string;
  run_id: string;
  reader: RunReader;
  again: () => void;
}) {
  const due = useRef<number | undefined>(undefined);
  useEffect(() => () => clearTimeout(due.current), []);
  useLive(org_id, (messages) => {
    if (messages.some(({ event }) => event === 'reset')) reader.forget();
    else if (!messages.some(({ data }) => (data as { run_id: string | null }).run_id === run_id)) return;
    due.current ??= window.setTimeout(() => {
      due.current = undefined;
      again();
    }, SETTLE_MS);
  });
  return null;
}

function RunHead({ run }: { run: Run }) {
  const facts = [run.agent_name, run.model, run.framework, run.task_profile, run.codebase_id].filter(Boolean);
  return (
    <header class="conversation-head">
      <div class="page-head">
        <div>
          <h1 dir="auto">{run.task === '' ? run.run_id : run.task}</h1>
          <p>
            {facts.join(' · ')} · began <Time at={run.started_at} />
          </p>
        </div>
        <div class="actions">
          <ConversationLink run_id={run.run_id} />
        </div>
      </div>
      <p class="badges">
        <StateBadge status={run.status} outcome={run.outcome} />
        <FiredBadges fired={run.fired} />
        {run.experiment_id === '' ? null : (
          <a class="badge plain" href={hrefOf('experiments', run.experiment_id)}>
            {run.experiment_id}: {run.arm === '' ? 'no arm' : run.arm}
          </a>
        )}
      </p>
      {run.outcome.length > 40 ? (
        <p class="outcome" dir="auto">
          {run.outcome}
        </p>
      ) : null}
      <div class="stats slim">
        <Stat value={formatNumber(run.steps)} label="Steps" />
        <Stat value={formatSpan(run.duration_ms)} label={run.status === 'running' ? 'So far' : 'Took'} />
        <Stat value={formatShort(run.tokens)} label="Tokens" />
        <Stat value={run.max_total_score.toFixed(2)} label="Highest total score" />
      </div>
    </header>
  );
}

/** A captured conversation of the same name is this run's, where the agent labelled its requests so. */
function ConversationLink({ run_id }: { run_id: string }) {
  const captured = useResource(`captured ${run_id}`, async (signal) => {
    if (!isOperator.value) return { is_there: false };
    const { runs } = await call('GET /capture/runs', { query: { q: run_id, limit: 20 }, signal });
    return { is_there: runs.some((run) => run.run_id === run_id) };
  });
  if (captured.data.value?.is_there !== true) return null;
  return (
    <a class="button plain small" href={hrefOf('conversations', run_id)}>
      Its conversation
    </a>
  );
}

function Scores({ steps }: ReadRun) {
  const x = useMemo(() => steps.map(({ step_index }) => step_index), [steps]);
  const lines = useMemo(
    () =>
      MONITOR_NAMES.map((name, at) => ({
        label: titleOfMonitor(name),
        color: `--line-${at + 1}`,
        values: steps.map(({ scores }) => scores[name] ?? null),
      })),
    [steps],
  );
  if (steps.length === 0) return null;
  return (
    <Panel title="Scores" sub="What each monitor says of a step, from 0 to 1. A click leads to the step.">
      <LineChart
        x={x}
        lines={lines}
        label={describeScores(steps)}
        range={[0, 1]}
        onPick={(at) => showStep(x[at])}
      />
    </Panel>
  );
}

/** What the lines show, for those who do not see them. */
function describeScores(steps: readonly Step[]): string {
  const highest = MONITOR_NAMES.map((name) => {
    const values = steps.map(({ scores }) => scores[name] ?? 0);
    const most = Math.max(...values);
    return `${titleOfMonitor(name)} up to ${most.toFixed(2)}${most > 0 ? ` at step ${steps[values.indexOf(most)]!.step_index}` : ''}`;
  });
  return `Scores of ${steps.length} steps: ${highest.join(', ')}`;
}

function showStep(step_index: number | undefined): void {
  const place = document.getElementById(`step-${step_index}`);
  if (place === null) return;
  place.querySelector('details')?.setAttribute('open', '');
  place.scrollIntoView({ block: 'center' });
  place.querySelector<HTMLElement>('summary')?.focus({ preventScroll: true });
}

function Steps({ run, steps, has_more, more }: ReadRun & { more: () => void }) {
  if (steps.length === 0)
    return (
      <Panel title="Steps">
        <Empty title={run.status === 'running' ? 'Waiting for the first step.' : 'This run has no steps.'} />
      </Panel>
    );
  return (
    <section class="run-steps">
      <h2>Steps</h2>
      <ol aria-label="Steps">
        {steps.map((step) => (
          <StepRow key={step.step_index} step={step} />
        ))}
      </ol>
      {has_more ? (
        <button type="button" class="plain more" onClick={more}>
          Show more steps ({formatNumber(steps.length)} of {formatNumber(run.steps)})
        </button>
      ) : null}
    </section>
  );
}

const StepRow = memo(({ step }: { step: Step }) => {
  const { intervention } = step;
  return (
    <li id={`step-${step.step_index}`} class={step.alarm ? 'step has-fired' : 'step'}>
      <details>
        <summary>
          <span class="step-index">{step.step_index}</span>
          <span class="step-action" dir="auto">
            <b>{step.action === '' ? 'no action' : step.action}</b> {firstLine(step.action_input ?? '')}
          </span>
          <span class="badges">
            {step.is_error ? <Badge tone="bad">failed</Badge> : null}
            {step.fired.map((name) => (
              <Badge key={name} tone="warn">
                {titleOfMonitor(name)} {(step.scores[name] ?? 0).toFixed(2)}
              </Badge>
            ))}
          </span>
          <span class="number faint">{step.total_score.toFixed(2)}</span>
          <time class="faint" dateTime={step.at}>
            {formatClock(step.at)}
          </time>
        </summary>
        <StepTexts step={step} />
      </details>
      {intervention === null ? null : (
        <div class={`intervention ${intervention.level}`} role="note">
          <b>
            {intervention.level === 'stop' ? 'Stop' : 'Nudge'}: {titleOfMonitor(intervention.failure_type)}
          </b>
          <LongText text={intervention.text} lines={8} />
        </div>
      )}
    </li>
  );
});

function StepTexts({ step }: { step: Step }) {
  const parts = [
    ['Thought', step.thought, 'prose'],
    ['Input', step.action_input, 'code'],
    [step.is_error ? 'Error' : 'Observation', step.observation, 'code'],
  ] as const;
  return (
    <div class="step-texts">
      {parts
        .filter(([, text]) => text !== '')
        .map(([title, text, kind]) => (
          <section key={title}>
            <h3>{title}</h3>
            {text === null ? <p class="faint">not reported</p> : <LongText text={text} kind={kind} />}
          </section>
        ))}
      <dl class="step-scores">
        {MONITOR_NAMES.map((name) => (
          <div key={name} class={(step.fired as readonly string[]).includes(name) ? 'fired' : ''}>
            <dt>{titleOfMonitor(name)}</dt>
            <dd>{(step.scores[name] ?? 0).toFixed(2)}</dd>
          </div>
        ))}
        {step.tokens > 0 ? (
          <div>
            <dt>tokens</dt>
            <dd>{formatNumber(step.tokens)}</dd>
          </div>
        ) : null}
      </dl>
    </div>
  );
}

function firstLine(text: string): string {
  const line = text.split('\n', 1)[0] ?? '';
  return line.length > 200 ? `${line.slice(0, 199)}…` : line;
}
