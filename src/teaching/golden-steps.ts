/**
 * Gathers the golden runs of a capture database as material for a round: their steps in the student's form, and the
 * patterns in them. It reads the newest runs first, and keeps as many runs of each agent as fit. Pure
 * except for its inputs. Command line.
 *
 * Memory: DISTILL_BOUNDS bounds the kept steps of all runs together. Besides these steps, only one run is in memory at
 * a time. Until all runs are read, kept steps are bytes outside the JavaScript heap. Otherwise the garbage collector
 * would visit them for each of a hundred thousand runs that are read and dropped. When the bound is reached, the agent
 * that uses the largest part gives up its oldest runs, and still older runs of it are skipped. So a rare agent keeps
 * its runs, however busy the other agents are. A run's first request shows its agent.
 */

import { createHash } from 'node:crypto';
import { setImmediate as nextTick } from 'node:timers/promises';
import { deserialize, serialize } from 'node:v8';
import type { ExchangeSource } from '../captures/exchange-source.ts';
import type { ChainedRun, RunChains } from '../captures/run-chains.ts';
import type { ExchangeRecord, RelegationWire } from '../domain/exchange.ts';
import { findPatterns, keepDistinct, type PatternDraft, toPattern } from '../domain/patterns/drafts.ts';
import { NO_WORDS, type RunWords } from '../domain/run-mark.ts';
import { type NormalRequest, type NormalTurn, textOf } from '../domain/turn.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import type { StoredExchange } from '../providers/decode.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import { asObject, type JsonObject } from '../providers/json-reading.ts';
import { nameOrigin } from '../providers/step-origin.ts';
import { parseExact } from '../std/exact-json.ts';
import { compressZstd, decompressZstd } from '../std/zstd.ts';
import { type AnswerDigest, digestAnswer } from '../student/model/answer.ts';
import { isSamePrompt } from '../student/model/prompt-text.ts';
import type { StepDigest } from '../student/model/step.ts';
import { readAnswerBytes, readingsDiffer } from '../student/serving/answer-bytes.ts';
import { type ReadStep, readStep as readWireStep, wireOf } from '../student/serving/step-reading.ts';
import { type RunFault, readAnsweredTurns } from './golden-run.ts';
import { DISTILL_BOUNDS } from './limits.ts';
import { RunStory } from './run-story.ts';

/** A turn of a golden run that the upstream answered. */
export interface GoldenStep {
  exchange_id: number;
  wire: RelegationWire;
  step: StepDigest;
  /** The upstream's answer; null: a student cannot give it. The step still counts in coverage. */
  answer: AnswerDigest | null;
  /** The turn's tokens as the provider reported them: input including cached tokens, plus output. */
  tokens: number;
}

/** A golden run with the steps that may teach. */
export interface GoldenRun {
  run_id: string;
  /** Ids of the run's first and last exchange. */
  first_id: number;
  last_id: number;
  /** A text that changes when the run's exchanges change. */
  mark: string;
  steps: GoldenStep[];
}

