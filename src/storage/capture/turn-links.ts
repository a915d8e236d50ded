/**
 * Links each turn to the earlier turn that it continues, which determines its run. Runs in the capture process, and on
 * the command line in commands that rewrite a capture file.
 * Grouping. A turn without `x-svc-run` belongs to the run that its client's own headers name
 * (src/domain/client-run.ts). Without such headers, it belongs to the run of the earlier turn whose conversation it
 * continues. The evidence that a turn continues another one, strongest first:
 *   1. the longest prefix of the turn's conversation that includes its last answer, and equals an earlier request, with
 *      or without the answer to that request;
 *   2. the turn's last answer alone: the client has rewritten or dropped the earlier messages;
 *   3. the longest shorter prefix that equals an earlier request, with or without the answer to that request (the
 *      client has changed a later answer).
 * A request that repeats an earlier request continues the earlier one if the earlier one failed and was not retried
 * yet. Otherwise only shorter prefixes count as evidence. Without any evidence, the request starts a run. So a first
 * message that is sent again starts a new run. So does a conversation that begins anew, such as that of a sub-agent, or
 * after the client has summarized the history. A run without a label is called `conv_<lowest id of its exchanges>`.
 * Order. "Earlier" refers to the arrival of the request, not to the order of storage. Server threads store in batches,
 * so the answer that a turn repeats may be stored after the turn. When such a late turn is stored, the turns that
 * continue it are linked to it. The resulting runs are the same as if turns were stored in the order of arrival.
 * `moves` tells readers that follow the file which runs changed. Turns in an earlier file keep their run. Several turns
 * may match equally well, because many runs begin with the same messages. The choice follows these criteria, in this
 * order: an identical system prompt; a prompt about as similar as the best; a turn that no earlier turn continues; the
 * most similar prompt; the latest turn. Two further rules hold if the evidence does not include an answer (a retry, a
 * changed answer). A turn with a dissimilar prompt is not continued, because that turn is probably of another agent. A
 * turn with another credential is not continued either, unless the provider refused that credential (401). Memory. A
 * request is looked up among the latest INDEXED_TURNS_KNOWN turns, in a map in memory (turn-map.ts). The first use
 * fills the map from the table `tails`. The key of a row is the id of a turn. The value of a row contains: whether the
 * turn failed; eight bytes of the SHA-256 of each hash that identifies the turn, or by which the turn looks for its
 * predecessor; its arrival; the sketch of its system prompt; and the turn that it continues. If the turn is in an
 * earlier file, the value also contains the run's name, because rotation copies the latest INDEXED_TURNS_CARRIED turns.
 */
import { arrivalOf } from '../../domain/run-order.ts';
import type { ValueTable } from '../lmdb/sealed-table.ts';
import type { ExchangeFacts, LinkEntry } from './exchange-facts.ts';
import { foundRunId } from './found-run.ts';
import type { ExchangeSummary } from './record.ts';
import type { RunMove } from './summary-table.ts';
import {
  ANY_SENDER,
  type AskedTurn,
  decodeTurn,
  encodeTurn,
  INDEXED_TURNS_KNOWN,
  isEarlier,
  LINK,
  type LinkStrength,
  makeTurnKey,
  type Turn,
  TurnMap,
  WANTS_NOTHING,
  type WantedKeys,
} from './turn-map.ts';

/** Number of the latest turns that a new file copies from the previous one. */
const INDEXED_TURNS_CARRIED = 10_000;
/** Maximum number of prefixes of one conversation that are looked up. The longest ones are used. */
const MAX_PREFIXES = 2_048;

/** A change to an earlier turn, caused by a turn that was stored late. */
export interface Correction {
  run_id: string | null;
  /** The turn that it continues; 0: none. */
  follows: number;
}

/** The summaries of the linked turns. */
interface LinkedSummaries {
  /** Reads the run of an indexed turn; null if it has none, undefined if the turn is not in this file. */
  readRun(id: number): string | null | undefined;
  /** Reads the decoder's result for an exchange of this file; null if it is not readable. */
  readEntry(id: number): LinkEntry | null;
  /** Corrects an indexed turn. @returns false if it has no summary in this file, or is not indexed yet */
  correct(id: number, correction: Correction): boolean;
}

/** A row of the table `tails`. */
export interface TurnRow {
  key: number;
  value: Buffer;
}

/** The changes since the last write. */
export interface LinkChanges {
  /** Rows of new turns, ascending. */
  added: TurnRow[];
  changed: TurnRow[];
  moves: RunMove[];
}

