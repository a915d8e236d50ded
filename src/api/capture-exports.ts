/** Handlers of the operator's exports (`contract/exports.ts`): captured runs, their turns, figures. Server threads. */
import { setTimeout as pause } from 'node:timers/promises';
import { CAPTURES } from '../contract/captures.ts';
import type { CAPTURE_EXPORTS } from '../contract/exports.ts';
import type { ApiReply } from '../contract/route.ts';
import type { CaptureAnswer, CaptureAsker, CapturedRunRow, CaptureQuestion } from '../domain/captured-run.ts';
import type { RunQuery } from '../domain/run-query/run-query.ts';
import type { FigureQuestion } from '../domain/traffic-figures.ts';
import { CatalogueError } from '../errors.ts';
import { columnsIn, type ExportColumn, type ExportRow } from '../export/columns.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import { readFigureQuestion, readListQuery } from './captures.ts';
import { type ExportPage, type FileToSend, sendFile, sendList } from './exports.ts';
import type { OperatorHandlersOf } from './operator-guard.ts';
import { readRunPlace } from './run-query.ts';

/**
 * Maximum number of runs per page. Pages are large, because in any order but newest first each page
 * reads the whole list.
 */
const PAGE_RUNS = 1_000;
/** Waiting for a complete list: the pause between two requests, and the maximum sum of these pauses. */
const WAIT_MS = { pause: 200, most: 60_000 } as const;
/** Exports of captures count as the operator's streams. */
const owner = '';
/** Maximum number of turns of one page, which contains their full texts. */
const PAGE_TURNS = 50;

export function captureExportHandlers(
  { reader }: { reader: CaptureAsker },
  clock: Clock = systemClock,
): OperatorHandlersOf<typeof CAPTURE_EXPORTS> {
  const columns = onceColumns();
  const ask = async (question: CaptureQuestion): Promise<Record<string, unknown>> =>
    readAnswer(await reader.ask(question));
  /**
   * Asks until the answer is complete, because a file must contain the whole list. Rejects with `unavailable` if older
   * captures are not read in time.
   */
  const askWhole = async (
    question: CaptureQuestion,
    isWhole: (answer: Record<string, unknown>) => boolean,
  ) => {
    for (let waited_ms = 0; ; waited_ms += WAIT_MS.pause) {
      const answer = await ask(question);
      if (isWhole(answer)) return answer;
      if (waited_ms >= WAIT_MS.most)
        throw new CatalogueError('unavailable', 'Older captures are still being read: try again later');
      await pause(WAIT_MS.pause);
    }
  };
  const readRuns = (query: RunQuery, is_read: boolean) => async (cursor: string | null) => {
    const after = readRunPlace(query, cursor);
    const question = { name: 'runs', limit: PAGE_RUNS, after, query, is_counted: false, is_read } as const;
    const answer = await askWhole(question, ({ being_read }) => being_read === null);
    const being_indexed = answer.being_indexed as { stored: number } | null;
    return { ...toPage(answer, 'runs'), not_indexed: being_indexed?.stored ?? 0 };
  };
  return {
    exportCapturedRuns: async ({ query: { format, ...query }, request }) => {
      // Spans contain neither first words nor verdicts, so bodies need not be read.
      const read = readRuns(readListQuery(query), format !== 'otlp');
      if (format !== 'otlp')
        return toReply(
          await sendList('runs', format, columns('listCapturedRuns', 'runs'), read, { request, owner }),
        );
      const write = (pages: AsyncIterable<readonly ExportRow[]>) => writeSpans(pages, ask);
      return toReply(await sendFile('runs.otlp.jsonl', read, write, { request, owner }));
    },
    exportCapturedTurns: async ({ params: { id }, query: { format }, request }) => {
      const read = async (cursor: string | null) => {
        const after = cursor === null ? null : Number(cursor);
        return toPage(await ask({ name: 'run', run_id: id, limit: PAGE_TURNS, after }), 'turns');
      };
      const shown = columns('readCapturedRun', 'turns');
      return toReply(await sendList('turns', format, shown, read, { request, owner }));
    },
    exportTrafficFigures: async ({ query: { format, ...query }, request }) => {
      const question: FigureQuestion = readFigureQuestion(query, clock.wallMs());
      const read = async () => {
        const answer = await askWhole({ name: 'figures', question }, ({ is_whole }) => is_whole === true);
        return { ...toPage(answer, 'rows'), not_indexed: answer.not_indexed as number };
      };
      const shown = columns('readTrafficFigures', 'rows');
      return toReply(await sendList('figures', format, shown, read, { request, owner }));
    },
  };
}

type ColumnSource = 'listCapturedRuns' | 'readCapturedRun' | 'readTrafficFigures';

/** Makes a function that returns the columns of a list, and computes them only at the list's first export. */
function onceColumns() {
  const known = new Map<ColumnSource, ExportColumn[]>();
  return (list: ColumnSource, field: string): ExportColumn[] => {
    let found = known.get(list);
    if (found === undefined) {
      found = columnsIn(CAPTURES[list].replies[200].schema, field);
      known.set(list, found);
    }
    return found;
  };
}

/**
 * Writes the turns of captured runs as spans, a line for each page of a run's turns. Each line is one export request in
 * OTLP/JSON. Runs that were only reported have no spans.
 */
async function* writeSpans(
  pages: AsyncIterable<readonly ExportRow[]>,
  ask: (question: CaptureQuestion) => Promise<Record<string, unknown>>,
): AsyncGenerator<Uint8Array> {
  for await (const rows of pages)
    for (const { run_id, is_captured } of rows as unknown as readonly CapturedRunRow[]) {
      for (let after: number | null = is_captured ? 0 : null; after !== null; ) {
        const { otlp, next } = (await ask({ name: 'run_spans', run_id, after })) as {
          otlp: object | null;
          next: number | null;
        };
        // A run without turns sends an empty piece, which stops the iteration if the reader has disconnected.
        yield Buffer.from(otlp === null ? '' : `${JSON.stringify(otlp)}\n`);
        after = next;
      }
    }
}

/** Parses the answer. @throws CatalogueError `unavailable` for a refusal, `not_found` for an answer other than JSON */
function readAnswer(answer: CaptureAnswer): Record<string, unknown> {
  if (answer.type === 'json')
    return JSON.parse(Buffer.from(answer.json).toString()) as Record<string, unknown>;
  if (answer.type === 'refused') throw new CatalogueError('unavailable', answer.detail);
  throw new CatalogueError('not_found');
}

function toPage(answer: Record<string, unknown>, field: string): ExportPage {
  return {
    rows: answer[field] as ExportRow[],
    next: (answer.next_cursor as string | null | undefined) ?? null,
  };
}

function toReply({ headers, stream }: FileToSend): ApiReply {
  return { status: 200, headers, body: '', stream };
}
