/**
 * The findings index of one code base: finds findings by id, by path, and by their similarity to a question. The rows
 * in the tables are authoritative. The actor reads them at its first message, and again after another box has changed
 * them, after a failed write, and for another embedder. It changes its state only after a write has succeeded.
 * Concurrent stores share one sync of the disk. Every other operation that writes or reads rows waits until it can run
 * alone. A question waits only if the rows must be read first. Actor thread.
 */

import type { AuditEntry } from '../../src/domain/account.ts';
import {
  type Codebase,
  type Finding,
  type FindingFilter,
  matchesFilter,
  PathCover,
  scoreOf,
} from '../../src/domain/finding.ts';
import type { FindingPlace, IndexedRow } from '../../src/domain/finding-rows.ts';
import type { Behaviour, Context, Outcome, Refusal, ReplyToken } from '../../src/runtime/protocol.ts';
import type { AcceptId, VectorIndex } from '../../src/search/vector-index.ts';
import type { NewVector } from '../../src/storage/ports/finding-index.ts';
import { FINDINGS_ADAPTER, type LoadedFindings, type StoredFinding } from './adapter.ts';
import {
  type EmbedderFacts,
  FINDINGS_INDEX_KIND,
  FINDINGS_PER_CODEBASE,
  type FindingsIndexProtocol,
  unpackVector,
} from './protocol.ts';

interface Entry
  extends Pick<Finding, 'finding_id' | 'project_id' | 'file_path' | 'finding_type' | 'created_at'> {
  seq: number;
  hash: string;
}

interface Index {
  /** The `store` operations in progress by hash, with the callers that wait for each. */
  storing: Map<string, ReplyToken[]>;
  /** Whether an operation that must run alone is in progress. */
  is_exclusive: boolean;
  /** Messages that wait for other operations, in the order of arrival; bounded by the number of open replies. */
  waiting: Waiting[];
  /**
   * The embedder of the indexed vectors; null before the first reading, or after a failed write, when the rows must be
   * read again.
   */
  embedder: EmbedderFacts | null;
  /** Whether another box has changed rows since the last reading began. */
  is_stale: boolean;
  next_seq: number;
  entries: Map<number, Entry>;
  by_hash: Map<string, Entry>;
  vectors: VectorIndex | null;
  /** Findings without a vector of the embedder. */
  unembedded: Set<number>;
  /**
   * All findings, the longest unused first. Storing, recalling or reading a finding by its id counts as use. After a
   * start, the order is that of storing.
   */
  by_use: Set<number>;
  /** Findings that a store in progress removes, to make room. */
  evicting: Set<number>;
  /** Covered paths by project, and of all projects under null; computed on demand and dropped with every change. */
  covers: Map<string | null, PathCover>;
}

/** The messages that need the rows. */
type MessageName = Exclude<keyof FindingsIndexProtocol, 'stale'>;

/** A message that waits for the rows. */
interface Waiting {
  token: ReplyToken;
  name: MessageName;
  request: FindingsIndexProtocol[MessageName]['request'];
}

interface IndexInternal {
  loaded: Outcome<unknown, Waiting>;
  stored: Outcome<unknown, { entry: Entry; vector: Uint8Array | null; evicted: readonly number[] }>;
  removed: Outcome<unknown, { token: ReplyToken; seqs: readonly number[] }>;
  vectors_stored: Outcome<unknown, { token: ReplyToken; vectors: readonly NewVector[] }>;
  /** Builds the next slice of the graph after a recall. */
  tend: null;
}

type IndexContext = Pick<
  Context<Index, never, IndexInternal, never>,
  'io' | 'replyTo' | 'refuseTo' | 'setTimer' | 'count'
>;

/** Handles each message once the rows have been read. Answers through the message's token. */
type Work = {
  [N in MessageName]: (
    index: Index,
    request: FindingsIndexProtocol[N]['request'],
    context: IndexContext,
    token: ReplyToken,
  ) => void;
};

