/**
 * Saves the graphs of vector indexes on disk, so that a start reads them instead of linking every vector again. The
 * files are only a cache: a damaged, outdated or incompatible file is ignored, and removed by the same or a later call.
 *
 * A saved graph is two files: hnswlib's file, and a list of its places that records the name, length and checksum of
 * the first file. A rename publishes the list once both files are on disk, so a crash leaves either the old pair or the
 * new one. The list has a checksum of each vector, because the vectors in the graph must equal those in the store.
 * Actor thread.
 */
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { SavableIndex } from './vector-index.ts';

/** Maximum size of the list beside a saved graph: 250,000 places of about 50 bytes, and as many for removed vectors. */
const GRAPH_LIST_BYTES = 64 << 20;

/** What a list records about its graph. */
interface GraphList {
  /** Properties of the index and its owner; a graph is used only if they are unchanged. */
  kind: string;
  graph: { file: string; bytes: number; crc: number };
  /** By place: the name and checksum of the vector; null for a removed vector. */
  places: ([name: string, crc: number] | null)[];
}

const FORMAT = 1;
/**
 * Maximum number of bytes that are read, or of vectors whose checksum is computed, before searches of the thread may
 * run again.
 */
const READ_BYTES = 256 << 10;
const SUM_STRETCH = 200;

export class GraphFolder {
  readonly #dir: string;
  readonly #newId: () => string;
  /**
   * Settles after the last call. Calls run one after the other, because a call removes drafts that a crash left, and
   * must not remove those of another call.
   */
  #working: Promise<unknown> = Promise.resolve();

  /** @param dir created by the first save */
  constructor(dir: string, newId: () => string) {
    this.#dir = dir;
    this.#newId = newId;
  }

  /**
   * Saves the graph of an index.
   * @param name a file name without an extension; replaces the graph saved under the same name
   * @param kind text that changes whenever the vectors would change
   * @param nameOf the permanent name of a vector id; undefined for a removed vector
   * @returns false when there is no graph to save
   * @throws Error when writing fails; the previous graph remains
   */
  save(
    name: string,
    kind: string,
    index: SavableIndex,
    nameOf: (id: number) => string | undefined,
  ): Promise<boolean> {
    return this.#alone(() => this.#save(name, kind, index, nameOf));
  }

