/** A trial's results for one agent: sums over its steps and runs. Pure; bench process. */

import { movesNow } from './frontier.ts';
import type { HeldBackAgent, Tool } from './held-back-agent.ts';
import type { TrialRun, TrialStep } from './trial-run.ts';
import type { Explanation } from './trial-service.ts';
import { judgeAnswer } from './truth.ts';

/** Maximum number of wrong answers that are shown as examples. */
const EXAMPLES_MAX = 8;

/** Steps that the upstream served, by what the student would have answered. */
interface Refusals {
  right: number;
  wrong: number;
  /** The student had no answer. */
  without: number;
}

export interface TrialFigures {
  runs: number;
  steps: number;
  served: number;
  wrong: number;
  audited: number;
  /** Audited steps for which the student's answer was wrong. */
  audited_wrong: number;
  refused: Refusals;
  /** Refused steps by the gateway's reason. */
  reasons: Record<string, Refusals>;
  /** Runs in which the student served every step, each with a right answer. */
  runs_served: number;
  /** Like `runs_served`, but audited steps count as served. */
  runs_covered: number;
  /** Served answers, by the tools that they call. */
  kinds: Record<string, { served: number; wrong: number }>;
  /** The faults of served answers. */
  examples: string[];
}

/** Figures before any step is counted. */
export function startFigures(runs: number): TrialFigures {
  return {
    runs,
    steps: 0,
    served: 0,
    wrong: 0,
    audited: 0,
    audited_wrong: 0,
    refused: { right: 0, wrong: 0, without: 0 },
    reasons: {},
    runs_served: 0,
    runs_covered: 0,
    kinds: {},
    examples: [],
  };
}

/** Adds up the figures of runs. @param explain gives the gateway's decision about an exchange, and the student's answer */
export async function addUp(
  runs: readonly TrialRun[],
  explain: (exchange: number) => Promise<Explanation | null>,
): Promise<TrialFigures> {
  const figures = startFigures(runs.length);
  for (const { steps } of runs) {
    let covered = 0;
    for (const step of steps) {
      figures.steps++;
      if (step.is_served) addServed(figures, step);
      else if (await addRefused(figures, step, explain)) covered++;
    }
    const right = steps.filter(({ is_served, fault }) => is_served && fault === null).length;
    if (right === steps.length) figures.runs_served++;
    if (right + covered === steps.length) figures.runs_covered++;
  }
  return figures;
}

/** Counts a step that the student serves. @param fault why the answer is wrong; null: it is right */
export function addServed(
  figures: TrialFigures,
  { answer, fault }: Pick<TrialStep, 'answer' | 'fault'>,
): void {
  const names = answer.calls.map(({ name }) => name).toSorted();
  const kind = names.length === 0 ? 'text' : [...new Set(names)].join(' + ');
  figures.kinds[kind] ??= { served: 0, wrong: 0 };
  figures.kinds[kind].served++;
  figures.served++;
  if (fault === null) return;
  figures.kinds[kind].wrong++;
  figures.wrong++;
  if (figures.examples.length < EXAMPLES_MAX) figures.examples.push(fault);
}

/** Adds a step that the student did not serve to the figures. @returns whether the step was audited */
async function addRefused(
  figures: TrialFigures,
  step: TrialStep,
  explain: (exchange: number) => Promise<Explanation | null>,
): Promise<boolean> {
  const explanation = await explain(step.exchange);
  const reason = explanation?.relegation?.decision ?? 'no student';
  const verdict = judgeProposal(step, explanation);
  if (reason === 'audit') {
    figures.audited++;
    if (verdict === 'wrong') figures.audited_wrong++;
    return true;
  }
  addRefusal(figures, reason, verdict);
  return false;
}

/** Counts a step that the student does not serve. @param verdict on the answer that it would have given */
export function addRefusal(figures: TrialFigures, reason: string, verdict: keyof Refusals): void {
  figures.refused[verdict]++;
  figures.reasons[reason] ??= { right: 0, wrong: 0, without: 0 };
  figures.reasons[reason][verdict]++;
}

function judgeProposal(step: TrialStep, explanation: Explanation | null): keyof Refusals {
  const values = explanation?.comparison?.values ?? [];
  const answer = readProposal(step.agent, values);
  if (answer === null) return 'without';
  const { agent, run, turns } = step;
  return judgeAnswer(agent, run, movesNow(run, turns), answer) === null ? 'right' : 'wrong';
}

/** Assembles the student's answer from the explanation, which shows it value by value; null: it shows no answer. */
function readProposal(agent: HeldBackAgent, values: readonly { place: string; student: string | null }[]) {
  const told = new Map(
    values.flatMap(({ place, student }): [string, string][] => (student === null ? [] : [[place, student]])),
  );
  if (told.size === 0) return null;
  const calls = [];
  for (let at = 1; told.has(`call ${at}`); at++) {
    const name = told.get(`call ${at}`)!;
    const known = agent.tools.find((each) => each.name === name);
    calls.push({ name, input: readInput(told, `call ${at}.`, known) });
  }
  return { text: told.get('text') ?? '', calls };
}

function readInput(told: ReadonlyMap<string, string>, prefix: string, known: Tool | undefined) {
  const { properties = {} } = (known?.parameters ?? {}) as { properties?: Record<string, { type?: string }> };
  const input: Record<string, unknown> = {};
  for (const [place, text] of told) {
    if (!place.startsWith(prefix)) continue;
    const [field = '', ...path] = place.slice(prefix.length).split('.');
    if (path.length === 0) input[field] = properties[field]?.type === 'string' ? text : parseOr(text);
    else {
      input[field] ??= [];
      (input[field] as unknown[]).push(text);
    }
  }
  return input;
}

function parseOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
