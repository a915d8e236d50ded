/** What the monitors said, in badges, and what became of a run. Browser. */
import { titleOfMonitor } from '../../domain/monitors/names.ts';
import { Badge, type Tone } from './basics.tsx';

/** How often each monitor fired; those that did not are left out. */
export function FiredBadges({ fired }: { fired: Readonly<Record<string, number>> }) {
  return (
    <>
      {Object.entries(fired)
        .filter(([, count]) => count > 0)
        .map(([name, count]) => (
          <Badge
            key={name}
            tone="warn"
            title={`${titleOfMonitor(name)} fired at ${count === 1 ? 'one step' : `${count} steps`}`}
          >
            {titleOfMonitor(name)} {count}
          </Badge>
        ))}
    </>
  );
}

/** How a run stands. An outcome may be long: its beginning, the whole when pointed at. */
export function StateBadge({ status, outcome }: { status: 'running' | 'finished'; outcome: string }) {
  if (status === 'running') return <Badge tone="student">running</Badge>;
  return (
    <Badge tone={toneOf(outcome)} title={outcome}>
      {outcome.length > 40 ? `${outcome.slice(0, 39)}…` : outcome}
    </Badge>
  );
}

function toneOf(outcome: string): Tone {
  if (/^success/i.test(outcome)) return 'good';
  return /^(fail|error|abort)/i.test(outcome) ? 'bad' : 'plain';
}
