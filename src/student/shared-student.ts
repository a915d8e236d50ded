/**
 * Shares a student with several gateways through a place outside the machine: a bucket or a folder. `StudentSharing`
 * copies the serving version and the operator's orders from the directory where rounds publish into this place.
 * `StudentFollowing` copies both from the place into a gateway's directory. Command line.
 *
 *   serving.json              the serving version, and the orders; the only object that changes, written last
 *   manifests/<sha256>.json   a version's manifest
 *   files/<sha256>/<piece>    a file that a manifest names
 *
 * Orders are applied before a new version, so a version never serves more than its share, and a suspension never waits for
 * a file.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ObjectStore } from '../storage/bucket/object-store.ts';
import type { SealedObjects } from '../storage/bucket/sealed-objects.ts';
import { adoptStudent, findManifest, listVersions, readStudentFile } from './directory.ts';
import { isManifestFault, readManifest, type StudentFile, type StudentManifest } from './model/manifest.ts';
import { formatOrders, type Orders, parseOrders, readOrders, writeOrders } from './orders.ts';

const SERVING = 'serving.json';
const FORMAT = 'svc_shared_student_v1';
/** Files are stored in pieces of this size, because a student's file may exceed the largest object. */
const PIECE_BYTES = 16 << 20;

const digest = z.string().regex(/^[0-9a-f]{64}$/);
const servingSchema = z.object({
  format: z.literal(FORMAT),
  /** Id of the DATA_DIR that shares the student. */
  source: z.string(),
  /** SHA-256 of the serving version's manifest; null: no version serves. */
  manifest: digest.nullable(),
  orders: z.unknown(),
});

export interface StudentPlace {
  store: ObjectStore;
  objects: SealedObjects;
}

/** The shared student is unusable, or must not be replaced. The message is one line for the operator. */
export class SharedStudentError extends Error {
  override readonly name = 'SharedStudentError';
}

/** Writes the version that a directory serves to the shared place. */
export class StudentSharing {
  readonly #directory: string;
  readonly #place: StudentPlace;
  readonly #source: string;
  /** The content of serving.json as this object last wrote it; null before that. */
  #shared: string | null = null;
  /** SHA-256 of the manifest in the serving.json that this object last wrote; null: none. */
  #manifest: string | null = null;

  constructor(directory: string, place: StudentPlace, source: string) {
    this.#directory = directory;
    this.#place = place;
    this.#source = source;
  }

