/**
 * Logs that the stores found damaged values, with the file and what to do, at most once a minute
 * for each file. Any thread.
 */
import type { Log } from '../log.ts';
import { RareTelling } from '../std/rare-telling.ts';
import { onDamagedValue } from '../storage/lmdb/sealed-table.ts';

/** Logs damaged values that this thread reads from now on. */
export function logDamagedValues(log: Log): void {
  const telling = new RareTelling<string>();
  onDamagedValue((file, table) => {
    const values = telling.count(file, 1);
    if (values === 0) return;
    log.error(
      { file, table, values },
      'a stored value is damaged and counts as missing: stop the service, check the disk, and restore a backup (understudy backup --help)',
    );
  });
}
