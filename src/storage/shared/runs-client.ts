/**
 * Connects a thread to the shared runs through the store thread of its box, which queries the database
 * (runs-sender.ts), and reports which actors other boxes have taken. Any thread.
 */
import type { HeldActor, LostActor, RunsStore } from './runs-store.ts';
import type { ActorCommit, SummedRow } from './runs-truth.ts';
import type { StoreSeat } from './seat.ts';
import { StoreChannel } from './store-channel.ts';
import { packRuns, type RunsQuestion, unpackRuns } from './store-protocol.ts';
import type { ReadRange, StoredRow } from './truth.ts';

export class RunsClient implements RunsStore {
  readonly #channel: StoreChannel;
  readonly #onLost: (actors: readonly LostActor[] | null) => void;
  /** Number of the last notice that this thread has handled. */
  #notices: number;

  /** @param onLost called with the actors that other boxes have taken; null: any actor may have been taken */
  constructor(seat: StoreSeat, onLost: (actors: readonly LostActor[] | null) => void = () => {}) {
    this.#onLost = onLost;
    this.#channel = new StoreChannel(seat, {
      follows: 'losses',
      onTold: (told) => {
        if (!('lost' in told)) return;
        this.#notices = told.notices;
        onLost(told.lost === null ? null : (unpackRuns(told.lost) as LostActor[]));
      },
      onEnd: () => this.#lose(),
      onAgain: () => this.#lose(),
    });
    this.#notices = this.#channel.state.notices;
  }

  /**
   * Handles all notices up to the position that the view shows. Call it before actors of this thread answer a client
   * that has seen newer data on another box.
   */
  catchUp(): void {
    const channel = this.#channel;
    if (!channel.isCurrent) return this.#lose();
    if (this.#notices === channel.state.notices) return;
    channel.drain();
    if (this.#notices !== channel.state.notices) this.#lose();
  }

  async take(actor: Buffer): Promise<HeldActor> {
    return (await this.#ask({ op: 'take', actor })) as HeldActor;
  }

  async commit(commits: readonly ActorCommit[]): Promise<number[]> {
    return (await this.#ask({ op: 'commit', commits })) as number[];
  }

  async readRows(table: string, keys: readonly Buffer[]): Promise<(Buffer | null)[]> {
    return (await this.#ask({ op: 'rows', table, keys })) as (Buffer | null)[];
  }

  async readRange(range: ReadRange, limit: number, reverse: boolean): Promise<StoredRow[]> {
    return (await this.#ask({ op: 'range', range, limit, reverse })) as StoredRow[];
  }

  async sumCounts(range: ReadRange): Promise<SummedRow[]> {
    return (await this.#ask({ op: 'counts', range })) as SummedRow[];
  }

  close(): Promise<void> {
    return this.#channel.close();
  }

  /** Handles missed notices: any actor may have been taken by another box. */
  #lose(): void {
    this.#notices = this.#channel.state.notices;
    this.#onLost(null);
  }

  async #ask(question: RunsQuestion): Promise<unknown> {
    const answer = await this.#channel.ask((id) => ({ id, runs: packRuns(question) }));
    return unpackRuns((answer as { runs: Uint8Array }).runs);
  }
}