  /**
   * Checks once for changes, and shares them.
   * @returns whether something has changed
   * @throws SharedStudentError if another DATA_DIR shares a student at this place; StudentDirectoryError; OrdersError;
   * errors of the place
   */
  async look(): Promise<boolean> {
    if (this.#shared === null) await this.#refuseOther();
    const orders = await readOrders(this.#directory);
    const manifest = await findManifest(this.#directory);
    const text = manifest === null ? null : JSON.stringify(manifest);
    const serving = JSON.stringify({
      format: FORMAT,
      source: this.#source,
      manifest: text === null ? null : hashOf(text),
      orders: formatOrders(orders),
    });
    if (serving === this.#shared) return false;
    if (manifest !== null) await this.#putVersion(manifest, text!);
    await this.#put(SERVING, Buffer.from(serving));
    this.#shared = serving;
    if (text !== null && hashOf(text) !== this.#manifest) await this.#removeOld(hashOf(text));
    this.#manifest = text === null ? null : hashOf(text);
    return true;
  }

  async #refuseOther(): Promise<void> {
    const serving = await readServing(this.#place);
    if (serving === null || serving.source === this.#source) return;
    const { name } = this.#place.store;
    throw new SharedStudentError(
      `${name} has the student of another DATA_DIR: name another place, or remove ${SERVING} there to take it over`,
    );
  }

  async #putVersion(manifest: StudentManifest, text: string): Promise<void> {
    for (const file of [manifest.files.steps, manifest.files.measured]) {
      if (file === undefined) continue;
      const bytes = await readStudentFile(this.#directory, file);
      for (let piece = 0; piece * PIECE_BYTES < bytes.length; piece++) {
        const name = `files/${file.sha256}/${piece}`;
        await this.#put(name, bytes.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES));
      }
    }
    await this.#put(`manifests/${hashOf(text)}.json`, Buffer.from(text));
  }

  /**
   * Removes from the place all manifests except one, and the files that no version in the directory names. A gateway
   * that is fetching a removed file checks again.
   * @param manifest SHA-256 of the manifest that stays
   */
  async #removeOld(manifest: string): Promise<void> {
    const kept = new Set([`manifests/${manifest}.json`]);
    for (const version of await listVersions(this.#directory))
      for (const file of [version.manifest?.files.steps, version.manifest?.files.measured])
        if (file !== undefined) kept.add(`files/${file.sha256}`);
    const old: string[] = [];
    for (const prefix of ['manifests/', 'files/'])
      for await (const { name } of this.#place.store.list(prefix))
        if (!kept.has(name) && !kept.has(name.slice(0, name.lastIndexOf('/')))) old.push(name);
    await this.#place.store.remove(old);
  }

  #put(name: string, bytes: Uint8Array): Promise<void> {
    return this.#place.store.put(name, this.#place.objects.seal(name, bytes));
  }
}

/** Makes a directory serve the student of a shared place. */
export class StudentFollowing {
  readonly #directory: string;
  readonly #place: StudentPlace;
  /** SHA-256 of the manifest that was last adopted; null: no version serves; undefined before the first check. */
  #manifest: string | null | undefined;
  /** The orders that were last applied, as JSON; null before the first check. */
  #orders: string | null = null;

  constructor(directory: string, place: StudentPlace) {
    this.#directory = directory;
    this.#place = place;
  }

  /**
   * Checks once for changes, and applies them to the directory.
   * @returns `student`: another version serves, and the orders may have changed, too; `orders`: only the orders have
   *   changed; null: nothing has changed
   * @throws SharedStudentError, including when nothing is shared yet; StudentDirectoryError; errors of the place
   */
  async look(): Promise<'orders' | 'student' | null> {
    const serving = await readServing(this.#place);
    const { name } = this.#place.store;
    if (serving === null)
      throw new SharedStudentError(`${name} has no student yet: understudy student share`);
    const orders = parseOrders(serving.orders);
    if (orders === null)
      throw new SharedStudentError(`${SERVING} in ${name} has orders that this version cannot read`);
    const hasOrders = await this.#applyOrders(orders);
    if (serving.manifest === this.#manifest) return hasOrders ? 'orders' : null;
    const manifest = serving.manifest === null ? null : await this.#readManifest(serving.manifest);
    const isOther = await adoptStudent(this.#directory, manifest, (file) => this.#fetch(file));
    this.#manifest = serving.manifest;
    return isOther ? 'student' : hasOrders ? 'orders' : null;
  }

  async #applyOrders(orders: Orders): Promise<boolean> {
    const text = JSON.stringify(orders);
    if (text === this.#orders) return false;
    const isNew = this.#orders !== null || JSON.stringify(await readLocalOrders(this.#directory)) !== text;
    if (isNew) await writeOrders(this.#directory, orders);
    this.#orders = text;
    return isNew;
  }

  async #readManifest(sha256: string): Promise<StudentManifest> {
    const name = `manifests/${sha256}.json`;
    const text = (await this.#get(name)).toString('utf8');
    const manifest = readManifest(text);
    if (hashOf(text) !== sha256 || isManifestFault(manifest))
      throw new SharedStudentError(`${name} in ${this.#place.store.name} is damaged, or of a newer version`);
    return manifest;
  }

  async #fetch({ sha256, bytes }: StudentFile): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let piece = 0; piece * PIECE_BYTES < bytes; piece++)
      pieces.push(await this.#get(`files/${sha256}/${piece}`));
    return Buffer.concat(pieces);
  }

  async #get(name: string): Promise<Buffer> {
    const bytes = await this.#place.store.get(name);
    if (bytes === null) throw new SharedStudentError(`${name} is missing in ${this.#place.store.name}`);
    return this.#place.objects.open(name, bytes);
  }
}

async function readServing({ store, objects }: StudentPlace): Promise<z.output<typeof servingSchema> | null> {
  const bytes = await store.get(SERVING);
  if (bytes === null) return null;
  try {
    return servingSchema.parse(JSON.parse(objects.open(SERVING, bytes).toString('utf8')));
  } catch (cause) {
    const why = `${SERVING} in ${store.name} is damaged, of a newer version, or under another data key`;
    throw new SharedStudentError(why, { cause });
  }
}

/** Reads the directory's orders; null when they cannot be read. The shared orders then replace them. */
async function readLocalOrders(directory: string): Promise<Orders | null> {
  return readOrders(directory).catch(() => null);
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