/** Messages that change stored findings, except `store`. They wait until nothing else is being written. */
const EXCLUSIVE: ReadonlySet<MessageName> = new Set(['invalidate', 'clear', 'delete', 'expire', 'embedded']);

/**
 * Maximum time of a slice of building the graph. After a recall, the graph is built in slices until it contains every
 * vector. Without recalls, no graph is built.
 */
const TEND_BUDGET_MS = 5;
/** Pause between two slices, for other work of the thread. */
const TEND_PAUSE_MS = 10;

const WORK: Work = {
  store(index, { codebase, finding, hash, embedder, vector }, context, token) {
    const known = index.by_hash.get(hash);
    if (known !== undefined) {
      const { finding_id, created_at } = known;
      context.replyTo(token, { finding_id, created_at, unembedded: index.unembedded.size });
      return;
    }
    const same = index.storing.get(hash);
    if (same !== undefined) {
      same.push(token);
      return;
    }
    const evicted = chooseEvicted(index);
    const { finding_id, project_id, file_path, finding_type, created_at } = finding;
    const seq = index.next_seq++;
    index.storing.set(hash, [token]);
    const entry: Entry = { seq, finding_id, project_id, file_path, finding_type, created_at, hash };
    const { seq: _, ...facts } = entry;
    const indexed: IndexedRow = {
      ...facts,
      embedder_id: vector === null ? null : embedder.id,
      vector: vector ?? new Uint8Array(0),
    };
    const input = { codebase, seq, finding, indexed, evicted };
    context.io(FINDINGS_ADAPTER, 'store', input, 'stored', { entry, vector, evicted });
  },

  recall(index, { vector, top_k, score_threshold, ...request }, context, token) {
    const matches = index.vectors!.search(
      unpackVector(vector),
      top_k,
      filterOf(index, request),
      score_threshold,
    );
    const hits = matches.map(({ id, similarity }) => ({
      seq: id,
      finding_id: index.entries.get(id)!.finding_id,
      score: scoreOf(similarity),
    }));
    for (const { seq } of hits) use(index, seq);
    context.replyTo(token, { hits, unembedded: index.unembedded.size });
    // Runs after the answer has been sent.
    if (index.vectors!.unlinked > 0) context.setTimer('tend', 0, 'tend', null);
  },

  find(index, { finding_id, ...scope }, context, token) {
    for (const entry of index.entries.values()) {
      if (entry.finding_id !== finding_id) continue;
      const isSeen = isInScope(entry, scope);
      if (isSeen) use(index, entry.seq);
      context.replyTo(token, { place: isSeen ? placeOf(entry) : null });
      return;
    }
    context.replyTo(token, { place: null });
  },

  list(index, { limit, offset, before_seq, from, to, ...request }, context, token) {
    // Concurrent stores may have finished in a different order than their sequence numbers.
    const matching = [...index.entries.values()]
      .filter(
        (entry) =>
          isInScope(entry, request) &&
          matchesFilter(entry, request) &&
          (from === null || entry.created_at >= from) &&
          (to === null || entry.created_at < to),
      )
      .sort((a, b) => a.seq - b.seq);
    const before =
      before_seq === null
        ? matching.length
        : matching.reduce((count, { seq }) => count + Number(seq < before_seq), 0);
    const end = Math.max(0, before - offset);
    const places = matching
      .slice(Math.max(0, end - limit), end)
      .reverse()
      .map(placeOf);
    context.replyTo(token, { places, total: matching.length, is_last: end <= limit });
  },

  invalidate(index, { file_paths, ...request }, context, token) {
    const paths = new Set(file_paths);
    const isMeant = (entry: Entry) => isInScope(entry, request) && paths.has(entry.file_path);
    remove(index, isMeant, request, context, token);
  },

  coverage(index, { file_paths, ...scope }, context, token) {
    // If findings are hidden, the result is not cached, because findings are hidden only for a short time.
    const isUsual = scope.hidden === undefined;
    let cover = isUsual ? index.covers.get(scope.project_id) : undefined;
    if (cover === undefined) {
      const entries = [...index.entries.values()].filter((entry) => isInScope(entry, scope));
      cover = new PathCover(entries.map((entry) => entry.file_path));
      if (isUsual) index.covers.set(scope.project_id, cover);
    }
    context.replyTo(token, { coverage: cover.coverage(file_paths) });
  },

  clear(index, request, context, token) {
    remove(index, (entry) => isInScope(entry, request), request, context, token);
  },

  delete(index, { finding_id, ...request }, context, token) {
    const isMeant = (entry: Entry) => isInScope(entry, request) && entry.finding_id === finding_id;
    remove(index, isMeant, request, context, token);
  },

  expire(index, { before, limit, ...request }, context, token) {
    let left = limit;
    const isMeant = (entry: Entry) => isInScope(entry, request) && entry.created_at < before && left-- > 0;
    remove(index, isMeant, request, context, token);
  },

  unembedded(index, { limit }, context, token) {
    const places: FindingPlace[] = [];
    for (const seq of index.unembedded) {
      if (places.length >= limit) break;
      places.push(placeOf(index.entries.get(seq)!));
    }
    context.replyTo(token, { places, left: index.unembedded.size });
  },

  embedded(index, { codebase, embedder, vectors: given }, context, token) {
    const vectors = given.filter(
      ({ seq, finding_id }) => index.unembedded.has(seq) && index.entries.get(seq)?.finding_id === finding_id,
    );
    if (vectors.length === 0 && index.unembedded.size > 0) {
      context.replyTo(token, { left: index.unembedded.size });
      return;
    }
    index.is_exclusive = true;
    const is_last = index.unembedded.size === new Set(vectors.map(({ seq }) => seq)).size;
    const input = { codebase, embedder_id: embedder.id, vectors, is_last };
    context.io(FINDINGS_ADAPTER, 'embed', input, 'vectors_stored', { token, vectors });
  },
};

