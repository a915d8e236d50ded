/**
 * The interface to storage outside the machine. Objects have names, and are written completely or not at all.
 * FolderStore and S3Store implement it. Any thread.
 */

/** An object in a list. */
export interface StoredObject {
  name: string;
  /** When it was written, according to the store's clock. */
  written_ms: number;
}

/** Names consist of letters, digits, dots, hyphens and slashes. All methods throw StoreError. */
export interface ObjectStore {
  /** For messages; it contains no credentials. */
  readonly name: string;
  /** Writes or replaces an object. It is complete and durable when this resolves. */
  put(name: string, bytes: Uint8Array): Promise<void>;
  /** Reads an object. @returns null if there is no such object */
  get(name: string): Promise<Buffer | null>;
  /** Lists the objects in a folder and below it, in any order. @param prefix the folder, with a slash at the end */
  list(prefix: string): AsyncIterable<StoredObject>;
  /** Removes objects. Ignores names that do not exist. */
  remove(names: readonly string[]): Promise<void>;
  close(): void;
}

/** Maximum size of an object. Whole objects are held in memory. */
export const OBJECT_BYTES_MAX = 80 << 20;

/** A failed operation of the store. The message is one line for the operator. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
}