/** The scope of most of a run's steps: a model with its tools and settings. */
export function mainScope({ steps }: GoldenRun): string {
  const counts = new Map<string, number>();
  for (const { step } of steps) counts.set(step.scope, (counts.get(step.scope) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? '';
}

/** Why a turn of a golden run is not among its steps. */
export type UntaughtReason =
  | 'other_shape'
  | 'served_by_student'
  | 'unreadable'
  | 'reading_differs'
  | 'too_many';

/** The result of reading one run; plain data, stored by a {@link DigestStore}. */
interface RunDigest {
  run_id: string;
  /** Why the run cannot be used for teaching; empty if it can. */
  codes: RunFault[];
  steps: GoldenStep[];
  /** The agent, from the request of the first step; '' without a step. */
  agent: string;
  /** Approximate bytes of the steps. */
  bytes: number;
  untaught: Partial<Record<UntaughtReason, number>>;
  patterns: PatternDraft[];
}

/** Keeps digests between rounds; `DigestCache` of src/storage is an implementation. */
export interface DigestStore {
  get(key: DigestKey): unknown;
  put(key: DigestKey, digest: unknown): Promise<void>;
}

interface DigestKey {
  /** Identifies the run and the kind of digest. */
  key: string;
  /** Identifies the run's exchanges and the external statements about the run. */
  mark: string;
}

/**
 * Embeds situations into vectors of length 1; null if that is impossible. Then only equal texts count as the same.
 */
type EmbedTexts = (texts: readonly string[]) => Promise<Float32Array[] | null>;

interface GatherOptions {
  /** External statements about runs, by `keyOfRun`. */
  words: ReadonlyMap<string, RunWords>;
  store: DigestStore | null;
  embed: EmbedTexts;
  /** Wires whose steps are taught; default: Messages. */
  wires?: readonly RelegationWire[];
  /** Awaited after each turn that was read, when no memory of the source is in use. */
  pause?: () => Promise<void>;
  /** Runs that began earlier are not read; null: all are read. */
  since_ms?: number | null;
  /** Share of DISTILL_BOUNDS that may be used, 0 to 1; default 1. */
  room?: number;
  /** Called with the number of runs that were examined or passed over, and of golden ones among them. */
  tell?: (seen: number, golden: number) => void;
}

/** The material for a round from a database. */
export interface GoldenMaterial {
  /** Number of runs in the database, and number of examined runs. The second is smaller if fewer runs were enough. */
  runs: number;
  looked_at: number;
  /** Runs that were not read completely, because their agent has enough newer ones. */
  passed_over: number;
  /** Runs that were not read, because they began before `since_ms`. */
  too_old: number;
  /** Examined runs that had to be read because no digest was kept. */
  read: number;
  golden: number;
  /** Golden runs with steps to teach, newest first; for each agent, the newest that fit. */
  taught: GoldenRun[];
  steps: number;
  /** Unusable runs by reason; a run with several reasons counts under each. */
  not_golden: Partial<Record<RunFault, number>>;
  untaught: Partial<Record<UntaughtReason, number>>;
  /** Patterns as found in the runs, near-duplicates included; at most DISTILL_BOUNDS.patterns. */
  patterns: PatternDraft[];
}

/**
 * Examines the runs, newest first.
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
    too_old: 0,
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
    if (isBefore(source, run, options.since_ms ?? null)) {
      material.too_old += 1;
      inARow += 1;
      if (material.too_old % 1_024 === 0) await nextTick();
      continue;
    }
    if (run.is_side) {
      // The bodies of a side call are not read.
      addDigest(material, run, SIDE_CALL, []);
      material.looked_at += 1;
      inARow += room.isFull ? 1 : 0;
      if (material.looked_at % 1_024 === 0) await nextTick();
      continue;
    }
    const words = options.words.get(run.key) ?? NO_WORDS;
    const key = { key: run.key, mark: `${run.mark} ${words.mark ?? ''} ${words.outcome ?? ''}` };
    const stored = options.store?.get(key) as StoredDigest | undefined;
    let digest = stored === undefined ? undefined : { ...stored, steps: stored.steps.map(restoreStep) };
    if (digest !== undefined) sharePrompts(digest.steps);
    const agent = digest?.agent ?? (room.isFull ? await peekAgent(source, run, key, options.store) : '');
    if (room.isClosed(agent)) {
      material.passed_over += 1;
      inARow += 1;
      options.tell?.(material.looked_at + material.passed_over, material.golden);
      if (material.passed_over % 64 === 0) {
        await options.pause?.();
        await nextTick();
      }
      continue;
    }
    if (digest === undefined) {
      digest = await digestRun(source, chains, run, words, options);
      material.read += 1;
      await options.store?.put(key, { ...digest, steps: digest.steps.map(storeStep) } satisfies StoredDigest);
    }
    material.looked_at += 1;
    const taught = addDigest(material, run, digest, options.wires ?? ['messages']);
    if (taught !== null) inARow = room.add(digest, taught) ? 0 : inARow + 1;
    else inARow += room.isFull ? 1 : 0;
    options.tell?.(material.looked_at + material.passed_over, material.golden);
    // Let timers and signals run.
    if (material.looked_at % 64 === 0) await nextTick();
  }
  material.taught = room.takeRuns();
  material.steps = material.taught.reduce((sum, { steps }) => sum + steps.length, 0);
  return material;
}

/** Whether a run began before a time. */
function isBefore(source: ExchangeSource, { first_id }: ChainedRun, since_ms: number | null): boolean {
  const record = since_ms === null ? undefined : source.exchange(first_id);
  return record !== undefined && Date.parse(record.started_at) < since_ms!;
}

/** The digest of a run that is a client's side call. */
const SIDE_CALL: RunDigest = {
  run_id: '',
  codes: ['side_call'],
  steps: [],
  agent: '',
  bytes: 0,
  untaught: {},
  patterns: [],
};

/** Steps and bytes in use. */
interface Taken {
  steps: number;
  bytes: number;
}

/** Maximum bytes of one run's unpacked steps. */
const PACKED_STEPS_BYTES = 512 * 1_048_576;

/** A golden run whose steps are packed. */
interface PackedRun extends Taken {
  run: Omit<GoldenRun, 'steps'>;
  packed: Uint8Array;
}

/** A step in serializable form: values from outside are JSON text, so that their numbers keep their digits. */
interface StoredStep extends Omit<GoldenStep, 'step' | 'answer'> {
  step: Omit<StepDigest, 'sources'> & { sources: string };
  answer: string;
}

/** A {@link RunDigest} in the form that a {@link DigestStore} keeps. */
export interface StoredDigest extends Omit<RunDigest, 'steps'> {
  steps: StoredStep[];
}

function storeStep({ step, answer, ...rest }: GoldenStep): StoredStep {
  return {
    ...rest,
    step: { ...step, sources: JSON.stringify(step.sources) },
    answer: JSON.stringify(answer),
  };
}

function restoreStep({ step, answer, ...rest }: StoredStep): GoldenStep {
  const sources = parseExact(step.sources) as StepDigest['sources'];
  return { ...rest, step: { ...step, sources }, answer: parseExact(answer) as AnswerDigest | null };
}

/**
 * Compresses steps. The result is copied to its exact size, because serializers and compressors return larger buffers.
 */
function packSteps(steps: readonly GoldenStep[]): Uint8Array {
  return new Uint8Array(compressZstd(serialize(steps.map(storeStep))));
}

function unpackSteps(packed: Uint8Array): GoldenStep[] {
  const bytes = decompressZstd(packed, { maxOutputLength: PACKED_STEPS_BYTES });
  return (deserialize(bytes) as StoredStep[]).map(restoreStep);
}

/** The runs kept for all agents together. */
class TeachingRoom {
  readonly #agents = new Map<string, Taken & { runs: PackedRun[] }>();
  /** Agents that have enough newer runs. */
  readonly #closed = new Set<string>();
  readonly #taken: Taken = { steps: 0, bytes: 0 };
  readonly #steps: number;
  readonly #bytes: number;

  constructor(room: number) {
    this.#steps = DISTILL_BOUNDS.steps * room;
    this.#bytes = DISTILL_BOUNDS.steps_bytes * room;
  }

  /** Whether an agent had to give up runs. */
  get isFull(): boolean {
    return this.#closed.size > 0;
  }

  isClosed(agent: string): boolean {
    return this.#closed.has(agent);
  }

  /**
   * Adds a run that is older than all runs added before.
   * @returns whether it is kept
   */
  add({ agent, bytes }: RunDigest, run: GoldenRun): boolean {
    const ofAgent = this.#agents.get(agent) ?? { runs: [], steps: 0, bytes: 0 };
    this.#agents.set(agent, ofAgent);
    const { steps, ...named } = run;
    const packed = { run: named, steps: steps.length, bytes, packed: packSteps(steps) };
    ofAgent.runs.push(packed);
    for (const taken of [ofAgent, this.#taken]) {
      taken.steps += steps.length;
      taken.bytes += bytes;
    }
    // A single run is always taught, however large it is.
    while (this.#shareOf(this.#taken) > 1 && (this.#agents.size > 1 || ofAgent.runs.length > 1))
      this.#giveUp(agent);
    return ofAgent.runs.at(-1) === packed;
  }

  /** All kept runs, the newest first; empties the room. */
  takeRuns(): GoldenRun[] {
    const packed = [...this.#agents.values()].flatMap(({ runs }) => runs);
    this.#agents.clear();
    packed.sort((a, b) => a.run.last_id - b.run.last_id);
    const runs: GoldenRun[] = [];
    for (let packedRun = packed.pop(); packedRun !== undefined; packedRun = packed.pop())
      runs.push({ ...packedRun.run, steps: unpackSteps(packedRun.packed) });
    return runs;
  }

  /** Removes the oldest run of the agent that uses most of the room; among equal agents, of `last`. */
  #giveUp(last: string): void {
    let most = this.#agents.has(last) ? last : '';
    for (const [agent, taken] of this.#agents) {
      const former = this.#agents.get(most);
      if (former === undefined || this.#shareOf(taken) > this.#shareOf(former)) most = agent;
    }
    const largest = this.#agents.get(most)!;
    const { steps, bytes } = largest.runs.pop()!;
    for (const taken of [largest, this.#taken]) {
      taken.steps -= steps;
      taken.bytes -= bytes;
    }
    this.#closed.add(most);
    if (largest.runs.length === 0) this.#agents.delete(most);
  }

  #shareOf({ steps, bytes }: Taken): number {
    return Math.max(steps / this.#steps, bytes / this.#bytes);
  }
}

/** Number of characters at the beginning of a system prompt by which `nameAgent` distinguishes agents. */
const PROMPT_CHARACTERS = 256;

/** Finds the agent of a run in the store, or from the run's first request. The rest of the run is not read. */
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

/** The agent of a run by its first request; '' when that is unreadable. */
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

/** Names an agent by model, tools and the beginning of the prompt, in which mostly numbers change from run to run. */
function nameAgent({ model, system, tools }: NormalRequest, origin: string): string {
  const prompt = textOf(system).slice(0, PROMPT_CHARACTERS).replace(/\d+/g, '0');
  const told = JSON.stringify([model, tools.map(({ name }) => name).sort(), prompt, origin]);
  return createHash('sha256').update(told).digest('base64url').slice(0, 16);
}

/**
 * Counts a run's digest, and makes a golden run of it.
 * @returns the run if it has something to teach, otherwise null
 */
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

/** Reads a run and collects what it teaches, or why it is not golden. */
async function digestRun(
  source: ExchangeSource,
  chains: RunChains,
  run: ChainedRun,
  words: RunWords,
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
  const turns = readAnsweredTurns(source, chains, run, words);
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
  digest.patterns = await readPatterns(story, digest.run_id, words, embed);
  return digest;
}

/** The position of a step in its run. */
interface StepPlace {
  seq: number | null;
  started_ms: number;
}

/**
 * Sorts steps by the time of their requests. Exchanges are numbered when they are written. If two answers arrive within
 * milliseconds on two threads, the later exchange may be written first.
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
  const said = readAnswerBytes(wire.name, copy.response_headers, copy.response_body);
  if (said !== null && readingsDiffer(turn.answer.content, said)) return leaveOut('reading_differs');
  const { step } = read;
  if (digest.agent === '') digest.agent = nameAgent(read.request, originOf(record));
  const answer = digestAnswer(turn.answer, wire.callable(read.body));
  const tokens = countTokens(record);
  digest.steps.push({ exchange_id: record.id, wire: wire.name, step, answer, tokens });
  // Steps of a run mostly have the same prompt, which is stored once.
  const { prompt, ...rest } = step;
  const before = digest.steps.at(-2)?.step.prompt;
  const storedPrompt =
    prompt === undefined || (before !== undefined && isSamePrompt(prompt, before)) ? [] : prompt;
  digest.bytes += JSON.stringify([rest, storedPrompt, answer]).length;
}

/** Makes each step share the prompt object of the previous step if the prompts are equal, as before the storage. */
function sharePrompts(steps: readonly GoldenStep[]): void {
  for (const [at, { step }] of steps.entries()) {
    const before = steps[at - 1]?.step.prompt;
    if (before !== undefined && step.prompt !== undefined && isSamePrompt(step.prompt, before))
      step.prompt = before;
  }
}

function readStep(copy: StoredExchange, record: ExchangeRecord): (ReadStep & { body: JsonObject }) | null {
  const wire = wireOf(copy.shape);
  const body = wire === null ? null : readBody(copy);
  if (wire === null || body === null) return null;
  const at_ms = Date.parse(record.started_at);
  const read = readWireStep(wire, body, copy.request_headers, originOf(record), at_ms);
  return read === null ? null : { ...read, body: asObject(body) };
}

/** The address at which a captured step arrived. */
export function originOf({
  shape,
  path,
  provider,
}: Pick<ExchangeRecord, 'shape' | 'path' | 'provider'>): string {
  const wire = wireOf(shape);
  return wire === null ? '' : nameOrigin(wire.name, path, provider);
}

/**
 * Decodes a request's body and parses its JSON.
 * @returns null for a body that cannot be decoded
 * @throws SyntaxError for a body that is not JSON
 */
function readBody(copy: StoredExchange): unknown {
  const { bytes, problem } = decodeContent(copy.request_body, copy.request_headers);
  return problem === '' ? parseExact(new TextDecoder().decode(bytes)) : null;
}

/** A turn's tokens, each counted once. Some wires count cached tokens as input, too. */
export function countTokens({ shape, usage }: Pick<ExchangeRecord, 'shape' | 'usage'>): number {
  const fresh = readFreshUsage(shape, usage);
  const { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens } = fresh;
  return (input_tokens ?? 0) + (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0) + (output_tokens ?? 0);
}

async function readPatterns(
  story: RunStory,
  runId: string,
  words: RunWords,
  embed: EmbedTexts,
): Promise<PatternDraft[]> {
  const outcome = words.mark === 'good' ? 'success' : (words.outcome ?? 'success');
  const candidates = findPatterns(story.finish(runId, outcome));
  const vectors = candidates.length < 2 ? null : await embed(candidates.map(({ situation }) => situation));
  return keepDistinct(candidates, vectors).map(toPattern);
}
