/** The steps that an agent reported, with their texts, scores and interventions. Browser. */
import { MONITOR_NAMES, titleOfMonitor } from '../../domain/monitors/names.ts';
import { formatClock, formatNumber } from '../core/format.ts';
import { memo } from '../core/memo.ts';
import type { ReadRun, Step } from '../core/run-reader.ts';
import { Badge, Panel } from './basics.tsx';
import { LongText } from './long-text.tsx';
import { Empty } from './states.tsx';

/** Opens a step and scrolls to it. Does nothing if the page does not contain the step. */
export function showStep(step_index: number | undefined): void {
  const place = document.getElementById(`step-${step_index}`);
  if (place === null) return;
  place.querySelector('details')?.setAttribute('open', '');
  place.scrollIntoView({ block: 'center' });
  place.querySelector<HTMLElement>('summary')?.focus({ preventScroll: true });
}

export function Steps({ run, steps, has_more, more }: ReadRun & { more: () => void }) {
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
