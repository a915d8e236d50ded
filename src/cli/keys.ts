/**
 * `understudy keys` and `understudy feedback`: the operator's work directly on the database, without signing in. The
 * service may run meanwhile. Main thread.
 */

import { makeApiKey } from '../auth/api-key.ts';
import { isEnded } from '../auth/key-store.ts';
import { loadConfig } from '../config.ts';
import { KEY_NAME_CHARACTERS } from '../contract/limits.ts';
import { ID_CHARACTERS } from '../limits.ts';
import { isThere } from '../std/file-place.ts';
import { ulidAt } from '../std/id.ts';
import { TableAccounts } from '../storage/accounts/table-accounts.ts';
import { databasePaths, openMain, refuseShared } from '../storage/lmdb/stores.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import type { KeyRecord } from '../storage/ports/keys.ts';
import { refuseHalfRestored } from '../storage/restore-marker.ts';
import { readFlags, readFlagsAndWords, refuseWords } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';

const KEYS_HELP = `Makes, lists and revokes API keys in DATA_DIR, as the operator. The service may run meanwhile. It refuses a
revoked key 60 seconds after the revocation at the latest.

Usage: understudy keys list   --org ORG [--json]
       understudy keys create --org ORG [--project PROJECT] --name NAME [--test] [--json]
       understudy keys revoke KEY_ID [--json]

  --org ORG           the organization
  --project PROJECT   a key for this project only
  --name NAME         the name of the key
  --test              svc_test_ instead of svc_live_
  --json              as JSON

A key is shown only once, when it is made.

Example:
  export API_KEY=$(understudy keys create --org acme --name ci)
`;

const FEEDBACK_HELP = `Shows what users said about the product, newest first.

Usage: understudy feedback [--limit N] [--json]

  --limit N   how many; default: 50
  --json      as JSON
`;

/** The command line's actor in the audit log. */
export const OPERATOR = { type: 'operator', id: 'operator', address: '' } as const;

/** Runs `understudy keys`. @returns the exit status */
export async function runKeys(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, {
    org: 'text',
    project: 'text',
    name: 'text',
    test: 'switch',
    json: 'switch',
  });
  if (values.help === true) {
    await io.out(KEYS_HELP);
    return EXIT.done;
  }
  const [action, ...more] = words;
  switch (action) {
    case 'list':
      refuseWords(more);
      return withAccounts(io, (accounts) => listKeys(accounts, readOrg(values), values.json === true, io));
    case 'create':
      refuseWords(more);
      return withAccounts(io, (accounts) => createKey(accounts, values, io), true);
    case 'revoke': {
      const [id, ...others] = more;
      if (id === undefined) throw new UsageError('name the key: understudy keys revoke KEY_ID');
      refuseWords(others);
      return withAccounts(io, (accounts) => revokeKey(accounts, id, values.json === true, io));
    }
    default:
      throw new UsageError('name the action: list, create or revoke');
  }
}

/** Runs `understudy feedback`. @returns the exit status */
export async function runFeedback(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, { limit: 'text', json: 'switch' });
  if (values.help === true) {
    await io.out(FEEDBACK_HELP);
    return EXIT.done;
  }
  const limit = values.limit === undefined ? 50 : Number(values.limit);
  if (!Number.isInteger(limit) || limit < 1) throw new UsageError('--limit takes a whole number from 1');
  return withAccounts(io, async (accounts) => {
    const { items, total } = accounts.feedback.list({ limit, offset: 0 });
    if (values.json === true) {
      await io.out(`${formatJson({ total, feedback: items }, 2)}\n`);
      return EXIT.done;
    }
    for (const { created_at, user_id, page, message } of items)
      await io.out(
        `${created_at}  ${user_id}  ${makeHarmlessLine(page ?? '-')}\n  ${makeHarmlessLine(message)}\n`,
      );
    if (total === 0) await io.out('No feedback yet.\n');
    return EXIT.done;
  });
}

type Values = Readonly<Record<string, string | boolean | undefined>>;

