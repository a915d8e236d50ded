/** Choices above the list of runs. Each changes words of the query, which is the only filter. Browser. */

import { MONITOR_NAMES, titleOfMonitor } from '../../domain/monitors/names.ts';
import { quoteValue } from '../../domain/run-query/words.ts';
import { RUN_STATUSES } from '../../domain/run-status-name.ts';
import { setFilters } from '../core/address.ts';
import type { RunScope } from '../core/listed-runs.ts';
import { choose, chosenOf, hasField } from '../core/query-choice.ts';
import { FilterRow } from './filters.tsx';
import { useIsNarrow } from './narrow.ts';

type Option = readonly [words: string, title: string];

const STATES: readonly Option[] = RUN_STATUSES.map((status) => [`status:${status}`, status]);
const SPANS: readonly Option[] = [
  ['since:1h', 'last hour'],
  ['since:24h', 'last 24 hours'],
  ['since:7d', 'last 7 days'],
  ['since:30d', 'last 30 days'],
];
const FIRED: readonly Option[] = [
  ['has:monitor', 'any monitor'],
  ...MONITOR_NAMES.map((name): Option => [`monitor:${name}`, titleOfMonitor(name)]),
];
const SOURCES: readonly Option[] = [
  ['is:captured', 'captured'],
  ['is:reported', 'reported'],
  ['is:captured is:reported', 'both'],
];
const PARTS: readonly Option[] = [
  ['-is:child', 'without a parent'],
  ['is:child', 'child runs'],
];
const GOLDEN: readonly Option[] = [
  ['is:golden', 'golden'],
  ['-is:golden', 'not golden'],
];

export function RunFilters({ q, scope, models }: { q: string; scope: RunScope; models: readonly string[] }) {
  const isNarrow = useIsNarrow();
  const known = models.map((model): Option => [`model:=${quoteValue(model, false)}`, model]);
  const row = (
    <FilterRow>
      <QueryChoice q={q} label="State" any="any" options={STATES} fields={['status']} />
      <QueryChoice q={q} label="Began" any="at any time" options={SPANS} fields={['since', 'started']} />
      <QueryChoice q={q} label="Model" any="any" options={known} fields={['model']} />
      <QueryChoice q={q} label="Monitor fired" any="all runs" options={FIRED} />
      {scope === 'captures' ? (
        <>
          <QueryChoice q={q} label="Source" any="any" options={SOURCES} />
          <QueryChoice q={q} label="Runs" any="all" options={PARTS} />
          <QueryChoice q={q} label="Golden" any="any" options={GOLDEN} />
        </>
      ) : null}
    </FilterRow>
  );
  if (!isNarrow) return row;
  // The filters are closed on a phone, so that the runs are in view.
  return (
    <details class="fold">
      <summary>Filters</summary>
      {row}
    </details>
  );
}

function QueryChoice({
  q,
  label,
  any,
  options,
  fields = [],
}: {
  q: string;
  label: string;
  any: string;
  options: readonly Option[];
  /** Fields on which the query may have conditions that are not among the options. */
  fields?: readonly string[];
}) {
  const words = options.map(([of]) => of);
  const chosen = chosenOf(q, words);
  return (
    <label>
      <span>{label}</span>
      <select
        value={chosen}
        onChange={({ currentTarget }) => setFilters({ q: choose(q, words, currentTarget.value) })}
      >
        <option value="" selected={chosen === ''}>
          {chosen === '' && hasField(q, fields) ? 'as searched' : any}
        </option>
        {options.map(([of, title]) => (
          <option key={of} value={of} selected={of === chosen}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}
