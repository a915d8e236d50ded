/** Filters of a list. They are in the address, so that the filtered list can be shared. Browser. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { setFilters } from '../core/address.ts';

const PAUSE_MS = 250;

/** The filters of a list. */
export function FilterRow({ children }: { children: ComponentChildren }) {
  return <search class="filters">{children}</search>;
}

/** A field of a filter, with its label. With `wide`, the field fills the remaining width. */
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
  /** Name of the filter in the address. */
  name: string;
  value: string;
  placeholder: string;
  maxLength?: number;
}) {
  const [typed, setTyped] = useState(value);
  /** The last value that the field and the address shared. The side with another value is the newer one. */
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

/** The first and the last day of a filter, both included. */
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

/** The beginning of the day that is `days` after `date`, in the reader's time zone. */
export function startOfDay(date: string, days = 0): string {
  const [year = 1970, month = 1, day = 1] = date.split('-').map(Number);
  return new Date(year, month - 1, day + days).toISOString();
}
