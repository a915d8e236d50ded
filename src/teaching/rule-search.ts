/**
 * Finds rules that together give the right value in every golden step, and of which none is ever wrong. Plain rules,
 * which copy a value, are tried first. If plain rules do not explain all steps, derived rules (derived-rules.ts) are
 * tried. Derived rules must hold in more runs, because more of them are tried. Pure; teaching.
 */

import {
  applyRule,
  type ExtractionRule,
  type ProvenRule,
  proposeRules,
  rankRule,
  type StepContext,
  sameValue,
} from '../student/model/extraction.ts';
import { isAbsolutePath } from '../student/model/file-paths.ts';
import { canonicalText } from '../student/model/json-values.ts';
import { STUDENT_CORE } from '../student/model/limits.ts';
import { proposeDerivedRules } from './derived-rules.ts';

/** One value of one golden step. */
interface ValueExample {
  value: unknown;
  context: StepContext;
  run_id: string;
}

/** Maximum number of examples from which rules are proposed. Each may suggest rules that the others do not suggest. */
const PROPOSERS = 6;
/** Minimum number of runs, and of different values, in which a derived rule is right. */
export const DERIVED = { runs: 5, values: 3 } as const;
/**
 * A derived rule is first tried on a sample of `examples`. It is dropped if it is right in none of the first `first`
 * examples, or in less than the share `right` of the sample.
 */
const SAMPLE = { examples: 24, right: 0.25, first: 7 } as const;
/** A longer value that is no path is prose, which no derived rule gives. */
const DERIVED_CHARACTERS = 80;

type FoundRules = { rules: ProvenRule[] } | { rules: null; best: boolean[] | null };

/**
 * Finds rules that together give the value in every example.
 * @param mayDerive whether derived rules are tried, too
 * @returns `rules` is null if there are no such rules; `best` then marks the examples for which the best rule is right,
 * and is null if no rule is right in enough runs
 */
export function findRules(
  examples: readonly ValueExample[],
  supportMin: number,
  tools: readonly string[],
  mayDerive = true,
): FoundRules {
  const search = new RuleSearch(examples);
  search.try(({ value, context }) => proposeRules(value, context, tools), supportMin, 1);
  if (mayDerive && !search.isComplete && search.mayVary())
    search.try(
      ({ value, context }) => proposeDerivedRules(value, context),
      Math.max(supportMin, DERIVED.runs),
      DERIVED.values,
    );
  return search.result();
}

class RuleSearch {
  readonly #examples: readonly ValueExample[];
  readonly #proven: (ProvenRule & { rank: number; right: number })[] = [];
  readonly #tried = new Set<string>();
  readonly #isCovered: boolean[];
  #best: boolean[] | null = null;
  #bestRight = 0;

  constructor(examples: readonly ValueExample[]) {
    this.#examples = examples;
    this.#isCovered = examples.map(() => false);
  }

  get isComplete(): boolean {
    return !this.#isCovered.includes(false);
  }

  /** Whether the examples have enough different short values for a derived rule. */
  mayVary(): boolean {
    const areShort = this.#examples.every(
      ({ value }) => typeof value !== 'string' || value.length <= DERIVED_CHARACTERS || isAbsolutePath(value),
    );
    return (
      areShort && new Set(this.#examples.map(({ value }) => canonicalText(value))).size >= DERIVED.values
    );
  }

  /** Proposes rules from some examples that no rule explains yet, and keeps those that are never wrong. */
  try(propose: (example: ValueExample) => ExtractionRule[], supportMin: number, valuesMin: number): void {
    const examples = this.#examples;
    for (let round = 0; round < PROPOSERS; round++) {
      const proposer = examples.findIndex(
        (_, i) => !this.#isCovered[i] && (round === 0 || i >= (round * examples.length) / PROPOSERS),
      );
      const from = proposer >= 0 ? proposer : this.#isCovered.indexOf(false);
      if (from < 0) break;
      for (const rule of propose(examples[from]!)) {
        const id = JSON.stringify(rule);
        if (this.#tried.has(id)) continue;
        this.#tried.add(id);
        if (valuesMin === 1 || this.#isPromising(rule)) this.#test(rule, supportMin, valuesMin);
      }
    }
  }

  /** Whether a rule is right often enough in the sample, see {@link SAMPLE}. */
  #isPromising(rule: ExtractionRule): boolean {
    const examples = this.#examples;
    if (examples.length <= SAMPLE.examples) return true;
    let right = 0;
    for (let i = 0; i < SAMPLE.examples; i++) {
      if (this.#judge(rule, Math.floor((i * examples.length) / SAMPLE.examples)) === true) right++;
      if (i + 1 === SAMPLE.first && right === 0) return false;
    }
    return right >= SAMPLE.right * SAMPLE.examples;
  }

  /**
   * Tests a rule on one example.
   * @returns null when the rule finds nothing
   */
  #judge(rule: ExtractionRule, i: number): boolean | null {
    const { value, context } = this.#examples[i]!;
    const found = applyRule(rule, context);
    return found === undefined ? null : sameValue(found, value);
  }

  #test(rule: ExtractionRule, supportMin: number, valuesMin: number): void {
    const verdict = this.#examples.map((_, i) => this.#judge(rule, i));
    const right = [...verdict.keys()].filter((i) => verdict[i] === true);
    const runs = new Set(right.map((i) => this.#examples[i]!.run_id));
    if (runs.size < supportMin) return;
    if (valuesMin > 1 && new Set(right.map((i) => canonicalText(this.#examples[i]!.value))).size < valuesMin)
      return;
    if (right.length > this.#bestRight) {
      this.#bestRight = right.length;
      this.#best = verdict.map((is) => is === true);
    }
    if (verdict.includes(false)) return;
    for (const i of right) this.#isCovered[i] = true;
    this.#proven.push({ rule, runs: runs.size, rank: rankRule(rule), right: right.length });
  }

  result(): FoundRules {
    const examples = this.#examples;
    const best = this.#bestRight < examples.length ? this.#best : null;
    if (!this.isComplete) return { rules: null, best };
    const proven = this.#proven.sort((a, b) => b.right - a.right || a.rank - b.rank);
    // Keep the best rules, and other plain rules that may cover the remaining examples. If one rule covers
    // every example, a rule that covers fewer than 60 % of them is a coincidence.
    const isComplete = proven[0]!.right === examples.length;
    const worthwhile = isComplete ? proven.filter(({ right }) => right >= 0.6 * examples.length) : proven;
    const kept = worthwhile.slice(0, STUDENT_CORE.rules);
    for (const further of worthwhile.slice(STUDENT_CORE.rules)) {
      if (kept.length >= 2 * STUDENT_CORE.rules) break;
      if (!isComplete && further.rank < 2) kept.push(further);
    }
    const covers = examples.map((example) =>
      kept.some(({ rule }) => applyRule(rule, example.context) !== undefined),
    );
    if (covers.includes(false)) return { rules: null, best: this.#best };
    return { rules: kept.map(({ rule, runs }) => ({ rule, runs })) };
  }
}
