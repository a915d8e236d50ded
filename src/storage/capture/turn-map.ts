/**
 * A map of the latest turns of a capture file by keys, which are made from the parts that later requests repeat. Also
 * has the format of the rows of turns in the table `tails`. With a key, a request finds the turn that it continues
 * among those that arrived earlier, in whatever order they were stored. A turn that is stored late finds the turns that
 * continue it. Used by the capture process, and by readers on any thread.
 * Bounds: the latest INDEXED_TURNS_KNOWN turns; for each key, the latest MAX_CANDIDATES of them.
 */
import { hash } from 'node:crypto';
import { ALIKE, compareSketches, SKETCH_CHARS } from '../../domain/prompt-sketch.ts';

/** Maximum number of turns among which a later turn's predecessor is found. The oldest are dropped first. */
export const INDEXED_TURNS_KNOWN = 50_000;

/** Maximum number of turns that are kept for one key. Older ones are dropped. */
const MAX_CANDIDATES = 16;
/** A prompt counts as equally similar if its similarity is lower than the best one by at most this. */
const SIMILARITY_SLACK = 0.15;

/**
 * How strong the evidence is that a turn continues another one. `beyond`: its history up to a message after its last
 * answer equals the other request, which was not answered. `answer`: its history up to its last answer equals the other
 * request with its answer. `alone`: its last answer is that of the other turn. `prefix`: a shorter part of its history
 * equals the other request.
 */
export const LINK = { none: 0, prefix: 1, alone: 2, answer: 3, beyond: 4 } as const;
export type LinkStrength = (typeof LINK)[keyof typeof LINK];

/** The position of a turn among all turns: by arrival, then by id. */
interface TurnPlace {
  id: number;
  /** When the request arrived; 0 in files of versions before 0.2.0. */
  arrival: number;
}

/** What a request that looks for its predecessor has, beside its conversation. */
export interface AskedTurn extends TurnPlace {
  /**
   * Key of its credential; '' without one, and in files of versions before 0.2.0. ANY_SENDER in a turn whose credential
   * was refused, because the client may retry that turn with another credential.
   */
  sender: string;
}

/** The keys by which a turn looks for its predecessor; '': none. */
export interface WantedKeys {
  /** Key of its history up to its last answer. */
  answer: string;
  /** Key of its last answer alone. */
  alone: string;
  /** Key of its first message, if no turn is known whose answer it repeats. */
  first: string;
}

/** A turn that later ones may continue. */
export interface Turn extends AskedTurn {
  failed: boolean;
  /** Set if the exchange is in an earlier file. */
  run_id: string | null;
  /**
   * The turn's run, cached while the index is open, because reading it from the summary takes longer than all other
   * work on a turn.
   */
  known_run: string | null;
  /** Whether its own headers name its run. */
  is_labelled: boolean;
  /** Key of the request; if it was answered, also those of request and answer, of the answer alone, and of its id. */
  keys: string[];
  wants: WantedKeys;
  /** Sketch of its system prompt; '' if it has none. */
  sketch: string;
  /** The turn of its run that it continues; 0 if it starts a conversation. */
  follows: number;
  strength: LinkStrength;
  /** Known turns that continue it; null if no turn does. */
  followers: Turn[] | null;
}

const KEY_BYTES = 8;
const ARRIVAL_BYTES = 8;

export function makeTurnKey(conversationHash: string): string {
  return hash('sha256', conversationHash, 'buffer').toString('latin1', 0, KEY_BYTES);
}

/** Whether a turn's request arrived before another one's. */
export function isEarlier(turn: TurnPlace, than: TurnPlace): boolean {
  return turn.arrival < than.arrival || (turn.arrival === than.arrival && turn.id < than.id);
}

/** A key that no credential has. */
export const ANY_SENDER = '\0'.repeat(KEY_BYTES);

const FAILED = 1;
const NAMED = 2;
const SKETCHED = 4;
const LINKED = 8;
const PLACED = 16;
const LABELLED = 32;
const SENT = 64;

const WANTED = ['answer', 'alone', 'first'] as const;

/**
 * Format: flags, number of keys, the keys. Then, depending on the flags: the turn that this one continues, the sketch,
 * the sender, the place, the run's name. The place consists of the arrival stamp, a byte for the strength of the link
 * and the kinds of keys, and the keys by which the turn looks for its predecessor. The sketch is omitted if the turn
 * continues a turn with a lower id and the row has no run's name, because both turns then have the same sketch.
 */
