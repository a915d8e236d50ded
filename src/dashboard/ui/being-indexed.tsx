/**
 * Exchanges that are stored but not yet indexed: their rows in the list of runs, and a note above the list. Browser.
 */
import type { Reply } from '../core/contract.ts';
import { countOf, formatBytes, formatNumber, formatSpan } from '../core/format.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { Badge, Time } from './basics.tsx';

type BeingIndexed = NonNullable<Reply<'GET /capture/runs'>['being_indexed']>;
export type ExchangeBeingIndexed = BeingIndexed['exchanges'][number];

/** Number of rows until the reader asks for all, so that runs stay in view. */
const ROWS_AT_FIRST = 5;

/** Chooses the exchanges that the list shows above its runs: all, or the first ROWS_AT_FIRST. */
export function chooseExchanges(of: BeingIndexed | null, isAll: boolean): readonly ExchangeBeingIndexed[] {
  return of === null ? [] : of.exchanges.slice(0, isAll ? of.exchanges.length : ROWS_AT_FIRST);
}

/** Shows the exchanges that are stored but not indexed yet. @param showAll shows all rows, or only the first ones */
export function BeingIndexedNote({
  of,
  isAll,
  showAll,
}: {
  of: BeingIndexed | null;
  isAll: boolean;
  showAll: (isAll: boolean) => void;
}) {
  if (of === null) return null;
  const { stored, examined, undecided, exchanges } = of;
  const rest = [
    stored > examined ? `only the newest ${formatNumber(examined)} can be shown` : '',
    undecided > 0 ? `${formatNumber(undecided)} may match; that is known after indexing` : '',
  ].filter(Boolean);
  return (
    <p class="faint" role="status">
      {countOf(stored, 'exchange')} {stored === 1 ? 'is' : 'are'} stored and being indexed
      {rest.length === 0 ? '' : `: ${rest.join('; ')}`}.{' '}
      {exchanges.length > ROWS_AT_FIRST ? (
        <button type="button" class="quiet small" aria-expanded={isAll} onClick={() => showAll(!isAll)}>
          {isAll ? `Show ${ROWS_AT_FIRST}` : `Show ${formatNumber(exchanges.length)}`}
        </button>
      ) : null}
    </p>
  );
}

/** An exchange in the columns of a run. Links to its run, if the run is in the list. */
export function ExchangeRow({ exchange }: { exchange: ExchangeBeingIndexed }) {
  const { run_id, run_is_listed } = exchange;
  if (run_id === null || !run_is_listed)
    return (
      <div class="run-row">
        <Columns exchange={exchange} />
      </div>
    );
  return (
    <a class="run-row" href={hrefOfCaptured(run_id)}>
      <Columns exchange={exchange} />
    </a>
  );
}

function Columns({ exchange }: { exchange: ExchangeBeingIndexed }) {
  const { exchange_id, run_id, method, path, provider, status, failed, aborted, served_by } = exchange;
  return (
    <>
      <span class="run-task">
        <b dir="auto">
          {method} {path}
        </b>
        <span class="faint">{run_id ?? 'run not known yet'}</span>
      </span>
      <span class="run-model">
        <span>{served_by === 'student' ? 'student' : provider}</span>
        <span class="faint">exchange {exchange_id}</span>
      </span>
      <span class="number run-size" />
      <span class="number run-used">
        <span title="Request and answer">
          {formatBytes(exchange.request_bytes + exchange.response_bytes)}
        </span>
      </span>
      <span class="number run-score" />
      <span class="number run-when">
        <Time at={exchange.started_at} />
        <span class="faint">{formatSpan(exchange.duration_ms)}</span>
      </span>
      <span class="run-state">
        <Badge title="The exchange is stored. Its run, model and tokens are known after indexing">
          being indexed
        </Badge>
        {failed ? <Badge tone="bad">{status === 0 ? 'no answer' : status}</Badge> : null}
        {aborted ? <Badge tone="warn">aborted</Badge> : null}
      </span>
    </>
  );
}
