/**
 * Measures the student on public conversations: two customer-service suites (../shared/trajectories, its README names
 * them). The student learns from runs that passed the suite's own check, and is asked about the steps of other runs
 * that passed. These are other trials of the same tasks, or runs of other tasks. A served answer is wrong if the run
 * had another answer at the same step. The customer is a model, so no two trials have the same texts. Bench process.
 */

import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { answersAgree } from '../../src/student/model/agreement.ts';
import type { StudentAnswer } from '../../src/student/model/decision.ts';
import { boundError } from '../../src/student/model/error-bound.ts';
import { Student, type StudentIndex } from '../../src/student/model/student.ts';
import { calibrateStudent } from '../../src/teaching/calibration.ts';
import { fitStudent, limitAgents } from '../../src/teaching/student-fit.ts';
import type { MessagesRequest, WireBlock, WireMessage, WireTool } from './agent-family.ts';
import { ExactCache, SemanticCache } from './relegation-baselines.ts';
import { type RecordedStep, readAnswer, readStep } from './relegation-runs.ts';

const FILE = resolve(import.meta.dirname, '../../../shared/trajectories/tune.jsonl.gz');
const FOLDS = 4;
/** Fewer folds than a round uses, because learning from texts of hundreds of words is slow. */
const CALIBRATION_FOLDS = 3;
const TARGETS = [0.05, 0.2] as const;
/**
 * A threshold that replaces the student's own thresholds. It shows what the student has learnt, even if the evidence is
 * too small for it to serve.
 */
const UNPROVEN_SCORE = 0.5;
const SIMILARITIES = [0.9, 0.98] as const;
/** Tools of the suites that change the database. */
const CHANGES = /^(?:book|cancel|update|send|modify|exchange|return)_/;

interface ChatCall {
  id: string;
  function: { name: string; arguments: string };
}
interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string | null;
  tool_calls?: ChatCall[] | null;
  tool_call_id?: string;
}
interface Trajectory {
  suite: string;
  run: string;
  task: number | string;
  trial: number;
  passed: boolean;
  model: string;
  tools: { name: string; description: string; parameters: Record<string, unknown> }[];
  messages: ChatMessage[];
}

/** How many of the steps were served, and how many of these were wrong. */
interface Served {
  steps: number;
  served: number;
  wrong: number;
  /** Calls that change the database. */
  changes: { served: number; wrong: number };
}

interface SplitResult {
  suite: string;
  split: 'trials' | 'tasks';
  folds: number;
  learnt_runs: number;
  asked_runs: number;
  ways: Record<string, Served>;
}

