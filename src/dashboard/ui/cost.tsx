/** What a conversation cost, and what is not known of it. Browser. */
import type { CapturedRun } from '../core/captured.ts';
import { countOf } from '../core/format.ts';
import { formatUsd } from '../core/money.ts';

type Costs = Pick<CapturedRun, 'cost_usd' | 'unpriced_turns' | 'turns'>;

/** As short as a column is wide; what is missing is said when it is pointed at. */
export function Cost({ of: { cost_usd, unpriced_turns, turns } }: { of: Costs }) {
  if (unpriced_turns === 0) return <>{turns === 0 ? '–' : formatUsd(cost_usd ?? 0)}</>;
  const why = sayUnpriced(unpriced_turns);
  if (cost_usd === null)
    return (
      <span class="faint" title={why}>
        no price
      </span>
    );
  return <span title={why}>{`${formatUsd(cost_usd)} +`}</span>;
}

/** The same in words, for where there is room. */
export function sayCost({ cost_usd, unpriced_turns }: Costs, student_turns: number): string | undefined {
  const missing = unpriced_turns === 0 ? '' : sayUnpriced(unpriced_turns);
  if (cost_usd === null && missing !== '') return 'GW_PRICES tells prices';
  const free = student_turns === 0 ? '' : `${countOf(student_turns, 'turn')} by the student, not charged`;
  return [missing, free].filter((one) => one !== '').join('; ') || undefined;
}

function sayUnpriced(turns: number): string {
  return `${countOf(turns, 'turn')} not counted: no price or no tokens known`;
}
