/** The pattern store as the pattern index's port: opened at first use, on the one thread that has the index. Actor thread. */
import type { PatternScope } from '../../src/domain/pattern.ts';
import type { AddedPattern, FoundPattern, IndexState, MergedPattern, RetrieveRequest } from './protocol.ts';
import type { PatternStore } from './store.ts';

export class PatternStorePort {
  readonly #open: () => Promise<PatternStore>;
  #store: Promise<PatternStore> | null = null;

  /** @param open opens the store; tried again at the next call when it fails, or when it cannot read what is stored */
  constructor(open: () => Promise<PatternStore>) {
    this.#open = open;
  }

  async open(): Promise<null> {
    await this.#opened();
    return null;
  }

  async retrieve(request: RetrieveRequest): Promise<FoundPattern[]> {
    return (await this.#opened()).retrieve(request);
  }

  async add(input: { scope: PatternScope; patterns: readonly AddedPattern[] }): Promise<MergedPattern[]> {
    return (await this.#opened()).add(input.scope, input.patterns);
  }

  async state(): Promise<IndexState> {
    return (await this.#opened()).state();
  }

  async close(): Promise<void> {
    const store = await this.#store?.catch(() => null);
    await store?.close();
  }

  #opened(): Promise<PatternStore> {
    if (this.#store === null) {
      const opening = this.#open();
      const forget = () => {
        if (this.#store === opening) this.#store = null;
      };
      opening.then((store) => store.whenLoaded()).catch(forget);
      this.#store = opening;
    }
    return this.#store;
  }
}
