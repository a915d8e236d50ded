/**
 * Hoare's selection: finds the value of one rank without sorting all values, in time proportional to their number. Pure;
 * any thread.
 */

/**
 * Finds the value that would be at `rank` if the values were sorted.
 * @param values numbers without NaN; the function changes their order
 * @param rank from 0 to `values.length` - 1
 */
export function selectRank(values: Float64Array, rank: number): number {
  let [low, high] = [0, values.length - 1];
  while (low < high) {
    // The middle value is a good pivot for values that are sorted already.
    const pivot = values[(low + high) >>> 1]!;
    let [left, right] = [low, high];
    while (left <= right) {
      while (values[left]! < pivot) left++;
      while (values[right]! > pivot) right--;
      if (left > right) break;
      const value = values[left]!;
      values[left++] = values[right]!;
      values[right--] = value;
    }
    if (rank <= right) high = right;
    else if (rank >= left) low = left;
    else break;
  }
  return values[rank]!;
}
