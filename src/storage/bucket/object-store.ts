/**
 * The interface to storage outside the machine: named objects that appear complete or not at all. A folder or a bucket
 * implements it. Any thread.
 */

/** An object as a list shows it. */
export interface StoredObject {
  name: string;
  /** When it was written, by the store's clock. */
  written_ms: number;
}

/** Names consist of letters, digits, dots, hyphens and slashes. All methods throw StoreError. */
export interface ObjectStore {
  /** For messages; it contains no credentials. */
  readonly name: string;
  /** Writes or replaces an object. It is complete and durable when this resolves. */
  put(name: string, bytes: Uint8Array): Promise<void>;
  /** @returns null if there is no such object */
  get(name: string): Promise<Buffer | null>;
  /**
   * @param prefix a folder, with its slash at the end
   * @returns the objects in it and below it, in any order
   */
  list(prefix: string): AsyncIterable<StoredObject>;
  /** Objects that do not exist are no error. */
  remove(names: readonly string[]): Promise<void>;
  close(): void;
}

/** Largest object that is written or read: objects pass through memory as a whole. */
export const OBJECT_BYTES_MAX = 80 << 20;

/** A failed operation of the store. The message is one line for the operator. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
}