interface FoundTurn {
  before: Turn;
  strength: LinkStrength;
}

export class TurnLinks {
  readonly #tails: ValueTable<number>;
  readonly #summaries: LinkedSummaries;
  /** The last indexed exchange. The first use reads `tails` up to it. */
  #stored: number;
  #turnMap: TurnMap | null = null;
  #added: Turn[] = [];
  readonly #changed = new Set<Turn>();
  #moves: RunMove[] = [];
  /** Keys of the turn that is being added, by the hashes from which they were made. */
  readonly #keys = new Map<string, string>();

  /**
   * @param stored the last indexed exchange of the file
   */
  constructor(tails: ValueTable<number>, summaries: LinkedSummaries, stored: number) {
    this.#tails = tails;
    this.#summaries = summaries;
    this.#stored = stored;
  }

  /** Lists the rows to write. The caller writes them, and then calls {@link settle}. */
  listChanges(): LinkChanges {
    const encode = (turn: Turn): TurnRow => ({ key: turn.id, value: encodeTurn(turn) });
    return { added: this.#added.map(encode), changed: [...this.#changed].map(encode), moves: this.#moves };
  }

  /** Records that all changes have been written. */
  settle(): void {
    this.#added = [];
    this.#changed.clear();
    this.#moves = [];
  }

  /**
   * Drops the turns in memory, because some were removed from `tails`. The next use reads `tails` again.
   * @param stored the last indexed exchange of the file
   */
  forget(stored: number): void {
    this.#turnMap = null;
    this.#stored = stored;
  }

  /** Links the next turn. @returns its run, and the turn of that run that it continues (0: none) */
  add({ summary, entry, client_run }: ExchangeFacts): { run_id: string; follows: number } {
    this.#keys.clear();
    const sender = summary.credential === undefined ? '' : this.#keyOf(`credential ${summary.credential}`);
    const place = { id: summary.id, arrival: arrivalOf(summary), sender };
    const label = summary.run_id ?? client_run;
    let found = entry === null ? null : this.#findBefore(entry, place);
    const foundRun = found === null ? null : this.#readRun(found.before);
    const runId = label ?? foundRun ?? foundRunId(summary.id);
    // A labelled turn continues only a turn of the same run.
    if (foundRun !== runId) found = null;
    const turn = makeTurn(place, summary, entry, found, (text) => this.#keyOf(text));
    // Reuses the previous turn's string, so that all turns of a run share one string.
    turn.known_run = foundRun === runId ? foundRun : runId;
    turn.is_labelled = label !== null;
    if (turn.keys.length === 0) return { run_id: runId, follows: turn.follows };
    const turns = this.#turns();
    const isLate = turns.hasArrivedSince(place.arrival);
    this.#added.push(turn);
    turns.add(turn);
    if (found !== null) turns.link(turn, found.before, found.strength);
    if (isLate) this.#placeLate(turn, entry?.conversation[0]);
    return { run_id: turn.known_run, follows: turn.follows };
  }

  /** Lists the latest turns with their runs, for `tails` in the next file. */
  listCarried(): TurnRow[] {
    return this.#turns()
      .listLatest(INDEXED_TURNS_CARRIED)
      .flatMap((turn) => {
        const run = this.#readRun(turn);
        return run === null ? [] : [{ key: turn.id, value: encodeTurn({ ...turn, run_id: run }) }];
      });
  }

  #keyOf(hash: string): string {
    let key = this.#keys.get(hash);
    if (key === undefined) {
      key = makeTurnKey(hash);
      this.#keys.set(hash, key);
    }
    return key;
  }

  /** Finds the turn that a request continues, among those that arrived earlier; null if the request starts a run. */
  #findBefore(entry: LinkEntry, place: AskedTurn): FoundTurn | null {
    const { conversation, last_answer_alone: alone = null, last_answer_at: at = -1 } = entry;
    const sketch = entry.sketchSystem ?? ((): string => '');
    const turns = this.#turns();
    const last = conversation.length - 1;
    const shortest = Math.max(0, conversation.length - MAX_PREFIXES);
    const find = (i: number): Turn | null =>
      turns.find(this.#keyOf(conversation[i]!), place, sketch, i === last);
    let i = last;
    for (; i >= Math.max(at, shortest); i -= 1) {
      const before = find(i);
      if (before !== null)
        return { before, strength: i === Math.max(at, 0) && i < last ? LINK.answer : LINK.beyond };
    }
    const before = alone === null ? null : turns.find(this.#keyOf(alone), place, sketch, false);
    if (before !== null) return { before, strength: LINK.alone };
    for (; i >= shortest; i -= 1) {
      const before = find(i);
      if (before !== null) return { before, strength: LINK.prefix };
    }
    return null;
  }

  /**
   * Handles a turn that was stored after turns that arrived later. Turns that continue it are linked to it, as if it
   * had been stored in the order of arrival. The cost does not depend on the size of the file: a few candidates are
   * examined for each key of the turn, and the turns of the runs that change.
   */
  #placeLate(turn: Turn, first: string | undefined): void {
    const turns = this.#turns();
    const later = (some: readonly Turn[]): Turn[] =>
      some
        .filter((candidate) => candidate !== turn && !isEarlier(candidate, turn))
        .sort((a, b) => (isEarlier(a, b) ? -1 : 1));
    const [asked, ...answered] = turn.keys;
    // The turn failed or is a retry. So a later turn with the same request may be its retry, or may no longer be the
    // retry of another turn.
    if (turn.failed || turn.strength === LINK.beyond) {
      for (const candidate of later(turns.listWith(asked!)))
        if (candidate.keys[0] === asked) this.#retry(candidate, turn);
    }
    const shared = [...answered, turn.wants.answer, turn.wants.alone].filter((key) => key !== '');
    for (const key of new Set(shared)) {
      for (const candidate of later(turns.listWanting(key))) {
        const strength = candidate.wants.answer === key ? LINK.answer : LINK.alone;
        if (candidate.strength > strength) continue;
        const before = turns.find(key, candidate, () => candidate.sketch, false);
        if (before !== null) this.#follow(candidate, before, strength, turn);
      }
    }
    if (first === undefined) return;
    for (const candidate of later(turns.listWanting(makeTurnKey(first))))
      if (candidate.strength <= LINK.prefix) this.#findAgain(candidate, turn);
  }

  /** Links a turn to the turn that it retries, if there is one. */
  #retry(turn: Turn, late: Turn): void {
    const turns = this.#turns();
    const asked = turn.keys[0]!;
    const before = turns.find(asked, turn, () => turn.sketch, true);
    if (before !== null) this.#follow(turn, before, LINK.beyond, late);
    else if (turns.get(turn.follows)?.keys[0] === asked) this.#findAgain(turn, late);
  }

