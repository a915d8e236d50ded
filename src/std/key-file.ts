/**
 * Reads the file of a data key: 32 random bytes, raw, in hex or in base64. Main thread.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { DATA_KEY_BYTES } from './data-key.ts';

/** Maximum size of the file: enough for a key in any form, with white space. */
const FILE_BYTES_MAX = 4_096;
/** Least number of different bytes in a key; random bytes have more. */
const DISTINCT_BYTES_MIN = 16;

/**
 * Permissions with which other users could have read or changed the file. The group may read it, as with mounted
 * secrets.
 */
const REFUSED_RIGHTS = 0o037;

/**
 * Reads the data key from a file.
 * @throws Error with a one-line message that describes the fault but never the content
 */
export function readKeyFile(path: string): Uint8Array {
  const bytes = parseKey(readFile(path));
  if (typeof bytes === 'string') throw new Error(bytes);
  return bytes;
}

function readFile(path: string): Buffer {
  let file: number;
  try {
    // Opening a named pipe would block the process until another one writes to it.
    file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new Error('there is no such file');
    throw new Error(`the file cannot be read (${code})`);
  }
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new Error('the path is not a file');
    if (process.platform !== 'win32' && (stat.mode & REFUSED_RIGHTS) !== 0)
      throw new Error('other users have rights to the file: take the rights away with chmod 600');
    if (stat.size > FILE_BYTES_MAX)
      throw new Error(
        `the file has ${stat.size} bytes, but a key has ${DATA_KEY_BYTES}, raw, in hex or in base64`,
      );
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

/** Decodes and checks a key. @returns the key, or a description of the fault */
function parseKey(content: Buffer): Uint8Array | string {
  const key = decodeKey(content);
  if (key === null)
    return `the file must hold ${DATA_KEY_BYTES} random bytes, raw, in hex or in base64: openssl rand -base64 32 makes them`;
  if (new Set(key).size < DISTINCT_BYTES_MIN)
    return 'the key is not random: openssl rand -base64 32 makes one';
  return Uint8Array.from(key);
}

function decodeKey(content: Buffer): Buffer | null {
  const text = content.toString('latin1').trim();
  if (/^[\da-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
  if (/^[\w+/-]{43}=?$/.test(text)) return Buffer.from(text, 'base64');
  // Bytes that are all printable characters or white space are a text that a person chose, not a random key.
  return content.length === DATA_KEY_BYTES && !/^[\x20-\x7e\s]*$/.test(text) ? content : null;
}
