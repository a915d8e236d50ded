/**
 * The content of `understudy trace`: each run of a capture database as one JSON line (`svc_trace_v1`, docs/traces.md).
 * A line has the run's turns in normal form, and proof that nothing is missing. Pure except for its source. Command
 * line.
 *
 * Memory: one pass over the summaries chains the exchanges of each run (run-chains.ts); then a run is read exchange by
 * exchange, its records first, and its line is written in pieces. At most MAX_SEEN_HASHES fingerprints of earlier
 * content stay in memory.
 */

import { createHash } from 'node:crypto';
import type { ChildKind } from '../domain/child-kind.ts';
import { stripClientWords } from '../domain/client-words.ts';
import type { EndCause } from '../domain/end-cause.ts';
import { type GoldenReason, hasFailed } from '../domain/golden.ts';
import { type RunWords, weighWords } from '../domain/run-mark.ts';
import { inRunOrder } from '../domain/run-order.ts';
import { RUN_IDLE_MS } from '../domain/run-status.ts';
import { TRACE_BOUNDS } from '../domain/trace.ts';
import { type NormalTurn, type TurnBlock, type TurnMessage, textOf } from '../domain/turn.ts';
import { ATTACHMENT_BYTES_MIN } from '../limits.ts';
import type { ReadTurn } from '../providers/normal-turn.ts';
import { countOf } from '../std/count-of.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';
import { MAX_SEEN_HASHES, type RunStep, readRun } from './inspect.ts';
import { type ChainedRun, type RunChains, readSummaries } from './run-chains.ts';
import { RunJudge } from './run-judge.ts';
import { SourcePart } from './source-part.ts';

/** A run with the fields that precede its turns in a trace. */
export interface TracedRun extends ChainedRun {
  run_id: string;
  /** From the client's headers; null when they name no session. */
  session_id: string | null;
  parent_run_id: string | null;
  kind: ChildKind | null;
  /** Provider of the run's first turn; without turns, of its first exchange. */
  provider: string;
  /** The first known model of the run. */
  model: string | null;
  note: string;
  started_ms: number;
}

/**
 * Reads the fields that precede the turns of a run from the run's records.
 * @returns null when the records no longer exist
 */
export function describeRun(source: ExchangeSource, chains: RunChains, run: ChainedRun): TracedRun | null {
  let described: TracedRun | null = null;
  let hasTurn = false;
  for (const record of inRunOrder(readSummaries(source, chains.idsOf(run)))) {
    const startedMs = Date.parse(record.started_at);
    described ??= {
      ...run,
      run_id: record.run_id ?? '',
      session_id: record.session_id ?? null,
      parent_run_id: record.parent_run_id ?? null,
      kind: record.run_kind ?? null,
      provider: record.provider,
      model: record.model,
      note: record.note,
      started_ms: startedMs,
    };
    described.started_ms = Math.min(described.started_ms, startedMs);
    if (described.note === '') described.note = record.note;
    if (record.kind !== 'turn') continue;
    if (!hasTurn) described.provider = record.provider;
    hasTurn = true;
    described.model ??= record.model;
  }
  return described;
}

/** What a trace needs in addition to the exchanges. */
export interface TraceOptions {
  /** External statements about the run. */
  words: RunWords;
  /** Whether bytes with that SHA-256 are kept beside the database. A trace refers to such bytes. */
  hasFile(sha256: string): boolean;
}

/** The result of writing a run's line. */
interface TraceEnd {
  golden: boolean;
  turns: number;
}

/**
 * Writes a run's line in pieces: the head, each turn that did not fail, the provenance and the line's end.
 * @returns whether the run is golden, and its number of turns
 * @throws what the source throws
 */
export function* traceRun(
  source: ExchangeSource,
  chains: RunChains,
  run: TracedRun,
  options: TraceOptions,
): Generator<string, TraceEnd> {
  const teller = new RunTeller(options, chains);
  let separator = '';
  let head = '';
  for (const step of readRun(new RunSource(source, chains, run), run.run_id)) {
    const { record, turn } = step;
    const normal = turn?.is_turn === true ? turn : null;
    teller.count(step);
    if (turn === null || normal === null || hasFailed(record)) continue;
    const told = teller.tell(record, turn, normal, step.follows === null);
    if (head === '') {
      head = writeHead(run, readTask(normal), options.words);
      yield head;
    }
    yield `${separator}${JSON.stringify(told)}`;
    separator = ',';
  }
  if (head === '') yield writeHead(run, '', options.words);
  const provenance = teller.judge(run);
  yield `],"provenance":${JSON.stringify(provenance)}}\n`;
  return { golden: provenance.supports_universal_claims, turns: teller.turns };
}

