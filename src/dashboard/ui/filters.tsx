/** Filters of a list: each stands in the address, so that what is shown can be shared. Browser. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { setFilters } from '../core/address.ts';

const PAUSE_MS = 250;

/** The filters of a list. */
export function FilterRow({ children }: { children: ComponentChildren }) {
  return <search class="filters">{children}</search>;
}

/** A field of a filter, with its label; `wide`: it takes the room that is left. */
export function FilterText({
  label,
  wide = false,
  ...field
}: { label: string; wide?: boolean } & Parameters<typeof FilterField>[0]) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the field is a component
    <label class={wide ? 'grow' : ''}>
      <span>{label}</span>
      <FilterField {...field} />
    </label>
  );
}

function FilterField({
  name,
  value,
  placeholder,
  maxLength = 200,
}: {
  /** Of the filter in the address. */
  name: string;
  value: string;
  placeholder: string;
  maxLength?: number;
}) {
  const [typed, setTyped] = useState(value);
  /** What this field and the address said last: what differs is newer. */
  const told = useRef(value);
  useEffect(() => {
    if (value === told.current) return;
    told.current = value;
    setTyped(value);
  }, [value]);
  useEffect(() => {
    if (typed === told.current) return;
    const timer = setTimeout(() => {
      told.current = typed;
      setFilters({ [name]: typed });
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <input
      type="search"
      value={typed}
      placeholder={placeholder}
      maxLength={maxLength}
      onInput={({ currentTarget }) => setTyped(currentTarget.value)}
    />
  );
}

/** A select of a filter. */
export function FilterSelect({
  name,
  label,
  value,
  options,
}: {
  name: string;
  label: string;
  value: string;
  options: readonly (readonly [value: string, words: string])[];
}) {
  return (
    <label>
      <span>{label}</span>
      <select value={value} onChange={({ currentTarget }) => setFilters({ [name]: currentTarget.value })}>
        {options.map(([of, words]) => (
          <option key={of} value={of} selected={of === value}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The days that a list is narrowed to, both included. */
export function FilterDays({ from, to }: { from: string; to: string }) {
  return (
    <div class="days">
      <FilterDay name="from" label="From" value={from} />
      <FilterDay name="to" label="To" value={to} />
    </div>
  );
}

function FilterDay({ name, label, value }: { name: string; label: string; value: string }) {
  return (
    <label>
      <span>{label}</span>
      <input
        type="date"
        value={value}
        onChange={({ currentTarget }) => setFilters({ [name]: currentTarget.value })}
      />
    </label>
  );
}

/** The reader's day as a time; `days` later. */
export function startOfDay(date: string, days = 0): string {
  const [year = 1970, month = 1, day = 1] = date.split('-').map(Number);
  return new Date(year, month - 1, day + days).toISOString();
}
