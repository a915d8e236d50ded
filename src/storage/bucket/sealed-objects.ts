/**
 * Encrypts data that leaves the machine with the data key, if there is one. The name of an object is authenticated, so
 * an object cannot be decrypted under another name. Any thread.
 */
import { type DataKey, SealError, type Sealer } from '../../std/data-key.ts';
import { StoreError } from './object-store.ts';

/** Encrypts and decrypts objects; without a key it leaves them as they are. */
export class SealedObjects {
  readonly #sealer: Sealer | null;
  readonly #key: DataKey | null;

  constructor(key: DataKey | null) {
    this.#key = key;
    this.#sealer = key?.sealer('bucket') ?? null;
  }

  seal(name: string, bytes: Uint8Array): Uint8Array {
    return this.#sealer === null ? bytes : this.#sealer.seal(bytes, Buffer.from(name));
  }

  /** Decrypts an object. @throws StoreError if it is damaged, or was encrypted under another key or name */
  open(name: string, bytes: Buffer): Buffer {
    if (this.#sealer === null) return bytes;
    try {
      return this.#sealer.open(bytes, Buffer.from(name));
    } catch (thrown) {
      if (!(thrown instanceof SealError)) throw thrown;
      throw new StoreError(`${name} is damaged, or encrypted with another key`, { cause: thrown });
    }
  }

  /** Returns a name for the content with this digest. With a key, the name does not reveal the digest. */
  nameOf(digest: string): string {
    return this.#key === null ? digest : this.#key.nameOf('bucket', digest);
  }
}
