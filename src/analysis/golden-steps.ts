/**
 * The golden runs of a capture database as material to distil: their steps as the student takes them, and the patterns in
 * them. Newest runs first, of each agent as many as there is room for. Pure but for what it is handed. Command line.
 *
 * Memory: DISTILL_BOUNDS bounds what is kept of all steps together; of all else there is one run at a time. Until all are
 * found, steps stand in bytes outside the JavaScript heap: as objects they would be gone over with each of a hundred
 * thousand runs that is read and thrown away. When the room
 * is full, the agent that takes most of it gives up its oldest runs, and its older ones are passed over: so a rare agent
 * has its runs, however busy the others are. Which agent a run is of, its first request tells.
 */

import { createHash } from 'node:crypto';
import { setImmediate as nextTick } from 'node:timers/promises';
import { deserialize, serialize } from 'node:v8';
import {
  type DistilledPattern,
  distilTrace,
  keepDistinct,
  toPattern,
} from '../domain/distillation/distil.ts';
import type { ExchangeRecord, RelegationWire } from '../domain/exchange.ts';
import { nameOrigin } from '../domain/step-origin.ts';
import { type NormalRequest, type NormalTurn, textOf } from '../domain/turn.ts';
import { DISTILL_BOUNDS } from '../limits.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import type { StoredExchange } from '../providers/decode.ts';
import { compressZstd, decompressZstd } from '../std/zstd.ts';
import { type AnswerDigest, digestAnswer } from '../student/model/answer.ts';
import type { StepDigest } from '../student/model/step.ts';
import { type ReadStep, readStep as readWireStep, wireOf } from '../student/serving/step-reading.ts';
import type { ExchangeSource } from './exchange-source.ts';
import { type RunFault, readAnsweredTurns } from './golden-run.ts';
import type { ChainedRun, RunChains } from './run-chains.ts';
import { RunStory } from './run-story.ts';

/** A turn of a golden run that the upstream answered. */
export interface GoldenStep {
  exchange_id: number;
  wire: RelegationWire;
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
  /** Another one when its exchanges are others. */
  mark: string;
  steps: GoldenStep[];
}

