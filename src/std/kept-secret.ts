/**
 * A random secret that an installation creates once and stores in a file that only its owner can read. Any thread.
 */
import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { namePlace } from './file-place.ts';
import { makeFolder } from './folder.ts';
import { syncPath } from './synced-path.ts';

const SECRET_BYTES = 32;

/**
 * Reads the secret, or creates it with its folder.
 * @param loss the consequence of a new secret, for the error about a damaged file
 * @returns 256 bits as base64url; the same at every start and in every process
 * @throws Error if it can be neither read nor created, or if the file has other content (`code` is `ESECRET`)
 */
export function loadKeptSecret(file: string, loss: string): string {
  makeFolder(dirname(file), 0o700);
  return readSecret(file, loss) ?? makeSecret(file, loss);
}

function readSecret(file: string, loss: string): string | null {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    // Node's error does not name the path if the path is a folder.
    throw namePlace(thrown, file);
  }
  const [secret = '', checksum] = text.split(' ');
  const isWhole = Buffer.from(secret, 'base64url').length === SECRET_BYTES;
  // Earlier versions wrote no checksum.
  if (isWhole && (checksum === undefined ? text === secret : checksum === checksumOf(secret))) return secret;
  const why = isWhole ? 'is damaged' : `does not hold ${8 * SECRET_BYTES} bits`;
  const words = `${file} ${why}: restore it from a backup, or move it away; ${loss}`;
  throw Object.assign(new Error(words), { code: 'ESECRET' });
}

/** Without a checksum, a changed bit would silently give another secret. */
function checksumOf(secret: string): string {
  return crc32(secret).toString(16).padStart(8, '0');
}

/**
 * Creates the file with a new secret, and returns the secret in the file. The file is written under another name and
 * then linked. So if two processes start at once, one creates it and both read it.
 */
function makeSecret(file: string, loss: string): string {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    const secret = randomBytes(SECRET_BYTES).toString('base64url');
    const text = `${secret} ${checksumOf(secret)}\n`;
    // Synced before it gets its name, so that a start never finds an incomplete secret after a power failure.
    writeFileSync(draft, text, { mode: 0o600, flag: 'wx', flush: true });
    linkSync(draft, file);
    syncPath(dirname(file));
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw namePlace(thrown, file);
  } finally {
    rmSync(draft, { force: true });
  }
  return readSecret(file, loss)!;
}
