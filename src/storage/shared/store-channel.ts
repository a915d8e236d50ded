/**
 * A thread's channel to the store thread of its box. The channel is opened at once if the thread follows notices, and
 * otherwise at its first use. After a restart of the store thread, it is opened again at the next use. With a listener,
 * it is opened again without a use, too, after a short pause. Any thread.
 */
import {
  MessageChannel,
  type MessagePort,
  postMessageToThread,
  receiveMessageOnPort,
} from 'node:worker_threads';
import { createDeferred, type Deferred } from '../../std/deferred.ts';
import { SeatState, type StoreSeat } from './seat.ts';
import {
  fromStoreFailure,
  type StoreAnswer,
  type StoreApplied,
  type StoreFollowing,
  type StoreGreeting,
  type StoreQuestion,
  type StoreTold,
} from './store-protocol.ts';
import { TruthUnavailableError } from './truth.ts';

/** Maximum time until the store thread accepts a channel, for example on a busy machine. */
const CONNECT_MS = 5_000;
/** Pause before the channel of a thread that follows notices is opened again. */
const AGAIN_MS = 500;

/** Handles the notices that a thread follows. */
interface ChannelListener {
  follows: StoreFollowing;
  /** @param reply sends the store thread a message that has no answer */
  onTold(told: StoreTold, reply: (message: StoreApplied) => void): void;
  /** Called when the channel has ended. Notices may be missed after that. */
  onEnd?(): void;
  /** Called when a new channel is open. @param reply as in onTold */
  onAgain(reply: (message: StoreApplied) => void): void;
}

export class StoreChannel {
  readonly #identity: string;
  readonly #state: SeatState;
  readonly #listener: ChannelListener | null;
  readonly #waiting = new Map<number, Deferred<StoreAnswer>>();
  #port: Promise<MessagePort> | null = null;
  /** The open channel, and the thread at its other end. */
  #open: { port: MessagePort; thread: number } | null = null;
  #nextId = 0;
  #hasEnded = false;
  #isClosed = false;

  constructor({ identity, state }: StoreSeat, listener: ChannelListener | null = null) {
    this.#identity = identity;
    this.#state = new SeatState(state);
    this.#listener = listener;
    if (listener?.follows != null) void this.#connect().catch(() => this.#connectAgain());
  }

  get state(): SeatState {
    return this.#state;
  }

  /** Whether the channel leads to the store thread that runs now. */
  get isCurrent(): boolean {
    return this.#open !== null && this.#open.thread === this.#state.thread;
  }

  /**
   * Sends a question to the store thread and waits for the answer. @throws TruthUnavailableError; the error of the
   * store thread
   */
  async ask(makeQuestion: (id: number) => StoreQuestion): Promise<StoreAnswer> {
    const port = await this.#connect();
    const id = this.#nextId++;
    const answer = createDeferred<StoreAnswer>();
    this.#waiting.set(id, answer);
    // An unanswered question keeps the thread alive; an idle channel does not.
    port.ref();
    port.postMessage(makeQuestion(id));
    return answer.promise;
  }

  /** Handles all messages that have arrived, without waiting for the event loop. */
  drain(): void {
    const port = this.#open?.port;
    while (port !== undefined) {
      const received = receiveMessageOnPort(port);
      if (received === undefined) return;
      this.#take(port, received.message as StoreAnswer | StoreTold);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const port = await this.#port?.catch(() => null);
    port?.close();
  }

  #connect(): Promise<MessagePort> {
    if (this.#isClosed) return Promise.reject(new TruthUnavailableError('the store is closed'));
    this.#port ??= this.#begin().catch((thrown: unknown) => {
      this.#port = null;
      throw thrown;
    });
    return this.#port;
  }

  async #begin(): Promise<MessagePort> {
    const { thread } = this.#state;
    if (thread === null) throw new TruthUnavailableError('the store thread is restarting');
    const { port1: port, port2 } = new MessageChannel();
    port.on('message', (message: StoreAnswer | StoreTold) => this.#take(port, message));
    port.on('close', () => this.#end());
    port.unref();
    const greeting: StoreGreeting = {
      understudy_store: this.#identity,
      port: port2,
      follows: this.#listener?.follows ?? null,
      is_again: this.#hasEnded,
    };
    try {
      await postMessageToThread(thread, greeting, [port2], CONNECT_MS);
    } catch (cause) {
      port.close();
      throw new TruthUnavailableError('the store thread does not answer', { cause });
    }
    this.#open = { port, thread };
    return port;
  }

  #take(port: MessagePort, message: StoreAnswer | StoreTold): void {
    if (!('id' in message)) {
      this.#listener?.onTold(message, (reply) => port.postMessage(reply));
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (this.#waiting.size === 0) port.unref();
    if ('failure' in message) waiting?.reject(fromStoreFailure(message.failure));
    else waiting?.resolve(message);
  }

  /** Handles the end of the store thread. It may or may not have carried out unanswered questions. */
  #end(): void {
    this.#port = null;
    this.#open = null;
    this.#hasEnded = true;
    const lost = new TruthUnavailableError('the store thread has ended');
    for (const { reject } of this.#waiting.values()) reject(lost);
    this.#waiting.clear();
    if (this.#isClosed || this.#listener === null) return;
    this.#listener.onEnd?.();
    this.#connectAgain();
  }

  #connectAgain(): void {
    setTimeout(() => {
      if (this.#isClosed) return;
      this.#connect().then(
        (port) => this.#listener!.onAgain((reply) => port.postMessage(reply)),
        () => this.#connectAgain(),
      );
    }, AGAIN_MS).unref();
  }
}
