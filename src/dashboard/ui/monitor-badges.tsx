/** Badges for monitors that fired. Browser. */
import { titleOfMonitor } from '../../domain/monitors/names.ts';
import { Badge } from './basics.tsx';

/** Shows how often each monitor fired. Monitors that did not fire are left out. */
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
            {titleOfMonitor(name)} ×{count}
          </Badge>
        ))}
    </>
  );
}
