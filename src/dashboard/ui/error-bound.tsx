/** A bar with a measured share of errors and its upper bound. Browser. */
import { formatNumber, formatShare } from '../core/format.ts';

/** The share at the end of the scale. A higher share is drawn there, too. */
const DRAWN_SHARE = 0.2;

export function ErrorBound({
  errors,
  of,
  at_most,
}: {
  errors: number | null;
  of: number | null;
  /** null: nothing was served. */
  at_most: number | null;
}) {
  if (errors === null || of === null || of === 0 || at_most === null) return <span class="faint">–</span>;
  const found = errors / of;
  const place = (share: number) => `${Math.min(100, (100 * share) / DRAWN_SHARE)}%`;
  return (
    <span
      class="error-bound"
      title={`${formatNumber(errors)} of ${formatNumber(of)} wrong; the true share is at most ${formatShare(at_most, 1)}`}
    >
      <span class="bound-track" aria-hidden="true">
        <i
          class="bound-range"
          style={{ left: place(found), width: `calc(${place(at_most)} - ${place(found)})` }}
        />
        <i class="bound-found" style={{ left: place(found) }} />
      </span>
      <span class="number">
        {formatNumber(errors)} of {formatNumber(of)}, ≤ {formatShare(at_most, 1)}
      </span>
    </span>
  );
}
