/**
 * The directions in which many vectors differ most: the leading right singular subspace of a sparse matrix, by
 * orthogonal iteration. The basis within the subspace is arbitrary and does not affect inner products. Development
 * only.
 */
import { createPrng } from '../../std/prng.ts';

/** A row of the sparse matrix: columns and their values. */
export interface SparseRow {
  at: Uint16Array;
  values: Float32Array;
}

/** Number of iterations; more do not change the evaluation. */
const ROUNDS = 6;

/** Finds the first `count` directions. @returns a [width, count] matrix, row by row, with orthonormal columns */
export function findAxes(rows: readonly SparseRow[], width: number, count: number): Float32Array {
  const random = createPrng(1);
  let basis = Float32Array.from({ length: width * count }, () => random.float() - 0.5);
  orthonormalise(basis, width, count);
  const along = new Float64Array(count);
  for (let round = 0; round < ROUNDS; round++) {
    const next = new Float32Array(width * count);
    for (const { at, values } of rows) {
      along.fill(0);
      for (let i = 0; i < at.length; i++) {
        const from = at[i]! * count;
        const x = values[i]!;
        for (let c = 0; c < count; c++) along[c]! += x * basis[from + c]!;
      }
      for (let i = 0; i < at.length; i++) {
        const from = at[i]! * count;
        const x = values[i]!;
        for (let c = 0; c < count; c++) next[from + c]! += x * along[c]!;
      }
    }
    basis = next;
    orthonormalise(basis, width, count);
  }
  return basis;
}

/**
 * Makes the columns orthonormal, in place, by Gram-Schmidt: two passes for each column, because one is too inexact if
 * columns are nearly parallel.
 */
function orthonormalise(basis: Float32Array, width: number, count: number): void {
  const columns = Array.from({ length: count }, (_, c) =>
    Float64Array.from({ length: width }, (_, row) => basis[row * count + c]!),
  );
  for (const [c, column] of columns.entries()) {
    for (let pass = 0; pass < 2; pass++) {
      for (let other = 0; other < c; other++) {
        const before = columns[other]!;
        let dot = 0;
        for (let i = 0; i < width; i++) dot += column[i]! * before[i]!;
        for (let i = 0; i < width; i++) column[i]! -= dot * before[i]!;
      }
    }
    let square = 0;
    for (const x of column) square += x * x;
    const length = Math.sqrt(square) || 1;
    for (let i = 0; i < width; i++) {
      column[i]! /= length;
      basis[i * count + c] = column[i]!;
    }
  }
}
