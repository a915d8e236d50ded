/**
 * Results of the cache doctor for a run: the sum over its turns, and why a turn missed the provider's prompt
 * cache. Browser.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { hrefHere } from '../core/address.ts';
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { countOf, formatNumber } from '../core/format.ts';
import { formatUsd } from '../core/money.ts';
import { useResource } from '../core/resource.ts';
import { LongText } from './long-text.tsx';

type RunLooks = Reply<'GET /capture/runs/{id}/cache'>;
export type CacheLook = RunLooks['turns'][number];

const NO_LOOKS: readonly CacheLook[] = [];

/** Reads the results once, and again when there are more turns. */
export function RunCache({
  run_id,
  turns,
  children,
}: {
  run_id: string;
  /** Number of turns. */
  turns: number;
  children: (looks: ReadonlyMap<number, CacheLook>, summary: ComponentChildren) => ComponentChildren;
}) {
  const cache = useResource(`cache ${run_id}`, (signal) =>
    call('GET /capture/runs/{id}/cache', { params: { id: run_id }, signal }),
  );
  useEffect(() => cache.refresh(), [cache, turns]);
  const read = cache.data.value;
  const found = read?.turns ?? NO_LOOKS;
  const looks = useMemo(() => new Map(found.map((look) => [look.exchange_id, look])), [found]);
  return <>{children(looks, read === null ? null : <CacheSummary read={read} />)}</>;
}

function CacheSummary({ read: { sum, turns, is_whole } }: { read: RunLooks }) {
  const isTold = turns.some(({ verdict }) => verdict === 'hit' || verdict === 'miss');
  if (sum.misses === 0)
    return isTold ? (
      <p class="faint">
        Prompt cache: each of {countOf(sum.turns, 'turn')} read all that it could
        {is_whole ? '' : ', as far as read'}.
      </p>
    ) : null;
  const about = sum.is_estimate ? 'about ' : '';
  return (
    <details class="fold cache-summary">
      <summary>
        Prompt cache: {formatNumber(sum.misses)} of {countOf(sum.turns, 'turn')} missed it{' '}
        <span class="faint">
          {about}
          {formatNumber(Math.round(sum.lost_tokens))} tokens
          {sum.cost_usd === null ? '' : `, ${formatUsd(sum.cost_usd)}`}
          {is_whole ? '' : ', only the first turns were checked'}
        </span>
      </summary>
      <ul>
        {sum.causes.map(({ cause, words, place, misses, lost_tokens, cost_usd }) => {
          const first = turns.find((look) => look.cause === cause);
          return (
            <li key={`${cause} ${place}`}>
              {words}
              {place === null ? '' : ` (${place})`}: {countOf(misses, 'turn')},{' '}
              {formatNumber(Math.round(lost_tokens))} tokens
              {cost_usd === null ? '' : `, ${formatUsd(cost_usd)}`}{' '}
              {first === undefined ? null : (
                <a href={hrefHere({ turn: String(first.exchange_id) })}>The first such turn</a>
              )}
            </li>
          );
        })}
      </ul>
      <p>
        <a href="/docs/guides/cache-doctor#causes">What to do</a>
      </p>
    </details>
  );
}

/** Shows why one turn missed the cache. Shows nothing if the turn did not miss it, or if that is not known. */
export function CacheFinding({ look }: { look: CacheLook }) {
  const { verdict, lost_tokens, is_estimate, cost_usd, words, difference } = look;
  if (verdict !== 'miss') return null;
  return (
    <details class="fold cache-finding">
      <summary>
        Cache missed: {words}{' '}
        <span class="faint">
          {is_estimate ? 'about ' : ''}
          {formatNumber(Math.round(lost_tokens))} tokens
          {cost_usd === null ? '' : `, ${formatUsd(cost_usd)}`}
        </span>
      </summary>
      <p class="faint">
        It read {formatNumber(look.read_tokens ?? 0)} of {formatNumber(Math.round(look.expected_tokens ?? 0))}{' '}
        tokens
        {look.compared_with === null ? '' : `, compared with exchange ${look.compared_with}`}.
      </p>
      {difference === null ? null : (
        <dl class="difference">
          <dt>
            Before, in {difference.place} after {countOf(difference.offset, 'character')}
          </dt>
          <dd>
            <LongText text={difference.before} kind="code" lines={6} />
          </dd>
          <dt>Now</dt>
          <dd>
            <LongText text={difference.after} kind="code" lines={6} />
          </dd>
        </dl>
      )}
    </details>
  );
}
