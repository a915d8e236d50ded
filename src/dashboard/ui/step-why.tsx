/**
 * Why the student did or did not answer a step: the decision, what was new in the step, and both answers side by
 * side. The explanation is read when the reader opens it. Browser.
 */
import { useState } from 'preact/hooks';
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { countOf, formatShare } from '../core/format.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { useResource } from '../core/resource.ts';
import { Badge } from './basics.tsx';
import { Loaded } from './states.tsx';

type Explanation = Reply<'GET /capture/exchanges/{id}/explanation'>;
type Opinion = NonNullable<Explanation['opinion']>;
export type Step = Reply<'GET /capture/steps'>['steps'][number];
type Comparison = NonNullable<Step['comparison']>;

/** Decisions that are no refusals: the student had an answer, and the upstream answered too. */
const COMPARED = new Set(['audit', 'would_serve']);

export function StepWhy({
  exchange_id,
  relegation: { decision, words },
}: {
  exchange_id: number;
  relegation: Step['relegation'];
}) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="fold step-why" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {COMPARED.has(decision) ? 'What the student said' : 'Why the student did not answer'}
        <span class="faint"> {words}</span>
      </summary>
      {isOpen ? <WholeExplanation exchange_id={exchange_id} /> : null}
    </details>
  );
}

export function WholeExplanation({ exchange_id }: { exchange_id: number }) {
  const explanation = useResource(`explanation ${exchange_id}`, (signal) =>
    call('GET /capture/exchanges/{id}/explanation', { params: { id: exchange_id }, signal }),
  );
  return (
    <Loaded from={explanation} lines={3}>
      {({ opinion, problem, comparison, not_asked }) => (
        <>
          {not_asked === '' ? null : <p>No student was asked: {not_asked}.</p>}
          {comparison === null ? null : <SideBySide comparison={comparison} />}
          {opinion === null ? (
            <p class="faint">{problem === '' ? 'There is no student to ask.' : `No opinion: ${problem}.`}</p>
          ) : (
            <OpinionView opinion={opinion} />
          )}
        </>
      )}
    </Loaded>
  );
}

/** The student version's judgement, and what is new compared with golden steps. */
function OpinionView({ opinion }: { opinion: Opinion }) {
  const { version, decision, rule, remedy, kind, support, nearest, new_things } = opinion;
  return (
    <div class="opinion">
      <p>
        <Badge tone={decision === 'covered' ? 'student' : 'off'}>version {version}</Badge> {rule}.
        {remedy === '' ? '' : ` It ${remedy}.`}
        {kind === null ? '' : ' Its answer would be '}
        {kind === null ? null : <code>{kind}</code>}
        {kind === null ? '' : `, as in ${countOf(support, 'golden run')}.`}
      </p>
      {nearest === null ? null : (
        <p class="faint">
          Nearest golden step:{' '}
          {nearest.exchange_id === null ? 'not kept' : <ExchangeLink exchange_id={nearest.exchange_id} />},{' '}
          {formatShare(nearest.distance, 1)} of the informative marks differ
          {nearest.answers.length === 0
            ? '.'
            : `; answered ${nearest.answers
                .slice(0, 3)
                .map(({ kind, runs }) => `${kind ?? 'a unique answer'} (${countOf(runs, 'run')})`)
                .join(', ')}.`}
        </p>
      )}
      {new_things.length === 0 ? null : (
        <>
          <h4>What was new in it</h4>
          <ul class="new-things">
            {new_things.map(({ place, value }, at) => (
              <li key={at}>
                <code>{place}</code> {value === null ? <i class="faint">missing</i> : value}
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

/** Links to an exchange in its run, which is looked up first. Shows the id alone if the run is not known. */
function ExchangeLink({ exchange_id }: { exchange_id: number }) {
  const exchange = useResource(`place of ${exchange_id}`, (signal) =>
    call('GET /capture/exchanges/{id}', { params: { id: exchange_id }, signal }),
  );
  const run_id = exchange.data.value?.run_id ?? null;
  if (run_id === null) return <>exchange {exchange_id}</>;
  return <a href={hrefOfCaptured(run_id, { turn: String(exchange_id) })}>exchange {exchange_id}</a>;
}

/** Shows both answers, value by value. If some values differ, shows only these values, and counts the equal ones. */
export function SideBySide({ comparison: { agree, values } }: { comparison: Comparison }) {
  const differing = values.filter(({ student, upstream }) => student !== upstream);
  const shown = differing.length > 0 ? differing : values;
  const alike = values.length - shown.length;
  return (
    <div class="side-by-side">
      <table aria-label="Both answers">
        <thead>
          <tr>
            <th scope="col">
              <Badge tone={agree ? 'good' : 'bad'}>{agree ? 'agree' : 'disagree'}</Badge>
            </th>
            <th scope="col">Student</th>
            <th scope="col">Upstream</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ place, student, upstream }) => (
            <tr key={place} class={student === upstream ? '' : 'differs'}>
              <th scope="row">{place}</th>
              <td data-heading="Student">{student ?? <i class="faint">nothing</i>}</td>
              <td data-heading="Upstream">{upstream ?? <i class="faint">nothing</i>}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {alike > 0 ? <p class="faint">{countOf(alike, 'further value')} alike.</p> : null}
    </div>
  );
}
