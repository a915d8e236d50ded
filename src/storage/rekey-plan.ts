/**
 * The plan of a change of the data key or an erasure, in DATA_DIR/rekey.json. If the change is interrupted, the next
 * start or command finishes or undoes it. Main thread.
 * In state `writing`, all new files are written beside the old ones. Then one rename sets the state to `written`.
 * From then on, the new files replace the old ones. That needs no key, and can be repeated from the start.
 * The plan contains paths that are replaced and removed, so it is checked before it is written and after it is read:
 * it may contain only what a change of the key or an erasure creates, in DATA_DIR and beside the capture database.
 */
import { existsSync, lstatSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { z } from 'zod';
import { namePlace } from '../std/file-place.ts';
import { syncFolder } from '../std/folder.ts';
import { keysPath } from './capture/capture-keys.ts';
import { attachmentsFolder, rawFolder, sealedPath } from './capture/layout.ts';
import { listRekeyOrderFiles } from './capture/rewrite-order.ts';
import { listRunIndexFiles } from './capture/run-index.ts';
import { type PlanPlace, planPath } from './plan-file.ts';
import { isSegmentName, textIndexFolder } from './text-index/segment-files.ts';
import { claimWriter, type WriterClaim } from './writer-claim.ts';

const planSchema = z.object({
  format: z.literal('understudy_rekey_v1'),
  state: z.enum(['writing', 'written']),
  /** Identifies the new key; null: the data will not be encrypted. */
  key_id: z.string().nullable(),
  /** Databases to which no other process may write during the change. */
  claims: z.array(z.string()),
  /** New files and folders, and the paths that they replace. A folder at such a path is removed first. */
  moves: z.array(z.object({ from: z.string(), to: z.string() })),
  /** Paths to remove, because their content is useless with the new key. */
  removals: z.array(z.string()),
});

export type RekeyPlan = z.output<typeof planSchema>;

/** Suffixes of new files and folders until they replace the old ones. */
const PARTS = ['.rekey', '.erase'];

/**
 * Reads and checks the plan.
 * @returns null if there is no plan
 * @throws Error if the plan is not readable, or contains a path that no change of the key and no erasure touches
 */
function readPlan(place: PlanPlace): RekeyPlan | null {
  const path = planPath(place.data_dir);
  if (!existsSync(path)) return null;
  let plan: RekeyPlan;
  try {
    plan = planSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (cause) {
    throw refuse(`${path} cannot be read: restore a backup, or find out what has changed the file`, cause);
  }
  checkPlan(place, plan);
  return plan;
}

/** Checks the paths of a plan. @throws Error for the first path that is not allowed for `place` */
function checkPlan(place: PlanPlace, { claims, moves, removals }: RekeyPlan): void {
  const { data_dir, capture_db } = place;
  const databases = [join(data_dir, 'main.mdb'), join(data_dir, 'runs.mdb'), capture_db];
  const files = attachmentsFolder(capture_db);
  const isDatabase = (path: string) => databases.includes(path) || isSealedName(capture_db, path);
  const texts = textIndexFolder(capture_db);
  const derived = [
    rawFolder(capture_db),
    ...listRunIndexFiles(capture_db),
    texts,
    join(data_dir, 'pattern-graphs'),
    keysPath(capture_db),
    ...listRekeyOrderFiles(capture_db),
  ];
  const isRemoval = (path: string) =>
    derived.includes(path) ||
    (path.endsWith('-lock') && isDatabase(path.slice(0, -'-lock'.length))) ||
    (dirname(path) === data_dir && /^runs\.\d+\.redo$/.test(basename(path))) ||
    (dirname(path) === texts && isSegmentName(basename(path)) && !isLink(texts)) ||
    (dirname(path) === files && /^[0-9a-f]{64}$/.test(basename(path)) && !isLink(files));
  const isMove = ({ from, to }: { from: string; to: string }) =>
    (isDatabase(to) || to === files) && PARTS.some((part) => from === to + part) && !isLink(from);
  const strange =
    claims.find((path) => !databases.includes(path)) ??
    moves.find((move) => !isMove(move))?.to ??
    removals.find((path) => !isRemoval(path));
  if (strange === undefined) return;
  throw refuse(
    `${planPath(data_dir)} names ${JSON.stringify(strange)}, which is neither of DATA_DIR ${data_dir} nor of the ` +
      `capture database ${capture_db}: name with --db the database for which the plan was written, or find out what has changed the plan`,
    null,
  );
}

function isSealedName(captureDb: string, path: string): boolean {
  if (dirname(path) !== dirname(captureDb)) return false;
  const extension = extname(captureDb);
  const [first, last] = /\.(\d+)-(\d+)(?:\.sealing)?(?:\.[^.]*)?$/.exec(path)?.slice(1).map(Number) ?? [];
  if (first === undefined || last === undefined || !path.endsWith(extension)) return false;
  return [true, false].some((sealing) => sealedPath(captureDb, first, last, sealing) === path);
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
}

function refuse(words: string, cause: unknown): Error {
  return Object.assign(new Error(words, { cause }), { code: 'EREKEY' });
}

/**
 * Writes the plan. It is on the disk when this returns.
 * @throws Error for a plan that a read would refuse; a file system error
 */
export function writePlan(place: PlanPlace, plan: RekeyPlan): void {
  checkPlan(place, plan);
  const dataDir = place.data_dir;
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
 * Finishes or undoes an interrupted change of the key or erasure.
 * @param held databases that this process has claimed
 * @param step called before each step
 * @returns what was done; null if there was nothing to do
 * @throws WriterClaimedError if another process uses the data
 */
export async function settlePlan(
  place: PlanPlace,
  held: readonly string[] = [],
  step: () => void = () => {},
): Promise<{ done: 'finished' | 'undone'; key_id: string | null } | null> {
  if (readPlan(place) === null) return null;
  const claims: WriterClaim[] = [];
  try {
    for (const path of readPlan(place)?.claims ?? [])
      if (!held.includes(path)) claims.push(await claimWriter(path, { patience_ms: 0 }));
    // Read again, because only now, with the claims, no other process can change the plan.
    const plan = readPlan(place);
    if (plan === null) return null;
    if (plan.state === 'written') finishPlan(place, plan, step);
    else undoPlan(place, plan);
    return { done: plan.state === 'written' ? 'finished' : 'undone', key_id: plan.key_id };
  } finally {
    for (const claim of claims) await claim.release();
  }
}

/** Moves the new files and folders to their places, removes what is useless now, and removes the plan. */
export function finishPlan({ data_dir: dataDir }: PlanPlace, plan: RekeyPlan, step: () => void): void {
  const folders = new Set<string>([dataDir]);
  for (const { from, to } of plan.moves) {
    folders.add(dirname(to));
    // The file was already moved by an earlier, interrupted attempt.
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

function undoPlan({ data_dir: dataDir }: PlanPlace, plan: RekeyPlan): void {
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