/** Reads the trajectories; null if the file is missing. */
function readTrajectories(file = FILE): Trajectory[] | null {
  if (!existsSync(file)) return null;
  const lines = gunzipSync(readFileSync(file)).toString('utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Trajectory);
}

/** Prints the table. @returns the content of a result file; null if the suites are missing */
export function evaluateTrajectories(file?: string): SplitResult[] | null {
  const all = readTrajectories(file);
  if (all === null) {
    console.log(`\npublic trajectories are left out: ${file ?? '../shared/trajectories'} does not exist`);
    return null;
  }
  const results: SplitResult[] = [];
  for (const suite of new Set(all.map((run) => run.suite))) {
    const runs = all.filter((run) => run.suite === suite && run.passed);
    const recorded = new Map(runs.map((run) => [run, recordTrajectory(run)]));
    const trials = [...new Set(runs.map(({ trial }) => trial))].sort((a, b) => a - b);
    const tasks = [...new Set(runs.map(({ task }) => String(task)))].sort();
    // Splits by trials only if tasks have several trials. Otherwise this would be another split by tasks.
    if (runs.length > tasks.length)
      results.push(
        measureSplit(suite, 'trials', recorded, trials.length, ({ trial }) => trials.indexOf(trial)),
      );
    results.push(
      measureSplit(suite, 'tasks', recorded, FOLDS, ({ task }) => tasks.indexOf(String(task)) % FOLDS),
    );
  }
  print(results);
  return results;
}

/** Cross-validates: a student that learnt from all other parts is asked about each part. */
function measureSplit(
  suite: string,
  split: SplitResult['split'],
  recorded: ReadonlyMap<Trajectory, RecordedStep[]>,
  folds: number,
  foldOf: (run: Trajectory) => number,
): SplitResult {
  const ways: Record<string, Served> = {};
  let learnt = 0;
  let asked = 0;
  for (let fold = 0; fold < folds; fold++) {
    const runs = [...recorded];
    const golden = runs.filter(([run]) => foldOf(run) !== fold);
    const held = runs.filter(([run]) => foldOf(run) === fold);
    if (held.length === 0) continue;
    learnt += golden.length;
    asked += held.length;
    const steps = golden.flatMap(([, recorded]) => recorded);
    const live = held.flatMap(([, recorded]) => recorded);
    for (const [way, ask] of Object.entries(learnWays(steps))) {
      const sum = ways[way] ?? { steps: 0, served: 0, wrong: 0, changes: { served: 0, wrong: 0 } };
      ways[way] = sum;
      count(sum, live, ask);
    }
  }
  return { suite, split, folds, learnt_runs: Math.round(learnt / folds), asked_runs: asked, ways };
}

type Ask = (step: RecordedStep) => StudentAnswer | null;

function learnWays(golden: readonly RecordedStep[]): Record<string, Ask> {
  const model = fitStudent(golden);
  const ways: Record<string, Ask> = {};
  const { curve } = calibrateStudent(golden, { makeIndex, folds: CALIBRATION_FOLDS });
  for (const target of TARGETS) {
    const { agents, threshold } = curve.find((point) => point.target_error === target)!;
    const student = new Student(limitAgents(model, agents), makeIndex);
    ways[`student, target ${100 * target} %`] = ({ step }) => {
      const decision = student.decide(step, threshold);
      return decision.covered ? decision.answer : null;
    };
  }
  const unlimited = new Student(model, makeIndex);
  ways[`student, any score up to ${UNPROVEN_SCORE}`] = ({ step }) => {
    const decision = unlimited.decide(step, UNPROVEN_SCORE);
    return decision.covered ? decision.answer : null;
  };
  const exact = new ExactCache(golden);
  ways['exact cache'] = ({ request }) => exact.find(request)?.answer ?? null;
  const semantic = new SemanticCache(golden);
  for (const similarity of SIMILARITIES)
    ways[`semantic cache, cosine ${similarity}`] = ({ request }) => {
      const found = semantic.find(request);
      return found === null || found.similarity < similarity ? null : found.answer;
    };
  return ways;
}

const makeIndex = (dimensions: number): StudentIndex => new ExactIndex(dimensions);

function count(sum: Served, steps: readonly RecordedStep[], ask: Ask): void {
  for (const recorded of steps) {
    sum.steps++;
    const answer = ask(recorded);
    if (answer === null) continue;
    sum.served++;
    const isWrong = !answersAgree(answer, recorded.answer);
    if (isWrong) sum.wrong++;
    if (!answer.content.some((block) => block.type === 'tool_call' && CHANGES.test(block.name))) continue;
    sum.changes.served++;
    if (isWrong) sum.changes.wrong++;
  }
}

/** Returns the steps of one conversation in the form of an agent that uses the Messages API. */
function recordTrajectory(run: Trajectory): RecordedStep[] {
  const system = run.messages.find(({ role }) => role === 'system')?.content ?? '';
  const tools = run.tools.map(
    ({ name, description, parameters }): WireTool => ({ name, description, input_schema: parameters }),
  );
  const messages: WireMessage[] = [];
  const steps: RecordedStep[] = [];
  // Each call gets a new id, because a few ids repeat within a run.
  const ids = new Map<string, string>();
  let calls = 0;
  const push = (role: WireMessage['role'], blocks: WireBlock[]): void => {
    const last = messages.at(-1);
    if (last?.role === role && typeof last.content !== 'string') last.content.push(...blocks);
    else messages.push({ role, content: blocks });
  };
  for (const { role, content, tool_calls, tool_call_id } of run.messages) {
    if (role === 'system') continue;
    if (role === 'user') push('user', [{ type: 'text', text: content ?? '' }]);
    else if (role === 'tool') {
      const id = ids.get(tool_call_id ?? '') ?? '';
      push('user', [{ type: 'tool_result', tool_use_id: id, content: content ?? '' }]);
    } else {
      const blocks: WireBlock[] = content ? [{ type: 'text', text: content }] : [];
      for (const call of tool_calls ?? []) {
        const id = `toolu_${calls++}`;
        ids.set(call.id, id);
        const input = JSON.parse(call.function.arguments) as Record<string, unknown>;
        blocks.push({ type: 'tool_use', id, name: call.function.name, input });
      }
      if (blocks.length === 0) continue;
      if (messages.at(-1)?.role === 'user') steps.push(recordStep(run, system, tools, messages, blocks));
      push('assistant', blocks);
    }
  }
  return steps;
}

function recordStep(
  run: Trajectory,
  system: string,
  tools: WireTool[],
  messages: readonly WireMessage[],
  content: WireBlock[],
): RecordedStep {
  const request: MessagesRequest = {
    model: run.model,
    max_tokens: 4_096,
    system: [{ type: 'text', text: system }],
    tools,
    messages: structuredClone(messages) as WireMessage[],
    metadata: { user_id: run.run },
  };
  const answer = readAnswer({
    id: 'msg',
    type: 'message',
    role: 'assistant',
    model: run.model,
    content,
    stop_reason: content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  });
  return { run_id: run.run, family: run.suite, is_shifted: false, request, step: readStep(request), answer };
}

function print(results: readonly SplitResult[]): void {
  for (const { suite, split, learnt_runs, asked_runs, ways } of results) {
    console.log(
      `\n${suite}, split by ${split}: ${asked_runs} passed runs, each judged with a student of about ${learnt_runs} other runs`,
    );
    console.log(`${''.padEnd(34)}    served   of steps     wrong   at most   changes (wrong)`);
    for (const [way, { steps, served, wrong, changes }] of Object.entries(ways))
      console.log(
        way.padEnd(34) +
          String(served).padStart(10) +
          percent(served / Math.max(1, steps)) +
          (served === 0
            ? '         -         -'
            : percent(wrong / served) + percent(boundError(wrong, served))) +
          `${changes.served} (${changes.wrong})`.padStart(18),
      );
  }
}

function percent(value: number): string {
  return `${(100 * value).toFixed(1)} %`.padStart(10);
}
