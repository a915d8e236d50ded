/** Formats amounts in dollars. Pure; browser. */

/** Shows cents, and four decimal places below 10 cents: `$12.30`, `$0.0042`; `< $0.0001` if these would all be 0. */
export function formatUsd(dollars: number): string {
  if (dollars === 0) return '$0';
  const size = Math.abs(dollars);
  if (size < 0.000_05) return dollars < 0 ? '> −$0.0001' : '< $0.0001';
  const sign = dollars < 0 ? '−' : '';
  if (size < 0.1) return `${sign}$${size.toFixed(4)}`;
  return `${sign}$${size.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}
