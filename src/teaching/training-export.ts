/**
 * `distill --export`: writes golden runs as lines to fine-tune a model with; teaching and held-out runs go into two
 * files. The round's own thread; one exchange in memory at a time, and for each golden run a few ids and hashes.
 *
 * The first pass finds the golden runs and the exchanges that hold whole conversations. The second pass writes the
 * files. Files get their names when they are complete.
 */

import { rmSync } from 'node:fs';
import { type FileHandle, open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { CaptureFiles } from '../captures/capture-files.ts';
import type { RunChains } from '../captures/run-chains.ts';
import type { ExchangeRecord, RelegationWire } from '../domain/exchange.ts';
import { NO_WORDS, type RunWords } from '../domain/run-mark.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import { namePlace } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { readStep, wireOf } from '../student/serving/step-reading.ts';
import { readAnsweredTurns } from './golden-run.ts';
import { originOf } from './golden-steps.ts';
import { splitForService } from './held-out.ts';
import { DISTILL_BOUNDS } from './limits.ts';
import {
  hashPrefixes,
  type LeftOut,
  makeTrainingLine,
  markAnswer,
  type TrainingForm,
} from './training-lines.ts';

/** Thrown when nothing can be exported; the message is one line. */
export class ExportError extends Error {}

interface ExportOptions {
  out: string;
  form: TrainingForm;
  /** Share of the golden runs that is held out; null: as many as a later trial needs. */
  held_out: number | null;
  wires: readonly RelegationWire[];
}

/** Receives the progress of an export, often. */
interface ExportTeller {
  tell(what: string, done: number, of: number): void;
}

export interface ExportReport {
  outcome: 'exported';
  form: TrainingForm;
  out: string;
  runs: number;
  golden: number;
  /** Share of all runs that is held out: the value of `--held-out` for a trial of the model. */
  held_out: number;
  files: { name: 'train.jsonl' | 'held-out.jsonl'; runs: number; lines: number; bytes: number }[];
  /** Conversations of golden runs that are in neither file, by reason. */
  left_out: Partial<Record<LeftOut, number>>;
  /** Runs that are held out. */
  held_out_runs: string[];
}

const EXPORT_FILES = ['train.jsonl', 'held-out.jsonl', 'export.json'] as const;
/** Suffix of file names in an unfinished export. */
const PARTIAL = '.partial';

/** Removes what an unfinished export has left. */
export function removePartialExport(out: string): void {
  for (const name of EXPORT_FILES) rmSync(join(out, name + PARTIAL), { force: true });
}

/** What the second pass needs of a golden run. */
interface ExportedRun {
  run_id: string;
  /** The scope of the first step; '' if unknown. */
  agent: string;
  /** Ids of the exchanges that hold whole conversations. */
  conversations: number[];
  /** Marks (`markAnswer`) of the answers that the upstream gave. */
  answered: string[];
}

/**
 * Exports the golden runs.
 * @throws ExportError, CaptureFileError, or the system's error
 */
export async function exportGolden(
  source: CaptureFiles,
  chains: RunChains,
  words: ReadonlyMap<string, RunWords>,
  options: ExportOptions,
  teller: ExportTeller,
): Promise<ExportReport> {
  const { out, form } = options;
  await checkFolder(out);
  const golden = await findGolden(source, chains, words, options.wires, teller);
  if (golden.length === 0) throw new ExportError(`no golden runs to export, of ${chains.size} runs`);
  const split = splitForService(golden, ({ agent }) => agent, options.held_out);
  // The share is rounded, to have few digits in the report. It is rounded down, because a later trial must not hold out
  // more runs.
  const report: ExportReport = {
    outcome: 'exported',
    form,
    out,
    runs: chains.size + chains.forgotten,
    golden: golden.length,
    held_out: Math.floor(split.held_out_below * 1e6) / 1e6,
    files: [],
    left_out: {},
    held_out_runs: split.held_out.map(({ run_id }) => run_id),
  };
  try {
    const parts = [
      { name: 'train.jsonl', runs: split.teaching },
      { name: 'held-out.jsonl', runs: split.held_out },
    ] as const;
    for (const { name, runs } of parts) {
      const counts = { name, runs: runs.length, lines: 0, bytes: 0 };
      report.files.push(counts);
      await writeFile(join(out, name), async (file) => {
        for (const [at, run] of runs.entries()) {
          for (const line of readLines(source, run, form, report.left_out)) {
            await file.write(line);
            counts.lines += 1;
            counts.bytes += Buffer.byteLength(line);
          }
          teller.tell(`writing ${name}: run ${at + 1} of ${runs.length}`, at + 1, runs.length);
          await source.release();
        }
      });
    }
    await writeFile(join(out, 'export.json'), async (file) => {
      await file.write(`${JSON.stringify(report, null, 2)}\n`);
    });
    for (const name of EXPORT_FILES) await rename(join(out, name + PARTIAL), join(out, name));
  } finally {
    removePartialExport(out);
  }
  return report;
}

/**
 * Makes the folder if needed, and checks it. It may contain an earlier export, which is replaced, and other files, which
 * stay.
 * @throws ExportError if a file has the name of an export's file, but belongs to no export
 */
async function checkFolder(out: string): Promise<void> {
  makeFolder(out, 0o700);
  const isThere = async (name: string): Promise<boolean> =>
    open(join(out, name), 'r').then(
      (file) => file.close().then(() => true),
      () => false,
    );
  const isExport = await readFile(join(out, 'export.json'), 'utf8').then(
    (text) => text.includes('"outcome": "exported"'),
    () => false,
  );
  if (isExport) return;
  for (const name of EXPORT_FILES)
    if (await isThere(name))
      throw new ExportError(`${join(out, name)} exists already, and does not belong to an export`);
}

async function writeFile(path: string, work: (file: FileHandle) => Promise<void>): Promise<void> {
  rmSync(path + PARTIAL, { force: true });
  const file = await open(path + PARTIAL, 'wx', 0o600);
  try {
    await work(file);
    await file.sync();
  } catch (error) {
    throw namePlace(error, path);
  } finally {
    await file.close();
  }
}

async function findGolden(
  source: CaptureFiles,
  chains: RunChains,
  words: ReadonlyMap<string, RunWords>,
  wires: readonly RelegationWire[],
  teller: ExportTeller,
): Promise<ExportedRun[]> {
  const golden: ExportedRun[] = [];
  let lookedAt = 0;
  for (const run of chains.runs) {
    const found: ExportedRun = { run_id: '', agent: '', conversations: [], answered: [] };
    const open = new Map<string, number>();
    const turns = readAnsweredTurns(source, chains, run, words.get(run.key) ?? NO_WORDS);
    let next = turns.next();
    for (let count = 0; next.done !== true; next = turns.next()) {
      const { record, turn, copy } = next.value;
      found.run_id = record.run_id ?? '';
      const wire = wireOf(copy.shape);
      if (turn.problem !== '' || wire === null || !wires.includes(wire.name)) continue;
      if (++count > DISTILL_BOUNDS.steps_per_run) continue;
      if (record.served_by === 'upstream') found.answered.push(markAnswer(turn.answer.content));
      if (found.agent === '') found.agent = nameScope(copy, record);
      const prefixes = hashPrefixes(turn.request);
      // A conversation that continues an earlier one contains the earlier request.
      for (const [at, { role }] of turn.request.messages.entries())
        if (role === 'assistant' && at > 0) open.delete(prefixes[at - 1]!);
      const whole = prefixes.at(-1);
      if (whole !== undefined) open.set(whole, record.id);
      await source.release();
    }
    if (next.value.length === 0 && open.size > 0)
      golden.push({ ...found, conversations: [...open.values()] });
    lookedAt += 1;
    teller.tell(`run ${lookedAt} of ${chains.size}, ${golden.length} golden`, lookedAt, chains.size);
  }
  return golden;
}

/** The agent as a round distinguishes agents when it holds out runs; '' when it was not read. */
function nameScope(copy: Parameters<typeof normalizeTurn>[0], record: ExchangeRecord): string {
  const wire = wireOf(copy.shape);
  if (wire === null) return '';
  try {
    const body: unknown = JSON.parse(
      new TextDecoder().decode(decodeContent(copy.request_body, copy.request_headers).bytes),
    );
    return (
      readStep(wire, body, copy.request_headers, originOf(record), Date.parse(record.started_at))?.step
        .scope ?? ''
    );
  } catch {
    return '';
  }
}

function* readLines(
  source: CaptureFiles,
  { conversations, answered }: ExportedRun,
  form: TrainingForm,
  leftOut: ExportReport['left_out'],
): Generator<string> {
  const marks = new Set(answered);
  for (const id of conversations) {
    const copy = source.copy(id);
    const turn = copy === undefined ? null : normalizeTurn(copy);
    const line = turn === null ? 'shape' : makeTrainingLine(form, turn, marks);
    if (typeof line === 'string') leftOut[line] = (leftOut[line] ?? 0) + 1;
    else yield `${JSON.stringify(line)}\n`;
  }
}
