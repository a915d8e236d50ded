/** Reads a captured run page by page, and then repeatedly the turns that were added. Browser. */
import { call } from './api.ts';
import type { CapturedRun, CapturedTurn } from './captured.ts';
import type { Reply } from './contract.ts';
import { keepEqual } from './keep-equal.ts';
import type { ChildRun } from './waterfall.ts';

/** Maximum number of turns that the service returns in one page. */
const PAGE_TURNS = 100;
/** Maximum number of turns that are read at first. More are read on demand. */
const TURNS_AT_ONCE = 300;

export interface ReadConversation {
  run: CapturedRun;
  parent_is_captured: boolean;
  children: ChildRun[];
  turns: CapturedTurn[];
  /** The run's newest exchanges, which are stored but not yet indexed. Empty until all indexed turns are read. */
  being_indexed: Reply<'GET /capture/runs/{id}'>['being_indexed'];
  /** Whether more turns are stored than were read. */
  has_more: boolean;
}

export class ConversationReader {
  readonly #run_id: string;
  #turns: CapturedTurn[] = [];
  #wanted = TURNS_AT_ONCE;

  constructor(run_id: string) {
    this.#run_id = run_id;
  }

  /** Extends the next reading to this number of turns. @param turns Infinity for all; absent: TURNS_AT_ONCE more */
  want(turns: number = this.#turns.length + TURNS_AT_ONCE): void {
    this.#wanted = turns;
  }

  /** Reads the turns after the last known one, up to the wanted number. @throws ApiError */
  async read(signal: AbortSignal): Promise<ReadConversation> {
    for (;;) {
      const last = this.#turns.at(-1);
      const page = await call('GET /capture/runs/{id}', {
        params: { id: this.#run_id },
        query: { limit: PAGE_TURNS, ...(last === undefined ? {} : { cursor: String(last.exchange_id) }) },
        signal,
      });
      const { turns, next_cursor, ...facts } = page;
      if (turns.length > 0) this.#turns = [...this.#turns, ...turns];
      const has_more = next_cursor !== null;
      if (!has_more || this.#turns.length >= this.#wanted)
        return keepEqual(null, { ...facts, turns: this.#turns, has_more });
    }
  }
}
