/**
 * Steps that show a student's limits: steps that the student would have answered differently from the upstream, and
 * steps that it left to the upstream. Browser.
 */
import { useState } from 'preact/hooks';
import { countOf } from '../core/format.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { useResource } from '../core/resource.ts';
import { readSteps } from '../core/step-reader.ts';
import { Badge, Panel, Time } from './basics.tsx';
import { Empty, Loaded } from './states.tsx';
import { SideBySide, type Step, WholeExplanation } from './step-why.tsx';

const EVERY_MS = 15_000;
const STEPS = 10;
const STEPS_MAX = 100;
/** Number of the newest refused steps whose reasons are counted. */
const REFUSED = 60;

/** Names of agent variants. */
type Names = ReadonlyMap<string, string>;

/** Steps with two known, different answers, side by side. */
export function Disagreements({ names }: { names: Names }) {
  const [wanted, want] = useState(STEPS);
  const list = useResource(`steps disagreed ${wanted}`, (signal) => readSteps('disagreed', wanted, signal), {
    every_ms: EVERY_MS,
  });
  return (
    <Panel
      title="Disagreements"
      sub="Steps that the upstream served for comparison, where the student would have answered something else."
    >
      <Loaded from={list} lines={4}>
        {({ steps, has_more }) =>
          steps.length === 0 ? (
            <Empty title="No recent audit disagreed with the student." />
          ) : (
            <>
              <ul class="told-steps">
                {steps.map((step) => (
                  <li key={step.exchange_id} class="told-step">
                    <StepHead step={step} names={names} />
                    {step.comparison === null ? null : <SideBySide comparison={step.comparison} />}
                  </li>
                ))}
              </ul>
              {has_more && steps.length >= wanted && wanted < STEPS_MAX ? (
                <button
                  type="button"
                  class="plain more"
                  onClick={() => want(Math.min(STEPS_MAX, wanted + 2 * STEPS))}
                >
                  Show more
                </button>
              ) : null}
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}

/** Steps that the student left to the upstream, by reason. */
export function RefusedSteps({ names }: { names: Names }) {
  const list = useResource('steps refused', (signal) => readSteps('refused', REFUSED, signal), {
    every_ms: EVERY_MS,
  });
  return (
    <Panel
      title="Left to the upstream"
      sub={`The reasons for the newest ${REFUSED} steps that the student did not serve. Open a step to see what was new in it.`}
    >
      <Loaded from={list} lines={4}>
        {({ steps }) =>
          steps.length === 0 ? (
            <Empty title="The student served every recent step that it was asked to answer." />
          ) : (
            <ul class="told-steps">
              {groupByReason(steps).map((group) => (
                <RefusedGroup
                  key={`${group[0].relegation.decision} ${group[0].relegation.kind}`}
                  steps={group}
                  names={names}
                />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}

type Group = [Step, ...Step[]];

/** Groups steps by reason and kind of answer. The largest group comes first. */
function groupByReason(steps: readonly Step[]): Group[] {
  const groups = new Map<string, Group>();
  for (const step of steps) {
    const name = `${step.relegation.decision} ${step.relegation.kind}`;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [step]);
    else group.push(step);
  }
  return [...groups.values()].sort((a, b) => b.length - a.length);
}

function RefusedGroup({ steps, names }: { steps: Group; names: Names }) {
  const { words, remedy, kind } = steps[0].relegation;
  return (
    <li class="told-step">
      <details class="fold">
        <summary>
          {words} {kind === null ? null : <code>{kind}</code>}{' '}
          <span class="faint">{countOf(steps.length, 'step')}</span>
        </summary>
        {remedy === '' ? null : <p class="faint">Such a step {remedy}.</p>}
        <ul class="told-steps">
          {steps.slice(0, STEPS).map((step) => (
            <Refused key={step.exchange_id} step={step} names={names} />
          ))}
        </ul>
      </details>
    </li>
  );
}

function Refused({ step, names }: { step: Step; names: Names }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li class="told-step">
      <StepHead step={step} names={names} />
      <details class="fold" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>What was new in it</summary>
        {isOpen ? <WholeExplanation exchange_id={step.exchange_id} /> : null}
      </details>
    </li>
  );
}

/** Place and time of a step. */
function StepHead({ step, names }: { step: Step; names: Names }) {
  const { exchange_id, run_id, started_at, relegation } = step;
  return (
    <p class="step-head faint">
      {run_id === null ? (
        <>exchange {exchange_id}</>
      ) : (
        <a href={hrefOfCaptured(run_id, { turn: String(exchange_id) })}>{run_id}</a>
      )}{' '}
      <Time at={started_at} />{' '}
      {relegation.agent === null ? null : (
        <Badge title={`Agent variant ${relegation.agent}`}>
          {names.get(relegation.agent) ?? relegation.agent.slice(0, 12)}
        </Badge>
      )}{' '}
      {relegation.student_version === null ? null : <>version {relegation.student_version}</>}
    </p>
  );
}
