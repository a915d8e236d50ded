/** The gateways whose captures a bucket has, and how new they are. Browser. */
import type { Reply } from '../core/contract.ts';
import { countOf } from '../core/format.ts';
import { Time } from './basics.tsx';

/** Maximum number of gateways that are named. The others are only counted. */
const NAMED = 8;

/** Shows nothing if the captures are those of this machine. */
export function Gathered({ from }: { from: Reply<'GET /capture/runs'>['gathered'] }) {
  if (from === null) return null;
  const { failure, looked_at, gateways } = from;
  // Gateways with a problem come first, and then the gateways that are furthest behind.
  const ordered = [...gateways].sort(
    (a, b) =>
      Number(b.failure !== null) - Number(a.failure !== null) ||
      (a.newest_at ?? '').localeCompare(b.newest_at ?? ''),
  );
  return (
    <section class="faint" aria-label="Gateways">
      {failure === null ? (
        <p>
          Captures of {countOf(gateways.length, 'gateway')}, from their bucket, as of{' '}
          <Time at={looked_at} never="now" />.
        </p>
      ) : (
        <p role="alert">The bucket cannot be read now, so these are the captures up to then: {failure}.</p>
      )}
      <ul>
        {ordered.slice(0, NAMED).map(({ gateway, newest_at, failure: why }) => (
          <li key={gateway}>
            {gateway}: newest exchange <Time at={newest_at} never="none yet" />
            {why === null ? null : ` (${why})`}
          </li>
        ))}
      </ul>
      {ordered.length > NAMED ? <p>{ordered.length - NAMED} more have newer exchanges.</p> : null}
    </section>
  );
}
