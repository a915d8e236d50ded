/** Tests whether anything in the steps distinguishes two groups of them. Pure; teaching. */

import { CHANCE, type MarkColumn } from '../student/model/relevance.ts';
import { MARK } from '../student/model/step-marks.ts';
import { SYSTEM_KIND } from '../student/model/student-model.ts';

/**
 * TESTED: a part with fewer steps is too small for a test against chance. BESIDE: a mark can distinguish a part that is
 * too small only if the other part has at least this many steps.
 */
const TESTED = 5;
const BESIDE = 8;
/** A mark distinguishes the parts if it explains at least this share of their difference. */
const EXPLAINED = 0.25;
/** Marks that name a state. Only these distinguish a small part, in which words may be equal by chance. */
const STATES: ReadonlySet<number> = new Set([
  MARK.fresh,
  MARK.past,
  MARK.earlier,
  MARK.shape,
  MARK.shared,
  MARK.system_number,
  SYSTEM_KIND,
]);

/**
 * Whether a mark distinguishes two parts of the steps: it explains at least the share `explained` of the difference,
 * and more than chance would. If a part is too small to test, these conditions must hold: the mark names a state; all
 * steps of one part have the mark, and no step of the other part has it; the smaller part has two steps or more, and
 * the larger part BESIDE or more.
 */
export function isSeparated(
  columns: readonly MarkColumn[],
  a: readonly number[],
  b: readonly number[],
  explained = EXPLAINED,
): boolean {
  const [n, smaller, larger] = [
    a.length + b.length,
    Math.min(a.length, b.length),
    Math.max(a.length, b.length),
  ];
  const whole = sumXLogX(n) - sumXLogX(a.length) - sumXLogX(b.length);
  const least = Math.max(CHANCE + 2 * Math.log(Math.max(1, columns.length)), explained * 2 * whole);
  return columns.some(({ kind, has }) => {
    let inA = 0;
    let inB = 0;
    for (const i of a) inA += has[i]!;
    for (const i of b) inB += has[i]!;
    const count = inA + inB;
    if (count === 0 || count === n) return false;
    if (smaller < TESTED) {
      const isPure = (inA === 0 && inB === b.length) || (inB === 0 && inA === a.length);
      return isPure && smaller >= 2 && larger >= BESIDE && STATES.has(kind);
    }
    const rest = n - count;
    const parts =
      sumXLogX(count) -
      sumXLogX(inA) -
      sumXLogX(inB) +
      (sumXLogX(rest) - sumXLogX(a.length - inA) - sumXLogX(b.length - inB));
    return 2 * (whole - parts) > least;
  });
}

/** Whether parts of this size are large enough to show that a mark explains the difference between them. */
export function isTested(columns: readonly MarkColumn[], a: number, b: number): boolean {
  const whole = sumXLogX(a + b) - sumXLogX(a) - sumXLogX(b);
  return Math.min(a, b) >= TESTED && 2 * whole >= 1.5 * (CHANCE + 2 * Math.log(Math.max(1, columns.length)));
}

function sumXLogX(x: number): number {
  return x > 1 ? x * Math.log(x) : 0;
}
