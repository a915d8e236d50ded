/**
 * `npm run bench -- relegation`: measures how much time the student adds to a step. It compares several ways: the
 * upstream without a gateway, the gateway with relegation off, the gateway with a student that does not cover the step,
 * and the gateway with a student that covers it. Two more ways are a client that requests a chat-completions model, and
 * the same model behind a student of kind `http`. Each way has one keep-alive connection. Short blocks of requests
 * alternate between the ways, so that other work of the machine slows all of them alike. Own process; upstream and
 * gateways are separate processes.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'undici';
import { type FakeProvider, startFakeProvider } from '../src/demo/fake-provider.ts';
import { createPrng } from '../src/std/prng.ts';
import { kindOfAnswer } from '../src/student/model/answer-kind.ts';
import { limitByService } from '../src/student/model/service-evidence.ts';
import { writeServiceRequest } from '../src/student/serving/service-request.ts';
import { readServiceStep } from '../src/student/serving/service-step.ts';
import { readWireRequest, WIRES } from '../src/student/serving/step-reading.ts';
import { fitStudent } from '../src/teaching/student-fit.ts';
import { makeGoldenSteps, makeOrder, OrderRun, orderScript, publishOrderStudent } from './order-agent.ts';
import { type Quantiles, Samples } from './quantiles.ts';
import { type Provenance, saveResult, takeProvenance } from './results.ts';
import { startServer, startTargets, type Target } from './targets.ts';

const WAYS = ['direct', 'off', 'uncovered', 'covered', 'model', 'model behind'] as const;
type Way = (typeof WAYS)[number];

const BLOCK = 25;
/**
 * Warm-up blocks of requests of each way before each measurement. Code becomes faster while it runs, and a real gateway
 * runs for days.
 */
const WARM_UP_BLOCKS = 80;
const REPLY_BYTES = 1_000;
/** Additional characters of the agent's system prompt. */
const PROMPTS = [0, 20_000, 100_000];
/** The goal: the median time that relegation may add to a step. */
const GOAL_US = 1_000;
const STUDENT_LIMIT_MS = 60_000;
const HEADERS = {
  'content-type': 'application/json',
  'anthropic-version': '2023-06-01',
  'x-api-key': 'sk-ant-bench',
};

const MODEL_HEADERS = { 'content-type': 'application/json', authorization: 'Bearer bench' };

interface RelegationBenchOptions {
  quick: boolean;
  save: boolean;
  say: (what: string) => void;
}

interface RelegationCell {
  /** Approximate bytes of a request's body. */
  bytes: number;
  /** From the request's first byte to the answer's last, microseconds. */
  ways: Record<Way, Quantiles>;
  /**
   * Number of steps that were not served in the intended way, also during the warm-up. The times of `ways` do not
   * include these steps.
   */
  astray: number;
}

interface RelegationResult extends Provenance {
  suite: 'relegation-serving';
  requests: number;
  cells: RelegationCell[];
  goal_us: number;
  goal_met: boolean;
}

