/**
 * The steps of a finished run, many in one row. A row's key has the index of its last step. So the first row whose key
 * is at least an index contains the step with that index, if the run has this step. A run that is not finished, or that
 * an earlier version finished, has a row for each step in another table. Pure; server threads and the command line. The
 * value of a row with many steps is [u8 1][raw deflate of JSON]; the JSON has a list for each field (`StepColumns`).
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { Intervention } from './monitors/intervention.ts';
import { type PackedScores, toTimestamp } from './run.ts';
import { RUN_GATHERED_STEPS, RUN_STEPS, type RunStepRow } from './run-rows.ts';

/** Maximum number of steps in one row. */
export const GATHERED_STEPS = 128;

/** Maximum size of the JSON of a row. No step takes 100 KB, because its texts are cut. */
const MAX_JSON_BYTES = GATHERED_STEPS * 100_000;
const FORMAT = 1;

/** A step with its index. */
export interface StoredStep {
  step_index: number;
  step: RunStepRow;
}

/** The part of a table's interface that is needed here. */
interface StepReader {
  range<Value>(
    table: string,
    range: { prefix: readonly string[]; after?: readonly (string | number)[]; limit?: number },
  ): Iterable<{ row: (string | number)[]; value: Value }>;
}

interface StepTables {
  snapshot<Value>(tables: readonly string[], work: (reader: StepReader) => Value): Value;
}

/** Texts of a field, in the order of the steps. null: unknown. */
type Texts = readonly (string | null)[];

type StepColumns = [
  indices: number[],
  /**
   * Milliseconds since the epoch, as differences from the time before. A text that is not a time in the usual form is
   * kept.
   */
  times: (number | string)[],
  /** The steps with an error, by their position. */
  errors: number[],
  tokens: number[],
  answers: (string | PackedScores)[],
  actions: Texts,
  inputs: Texts,
  thoughts: Texts,
  observations: Texts,
  interventions: [position: number, intervention: Intervention][],
];

/**
 * Encodes steps as the value of a row.
 * @param steps in the order of their indices
 */
export function gatherSteps(steps: readonly StoredStep[]): Uint8Array {
  const rows = steps.map(({ step }) => step);
  const columns: StepColumns = [
    steps.map(({ step_index }) => step_index),
    writeTimes(rows.map(({ at }) => at)),
    rows.flatMap(({ is_error }, position) => (is_error ? [position] : [])),
    rows.map(({ tokens }) => tokens),
    rows.map(({ answer }) => answer),
    rows.map(({ copy }) => copy.action),
    rows.map(({ copy }) => copy.action_input),
    rows.map(({ copy }) => copy.thought),
    rows.map(({ copy }) => copy.observation),
    rows.flatMap(({ intervention }, position) =>
      intervention === undefined ? [] : [[position, intervention]],
    ),
  ];
  return Buffer.concat([Buffer.of(FORMAT), deflateRawSync(JSON.stringify(columns))]);
}

/**
 * Decodes the steps in the value of a row.
 * @throws RangeError for a value of a newer version; zlib's error or SyntaxError for a damaged one
 */
export function readGathered(value: Uint8Array): StoredStep[] {
  if (value[0] !== FORMAT) throw new RangeError(`steps in the format ${value[0]} of a newer version`);
  const json = inflateRawSync(value.subarray(1), { maxOutputLength: MAX_JSON_BYTES }).toString();
  const columns = JSON.parse(json) as StepColumns;
  const [indices, times, errors, tokens, answers, actions, inputs, thoughts, observations] = columns;
  const ats = readTimes(times);
  const withError = new Set(errors);
  const interventions = new Map(columns[9]);
  return indices.map((step_index, position) => {
    const intervention = interventions.get(position);
    const step: RunStepRow = {
      answer: answers[position]!,
      at: ats[position]!,
      is_error: withError.has(position),
      tokens: tokens[position]!,
      copy: {
        action: actions[position]!,
        action_input: inputs[position]!,
        thought: thoughts[position]!,
        observation: observations[position]!,
      },
      ...(intervention === undefined ? {} : { intervention }),
    };
    return { step_index, step };
  });
}

/** Reads the first steps of a run with a greater index than `after` (null: all steps), in order, from both tables. */
export function readSteps(
  tables: StepTables,
  { org_id, run_id }: { org_id: string; run_id: string },
  { after, limit }: { after: number | null; limit: number },
): StoredStep[] {
  const prefix = [org_id, run_id];
  const steps: StoredStep[] = [];
  return tables.snapshot([RUN_GATHERED_STEPS, RUN_STEPS], (reader) => {
    const from = after === null ? {} : { after: [...prefix, after] };
    for (const { value } of reader.range<Uint8Array>(RUN_GATHERED_STEPS, { prefix, ...from })) {
      for (const found of readGathered(value))
        if (after === null || found.step_index > after) steps.push(found);
      if (steps.length >= limit) return steps.slice(0, limit);
    }
    // The steps that are moved first are those with the lowest indices.
    const rest = { prefix, ...from, limit: limit - steps.length };
    for (const { row, value } of reader.range<RunStepRow>(RUN_STEPS, rest))
      steps.push({ step_index: row[2] as number, step: value });
    return steps;
  });
}

function writeTimes(times: readonly string[]): (number | string)[] {
  let before = 0;
  return times.map((text) => {
    const ms = Date.parse(text);
    if (Number.isNaN(ms) || toTimestamp(ms) !== text) return text;
    const difference = ms - before;
    before = ms;
    return difference;
  });
}

function readTimes(times: readonly (number | string)[]): string[] {
  let ms = 0;
  return times.map((time) => {
    if (typeof time === 'string') return time;
    ms += time;
    return toTimestamp(ms);
  });
}