  /**
   * Reads a turn's bodies again, finds the turn that it continues, and links it. If it continues none, it starts a
   * conversation. If its bodies cannot be read, its link stays.
   */
  #findAgain(turn: Turn, late: Turn): void {
    const entry = this.#summaries.readEntry(turn.id);
    if (entry === null) return;
    const found = this.#findBefore(entry, turn);
    if (found !== null) this.#follow(turn, found.before, found.strength, late);
    else if (turn.follows !== 0) this.#startAnew(turn, late);
  }

  /** Records that a turn continues no known turn. */
  #startAnew(turn: Turn, late: Turn): void {
    const root = this.#rootOf(turn);
    this.#turns().unlink(turn);
    this.#correct(turn);
    this.#nameTree(root, late);
    this.#nameTree(turn, late);
  }

  /** Records that a turn continues another one. @param late the late turn that caused this */
  #follow(turn: Turn, before: Turn, strength: LinkStrength, late: Turn): void {
    if (turn.follows === before.id && turn.strength === strength) return;
    const turns = this.#turns();
    const newRoot = this.#rootOf(before);
    const oldRoot = this.#rootOf(turn);
    // A turn cannot continue a turn that follows it in the same conversation.
    if (oldRoot === newRoot && this.#isBehind(before, turn)) return;
    if (turn.is_labelled && this.#readRun(turn) !== this.#readRun(before)) return;
    const isStart = oldRoot === turn;
    turns.link(turn, before, strength);
    this.#correct(turn);
    if (oldRoot === newRoot) return;
    this.#nameTree(newRoot, late);
    if (!isStart) this.#nameTree(oldRoot, late);
  }

  /** Returns the first known turn of a turn's conversation. */
  #rootOf(turn: Turn): Turn {
    const turns = this.#turns();
    let root = turn;
    for (let before = turns.get(root.follows); before !== undefined; before = turns.get(root.follows))
      root = before;
    return root;
  }

  #isBehind(turn: Turn, ancestor: Turn): boolean {
    const turns = this.#turns();
    for (let at: Turn | undefined = turn; at !== undefined; at = turns.get(at.follows))
      if (at === ancestor) return true;
    return false;
  }

  /** Sets the run name of the root, and of all turns that continue it directly or indirectly. */
  #nameTree(root: Turn, late: Turn): void {
    const members = [root];
    for (let i = 0; i < members.length; i++) members.push(...(members[i]!.followers ?? []));
    const named = members.find(
      ({ run_id, is_labelled, follows }, i) => run_id !== null || is_labelled || (i === 0 && follows !== 0),
    );
    const ids = members.map(({ id }) => id);
    const name =
      named === undefined ? foundRunId(ids.reduce((a, b) => Math.min(a, b))) : this.#readRun(named);
    if (name === null) return;
    const names = new Set<string>();
    for (const member of members) {
      const run = this.#readRun(member);
      if (run === name || member.run_id !== null) continue;
      if (run !== null) names.add(run);
      member.known_run = name;
      this.#correct(member);
    }
    for (const from of names) this.#moves.push({ at: late.id, from, to: name });
  }

  /** Writes a turn's run and predecessor into its summary, if it is indexed. */
  #correct(turn: Turn): void {
    const correction = { run_id: this.#readRun(turn), follows: turn.follows };
    if (this.#summaries.correct(turn.id, correction)) this.#changed.add(turn);
  }

  #readRun(turn: Turn): string | null {
    return turn.run_id ?? turn.known_run ?? this.#summaries.readRun(turn.id) ?? null;
  }

  /** Returns the turns, read from the file at the first use. */
  #turns(): TurnMap {
    if (this.#turnMap !== null) return this.#turnMap;
    const latest: Turn[] = [];
    for (const { key, value } of this.#tails.getRange({
      reverse: true,
      limit: INDEXED_TURNS_KNOWN,
      snapshot: false,
    })) {
      latest.push(decodeTurn(key, value));
    }
    const map = new TurnMap();
    for (let i = latest.length - 1; i >= 0; i--) {
      const turn = latest[i]!;
      if (turn.id > this.#stored) continue;
      if (turn.sketch === '' && turn.follows !== 0 && turn.run_id === null)
        turn.sketch = map.get(turn.follows)?.sketch ?? this.#readSketch(turn.follows);
      map.add(turn);
    }
    for (const turn of map.listLatest(INDEXED_TURNS_KNOWN)) {
      const before = map.get(turn.follows);
      if (before !== undefined) map.link(turn, before, turn.strength);
    }
    this.#turnMap = map;
    return map;
  }

  /** Reads the sketch of a turn that is not in memory: its own, or that of the first turn of its run. */
  #readSketch(id: number): string {
    for (let at = id; ; ) {
      const value = this.#tails.get(at);
      if (value === undefined) return '';
      const { sketch, follows, run_id: runId } = decodeTurn(at, value);
      if (sketch !== '' || follows === 0 || runId !== null) return sketch;
      at = follows;
    }
  }
}

