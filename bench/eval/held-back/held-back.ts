/**
 * `npm run eval -- relegation --held-back`: agents that the student was not written with, driven live through a started
 * gateway with the official SDKs (README.md of this folder). Bench process; the service and the rounds are others.
 */

import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { saveResult, takeProvenance } from '../../results.ts';
import { HELD_BACK_AGENTS, STUDIED_AGENTS } from './agents.ts';
import type { HeldBackAgent, RunKind } from './held-back-agent.ts';
import { describeHeldBack } from './held-back-report.ts';
import type { ByAgent, HeldBackResult, HeldBackStage, Return, SilentChange } from './held-back-result.ts';
import { addUp, type TrialFigures } from './trial-figures.ts';
import { TrialDriver, TrialProvider, type TrialRun } from './trial-run.ts';
import { readAllCpu, runRound, startTrialService, type TrialService } from './trial-service.ts';

const GOLDEN_STAGES = [40, 150] as const;
const LIVE_RUNS = 20;
const RESTRICTED_RUNS = 6;
/** After the silent change, before each round. */
const CHANGED_RUNS = [30, 60] as const;
/** After such a round. */
const RETURNED_RUNS = 10;

/** Seeds of one kind of runs begin so far from those of another. */
const SEED_RANGE = 1_000_000;

interface HeldBackOptions {
  agents?: readonly HeldBackAgent[];
  seed?: number;
  /** Golden runs of each agent before each round, rising. */
  golden?: readonly number[];
  live?: number;
  restricted?: number;
  /** Runs after the silent change, before each round, rising; empty: no silent change. */
  changed?: readonly number[];
  returned?: number;
  /** Whose service and rounds are judged; this one. */
  checkout?: string;
  say?: (what: string) => void;
}

/** Seeds that no other kind of runs has. */
class Seeds {
  readonly #base: number;

  constructor(seed: number) {
    this.#base = seed * 100 * SEED_RANGE;
  }

  of(kind: 'golden' | RunKind | 'returned', agent: number, run: number): number {
    const at = ['golden', 'usual', 'restricted', 'changed', 'returned'].indexOf(kind);
    return this.#base + at * SEED_RANGE + agent * 10_000 + run;
  }
}

class Trial {
  readonly #agents: readonly HeldBackAgent[];
  readonly #seeds: Seeds;
  readonly #options: Required<HeldBackOptions>;
  readonly #folder: string;
  readonly #provider: TrialProvider;

  constructor(options: Required<HeldBackOptions>, folder: string, provider: TrialProvider) {
    this.#options = options;
    this.#agents = options.agents;
    this.#seeds = new Seeds(options.seed);
    this.#folder = folder;
    this.#provider = provider;
  }

  async run(): Promise<Omit<HeldBackResult, 'cpu_s'>> {
    const { golden, say, changed, seed } = this.#options;
    const stages: HeldBackStage[] = [];
    const data = this.#path('golden');
    let from = 0;
    for (const to of golden) {
      say(`golden runs ${from + 1} to ${to} of ${this.#agents.length} agents`);
      await this.#drive(data, null, async (drive) => {
        for (let at = from; at < to; at++)
          for (const agent of this.#agents) await drive(agent, 'golden', at, true);
      });
      from = to;
      stages.push(await this.#stage(data, to));
    }
    const last = stages.at(-1);
    const silent_change =
      changed.length === 0 || last === undefined || !last.is_published
        ? null
        : await this.#change(data, last);
    return { seed, stages, silent_change };
  }

