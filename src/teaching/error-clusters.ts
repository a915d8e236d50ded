/**
 * Tests whether the errors of a kind of answer depend on the form of the answer. If the errors do not depend on the
 * form, a form without an error is a matter of chance, and the evidence of the whole kind counts for that form. Pure;
 * teaching.
 *
 * A permutation test: the errors are distributed again at random among the same answers, and the shares of the forms
 * are compared each time (Good, "Permutation, Parametric and Bootstrap Tests of Hypotheses", 2005). The test is also
 * valid for small numbers.
 */

import { createPrng } from '../std/prng.ts';

/** An answer of the student; `form` is the name of its form. */
export interface FormAnswer {
  run_id: string;
  form: string;
  is_right: boolean;
}

/** Probability of the result that errors depend on the form although they do not. */
const CHANCE = 0.003;
/** Number of random distributions of the errors. */
const DEALS = 999;

/**
 * Whether the forms differ in their share of errors by more than chance explains. Answers of one form in one run count
 * once, because their errors come together.
 */
export function doErrorsCluster(answers: readonly FormAnswer[]): boolean {
  const { forms, wrong } = countUnits(answers);
  const sizes = new Float64Array(Math.max(0, ...forms) + 1);
  for (const form of forms) sizes[form]!++;
  const errors = wrong.reduce((sum, each) => sum + each, 0);
  if (sizes.length < 2 || errors === 0 || errors === forms.length) return false;
  const measure = (counts: Float64Array): number =>
    counts.reduce((sum, count, form) => sum + (count * count) / sizes[form]!, 0);
  const counts = new Float64Array(sizes.length);
  for (const [i, form] of forms.entries()) counts[form]! += wrong[i]!;
  const found = measure(counts);
  const random = createPrng(1);
  const dealt = Int32Array.from(forms);
  let asMuch = 0;
  for (let deal = 0; deal < DEALS; deal++) {
    counts.fill(0);
    // The first `errors` of a shuffled list are a random choice of answers.
    for (let i = 0; i < errors; i++) {
      const j = i + random.below(dealt.length - i);
      const form = dealt[j]!;
      dealt[j] = dealt[i]!;
      dealt[i] = form;
      counts[form]!++;
    }
    if (measure(counts) >= found - 1e-9) asMuch++;
    if (asMuch + 1 > CHANCE * (DEALS + 1)) return false;
  }
  return true;
}

/** One entry for each run and form: the number of the form, and 1 when an answer of it is wrong. */
function countUnits(answers: readonly FormAnswer[]): { forms: number[]; wrong: number[] } {
  const numbers = new Map<string, number>();
  const units = new Map<string, number>();
  const forms: number[] = [];
  const wrong: number[] = [];
  for (const { run_id, form, is_right } of answers) {
    const number = numbers.get(form) ?? numbers.size;
    numbers.set(form, number);
    const key = `${number} ${run_id}`;
    const unit = units.get(key) ?? forms.length;
    units.set(key, unit);
    forms[unit] = number;
    if (!is_right) wrong[unit] = 1;
    else wrong[unit] ??= 0;
  }
  return { forms, wrong };
}
