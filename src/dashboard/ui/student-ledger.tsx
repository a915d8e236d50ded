/** What the student has served and saved, by day. Browser. */
import type { Reply } from '../core/contract.ts';
import { countOf, formatDay, formatNumber, formatShort } from '../core/format.ts';
import { formatUsd } from '../core/money.ts';
import { Panel } from './basics.tsx';
import { Table } from './table.tsx';

type Entry = Reply<'GET /capture/student'>['ledger'][number];

type Total = NonNullable<Reply<'GET /capture/student'>['ledger_total']>;
type Saved = Pick<Total, 'saved_usd' | 'unpriced' | 'guessed'>;

interface Day extends Saved {
  day: string;
  served: number;
  compared: number;
  wrong: number;
  late: number;
  tokens: number;
}

/** Estimated dollars: `~` marks a guessed price, and `≥` steps without a price. */
export function SavedUsd({ of }: { of: Saved }) {
  const { saved_usd, unpriced, guessed } = of;
  if (saved_usd === null) return <>–</>;
  const dollars = `${unpriced > 0 ? '≥ ' : ''}${guessed > 0 ? '~' : ''}${formatUsd(saved_usd)}`;
  return <span title={sayUncertain(of)}>{dollars}</span>;
}

/** The unknown parts of a saving; undefined if all is known. */
export function sayUncertain({ saved_usd, unpriced, guessed }: Saved): string | undefined {
  const notes = [];
  if (unpriced > 0) notes.push(`${countOf(unpriced, 'step')} left out: GW_PRICES has no price for the model`);
  else if (saved_usd === null) notes.push('nothing with a known price was served');
  if (guessed > 0) notes.push(`${countOf(guessed, 'step')} priced like a model with a similar name`);
  return notes.join('; ') || undefined;
}

export function StudentLedger({ rows }: { rows: readonly Entry[] }) {
  return (
    <Panel
      title="Ledger"
      sub="By day (UTC): what the student served, what audits found wrong, and the estimated net saving."
    >
      <Table
        label="Ledger"
        columns={[
          { title: 'Day', show: ({ day }) => formatDay(day) },
          { title: 'Served', show: ({ served }) => formatNumber(served), kind: 'number' },
          { title: 'Audited', show: ({ compared }) => formatNumber(compared), kind: 'number' },
          { title: 'Wrong', show: ({ wrong }) => formatNumber(wrong), kind: 'number' },
          { title: 'Tokens saved', show: ({ tokens }) => formatShort(tokens), kind: 'number' },
          { title: 'Late', show: ({ late }) => formatNumber(late), kind: 'number' },
          { title: 'Saved', show: (day) => <SavedUsd of={day} />, kind: 'number' },
        ]}
        rows={addUpDays(rows)}
        keyOf={({ day }) => day}
        empty="Nothing was served yet."
      />
    </Panel>
  );
}

const NOTHING = {
  served: 0,
  compared: 0,
  wrong: 0,
  late: 0,
  unpriced: 0,
  guessed: 0,
  tokens: 0,
  saved_usd: null,
} as const;

/** Adds up the entries of each day over all agents. The newest day comes first. */
function addUpDays(rows: readonly Entry[]): Day[] {
  const days = new Map<string, Day>();
  for (const { day, saved_usd, input_tokens, output_tokens, ...row } of rows) {
    const sum = days.get(day) ?? { day, ...NOTHING };
    days.set(day, {
      day,
      served: sum.served + row.served,
      compared: sum.compared + row.compared,
      wrong: sum.wrong + row.wrong,
      late: sum.late + row.late,
      unpriced: sum.unpriced + row.unpriced,
      guessed: sum.guessed + row.guessed,
      tokens: sum.tokens + input_tokens + output_tokens,
      saved_usd: saved_usd === null ? sum.saved_usd : (sum.saved_usd ?? 0) + saved_usd,
    });
  }
  return [...days.values()].sort((a, b) => b.day.localeCompare(a.day));
}