function writeHead(run: TracedRun, task: string, { outcome, mark }: RunWords): string {
  const head = {
    format: 'svc_trace_v1',
    run_id: run.run_id,
    session_id: run.session_id,
    parent_run_id: run.parent_run_id,
    kind: run.kind,
    provider: run.provider,
    model: run.model,
    task,
    note: run.note,
    started_at: new Date(run.started_ms).toISOString(),
    finished_at: new Date(Math.round(run.finished_ms)).toISOString(),
    outcome,
    mark,
  };
  return `${JSON.stringify(head).slice(0, -1)},"turns":[`;
}

/** The subject of the run: the user's first words, without text that the client adds. */
export function readTask(turn: NormalTurn): string {
  for (const { role, content } of turn.request.messages) {
    const text = role === 'user' ? stripClientWords(textOf(content)) : '';
    if (text !== '') return text.slice(0, TRACE_BOUNDS.task);
  }
  return '';
}

/** One turn of a trace. `system` and `tools` are null if they are the same as in the turn before. */
interface ToldTurn {
  seq: number | null;
  exchange_id: number;
  system: TurnBlock[] | null;
  messages_added: TurnMessage[];
  tools: NormalTurn['request']['tools'] | null;
  content: TurnBlock[];
  stop_reason: NormalTurn['answer']['stop_reason'];
  usage: NormalTurn['answer']['usage'];
  latency_ms: number;
  served_by: ListedExchange['served_by'];
}

/** The proof at the end of a trace. */
interface Provenance {
  exchanges: number;
  first_seq: number | null;
  last_seq: number | null;
  gaps: [from: number, to: number][];
  /** Whether nothing of the run is missing (MISSING). */
  complete: boolean;
  /** Whether the run is golden. */
  supports_universal_claims: boolean;
  reasons: GoldenReason[];
  /** The first TOLD_ENDS failed exchanges: who ended them, and why; absent: no exchange failed. */
  ended?: { exchange_id: number; end_cause: EndCause }[];
}

/** Maximum number of failed exchanges that a trace lists. */
const TOLD_ENDS = 64;

/** Codes for what is missing in the run. Other codes say how the run went. */
const MISSING = new Set([
  'aborted',
  'truncated',
  'undecodable',
  'not_indexed',
  'seq_gap',
  'seq_missing',
  'seq_repeated',
  'unlinked',
]);

/** Writes a run turn by turn: the new part of each turn, and the proof at the end. */
class RunTeller {
  readonly #options: TraceOptions;
  readonly #chains: Pick<RunChains, 'not_indexed' | 'not_indexed_from_ms'>;
  readonly #judge = new RunJudge();
  /** Fingerprints of the conversation prefixes that earlier turns have written. */
  readonly #told = new Set<string>();
  #system = '';
  #tools = '';
  /** Tool calls of the previous answer; the next request's echo of the answer is compared with them. */
  #calls: { id: string; name: string }[] = [];
  #firstSeq: number | null = null;
  #lastSeq: number | null = null;
  readonly #ended: NonNullable<Provenance['ended']> = [];
  #counted = 0;
  turns = 0;

  constructor(options: TraceOptions, chains: Pick<RunChains, 'not_indexed' | 'not_indexed_from_ms'>) {
    this.#options = options;
    this.#chains = chains;
  }

