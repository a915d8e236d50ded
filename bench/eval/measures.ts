/** Measures of rankings, as ../shared/retrieval/README.md defines them. Bench process. */

/** Computes Spearman's rank correlation; ties get their mean rank. */
export function spearman(a: readonly number[], b: readonly number[]): number {
  const [x, y] = [meanRanks(a), meanRanks(b)];
  const mean = (a.length - 1) / 2;
  let xy = 0;
  let xx = 0;
  let yy = 0;
  for (let i = 0; i < a.length; i++) {
    xy += (x[i]! - mean) * (y[i]! - mean);
    xx += (x[i]! - mean) ** 2;
    yy += (y[i]! - mean) ** 2;
  }
  return xy / Math.sqrt(xx * yy);
}

function meanRanks(values: readonly number[]): Float64Array {
  const order = values.map((_, i) => i).sort((i, j) => values[i]! - values[j]!);
  const ranks = new Float64Array(values.length);
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to < order.length && values[order[to]!] === values[order[from]!]) to++;
    for (let k = from; k < to; k++) ranks[order[k]!] = (from + to - 1) / 2;
    from = to;
  }
  return ranks;
}

/** Returns the indices of the scores, from the highest score down. Equal scores keep their order. */
export function rankAll(scores: readonly number[]): number[] {
  return scores.map((_, i) => i).sort((i, j) => scores[j]! - scores[i]! || i - j);
}

/**
 * Computes the normalized discounted cumulative gain of the first ten documents. The gain of a document is 0 or 1, and
 * its discount is 1 / log2(rank + 1). The ideal ranking has all relevant documents first.
 */
export function ndcgAt10(ranking: readonly number[], relevant: ReadonlySet<number>): number {
  let gain = 0;
  let ideal = 0;
  for (let rank = 1; rank <= 10; rank++) {
    const discount = 1 / Math.log2(rank + 1);
    if (relevant.has(ranking[rank - 1]!)) gain += discount;
    if (rank <= relevant.size) ideal += discount;
  }
  return ideal === 0 ? 0 : gain / ideal;
}

/** Computes the average precision over the whole ranking. A relevant document that is not ranked counts 0. */
export function averagePrecision(ranking: readonly number[], relevant: ReadonlySet<number>): number {
  let found = 0;
  let sum = 0;
  for (const [i, place] of ranking.entries()) {
    if (!relevant.has(place)) continue;
    found++;
    sum += found / (i + 1);
  }
  return relevant.size === 0 ? 0 : sum / relevant.size;
}

/** Computes 1 divided by the rank of the first relevant document; 0 if none is ranked. */
export function reciprocalRank(ranking: readonly number[], relevant: ReadonlySet<number>): number {
  const at = ranking.findIndex((place) => relevant.has(place));
  return at < 0 ? 0 : 1 / (at + 1);
}
