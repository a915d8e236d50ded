/**
 * The newest exchanges that the index lacks, as rows of a list of runs. A query is tested on the exchange itself,
 * because its run may be unknown. If what is known of the exchange does not decide a query, the exchange is only
 * counted. Pure; capture reader.
 */
import type { BeingIndexed, ExchangeBeingIndexed } from '../domain/captured-run.ts';
import type { NameField } from '../domain/run-query/fields.ts';
import { compileRunQuery, type RunReader, type Verdict } from '../domain/run-query/match.ts';
import type { RunQuery, Term } from '../domain/run-query/run-query.ts';
import type { NewestExchange } from '../storage/capture/newest-exchanges.ts';

/** Reads the values that an exchange has for certain. Other values are null: unknown. */
const READER: RunReader<NewestExchange> = {
  names: {
    run: ({ run_id }) => (run_id === null ? null : [run_id]),
    provider: ({ provider }) => [provider],
    text: ({ run_id }) => (run_id === null ? [] : [run_id]),
  },
  numbers: {},
  started: ({ started_at_ms }) => started_at_ms,
  finished: () => null,
  choices: {
    is: (_row, value): Verdict => (value === 'captured' ? true : null),
    has: (row, value): Verdict => (value === 'error' && hasFailed(row) ? true : null),
    served: ({ kind, served_by }, value): Verdict => (kind === 'turn' ? served_by === value : null),
  },
  isTextRead: () => false,
};

const KNOWN_NAMES: ReadonlySet<NameField> = new Set(['run', 'provider', 'text']);

/** Whether exchanges can be tested with a term. */
function isKnown({ kind, field }: Term): boolean {
  if (kind === 'name') return KNOWN_NAMES.has(field);
  if (kind === 'choice') return READER.choices[field] !== undefined;
  return kind === 'time' && field !== 'finished' && field !== 'failed';
}

/** Whether a query shows the newest runs first. For any other order, an exchange's place in the list is unknown. */
function isNewestFirst({ sort }: RunQuery): boolean {
  return sort === null || (sort.field === 'started' && sort.is_descending);
}

/**
 * Compiles a query into a test of exchanges. The test returns null if what is known of an exchange does not decide, or
 * if the exchange matches but its place in the order of the query is unknown.
 * @param nowMs the time from which ages are counted, in milliseconds since the epoch
 */
function compileVerdict(query: RunQuery, nowMs: number): (row: NewestExchange) => Verdict {
  const terms = query.terms.filter(isKnown);
  const test = compileRunQuery({ ...query, terms }, READER, nowMs);
  const isWhole = terms.length === query.terms.length && isNewestFirst(query);
  return (row) => {
    const verdict = test(row);
    return verdict === true && !isWhole ? null : verdict;
  };
}

/** What is asked about these exchanges. */
interface NewestQuestion {
  query: RunQuery;
  limit: number;
  now_ms: number;
  /** Number of stored exchanges that are not listed. */
  stored: number;
  /** Whether the list has the run. */
  isListed: (runId: string) => boolean;
}

/**
 * Lists the newest exchanges that match a query.
 * @param newest the newest of the exchanges that are not listed, newest first
 * @returns null if every stored exchange is listed
 */
export function tellBeingIndexed(
  newest: readonly NewestExchange[],
  asked: NewestQuestion,
): BeingIndexed | null {
  const { query, limit, now_ms, isListed } = asked;
  // Some may have been stored since they were counted.
  const stored = Math.max(asked.stored, newest.length);
  if (stored === 0) return null;
  const verdictOn = compileVerdict(query, now_ms);
  const exchanges: ExchangeBeingIndexed[] = [];
  let undecided = 0;
  for (const row of newest) {
    const verdict = verdictOn(row);
    if (verdict === null) undecided += 1;
    else if (verdict && exchanges.length < limit) exchanges.push(showExchange(row, isListed));
  }
  return { stored, examined: newest.length, undecided, exchanges };
}

/** Makes an exchange's row for the list. */
export function showExchange(
  row: NewestExchange,
  isListed: (runId: string) => boolean,
): ExchangeBeingIndexed {
  const { id, run_id, started_at_ms, ...rest } = row;
  return {
    exchange_id: id,
    run_id,
    run_is_listed: run_id !== null && isListed(run_id),
    ...rest,
    failed: hasFailed(row),
    started_at: new Date(started_at_ms).toISOString(),
  };
}

function hasFailed({ status }: NewestExchange): boolean {
  return status === 0 || status >= 400;
}