  /** Counts every exchange of the run, including failed exchanges. */
  count(step: RunStep): void {
    const { id: exchange_id, seq, end_cause } = step.record;
    this.#counted += 1;
    if (end_cause !== undefined && this.#ended.length < TOLD_ENDS)
      this.#ended.push({ exchange_id, end_cause });
    this.#judge.add(step);
    if (seq === null) return;
    this.#firstSeq = Math.min(this.#firstSeq ?? seq, seq);
    this.#lastSeq = Math.max(this.#lastSeq ?? seq, seq);
  }

  /**
   * Writes an answered turn.
   * @param isStart whether the turn starts a conversation, which is written whole even if another one began with the
   * same words
   */
  tell(record: ListedExchange, turn: ReadTurn, normal: NormalTurn, isStart: boolean): ToldTurn {
    this.turns += 1;
    const { request, answer } = normal;
    const told = this.#findNew(turn, request.messages.length);
    const from = isStart ? 0 : told;
    const added = request.messages.slice(from);
    this.#renameCalls(request.messages[from - 1], added);
    this.#calls = answer.content.flatMap((block) => (block.type === 'tool_call' ? [block] : []));
    const system = JSON.stringify(request.system);
    const tools = JSON.stringify(request.tools);
    const line: ToldTurn = {
      seq: record.seq,
      exchange_id: record.id,
      system: this.turns > 1 && system === this.#system ? null : this.#keepApart(request.system),
      messages_added: added.map(({ role, content }) => ({ role, content: this.#keepApart(content) })),
      tools: this.turns > 1 && tools === this.#tools ? null : request.tools,
      content: this.#keepApart(answer.content),
      stop_reason: answer.stop_reason,
      usage: answer.usage,
      latency_ms: record.duration_ms,
      served_by: record.served_by,
    };
    this.#system = system;
    this.#tools = tools;
    return line;
  }

  judge(run: TracedRun): Provenance {
    const { reasons } = weighWords(this.#judge.judge(), this.#options.words);
    const unread = run.exchanges - this.#counted;
    if (unread > 0) reasons.push({ code: 'undecodable', words: `${unread} of its exchanges cannot be read` });
    const { not_indexed, not_indexed_from_ms } = this.#chains;
    // A run that was idle for so long before is taken for ended.
    if (not_indexed_from_ms - run.finished_ms < RUN_IDLE_MS) {
      const words = `it may have more exchanges: ${countOf(not_indexed, 'stored exchange')} not indexed yet`;
      reasons.push({ code: 'not_indexed', words });
    }
    return {
      exchanges: run.exchanges,
      first_seq: this.#firstSeq,
      last_seq: this.#lastSeq,
      gaps: this.#judge.gaps(),
      complete: !reasons.some(({ code }) => MISSING.has(code)),
      supports_universal_claims: reasons.length === 0,
      reasons,
      ...(this.#ended.length === 0 ? {} : { ended: this.#ended }),
    };
  }

  /** Index of the first message that no earlier turn of this trace has written, including answers. */
  #findNew({ conversation, request }: ReadTurn, messages: number): number {
    const { prefixes, answered } = conversation;
    const links = Math.max(0, prefixes.length - request.messages.length);
    let from = 0;
    for (let i = prefixes.length - 1; i >= links && from === 0; i -= 1) {
      if (this.#told.has(prefixes[i]!)) from = i - links + 1;
    }
    for (const hash of answered === null ? prefixes : [...prefixes, answered]) {
      if (this.#told.size < MAX_SEEN_HASHES) this.#told.add(hash);
    }
    return Math.min(from, messages);
  }

  /**
   * Gives results in the added messages the ids that their calls have in this trace. Clients invent ids for calls
   * without an id (older Gemini models), or change ids.
   */
  #renameCalls(echo: TurnMessage | undefined, added: readonly TurnMessage[]): void {
    const echoed = (echo?.content ?? []).flatMap((block) => (block.type === 'tool_call' ? [block] : []));
    if (echoed.length === 0 || echoed.length !== this.#calls.length) return;
    const renamed = new Map<string, string>();
    for (const [i, { id, name }] of echoed.entries()) {
      const call = this.#calls[i]!;
      if (call.name !== name) return;
      if (call.id !== id) renamed.set(id, call.id);
    }
    for (const { content } of renamed.size === 0 ? [] : added) {
      for (const block of content) {
        if (block.type !== 'tool_result' || block.call_id === null) continue;
        block.call_id = renamed.get(block.call_id) ?? block.call_id;
      }
    }
  }

  /** Replaces bytes that are kept beside the database by their SHA-256. */
  #keepApart(blocks: readonly TurnBlock[]): TurnBlock[] {
    return blocks.map((block) => {
      if (block.type === 'tool_result') return { ...block, content: this.#keepApart(block.content) };
      if (block.type !== 'media' || block.source !== 'base64') return block;
      if (block.data.length < ATTACHMENT_BYTES_MIN) return block;
      const bytes = Buffer.from(block.data, 'base64');
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      return this.#options.hasFile(sha256) ? { ...block, source: 'file', data: sha256 } : block;
    });
  }
}

/** One run of a source, whose exchanges are known already. */
export class RunSource extends SourcePart {
  readonly #chains: RunChains;
  readonly #run: ChainedRun;

  constructor(whole: ExchangeSource, chains: RunChains, run: ChainedRun) {
    super(whole);
    this.#chains = chains;
    this.#run = run;
  }

  summaries(): Iterable<ListedExchange> {
    return readSummaries(this.whole, this.#chains.idsOf(this.#run));
  }
}
