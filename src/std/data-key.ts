/**
 * The key that encrypts all customer content, and its operations: derive a separate key for each purpose, encrypt and
 * decrypt bytes, and make opaque names. Any thread; the key is passed between threads as plain bytes.
 *
 * Layout of sealed bytes: [12 bytes salt][u32 number][ciphertext][16 bytes tag], big-endian. They are sealed with
 * AES-256-GCM (NIST SP 800-38D) under a key derived from the purpose's key and the salt by HKDF-SHA256 (RFC 5869). The
 * sealer draws one salt and then counts, so a key never uses a nonce twice, however much is sealed. Random nonces would
 * be safe for only 2^32 messages. The location of the bytes is authenticated: they do not open at another location.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { RecentMap } from './recent-map.ts';

export const DATA_KEY_BYTES = 32;
const SALT_BYTES = 12;
const HEAD_BYTES = SALT_BYTES + 4;
const TAG_BYTES = 16;
/** Number of bytes that sealing adds. */
export const SEAL_BYTES = HEAD_BYTES + TAG_BYTES;
const ALGORITHM = 'aes-256-gcm';
const NUMBERS = 2 ** 32;
/** Maximum number of keys that are cached by salt: one for each thread and start that wrote the data being read. */
const KNOWN_SALTS = 256;

/** The bytes are not what was sealed at this location: altered, truncated, moved, or sealed with another key. */
export class SealError extends Error {
  override readonly name = 'SealError';
}

/** The stored data does not match the operator's key. The message is one line for the user. */
export class DataKeyError extends Error {
  override readonly name = 'DataKeyError';
  /** The cause is the configuration or the data, not a bug. */
  readonly code = 'EDATAKEY';
}

export class DataKey {
  /** Identifies the key without revealing it. */
  readonly id: string;
  readonly #bytes: Uint8Array;
  readonly #naming = new Map<string, Buffer>();

  /** @param bytes DATA_KEY_BYTES random bytes; another number of bytes throws a RangeError */
  constructor(bytes: Uint8Array) {
    if (bytes.length !== DATA_KEY_BYTES) throw new RangeError(`a data key of ${bytes.length} bytes`);
    this.#bytes = bytes;
    this.id = this.#derive('id').toString('hex', 0, 8);
  }

  /** Makes a sealer. @param purpose of the sealed data; data sealed for another purpose does not open */
  sealer(purpose: string): Sealer {
    return new Sealer(this.#derive(`seal ${purpose}`));
  }

  /** Makes a stable name for a text that does not reveal the text: 64 hex digits. */
  nameOf(purpose: string, text: string): string {
    let key = this.#naming.get(purpose);
    if (key === undefined) {
      key = this.#derive(`name ${purpose}`);
      this.#naming.set(purpose, key);
    }
    return createHmac('sha256', key).update(text).digest('hex');
  }

  #derive(purpose: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#bytes, '', `understudy 1 ${purpose}`, DATA_KEY_BYTES));
  }
}

/** Makes the key of these bytes; null for null, which means that nothing is encrypted. */
export function openDataKey(bytes: Uint8Array | null): DataKey | null {
  return bytes === null ? null : new DataKey(bytes);
}

export class Sealer {
  readonly #key: Buffer;
  readonly #known = new RecentMap<string, KeyObject>(KNOWN_SALTS);
  /** The salt from which `#own` is derived. */
  #salt = Buffer.alloc(0);
  #own: KeyObject | null = null;
  #number = 0;
  /** The salt and the key of the value that was opened last. The next value usually has the same salt. */
  #lastSalt = Buffer.alloc(SALT_BYTES);
  #last: KeyObject | null = null;
  readonly #nonce = Buffer.alloc(SALT_BYTES);

  constructor(key: Buffer) {
    this.#key = key;
  }

  /**
   * Encrypts bytes.
   * @param place location of the bytes, as passed to `open`
   * @param room number of bytes to leave free before the sealed bytes
   */
  seal(plain: Uint8Array, place: Uint8Array, room = 0): Buffer {
    if (this.#own === null || this.#number === NUMBERS) {
      this.#salt = randomBytes(SALT_BYTES);
      this.#own = this.#keyOf(this.#salt);
      this.#number = 0;
    }
    const whole = Buffer.allocUnsafe(room + plain.length + SEAL_BYTES);
    const sealed = room === 0 ? whole : whole.subarray(room);
    this.#salt.copy(sealed);
    sealed.writeUInt32BE(this.#number++, SALT_BYTES);
    const cipher = createCipheriv(ALGORITHM, this.#own, this.#nonceOf(sealed));
    cipher.setAAD(place);
    cipher.update(plain).copy(sealed, HEAD_BYTES);
    cipher.final();
    cipher.getAuthTag().copy(sealed, HEAD_BYTES + plain.length);
    return whole;
  }

  /** Decrypts bytes. @returns the original bytes @throws SealError */
  open(sealed: Uint8Array, place: Uint8Array): Buffer {
    if (sealed.length < SEAL_BYTES) throw new SealError('sealed bytes are cut off');
    const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
    const end = bytes.length - TAG_BYTES;
    const decipher = createDecipheriv(ALGORITHM, this.#findKey(bytes), this.#nonceOf(bytes));
    decipher.setAAD(place);
    decipher.setAuthTag(bytes.subarray(end));
    const plain = decipher.update(bytes.subarray(HEAD_BYTES, end));
    try {
      decipher.final();
    } catch (cause) {
      throw new SealError('sealed bytes are damaged', { cause });
    }
    return plain;
  }

  #findKey(sealed: Buffer): KeyObject {
    if (this.#last !== null && sealed.compare(this.#lastSalt, 0, SALT_BYTES, 0, SALT_BYTES) === 0)
      return this.#last;
    const name = sealed.toString('latin1', 0, SALT_BYTES);
    let key = this.#known.get(name);
    if (key === undefined) {
      key = this.#keyOf(sealed.subarray(0, SALT_BYTES));
      this.#known.set(name, key);
    }
    sealed.copy(this.#lastSalt, 0, 0, SALT_BYTES);
    this.#last = key;
    return key;
  }

  #keyOf(salt: Uint8Array): KeyObject {
    return createSecretKey(Buffer.from(hkdfSync('sha256', this.#key, salt, 'understudy 1', DATA_KEY_BYTES)));
  }

  /** Makes the nonce of sealed bytes. Its last four bytes are the number; the salt is part of the key. */
  #nonceOf(sealed: Buffer): Buffer {
    sealed.copy(this.#nonce, 8, SALT_BYTES, HEAD_BYTES);
    return this.#nonce;
  }
}
