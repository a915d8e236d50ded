/**
 * The ages of attachments. The age of an attachment is the time of its file: the log touches the file when an exchange refers to
 * it (attachments.ts). No exchange refers to an attachment that was last touched before the oldest exchange began. This
 * is true only since logs touch attachments. Attachments from before that time are not removed. Capture process.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { syncPath } from '../../std/synced-path.ts';
import { listDamaged } from './damage.ts';
import { attachmentsFolder } from './layout.ts';

/** Largest accepted difference between the clocks of exchanges and of files. */
const MARGIN_MS = 86_400_000;
const HEX_NAME = /^[0-9a-f]{64}$/;
const NAME = /^[\w-]{22,64}$/;

/**
 * Removes the attachments to which only exchanges before this time refer. @returns their number. @throws Error of the file system
 */
export async function removeUntouched(path: string, oldestMs: number): Promise<number> {
  const folder = attachmentsFolder(path);
  // Damaged files may refer to attachments that cannot be determined.
  if (!existsSync(folder) || listDamaged(path).length > 0) return 0;
  const touchedSince = readTouchedSince(path);
  if (touchedSince === null || oldestMs < touchedSince) return 0;
  let removed = 0;
  for await (const { name } of await opendir(folder)) {
    if (!HEX_NAME.test(name) && !NAME.test(name)) continue;
    const place = join(folder, name);
    // Check and remove in one tick, so that no exchange can refer to the attachment in between.
    const touched = statSync(place, { throwIfNoEntry: false })?.mtimeMs;
    if (touched === undefined || touched >= oldestMs - MARGIN_MS) continue;
    rmSync(place, { force: true });
    removed++;
  }
  if (removed > 0) syncPath(folder);
  return removed;
}

function touchedPlace(path: string): string {
  return `${path}.touched-since`;
}

/** Records the time from which the log touches attachments. Call it before the first exchange arrives. */
export function noteTouching(path: string, nowMs: number): void {
  const place = touchedPlace(path);
  if (existsSync(place)) return;
  const folder = attachmentsFolder(path);
  const isNew = !existsSync(folder) || readdirSync(folder).length === 0;
  writeFileSync(place, `${isNew ? 0 : nowMs}\n`, { mode: 0o600 });
}

function readTouchedSince(path: string): number | null {
  try {
    const ms = Number(readFileSync(touchedPlace(path), 'latin1'));
    return Number.isFinite(ms) ? ms : null;
  } catch {
    return null;
  }
}