/**
 * Handles the message now, or begins to read the rows that it needs.
 * @returns false if other work must end first
 */
function attempt(index: Index, waiting: Waiting, context: IndexContext): boolean {
  const { token, name, request } = waiting;
  const isLoaded = !index.is_stale && index.embedder?.id === request.embedder.id;
  const isAlone = !index.is_exclusive && index.storing.size === 0;
  if (!isLoaded) {
    if (!isAlone) return false;
    index.is_exclusive = true;
    index.is_stale = false;
    context.io(FINDINGS_ADAPTER, 'load', request.codebase, 'loaded', waiting);
    return true;
  }
  if (EXCLUSIVE.has(name) ? !isAlone : name === 'store' && index.is_exclusive) return false;
  (WORK[name] as Work[MessageName])(index, request as never, context, token);
  return true;
}

/** Handles the messages that waited for an operation. Called when the operation has ended. */
function goOn(index: Index, context: IndexContext): void {
  while (index.waiting.length > 0 && attempt(index, index.waiting[0]!, context)) index.waiting.shift();
}

/** Handles a new message, or queues it. */
function begin<N extends MessageName>(
  name: N,
  index: Index,
  request: FindingsIndexProtocol[N]['request'],
  context: Context<Index, never, IndexInternal, FindingsIndexProtocol[N]['reply']>,
): void {
  const message: Waiting = { token: context.holdReply(), name, request };
  // A write must not be handled before messages that wait; other messages may.
  const mayOvertake = index.waiting.length === 0 || !(EXCLUSIVE.has(name) || name === 'store');
  if (!mayOvertake || !attempt(index, message, context)) index.waiting.push(message);
}

