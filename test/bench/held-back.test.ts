/**
 * The judge of the held-back agents detects errors: it accepts a perfect student, rejects a student that answers from
 * other runs, and reports that a refusing student serves nothing. A fake gateway forwards requests to a provider and
 * marks the answers as a student's.
 */
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { JUDGES, STUDIED_AGENTS } from '../../bench/eval/held-back/agents.ts';
import { answerStep, movesNow } from '../../bench/eval/held-back/frontier.ts';
import type { Answer, HeldBackAgent, RunKind, Turn } from '../../bench/eval/held-back/held-back-agent.ts';
import { addUp } from '../../bench/eval/held-back/trial-figures.ts';
import {
  performCall,
  TrialDriver,
  TrialProvider,
  type TrialRun,
} from '../../bench/eval/held-back/trial-run.ts';
import type { Explanation } from '../../bench/eval/held-back/trial-service.ts';
import { judgeAnswer } from '../../bench/eval/held-back/truth.ts';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import { createPrng } from '../../src/std/prng.ts';
import { longFrom } from '../long-parts.ts';

const RUNS = 2;
const SEED = 4_711;

/** The student's answers to the next requests; null: it refuses. */
let said: Answer[] | 'as the frontier model' | null = null;
let provider: TrialProvider;
let student: FakeProvider;
let gateway: Server;
let url = '';

beforeAll(async () => {
  provider = await TrialProvider.start();
  student = await startFakeProvider({
    script: () => {
      const answer = (said as Answer[]).shift() ?? { text: 'Done.', calls: [] };
      return { text: answer.text, tool_calls: answer.calls };
    },
  });
  gateway = createServer((asked, given) => {
    const to = new URL(asked.url!, Array.isArray(said) ? student.url : provider.url);
    const headers = said === null ? {} : { 'x-svc-served-by': 'student' };
    // Each request has a new connection, because a kept one may be closed just when it is used again.
    const passed = request(to, { method: 'POST', headers: asked.headers, agent: false }, (reply) => {
      given.writeHead(reply.statusCode!, { ...reply.headers, ...headers });
      reply.pipe(given);
    });
    passed.on('error', (error) => given.destroy(error));
    asked.pipe(passed);
  });
  // The gateway never closes idle connections, because the SDKs keep connections and might use one just when it is
  // closed.
  gateway.keepAliveTimeout = 0;
  gateway.listen(0, '127.0.0.1');
  await once(gateway, 'listening');
  url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
});
afterAll(async () => {
  gateway.closeAllConnections();
  gateway.close();
  await Promise.all([provider.close(), student.close()]);
});

/** The agent with a model that makes no deliberate mistakes. */
function withoutSlips(agent: HeldBackAgent): HeldBackAgent {
  return {
    ...agent,
    start: (seed, kind) => {
      const run = agent.start(seed, kind);
      const moves = run.moves.bind(run);
      run.moves = (turns) => moves(turns).filter(({ is_slip }) => is_slip !== true);
      return run;
    },
  };
}

async function drive(
  agent: HeldBackAgent,
  answers: (at: number) => typeof said | Promise<typeof said>,
): Promise<TrialRun[]> {
  const driver = new TrialDriver(url, provider);
  const runs: TrialRun[] = [];
  for (let at = 0; at < RUNS; at++) {
    said = await answers(at);
    runs.push(await driver.drive(withoutSlips(agent), SEED + at, 'usual'));
  }
  return runs;
}

const explainNothing = async (): Promise<null> => null;

