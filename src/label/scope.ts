/**
 * The run of the running code, and the label of a request. Every transport uses these. There is one state per thread,
 * even if several copies of the package are loaded. Any thread.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';
import { readEnvironment } from './environment.ts';
import { LabelledHosts } from './labelled-target.ts';
import { RunNumbers } from './run-numbers.ts';

export const RUN_HEADER = 'x-svc-run';
export const SEQ_HEADER = 'x-svc-seq';

/** Longest run name, in bytes of UTF-8; every request's head contains it. */
const RUN_NAME_BYTES_MAX = 1_024;

/** Change this name if the state's format changes, because copies with different formats must not share it. */
const STATE = Symbol.for('understudy.label.2');
/** The name of the environment data in which new worker threads find the counters. */
const NUMBERS = 'understudy.label.2.numbers';

/** A run in progress. */
export interface Scope {
  /** The header's value: the name in UTF-8, one character per byte, as header values are written. */
  readonly run: string;
  readonly key: bigint;
}

/** A scope and the scopes that enclose it. */
interface Entered {
  readonly scope: Scope;
  /** Whether the scope has ended, so that it labels no more requests. */
  readonly isOver: () => boolean;
  readonly outer: Entered | undefined;
}

/** A request's place in its run. */
export interface Label {
  readonly scope: Scope;
  readonly seq: number;
}

interface State {
  readonly storage: AsyncLocalStorage<Entered>;
  /**
   * Runs a function within the scope of a run. Requests stay unlabelled if the run's name cannot be a header's value.
   * For the client (labelled-run.ts).
   */
  enter<Result>(run: string, isOver: () => boolean, work: () => Result): Result;
  readonly numbers: RunNumbers;
  readonly hosts: LabelledHosts;
  /** The labelled transports, as `installedTransports` returns them. */
  readonly transports: Set<string>;
  is_installed: boolean;
  /** The scope of code outside of all other scopes; null: such code has no run. */
  process_scope: Scope | null;
}

/** This thread's state. */
export const state = findState(globalThis as { [STATE]?: State });

function findState(place: { [STATE]?: State }): State {
  place[STATE] ??= {
    storage: new AsyncLocalStorage(),
    enter: enterRun,
    numbers: new RunNumbers(shareMemory()),
    hosts: new LabelledHosts(readEnvironment().hosts),
    transports: new Set(),
    is_installed: false,
    process_scope: null,
  };
  return place[STATE];
}

function shareMemory(): SharedArrayBuffer {
  const inherited: unknown = getEnvironmentData(NUMBERS);
  if (inherited instanceof SharedArrayBuffer) return inherited;
  const memory = RunNumbers.allocate();
  setEnvironmentData(NUMBERS, memory);
  return memory;
}

/**
 * Makes the scope of a run.
 * @param run the run's name: 1 to 1,024 bytes of text, without control characters and without spaces around it
 * @throws TypeError for any other name
 */
export function makeScope(run: string): Scope {
  if (typeof run !== 'string' || run.trim() !== run || run === '' || /\p{Cc}/u.test(run)) {
    throw new TypeError(
      'the name of a run must be a text without control characters, and without spaces around it',
    );
  }
  const bytes = Buffer.from(run);
  if (bytes.length > RUN_NAME_BYTES_MAX) {
    throw new TypeError(`a run's name may have at most ${RUN_NAME_BYTES_MAX} bytes, not ${bytes.length}`);
  }
  const key = createHash('sha256').update(bytes).digest().readBigInt64LE();
  return { run: bytes.toString('latin1'), key: key === 0n ? 1n : key };
}

/** Runs a function in the scope. @param isOver whether the scope has ended, so that it labels no more requests */
export function enterScope<Result>(scope: Scope, isOver: () => boolean, work: () => Result): Result {
  return state.storage.run({ scope, isOver, outer: state.storage.getStore() }, work);
}

function enterRun<Result>(run: string, isOver: () => boolean, work: () => Result): Result {
  let scope: Scope;
  try {
    scope = makeScope(run);
  } catch {
    return work();
  }
  return enterScope(scope, isOver, work);
}

/** The scope of the code that is running. */
export function currentScope(): Scope | null {
  let entered = state.storage.getStore();
  while (entered?.isOver()) entered = entered.outer;
  return entered?.scope ?? state.process_scope;
}

/** Makes the label of the run's next request. */
export function takeLabel(scope: Scope): Label {
  return { scope, seq: state.numbers.take(scope.key) };
}

/** Returns the number of a request that was not sent, so that the next request gets it. */
export function giveBack({ scope, seq }: Label): void {
  state.numbers.giveBack(scope.key, seq);
}

/**
 * Whether a request already has one of the two headers of a label.
 * @param fields names of headers as written, or names and values in turn
 * @param step 1 for names, 2 for names and values
 */
export function hasLabel(fields: readonly unknown[], step = 1): boolean {
  for (let at = 0; at < fields.length; at += step) {
    const name = fields[at];
    if (typeof name !== 'string' || name.length !== RUN_HEADER.length) continue;
    const lower = name.toLowerCase();
    if (lower === RUN_HEADER || lower === SEQ_HEADER) return true;
  }
  return false;
}

/** Whether an error or its cause says that no connection was established, so that nothing of the request was sent. */
export function isUnconnected(error: unknown, depth = 3): boolean {
  if (typeof error !== 'object' || error === null || depth === 0) return false;
  const { syscall, code, cause, errors } = error as Record<string, unknown>;
  if (syscall === 'connect' || syscall === 'getaddrinfo' || code === 'UND_ERR_CONNECT_TIMEOUT') return true;
  if (Array.isArray(errors) && errors.length > 0)
    return errors.every((each) => isUnconnected(each, depth - 1));
  return isUnconnected(cause, depth - 1);
}