  async #stage(data: string, golden_runs: number): Promise<HeldBackStage> {
    const { say, live, restricted } = this.#options;
    const student = this.#path(`student-${golden_runs}`);
    say(`the round over ${golden_runs} golden runs of each agent`);
    const round = await runRound(join(data, 'capture.mdb'), student, this.#options.checkout);
    const stage = { golden_runs, round_cpu_s: round.cpu_s, is_published: round.is_published };
    say(`live runs after ${golden_runs} golden runs`);
    return this.#drive(this.#path(`live-${golden_runs}`), student, async (drive, service) => {
      if (round.is_published) await service.awaitStudent(0);
      const usual = await this.#runAll(drive, 'usual', live);
      const limited = await this.#runAll(drive, 'restricted', restricted);
      await service.flush();
      return {
        ...stage,
        live: await this.#addUp(usual, service),
        restricted: await this.#addUp(limited, service),
      };
    });
  }

  /** The student of the last stage serves while the agents change; then rounds learn the change. */
  async #change(data: string, { golden_runs, live }: HeldBackStage): Promise<SilentChange> {
    const { changed, say } = this.#options;
    const copy = this.#path('changed');
    const student = this.#path('student-changed');
    cpSync(data, copy, { recursive: true });
    cpSync(this.#path(`student-${golden_runs}`), student, { recursive: true });
    const first = changed[0]!;
    say(`${first} runs of each agent after a silent change`);
    const runs = await this.#drive(copy, student, async (drive, service) => {
      await service.awaitStudent(0);
      return this.#runAll(drive, 'changed', first);
    });
    const rounds_cpu_s: number[] = [];
    const returns: ByAgent<Return[]> = Object.fromEntries(this.#agents.map(({ name }) => [name, []]));
    for (const [at, new_runs] of changed.entries()) {
      const { cpu_s, came } = await this.#return(copy, student, at, new_runs);
      rounds_cpu_s.push(cpu_s);
      for (const [name, each] of Object.entries(came)) returns[name]!.push(each);
    }
    const agents = Object.fromEntries(
      this.#agents.map(({ name }) => {
        const { served, steps } = live[name]!;
        const seen = countServed(runs.get(name)!);
        const last_wrong_run = runs.get(name)!.findLastIndex((run) => countServed([run]).wrong > 0) + 1;
        const served_before = served / Math.max(1, steps);
        const { served: still, wrong } = seen;
        return [name, { served_before, served: still, wrong, last_wrong_run, returns: returns[name]! }];
      }),
    );
    return { golden_runs, changed_runs: first, agents, rounds_cpu_s };
  }

  /** A round, and runs with the student that serves then. @param at of `changed` @param new_runs since the change */
  async #return(copy: string, student: string, at: number, new_runs: number) {
    const { say, returned, checkout, changed } = this.#options;
    // Runs after earlier rounds count as new ones, too.
    const missing = at === 0 ? 0 : new_runs - changed[at - 1]! - returned;
    if (missing > 0)
      await this.#drive(copy, student, async (drive) => {
        await this.#runAll(drive, 'changed', missing, changed[at - 1]!);
      });
    say(`a round ${new_runs} runs of each agent after the change`);
    const round = await runRound(join(copy, 'capture.mdb'), student, checkout);
    const runs = await this.#drive(copy, student, async (drive, service) => {
      await service.awaitStudent(0);
      return this.#runAll(drive, 'returned', returned, at * returned);
    });
    const came = Object.fromEntries(
      this.#agents.map(({ name }) => [name, { new_runs, ...countServed(runs.get(name)!) }]),
    );
    return { cpu_s: round.cpu_s, came };
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }

  /** Starts the service for the time of `work`. */
  async #drive<T>(
    data: string,
    student: string | null,
    work: (drive: Drive, service: TrialService) => Promise<T>,
  ): Promise<T> {
    const service = await startTrialService(data, this.#provider.url, student, this.#options.checkout);
    try {
      const driver = new TrialDriver(service.url, this.#provider);
      const drive: Drive = (agent, kind, at, mayGiveUp = false) => {
        const seed = this.#seeds.of(kind, HELD_BACK_AGENTS.indexOf(agent) + 1, at);
        const world = kind === 'golden' ? 'usual' : kind === 'returned' ? 'changed' : kind;
        return driver.drive(agent, seed, world, mayGiveUp);
      };
      const done = await work(drive, service);
      await service.flush();
      return done;
    } finally {
      await service.stop();
    }
  }

  async #runAll(
    drive: Drive,
    kind: RunKind | 'returned',
    runs: number,
    from = 0,
  ): Promise<ReadonlyMap<string, TrialRun[]>> {
    const all = new Map<string, TrialRun[]>(this.#agents.map(({ name }) => [name, []]));
    for (let at = from; at < from + runs; at++)
      for (const agent of this.#agents) all.get(agent.name)!.push(await drive(agent, kind, at));
    return all;
  }

  async #addUp(all: ReadonlyMap<string, TrialRun[]>, service: TrialService): Promise<ByAgent<TrialFigures>> {
    const figures: ByAgent<TrialFigures> = {};
    for (const [name, runs] of all)
      figures[name] = await addUp(runs, (exchange) => service.explain(exchange));
    return figures;
  }
}

function countServed(runs: readonly TrialRun[]): { steps: number; served: number; wrong: number } {
  const steps = runs.flatMap((run) => run.steps);
  return {
    steps: steps.length,
    served: steps.filter(({ is_served }) => is_served).length,
    wrong: steps.filter(({ fault }) => fault !== null).length,
  };
}

type Drive = (
  agent: HeldBackAgent,
  kind: 'golden' | RunKind | 'returned',
  at: number,
  mayGiveUp?: boolean,
) => Promise<TrialRun>;

/** Runs the trial in a new folder below the temporary directory, and removes the folder. */
async function runHeldBackTrial(options: HeldBackOptions = {}): Promise<HeldBackResult> {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-held-back-'));
  const from = readAllCpu();
  const provider = await TrialProvider.start();
  const chosen: Required<HeldBackOptions> = {
    agents: HELD_BACK_AGENTS.filter((agent) => !STUDIED_AGENTS.includes(agent)),
    seed: 1,
    golden: GOLDEN_STAGES,
    live: LIVE_RUNS,
    restricted: RESTRICTED_RUNS,
    changed: CHANGED_RUNS,
    returned: RETURNED_RUNS,
    checkout: join(import.meta.dirname, '../../..'),
    say: () => {},
    ...options,
  };
  try {
    const result = await new Trial(chosen, folder, provider).run();
    return { ...result, cpu_s: readAllCpu() - from };
  } finally {
    await provider.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Prints and stores the trial. */
export async function evaluateHeldBack({
  is_saved,
  ...options
}: HeldBackOptions & { is_saved: boolean }): Promise<void> {
  const provenance = takeProvenance();
  const say = (what: string): void => console.error(`held back: ${what}`);
  const result = await runHeldBackTrial({ say, ...options });
  console.log(describeHeldBack(result).join('\n'));
  if (is_saved) console.log(`\n${saveResult({ ...provenance, suite: 'held-back', ...result })}`);
}

/**
 * @param args `--held-back` with `--seed N`, `--golden N,N` (golden runs of each agent before each round), `--live N`,
 *   `--restricted N`, `--changed N,N` (runs after the silent change before each round; `--changed=`: no change), `--agents NAME,NAME`, `--checkout DIR` (another version, on the same
 *   runs), `--no-save`. Neither chosen agents nor another version are stored
 * @throws Error for an unknown agent or flag
 */
export function readHeldBackFlags(args: readonly string[]): HeldBackOptions & { is_saved: boolean } {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      'held-back': { type: 'boolean' },
      seed: text,
      golden: text,
      live: text,
      restricted: text,
      changed: text,
      agents: text,
      checkout: text,
      'no-save': { type: 'boolean' },
    },
  });
  const count = (name: 'seed' | 'live' | 'restricted') =>
    values[name] === undefined ? {} : { [name]: readCount(name, values[name]) };
  const counts = (name: 'golden' | 'changed') =>
    values[name] === undefined
      ? {}
      : {
          [name]: values[name]
            .split(',')
            .filter(Boolean)
            .map((each) => readCount(name, each)),
        };
  const agents = values.agents?.split(',').map(findAgent);
  return {
    ...count('seed'),
    ...count('live'),
    ...count('restricted'),
    ...counts('golden'),
    ...counts('changed'),
    ...(agents === undefined ? {} : { agents }),
    ...(values.checkout === undefined ? {} : { checkout: resolve(values.checkout) }),
    is_saved: values['no-save'] !== true && agents === undefined && values.checkout === undefined,
  };
}

function readCount(name: string, text: string): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 0) throw new Error(`--${name} is a number of runs: ${text}`);
  return count;
}

function findAgent(name: string): HeldBackAgent {
  const found = HELD_BACK_AGENTS.find((agent) => agent.name === name);
  if (found === undefined)
    throw new Error(`no agent ${name}: ${HELD_BACK_AGENTS.map((agent) => agent.name).join(', ')}`);
  return found;
}
