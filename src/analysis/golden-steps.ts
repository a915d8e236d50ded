/**
 * The golden runs of a capture database as material to distil: their steps as the student takes them, and the patterns in
 * them. Newest runs first, until as much is there as is taught. Pure but for what it is handed. Command line.
 *
 * Memory: what is kept of the steps is bounded together (DISTILL_BOUNDS); of all else there is one run at a time.
 */

import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type DistilledPattern,
  distilTrace,
  keepDistinct,
  toPattern,
} from '../domain/distillation/distil.ts';
import type { ExchangeRecord } from '../domain/exchange.ts';
import type { NormalTurn } from '../domain/turn.ts';
import { DISTILL_BOUNDS } from '../limits.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import type { StoredExchange } from '../providers/decode.ts';
import { type AnswerDigest, digestAnswer } from '../student/model/answer.ts';
import type { StepDigest } from '../student/model/step.ts';
import { readMessagesStep } from '../student/serving/messages-step.ts';
import { type RunFault, readAnsweredTurns } from './golden-run.ts';
import type { ExchangeSource } from './inspect.ts';
import { RunStory } from './run-story.ts';
import type { RunChains, TracedRun } from './trace.ts';

/** A turn of a golden run that the upstream answered. */
export interface GoldenStep {
  exchange_id: number;
  step: StepDigest;
  /** null: a student cannot give such an answer; it counts when coverage is measured. */
  answer: AnswerDigest | null;
  /** What the turn cost, as the provider told it: input with all that was cached, output. */
  tokens: number;
}

export interface GoldenRun {
  run_id: string;
  first_id: number;
  last_id: number;
  steps: GoldenStep[];
}

/** Why a turn of a golden run is not among its steps. */
export type UntaughtReason = 'other_shape' | 'served_by_student' | 'unreadable' | 'too_many';

/** What is made of one run; plain data, kept by a {@link DigestStore}. */
export interface RunDigest {
  /** Why it does not teach; empty: it does. */
  codes: RunFault[];
  steps: GoldenStep[];
  /** Bytes of the steps, about. */
  bytes: number;
  untaught: Partial<Record<UntaughtReason, number>>;
  patterns: DistilledPattern[];
}

/** Remembers digests from one pass to the next; `DigestCache` of src/storage is one. */
export interface DigestStore {
  get(key: DigestKey): unknown;
  put(key: DigestKey, digest: unknown): Promise<void>;
}

interface DigestKey {
  run_id: string;
  exchanges: number;
  last_id: number;
  outcome: string | null;
}

/** Embeds situations into vectors of length 1; null when it cannot: then equal texts alone are the same. */
export type EmbedTexts = (texts: readonly string[]) => Promise<Float32Array[] | null>;

export interface GatherOptions {
  /** Outcomes of finished monitor runs by run id. */
  outcomes: ReadonlyMap<string, string>;
  store: DigestStore | null;
  embed: EmbedTexts;
  /** Awaited after each turn that was read, when nothing of the source is held. */
  pause?: () => Promise<void>;
  /** Told after each run that was looked at. */
  tell?: (lookedAt: number, golden: number) => void;
}

/** What a database gives to distil. */
export interface GoldenMaterial {
  /** Runs in the database, and those of them that were looked at: all, unless there was enough before. */
  runs: number;
  looked_at: number;
  /** Of those, how many had to be read and were not remembered. */
  read: number;
  golden: number;
  /** Golden runs with steps to teach, newest first. */
  taught: GoldenRun[];
  steps: number;
  /** Runs that do not teach, by the reason; a run with several counts under each. */
  not_golden: Partial<Record<RunFault, number>>;
  untaught: Partial<Record<UntaughtReason, number>>;
  /** As the runs gave them, near-duplicates between runs among them; at most DISTILL_BOUNDS.patterns. */
  patterns: DistilledPattern[];
}

/**
 * Looks through the runs, newest first.
 * @throws what the source throws
 */
