/** Exports of captured runs and of figures, requested while older captures are still being read. */
import { expect, it } from 'vitest';
import { captureExportHandlers } from '../../src/api/capture-exports.ts';
import type { CaptureAnswer, CaptureQuestion } from '../../src/domain/captured-run.ts';
import { createManualClock } from '../../src/std/clock.ts';

type Handlers = ReturnType<typeof captureExportHandlers>;
type Call<Name extends keyof Handlers> = Parameters<Handlers[Name]>[0];

/** Makes handlers over a capture reader with prepared answers. The reader repeats its last answer. */
function makeHandlers(answers: object[]) {
  const questions: CaptureQuestion[] = [];
  const ask = async (question: CaptureQuestion): Promise<CaptureAnswer> => {
    questions.push(question);
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    return { type: 'json', json: Buffer.from(JSON.stringify(answer)) };
  };
  return { questions, handlers: captureExportHandlers({ reader: { ask } }, createManualClock(1_000)) };
}

const call = (query: object) => ({ query: { format: 'jsonl', ...query }, request: { method: 'GET' } });

it('an export waits until all runs are listed, and requests complete rows', async () => {
  const page = { runs: [], next_cursor: null };
  const { handlers, questions } = makeHandlers([
    { ...page, being_read: { exchanges: 1, of: 9 } },
    { ...page, being_read: null },
  ]);
  const { status } = await handlers.exportCapturedRuns(call({ q: '' }) as Call<'exportCapturedRuns'>);
  expect(status).toBe(200);
  expect(questions).toHaveLength(2);
  expect(questions[1]).toMatchObject({ name: 'runs', is_read: true, after: null });
});

it('an export of figures waits until all exchanges of the period are in them', async () => {
  const { handlers, questions } = makeHandlers([
    { rows: [], is_whole: false },
    { rows: [], is_whole: true },
  ]);
  const { status } = await handlers.exportTrafficFigures(
    call({ by: 'model', days: 1 }) as Call<'exportTrafficFigures'>,
  );
  expect(status).toBe(200);
  expect(questions).toHaveLength(2);
});
