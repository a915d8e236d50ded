/**
 * Remembers who has served a conversation so far, so that a run stays with the upstream once the upstream had
 * to take it over (GW_RELEGATION_STICKY=on). The student may serve a step under two conditions: the upstream has served
 * no step of the run, and the step begins its conversation or follows an answer of the student. It follows that the
 * student gave all earlier answers, too. Runs that are unknown, because of a restart, a crash, or a long pause, go to
 * the upstream, and so does a conversation that begins at a later step (`seq` > 1) of an unknown run. The student's
 * thread, which sees the steps of all server threads.
 *
 * An answer with calls is identified by the calls' ids, which are random. An answer without calls is identified by a
 * hash of the whole conversation up to it. A run without a label (`x-svc-run`) is identified only by its answers.
 */

import { createHash, type Hash } from 'node:crypto';
import { type NormalRequest, type TurnBlock, type TurnMessage, textOf } from '../../domain/turn.ts';
import { ID_CHARACTERS } from '../../limits.ts';
import { canonicalJson } from '../../std/exact-json.ts';
import { RELEGATED_ANSWERS } from './limits.ts';

/** Maximum number of runs that the student's thread remembers. The least recently used are forgotten. */
const RELEGATED_RUNS = 50_000;

/** Who serves a run. */
type Server = 'student' | 'upstream';

/** The memory as plain data, most recent entry last. */
export interface ServedRunsCopy {
  runs: [run: string, server: Server][];
  /** Each answer with its run; '' for a run without a label. */
  answers: [mark: string, run: string][];
}

/** The run of a step, and the step's place in its conversation. */
export interface StepPlace {
  /** The run's label; null: none. */
  run_id: string | null;
  /** The step's number in the run, from 1; null: unknown. */
  seq: number | null;
  /** Whether the conversation has no answer yet. */
  is_fresh: boolean;
  /** Identifies the conversation's last answer; null when there is no answer yet. */
  mark: string | null;
}

/** Number of characters of the system prompt that distinguish conversations without calls. */
const SYSTEM_CHARACTERS = 256;

export class ServedRuns {
  readonly #runs = new Lately<Server>(RELEGATED_RUNS);
  readonly #answers = new Lately<string>(RELEGATED_ANSWERS);

  /**
   * Decides whether the student may serve a step.
   * @returns null for a step that the student may serve, otherwise the reason
   */
  judge({ run_id, seq, is_fresh, mark }: StepPlace): 'taken_over' | 'unknown_run' | null {
    const run = keyOf(run_id);
    const server = run === '' ? undefined : this.#runs.get(run);
    if (server === 'upstream') return 'taken_over';
    if (is_fresh) {
      // The conversation begins within an unknown run, whose earlier steps another process may have served.
      const isLater = run !== '' && server === undefined && seq !== null && seq > 1;
      return isLater ? 'unknown_run' : null;
    }
    return mark !== null && this.#answers.get(mark) === run ? null : 'unknown_run';
  }

  /** Whether the student is known to have given the answer with this mark. Cheap: used before anything is parsed. */
  knows(mark: string): boolean {
    return this.#answers.get(mark) !== undefined;
  }

  /** Whether the upstream serves that run. */
  isTaken(runId: string): boolean {
    return this.#runs.get(keyOf(runId)) === 'upstream';
  }

