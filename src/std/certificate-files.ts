/**
 * Reads and checks the two files of a TLS server: the certificate with its chain, and the key. Main and server threads.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from 'node:fs';

/** Absolute paths of PEM files. */
export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

export interface CertificateFacts {
  /** Milliseconds since the epoch. */
  valid_from_ms: number;
  valid_to_ms: number;
  /** Other users of the machine can read or change the key. */
  is_key_open: boolean;
}

/** The fault of one of the two files, in one line that reveals no content. */
export class CertificateError extends Error {
  readonly file: 'cert' | 'key';

  constructor(file: 'cert' | 'key', words: string) {
    super(words);
    this.name = 'CertificateError';
    this.file = file;
  }
}

const FILE_BYTES_MAX = 1 << 20;
/** Permissions that expose the key. The group's right to read is not one of them, because mounted secrets have it. */
const OPEN_RIGHTS = 0o037;
const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Reads both files, and checks that the key belongs to the certificate. Does not compare the times with the clock.
 * @throws CertificateError if a server could not use the certificate with the key
 */
export function checkCertificate(files: CertificateFiles): CertificateFacts {
  const { bytes: chain } = readFile(files.cert, 'cert');
  const texts = chain.toString('latin1').match(PEM_CERTIFICATE) ?? [];
  if (texts.length === 0)
    throw new CertificateError('cert', 'the file holds no certificate in PEM (-----BEGIN CERTIFICATE-----)');
  const [first] = texts.map(parseCertificate);
  const { bytes, mode } = readFile(files.key, 'key');
  const key = parseKey(bytes);
  if (!first!.checkPrivateKey(key))
    throw new CertificateError(
      'key',
      'the key does not belong to the first certificate of the certificate file',
    );
  return {
    valid_from_ms: Date.parse(first!.validFrom),
    valid_to_ms: Date.parse(first!.validTo),
    is_key_open: process.platform !== 'win32' && (mode & OPEN_RIGHTS) !== 0,
  };
}

/** Makes a text that changes whenever a file is written or replaced; '' while a file cannot be found. */
export function markFiles(files: CertificateFiles): string {
  try {
    return [files.cert, files.key]
      .map((path) => statSync(path, { bigint: true }))
      .map(({ dev, ino, size, mtimeNs, ctimeNs }) => `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`)
      .join(' ');
  } catch {
    return '';
  }
}

function readFile(path: string, file: 'cert' | 'key'): { bytes: Buffer; mode: number } {
  let descriptor: number;
  try {
    // Opening a named pipe would block the process until another one writes to it.
    descriptor = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    throw new CertificateError(
      file,
      code === 'ENOENT' ? 'there is no such file' : `the file cannot be read (${code})`,
    );
  }
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile()) throw new CertificateError(file, 'the path is not a file');
    if (stat.size > FILE_BYTES_MAX)
      throw new CertificateError(file, `the file is larger than ${FILE_BYTES_MAX} bytes`);
    return { bytes: readFileSync(descriptor), mode: stat.mode };
  } finally {
    closeSync(descriptor);
  }
}

function parseCertificate(text: string, at: number): X509Certificate {
  try {
    return new X509Certificate(text);
  } catch {
    throw new CertificateError('cert', `certificate ${at + 1} of the file cannot be read`);
  }
}

function parseKey(bytes: Buffer): KeyObject {
  const text = bytes.toString('latin1');
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text))
    throw new CertificateError('key', 'the file holds no private key in PEM (-----BEGIN PRIVATE KEY-----)');
  if (/ENCRYPTED/.test(text))
    throw new CertificateError(
      'key',
      'the key has a passphrase: write the key without a passphrase (openssl pkey)',
    );
  try {
    return createPrivateKey(bytes);
  } catch {
    throw new CertificateError('key', 'the private key cannot be read');
  }
}
