/**
 * `npm run eval -- relegation --held-back --offline`: measures without a gateway which steps of the held-back agents a
 * student would serve, and whether its answers are right (README.md of this folder). Bench process.
 *
 * Each agent's golden runs and judged runs are recorded once. A round over the golden runs teaches a student, which is asked
 * about every step of the judged runs with the frontier model's context. It serves no client, so there are no audits.
 */

import { movesNow } from './frontier.ts';
import type { HeldBackAgent } from './held-back-agent.ts';
import type { OfflineOptions } from './held-back-options.ts';
import type { OfflineResult } from './held-back-result.ts';
import { describeOffline } from './offline-report.ts';
import { type RecordedRun, type RecordedStep, RunRecorder } from './offline-runs.ts';
import { loadStudentCode, type OfflineStudent, type StudentCode, teachOffline } from './offline-student.ts';
import { addRefusal, addServed, startFigures, type TrialFigures } from './trial-figures.ts';
import { judgeAnswer } from './truth.ts';

/** Prints the measurement; nothing is stored. */
export async function evaluateOffline(options: OfflineOptions): Promise<void> {
  const results = await measureOffline(options, (what) => console.error(`held back, offline: ${what}`));
  console.log(describeOffline(results, options.seed).join('\n'));
}

/** Teaches and judges a student for each agent. @returns each agent's results, one for each number of golden runs */
export async function measureOffline(
  options: OfflineOptions,
  say: (what: string) => void,
): Promise<OfflineResult[]> {
  const code = loadStudentCode(options.checkout);
  const results: OfflineResult[] = [];
  for (const agent of options.agents) {
    say(agent.name);
    results.push(...(await measureAgent(agent, code, await recordAgent(agent, options))));
  }
  return results;
}

interface RecordedAgent {
  usual: RecordedRun[];
  restricted: RecordedRun[];
  /** The golden runs in steps: each entry adds runs until there are `golden_runs` of them. */
  golden: { golden_runs: number; added: RecordedRun[] }[];
}

/**
 * Records all runs of an agent before the first round. A round blocks the thread for so long that idle connections
 * would be closed.
 */
async function recordAgent(
  agent: HeldBackAgent,
  { golden, runs, restricted, seed }: OfflineOptions,
): Promise<RecordedAgent> {
  const recorder = await RunRecorder.start(seed);
  try {
    const recorded: RecordedAgent = {
      usual: await recorder.record(agent, 'usual', 0, runs),
      restricted: await recorder.record(agent, 'restricted', 0, restricted),
      golden: [],
    };
    for (const [at, golden_runs] of golden.entries())
      recorded.golden.push({
        golden_runs,
        added: await recorder.record(agent, 'golden', golden[at - 1] ?? 0, golden_runs),
      });
    return recorded;
  } finally {
    await recorder.close();
  }
}

/** Measures one agent with its own student, because agents share nothing. */
async function measureAgent(
  agent: HeldBackAgent,
  code: StudentCode,
  { usual, restricted, golden }: RecordedAgent,
): Promise<OfflineResult[]> {
  const taught: RecordedRun[] = [];
  const results: OfflineResult[] = [];
  for (const { golden_runs, added } of golden) {
    taught.push(...added);
    const student = await teachOffline(code, agent, taught);
    results.push({
      agent: agent.name,
      golden_runs,
      round_cpu_s: student.round_cpu_s,
      usual: judgeRuns(student, usual),
      restricted: judgeRuns(student, restricted),
    });
  }
  return results;
}

/** Asks the student about every step, and judges its answers by the agent's world. */
export function judgeRuns(student: OfflineStudent, runs: readonly RecordedRun[]): TrialFigures {
  const figures = startFigures(runs.length);
  for (const { steps } of runs) {
    const right = steps.filter((step) => judgeStep(figures, student, step)).length;
    figures.steps += steps.length;
    if (right === steps.length) figures.runs_served++;
  }
  // Equal to `runs_served`, because there are no audits.
  figures.runs_covered = figures.runs_served;
  return figures;
}

/** Asks the student, and adds the outcome to the figures. @returns whether the step is served with a right answer */
function judgeStep(figures: TrialFigures, student: OfflineStudent, step: RecordedStep): boolean {
  const { agent, run, turns } = step;
  const { is_served, reason, answer } = student.ask(step);
  const fault = answer === null ? null : judgeAnswer(agent, run, movesNow(run, turns), answer);
  if (is_served && answer !== null) {
    addServed(figures, { answer, fault });
    return fault === null;
  }
  addRefusal(figures, reason, answer === null ? 'without' : fault === null ? 'right' : 'wrong');
  return false;
}