function makeTurn(
  place: AskedTurn,
  { status, aborted }: ExchangeSummary,
  entry: LinkEntry | null,
  found: FoundTurn | null,
  keyOf: (hash: string) => string,
): Turn {
  const conversation = entry?.conversation ?? [];
  const broke = status === 0 || status >= 400 || aborted;
  const hashes = [conversation.at(-1)];
  if (!broke && hashes[0] !== undefined) {
    hashes.push(entry?.answered ?? undefined, entry?.answer_alone ?? undefined);
    hashes.push(entry?.answered_id ?? undefined);
  }
  const strength = found?.strength ?? LINK.none;
  return {
    ...place,
    sender: status === 401 ? ANY_SENDER : place.sender,
    failed: broke || entry?.broke_off === true,
    run_id: null,
    known_run: null,
    is_labelled: false,
    keys: hashes.filter((text) => text !== undefined).map(keyOf),
    wants: entry === null ? WANTS_NOTHING : findWanted(entry, strength, keyOf),
    // The prompt of a run is sketched only once, because sketching a long prompt takes longer than all other work of
    // linking a turn.
    sketch: found?.before.sketch ?? entry?.sketchSystem?.() ?? '',
    follows: found?.before.id ?? 0,
    strength,
    followers: null,
  };
}

/** Makes the keys by which a turn that is stored late is found to be the one that this turn continues. */
function findWanted(entry: LinkEntry, strength: LinkStrength, keyOf: (hash: string) => string): WantedKeys {
  const { conversation, last_answer_at: at = -1, last_answer_alone: alone } = entry;
  const hasHistory = conversation.length > 1;
  return {
    answer: hasHistory ? keyOf(conversation[Math.max(at, 0)]!) : '',
    alone: strength < LINK.answer && alone != null ? keyOf(alone) : '',
    first: strength < LINK.alone && hasHistory ? keyOf(conversation[0]!) : '',
  };
}
