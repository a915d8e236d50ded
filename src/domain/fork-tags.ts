/**
 * The tags of a fork (`understudy replay --from`): the run and the turn from which it continues, and the result of
 * `--verify`. Pure; any thread, browser.
 */

/** Tags of a fork that `--verify` has judged. */
export const VERIFY_TAGS = { passed: 'verify:passed', failed: 'verify:failed' } as const;

const RUN_PREFIX = 'fork-of:';
const TURN_PREFIX = 'fork-turn:';

/** What a fork continues. */
export interface ForkPlace {
  /** The run that it continues. */
  run_id: string;
  /** The first model turn of the source run that the fork replaces, counted from 1. */
  turn: number;
}

/** Writes the tags of a fork in the form of the header `x-svc-tags`; null: the run's id cannot be in a header. */
export function writeForkTags({ run_id, turn }: ForkPlace): string | null {
  if (!/^[\x21-\x7e]+$/.test(run_id) || run_id.includes(',')) return null;
  return `${RUN_PREFIX}${run_id},${TURN_PREFIX}${turn}`;
}

/**
 * Reads the tags of a fork.
 * @returns null: the tags are not those of a fork
 */
export function readForkTags(tags: readonly string[]): ForkPlace | null {
  const readTag = (prefix: string) => tags.find((tag) => tag.startsWith(prefix))?.slice(prefix.length);
  const run_id = readTag(RUN_PREFIX);
  const turn = Number(readTag(TURN_PREFIX));
  return run_id === undefined || !Number.isInteger(turn) || turn < 1 ? null : { run_id, turn };
}
