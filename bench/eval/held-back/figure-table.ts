/** Sums the figures of held-back trials, and writes them as lines of a table. Pure; bench process. */

import type { TrialFigures } from './trial-figures.ts';

const NAME_WIDTH = 18;
const CELL_WIDTH = 11;

export function row(label: string, columns: readonly string[]): string {
  return `  ${label.padEnd(NAME_WIDTH)}${columns.map((cell) => cell.padStart(CELL_WIDTH)).join('')}`.trimEnd();
}

export function percent(part: number, whole: number): string {
  return whole === 0 ? '-' : `${((100 * part) / whole).toFixed(1)} %`;
}

/** Lists the reasons for refused steps, each with the numbers of right answers, of wrong answers and of no answers. */
export function tellReasons({ reasons }: TrialFigures): string {
  return Object.entries(reasons)
    .toSorted(([, a], [, b]) => b.right - a.right)
    .map(([reason, { right, wrong, without }]) => `${reason} ${right} + ${wrong} + ${without}`)
    .join(', ');
}

/** Sums several agents' figures. */
export function sumFigures(list: readonly TrialFigures[]): TrialFigures {
  const add = <K extends keyof TrialFigures>(key: K): number =>
    list.reduce((total, figures) => total + (figures[key] as number), 0);
  const reasons: TrialFigures['reasons'] = {};
  const refused = { right: 0, wrong: 0, without: 0 };
  for (const figures of list)
    for (const [reason, each] of Object.entries(figures.reasons))
      for (const verdict of ['right', 'wrong', 'without'] as const) {
        reasons[reason] ??= { right: 0, wrong: 0, without: 0 };
        reasons[reason][verdict] += each[verdict];
        refused[verdict] += each[verdict];
      }
  return {
    runs: add('runs'),
    steps: add('steps'),
    served: add('served'),
    wrong: add('wrong'),
    audited: add('audited'),
    audited_wrong: add('audited_wrong'),
    refused,
    reasons,
    runs_served: add('runs_served'),
    runs_covered: add('runs_covered'),
    kinds: {},
    examples: [],
  };
}
