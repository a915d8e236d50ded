/** Who ended a run, and why, with a link to its end. Browser. */
import { hrefHere } from '../core/address.ts';
import type { CapturedRun, CapturedTurn } from '../core/captured.ts';
import { Time } from './basics.tsx';

const ENDERS: Readonly<Record<NonNullable<CapturedRun['ended_by']>, string>> = {
  person: 'Decided by a person',
  agent: 'Ended by the agent',
  model: 'Ended by the model',
  client: 'Ended by the client',
  upstream: 'Ended by the provider',
  gateway: 'Ended by the gateway',
};

export function RunEnd({ run, turns }: { run: CapturedRun; turns: readonly CapturedTurn[] }) {
  const { ended_by, status, status_words, finished_at, turns: all } = run;
  const last = turns.findLast(({ kind }) => kind === 'turn');
  const who =
    ended_by !== null
      ? ENDERS[ended_by]
      : status === 'running'
        ? 'It is still running'
        : 'It is unknown who ended it';
  return (
    <p class="run-end">
      <b>{who}</b>
      {status_words === '' ? '' : `: ${status_words}`}
      {status === 'running' ? null : (
        <span class="faint">
          {' '}
          · <Time at={finished_at} />
        </span>
      )}
      {last === undefined || turns.length < all ? null : (
        <>
          {' '}
          · <a href={hrefHere({ turn: String(last.exchange_id), part: '' })}>the last turn</a>
        </>
      )}
    </p>
  );
}
