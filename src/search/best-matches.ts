/**
 * Keeps the best of many matches that are offered one by one. Any thread.
 */
import type { VectorMatch } from './vector-index.ts';

/** Keeps at most `k` matches, sorted. Sorting is fast, because `k` is small and most offers are rejected at once. */
export class BestMatches {
  readonly #k: number;
  /** The kept matches, best first. */
  readonly #kept: VectorMatch[] = [];
  /** The similarity that an offer must reach; for equal similarity the smaller id wins. */
  #least: number;

  constructor(k: number, minSimilarity: number) {
    this.#k = k;
    this.#least = k > 0 ? minSimilarity : Number.POSITIVE_INFINITY;
  }

  offer(id: number, similarity: number): void {
    if (!(similarity >= this.#least)) return;
    const kept = this.#kept;
    let at = kept.length;
    while (at > 0 && isBetter(id, similarity, kept[at - 1]!)) at--;
    if (at >= this.#k) return;
    kept.splice(at, 0, { id, similarity });
    if (kept.length > this.#k) kept.pop();
    if (kept.length === this.#k) this.#least = Math.max(this.#least, kept[kept.length - 1]!.similarity);
  }

  /** Returns the kept matches, best first; nothing may be offered afterwards. */
  take(): VectorMatch[] {
    return this.#kept;
  }
}

function isBetter(id: number, similarity: number, than: VectorMatch): boolean {
  return similarity > than.similarity || (similarity === than.similarity && id < than.id);
}
