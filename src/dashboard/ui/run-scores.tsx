/** The scores of the monitors over a run's steps, and the interventions. Browser. */
import { useMemo } from 'preact/hooks';
import { MONITOR_NAMES, type MonitorName, titleOfMonitor } from '../../domain/monitors/names.ts';
import { countOf } from '../core/format.ts';
import type { ReadRun, Step } from '../core/run-reader.ts';
import { Panel } from './basics.tsx';
import { LineChart } from './chart.tsx';

/** Draws the monitors' scores over the steps of a run. @param show scrolls to a step */
export function Scores({
  steps,
  show,
}: Pick<ReadRun, 'steps'> & { show: (step_index: number | undefined) => void }) {
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
  if (findHighest(steps)?.score === 0)
    return <Panel title="Scores" sub={`All monitors scored 0 in ${countOf(steps.length, 'step')}.`} />;
  return (
    <Panel title="Scores" sub="Each monitor's score of a step, from 0 to 1. Click to see the step.">
      <LineChart
        x={x}
        lines={lines}
        label={describeScores(steps)}
        range={[0, 1]}
        onPick={(at) => show(x[at])}
      />
      <Interventions steps={steps} show={show} />
    </Panel>
  );
}

/** The interventions, each with a link to its step. */
function Interventions({
  steps,
  show,
}: {
  steps: readonly Step[];
  show: (step_index: number | undefined) => void;
}) {
  const said = steps.flatMap(({ step_index, intervention }) =>
    intervention === null ? [] : [{ step_index, ...intervention }],
  );
  if (said.length === 0) return null;
  return (
    <ul class="said-to-agent" aria-label="What the monitors said to the agent">
      {said.map(({ step_index, level, failure_type, text }) => (
        <li key={step_index}>
          <button type="button" class="quiet small" onClick={() => show(step_index)}>
            Step {step_index}
          </button>
          <span>
            <b class={level === 'stop' ? 'said-level is-stop' : 'said-level'}>
              {level === 'stop' ? 'Stop' : 'Nudge'}: {titleOfMonitor(failure_type as MonitorName)}
            </b>{' '}
            <span dir="auto">{text.split('\n', 1)[0]}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

/** The highest score of a single monitor, and its step; null: there are no steps. */
export function findHighest(
  steps: readonly Step[],
): { name: MonitorName; score: number; step_index: number } | null {
  let highest: { name: MonitorName; score: number; step_index: number } | null = null;
  for (const { step_index, scores } of steps)
    for (const name of MONITOR_NAMES) {
      const score = scores[name] ?? 0;
      if (highest === null || score > highest.score) highest = { name, score, step_index };
    }
  return highest;
}

/** A description of the lines for screen readers. */
function describeScores(steps: readonly Step[]): string {
  const highest = MONITOR_NAMES.map((name) => {
    const values = steps.map(({ scores }) => scores[name] ?? 0);
    const most = Math.max(...values);
    return `${titleOfMonitor(name)} up to ${most.toFixed(2)}${most > 0 ? ` at step ${steps[values.indexOf(most)]!.step_index}` : ''}`;
  });
  return `Scores of ${steps.length} steps: ${highest.join(', ')}`;
}