  /** Records that the student serves a step, with an answer identified by these marks. */
  noteServed(runId: string | null, marks: readonly string[]): void {
    const run = keyOf(runId);
    if (run !== '' && this.#runs.get(run) !== 'upstream') this.#runs.set(run, 'student');
    for (const mark of marks) this.#answers.set(mark, run);
  }

  /**
   * Records that the upstream serves a step.
   * @param mark identifies the answer before the step
   */
  noteTaken(runId: string | null, mark: string | null): void {
    const run = keyOf(runId);
    if (run !== '') this.#runs.set(run, 'upstream');
    if (mark !== null) this.#answers.delete(mark);
  }

  /** Forgets an answer that was not delivered. */
  forget(marks: readonly string[]): void {
    for (const mark of marks) this.#answers.delete(mark);
  }

  /** The state for the thread that succeeds this one. */
  copy(): ServedRunsCopy {
    return { runs: this.#runs.entries(), answers: this.#answers.entries() };
  }

  /**
   * Takes over the state of the previous thread. Runs that this thread knows to be served by the upstream stay with the
   * upstream.
   */
  restore(copy: ServedRunsCopy): void {
    for (const [run, server] of copy.runs) {
      if (this.#runs.get(run) !== 'upstream') this.#runs.set(run, server);
    }
    for (const [mark, run] of copy.answers) this.#answers.set(mark, run);
  }
}

/** Finds the place of a step in its conversation, and the mark of the conversation's last answer. */
export function placeStep(request: NormalRequest, runId: string | null, seq: number | null): StepPlace {
  const at = request.messages.findLastIndex(({ role }) => role === 'assistant');
  const place = { run_id: runId, seq, is_fresh: at < 0 };
  if (at < 0) return { ...place, mark: null };
  const call = request.messages[at]!.content.find((block) => block.type === 'tool_call');
  const mark = call?.type === 'tool_call' ? call.id : hashConversation(request, at + 1).digest('base64url');
  return { ...place, mark };
}

/** Makes an identity that is the same at each step of a run: the run's label, or else a hash of its first messages. */
export function identifyRun(request: NormalRequest, runId: string | null): string {
  if (runId !== null) return keyOf(runId);
  const answered = request.messages.findIndex(({ role }) => role === 'assistant');
  return hashConversation(request, answered < 0 ? request.messages.length : answered).digest('base64url');
}

/**
 * Hashes a request's conversation; {@link markAnswer} continues the hash. The size of the hash's state does not depend
 * on the conversation.
 */
export function hashRequest(request: NormalRequest): Hash {
  return hashConversation(request, request.messages.length);
}

/**
 * The marks by which a later request refers to this answer.
 * @param asked `hashRequest` of the answered request; not changed
 * @param callIds ids of the answer's tool calls as sent to the client
 */
export function markAnswer(asked: Hash, answer: readonly TurnBlock[], callIds: readonly string[]): string[] {
  if (callIds.length > 0) return [...callIds];
  const hash = asked.copy();
  addMessage(hash, 'assistant', answer);
  return [hash.digest('base64url')];
}

/**
 * A hash over the model, the beginning of the system prompt without its numbers, and the content of the first messages,
 * independent of its division into blocks.
 */
function hashConversation({ model, system, messages }: NormalRequest, count: number): Hash {
  const hash = createHash('sha256');
  // The beginning distinguishes agents. The parts that change from request to request are mostly further down.
  const beginning = textOf(system).slice(0, SYSTEM_CHARACTERS).replace(/\d+/g, '0');
  hash.update(JSON.stringify([model, beginning]));
  for (const message of messages.slice(0, count)) addMessage(hash, sideOf(message), message.content);
  return hash;
}

/**
 * The side of a message. Results count as the user's, because clients differ in whether results are separate messages.
 */
function sideOf({ role }: TurnMessage): string {
  return role === 'tool' ? 'user' : role;
}

function addMessage(hash: Hash, side: string, content: readonly TurnBlock[]): void {
  hash.update(`\0${side}\0`);
  for (const block of content) {
    if (block.type === 'thinking' || block.type === 'cache_point') continue;
    if (block.type === 'text') hash.update(block.text.trim());
    else if (block.type === 'tool_call') hash.update(`\0call\0${block.id}`);
    else if (block.type === 'tool_result') {
      hash.update(`\0result\0${block.call_id}\0`);
      addMessage(hash, '', block.content);
    } else hash.update(canonicalJson(block));
  }
}

/** A label of any length in bounded form; '' for none. */
function keyOf(runId: string | null): string {
  if (runId === null) return '';
  if (runId.length <= ID_CHARACTERS) return `=${runId}`;
  return `#${createHash('sha256').update(runId).digest('base64url')}`;
}

/** A bounded map that evicts the least recently used entries, many at once. Reading an entry counts as use. */
class Lately<V> {
  readonly #half: number;
  #young = new Map<string, V>();
  #old = new Map<string, V>();

  constructor(max: number) {
    this.#half = Math.max(1, max >>> 1);
  }

  get(key: string): V | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: string, value: V): void {
    this.#old.delete(key);
    if (this.#young.size >= this.#half && !this.#young.has(key)) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }

  delete(key: string): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  /** All entries, the least recently used first. */
  entries(): [string, V][] {
    return [...this.#old, ...this.#young];
  }
}
