/**
 * Measures what students of kind `http` serve, and how well, with models of several qualities behind them. It uses the
 * synthetic families and the calibration of a round, and then asks about new runs step by step over a real socket, as
 * the gateway does. A mediocre model is wrong at a rate that differs by kind of answer, so calibration must find the
 * kinds that may be served. A student that was calibrated with a perfect model then meets a hostile one. Bench process.
 */

import type { NormalRequest } from '../../src/domain/turn.ts';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { systemClock } from '../../src/std/clock.ts';
import { answersAgree } from '../../src/student/model/agreement.ts';
import { kindOfAnswer } from '../../src/student/model/answer-kind.ts';
import type { StudentAnswer } from '../../src/student/model/decision.ts';
import { kindOfServiceAnswer } from '../../src/student/model/service-evidence.ts';
import { Student } from '../../src/student/model/student.ts';
import { isFitAnswer } from '../../src/student/serving/answer-check.ts';
import { writeServiceRequest } from '../../src/student/serving/service-request.ts';
import { type ReadRequest, readServiceStep } from '../../src/student/serving/service-step.ts';
import { readWireRequest, WIRES } from '../../src/student/serving/step-reading.ts';
import { StudentService, TOO_LATE } from '../../src/student/serving/student-service.ts';
import { ToolSchemas } from '../../src/student/serving/tool-schemas.ts';
import { type GoldenRun, mainScope } from '../../src/teaching/golden-steps.ts';
import { splitForService } from '../../src/teaching/held-out.ts';
import { calibrateService, type ServiceAnswer } from '../../src/teaching/service-calibration.ts';
import { FAMILY_NAMES } from './agent-families.ts';
import { ModelServer, QUALITIES, type Quality } from './model-server.ts';
import { type RecordedRun, type RecordedStep, recordRuns } from './relegation-runs.ts';

const TARGET = 0.05;
/** Golden runs of each family: a round keeps about 45 of them for judging. */
const GOLDEN_RUNS = 75;
const NEW_RUNS = 30;
/** A hostile model gets fewer requests, because it leaves some of them without an answer. */
const HOSTILE_STEPS = 120;
const HOSTILE_DEADLINE_MS = 250;
const DEADLINE_MS = 60_000;
/** With fewer answers, a single wrong one would exceed the promise. */
const KIND_SERVED_MIN = 20;
const makeIndex = (dimensions: number) => new ExactIndex(dimensions);

interface ModelRow {
  quality: Quality;
  steps: number;
  served: number;
  errors: number;
  /** Covered steps on which the model was asked. */
  asked: number;
  /** How many of the `asked` steps the model would get wrong if it served them all. */
  wrong_if_all: number;
  kinds_served: number;
  /** Only kinds with at least KIND_SERVED_MIN served answers. */
  worst_kind: { kind: string; served: number; errors: number } | null;
  /** Longest time that a step waited for the model, in milliseconds. */
  longest_ms: number;
}

/** Prints the table. @returns what a result file keeps */
export async function evaluateModelStudents(seeds: readonly number[]) {
  const server = new ModelServer();
  const endpoint = await server.start();
  const schemas = new ToolSchemas();
  const rows: (ModelRow & { seed: number })[] = [];
  try {
    for (const seed of seeds) {
      const base = seed * 10_000_000;
      const golden = recordRuns(GOLDEN_RUNS * FAMILY_NAMES.length, base).map(toGolden);
      const fresh = recordRuns(NEW_RUNS * FAMILY_NAMES.length, base + 3_000_000).flatMap(
        ({ steps }) => steps,
      );
      server.seed = seed;
      const student = { kind: 'http', endpoint, model: 'small', style: 'chat_completions' } as const;
      for (const { recorded } of golden) for (const step of recorded) teach(server, step);
      for (const step of fresh) teach(server, step);
      for (const quality of QUALITIES) {
        server.quality = quality === 'hostile' ? 'perfect' : quality;
        const service = new StudentService(student, '');
        const found = await calibrate(golden, service, schemas);
        const taught = new Student(found.limit(found.calibration), makeIndex);
        const { threshold } = found.calibration;
        server.quality = quality;
        const steps = quality === 'hostile' ? fresh.slice(0, HOSTILE_STEPS) : fresh;
        const deadline = quality === 'hostile' ? HOSTILE_DEADLINE_MS : DEADLINE_MS;
        rows.push({ seed, quality, ...(await serve(taught, threshold, steps, student, schemas, deadline)) });
        await service.close();
      }
    }
  } finally {
    await server.close();
  }
  print(rows, seeds.length);
  return { golden_runs: GOLDEN_RUNS, new_runs: NEW_RUNS, target_error: TARGET, rows, goals: judge(rows) };
}

