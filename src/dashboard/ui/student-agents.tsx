/** The agents of a student: coverage, errors and what becomes of each, with its kinds of answers. Browser. */
import type { Reply } from '../core/contract.ts';
import { formatNumber, formatShare } from '../core/format.ts';
import { Badge, Panel, type Tone } from './basics.tsx';
import { ErrorBound } from './error-bound.tsx';

type Agent = Reply<'GET /capture/student'>['agents'][number];
type Kind = Agent['kinds'][number];

const STATES: Readonly<Record<Agent['state'], readonly [Tone, string]>> = {
  serving: ['student', 'serving'],
  not_served: ['off', 'not served'],
  suspended: ['bad', 'suspended'],
};
const REFUSALS: Readonly<Record<NonNullable<Kind['refused']>, string>> = {
  too_few: 'too few golden runs',
  too_wrong: 'wrong too often in golden runs',
  never_serve: 'excepted by the operator',
};

export function StudentAgents({ agents }: { agents: readonly Agent[] }) {
  return (
    <Panel title="Agents" sub="An agent is a model with its tools, settings and system prompt.">
      <div class="student-agents">
        {agents.map((agent) => (
          <AgentView key={agent.agent} agent={agent} />
        ))}
      </div>
    </Panel>
  );
}

function AgentView({ agent }: { agent: Agent }) {
  const { measured, kinds, compared, wrong, suspended_by } = agent;
  const [tone, words] = STATES[agent.state];
  const coverage = measured.steps === 0 ? null : measured.served / measured.steps;
  return (
    <details class="student-agent">
      <summary>
        <code>{agent.agent.slice(0, 12)}</code>
        <Badge tone={tone}>
          {words}
          {suspended_by === null ? '' : suspended_by === 'audit' ? ' by an audit' : ' by an operator'}
        </Badge>
        <span class="student-tools faint">{agent.tools.join(', ') || 'no tools'}</span>
        <span class="coverage">
          <span class="bar-track" aria-hidden="true">
            <i style={{ width: `${100 * (coverage ?? 0)}%` }} />
          </span>
          <span class="number">{formatShare(coverage)} covered</span>
        </span>
      </summary>
      <p class="faint">
        {formatNumber(agent.runs)} golden runs; {formatNumber(measured.served)} of{' '}
        {formatNumber(measured.steps)} steps kept apart served, {formatNumber(measured.errors)} of them wrong.{' '}
        {compared === 0
          ? 'No answer was audited yet.'
          : `Audits compared ${formatNumber(compared)} answers since, ${formatNumber(wrong)} of them wrong.`}
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
            <ErrorBound errors={kind.errors} of={kind.steps} at_most={kind.error_at_most} />
          </li>
        ))}
      </ul>
    </details>
  );
}
