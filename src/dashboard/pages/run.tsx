/**
 * One run, by any of its ids: its captured conversation, its reported scores and steps, and its cost, updated
 * while it runs. Browser.
 */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { filterOf, hrefOf, setFilters } from '../core/address.ts';
import { scopeFilters, scopeOf } from '../core/listed-runs.ts';
import { useLive } from '../core/live.ts';
import { useResource } from '../core/resource.ts';
import { isOperator, organization, server } from '../core/session.ts';
import { type WholeRun, WholeRunReader } from '../core/whole-run.ts';
import { Id } from '../ui/basics.tsx';
import { Conversation } from '../ui/conversation.tsx';
import { RunHead } from '../ui/run-head.tsx';
import { Scores } from '../ui/run-scores.tsx';
import { Steps, showStep } from '../ui/run-steps.tsx';
import { Loaded } from '../ui/states.tsx';

/** Delay between the first event and reading the run again. */
const SETTLE_MS = 300;
const EVERY_MS = 3_000;

export function RunPage({ run_id }: { run_id: string }) {
  const scope = scopeOf();
  const org_id = organization.value!.id;
  const mayRead = isOperator.value;
  const name = `run ${org_id} ${scope} ${mayRead} ${run_id}`;
  const reader = useMemo(() => new WholeRunReader(scope, mayRead, { org_id, run_id }), [name]);
  const whole = useResource(name, (signal) => reader.read(signal), { every_ms: EVERY_MS });
  const again = () => whole.refresh();
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={hrefOf('runs', null, scopeFilters())}>Runs</a>
        <span aria-hidden="true">/</span>
        <Id id={run_id} isWhole />
      </nav>
      {server.value?.has_live_stream === true ? (
        <Follow
          org_id={org_id}
          isOf={(id) => id === run_id || id === whole.data.peek()?.run.reported?.run_id}
          reader={reader}
          again={again}
        />
      ) : null}
      <Loaded from={whole} lines={12} heading="Run">
        {(read) => (
          <>
            <RunHead {...read} refresh={again} />
            <RunParts read={read} reader={reader} again={again} />
          </>
        )}
      </Loaded>
    </>
  );
}

/** Reads the run again after events about it, and after events were lost. */
function Follow({
  org_id,
  isOf,
  reader,
  again,
}: {
  org_id: string;
  isOf: (run_id: string | null) => boolean;
  reader: WholeRunReader;
  again: () => void;
}) {
  const due = useRef<number | undefined>(undefined);
  useEffect(() => () => clearTimeout(due.current), []);
  useLive(org_id, (messages) => {
    if (messages.some(({ event }) => event === 'reset')) reader.forgetSteps();
    else if (!messages.some(({ data }) => isOf((data as { run_id: string | null }).run_id))) return;
    due.current ??= window.setTimeout(() => {
      due.current = undefined;
      again();
    }, SETTLE_MS);
  });
  return null;
}

/** Shows the conversation or the steps. If the run has both, the address says which. */
function RunParts({
  read: { conversation, reported },
  reader,
  again,
}: {
  read: WholeRun;
  reader: WholeRunReader;
  again: () => void;
}) {
  const hasBoth = conversation !== null && reported !== null;
  const part = hasBoth && filterOf('part') === 'steps' ? 'steps' : 'conversation';
  const show = (step_index: number | undefined) => {
    if (hasBoth) setFilters({ part: 'steps' });
    requestAnimationFrame(() => showStep(step_index));
  };
  const moreTurns = () => {
    reader.wantTurns();
    again();
  };
  const moreSteps = () => {
    reader.wantSteps();
    again();
  };
  return (
    <>
      {reported === null ? null : <Scores steps={reported.steps} show={show} />}
      {hasBoth ? <PartChoice part={part} /> : null}
      {conversation !== null && part === 'conversation' ? (
        <Conversation read={conversation} more={moreTurns} />
      ) : null}
      {reported !== null && (part === 'steps' || !hasBoth) ? <Steps {...reported} more={moreSteps} /> : null}
    </>
  );
}

function PartChoice({ part }: { part: 'conversation' | 'steps' }) {
  const choices = [
    ['conversation', 'Conversation', 'What passed the gateway'],
    ['steps', 'Steps', 'What the agent reported'],
  ] as const;
  return (
    <fieldset class="part-choice" aria-label="Part of the run">
      {choices.map(([name, title, what]) => (
        <button
          key={name}
          type="button"
          class="plain small"
          aria-pressed={part === name}
          title={what}
          onClick={() => setFilters({ part: name === 'steps' ? name : '' })}
        >
          {title}
        </button>
      ))}
    </fieldset>
  );
}
