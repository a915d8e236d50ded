/**
 * The end of a fork: the address of the page that compares it with the run that it continues, and the result of
 * `--verify`, stored as a tag and a note of the new run. Main thread of the command line.
 */
import { loadConfig } from '../config.ts';
import { VERIFY_TAGS } from '../domain/fork-tags.ts';
import { maskSecrets } from '../domain/patterns/text.ts';
import { RUN_NOTE_CHARACTERS, type RunMarkChange } from '../domain/run-mark.ts';
import { TableAccounts } from '../storage/accounts/table-accounts.ts';
import { databasePaths, openMain } from '../storage/lmdb/stores.ts';
import { OPERATOR } from './keys.ts';
import { findMarkedRun } from './marked-run.ts';

/** How long the gateway may take to store what it has captured. */
const FLUSH_MS = 5_000;

interface Fork {
  /** The captured run, and the new run that continues it. */
  run_id: string;
  new_run: string;
  db: string;
  /** The gateway to which the live part went; it captures the new run. */
  gateway: string;
  /** How the fork was made, as text for the note. */
  how: string;
  /** null: the result was not judged. */
  judged: { command: string; status: number } | null;
}

export interface KeptFork {
  /** Address of the page that compares both runs. */
  address: string;
  /** Why the verdict could not be stored; '': it was stored, or there is no verdict. */
  problem: string;
}

/** Stores the result of a judged fork as marks of the new run. Stores nothing for a fork that was not judged. */
export async function keepForkVerdict(fork: Fork): Promise<KeptFork> {
  const config = loadConfig({ listener: 'gateway', db: fork.db });
  const page = config.api.public_url ?? `http://127.0.0.1:${config.api.port}`;
  const runs = new URLSearchParams({ a: fork.run_id, b: fork.new_run });
  const address = `${page.replace(/\/$/, '')}/#/compare?${runs}`;
  if (fork.judged === null) return { address, problem: '' };
  await flush(fork.gateway);
  const run = await findMarkedRun(config, fork.new_run);
  if (run === null)
    return {
      address,
      problem: `the verdict is not kept: ${fork.db} has no run ${fork.new_run}; perhaps another gateway captured the run`,
    };
  const main = openMain(databasePaths(config.data_dir, config.data_key));
  try {
    const about = { ...run, log_org: run.org_id };
    await new TableAccounts(main).transact((tx) =>
      tx.marks.change(OPERATOR, Date.now(), about, sayVerdict(fork.judged!, fork.how)),
    );
    return { address, problem: '' };
  } finally {
    await main.close();
  }
}

function sayVerdict({ command, status }: NonNullable<Fork['judged']>, how: string): RunMarkChange {
  const [is, isNot] = status === 0 ? (['passed', 'failed'] as const) : (['failed', 'passed'] as const);
  const note = maskSecrets(`${command}: exit status ${status}; ${how}`).slice(0, RUN_NOTE_CHARACTERS);
  return { add_tags: [VERIFY_TAGS[is]], remove_tags: [VERIFY_TAGS[isNot]], note };
}

/** Asks the gateway to store its queue. An error is ignored, because another program may have this address. */
async function flush(gateway: string): Promise<void> {
  try {
    const signal = AbortSignal.timeout(FLUSH_MS);
    const answer = await fetch(new URL('/__gw/flush', gateway), { method: 'POST', signal });
    await answer.body?.cancel();
  } catch {
    // The run may be stored already. If it is not, the caller does not find it and reports that.
  }
}