interface GoldenFamilyRun extends GoldenRun {
  recorded: readonly RecordedStep[];
}

function toGolden({ run_id, steps }: RecordedRun): GoldenFamilyRun {
  const golden = steps.map(({ step, answer }, at) => ({
    exchange_id: at,
    wire: 'messages' as const,
    step,
    answer,
    tokens: 0,
  }));
  return { run_id, first_id: 0, last_id: steps.length, mark: '', steps: golden, recorded: steps };
}

function readRequest({ request: body }: RecordedStep): ReadRequest {
  const wire = WIRES.messages;
  return { wire, body: body as never, request: readWireRequest(wire, body as never) as NormalRequest };
}

function teach(server: ModelServer, step: RecordedStep): void {
  const student = { kind: 'http', endpoint: '', model: 'small', style: 'chat_completions' } as const;
  const content = step.answer.content as never;
  const kind = `${step.family} ${kindOfAnswer(step.answer.content)}`;
  server.learn(writeServiceRequest(student, readServiceStep(readRequest(step))), content, kind);
}

async function calibrate(golden: readonly GoldenFamilyRun[], service: StudentService, schemas: ToolSchemas) {
  const recorded = new Map(
    golden.flatMap(({ steps, recorded }) => steps.map((step, at) => [step, recorded[at]!])),
  );
  const split = splitForService([...golden], (run) => mainScope(run), null);
  return calibrateService(
    split,
    {
      consistency: { answers: 1, with_exemplar: false },
      untold: {},
      answer: async (step, said) => {
        const asked = readRequest(recorded.get(step)!);
        const answer = await ask(service, asked, DEADLINE_MS);
        return [
          answer === null || !isFitAnswer(answer, asked.request, asked, schemas)
            ? null
            : judgeKind(asked, answer, said),
        ];
      },
    },
    { target_error: TARGET, never_serve: [], makeIndex, tell: () => {} },
  );
}

function judgeKind(
  { request }: ReadRequest,
  answer: StudentAnswer,
  said: ReadonlySet<number>,
): ServiceAnswer {
  return { answer, kind: kindOfServiceAnswer(answer.content, request, said) };
}

/** Asks the model. @returns null when the request failed, or the answer is late */
async function ask(
  service: StudentService,
  asked: ReadRequest,
  deadlineMs: number,
): Promise<StudentAnswer | null> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(TOO_LATE), deadlineMs);
  try {
    return await service.ask(readServiceStep(asked), late.signal);
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}

/** Decides new steps as the gateway's student does. @returns how many were served, and how many of them were wrong */
async function serve(
  student: Student,
  threshold: number,
  steps: readonly RecordedStep[],
  of: ConstructorParameters<typeof StudentService>[0],
  schemas: ToolSchemas,
  deadlineMs: number,
): Promise<Omit<ModelRow, 'quality'>> {
  // Each reading of the clock is an hour later, so the pause after failures is always over and every step reaches the
  // model.
  let nowMs = 0;
  const clock = {
    ...systemClock,
    monotonicMs: () => (nowMs += 3_600_000),
    wallMs: () => systemClock.wallMs(),
  };
  const service = new StudentService(of, '', clock);
  const kinds = new Map<string, { served: number; errors: number }>();
  const sum = { steps: steps.length, served: 0, errors: 0, asked: 0, wrong_if_all: 0, longest_ms: 0 };
  for (const recorded of steps) {
    const decision = student.decide(recorded.step, threshold, 'coverage');
    if (!decision.covered) continue;
    const asked = readRequest(recorded);
    const from = performance.now();
    const answer = await ask(service, asked, deadlineMs);
    sum.asked += 1;
    sum.longest_ms = Math.max(sum.longest_ms, performance.now() - from);
    const isWrong = answer === null || !answersAgree(answer, recorded.answer);
    if (isWrong) sum.wrong_if_all += 1;
    if (answer === null || !isFitAnswer(answer, asked.request, asked, schemas)) continue;
    const agent = decision.agent ?? '';
    const kind = student.kindOf(agent, answer.content, asked.request);
    if (!student.serves(agent, kind, decision.score)) continue;
    const key = `${recorded.family} ${kind}`;
    const counted = kinds.get(key) ?? { served: 0, errors: 0 };
    kinds.set(key, counted);
    counted.served += 1;
    sum.served += 1;
    if (!isWrong) continue;
    counted.errors += 1;
    sum.errors += 1;
  }
  await service.close();
  const many = [...kinds].filter(([, { served }]) => served >= KIND_SERVED_MIN);
  const [worst] = many.sort(([, a], [, b]) => b.errors / b.served - a.errors / a.served);
  return {
    ...sum,
    kinds_served: kinds.size,
    worst_kind: worst === undefined ? null : { kind: worst[0], ...worst[1] },
  };
}

