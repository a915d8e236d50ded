/**
 * What a change of the data key or an erasure is about to do, in DATA_DIR/rekey.json. Whatever cuts it short, it is then either
 * undone or finished, and nobody starts from half of it. Main thread.
 *
 * First everything is written anew beside what is there: `writing`. Then the plan says `written`, in one rename, and from
 * there on the new files take their places, which needs no key and may be done again from the start.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { namePlace } from '../std/file-place.ts';
import { claimWriter, type WriterClaim } from './writer-claim.ts';

const planSchema = z.object({
  format: z.literal('understudy_rekey_v1'),
  state: z.enum(['writing', 'written']),
  /** Names the new key; null: nothing will be encrypted. */
  key_id: z.string().nullable(),
  /** Databases that nobody may write to meanwhile. */
  claims: z.array(z.string()),
  /** New files and folders, and whose place they take; a folder in the place goes first. */
  moves: z.array(z.object({ from: z.string(), to: z.string() })),
  /** What has no meaning under the new key. */
  removals: z.array(z.string()),
});

export type RekeyPlan = z.output<typeof planSchema>;

export function planPath(dataDir: string): string {
  return join(dataDir, 'rekey.json');
}

/** Why nothing is to be read or written there now. */
export function describePlan(dataDir: string): string {
  return `what ${dataDir} holds is being written anew (understudy rekey, understudy erase), or that was cut short, which the next start settles`;
}

/** @returns null when there is none; @throws Error for one that cannot be read */
export function readPlan(dataDir: string): RekeyPlan | null {
  const path = planPath(dataDir);
  if (!existsSync(path)) return null;
  try {
    return planSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (cause) {
    const words = `${path} cannot be read: restore a backup, or ask who has changed it`;
    throw Object.assign(new Error(words, { cause }), { code: 'EREKEY' });
  }
}

/** It is on the disk when this returns. */
export function writePlan(dataDir: string, plan: RekeyPlan): void {
  const path = planPath(dataDir);
  const draft = `${path}.new`;
  try {
    writeFileSync(draft, `${JSON.stringify(plan, null, 2)}\n`, { mode: 0o600, flush: true });
    renameSync(draft, path);
    syncFolder(dataDir);
  } catch (thrown) {
    throw namePlace(thrown, path);
  }
}

/**
 * Finishes or undoes a change of the key that was cut short.
 * @param held databases that this process has claimed
 * @param step told before each thing that is done
 * @returns what was done; null when there was nothing to do
 * @throws WriterClaimedError when another process is at work
 */
export async function settlePlan(
  dataDir: string,
  held: readonly string[] = [],
  step: () => void = () => {},
): Promise<{ done: 'finished' | 'undone'; key_id: string | null } | null> {
  if (readPlan(dataDir) === null) return null;
  const claims: WriterClaim[] = [];
  try {
    for (const path of readPlan(dataDir)?.claims ?? [])
      if (!held.includes(path)) claims.push(await claimWriter(path, { patience_ms: 0 }));
    // As it is now that nobody else is at work.
    const plan = readPlan(dataDir);
    if (plan === null) return null;
    if (plan.state === 'written') finishPlan(dataDir, plan, step);
    else undoPlan(dataDir, plan);
    return { done: plan.state === 'written' ? 'finished' : 'undone', key_id: plan.key_id };
  } finally {
    for (const claim of claims) await claim.release();
  }
}

/** What was written anew takes its places. */
export function finishPlan(dataDir: string, plan: RekeyPlan, step: () => void): void {
  const folders = new Set<string>([dataDir]);
  for (const { from, to } of plan.moves) {
    folders.add(dirname(to));
    // Not there: it was moved before.
    if (!existsSync(from)) continue;
    step();
    rmSync(to, { recursive: true, force: true });
    step();
    renameSync(from, to);
  }
  for (const path of plan.removals) {
    step();
    rmSync(path, { recursive: true, force: true });
  }
  for (const folder of folders) syncFolder(folder);
  step();
  endPlan(dataDir);
}

function undoPlan(dataDir: string, plan: RekeyPlan): void {
  for (const { from } of plan.moves) {
    rmSync(from, { recursive: true, force: true });
    rmSync(`${from}-lock`, { force: true });
  }
  endPlan(dataDir);
}

function endPlan(dataDir: string): void {
  rmSync(planPath(dataDir), { force: true });
  syncFolder(dataDir);
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
