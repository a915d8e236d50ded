/**
 * `npm run eval -- relegation --held-back`: runs agents that the student was not developed with, live through a
 * gateway, with the official SDKs (README.md of this folder). Bench process; the service and the rounds are separate
 * processes.
 */

import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { saveResult, takeProvenance } from '../../results.ts';
import type { HeldBackAgent } from './held-back-agent.ts';
import { LIVE_DEFAULTS, type LiveOptions } from './held-back-options.ts';
import { describeHeldBack } from './held-back-report.ts';
import type { ByAgent, HeldBackResult, HeldBackStage, Return, SilentChange } from './held-back-result.ts';
import { type RunSeries, Seeds, worldOf } from './seeds.ts';
import { addUp, type TrialFigures } from './trial-figures.ts';
import { TrialDriver, TrialProvider, type TrialRun } from './trial-run.ts';
import { readAllCpu, runRound, startTrialService, type TrialService } from './trial-service.ts';

class Trial {
  readonly #agents: readonly HeldBackAgent[];
  readonly #seeds: Seeds;
  readonly #options: LiveOptions;
  readonly #folder: string;
  readonly #provider: TrialProvider;

  constructor(options: LiveOptions, folder: string, provider: TrialProvider) {
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

  /** Measures a silent change: the last stage's student serves changed agents, and then rounds learn the change. */
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

  /**
   * Runs a round, and then live runs with the new student.
   * @param at index of the round in `changed`
   * @param new_runs number of runs of each agent since the change
   */
  async #return(copy: string, student: string, at: number, new_runs: number) {
    const { say, returned, checkout, changed } = this.#options;
    // Runs after earlier rounds also count as new.
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

  /** Starts the service, and stops it after `work`. */
  async #drive<T>(
    data: string,
    student: string | null,
    work: (drive: Drive, service: TrialService) => Promise<T>,
  ): Promise<T> {
    const service = await startTrialService(data, this.#provider.url, student, this.#options.checkout);
    try {
      const driver = new TrialDriver(service.url, this.#provider);
      const drive: Drive = (agent, series, at, mayGiveUp = false) => {
        const seed = this.#seeds.of(series, agent, at);
        return driver.drive(agent, seed, worldOf(series), mayGiveUp);
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
    series: RunSeries,
    runs: number,
    from = 0,
  ): Promise<ReadonlyMap<string, TrialRun[]>> {
    const all = new Map<string, TrialRun[]>(this.#agents.map(({ name }) => [name, []]));
    for (let at = from; at < from + runs; at++)
      for (const agent of this.#agents) all.get(agent.name)!.push(await drive(agent, series, at));
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

type Drive = (agent: HeldBackAgent, series: RunSeries, at: number, mayGiveUp?: boolean) => Promise<TrialRun>;

/** Runs the trial in a new folder below the temporary directory, and removes the folder. */
async function runHeldBackTrial(options: Partial<LiveOptions>): Promise<HeldBackResult> {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-held-back-'));
  const from = readAllCpu();
  const provider = await TrialProvider.start();
  try {
    const result = await new Trial({ ...LIVE_DEFAULTS, ...options }, folder, provider).run();
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
}: Partial<LiveOptions> & { is_saved: boolean }): Promise<void> {
  const provenance = takeProvenance();
  const say = (what: string): void => console.error(`held back: ${what}`);
  const result = await runHeldBackTrial({ say, ...options });
  console.log(describeHeldBack(result).join('\n'));
  if (is_saved) console.log(`\n${saveResult({ ...provenance, suite: 'held-back', ...result })}`);
}