function judge(rows: readonly ModelRow[]): Record<string, boolean> {
  const of = (quality: Quality): ModelRow[] => rows.filter((row) => row.quality === quality);
  const share = (chosen: readonly ModelRow[], read: (row: ModelRow) => number): number =>
    chosen.reduce((all, row) => all + read(row), 0);
  const error = (chosen: readonly ModelRow[]): number =>
    share(chosen, ({ errors }) => errors) /
    Math.max(
      1,
      share(chosen, ({ served }) => served),
    );
  const [perfect, mediocre, poor, hostile] = QUALITIES.map(of) as [
    ModelRow[],
    ModelRow[],
    ModelRow[],
    ModelRow[],
  ];
  return {
    'a perfect model behind the student: nothing that is served is wrong':
      share(perfect, ({ errors }) => errors) === 0,
    'a mediocre model behind it: at most 5 % of what is served is wrong, in each seed': mediocre.every(
      (row) => error([row]) <= TARGET,
    ),
    'a poor model behind it: at most 5 % of what is served is wrong': error(poor) <= TARGET,
    'a hostile model behind it: nothing is served, and no step waits longer than its deadline and a second':
      hostile.every(({ served, longest_ms }) => served === 0 && longest_ms < HOSTILE_DEADLINE_MS + 1_000),
  };
}

function print(rows: readonly ModelRow[], seeds: number): void {
  const cells = (values: readonly string[]): string => values.map((value) => value.padStart(13)).join('');
  console.log(
    `\nA model behind the student: ${GOLDEN_RUNS} golden runs of each of ${FAMILY_NAMES.length} agents, ${seeds} seeds, target ${100 * TARGET} %\n`,
  );
  console.log(
    ''.padEnd(12) + cells(['asked', 'wrong if all', 'served', 'wrong', 'kinds', 'worst kind', 'longest ms']),
  );
  const share = (part: number, whole: number): string =>
    `${((100 * part) / Math.max(1, whole)).toFixed(1)} %`;
  for (const quality of QUALITIES) {
    const chosen = rows.filter((row) => row.quality === quality);
    const sum = (read: (row: ModelRow) => number): number => chosen.reduce((all, row) => all + read(row), 0);
    const worst = chosen.map((row) => row.worst_kind).filter((kind) => kind !== null);
    const worstShare = Math.max(0, ...worst.map(({ served, errors }) => errors / served));
    console.log(
      quality.padEnd(12) +
        cells([
          share(
            sum(({ asked }) => asked),
            sum(({ steps }) => steps),
          ),
          share(
            sum(({ wrong_if_all }) => wrong_if_all),
            sum(({ asked }) => asked),
          ),
          share(
            sum(({ served }) => served),
            sum(({ steps }) => steps),
          ),
          share(
            sum(({ errors }) => errors),
            sum(({ served }) => served),
          ),
          String(sum(({ kinds_served }) => kinds_served)),
          share(worstShare, 1),
          Math.max(...chosen.map(({ longest_ms }) => longest_ms)).toFixed(0),
        ]),
    );
  }
}
