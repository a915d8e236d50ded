/**
 * The words and signs of a step, for columns that may explain how an answer is worded. A round reads each step many
 * times, once for each part of the answers. So a step's tokens are kept as long as the step. Pure; the round's thread.
 */
import { RecentMap } from '../std/recent-map.ts';
import type { StepDigest } from '../student/model/step.ts';
import { readTokens } from '../student/model/text-tokens.ts';

/** Maximum number of a step's tokens that are read, from its beginning. */
const STEP_TOKENS = 1_500;
/** Maximum number of tokens whose strings all steps share. Each step keeps its other tokens itself. */
const SHARED_TOKENS = 50_000;
/** V8 stores a substring of this length or more as a reference into its text, which then stays in memory as a whole. */
const CUT_CHARACTERS = 13;

const kept = new WeakMap<object, readonly string[]>();
const shared = new RecentMap<string, string>(SHARED_TOKENS);

/**
 * Lists the distinct words and signs among the first STEP_TOKENS tokens of the JSON of a step's sources, without its
 * progress, in the order of their first occurrence. A word is in lower case and has # in place of digits. If the token
 * before a sign is a sign, too, the sign's token begins with it: `<=` gives `<` and `<=`.
 */
export function listStepTokens(step: Pick<StepDigest, 'sources'>): readonly string[] {
  let tokens = kept.get(step);
  if (tokens === undefined) {
    tokens = readStepTokens(step);
    kept.set(step, tokens);
  }
  return tokens;
}

function readStepTokens({ sources }: Pick<StepDigest, 'sources'>): string[] {
  const values = sources.filter(({ name }) => name !== 'progress').map(({ value }) => value);
  const text = JSON.stringify(values);
  const found = new Set<string>();
  let before = '';
  for (const { kind, key, start, end } of readTokens(text, STEP_TOKENS)) {
    const token = kind === 'sign' ? before + text.slice(start, end) : kind === 'word' ? key : '';
    before = kind === 'sign' ? text.slice(start, end) : '';
    if (token !== '') found.add(token);
  }
  return Array.from(found, shareToken);
}

function shareToken(token: string): string {
  let own = shared.get(token);
  if (own === undefined) {
    own = token.length < CUT_CHARACTERS ? token : Buffer.from(token).toString();
    shared.set(own, own);
  }
  return own;
}
