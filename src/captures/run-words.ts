/** Gives commands external statements about captured runs (storage/run-words.ts). Command line; reads only. */
import { dirname, resolve } from 'node:path';
import type { CaptureOwner, RunWords } from '../domain/run-mark.ts';
import { type SaidOfRuns, saidBy } from './run-entry.ts';
import type { RunTexts } from './run-texts.ts';

/** Folders whose databases may hold statements: DATA_DIR, and the folder of the capture file. */
export function listWordFolders(db: string, dataDir: string): string[] {
  return [...new Set([resolve(dataDir), dirname(resolve(db))])];
}

/** The parameters for reading statements. */
interface WordsReader {
  /** The databases' key, a secret; null if they are not encrypted. */
  data_key: Uint8Array | null;
  /** The organization of the captures. */
  owner: CaptureOwner;
}

async function openRunWords(folders: readonly string[], { data_key, owner }: WordsReader) {
  const [{ StoredRunWords }, { speaksOfCaptures }, { wordPaths }] = await Promise.all([
    import('../storage/run-words.ts'),
    import('../storage/accounts/capture-owner.ts'),
    import('../storage/lmdb/stores.ts'),
  ]);
  return new StoredRunWords(
    folders.map((folder) => wordPaths(folder, data_key)),
    (accounts, org_id) => speaksOfCaptures(accounts, owner, org_id),
  );
}

/**
 * Gives a command access to statements about runs.
 * @param texts searches what was said in runs; null if the command does not need it
 * @param work what the command does with this access
 * @throws RunWordsError
 */
export async function askRunWords<Value>(
  folders: readonly string[],
  reader: WordsReader,
  texts: RunTexts | null,
  work: (said: SaidOfRuns) => Promise<Value>,
): Promise<Value> {
  const stored = await openRunWords(folders, reader);
  try {
    stored.followReported(() => true);
    return await work(saidBy(stored, texts));
  } finally {
    await stored.close();
  }
}

/**
 * Reads statements about the runs of a command.
 * @param folders may contain databases
 * @param runs finds a captured run by its id; undefined if absent
 * @throws RunWordsError
 */
export async function readRunWords(
  folders: readonly string[],
  reader: WordsReader,
  runs: { find(runId: string): unknown },
): Promise<Map<string, RunWords>> {
  const stored = await openRunWords(folders, reader);
  try {
    return stored.all(runs);
  } finally {
    await stored.close();
  }
}