/** What most steps of a run are of: a model with its tools and settings. */
export function mainScope({ steps }: GoldenRun): string {
  const counts = new Map<string, number>();
  for (const { step } of steps) counts.set(step.scope, (counts.get(step.scope) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? '';
}

/** Why a turn of a golden run is not among its steps. */
export type UntaughtReason = 'other_shape' | 'served_by_student' | 'unreadable' | 'too_many';

/** What is made of one run; plain data, kept by a {@link DigestStore}. */
export interface RunDigest {
  run_id: string;
  /** Why it does not teach; empty: it does. */
  codes: RunFault[];
  steps: GoldenStep[];
  /** Of the agent, by its first request; '' when that is not read. */
  agent: string;
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
  /** Of the run, and what of it. */
  key: string;
  /** Of its exchanges, and its outcome. */
  mark: string;
}

/** Embeds situations into vectors of length 1; null when it cannot: then equal texts alone are the same. */
export type EmbedTexts = (texts: readonly string[]) => Promise<Float32Array[] | null>;

export interface GatherOptions {
  /** Outcomes of finished monitor runs, by `keyOfRun`. */
  outcomes: ReadonlyMap<string, string>;
  store: DigestStore | null;
  embed: EmbedTexts;
  /** Whose steps are taught; Messages when left out. */
  wires?: readonly RelegationWire[];
  /** Awaited after each turn that was read, when nothing of the source is held. */
  pause?: () => Promise<void>;
  /** Of DISTILL_BOUNDS, how much there is room for: 0 to 1; 1 when left out. */
  room?: number;
  /** Told after each run that was looked at. */
  tell?: (lookedAt: number, golden: number) => void;
}

/** What a database gives to distil. */
export interface GoldenMaterial {
  /** Runs in the database, and those of them that were looked at: all, unless there was enough before. */
  runs: number;
  looked_at: number;
  /** Runs that were not read whole, since their agent has newer ones enough. */
  passed_over: number;
  /** Of those looked at, how many had to be read and were not remembered. */
  read: number;
  golden: number;
  /** Golden runs with steps to teach, newest first; of each agent the newest that there was room for. */
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
    passed_over: 0,
    read: 0,
    golden: 0,
    taught: [],
    steps: 0,
    not_golden: {},
    untaught: {},
    patterns: [],
  };
  const room = new TeachingRoom(options.room ?? 1);
  let inARow = 0;
  for (const run of chains.newest) {
    if (inARow >= DISTILL_BOUNDS.passed_over) break;
    if (run.is_side) {
      // Nothing of it is read.
      addDigest(material, run, SIDE_CALL, []);
      material.looked_at += 1;
      inARow += room.isFull ? 1 : 0;
      if (material.looked_at % 1_024 === 0) await nextTick();
      continue;
    }
    const outcome = options.outcomes.get(run.key) ?? null;
    const key = { key: run.key, mark: `${run.mark} ${outcome ?? ''}` };
    let digest = options.store?.get(key) as RunDigest | undefined;
    const agent = digest?.agent ?? (room.isFull ? await peekAgent(source, run, key, options.store) : '');
    if (room.isClosed(agent)) {
      material.passed_over += 1;
      inARow += 1;
      if (material.passed_over % 64 === 0) {
        await options.pause?.();
        await nextTick();
      }
      continue;
    }
    if (digest === undefined) {
      digest = await digestRun(source, chains, run, outcome, options);
      material.read += 1;
      await options.store?.put(key, digest);
    }
    material.looked_at += 1;
    const taught = addDigest(material, run, digest, options.wires ?? ['messages']);
    if (taught !== null) inARow = room.add(digest, taught) ? 0 : inARow + 1;
    else inARow += room.isFull ? 1 : 0;
    options.tell?.(material.looked_at, material.golden);
    // Timers and signals get their turn.
    if (material.looked_at % 64 === 0) await nextTick();
  }
  material.taught = room.takeRuns();
  material.steps = material.taught.reduce((sum, { steps }) => sum + steps.length, 0);
  return material;
}

/** Of a call that a client made beside its work. */
const SIDE_CALL: RunDigest = {
  run_id: '',
  codes: ['side_call'],
  steps: [],
  agent: '',
  bytes: 0,
  untaught: {},
  patterns: [],
};

/** Steps and their bytes that somebody has. */
interface Taken {
  steps: number;
  bytes: number;
}

/** Of one run, unpacked. */
const PACKED_STEPS_BYTES = 512 * 1_048_576;

/** A golden run whose steps stand in bytes. */
interface PackedRun extends Taken {
  run: Omit<GoldenRun, 'steps'>;
  packed: Uint8Array;
}

/** Compressed, and no larger than it is: a serializer and a compressor leave room at the end of what they give. */
function packSteps(steps: readonly GoldenStep[]): Uint8Array {
  return new Uint8Array(compressZstd(serialize(steps)));
}

function unpackSteps(packed: Uint8Array): GoldenStep[] {
  return deserialize(decompressZstd(packed, { maxOutputLength: PACKED_STEPS_BYTES })) as GoldenStep[];
}

/** What is kept of all agents together. */
class TeachingRoom {
  readonly #agents = new Map<string, Taken & { runs: PackedRun[] }>();
  /** Agents that have newer runs enough. */
  readonly #closed = new Set<string>();
  readonly #taken: Taken = { steps: 0, bytes: 0 };
  readonly #steps: number;
  readonly #bytes: number;

  constructor(room: number) {
    this.#steps = DISTILL_BOUNDS.steps * room;
    this.#bytes = DISTILL_BOUNDS.steps_bytes * room;
  }

  /** Somebody has had to give up runs. */
  get isFull(): boolean {
    return this.#closed.size > 0;
  }

  isClosed(agent: string): boolean {
    return this.#closed.has(agent);
  }

  /** Takes a run that is older than all before it. @returns whether it is kept */
  add({ agent, bytes }: RunDigest, run: GoldenRun): boolean {
    const its = this.#agents.get(agent) ?? { runs: [], steps: 0, bytes: 0 };
    this.#agents.set(agent, its);
    const { steps, ...named } = run;
    const packed = { run: named, steps: steps.length, bytes, packed: packSteps(steps) };
    its.runs.push(packed);
    for (const taken of [its, this.#taken]) {
      taken.steps += steps.length;
      taken.bytes += bytes;
    }
    // One run is taught, however large it is.
    while (this.#shareOf(this.#taken) > 1 && (this.#agents.size > 1 || its.runs.length > 1))
      this.#giveUp(agent);
    return its.runs.at(-1) === packed;
  }

  /** All that are kept, the newest first; the room is empty then. */
  takeRuns(): GoldenRun[] {
    const packed = [...this.#agents.values()].flatMap(({ runs }) => runs);
    this.#agents.clear();
    packed.sort((a, b) => a.run.last_id - b.run.last_id);
    const runs: GoldenRun[] = [];
    for (let one = packed.pop(); one !== undefined; one = packed.pop())
      runs.push({ ...one.run, steps: unpackSteps(one.packed) });
    return runs;
  }

  /** The agent with most of the room gives up its oldest run; of equals, the last that came. */
  #giveUp(last: string): void {
    let most = this.#agents.has(last) ? last : '';
    for (const [agent, taken] of this.#agents) {
      const former = this.#agents.get(most);
      if (former === undefined || this.#shareOf(taken) > this.#shareOf(former)) most = agent;
    }
    const its = this.#agents.get(most)!;
    const { steps, bytes } = its.runs.pop()!;
    for (const taken of [its, this.#taken]) {
      taken.steps -= steps;
      taken.bytes -= bytes;
    }
    this.#closed.add(most);
    if (its.runs.length === 0) this.#agents.delete(most);
  }

  #shareOf({ steps, bytes }: Taken): number {
    return Math.max(steps / this.#steps, bytes / this.#bytes);
  }
}

/** Longest beginning of a system prompt by which agents are told apart here. */
const PROMPT_CHARACTERS = 256;

/** The agent of a run that is not read whole, as it was found once. */
async function peekAgent(
  source: ExchangeSource,
  run: ChainedRun,
  key: DigestKey,
  store: DigestStore | null,
): Promise<string> {
  const own = { ...key, key: `agent of ${key.key}` };
  const known = store?.get(own);
  if (typeof known === 'string') return known;
  const agent = readAgent(source, run);
  await store?.put(own, agent);
  return agent;
}

/** The agent of a run, by its first request; '' when that tells nothing. */
function readAgent(source: ExchangeSource, run: ChainedRun): string {
  const [record, copy] = [source.exchange(run.first_id), source.copy(run.first_id)];
  if (record === undefined || copy === undefined) return '';
  try {
    const read = readStep(copy, record);
    return read === null ? '' : nameAgent(read.request, originOf(record));
  } catch {
    return '';
  }
}

/** Model, tools and the beginning of the prompt; what changes in it from run to run is mostly a number. */
function nameAgent({ model, system, tools }: NormalRequest, origin: string): string {
  const prompt = textOf(system).slice(0, PROMPT_CHARACTERS).replace(/\d+/g, '0');
  const told = JSON.stringify([model, tools.map(({ name }) => name), prompt, origin]);
  return createHash('sha256').update(told).digest('base64url').slice(0, 16);
}

/** @returns the run, when it has something to teach */
function addDigest(
  material: GoldenMaterial,
  run: ChainedRun,
  digest: RunDigest,
  wires: readonly RelegationWire[],
): GoldenRun | null {
  for (const code of digest.codes) material.not_golden[code] = (material.not_golden[code] ?? 0) + 1;
  if (digest.codes.length > 0) return null;
  material.golden += 1;
  for (const [reason, count] of Object.entries(digest.untaught)) {
    const known = reason as UntaughtReason;
    material.untaught[known] = (material.untaught[known] ?? 0) + count;
  }
  const room = DISTILL_BOUNDS.patterns - material.patterns.length;
  material.patterns.push(...digest.patterns.slice(0, room));
  const steps = digest.steps.filter(({ wire }) => wires.includes(wire));
  const others = digest.steps.length - steps.length;
  if (others > 0) material.untaught.other_shape = (material.untaught.other_shape ?? 0) + others;
  if (steps.length === 0) return null;
  const { first_id, last_id, mark } = run;
  return { run_id: digest.run_id, first_id, last_id, mark, steps };
}

/** Reads a run and takes what it has to teach; of one that is not golden, why not. */
async function digestRun(
  source: ExchangeSource,
  chains: RunChains,
  run: ChainedRun,
  outcome: string | null,
  { embed, pause }: GatherOptions,
): Promise<RunDigest> {
  const digest: RunDigest = {
    run_id: '',
    codes: [],
    steps: [],
    agent: '',
    bytes: 0,
    untaught: {},
    patterns: [],
  };
  const story = new RunStory();
  const turns = readAnsweredTurns(source, chains, run, outcome);
  const places = new Map<number, StepPlace>();
  for (;;) {
    const next = turns.next();
    if (next.done === true) {
      if (next.value.length > 0) return { ...digest, codes: next.value, steps: [], bytes: 0 };
      break;
    }
    const { record, turn, copy } = next.value;
    digest.run_id = record.run_id ?? '';
    story.add(turn);
    addStep(digest, record, turn, copy);
    places.set(record.id, { seq: record.seq, started_ms: Date.parse(record.started_at) });
    await pause?.();
  }
  sortSteps(digest.steps, places);
  digest.patterns = await findPatterns(story, digest.run_id, outcome, embed);
  return digest;
}

/** Where a step stands in its run. */
export interface StepPlace {
  seq: number | null;
  started_ms: number;
}

/**
 * Steps in the order in which they were asked. Exchanges are numbered as they are written, and the copies of two threads may
 * pass each other where answers come within milliseconds.
 */
export function sortSteps(
  steps: Pick<GoldenStep, 'exchange_id'>[],
  places: ReadonlyMap<number, StepPlace>,
): void {
  const placeOf = ({ exchange_id }: Pick<GoldenStep, 'exchange_id'>): StepPlace => places.get(exchange_id)!;
  const isNumbered = steps.every((step) => placeOf(step).seq !== null);
  const orderOf = (step: Pick<GoldenStep, 'exchange_id'>): number =>
    isNumbered ? placeOf(step).seq! : placeOf(step).started_ms;
  steps.sort((a, b) => orderOf(a) - orderOf(b) || a.exchange_id - b.exchange_id);
}

function addStep(digest: RunDigest, record: ExchangeRecord, turn: NormalTurn, copy: StoredExchange): void {
  const leaveOut = (reason: UntaughtReason): void => {
    digest.untaught[reason] = (digest.untaught[reason] ?? 0) + 1;
  };
  if (record.served_by !== 'upstream') return leaveOut('served_by_student');
  const wire = wireOf(record.shape);
  if (wire === null) return leaveOut('other_shape');
  if (digest.steps.length >= DISTILL_BOUNDS.steps_per_run) return leaveOut('too_many');
  const read = turn.problem === '' ? readStep(copy, record) : null;
  if (read === null) return leaveOut('unreadable');
  const { step } = read;
  if (digest.agent === '') digest.agent = nameAgent(read.request, originOf(record));
  const answer = digestAnswer(turn.answer);
  const tokens = countTokens(record);
  digest.steps.push({ exchange_id: record.id, wire: wire.name, step, answer, tokens });
  digest.bytes += JSON.stringify(step).length + (answer === null ? 0 : JSON.stringify(answer).length);
}

function readStep(copy: StoredExchange, record: ExchangeRecord): ReadStep | null {
  const wire = wireOf(copy.shape);
  const body = wire === null ? null : readBody(copy);
  if (wire === null || body === null) return null;
  return readWireStep(wire, body, copy.request_headers, originOf(record), Date.parse(record.started_at));
}

/** Where a captured step came in. */
export function originOf({
  shape,
  path,
  provider,
}: Pick<ExchangeRecord, 'shape' | 'path' | 'provider'>): string {
  const wire = wireOf(shape);
  return wire === null ? '' : nameOrigin(wire.name, path, provider);
}

/** @returns null for one that cannot be unpacked */
function readBody(copy: StoredExchange): unknown {
  const { bytes, problem } = decodeContent(copy.request_body, copy.request_headers);
  return problem === '' ? (JSON.parse(new TextDecoder().decode(bytes)) as unknown) : null;
}

function countTokens({ usage }: ExchangeRecord): number {
  const { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens } = usage;
  return (input_tokens ?? 0) + (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0) + (output_tokens ?? 0);
}

async function findPatterns(
  story: RunStory,
  runId: string,
  outcome: string | null,
  embed: EmbedTexts,
): Promise<DistilledPattern[]> {
  const candidates = distilTrace(story.finish(runId, outcome ?? ''));
  const vectors = candidates.length < 2 ? null : await embed(candidates.map(({ situation }) => situation));
  return keepDistinct(candidates, vectors).map(toPattern);
}
