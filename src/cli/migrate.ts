/** `understudy migrate`: makes the tables of this version in the PostgreSQL database that several boxes share. Main thread. */

import { ConfigError } from '../config/config-error.ts';
import { loadConfig } from '../config.ts';
import { TruthRefusedError, TruthUnavailableError } from '../storage/shared/truth.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT } from './io.ts';
import { makeHarmlessLine } from './terminal-text.ts';

const HELP = `Makes the tables of this version in the PostgreSQL database that AUTH_DB_URL names (docs/scale.md). The command never
goes back to an older version, and makes all changes or none. If two commands run at the same time, one waits for the
other. Run the command before the first start of a box, and with each new version before a box of that version starts. The user of
AUTH_DB_URL must be allowed to create a schema in the database. The boxes may use another user with fewer rights.

Usage: understudy migrate [--check]

  --check   change nothing; exit with 1 if something is missing

Examples:
  AUTH_DB_URL=postgres://owner:PASSWORD@db.example/understudy understudy migrate
  understudy migrate --check
`;

/** Runs `understudy migrate`. @returns the exit status */
export async function runMigrate(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, { check: 'switch' });
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const { shared_database: address } = loadConfig({ listener: 'api' });
  if (address === null)
    throw new ConfigError(
      'AUTH_DB_URL',
      '',
      'must be the address of a PostgreSQL database: postgres://USER:PASSWORD@HOST:PORT/DATABASE',
    );
  // Imported only here, because the module loads the driver of PostgreSQL.
  const { checkDatabase, migrateDatabase } = await import('../storage/postgres/truth.ts');
  try {
    if (values.check === true) {
      await checkDatabase(address);
      await io.out('The database has the tables of this version.\n');
      return EXIT.done;
    }
    const { from, to } = await migrateDatabase(address);
    await io.out(
      from === to
        ? `The database has the tables of this version already (${to}).\n`
        : `The database has the tables of version ${to} now${from === 0 ? '' : `, instead of version ${from}`}.\n`,
    );
    return EXIT.done;
  } catch (thrown) {
    if (!(thrown instanceof TruthRefusedError || thrown instanceof TruthUnavailableError)) throw thrown;
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
}
