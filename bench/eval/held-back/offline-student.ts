/**
 * Teaches a student from recorded runs by a round, and asks it what it would answer. The code comes from a checkout, so
 * that two versions can be judged on the same runs. Bench process.
 *
 * The round is that of `understudy loop` without a capture database, without the gate before publication, and for one agent.
 */

import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { NormalAnswer, TurnBlock } from '../../../src/domain/turn.ts';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import { parseExact } from '../../../src/std/exact-json.ts';
import type * as AnswerModule from '../../../src/student/model/answer.ts';
import type { StudentBlock } from '../../../src/student/model/decision.ts';
import type * as StudentModule from '../../../src/student/model/student.ts';
import type * as StepModule from '../../../src/student/serving/step-reading.ts';
import type { GoldenMaterial, GoldenRun } from '../../../src/teaching/golden-steps.ts';
import type * as TeachingModule from '../../../src/teaching/taught-student.ts';
import type { Answer, Arguments, HeldBackAgent } from './held-back-agent.ts';
import type { RecordedRun, RecordedStep } from './offline-runs.ts';

/** Share of a kind of answer that may be wrong. */
const TARGET_ERROR = 0.05;
/** Tokens of every answer. The figures do not depend on them. */
const USAGE = {
  input_tokens: 500,
  output_tokens: 50,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  cache_write_1h_tokens: null,
} as const;

const makeIndex = (dimensions: number) => new ExactIndex(dimensions);

/** The functions of the checkout that this file calls. */
export interface StudentCode {
  answers: typeof AnswerModule;
  students: typeof StudentModule;
  steps: typeof StepModule;
  teaching: typeof TeachingModule;
}

/** The student's decision about a step. */
interface Said {
  is_served: boolean;
  /** Why the step is not served; '' if it is served. */
  reason: string;
  /** The answer that the student serves or would have served; null: it has none. */
  answer: Answer | null;
}

export interface OfflineStudent {
  /** Processor time of the round. */
  round_cpu_s: number;
  ask(step: RecordedStep): Said;
}

/** Loads the code of students from a checkout. @param checkout a checkout whose dependencies are installed */
export function loadStudentCode(checkout: string): StudentCode {
  // The path is known only at run time.
  const require = createRequire(import.meta.url);
  const load = (path: string): unknown => require(join(checkout, 'src', path)) as unknown;
  return {
    answers: load('student/model/answer.ts') as typeof AnswerModule,
    students: load('student/model/student.ts') as typeof StudentModule,
    steps: load('student/serving/step-reading.ts') as typeof StepModule,
    teaching: load('teaching/taught-student.ts') as typeof TeachingModule,
  };
}

/** Teaches a student with golden runs of an agent. @param golden oldest first */
export async function teachOffline(
  code: StudentCode,
  agent: HeldBackAgent,
  golden: readonly RecordedRun[],
): Promise<OfflineStudent> {
  const from = process.cpuUsage();
  const { model, threshold } = await code.teaching.teachStudent(
    gatherMaterial(code, agent, golden),
    { target_error: TARGET_ERROR, student: { kind: 'exemplar' }, makeIndex },
    { made_at: '', made_by: '', valid_until: '' },
  );
  const { user, system } = process.cpuUsage(from);
  const student = new code.students.Student(model, makeIndex);
  const ask = (recorded: RecordedStep): Said => {
    const step = readStep(code, recorded);
    const decision = student.decide(step, threshold);
    const answer = decision.covered ? decision.answer : student.propose(step).answer;
    return {
      is_served: decision.covered,
      reason: decision.covered ? '' : decision.reason,
      answer: answer === null ? null : toAnswer(answer.content),
    };
  };
  return { round_cpu_s: (user + system) / 1e6, ask };
}

/** Returns the recorded runs in the form in which a round reads them from a capture database. */
function gatherMaterial(
  code: StudentCode,
  { name, wire }: HeldBackAgent,
  golden: readonly RecordedRun[],
): GoldenMaterial {
  let exchange_id = 0;
  const taught = golden.map(({ seed, steps }): GoldenRun => {
    const first_id = exchange_id + 1;
    const read = steps.map((recorded) => {
      exchange_id++;
      const answer = code.answers.digestAnswer(toNormal(recorded.answer));
      const tokens = USAGE.input_tokens + USAGE.output_tokens;
      return { exchange_id, wire, step: readStep(code, recorded), answer, tokens };
    });
    return { run_id: `${name}-${seed}`, first_id, last_id: exchange_id, mark: String(seed), steps: read };
  });
  return {
    runs: taught.length,
    looked_at: taught.length,
    passed_over: 0,
    too_old: 0,
    read: taught.length,
    golden: taught.length,
    // Newest first.
    taught: taught.toReversed(),
    steps: exchange_id,
    not_golden: {},
    untaught: {},
    patterns: [],
  };
}

function readStep({ steps }: StudentCode, { agent, body, headers }: RecordedStep) {
  const read = steps.readStep(steps.WIRES[agent.wire], parseExact(body.toString()), headers);
  if (read === null)
    throw new Error(`a request of the ${agent.name} has content that the student does not read`);
  return read.step;
}

function toNormal({ text, calls }: Answer): NormalAnswer {
  const content: TurnBlock[] = calls.map(({ name, input }, at) => ({
    type: 'tool_call',
    id: `call-${at}`,
    name,
    input,
  }));
  if (text !== '') content.unshift({ type: 'text', text });
  const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn';
  return { id: '', model: '', content, stop_reason, usage: USAGE, error: null };
}

function toAnswer(content: readonly StudentBlock[]): Answer {
  return {
    text: content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
    calls: content.flatMap((block) =>
      block.type === 'tool_call' ? [{ name: block.name, input: block.input as Arguments }] : [],
    ),
  };
}