/** Continues operations when storage has answered. */
function outcomeHandlers(
  makeIndex: (dimensions: number) => VectorIndex,
): Behaviour<FindingsIndexProtocol, Index, never, IndexInternal>['internal'] {
  return {
    loaded(index, { carry: waiting, ...outcome }, context) {
      index.is_exclusive = false;
      if (outcome.ok) {
        fill(index, outcome.value as LoadedFindings, waiting.request.embedder, makeIndex);
        // This message is answered from the rows read after it arrived, even if they are stale. Otherwise it would
        // never be answered while other boxes write constantly.
        const isStale = index.is_stale;
        index.is_stale = false;
        if (!attempt(index, waiting, context)) index.waiting.unshift(waiting);
        index.is_stale ||= isStale;
      } else {
        context.refuseTo(waiting.token, outcome.error);
      }
      goOn(index, context);
    },

    stored(index, { carry: { entry, vector, evicted }, ...outcome }, context) {
      const tokens = index.storing.get(entry.hash) ?? [];
      index.storing.delete(entry.hash);
      for (const seq of evicted) index.evicting.delete(seq);
      if (outcome.ok) {
        for (const seq of evicted) drop(index, seq);
        if (evicted.length > 0) context.count('findings_evicted', '', evicted.length);
        const { seq } = outcome.value as StoredFinding;
        index.next_seq = Math.max(index.next_seq, seq + 1);
        add(index, { ...entry, seq }, vector);
        const { finding_id, created_at } = entry;
        const reply = { finding_id, created_at, unembedded: index.unembedded.size };
        for (const token of tokens) context.replyTo(token, reply);
      } else {
        for (const token of tokens) giveUp(index, context, token, outcome.error);
      }
      goOn(index, context);
    },

    removed(index, { carry: { token, seqs }, ...outcome }, context) {
      index.is_exclusive = false;
      if (outcome.ok) {
        for (const seq of seqs) drop(index, seq);
        context.replyTo(token, { deleted: seqs.length });
      } else {
        giveUp(index, context, token, outcome.error);
      }
      goOn(index, context);
    },

    tend(index, _message, context) {
      if (index.vectors?.tend(TEND_BUDGET_MS)) context.setTimer('tend', TEND_PAUSE_MS, 'tend', null);
    },

    vectors_stored(index, { carry: { token, vectors }, ...outcome }, context) {
      index.is_exclusive = false;
      if (outcome.ok) {
        for (const { seq, vector } of vectors) {
          index.vectors!.add(seq, unpackVector(vector));
          index.unembedded.delete(seq);
        }
        context.replyTo(token, { left: index.unembedded.size });
      } else {
        giveUp(index, context, token, outcome.error);
      }
      goOn(index, context);
    },
  };
}

/** Makes the behaviour of the findings index. @param makeIndex creates an index for vectors with this many dimensions */
export function findingsIndex(
  makeIndex: (dimensions: number) => VectorIndex,
): Behaviour<FindingsIndexProtocol, Index, never, IndexInternal> {
  return {
    kind: FINDINGS_INDEX_KIND,
    initial: emptyIndex,

    handlers: {
      store: (index, request, context) => begin('store', index, request, context),
      recall: (index, request, context) => begin('recall', index, request, context),
      find: (index, request, context) => begin('find', index, request, context),
      list: (index, request, context) => begin('list', index, request, context),
      invalidate: (index, request, context) => begin('invalidate', index, request, context),
      coverage: (index, request, context) => begin('coverage', index, request, context),
      clear: (index, request, context) => begin('clear', index, request, context),
      unembedded: (index, request, context) => begin('unembedded', index, request, context),
      delete: (index, request, context) => begin('delete', index, request, context),
      expire: (index, request, context) => begin('expire', index, request, context),
      embedded: (index, request, context) => begin('embedded', index, request, context),
      stale(index, _request, context) {
        index.is_stale = true;
        context.reply(null);
      },
    },

    internal: outcomeHandlers(makeIndex),
  };
}

function emptyIndex(): Index {
  return {
    storing: new Map(),
    is_exclusive: false,
    waiting: [],
    evicting: new Set(),
    is_stale: false,
    ...emptyContents(),
  };
}

/** Makes the fields that are read from the rows, empty. */
function emptyContents(): Omit<Index, 'storing' | 'is_exclusive' | 'waiting' | 'evicting' | 'is_stale'> {
  return {
    embedder: null,
    next_seq: 0,
    entries: new Map(),
    by_hash: new Map(),
    vectors: null,
    unembedded: new Set(),
    by_use: new Set(),
    covers: new Map(),
  };
}

