/** `understudy token`: makes a token for a user, signed by this service. Main thread. */

import { OWNER } from '../auth/owner.ts';
import { OWNER_TOKEN_HOURS, signUserToken } from '../auth/sign-token.ts';
import { loadConfig } from '../config.ts';
import { findEmailFault } from '../contract/email.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { secretOf } from './token-secret.ts';

/** Default lifetime of a token. */
const TOKEN_HOURS_DEFAULT = 720;
const TOKEN_HOURS_MAX = 8_760;

const HELP = `Prints a token (a JWT) with which a person signs in if no identity provider is configured. The same address is always the
same user; the first use makes the user and an organization.

Usage: understudy token --email ADDRESS [--name NAME] [--hours N] [--json]
       understudy token --owner [--hours N] [--json]

  --email ADDRESS   the address of the user
  --owner           a token of the owner, as in the link that a start shows on a terminal
  --name NAME       the name of the user
  --hours N         lifetime of the token in hours: 1 to ${TOKEN_HOURS_MAX}; default: ${TOKEN_HOURS_DEFAULT}, for the owner ${OWNER_TOKEN_HOURS}
  --json            the token and its expiry, as JSON

The token is signed with AUTH_JWT_SECRET, or with the secret in DATA_DIR/secrets. Anyone who has the token can sign in with
it, so keep it secret.

Example:
  curl -H "Authorization: Bearer $(understudy token --email ann@example.com)" http://127.0.0.1:8000/auth/me
`;

/** Runs `understudy token`. @returns the exit status */
export async function runToken(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, {
    email: 'text',
    owner: 'switch',
    name: 'text',
    hours: 'text',
    json: 'switch',
  });
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const { email, name } = values.owner ? readOwner(values) : readPerson(values);
  const hoursUnset = values.owner ? OWNER_TOKEN_HOURS : TOKEN_HOURS_DEFAULT;
  const hours = values.hours === undefined ? hoursUnset : Number(values.hours);
  if (!Number.isInteger(hours) || hours < 1 || hours > TOKEN_HOURS_MAX)
    throw new UsageError(`--hours takes a whole number from 1 to ${TOKEN_HOURS_MAX}`);
  const config = loadConfig({ listener: 'api' });
  if (config.auth.jwks_url !== null) {
    io.err(
      'understudy: AUTH_JWKS_URL is set: tokens come from the identity provider, not from this command\n',
    );
    return EXIT.failed;
  }
  const nowMs = Date.now();
  const lifetimeS = hours * 3_600;
  const token = await signUserToken(config.auth, secretOf(config), { email, name, lifetimeS, nowMs });
  const expires_at = new Date(nowMs + lifetimeS * 1_000).toISOString();
  await io.out(values.json ? `${JSON.stringify({ token, email, expires_at })}\n` : `${token}\n`);
  return EXIT.done;
}

interface Named {
  email?: string | undefined;
  name?: string | undefined;
}

function readOwner({ email, name }: Named): { email: string; name: string | null } {
  if (email === undefined && name === undefined) return OWNER;
  throw new UsageError('--owner takes neither --email nor --name');
}

function readPerson({ email, name }: Named): { email: string; name: string | null } {
  if (email === undefined) throw new UsageError('name the user with --email ADDRESS, or --owner');
  const fault = findEmailFault(email);
  if (fault !== null) throw new UsageError(`--email: ${fault}`);
  return { email, name: name ?? null };
}
