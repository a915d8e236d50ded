/** Quantiles and medians of the bench; pure, used in its processes wherever figures are made. */

/** Percentiles of a set of measurements, in their unit. */
export interface Quantiles {
  count: number;
  p50: number;
  p99: number;
  p999: number;
  max: number;
}

/** Nearest-rank percentiles. Sorts `values` in place. All NaN without values. */
export function takeQuantiles(values: Float64Array): Quantiles {
  values.sort();
  const at = (q: number): number => values[Math.max(0, Math.ceil(values.length * q) - 1)] ?? Number.NaN;
  return { count: values.length, p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1) };
}

/** The middle value, the mean of the two middle ones for an even count; NaN for none. */
export function takeMedian(values: number[]): number {
  const sorted = values.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
  const half = sorted.length >> 1;
  const upper = sorted[half] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? Number.NaN) + upper) / 2;
}

/** Measurements as they come, in a typed array that doubles. */
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
