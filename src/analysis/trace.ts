/**
 * What `understudy trace` makes of a capture database: each run as one JSON line (`svc_trace_v1`, docs/traces.md), its
 * turns in normal form, with the proof that nothing is missing. Pure but for the source it reads from. Command line.
 *
 * Memory: one pass over the summaries chains the exchanges of each run (run-chains.ts); then a run is read exchange by
 * exchange, its records first, and its line comes out in pieces. Of what was said before, at most MAX_SEEN_HASHES
 * fingerprints stay in memory.
 */

import { createHash } from 'node:crypto';
import type { ChildKind } from '../domain/client-run.ts';
import { type GoldenReason, GoldenTally, hasFailed, judgeOutcome, type TurnLink } from '../domain/golden.ts';
import { type NormalTurn, type TurnBlock, type TurnMessage, textOf } from '../domain/turn.ts';
import { ATTACHMENT_BYTES_MIN, TRACE_BOUNDS } from '../limits.ts';
import type { DecodedTurn } from '../providers/decode.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';
import { MAX_SEEN_HASHES, readRun } from './inspect.ts';
import { type ChainedRun, type RunChains, readSummaries } from './run-chains.ts';
import { SourcePart } from './source-part.ts';

/** A run, and what a trace says of it before its turns. */
export interface TracedRun extends ChainedRun {
  run_id: string;
  /** As its client's headers say; null where they say nothing. */
  session_id: string | null;
  parent_run_id: string | null;
  kind: ChildKind | null;
  /** Of its first turn, else of its first exchange. */
  provider: string;
  /** The first that is known. */
  model: string | null;
  note: string;
  started_ms: number;
}

/** Reads a run's records. @returns null when they are not there any more */
export function describeRun(source: ExchangeSource, chains: RunChains, run: ChainedRun): TracedRun | null {
  let described: TracedRun | null = null;
  let hasTurn = false;
  for (const record of readSummaries(source, chains.idsOf(run))) {
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

/** What a trace needs besides the exchanges. */
export interface TraceOptions {
  /** Outcome of the finished monitor run of that id; null when there is none. */
  outcome: string | null;
  /** Whether the bytes with that SHA-256 are kept beside the database: then a trace names them instead. */
  hasFile(sha256: string): boolean;
}

/** How a run's line came out. */
export interface TraceEnd {
  golden: boolean;
  turns: number;
}

/**
 * Writes a run's line, in pieces: the head, each turn, the provenance and the line's end.
 * @returns whether it is golden and how many turns it has
 * @throws what the source throws
 */
export function* traceRun(
  source: ExchangeSource,
  chains: RunChains,
  run: TracedRun,
  options: TraceOptions,
): Generator<string, TraceEnd> {
  const teller = new RunTeller(options);
  let separator = '';
  let head = '';
  for (const step of readRun(new RunSource(source, chains, run), run.run_id)) {
    const { record, turn, link } = step;
    const normal = turn === null ? null : normalizeTurn(source.copy(record.id)!);
    teller.count(record, link, turn, normal);
    if (turn === null || normal === null || hasFailed(record)) continue;
    const told = teller.tell(record, turn, normal, step.follows === null);
    if (head === '') {
      head = writeHead(run, readTask(normal), options.outcome);
      yield head;
    }
    yield `${separator}${JSON.stringify(told)}`;
    separator = ',';
  }
  if (head === '') yield writeHead(run, '', options.outcome);
  const provenance = teller.judge(run);
  yield `],"provenance":${JSON.stringify(provenance)}}\n`;
  return { golden: provenance.supports_universal_claims, turns: teller.turns };
}

function writeHead(run: TracedRun, task: string, outcome: string | null): string {
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
  };
  return `${JSON.stringify(head).slice(0, -1)},"turns":[`;
}

/** What the run was about: the first words of the user. */
export function readTask(turn: NormalTurn): string {
  for (const { role, content } of turn.request.messages) {
    const text = role === 'user' ? textOf(content).trim() : '';
    if (text !== '') return text.slice(0, TRACE_BOUNDS.task);
  }
  return '';
}

/** One turn of a trace. */
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

interface Provenance {
  exchanges: number;
  first_seq: number | null;
  last_seq: number | null;
  gaps: [from: number, to: number][];
  complete: boolean;
  supports_universal_claims: boolean;
  reasons: GoldenReason[];
}

/** What says that something of the run is missing, apart from how it went. */
const MISSING = new Set([
  'aborted',
  'truncated',
  'undecodable',
  'seq_gap',
  'seq_missing',
  'seq_repeated',
  'unlinked',
]);

/** Tells a run turn by turn: what is new in each, and at the end what it proves. */
class RunTeller {
  readonly #options: TraceOptions;
  readonly #golden = new GoldenTally();
  /** Fingerprints of the conversation prefixes that earlier turns have told. */
  readonly #told = new Set<string>();
  #system = '';
  #tools = '';
  /** Tool calls of the answer before: what the next request's echo of it is compared with. */
  #calls: { id: string; name: string }[] = [];
  #firstSeq: number | null = null;
  #lastSeq: number | null = null;
  #lastTurnSeq: number | null = null;
  #lastCallsTools = false;
  #counted = 0;
  turns = 0;

  constructor(options: TraceOptions) {
    this.#options = options;
  }

  /** Every exchange of the run, failed ones too. */
  count(
    record: ListedExchange,
    link: TurnLink | null,
    turn: DecodedTurn | null,
    normal: NormalTurn | null,
  ): void {
    const { seq } = record;
    this.#counted += 1;
    this.#golden.add(record, link, turn?.conversation ?? null);
    if (seq !== null) {
      this.#firstSeq = Math.min(this.#firstSeq ?? seq, seq);
      this.#lastSeq = Math.max(this.#lastSeq ?? seq, seq);
    }
    if (record.kind !== 'turn' || (seq !== null && seq < (this.#lastTurnSeq ?? 0))) return;
    this.#lastTurnSeq = seq;
    this.#lastCallsTools = normal?.answer.content.some(({ type }) => type === 'tool_call') ?? false;
  }

  /**
   * An answered turn.
   * @param isStart it starts a conversation, which is told whole though another began with the same words
   */
  tell(record: ListedExchange, turn: DecodedTurn, normal: NormalTurn, isStart: boolean): ToldTurn {
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
    const { reasons } = this.#golden.judge(this.#lastCallsTools);
    const against = judgeOutcome(this.#options.outcome);
    if (against !== null) reasons.push(against);
    const unread = run.exchanges - this.#counted;
    if (unread > 0) reasons.push({ code: 'undecodable', words: `${unread} of its exchanges cannot be read` });
    return {
      exchanges: run.exchanges,
      first_seq: this.#firstSeq,
      last_seq: this.#lastSeq,
      gaps: this.#golden.gaps(),
      complete: !reasons.some(({ code }) => MISSING.has(code)),
      supports_universal_claims: reasons.length === 0,
      reasons,
    };
  }

  /** Where the messages begin that no earlier turn of this trace has told, answers included. */
  #findNew({ conversation, request }: DecodedTurn, messages: number): number {
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
   * Clients make up ids for calls that came without one (older Gemini models) or give them others: the results in the
   * added messages get the ids that the calls have in this trace.
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

  /** The blocks, with the SHA-256 of what is kept beside the database in place of its bytes. */
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

  override *exchanges(): ReturnType<ExchangeSource['exchanges']> {
    for (const id of this.#chains.idsOf(this.#run)) {
      const record = this.exchange(id);
      if (record !== undefined) yield record;
    }
  }

  summaries(): Iterable<ListedExchange> {
    return this.exchanges();
  }
}
