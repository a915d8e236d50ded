/**
 * Removes attachments to which no exchange refers any more. The log updates the modification time of an attachment's
 * file when an exchange refers to it (attachments.ts). So no exchange refers to an attachment whose file is older than
 * the oldest exchange. Early versions did not update that time, so nothing is removed while exchanges from that period
 * exist. Capture process.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { syncPath } from '../../std/synced-path.ts';
import { listDamaged } from './damage.ts';
import { attachmentsFolder } from './layout.ts';

/** Maximum accepted difference between the clock that dates exchanges and the clock that dates files. */
const MARGIN_MS = 86_400_000;
const HEX_NAME = /^[0-9a-f]{64}$/;
const NAME = /^[\w-]{22,64}$/;

/**
 * Removes the attachments to which no exchange since this time refers. Removes nothing while damaged capture files
 * exist, or exchanges from before `noteTouching`.
 * @param oldestMs when the oldest exchange began, in milliseconds since the epoch
 * @returns the number of removed files
 * @throws a file system error
 */
export async function removeUntouched(path: string, oldestMs: number): Promise<number> {
  const folder = attachmentsFolder(path);
  // Damaged capture files may refer to any attachment.
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

/**
 * Records that from now on the log updates the times of attachments' files. Call it before the first exchange arrives.
 */
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
