/**
 * Opens the pattern store for the pattern index at the first use, on the index's thread. Actor thread.
 */
import type { PatternScope } from '../../src/domain/pattern.ts';
import type { ChangedPattern } from './following.ts';
import type {
  AddedPattern,
  FoundMatches,
  MergedPattern,
  RemoveRequest,
  RetrieveRequest,
} from './protocol.ts';
import type { PatternStore } from './store.ts';

/** Delay before the store is opened again without a request, or before changes are applied again. */
const RETRY_MS = 5_000;
/** Maximum number of waiting changes. Beyond it, all patterns in memory are compared with the rows. */
const CHANGES_MAX = 10_000;

export class PatternStoreAdapter {
  readonly #open: () => Promise<PatternStore>;
  #store: Promise<PatternStore> | null = null;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Changes of other boxes that are not applied in memory yet; null: any row may have changed. */
  #changes: ChangedPattern[] | null = [];
  #following: Promise<void> | null = null;

  /**
   * @param open opens the store. If it fails, it is called again after a delay or at the next call, whichever is
   * earlier. If the opened store cannot read its data, `open` is called again only at the next call
   */
  constructor(open: () => Promise<PatternStore>) {
    this.#open = open;
  }

  async open(): Promise<null> {
    await this.#opened();
    return null;
  }

  async retrieve(request: RetrieveRequest): Promise<FoundMatches> {
    return (await this.#opened()).retrieve(request);
  }

  async add(input: { scope: PatternScope; patterns: readonly AddedPattern[] }): Promise<MergedPattern[]> {
    return (await this.#opened()).add(input.scope, input.patterns);
  }

  async remove(request: RemoveRequest): Promise<number> {
    return (await this.#opened()).remove(request);
  }

  /**
   * Applies changes of other boxes in memory. Resolves when they are applied, or at once if the store is not open:
   * a store that is opened later reads all rows.
   * @param changed null: any row may have changed
   */
  follow(changed: readonly ChangedPattern[] | null): Promise<void> {
    if (this.#store === null || this.#isClosed) return Promise.resolve();
    const known = this.#changes;
    const isMuch = changed === null || known === null || known.length + changed.length > CHANGES_MAX;
    this.#changes = isMuch ? null : [...known, ...changed];
    this.#following ??= this.#follow().finally(() => {
      this.#following = null;
    });
    return this.#following;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    const store = await this.#store?.catch(() => null);
    await store?.close();
  }

  async #follow(): Promise<void> {
    while (!this.#isClosed && (this.#changes === null || this.#changes.length > 0)) {
      const changes = this.#changes;
      this.#changes = [];
      try {
        await (await this.#store)?.follow(changes);
      } catch {
        if (this.#isClosed) return;
        // The store cannot read its rows now, or was not opened.
        this.#changes = null;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
      }
    }
  }

  #opened(): Promise<PatternStore> {
    if (this.#store === null) {
      clearTimeout(this.#retry);
      const opening = this.#open();
      const forget = () => {
        if (this.#store === opening) this.#store = null;
      };
      opening.then(
        (store) => store.whenLoaded().catch(forget),
        () => {
          forget();
          if (!this.#isClosed)
            this.#retry = setTimeout(() => this.#opened().catch(() => {}), RETRY_MS).unref();
        },
      );
      this.#store = opening;
    }
    return this.#store;
  }
}
