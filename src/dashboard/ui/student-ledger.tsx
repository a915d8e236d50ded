/** What the student has served and saved, by day. Browser. */
import type { Reply } from '../core/contract.ts';
import { formatDay, formatNumber, formatShort } from '../core/format.ts';
import { formatUsd } from '../core/money.ts';
import { Panel } from './basics.tsx';
import { Table } from './table.tsx';

type Entry = Reply<'GET /capture/student'>['ledger'][number];

interface Day {
  day: string;
  served: number;
  compared: number;
  wrong: number;
  tokens: number;
  saved_usd: number | null;
}

export function StudentLedger({ rows }: { rows: readonly Entry[] }) {
  return (
    <Panel title="Ledger" sub="What it served, what audits found wrong, and what it saved, by day (UTC).">
      <Table
        label="Ledger"
        columns={[
          { title: 'Day', show: ({ day }) => formatDay(day) },
          { title: 'Served', show: ({ served }) => formatNumber(served), kind: 'number' },
          { title: 'Audited', show: ({ compared }) => formatNumber(compared), kind: 'number' },
          { title: 'Wrong', show: ({ wrong }) => formatNumber(wrong), kind: 'number' },
          { title: 'Tokens saved', show: ({ tokens }) => formatShort(tokens), kind: 'number' },
          {
            title: 'Saved',
            show: ({ saved_usd }) => (saved_usd === null ? '–' : formatUsd(saved_usd)),
            kind: 'number',
          },
        ]}
        rows={addUpDays(rows)}
        keyOf={({ day }) => day}
        empty="Nothing was served yet."
      />
    </Panel>
  );
}

/** Of all agents, the newest day first. */
function addUpDays(rows: readonly Entry[]): Day[] {
  const days = new Map<string, Day>();
  for (const { day, served, compared, wrong, input_tokens, output_tokens, saved_usd } of rows) {
    const sum = days.get(day) ?? { day, served: 0, compared: 0, wrong: 0, tokens: 0, saved_usd: null };
    days.set(day, {
      day,
      served: sum.served + served,
      compared: sum.compared + compared,
      wrong: sum.wrong + wrong,
      tokens: sum.tokens + input_tokens + output_tokens,
      saved_usd: saved_usd === null ? sum.saved_usd : (sum.saved_usd ?? 0) + saved_usd,
    });
  }
  return [...days.values()].sort((a, b) => b.day.localeCompare(a.day));
}
