/**
 * Adds the totals of running runs, which only their actors know, to the rows that the capture reader has read
 * from the database. Server threads.
 */
import type { CaptureAnswer, CaptureAsker, CapturedRunRow } from '../domain/captured-run.ts';
import type { RunTotals } from '../domain/run.ts';

type TotalsReader = (scope: { org_id: string; project_id: string }, runId: string) => Promise<RunTotals>;

/** Part of a row whose reported run has not ended. */
const GOES_ON = Buffer.from('"is_finished":false');

/**
 * A reader whose lists of runs contain the present totals.
 * @param read rejects if the actor cannot be asked now; then the stored totals stay
 */
export function withRunningTotals(reader: CaptureAsker, read: TotalsReader): CaptureAsker {
  return {
    async ask(question) {
      const answer = await reader.ask(question);
      return question.name === 'runs' ? addRunningTotals(answer, read) : answer;
    },
  };
}

async function addRunningTotals(answer: CaptureAnswer, read: TotalsReader): Promise<CaptureAnswer> {
  if (answer.type !== 'json') return answer;
  const { buffer, byteOffset, byteLength } = answer.json;
  const json = Buffer.from(buffer, byteOffset, byteLength);
  if (!json.includes(GOES_ON)) return answer;
  const page = JSON.parse(json.toString()) as { runs: CapturedRunRow[] };
  await Promise.all(page.runs.map((run) => addTotals(run, read)));
  return { type: 'json', json: Buffer.from(JSON.stringify(page)) };
}

async function addTotals({ reported }: CapturedRunRow, read: TotalsReader): Promise<void> {
  if (reported === null || reported.is_finished) return;
  const totals = await read(reported, reported.run_id).catch(() => null);
  // If a run has finished in between, the next reading of its row shows the outcome.
  if (totals === null || totals.outcome !== '') return;
  const { steps, tokens, max_total_score, fired } = totals;
  Object.assign(reported, { steps, tokens, max_total_score, fired });
}