/** Chooses the findings to remove so that another one fits: the least recently used ones. */
function chooseEvicted(index: Index): number[] {
  const evicted: number[] = [];
  let excess = index.entries.size - index.evicting.size + index.storing.size + 1 - FINDINGS_PER_CODEBASE;
  if (excess <= 0) return evicted;
  for (const seq of index.by_use) {
    if (index.evicting.has(seq)) continue;
    index.evicting.add(seq);
    evicted.push(seq);
    if (--excess === 0) break;
  }
  return evicted;
}

function use(index: Index, seq: number): void {
  index.by_use.delete(seq);
  index.by_use.add(seq);
}

/** Makes the function that accepts the findings which a request may see; undefined: all findings. */
function filterOf(
  index: Index,
  request: FindingFilter & { project_id: string | null; hidden?: readonly string[] },
): AcceptId | undefined {
  const { project_id, hidden, file_path, finding_type } = request;
  if (project_id === null && hidden === undefined && file_path === null && finding_type === null)
    return undefined;
  return (seq) => {
    const entry = index.entries.get(seq);
    return entry !== undefined && isInScope(entry, request) && matchesFilter(entry, request);
  };
}

/** Replaces the index's state with the content of the rows. */
function fill(
  index: Index,
  { next_seq, rows }: LoadedFindings,
  embedder: EmbedderFacts,
  makeIndex: (dimensions: number) => VectorIndex,
): void {
  Object.assign(index, emptyContents(), { embedder, next_seq, vectors: makeIndex(embedder.dimensions) });
  for (const { embedder_id, vector, ...entry } of rows) {
    const isOurs = embedder_id === embedder.id && vector.length === embedder.dimensions * 4;
    add(index, entry, isOurs ? vector : null);
  }
}

function add(index: Index, entry: Entry, vector: Uint8Array | null): void {
  index.entries.set(entry.seq, entry);
  index.by_use.add(entry.seq);
  index.by_hash.set(entry.hash, entry);
  if (vector === null) index.unembedded.add(entry.seq);
  else index.vectors!.add(entry.seq, unpackVector(vector));
  index.covers.clear();
}

function drop(index: Index, seq: number): void {
  const entry = index.entries.get(seq);
  if (entry === undefined) return;
  const { hash } = entry;
  index.entries.delete(seq);
  index.by_use.delete(seq);
  index.by_hash.delete(hash);
  index.unembedded.delete(seq);
  index.vectors!.remove(seq);
  index.covers.clear();
}

function remove(
  index: Index,
  isMeant: (entry: Entry) => boolean,
  { codebase, audit }: { codebase: Codebase; audit: AuditEntry | null },
  context: IndexContext,
  token: ReplyToken,
): void {
  const seqs: number[] = [];
  for (const entry of index.entries.values()) if (isMeant(entry)) seqs.push(entry.seq);
  if (seqs.length === 0) {
    context.replyTo(token, { deleted: 0 });
    return;
  }
  index.is_exclusive = true;
  const deleted = seqs.length;
  const told = audit === null ? null : { ...audit, after: { deleted, ...audit.after } };
  context.io(FINDINGS_ADAPTER, 'remove', { codebase, seqs, audit: told }, 'removed', { token, seqs });
}

/** Handles a failed write. Its effect is unknown, so the next message reads the rows again. */
function giveUp(index: Index, context: IndexContext, token: ReplyToken, error: Refusal): void {
  index.embedder = null;
  context.refuseTo(token, error);
}

function isInScope(
  entry: Entry,
  { project_id, hidden }: { project_id: string | null; hidden?: readonly string[] },
): boolean {
  if (project_id !== null && entry.project_id !== project_id) return false;
  return hidden === undefined || !hidden.includes(entry.project_id);
}

function placeOf({ seq, finding_id }: Entry): FindingPlace {
  return { seq, finding_id };
}
