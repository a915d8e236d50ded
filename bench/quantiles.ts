/** Quantiles and medians. Pure; all processes of the bench. */

/** Percentiles of a set of measurements, in the measurements' unit. */
export interface Quantiles {
  count: number;
  p50: number;
  p99: number;
  p999: number;
  max: number;
}

/** Takes nearest-rank percentiles; NaN without values. Sorts `values` in place. */
export function takeQuantiles(values: Float64Array): Quantiles {
  values.sort();
  const at = (q: number): number => values[Math.max(0, Math.ceil(values.length * q) - 1)] ?? Number.NaN;
  return { count: values.length, p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1) };
}

/** The middle value, without the NaN values; for an even count, the mean of the two middle ones; NaN for none. */
export function takeMedian(values: number[]): number {
  const sorted = values.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
  const half = sorted.length >> 1;
  const upper = sorted[half] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? Number.NaN) + upper) / 2;
}

/** Collects measurements in a typed array that doubles its size. */
export class Samples {
  #values = new Float64Array(4096);
  #length = 0;

  add(value: number): void {
    if (this.#length === this.#values.length) {
      const grown = new Float64Array(this.#length * 2);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.#length++] = value;
  }

  quantiles(): Quantiles {
    return takeQuantiles(this.#values.slice(0, this.#length));
  }
}
