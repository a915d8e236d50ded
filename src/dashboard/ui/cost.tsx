/** The cost of a conversation, and its unknown parts. Browser. */
import type { CapturedRun, CapturedTurn } from '../core/captured.ts';
import { countOf } from '../core/format.ts';
import { formatUsd } from '../core/money.ts';

type Costs = Pick<CapturedRun, 'cost_usd' | 'unpriced_turns' | 'estimated_turns' | 'turns'>;

/** Shows the cost of a run in a form that is short enough for a column. The tooltip says what is missing. */
export function Cost({ of: { cost_usd, unpriced_turns, estimated_turns, turns } }: { of: Costs }) {
  const why = sayUncertain(unpriced_turns, estimated_turns);
  const about = estimated_turns === 0 ? '' : '~';
  if (unpriced_turns === 0) {
    if (turns === 0) return <>–</>;
    return <span title={why}>{`${about}${formatUsd(cost_usd ?? 0)}`}</span>;
  }
  if (cost_usd === null)
    return (
      <span class="faint" title={why}>
        no price
      </span>
    );
  // A lower bound, because some turns have no price.
  return <span title={why}>{`≥ ${about}${formatUsd(cost_usd)}`}</span>;
}

/**
 * Says what the cost of a run lacks, and which turns were free, for places with more room; undefined: nothing to say.
 */
export function sayCost(
  { cost_usd, unpriced_turns, estimated_turns }: Costs,
  student_turns: number,
): string | undefined {
  const uncertain = [
    unpriced_turns === 0 ? undefined : `${countOf(unpriced_turns, 'turn')} not priced`,
    estimated_turns === 0 ? undefined : `${countOf(estimated_turns, 'turn')} estimated`,
  ];
  if (cost_usd === null && unpriced_turns > 0) return 'GW_PRICES can set a price';
  const free =
    student_turns === 0 ? undefined : `${countOf(student_turns, 'turn')} by the student, not charged`;
  return [...uncertain, free].filter((note) => note !== undefined).join('; ') || undefined;
}

/** The cost of one turn; an estimate comes with its reason. */
export function TurnCost({
  of: { cost_usd, cost_basis },
}: {
  of: Pick<CapturedTurn, 'cost_usd' | 'cost_basis'>;
}) {
  const dollars = formatUsd(cost_usd ?? 0);
  if (cost_basis === 'guessed_price') return <span class="faint">{`~${dollars}, guessed price`}</span>;
  return <span class="faint">{cost_basis === 'estimated_tokens' ? `~${dollars}, estimated` : dollars}</span>;
}

function sayUncertain(unpriced_turns: number, estimated_turns: number): string | undefined {
  const missing = unpriced_turns === 0 ? undefined : sayUnpriced(unpriced_turns);
  const estimated = estimated_turns === 0 ? undefined : `${countOf(estimated_turns, 'turn')} estimated`;
  return [missing, estimated].filter((note) => note !== undefined).join('; ') || undefined;
}

function sayUnpriced(turns: number): string {
  return `${countOf(turns, 'turn')} not counted: no price or no tokens known`;
}
