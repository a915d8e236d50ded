/**
 * The list of first steps. Each is ticked automatically when it is done. The list disappears when all are
 * done or the reader hides it. Browser.
 */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { hrefOf } from '../core/address.ts';
import { call } from '../core/api.ts';
import { listBeginnings } from '../core/begin.ts';
import { firstCalls, gatewayAddress } from '../core/first-calls.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { useResource } from '../core/resource.ts';
import { isOperator, organization } from '../core/session.ts';
import { Panel, Snippet } from './basics.tsx';
import { Tabs } from './tabs.tsx';

const HIDDEN = 'understudy-first-steps';
const isHidden = signal(localStorage.getItem(HIDDEN) !== null);

interface Done {
  captured: boolean;
  key: boolean;
  run: boolean;
}

async function readDone(org_id: string, mayCapture: boolean, ends: AbortSignal): Promise<Done> {
  const [captured, stats, usage] = await Promise.all([
    mayCapture
      ? call('GET /capture/runs', { query: { limit: 1 }, signal: ends }).then(
          (page) => page.listed_runs + page.exchanges_without_run > 0,
        )
      : false,
    call('GET /usage/stats', { query: { org_id }, signal: ends }),
    call('GET /v1/monitor/runs', { query: { org_id, limit: 1 }, signal: ends }),
  ]);
  return { captured, key: stats.key_count > 0, run: usage.runs.length > 0 };
}

function isAllDone({ captured, key, run }: Done, gateway: string | null): boolean {
  return (captured || gateway === null) && key && run;
}

/** The first steps on Home. The component sends no requests while it is hidden, and none after all steps are done. */
export function FirstSteps() {
  return isHidden.value ? null : <ShownSteps />;
}

function ShownSteps() {
  const org_id = organization.value!.id;
  const gateway = isOperator.value ? gatewayAddress() : null;
  const done = useResource(`first ${org_id}`, (ends) => readDone(org_id, gateway !== null, ends), {
    every_ms: (steps) => (isAllDone(steps, gateway) ? null : 2_000),
  });
  const steps = done.data.value;
  if (steps === null || isAllDone(steps, gateway)) return null;
  const hide = () => {
    localStorage.setItem(HIDDEN, 'hidden');
    isHidden.value = true;
  };
  return (
    <Panel
      title="Begin here"
      sub="Each is ticked as soon as it is done."
      actions={
        <button type="button" class="quiet small" onClick={hide}>
          Hide
        </button>
      }
    >
      <ol class="first-steps">
        {gateway === null ? null : (
          <Step isDone={steps.captured} title="Point an agent at the gateway">
            <p>
              The agent keeps its own provider key. Requests pass through byte for byte, and appear under{' '}
              <a href={hrefOfCaptured(null)}>Runs</a>.
            </p>
            <Tabs
              label="Client"
              tabs={listBeginnings(gateway).map(({ name, words, snippet }) => ({
                name,
                content: () => (
                  <>
                    <Snippet text={snippet} label={`Setting for ${name}`} />
                    <p class="faint">{words}</p>
                  </>
                ),
              }))}
            />
          </Step>
        )}
        <Step isDone={steps.key} title="Make an API key">
          <p>
            Under <a href={hrefOf('keys')}>API keys</a>. A key is shown once.
          </p>
        </Step>
        <Step isDone={steps.run} title="Log a run">
          <p>
            Each step is answered with its scores. A client library or an integration logs the steps of your
            agent.
          </p>
          <Snippet text={firstCalls('svc_live_…')} label="First calls" />
        </Step>
      </ol>
    </Panel>
  );
}

function Step({ isDone, title, children }: { isDone: boolean; title: string; children: ComponentChildren }) {
  return (
    <li class={isDone ? 'step-done' : ''}>
      <h3>
        <span class="tick" aria-hidden="true">
          {isDone ? '✓' : ''}
        </span>
        {title}
        <span class="offstage">{isDone ? ', done' : ', to do'}</span>
      </h3>
      {isDone ? null : <div class="step-body">{children}</div>}
    </li>
  );
}
