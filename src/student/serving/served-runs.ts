/**
 * Who has served a conversation so far, so that a run which the upstream had to take over stays with it
 * (GW_RELEGATION_STICKY=on). The student may serve a step
 * when its conversation begins with it, or when the student gave the last answer in it (and so, by the
 * same rule, all before), and when the upstream has served none of its run. An unknown run is the upstream's: after
 * a restart, a crash, or a long time. The student's thread, which has all server threads' steps.
 *
 * The ids of its calls, which are drawn at random, identify an answer; a hash over the whole conversation up to it identifies
 * an answer without calls. If a run has no label (`x-svc-run`), its answers alone identify it.
 */

import { createHash, type Hash } from 'node:crypto';
import { type NormalRequest, type TurnBlock, type TurnMessage, textOf } from '../../domain/turn.ts';
import { ID_CHARACTERS, RELEGATED_ANSWERS, RELEGATED_RUNS } from '../../limits.ts';
import { canonicalJson } from '../../providers/conversation.ts';

/** Who serves a run. */
type Server = 'student' | 'upstream';

/** What is remembered, as plain data, youngest last. */
export interface ServedRunsCopy {
  runs: [run: string, server: Server][];
  /** With the run that they belong to, '' for one without a label. */
  answers: [mark: string, run: string][];
}

/** A step as far as it matters here. */
export interface StepPlace {
  run_id: string | null;
  seq: number | null;
  /** The conversation has no answer yet. */
  is_fresh: boolean;
  /** By what its last answer is known; null when it is fresh. */
  mark: string | null;
}

/** How much of the system prompt tells conversations without calls apart. */
const SYSTEM_CHARACTERS = 256;

export class ServedRuns {
  readonly #runs = new Lately<Server>(RELEGATED_RUNS);
  readonly #answers = new Lately<string>(RELEGATED_ANSWERS);

  /** @returns null for a step that the student may serve, else why not */
  judge({ run_id, seq, is_fresh, mark }: StepPlace): 'taken_over' | 'unknown_run' | null {
    const run = keyOf(run_id);
    const server = run === '' ? undefined : this.#runs.get(run);
    if (server === 'upstream') return 'taken_over';
    if (is_fresh) {
      // A conversation that begins within a run of which nothing is known: somebody else may have served the others.
      const isLater = run !== '' && server === undefined && seq !== null && seq > 1;
      return isLater ? 'unknown_run' : null;
    }
    return mark !== null && this.#answers.get(mark) === run ? null : 'unknown_run';
  }

  /** Whether an answer of that id is one that a conversation may go on from; cheap, before anything is parsed. */
  knows(mark: string): boolean {
    return this.#answers.get(mark) !== undefined;
  }

  /** Whether the upstream serves that run. */
  isTaken(runId: string): boolean {
    return this.#runs.get(keyOf(runId)) === 'upstream';
  }

  /** The student serves a step, with an answer that is known by these marks. */
  noteServed(runId: string | null, marks: readonly string[]): void {
    const run = keyOf(runId);
    if (run !== '' && this.#runs.get(run) !== 'upstream') this.#runs.set(run, 'student');
    for (const mark of marks) this.#answers.set(mark, run);
  }

  /**
   * The upstream serves a step.
   * @param mark of the answer before it
   */
  noteTaken(runId: string | null, mark: string | null): void {
    const run = keyOf(runId);
    if (run !== '') this.#runs.set(run, 'upstream');
    if (mark !== null) this.#answers.delete(mark);
  }

  /** An answer went nowhere. */
  forget(marks: readonly string[]): void {
    for (const mark of marks) this.#answers.delete(mark);
  }

  /** For the thread that comes after this one. */
  copy(): ServedRunsCopy {
    return { runs: this.#runs.entries(), answers: this.#answers.entries() };
  }

  /** Takes over what the thread before this one knew; what is the upstream's here stays so. */
  restore(copy: ServedRunsCopy): void {
    for (const [run, server] of copy.runs) {
      if (this.#runs.get(run) !== 'upstream') this.#runs.set(run, server);
    }
    for (const [mark, run] of copy.answers) this.#answers.set(mark, run);
  }
}

/** Where a step stands in its conversation. */
export function placeStep(request: NormalRequest, runId: string | null, seq: number | null): StepPlace {
  const at = request.messages.findLastIndex(({ role }) => role === 'assistant');
  const place = { run_id: runId, seq, is_fresh: at < 0 };
  if (at < 0) return { ...place, mark: null };
  const call = request.messages[at]!.content.find((block) => block.type === 'tool_call');
  const mark = call?.type === 'tool_call' ? call.id : hashConversation(request, at + 1).digest('base64url');
  return { ...place, mark };
}

/** What tells a run from others, the same at each of its steps: its label; without one, what it began with. */
export function identifyRun(request: NormalRequest, runId: string | null): string {
  if (runId !== null) return keyOf(runId);
  const answered = request.messages.findIndex(({ role }) => role === 'assistant');
  return hashConversation(request, answered < 0 ? request.messages.length : answered).digest('base64url');
}

/** A request's conversation, from which {@link markAnswer} goes on; small, whatever was said. */
export function hashRequest(request: NormalRequest): Hash {
  return hashConversation(request, request.messages.length);
}

/**
 * By what a request that goes on from this answer will be known.
 * @param asked `hashRequest` of the request that it answers; not changed
 * @param callIds of its tool calls as they went to the client
 */
export function markAnswer(asked: Hash, answer: readonly TurnBlock[], callIds: readonly string[]): string[] {
  if (callIds.length > 0) return [...callIds];
  const hash = asked.copy();
  addMessage(hash, 'assistant', answer);
  return [hash.digest('base64url')];
}

/** A hash over what is said in the first messages; not over how it is cut into blocks. */
function hashConversation({ model, system, messages }: NormalRequest, count: number): Hash {
  const hash = createHash('sha256');
  // Its beginning tells agents apart, and what changes in it from request to request mostly stands further down.
  const beginning = textOf(system).slice(0, SYSTEM_CHARACTERS).replace(/\d+/g, '0');
  hash.update(JSON.stringify([model, beginning]));
  for (const message of messages.slice(0, count)) addMessage(hash, sideOf(message), message.content);
  return hash;
}

/** Whether results stand in messages of their own is the client's affair. */
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

/** A label of any length in a bounded one; '' for none. */
function keyOf(runId: string | null): string {
  if (runId === null) return '';
  if (runId.length <= ID_CHARACTERS) return `=${runId}`;
  return `#${createHash('sha256').update(runId).digest('base64url')}`;
}

/** A bounded map that forgets what was not used for long, many entries at once; what is read is used. */
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

  /** Those used longest ago first. */
  entries(): [string, V][] {
    return [...this.#old, ...this.#young];
  }
}