export function encodeTurn(turn: Turn): Buffer {
  const isShared = turn.follows !== 0 && turn.follows < turn.id && turn.run_id === null;
  const sketch = isShared ? '' : turn.sketch;
  const flags =
    (turn.failed ? FAILED : 0) |
    (turn.run_id === null ? 0 : NAMED) |
    (sketch === '' ? 0 : SKETCHED) |
    (turn.follows === 0 ? 0 : LINKED) |
    PLACED |
    (turn.is_labelled ? LABELLED : 0) |
    (turn.sender === '' ? 0 : SENT);
  const follows = Buffer.alloc(turn.follows === 0 ? 0 : 4);
  if (turn.follows !== 0) follows.writeUInt32LE(turn.follows);
  return Buffer.concat([
    Buffer.from([flags, turn.keys.length]),
    Buffer.from(turn.keys.join(''), 'latin1'),
    follows,
    Buffer.from(sketch + turn.sender, 'latin1'),
    encodePlace(turn),
    Buffer.from(turn.run_id ?? '', 'utf8'),
  ]);
}

function encodePlace({ arrival, strength, wants }: Turn): Buffer {
  const keys = WANTED.map((name) => wants[name]);
  const place = Buffer.alloc(ARRIVAL_BYTES + 1);
  place.writeDoubleLE(arrival);
  place[ARRIVAL_BYTES] = keys.reduce(
    (bits, key, i) => bits | (key === '' ? 0 : 1 << i),
    strength << WANTED.length,
  );
  return Buffer.concat([place, Buffer.from(keys.join(''), 'latin1')]);
}

export const WANTS_NOTHING: WantedKeys = Object.freeze({ answer: '', alone: '', first: '' });

export function decodeTurn(id: number, bytes: Buffer): Turn {
  const flags = bytes[0]!;
  let at = 2;
  const takeKey = (): string => {
    at += KEY_BYTES;
    return bytes.toString('latin1', at - KEY_BYTES, at);
  };
  const keys = Array.from({ length: bytes[1]! }, takeKey);
  const follows = (flags & LINKED) === 0 ? 0 : bytes.readUInt32LE(at);
  if (follows !== 0) at += 4;
  const sketch = (flags & SKETCHED) === 0 ? '' : bytes.toString('latin1', at, at + SKETCH_CHARS);
  at += sketch.length;
  const sender = (flags & SENT) === 0 ? '' : takeKey();
  let arrival = 0;
  let wants = WANTS_NOTHING;
  let strength: LinkStrength = follows === 0 ? LINK.none : LINK.answer;
  if ((flags & PLACED) !== 0) {
    arrival = bytes.readDoubleLE(at);
    const bits = bytes[at + ARRIVAL_BYTES]!;
    at += ARRIVAL_BYTES + 1;
    strength = (bits >> WANTED.length) as LinkStrength;
    const [answer, alone, first] = WANTED.map((_, i) => ((bits & (1 << i)) === 0 ? '' : takeKey()));
    wants = { answer: answer!, alone: alone!, first: first! };
  }
  return {
    id,
    arrival,
    sender,
    failed: (flags & FAILED) !== 0,
    run_id: (flags & NAMED) === 0 ? null : bytes.toString('utf8', at),
    known_run: null,
    is_labelled: (flags & LABELLED) !== 0,
    keys,
    wants,
    sketch,
    follows,
    strength,
    followers: null,
  };
}

/** Turns by key: usually one for each key. If there are several, the latest few are kept, oldest first. */
class TurnKeys {
  readonly #turns = new Map<string, Turn | Turn[]>();

  add(key: string, turn: Turn): void {
    const known = this.#turns.get(key);
    if (known === undefined) this.#turns.set(key, turn);
    else if (!Array.isArray(known)) this.#turns.set(key, [known, turn]);
    else {
      known.push(turn);
      if (known.length > MAX_CANDIDATES) known.shift();
    }
  }

  drop(key: string, gone: Turn): void {
    const known = this.#turns.get(key);
    if (known === gone) this.#turns.delete(key);
    else if (Array.isArray(known) && known[0] === gone) {
      known.shift();
      if (known.length === 1) this.#turns.set(key, known[0]!);
    }
  }

  get(key: string): readonly Turn[] {
    const known = this.#turns.get(key);
    if (known === undefined) return NO_TURNS;
    return Array.isArray(known) ? known : [known];
  }
}

const NO_TURNS: readonly Turn[] = Object.freeze([]);

export class TurnMap {
  readonly #turns: Turn[] = [];
  #oldest = 0;
  readonly #byId = new Map<number, Turn>();
  readonly #byKey = new TurnKeys();
  readonly #byWanted = new TurnKeys();
  #newestArrival = 0;

