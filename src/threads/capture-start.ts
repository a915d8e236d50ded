/**
 * Opens the capture database before traffic arrives. If that fails, the start fails with a one-line
 * message. Main thread.
 */
import { dirname } from 'node:path';
import type { CaptureWriterClient } from '../../actors/capture-writer/client.ts';
import type { CaptureConfig } from '../config/capture.ts';
import { describeRefusal } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';
import { checkPlace } from '../storage/bucket/open-store.ts';

/**
 * Opens the database. The start fails if that is impossible, because every exchange would be
 * dropped.
 * @throws Error with a one-line message: which file, why, and what to do
 */
export async function openCapture(
  writer: CaptureWriterClient,
  { db, bucket }: Pick<CaptureConfig, 'db' | 'bucket'>,
): Promise<void> {
  try {
    if (bucket !== null) checkPlace(bucket.place);
  } catch (thrown) {
    throw Object.assign(new Error(`CAPTURE_BUCKET_URL: ${(thrown as Error).message}`), { code: 'ECAPTURE' });
  }
  try {
    // Create the folder on this thread: if that fails, the error is one of the file system, and it names the
    // path.
    makeFolder(dirname(db));
    await writer.open();
  } catch (thrown) {
    throw explainCapture(db, thrown);
  }
}

/**
 * Checks the configuration of a service that shows captures of other machines.
 * @throws Error with a one-line message
 */
export function checkReadFrom({ read_from }: Pick<CaptureConfig, 'read_from'>, isCapturing: boolean): void {
  if (read_from === null) return;
  const refuse = (why: string) => Object.assign(new Error(`CAPTURE_READ_URL: ${why}`), { code: 'ECAPTURE' });
  if (isCapturing)
    throw refuse(
      'this service shows captures of other machines, so it must not capture: set GW_CAPTURE=off, or start only the API with understudy serve',
    );
  try {
    checkPlace(read_from);
  } catch (thrown) {
    throw refuse((thrown as Error).message);
  }
}

/** Makes the error of a start that failed because the capture database cannot be opened. */
export function explainCapture(db: string, thrown: unknown): Error {
  const [line = ''] = thrown instanceof Error ? thrown.message.split('\n', 1) : [];
  const reason = line
    .replace(/^\w*Error: /, '')
    .replace(`${db}: `, '')
    .replace(/^cannot be opened: /, '');
  const words =
    `the capture database ${db} cannot be opened: ${describeRefusal(thrown) ?? reason}. Correct the cause, name another file with --db, ` +
    'or set GW_CAPTURE=off to forward without capture';
  return Object.assign(new Error(words, { cause: thrown }), { code: 'ECAPTURE' });
}
