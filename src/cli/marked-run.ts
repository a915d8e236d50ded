/** Finds the run, captured or reported, to which marks belong. Main thread of the command line. */
import { resolve } from 'node:path';
import { readCaptureOwner } from '../auth/owner.ts';
import { askRunWords } from '../captures/run-words.ts';
import type { Config } from '../config.ts';
import type { MarkedRun } from '../storage/ports/marks.ts';

/**
 * Finds the organization whose marks count for the run, by the rule of POST /capture/runs/{id}/mark; null: there is no
 * such run.
 */
export async function findMarkedRun(config: Config, runId: string): Promise<MarkedRun | null> {
  const { capture, data_dir, data_key } = config;
  const owner = readCaptureOwner(config);
  const db = resolve(capture.db);
  const reported = await askRunWords([resolve(data_dir)], { data_key, owner }, null, async (said) =>
    said.reportedOf(runId),
  );
  if (reported === undefined && !(await isCaptured(db, runId, data_key))) return null;
  return { run_id: runId, org_id: owner.org ?? reported?.org_id ?? '' };
}

async function isCaptured(db: string, runId: string, data_key: Uint8Array | null): Promise<boolean> {
  const { CaptureFiles } = await import('../captures/capture-files.ts');
  const files = await CaptureFiles.open(db, { data_key });
  try {
    for (const _ of files.summaries({ run_id: runId })) return true;
    return false;
  } finally {
    await files.close();
  }
}