export async function gatherGolden(
  source: ExchangeSource,
  chains: RunChains,
  options: GatherOptions,
): Promise<GoldenMaterial> {
  const material: GoldenMaterial = {
    runs: chains.size,
    looked_at: 0,
    read: 0,
    golden: 0,
    taught: [],
    steps: 0,
    not_golden: {},
    untaught: {},
    patterns: [],
  };
  let bytes = 0;
  const runs = [...chains.runs].sort((a, b) => b.last_id - a.last_id);
  for (const run of runs) {
    if (material.steps >= DISTILL_BOUNDS.steps || bytes >= DISTILL_BOUNDS.steps_bytes) break;
    const outcome = options.outcomes.get(run.run_id) ?? null;
    const key = { run_id: run.run_id, exchanges: run.exchanges, last_id: run.last_id, outcome };
    let digest = options.store?.get(key) as RunDigest | undefined;
    if (digest === undefined) {
      digest = await digestRun(source, chains, run, outcome, options);
      material.read += 1;
      await options.store?.put(key, digest);
    }
    material.looked_at += 1;
    addDigest(material, run, digest);
    bytes += digest.bytes;
    options.tell?.(material.looked_at, material.golden);
    // Timers and signals get their turn.
    if (material.looked_at % 64 === 0) await nextTurn();
  }
  return material;
}

function addDigest(material: GoldenMaterial, run: TracedRun, digest: RunDigest): void {
  for (const code of digest.codes) material.not_golden[code] = (material.not_golden[code] ?? 0) + 1;
  if (digest.codes.length > 0) return;
  material.golden += 1;
  for (const [reason, count] of Object.entries(digest.untaught)) {
    const known = reason as UntaughtReason;
    material.untaught[known] = (material.untaught[known] ?? 0) + count;
  }
  const room = DISTILL_BOUNDS.patterns - material.patterns.length;
  material.patterns.push(...digest.patterns.slice(0, room));
  if (digest.steps.length === 0) return;
  const { run_id, first_id, last_id } = run;
  material.taught.push({ run_id, first_id, last_id, steps: digest.steps });
  material.steps += digest.steps.length;
}

/** Reads a run and takes what it has to teach; of one that is not golden, why not. */
async function digestRun(
  source: ExchangeSource,
  chains: RunChains,
  run: TracedRun,
  outcome: string | null,
  { embed, pause }: GatherOptions,
): Promise<RunDigest> {
  const digest: RunDigest = { codes: [], steps: [], bytes: 0, untaught: {}, patterns: [] };
  const story = new RunStory();
  const turns = readAnsweredTurns(source, chains, run, outcome);
  for (;;) {
    const next = turns.next();
    if (next.done === true) {
      if (next.value.length > 0) return { ...digest, codes: next.value, steps: [], bytes: 0 };
      break;
    }
    const { record, turn, copy } = next.value;
    story.add(turn);
    addStep(digest, record, turn, copy);
    await pause?.();
  }
  digest.patterns = await findPatterns(story, run, outcome, embed);
  return digest;
}

function addStep(digest: RunDigest, record: ExchangeRecord, turn: NormalTurn, copy: StoredExchange): void {
  const leaveOut = (reason: UntaughtReason): void => {
    digest.untaught[reason] = (digest.untaught[reason] ?? 0) + 1;
  };
  if (record.served_by !== 'upstream') return leaveOut('served_by_student');
  // The student answers POST /v1/messages alone.
  if (record.shape !== 'messages') return leaveOut('other_shape');
  if (digest.steps.length >= DISTILL_BOUNDS.steps_per_run) return leaveOut('too_many');
  const step = turn.problem === '' ? readStep(copy) : null;
  if (step === null) return leaveOut('unreadable');
  const answer = digestAnswer(turn.answer);
  digest.steps.push({ exchange_id: record.id, step, answer, tokens: countTokens(record) });
  digest.bytes += JSON.stringify(step).length + (answer === null ? 0 : JSON.stringify(answer).length);
}

function readStep(copy: StoredExchange): StepDigest | null {
  const { bytes, problem } = decodeContent(copy.request_body, copy.request_headers);
  if (problem !== '') return null;
  const body: unknown = JSON.parse(new TextDecoder().decode(bytes));
  return readMessagesStep(body, copy.request_headers)?.step ?? null;
}

function countTokens({ usage }: ExchangeRecord): number {
  const { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens } = usage;
  return (input_tokens ?? 0) + (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0) + (output_tokens ?? 0);
}

async function findPatterns(
  story: RunStory,
  run: TracedRun,
  outcome: string | null,
  embed: EmbedTexts,
): Promise<DistilledPattern[]> {
  const candidates = distilTrace(story.finish(run.run_id, outcome ?? ''));
  const vectors = candidates.length < 2 ? null : await embed(candidates.map(({ situation }) => situation));
  return keepDistinct(candidates, vectors).map(toPattern);
}
