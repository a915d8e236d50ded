/**
 * A thread's way to the store thread of its box, which sends its commits to the database (follower.ts). The channel opens
 * at the first use, and again after the store thread was started again. Any thread.
 */
import { MessageChannel, type MessagePort, postMessageToThread } from 'node:worker_threads';
import { createDeferred, type Deferred } from '../../std/deferred.ts';
import type { Committer } from './follower.ts';
import { SeatState, type StoreSeat } from './seat.ts';
import {
  type ChangedRow,
  fromStoreFailure,
  packProposal,
  type StoreAnswer,
  type StoreGreeting,
  type StoreQuestion,
  unpackChanged,
} from './store-protocol.ts';
import { type Proposal, TruthUnavailableError, type Verdict } from './truth.ts';

/** How long the store thread may take to accept a channel, on a busy machine. */
const CONNECT_MS = 5_000;
/** Pause before the channel of a thread that follows changes is opened again. */
const AGAIN_MS = 500;

/** Who gets what the store thread says by itself. */
interface StoreListeners {
  /** Called with the rows that other boxes changed, or null if everything was loaded again. */
  onChanged?: (rows: ChangedRow[] | null) => void;
  live?: {
    /** Called with what the store thread tells of the live stream. */
    onTold(told: unknown): void;
    /** The channel has opened again after a loss: the store thread no longer knows what this thread follows. */
    onAgain(): void;
  };
}

export class StoreClient implements Committer {
  readonly #identity: string;
  readonly #state: SeatState;
  readonly #onChanged: StoreListeners['onChanged'];
  readonly #live: StoreListeners['live'];
  readonly #waiting = new Map<number, Deferred<unknown>>();
  #port: Promise<MessagePort> | null = null;
  #nextId = 0;
  #isClosed = false;

  constructor({ identity, state }: StoreSeat, { onChanged, live }: StoreListeners = {}) {
    this.#identity = identity;
    this.#state = new SeatState(state);
    this.#onChanged = onChanged;
    this.#live = live;
    if (onChanged !== undefined) void this.#connect().catch(() => {});
  }

  async commit(proposal: Proposal): Promise<Verdict> {
    return (await this.#ask((id) => ({ id, commit: packProposal(proposal) }))) as Verdict;
  }

  /** Waits until the view shows a position. @returns false if it does not within the time */
  async reach(position: number, within_ms: number): Promise<boolean> {
    if (this.#state.position >= position) return true;
    return (await this.#ask((id) => ({ id, reach: position, within_ms }))) as boolean;
  }

  /** Asks about the live stream. */
  askLive(question: unknown): Promise<unknown> {
    return this.#ask((id) => ({ id, live: question }));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const port = await this.#port?.catch(() => null);
    port?.close();
  }

  async #ask(makeQuestion: (id: number) => StoreQuestion): Promise<unknown> {
    const port = await this.#connect();
    const id = this.#nextId++;
    const answer = createDeferred<unknown>();
    this.#waiting.set(id, answer);
    // An open question keeps the thread alive, an idle channel does not.
    port.ref();
    port.postMessage(makeQuestion(id));
    return answer.promise;
  }

  #connect(): Promise<MessagePort> {
    if (this.#isClosed) return Promise.reject(new TruthUnavailableError('the store is closed'));
    this.#port ??= this.#open().catch((thrown: unknown) => {
      this.#port = null;
      throw thrown;
    });
    return this.#port;
  }

  async #open(): Promise<MessagePort> {
    const { thread } = this.#state;
    if (thread === null) throw new TruthUnavailableError('the thread of the store is starting again');
    const { port1: port, port2 } = new MessageChannel();
    port.on('message', (answer: StoreAnswer) => this.#take(port, answer));
    port.on('close', () => this.#end());
    port.unref();
    const greeting: StoreGreeting = {
      understudy_store: this.#identity,
      port: port2,
      follows: this.#onChanged !== undefined,
    };
    try {
      await postMessageToThread(thread, greeting, [port2], CONNECT_MS);
    } catch (cause) {
      port.close();
      throw new TruthUnavailableError('the thread of the store does not answer', { cause });
    }
    return port;
  }

  #take(port: MessagePort, answer: StoreAnswer): void {
    if ('changed' in answer) {
      this.#onChanged?.(answer.changed === null ? null : unpackChanged(answer.changed));
      return;
    }
    if ('told' in answer) {
      this.#live?.onTold(answer.told);
      return;
    }
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (this.#waiting.size === 0) port.unref();
    if (waiting === undefined) return;
    if ('failure' in answer) waiting.reject(fromStoreFailure(answer.failure));
    else if ('live' in answer) waiting.resolve(answer.live);
    else waiting.resolve('verdict' in answer ? answer.verdict : answer.is_reached);
  }

  /** The store thread has ended. What it had sent may or may not be decided. */
  #end(): void {
    this.#port = null;
    const lost = new TruthUnavailableError('the thread of the store has ended');
    for (const { reject } of this.#waiting.values()) reject(lost);
    this.#waiting.clear();
    // Changes that nothing reported count as changes of everything.
    if (!this.#isClosed && (this.#onChanged !== undefined || this.#live !== undefined)) this.#follow();
  }

  #follow(): void {
    setTimeout(() => {
      if (this.#isClosed) return;
      this.#connect().then(
        () => {
          this.#onChanged?.(null);
          this.#live?.onAgain();
        },
        () => this.#follow(),
      );
    }, AGAIN_MS).unref();
  }
}
