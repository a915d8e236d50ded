/** The secret that signs tokens if there is no identity provider: made once, kept in DATA_DIR. Main thread. */
import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { namePlace } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';

const SECRET_BYTES = 32;

/**
 * @returns the secret, 256 bits as base64url; the same at every start
 * @throws Error when it can neither be read nor made, or when the file holds something else; its `code` marks it as no fault
 * of ours
 */
export function loadEmbeddedSecret(dataDir: string): string {
  const folder = join(dataDir, 'secrets');
  const file = join(folder, 'jwt-secret');
  makeFolder(folder, 0o700);
  return readSecret(file) ?? makeSecret(file);
}

function readSecret(file: string): string | null {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    // A folder is opened, and fails without its name when it is read.
    throw namePlace(thrown, file);
  }
  if (Buffer.from(text, 'base64url').length !== SECRET_BYTES) {
    const words = `${file} does not hold ${8 * SECRET_BYTES} bits: restore it from a backup, or move it away; a new one ends all tokens`;
    throw Object.assign(new Error(words), { code: 'ESECRET' });
  }
  return text;
}

/** Written aside and put in place whole: of two processes that start at once, one makes it and both read it. */
function makeSecret(file: string): string {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    writeFileSync(draft, `${randomBytes(SECRET_BYTES).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' });
    linkSync(draft, file);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw namePlace(thrown, file);
  } finally {
    rmSync(draft, { force: true });
  }
  return readSecret(file)!;
}
