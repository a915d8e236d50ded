/** Filters of a list: each stands in the address, so that what is shown can be sent to somebody. Browser. */
import { useEffect, useState } from 'preact/hooks';
import { setFilters } from '../core/address.ts';

const PAUSE_MS = 250;

export function FilterField({
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
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => setFilters({ [name]: typed }), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed, value]);
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

/** A day of a filter. */
export function FilterDay({ name, label, value }: { name: string; label: string; value: string }) {
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