// The first five agents, which `npm test` runs, use all three wire formats.
for (const [at, agent] of [...JUDGES, ...STUDIED_AGENTS].entries())
  describe(`the judge of the ${agent.name}`, longFrom(at, 5), () => {
    it('accepts all answers of a perfect student, and counts whole runs as served', async () => {
      const figures = await addUp(await drive(agent, () => 'as the frontier model'), explainNothing);
      expect(figures).toMatchObject({ served: figures.steps, wrong: 0, runs_served: RUNS, examples: [] });
    });

    it('rejects the answer of a student from another run, and ends the run there', async () => {
      const runs = await drive(agent, async (at) => {
        said = null;
        const other = await new TrialDriver(url, provider).drive(
          withoutSlips(agent),
          SEED + 50 + at,
          'usual',
        );
        return other.steps.map(({ answer }) => answer);
      });
      const figures = await addUp(runs, explainNothing);
      expect(figures).toMatchObject({ served: figures.steps, wrong: RUNS, runs_served: 0 });
      for (const { steps } of runs) expect(steps.at(-1)!.fault).not.toBeNull();
    });

    it('counts nothing as served for a student that refuses, and judges what it would have answered', async () => {
      const runs = await drive(agent, () => null);
      const steps = runs.flatMap((run) => run.steps);
      const explain = async (exchange: number): Promise<Explanation> => {
        const { answer } = steps[exchange - 1]!;
        const isWrong = exchange === 1;
        const proposed = isWrong ? { text: 'I have no idea.', calls: [] } : answer;
        return {
          relegation: { decision: 'unproven', kind: null },
          opinion: null,
          comparison: { agree: !isWrong, values: spell(proposed) },
        };
      };
      const figures = await addUp(runs, explain);
      expect(figures).toMatchObject({
        served: 0,
        wrong: 0,
        runs_served: 0,
        refused: { right: figures.steps - 1, wrong: 1, without: 0 },
        reasons: { unproven: { right: figures.steps - 1, wrong: 1, without: 0 } },
      });
    });

    it('rejects an answer that is repeated, too early, too late, or has another number', () => {
      const numbers = { changed: 0, found: 0 };
      for (let seed = 1; seed <= 20; seed++)
        walk(withoutSlips(agent), 'usual', seed, (answer, judge) => {
          const { text, calls } = answer;
          if (calls.length > 0) {
            expect(judge({ text, calls: [...calls, calls[0]!] })).not.toBeNull();
            expect(judge({ text: 'Done.', calls: [] })).not.toBeNull();
            return;
          }
          expect(judge({ text, calls: [{ name: agent.tools[0]!.name, input: {} }] })).not.toBeNull();
          const other = text.replace(/\d(?!.*\d)/s, (digit) => String((Number(digit) + 3) % 10));
          if (other === text) return;
          numbers.changed++;
          if (judge({ text: other, calls: [] }) !== null) numbers.found++;
        });
      // The other number may happen to be right.
      expect(numbers.found).toBeGreaterThanOrEqual(0.9 * numbers.changed);
    });

    it('accepts every answer of a frontier model without slips, in every kind of run', () => {
      for (const kind of ['usual', 'restricted', 'changed'] as const)
        for (let seed = 1; seed <= 20; seed++)
          walk(withoutSlips(agent), kind, seed, (answer, judge) => expect(judge(answer)).toBeNull());
    });
  });

/** An answer in the form in which an explanation shows it. */
function spell({ text, calls }: Answer): { place: string; student: string }[] {
  const spellValue = (place: string, value: unknown): { place: string; student: string }[] =>
    Array.isArray(value)
      ? value.flatMap((item, at) => spellValue(`${place}.${at}`, item))
      : [{ place, student: typeof value === 'string' ? value : JSON.stringify(value) }];
  return [
    ...(text === '' ? [] : [{ place: 'text', student: text }]),
    ...calls.flatMap(({ name, input }, at) => [
      { place: `call ${at + 1}`, student: name },
      ...Object.entries(input).flatMap(([field, value]) => spellValue(`call ${at + 1}.${field}`, value)),
    ]),
  ];
}

/** A run without a socket. @param look called with each answer and with the judge of that step */
function walk(
  agent: HeldBackAgent,
  kind: RunKind,
  seed: number,
  look: (answer: Answer, judge: (answer: Answer) => string | null) => void,
): void {
  const prng = createPrng(seed);
  const run = agent.start(seed, kind);
  const turns: Turn[] = [];
  for (;;) {
    const answer = answerStep(agent, run, turns, prng.uint32());
    const moves = movesNow(run, turns);
    look(answer, (given) => judgeAnswer(agent, run, moves, given));
    if (answer.calls.length === 0) return;
    turns.push({ answer, results: answer.calls.map((call) => performCall(run, call, prng.float())) });
  }
}
