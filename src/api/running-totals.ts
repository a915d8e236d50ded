/**
 * The current totals of running runs. On a box that shares its runs, the totals are stored with
 * each step; otherwise only the actors know them. Server threads.
 */
import type { RunClient } from '../../actors/run/client.ts';
import type { CaptureAnswer, CaptureAsker, CapturedRunRow } from '../domain/captured-run.ts';
import type { RunTotals } from '../domain/run.ts';
import type { RunReads } from '../storage/ports/run-reads.ts';

interface RunScope {
  org_id: string;
  project_id: string;
  run_id: string;
}

/** Part of a row whose reported run has not ended. */
const GOES_ON = Buffer.from('"is_finished":false');

export class RunningTotals {
  readonly #reads: RunReads;
  readonly #actors: Pick<RunClient, 'totals'>;

  constructor(reads: RunReads, actors: Pick<RunClient, 'totals'>) {
    this.#reads = reads;
    this.#actors = actors;
  }

  /**
   * Reads the totals of these runs, in their order; null if the totals of the stored row apply: the
   * run has no step, has finished meanwhile, or cannot be read now. Never rejects.
   */
  async of(runs: readonly RunScope[]): Promise<(RunTotals | null)[]> {
    if (runs.length === 0) return [];
    const found =
      this.#reads.listTotals === null
        ? await Promise.all(runs.map((run) => this.#actors.totals(run, run.run_id).catch(() => null)))
        : await this.#reads.listTotals(runs).catch(() => runs.map(() => null));
    // If a run has finished in between, the next reading of its row shows the outcome.
    return found.map((totals) => (totals === null || totals.outcome !== '' ? null : totals));
  }
}

/** Makes a reader whose lists of captured runs contain the present totals of running runs. */
export function withRunningTotals(reader: CaptureAsker, totals: RunningTotals): CaptureAsker {
  return {
    async ask(question) {
      const answer = await reader.ask(question);
      return question.name === 'runs' ? addRunningTotals(answer, totals) : answer;
    },
  };
}

async function addRunningTotals(answer: CaptureAnswer, totals: RunningTotals): Promise<CaptureAnswer> {
  if (answer.type !== 'json') return answer;
  const { buffer, byteOffset, byteLength } = answer.json;
  const json = Buffer.from(buffer, byteOffset, byteLength);
  if (!json.includes(GOES_ON)) return answer;
  const page = JSON.parse(json.toString()) as { runs: CapturedRunRow[] };
  const running = page.runs.flatMap(({ reported }) =>
    reported === null || reported.is_finished ? [] : [reported],
  );
  const found = await totals.of(running);
  for (const [at, reported] of running.entries()) {
    const present = found[at];
    if (present == null) continue;
    const { steps, tokens, max_total_score, fired } = present;
    Object.assign(reported, { steps, tokens, max_total_score, fired });
  }
  return { type: 'json', json: Buffer.from(JSON.stringify(page)) };
}
