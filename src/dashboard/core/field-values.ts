/** Reads the values that complete a condition in the query bar, and the number of runs with each value. Browser. */
import { useEffect, useState } from 'preact/hooks';
import type { AskedValues } from '../../domain/run-query/complete.ts';
import type { CountedValue } from '../../domain/run-query/count-values.ts';
import { parseRunQuery } from '../../domain/run-query/parse.ts';
import { RunQueryError } from '../../domain/run-query/run-query.ts';
import { call } from './api.ts';
import type { RunScope } from './listed-runs.ts';
import { organization } from './session.ts';

/** Delay, so that not every key press sends a request. */
const PAUSE_MS = 120;
const VALUES = 50;

interface FieldValues {
  field: string;
  values: readonly CountedValue[];
}

/**
 * Reads the values of a field, after a short pause in typing.
 * @returns the values that were read last, which may belong to another field; null: none yet
 */
export function useFieldValues(scope: RunScope, asked: AskedValues | null): FieldValues | null {
  const [known, setKnown] = useState<FieldValues | null>(null);
  const key = asked === null ? '' : JSON.stringify([scope, asked]);
  useEffect(() => {
    if (asked === null) return;
    const ends = new AbortController();
    const timer = setTimeout(() => {
      readValues(scope, asked, ends.signal).then(
        (values) => setKnown({ field: asked.field, values }),
        // The list of runs reports the failure. Without these values the completion offers less.
        () => {},
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ends.abort();
    };
  }, [key]);
  return known;
}

async function readValues(
  scope: RunScope,
  { field, contains, rest }: AskedValues,
  signal: AbortSignal,
): Promise<readonly CountedValue[]> {
  const query = { field: field as 'model', contains, q: isReadable(rest) ? rest : '', limit: VALUES };
  const answer =
    scope === 'captures'
      ? await call('GET /capture/run-values', { query, signal })
      : await call('GET /v1/monitor/run-values', {
          query: { ...query, org_id: organization.value!.id },
          signal,
        });
  return answer.values;
}

function isReadable(q: string): boolean {
  try {
    parseRunQuery(q);
    return true;
  } catch (thrown) {
    if (thrown instanceof RunQueryError) return false;
    throw thrown;
  }
}