  async #save(
    name: string,
    kind: string,
    index: SavableIndex,
    nameOf: (id: number) => string | undefined,
  ): Promise<boolean> {
    await mkdir(this.#dir, { recursive: true });
    const file = `${name}-${this.#newId()}.graph`;
    const path = join(this.#dir, file);
    try {
      const ids = await index.saveGraph(path);
      if (ids === null) return false;
      const places = await sumPlaces(index, ids, nameOf);
      const graph = { file, ...(await sumFile(path)) };
      await this.#putList(name, { kind: fullKind(kind, index), graph }, places);
    } catch (thrown) {
      await rm(path, { force: true });
      throw thrown;
    }
    await this.#removeAll((other) => isGraphOf(name, other) && other !== file);
    return true;
  }

  /**
   * Loads the graph saved under the name into the index, for the vectors that still match.
   * @param find the vector id of a permanent name
   * @returns number of vectors that the graph contains, which need not be linked; 0 if no graph can be used
   */
  restore(
    name: string,
    kind: string,
    index: SavableIndex,
    find: (name: string) => number | undefined,
  ): Promise<number> {
    return this.#alone(() => this.#restore(name, kind, index, find));
  }

  async #restore(
    name: string,
    kind: string,
    index: SavableIndex,
    find: (name: string) => number | undefined,
  ): Promise<number> {
    const list = await this.#readList(name);
    if (list === null) return 0;
    const path = join(this.#dir, list.graph.file);
    try {
      if (list.kind !== fullKind(kind, index) || !isGraphOf(name, list.graph.file))
        throw new Error('of another kind');
      const { bytes, crc } = await sumFile(path);
      if (bytes !== list.graph.bytes || crc !== list.graph.crc) throw new Error('the graph is damaged');
      const before = index.unlinked;
      const ids: (number | null)[] = [];
      for (const [at, place] of list.places.entries()) {
        if (at % SUM_STRETCH === 0) await nextTick();
        ids.push(place === null ? null : matchPlace(index, place, find));
      }
      await index.restoreGraph(path, ids);
      return before - index.unlinked;
    } catch {
      await this.#removeAll((file) => file === `${name}.json` || isGraphOf(name, file));
      return 0;
    }
  }

  /** Removes the graphs saved under these names, after any save in progress. @throws Error when removal fails */
  removeAllOf(names: readonly string[]): Promise<void> {
    return this.#alone(() =>
      this.#removeAll((file) =>
        names.some((name) => file.startsWith(`${name}.json`) || isGraphOf(name, file)),
      ),
    );
  }

  /** Removes graphs saved under other names, graphs whose list cannot be read, and remnants of a crash. */
  keepOnly(names: ReadonlySet<string>): Promise<void> {
    return this.#alone(() => this.#keepOnly(names));
  }

  #alone<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = this.#working.then(work);
    this.#working = done.catch(() => {});
    return done;
  }

  async #keepOnly(names: ReadonlySet<string>): Promise<void> {
    const lists = new Map<string, string | null>();
    for (const name of names) lists.set(name, (await this.#readList(name))?.graph.file ?? null);
    await this.#removeAll((file) => {
      const name = file.replace(/(?:-[^-]*\.graph|\.json(?:\.tmp)?)$/, '');
      const graph = lists.get(name);
      return graph == null || (file !== graph && file !== `${name}.json`);
    });
  }

  /** Writes the list of a graph, and publishes it with a rename. @param places as JSON, without the brackets */
  async #putList(name: string, list: Omit<GraphList, 'places'>, places: string): Promise<void> {
    const text = `${JSON.stringify(list).slice(0, -1)},"places":[${places}]}`;
    const path = join(this.#dir, `${name}.json`);
    const draft = `${path}.tmp`;
    const handle = await open(draft, 'w');
    try {
      await handle.writeFile(`${FORMAT} ${crc32(text)}\n${text}`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, path);
    const folder = await open(this.#dir, 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  async #readList(name: string): Promise<GraphList | null> {
    const path = join(this.#dir, `${name}.json`);
    try {
      if ((await stat(path)).size > GRAPH_LIST_BYTES) return null;
      const content = await readFile(path, 'utf8');
      const end = content.indexOf('\n');
      const text = content.slice(end + 1);
      return content.slice(0, end) === `${FORMAT} ${crc32(text)}` ? (JSON.parse(text) as GraphList) : null;
    } catch {
      return null;
    }
  }

  async #removeAll(isGone: (file: string) => boolean): Promise<void> {
    const files = await readdir(this.#dir).catch(() => []);
    for (const file of files) if (isGone(file)) await rm(join(this.#dir, file), { force: true });
  }
}

function fullKind(kind: string, index: SavableIndex): string {
  return `${kind} ${index.graphKind}`;
}

/** Whether a file is a graph of this name; false for a path with a folder and for other names. */
function isGraphOf(name: string, file: string): boolean {
  return file.startsWith(`${name}-`) && /^[^-/\\]*\.graph$/.test(file.slice(name.length + 1));
}

/**
 * Makes the places of a list, as JSON without the brackets. Works in steps, so that a long list does not delay
 * searches.
 */
async function sumPlaces(
  index: SavableIndex,
  ids: readonly (number | null)[],
  nameOf: (id: number) => string | undefined,
): Promise<string> {
  const parts: string[] = [];
  for (let from = 0; from < ids.length; from += SUM_STRETCH) {
    await nextTick();
    const places = ids.slice(from, from + SUM_STRETCH).map((id) => {
      const name = id === null ? undefined : nameOf(id);
      const vector = id === null ? undefined : index.get(id);
      return name === undefined || vector === undefined ? null : [name, sumVector(vector)];
    });
    parts.push(JSON.stringify(places).slice(1, -1));
  }
  return parts.join(',');
}

/** Finds the vector of a place. Returns its id; null if the vector was removed or has changed. */
function matchPlace(
  index: SavableIndex,
  [name, crc]: [string, number],
  find: (name: string) => number | undefined,
): number | null {
  const id = find(name);
  const vector = id === undefined ? undefined : index.get(id);
  return vector !== undefined && sumVector(vector) === crc ? id! : null;
}

function sumVector({ buffer, byteOffset, byteLength }: Float32Array): number {
  return crc32(new Uint8Array(buffer, byteOffset, byteLength));
}

/** Syncs the file to the disk, and returns its length and checksum. */
async function sumFile(path: string): Promise<{ bytes: number; crc: number }> {
  const handle: FileHandle = await open(path, 'r+');
  try {
    await handle.sync();
    const chunk = Buffer.allocUnsafe(READ_BYTES);
    let crc = 0;
    let bytes = 0;
    for (;;) {
      const { bytesRead } = await handle.read(chunk, 0, READ_BYTES, bytes);
      if (bytesRead === 0) return { bytes, crc };
      crc = crc32(chunk.subarray(0, bytesRead), crc);
      bytes += bytesRead;
    }
  } finally {
    await handle.close();
  }
}

function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
