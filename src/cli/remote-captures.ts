/**
 * `--db` with a bucket: copies the captures of its gateways into DATA_DIR, and runs the command on the copies. Main
 * thread of the command line.
 */
import type { Config } from '../config.ts';
import { gatheringFolder } from '../storage/offload/gathering-place.ts';
import { fetchCaptures, type RemoteCaptures } from '../storage/offload/remote-captures.ts';
import { UsageError } from './io.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const PLACE = /^(?:s3|file):\/\//i;

/** The bucket that `--db` names, and its position in argv; null: `--db` names a file or is absent. */
export function findPlace(argv: readonly string[]): { at: number; text: string } | null {
  const at = argv.findIndex((word) => word === '--' || word === '--db' || word.startsWith('--db='));
  if (at < 0 || argv[at] === '--') return null;
  const text = argv[at] === '--db' ? argv[at + 1] : argv[at]!.slice('--db='.length);
  return text !== undefined && PLACE.test(text) ? { at, text } : null;
}

/** A command over one gateway's captures. */
interface RemoteCommand {
  captures: RemoteCaptures;
  argv: string[];
}

/**
 * Copies the captures of a bucket's gateways into DATA_DIR.
 * @param place the value of `--db`; `gateway=NAME` in its query selects one gateway
 * @returns the command for each gateway, with the path of the copy
 * @throws UsageError; StoreError
 */
export async function bringCaptures(
  argv: readonly string[],
  { at, text }: { at: number; text: string },
  { data_dir, data_key }: Pick<Config, 'data_dir' | 'data_key'>,
): Promise<RemoteCommand[]> {
  if (!URL.canParse(text))
    throw new UsageError(
      `--db takes a bucket such as s3://bucket/prefix?region=REGION, not ${makeHarmlessLine(text)}`,
    );
  const url = new URL(text);
  const gateway = url.searchParams.get('gateway');
  url.searchParams.delete('gateway');
  const place = url.href.replace(/\?$/, '');
  const folder = gatheringFolder(data_dir, place);
  const all = await fetchCaptures({ place, gateway, folder, data_key });
  const after = argv.slice(argv[at] === '--db' ? at + 2 : at + 1);
  // The path replaces the bucket at its position, because the words after `--` are another command.
  return all.map((captures) => ({ captures, argv: [...argv.slice(0, at), '--db', captures.db, ...after] }));
}