/** Runs the bench. @returns whether the goal was met */
export async function runRelegationBench({ quick, save, say }: RelegationBenchOptions): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-bench-relegation-'));
  const stops: (() => Promise<void>)[] = [];
  const model: FakeProvider = await startFakeProvider({ script: orderScript });
  stops.push(() => model.close());
  try {
    say('relegation: starting');
    const { directory, behind } = await publishStudents(folder, model);
    const upstream = await startServer('upstream.ts');
    stops.push(upstream.stop);
    const [off] = await startTargets(['gateway'], upstream.port, join(folder, 'off'));
    stops.push(off!.stop);
    // The gateways inherit the environment of this process.
    process.env.SVC_DISTILL_DIR = directory;
    // The student does not serve audited steps, and the bench measures steps that it serves.
    process.env.GW_RELEGATION_AUDIT = '0';
    const [on] = await startTargets(['gateway'], upstream.port, join(folder, 'on'));
    process.env.SVC_DISTILL_DIR = behind;
    process.env.SVC_STUDENT_KEY = 'bench';
    const [asking] = await startTargets(['gateway'], upstream.port, join(folder, 'asking'));
    delete process.env.SVC_STUDENT_KEY;
    delete process.env.SVC_DISTILL_DIR;
    delete process.env.GW_RELEGATION_AUDIT;
    stops.push(on!.stop, asking!.stop);
    await awaitStudent(on!);
    await awaitStudent(asking!);
    const requests = quick ? 400 : 4_000;
    const ports: Record<Way, number> = {
      direct: upstream.port,
      off: off!.port,
      uncovered: on!.port,
      covered: on!.port,
      model: Number(new URL(model.url).port),
      'model behind': asking!.port,
    };
    const cells: RelegationCell[] = [];
    for (const length of PROMPTS) {
      say(`relegation: a system prompt of ${length} characters`);
      cells.push(await measure(ports, makePrompt(length), requests));
    }
    const result: RelegationResult = {
      suite: 'relegation-serving',
      ...takeProvenance(),
      requests,
      cells,
      goal_us: GOAL_US,
      goal_met: cells.every(
        (cell) => added(cell, 'uncovered') <= GOAL_US && added(cell, 'covered') <= GOAL_US,
      ),
    };
    console.log(describe(result).join('\n'));
    if (save) console.log(`written to ${saveResult(result)}`);
    return result.goal_met;
  } finally {
    for (const stop of stops.reverse()) await stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Publishes a student of the orders agent, and the same student with a model behind it. @returns their folders */
async function publishStudents(
  folder: string,
  model: FakeProvider,
): Promise<{ directory: string; behind: string }> {
  const directory = join(folder, 'student');
  const steps = PROMPTS.flatMap((length) => makeGoldenSteps(30, 7, makePrompt(length)));
  const runs = steps.map((step, at) => ({
    ...step,
    run_id: `${step.run_id} ${Math.floor((at * PROMPTS.length) / steps.length)}`,
  }));
  const fitted = fitStudent(runs);
  await publishOrderStudent(directory, {}, fitted);
  // The model may give an answer of any kind that golden steps have.
  const kinds = new Set(runs.map(({ answer }) => kindOfAnswer(answer.content)));
  const stages = [...new Set(runs.map(({ step }) => step.stage))];
  const evidence = { kinds: [...kinds].map((kind): [string, number] => [kind, 1]), stages, said: [] };
  const behind = join(folder, 'student-with-model');
  await publishOrderStudent(
    behind,
    { student: makeModel(model), coverage: { threshold: 1, target_error: 0.05, method: 'by hand' } },
    limitByService(fitted, new Map(fitted.groups.map(({ name }) => [String(name), evidence]))),
  );
  return { directory, behind };
}

const makeModel = ({ url }: FakeProvider) =>
  ({ kind: 'http', endpoint: url, model: 'small', style: 'chat_completions' }) as const;

/** Makes the body that the student's thread would send to a model for this request. */
function toModelBody(body: object): string {
  const [wire, asked] = [WIRES.messages, body as never];
  const request = readWireRequest(wire, asked)!;
  const student = {
    kind: 'http',
    endpoint: 'http://model',
    model: 'small',
    style: 'chat_completions',
  } as const;
  return JSON.stringify(writeServiceRequest(student, readServiceStep({ wire, body: asked, request })));
}

/** Makes an addition to the system prompt. It consists of rules, because agents' prompts have many rules. */
function makePrompt(length: number): string {
  let prompt = '';
  for (let at = 0; prompt.length < length; at++) {
    prompt += ` Rule ${'abcdefghij'[at % 10]}${at}: when a parcel is late, say so in plain words and name the city.`;
  }
  return prompt.slice(0, length);
}

async function awaitStudent({ port }: Target): Promise<void> {
  const until = performance.now() + STUDENT_LIMIT_MS;
  while (performance.now() < until) {
    const stats = (await (await fetch(`http://127.0.0.1:${port}/__gw/stats`)).json()) as {
      relegation: { student: string | null };
    };
    if (stats.relegation.student !== null) return;
    await delay(50);
  }
  throw new Error('the gateway did not load the student');
}

async function measure(
  ports: Record<Way, number>,
  prompt: string,
  requests: number,
): Promise<RelegationCell> {
  const prng = createPrng(11);
  const lines = WAYS.map((way) => ({
    way,
    client: new Client(`http://127.0.0.1:${ports[way]}`, { pipelining: 1 }),
    samples: new Samples(),
  }));
  let bytes = 0;
  let astray = 0;
  for (let block = -WARM_UP_BLOCKS; block < requests / BLOCK; block++) {
    for (const { way, client, samples } of lines) {
      for (let at = 0; at < BLOCK; at++) {
        const order = makeOrder(prng, 'shipped');
        const unknown = `Write ${prng.below(1e9)} words on parcels`;
        const run = new OrderRun(order, false, way === 'uncovered' ? unknown : undefined, prompt);
        const isModel = way === 'model';
        const body = isModel ? toModelBody(run.body()) : JSON.stringify(run.body());
        if (!isModel) bytes = body.length;
        const from = process.hrtime.bigint();
        const answer = await client.request({
          method: 'POST',
          path: isModel ? '/v1/chat/completions' : `/v1/messages?reply=${REPLY_BYTES}`,
          headers: isModel ? MODEL_HEADERS : HEADERS,
          body,
        });
        await answer.body.dump();
        const tookUs = Number(process.hrtime.bigint() - from) / 1000;
        const isServed = answer.headers['x-svc-served-by'] === 'student';
        if (answer.statusCode !== 200 || isServed !== (way === 'covered' || way === 'model behind')) astray++;
        else if (block >= 0) samples.add(tookUs);
      }
    }
  }
  for (const { client } of lines) await client.close();
  const ways = Object.fromEntries(lines.map(({ way, samples }) => [way, samples.quantiles()]));
  return { bytes, ways: ways as Record<Way, Quantiles>, astray };
}

/** Computes the median time of a way, minus that of the gateway with relegation off. */
function added({ ways }: RelegationCell, way: 'uncovered' | 'covered'): number {
  return ways[way].p50 - ways.off.p50;
}

function describe({ cells, goal_met }: RelegationResult): string[] {
  const lines = [
    'Relegation: one step at a time, microseconds, p50 (p99)',
    ['body', ...WAYS, 'asking adds', 'behind adds', 'astray'].map((word) => word.padStart(16)).join(''),
  ];
  for (const cell of cells) {
    const figures = WAYS.map((way) => {
      const { p50, p99 } = cell.ways[way];
      return `${p50.toFixed(0)} (${p99.toFixed(0)})`;
    });
    const row = [
      `${(cell.bytes / 1024).toFixed(1)} KB`,
      ...figures,
      added(cell, 'uncovered').toFixed(0),
      // The time that the student adds to the model's own time.
      (cell.ways['model behind'].p50 - cell.ways.model.p50).toFixed(0),
      String(cell.astray),
    ];
    lines.push(row.map((word) => word.padStart(16)).join(''));
  }
  lines.push(
    `  the student adds at most ${GOAL_US / 1000} ms at the median, whether it covers the step or not: ${goal_met ? 'met' : 'MISSED'}`,
  );
  return lines;
}
