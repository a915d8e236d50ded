/** The agents of a student: coverage, errors, state, and kinds of answers. Browser. */
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { formatNumber, formatShare } from '../core/format.ts';
import { Badge, Panel, type Tone } from './basics.tsx';
import { ErrorBound } from './error-bound.tsx';
import { ask } from './form.tsx';
import { act } from './notice.tsx';

type Agent = Reply<'GET /capture/student'>['agents'][number];
type Kind = Agent['kinds'][number];

const STATES: Readonly<Record<Agent['state'], readonly [Tone, string]>> = {
  serving: ['student', 'serving'],
  not_served: ['off', 'not served'],
  suspended: ['bad', 'suspended'],
};
const REFUSALS: Readonly<Record<NonNullable<Kind['refused']>, string>> = {
  too_few: 'too little evidence',
  too_wrong: 'wrong too often',
  never_serve: 'excluded by the operator',
};

export function StudentAgents({ agents, refresh }: { agents: readonly Agent[]; refresh: () => void }) {
  return (
    <Panel
      title="Agent variants"
      sub="A variant is an agent with one model, one set of tools and settings, and one system prompt. You can name each variant."
    >
      <div class="student-agents">
        {agents.map((agent) => (
          <AgentView key={agent.agent} agent={agent} refresh={refresh} />
        ))}
      </div>
    </Panel>
  );
}

function AgentView({ agent, refresh }: { agent: Agent; refresh: () => void }) {
  const { measured, kinds, compared, wrong, suspended_by } = agent;
  const [tone, words] = STATES[agent.state];
  const coverage = measured.steps === 0 ? null : measured.served / measured.steps;
  return (
    <details class="student-agent">
      <summary>
        <span class="student-name">
          {agent.name === '' ? null : <b>{agent.name}</b>} <code>{agent.agent.slice(0, 12)}</code>
        </span>
        <Badge tone={tone}>
          {words}
          {suspended_by === null ? '' : suspended_by === 'audit' ? ' by an audit' : ' by an operator'}
        </Badge>
        <span class="student-tools faint">{agent.tools.join(', ') || 'no tools'}</span>
        <span class="coverage">
          {coverage === null ? (
            <span class="faint">not measured</span>
          ) : (
            <>
              <span class="bar-track" aria-hidden="true">
                <i style={{ width: `${100 * coverage}%` }} />
              </span>
              <span class="number">{formatShare(coverage)} covered</span>
            </>
          )}
        </span>
      </summary>
      <p class="faint">
        {formatNumber(agent.runs)} golden runs; {formatNumber(measured.served)} of{' '}
        {formatNumber(measured.steps)} steps kept apart served, {formatNumber(measured.errors)} of them wrong.{' '}
        {compared === 0
          ? 'No answer was audited yet.'
          : `Audits compared ${formatNumber(compared)} answers, ${formatNumber(wrong)} of them wrong.`}
      </p>
      <p>
        <button type="button" class="plain small" onClick={() => rename(agent, refresh)}>
          {agent.is_named ? 'Rename' : 'Name it'}
        </button>
      </p>
      <ul class="kinds">
        {kinds.map((kind) => (
          <li key={kind.kind}>
            <code>{kind.kind}</code>
            {kind.is_suspended ? (
              <Badge tone="bad">suspended</Badge>
            ) : kind.refused === null ? (
              <Badge tone="student">served</Badge>
            ) : (
              <Badge tone="off">{REFUSALS[kind.refused]}</Badge>
            )}
            {kind.refusal === '' ? null : <span class="faint">{kind.refusal}</span>}
            <ErrorBound errors={kind.errors} of={kind.steps} at_most={kind.error_at_most} />
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Asks for a name; an empty one removes it. */
async function rename({ agent, name, is_named }: Agent, refresh: () => void): Promise<void> {
  const given = await ask({
    heading: 'Name this agent variant',
    text: 'The name is for people. Without a name, the first words of the prompt are shown.',
    fields: [{ name: 'name', label: 'Name', maxlength: 80, value: is_named ? name : '' }],
    button: 'Save',
  });
  if (given === null) return;
  const wanted = given.name?.trim() ?? '';
  const body = { agent, name: wanted === '' ? null : wanted };
  if (await act(() => call('POST /capture/student/names', { body }))) refresh();
}