async function listKeys(accounts: Accounts, org_id: string, isJson: boolean, io: CliIo): Promise<number> {
  const nowMs = Date.now();
  const keys = [...accounts.keys.listAll(org_id)].map((key) => ({
    ...describeKey(key),
    last_used_at: accounts.keys.lastUseOf(key.id),
    revoked: isEnded(key, nowMs),
  }));
  if (isJson) {
    await io.out(`${formatJson(keys, 2)}\n`);
    return EXIT.done;
  }
  for (const { id, prefix, last4, name, project_id, last_used_at, revoked } of keys) {
    const used = last_used_at === null ? 'never used' : `used ${last_used_at}`;
    const scope = project_id ?? 'all projects';
    const state = revoked ? '  revoked' : '';
    await io.out(`${id}  ${prefix}…${last4}  ${makeHarmlessLine(name)}  ${scope}  ${used}${state}\n`);
  }
  if (keys.length === 0) await io.out('No keys.\n');
  return EXIT.done;
}

async function createKey(accounts: Accounts, values: Values, io: CliIo): Promise<number> {
  const org_id = readOrg(values);
  const name = readText(values.name, '--name NAME', KEY_NAME_CHARACTERS);
  const project_id = values.project === undefined ? null : String(values.project);
  const { raw, hash, prefix, last4 } = makeApiKey(values.test === true ? 'test' : 'live');
  const nowMs = Date.now();
  const record: KeyRecord = {
    id: `key_${ulidAt(nowMs)}`,
    org_id,
    project_id,
    name,
    hash,
    prefix,
    last4,
    created_by: null,
    created_at: new Date(nowMs).toISOString(),
    expires_at: null,
    revoked_at: null,
  };
  const isMade = await accounts.transact((tx) => {
    if (project_id !== null && tx.projects.find(project_id)?.org_id !== org_id) return false;
    tx.keys.insert(record);
    const after = { name, prefix, last4, project_id };
    tx.audit.add(OPERATOR, nowMs, { org_id, action: 'key.create', target: record.id, after });
    return true;
  });
  if (!isMade) {
    io.err(`understudy: the organization has no project ${makeHarmlessLine(String(project_id))}\n`);
    return EXIT.failed;
  }
  await io.out(
    values.json === true
      ? `${formatJson({ id: record.id, name, raw_key: raw, prefix, last4 }, 2)}\n`
      : `${raw}\n`,
  );
  return EXIT.done;
}

async function revokeKey(accounts: Accounts, id: string, isJson: boolean, io: CliIo): Promise<number> {
  const nowMs = Date.now();
  const revoked = await accounts.transact((tx) => {
    const key = id.length > ID_CHARACTERS ? undefined : tx.keys.find(id);
    if (key === undefined || key.revoked_at !== null) return key;
    const revoked_at = new Date(nowMs).toISOString();
    const before = { name: key.name, prefix: key.prefix, last4: key.last4, project_id: key.project_id };
    tx.audit.add(OPERATOR, nowMs, {
      org_id: key.org_id,
      action: 'key.revoke',
      target: id,
      before,
      after: { revoked_at },
    });
    return tx.keys.end(id, { revoked_at }) ?? undefined;
  });
  if (revoked === undefined) {
    io.err(`understudy: there is no key ${makeHarmlessLine(id)}\n`);
    return EXIT.failed;
  }
  await io.out(isJson ? `${formatJson(describeKey(revoked), 2)}\n` : `${id} is revoked\n`);
  return EXIT.done;
}

/** The record of a key, without the fields that would help to guess the key. */
function describeKey({ id, org_id, project_id, name, prefix, last4, created_at, revoked_at }: KeyRecord) {
  return { id, org_id, project_id, name, prefix, last4, created_at, revoked_at };
}

function readOrg(values: Values): string {
  return readText(values.org, '--org ORG', ID_CHARACTERS);
}

function readText(value: string | boolean | undefined, flag: string, max: number): string {
  const text = typeof value === 'string' ? value.trim() : '';
  if (text === '') throw new UsageError(`${flag} is missing`);
  if ([...text].length > max) throw new UsageError(`${flag}: at most ${max} characters`);
  return text;
}

/** Opens DATA_DIR/main.mdb during the work. */
async function withAccounts(
  io: CliIo,
  work: (accounts: Accounts) => Promise<number>,
  mayMake = false,
): Promise<number> {
  const { data_dir, data_key } = loadConfig({ listener: 'api' });
  const paths = databasePaths(data_dir, data_key);
  const path = paths.main;
  refuseShared(data_dir);
  refuseHalfRestored(path);
  if (!mayMake && !isThere(path)) {
    io.err(
      `understudy: there is no database ${path}: start the service first, or set DATA_DIR to the folder of the database\n`,
    );
    return EXIT.failed;
  }
  const main = openMain(paths);
  try {
    return await work(new TableAccounts(main));
  } finally {
    await main.close();
  }
}
