/**
 * Parses the address of a PostgreSQL database, and explains the driver's errors in one line without the password. Any
 * thread.
 */
import { readFileSync } from 'node:fs';
import type { ClientConfig } from 'pg';
import { TruthRefusedError, TruthUnavailableError } from '../shared/truth.ts';

export interface DatabaseAddress {
  /** For messages: host, port and database. */
  name: string;
  client: ClientConfig;
}

const ALLOWED =
  'allowed is postgres://USER:PASSWORD@HOST:PORT/DATABASE, with sslmode=disable or sslrootcert=FILE behind a question mark';

/**
 * Reads an address. TLS with a verified certificate is the default, except towards this machine.
 * @throws TruthRefusedError
 */
export function readDatabaseAddress(text: string): DatabaseAddress {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^postgres(?:ql)?:$/.test(url.protocol) || url.hostname === '')
    throw new TruthRefusedError(`not the address of a database: ${ALLOWED}`);
  const unknown = [...url.searchParams.keys()].find((name) => name !== 'sslmode' && name !== 'sslrootcert');
  if (unknown !== undefined) throw new TruthRefusedError(`${unknown} in the address: ${ALLOWED}`);
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = Number(url.port || 5432);
  const database = decodePart(url.pathname.slice(1), 'database') || 'understudy';
  return {
    name: `${url.hostname}:${port}/${database}`,
    client: {
      host,
      port,
      database,
      user: decodePart(url.username, 'user') || 'understudy',
      password: decodePart(url.password, 'password'),
      application_name: 'understudy',
      ssl: readTls(host, url.searchParams.get('sslmode'), url.searchParams.get('sslrootcert')),
    },
  };
}

/** Decodes a percent-encoded part. @throws TruthRefusedError, without the part, which may be secret */
function decodePart(text: string, name: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new TruthRefusedError(`the ${name} in the address is not valid percent-encoding: write % as %25`);
  }
}

function readTls(host: string, mode: string | null, authorities: string | null): ClientConfig['ssl'] {
  if (mode !== null && mode !== 'disable' && mode !== 'verify-full')
    throw new TruthRefusedError(`sslmode=${mode}: allowed are verify-full, the default, and disable`);
  const isHere = /^(?:localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host);
  if (mode === 'disable' || (mode === null && authorities === null && isHere)) return false;
  if (authorities === null) return { rejectUnauthorized: true };
  try {
    return { rejectUnauthorized: true, ca: readFileSync(authorities, 'utf8') };
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    throw new TruthRefusedError(`sslrootcert=${authorities} cannot be read (${code})`);
  }
}

/**
 * SQLSTATEs of temporary failures: the database is starting, stopping, full, unreachable (class 08) or a standby; a
 * transaction was rolled back (class 40), waited too long for a lock or was idle too long; or the session has been
 * replaced (UND01).
 */
const PASSING = /^(?:08...|53...|57P0[123]|40...|55P03|25006|25P0[34]|UND01)$/;
const UNTRUSTED =
  /^(?:CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_(?:GET_ISSUER|VERIFY)|HOSTNAME_)/;

/**
 * Explains an error of the driver. Returns a TruthUnavailableError if a later attempt may succeed, and a
 * TruthRefusedError otherwise. Returns an error of these classes unchanged.
 */
export function explainDatabase(
  thrown: unknown,
  { name, client: { user } }: DatabaseAddress,
): TruthRefusedError | TruthUnavailableError {
  if (thrown instanceof TruthRefusedError || thrown instanceof TruthUnavailableError) return thrown;
  // Only errors that the server reports have a severity.
  const { message, code = '', severity } = thrown as { message: string; code?: string; severity?: string };
  const refuse = (words: string) => new TruthRefusedError(words, { cause: thrown });
  if (code === '28P01') return refuse(`${name} does not accept the user ${user} or the password`);
  // The role is missing or may not log in, or no rule of pg_hba.conf allows this connection.
  if (code === '28000') return refuse(`${name} does not accept the user ${user}: ${firstLine(message)}`);
  if (code === '3D000') return refuse(`${name}: there is no such database`);
  if (code === '3F000' || code === '42P01' || code === '42883')
    return refuse(`${name} has no tables of this program: run understudy migrate`);
  if (code === '42501') return refuse(`${name}: the user ${user} lacks a right (${firstLine(message)})`);
  if (UNTRUSTED.test(code))
    return refuse(
      `the certificate of ${name} is not trusted (${code}): sslrootcert names a file of authorities`,
    );
  if (/does not support SSL/.test(message))
    return refuse(
      `${name} offers no TLS: set up TLS there, or add sslmode=disable in a network that you trust`,
    );
  const said = `${firstLine(message)} (${code})`;
  if (severity !== undefined && !PASSING.test(code)) return refuse(`${name}: ${said}`);
  const words =
    severity === undefined
      ? `${name} cannot be reached (${code || firstLine(message)})`
      : `${name} cannot be used now: ${said}`;
  return new TruthUnavailableError(words, { cause: thrown });
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0]!;
}