  /** Adds the next turn. {@link link} sets its predecessor. */
  add(turn: Turn): void {
    this.#turns.push(turn);
    this.#byId.set(turn.id, turn);
    this.#newestArrival = Math.max(this.#newestArrival, turn.arrival);
    for (const key of turn.keys) this.#byKey.add(key, turn);
    for (const key of listWanted(turn)) this.#byWanted.add(key, turn);
    if (this.#turns.length - this.#oldest <= INDEXED_TURNS_KNOWN) return;
    const gone = this.#turns[this.#oldest++]!;
    this.#byId.delete(gone.id);
    for (const key of gone.keys) this.#byKey.drop(key, gone);
    for (const key of listWanted(gone)) this.#byWanted.drop(key, gone);
    if (this.#oldest > INDEXED_TURNS_KNOWN) {
      this.#turns.splice(0, this.#oldest);
      this.#oldest = 0;
    }
  }

  /** Whether a turn arrived at this time or later. */
  hasArrivedSince(arrival: number): boolean {
    return arrival <= this.#newestArrival;
  }

  /** Records that the turn continues another one, instead of its previous predecessor. */
  link(turn: Turn, before: Turn, strength: LinkStrength): void {
    this.unlink(turn);
    turn.follows = before.id;
    turn.strength = strength;
    if (before.followers === null) before.followers = [turn];
    else before.followers.push(turn);
  }

  /** Records that the turn continues no other turn. */
  unlink(turn: Turn): void {
    const before = this.#byId.get(turn.follows);
    if (before?.followers != null)
      before.followers = before.followers.filter((follower) => follower !== turn);
    turn.follows = 0;
    turn.strength = LINK.none;
  }

  /**
   * Finds the turn that a request with this key continues; null if it continues no turn.
   * @param at the request
   * @param sketch computes the sketch of the request's system prompt
   * @param isWhole true: the key is that of the whole request. An unanswered turn is then found only if it failed
   */
  find(key: string, at: AskedTurn, sketch: () => string, isWhole: boolean): Turn | null {
    const known = this.#byKey.get(key);
    if (known.length === 0) return null;
    const earlier = known.filter((turn) => isEarlier(turn, at));
    if (earlier.length > 0) return choose(earlier, key, at, sketch, isWhole);
    // The order of requests that arrived in the same millisecond is unknown. A request that continues another request
    // is the later of the two.
    const equal = known.filter(
      (turn) => turn.arrival === at.arrival && turn.id !== at.id && turn.keys[0] !== key,
    );
    return equal.length === 0 ? null : choose(equal, key, at, sketch, isWhole);
  }

  /** Lists the known turns that look for this key. */
  listWanting(key: string): readonly Turn[] {
    return this.#byWanted.get(key);
  }

  /** Lists the known turns with this key. */
  listWith(key: string): readonly Turn[] {
    return this.#byKey.get(key);
  }

  get(id: number): Turn | undefined {
    return this.#byId.get(id);
  }

  listLatest(count: number): Turn[] {
    return this.#turns.slice(Math.max(this.#oldest, this.#turns.length - count));
  }
}

function listWanted({ wants }: Turn): string[] {
  return WANTED.map((name) => wants[name]).filter((key) => key !== '');
}

/**
 * Chooses among turns that match equally well, because runs begin alike: first those with about the best prompt
 * similarity; of those, one that no earlier request continues; then the most similar; then the latest.
 */
function choose(
  turns: readonly Turn[],
  key: string,
  at: AskedTurn,
  sketch: () => string,
  isWhole: boolean,
): Turn | null {
  const [only] = turns;
  if (turns.length === 1) {
    const isCertain = only!.keys[0] !== key;
    return isCertain || measure(only!, key, at, sketch(), isWhole) >= 0 ? only! : null;
  }
  const compared = sketch();
  const similarities = turns.map((turn) => measure(turn, key, at, compared, isWhole));
  const best = Math.max(...similarities);
  if (best < 0) return null;
  let chosen: Turn | null = null;
  let chosenSimilarity = -1;
  let isChosenFollowed = false;
  for (const [i, turn] of turns.entries()) {
    const similarity = similarities[i]!;
    if (similarity < 0 || similarity < best - SIMILARITY_SLACK) continue;
    const isFollowed = isFollowedBefore(turn, at);
    const isBetter =
      chosen === null ||
      (isChosenFollowed && !isFollowed) ||
      (isChosenFollowed === isFollowed &&
        (similarity > chosenSimilarity || (similarity === chosenSimilarity && isEarlier(chosen, turn))));
    if (!isBetter) continue;
    chosen = turn;
    chosenSimilarity = similarity;
    isChosenFollowed = isFollowed;
  }
  return chosen;
}

/** Whether a request that arrived before the given place continues the turn. */
function isFollowedBefore({ followers }: Turn, at: TurnPlace): boolean {
  return followers?.some((follower) => follower.id !== at.id && isEarlier(follower, at)) ?? false;
}

/**
 * Similarity of the prompts: 0 to 1, or 2 if they are equal; -1 if a request with this key does not continue the turn.
 */
function measure(turn: Turn, key: string, at: AskedTurn, sketch: string, isWhole: boolean): number {
  const similarity = compareSketches(turn.sketch, sketch);
  const isAnswered = turn.keys[0] !== key;
  if (isAnswered) return similarity;
  // Without an answer in common, equal messages of two clients may be a coincidence.
  if (turn.sender !== at.sender && turn.sender !== ANY_SENDER) return -1;
  // A failed call can have only one retry. A third attempt continues the second one.
  const isRetry = turn.failed && !isFollowedBefore(turn, at);
  return (isWhole && !isRetry) || similarity < ALIKE ? -1 : similarity;
}
