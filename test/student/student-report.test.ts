/**
 * The answer of `/capture/student` for a directory: figures of the manifest, suspensions by operators and audits, the
 * ledger.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeDraft } from '../../bench/made-manifest.ts';
import { fitOrderStudent } from '../../bench/order-agent.ts';
import { publishStudent } from '../../src/student/directory.ts';
import { reportStudent, type StudentPlaces } from '../../src/student/student-report.ts';

const folder = mkdtempSync(join(tmpdir(), 'student-report-'));
const places: StudentPlaces = {
  directory: join(folder, 'student'),
  mode: 'on',
  watch_path: join(folder, 'watch.json'),
  ledger_path: join(folder, 'ledger.json'),
};

beforeAll(async () => {
  await publishStudent(places.directory, makeDraft(), fitOrderStudent());
  await publishStudent(
    places.directory,
    makeDraft({ made_at: '2026-03-02T10:00:00.000Z', golden: { ...makeDraft().golden, runs: 44 } }),
    fitOrderStudent(),
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const counts = (over: object) => ({
  served: 0,
  compared: 0,
  wrong: 0,
  input_tokens: 0,
  output_tokens: 0,
  saved_micro_usd: null,
  unpriced: 0,
  guessed: 0,
  late: 0,
  late_micro_usd: 0,
  ...over,
});

it('a report without a student is empty', async () => {
  expect(await reportStudent(null)).toMatchObject({ mode: 'off', serving: null, versions: [], ledger: [] });
  const empty = { ...places, directory: join(folder, 'nothing-there') };
  expect(await reportStudent(empty)).toMatchObject({ mode: 'on', serving: null, versions: [] });
});

it('a report lists the versions, the newest first, with their measured figures', async () => {
  const { serving, versions, golden_runs_needed, problems } = await reportStudent(places);
  expect(problems).toEqual([]);
  expect(serving).toBe(2);
  expect(golden_runs_needed).toBeGreaterThan(1);
  expect(versions).toMatchObject([
    { version: 2, share: 1, golden_runs: 44, made_at: '2026-03-02T10:00:00.000Z', problem: '' },
    {
      version: 1,
      share: 0,
      golden_runs: 30,
      steps: 40,
      served: 30,
      errors: 1,
      error_at_most: 0.15,
      tokens_saved_share: 0.7,
      uncovered: { too_far: 10 },
    },
  ]);
});

it('a report shows the ledger in dollars, with late take-overs subtracted', async () => {
  const day = (date: string, agent: string, over: object) => ({ day: date, agents: [[agent, counts(over)]] });
  writeFileSync(
    places.ledger_path,
    JSON.stringify({
      format: 'svc_student_ledger_v1',
      days: [
        day('2026-03-01', 'a1', { served: 10, compared: 4, wrong: 1, input_tokens: 900, output_tokens: 80 }),
        day('2026-03-02', 'a1', { served: 6, saved_micro_usd: 2_500_000, late: 2, late_micro_usd: 500_000 }),
      ],
    }),
  );
  const { ledger } = await reportStudent(places);
  const of = (date: string) => ledger.find((row) => row.day === date);
  expect(ledger).toHaveLength(2);
  expect(of('2026-03-01')).toMatchObject({
    agent: 'a1',
    served: 10,
    compared: 4,
    wrong: 1,
    input_tokens: 900,
    output_tokens: 80,
    saved_usd: null,
  });
  expect(of('2026-03-02')).toMatchObject({ served: 6, saved_usd: 2 });
});

it('a report names what cannot be read, and shows the rest', async () => {
  writeFileSync(places.ledger_path, 'no ledger');
  const { problems, versions, ledger } = await reportStudent(places);
  expect(problems).toHaveLength(1);
  expect(versions).toHaveLength(2);
  expect(ledger).toEqual([]);
});
