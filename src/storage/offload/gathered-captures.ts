/**
 * Gathers the captures of all gateways in a bucket, on another machine. Fetches files without blocks, oldest first, and
 * lists them (gathered-registry.ts), then fetches their full-text segments. Bodies stay in the bucket. The bucket is
 * only read. The bucket's thread of the capture reader.
 *
 * Memory: the manifests, about 400 bytes for each sealed file.
 */
import { join } from 'node:path';
import { makeFolder } from '../../std/folder.ts';
import { type ObjectStore, StoreError } from '../bucket/object-store.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from '../writer-claim.ts';
import type { GatherReport } from './bucket-protocol.ts';
import {
  type GatheredGateway,
  type GatheredRegistry,
  gatheredDb,
  readRegistry,
  writeRegistry,
} from './gathered-registry.ts';
import type { ManifestContent, OffloadedFile } from './offload-note.ts';
import { listGateways, RemoteFiles, readManifest } from './remote-files.ts';

/** Maximum number of gateways. The captures of further gateways are not read, which is reported. */
const GATEWAYS_MAX = 256;
/** Maximum number of removed files of a gateway whose ids are kept, so that the names of their runs stay the same. */
const GONE_MAX = 4_096;

interface GatherOptions {
  store: ObjectStore;
  place: string;
  folder: string;
  /** Secret; null: not encrypted. */
  data_key: Uint8Array | null;
}

/** A gateway with the current content of its manifest. */
interface SeenGateway {
  content: ManifestContent;
  remote: RemoteFiles;
  entry: GatheredGateway;
}

export class GatheredCaptures {
  readonly #options: GatherOptions;
  readonly #remotes = new Map<string, RemoteFiles>();

  constructor(options: GatherOptions) {
    this.#options = options;
  }

  /**
   * Reads the lists of files in the bucket once, removes local files that are not listed any more, and fetches new
   * files. Does nothing if another process gathers captures into the same folder.
   * @param check throws to stop
   * @returns what could not be read, including the case of another process
   * @throws what `check` throws; Error with a one-line message if the registry is damaged; a file system error
   */
  async follow(check: () => void): Promise<GatherReport> {
    const { folder } = this.#options;
    makeFolder(folder, 0o700);
    let claim: WriterClaim;
    try {
      claim = await claimWriter(join(folder, 'gathered'), { patience_ms: 0 });
    } catch (thrown) {
      if (!(thrown instanceof WriterClaimedError)) throw thrown;
      return { failure: `${thrown.holder} reads the bucket into ${folder} at the same time`, gateways: {} };
    }
    try {
      return await this.#follow(check);
    } finally {
      await claim.release();
    }
  }

  async #follow(check: () => void): Promise<GatherReport> {
    const { store, folder } = this.#options;
    const report: GatherReport = { failure: null, gateways: {} };
    const registry = readRegistry(folder) ?? beginRegistry();
    const before = JSON.stringify(registry);
    let names: string[];
    try {
      names = await listGateways(store);
    } catch (thrown) {
      return { ...report, failure: describe(thrown) };
    }
    for (const name of names.slice(GATEWAYS_MAX))
      report.gateways[name] = `more than ${GATEWAYS_MAX} gateways are in ${store.name}`;
    const seen: SeenGateway[] = [];
    const wanted: { gateway: SeenGateway; file: OffloadedFile }[] = [];
    for (const name of names.slice(0, GATEWAYS_MAX)) {
      check();
      try {
        const gateway = await this.#look(name, registry);
        if (gateway === null) continue;
        seen.push(gateway);
        const files = await gateway.remote.prepare(this.#options.place, gateway.content);
        dropOthers(registry, gateway);
        wanted.push(...files.map((file) => ({ gateway, file })));
      } catch (thrown) {
        report.gateways[name] = describe(thrown);
      }
    }
    if (JSON.stringify(registry) !== before) writeRegistry(folder, registry);
    await this.#fetchAll(registry, wanted, report, check);
    await this.#fetchTexts(seen, report, check);
    return report;
  }

  /** Reads a gateway's manifest. @returns null if it has none yet. @throws StoreError */
  async #look(name: string, registry: GatheredRegistry): Promise<SeenGateway | null> {
    const { store, data_key, folder } = this.#options;
    const content = await readManifest(store, name, data_key);
    if (content === null) return null;
    let remote = this.#remotes.get(name);
    if (remote === undefined) {
      remote = new RemoteFiles({ store, db: gatheredDb(folder, name), data_key });
      this.#remotes.set(name, remote);
    }
    let entry = registry.gateways.find(({ gateway }) => gateway === name);
    if (entry === undefined) {
      entry = { gateway: name, sent_at: content.written_at, files: [], gone: [] };
      registry.gateways.push(entry);
    }
    entry.sent_at = content.written_at;
    return { content, remote, entry };
  }

  /** Fetches files, oldest first, so that local ids are roughly in the order of time. */
  async #fetchAll(
    registry: GatheredRegistry,
    wanted: { gateway: SeenGateway; file: OffloadedFile }[],
    report: GatherReport,
    check: () => void,
  ): Promise<void> {
    wanted.sort((a, b) => a.file.from_ms - b.file.from_ms);
    for (const { gateway, file } of wanted) {
      check();
      const { entry, remote } = gateway;
      // After a failure, later files of the same gateway are skipped, because they must get greater ids than earlier
      // ones.
      if (report.gateways[entry.gateway] !== undefined) continue;
      try {
        await remote.fetch(file);
        addFile(registry, entry, file);
        writeRegistry(this.#options.folder, registry);
      } catch (thrown) {
        report.gateways[entry.gateway] = describe(thrown);
      }
    }
  }

  async #fetchTexts(seen: readonly SeenGateway[], report: GatherReport, check: () => void): Promise<void> {
    for (const { content, remote, entry } of seen) {
      try {
        remote.removeOtherText(content.files);
        for (const file of content.files) {
          check();
          await remote.fetchText(file);
        }
      } catch (thrown) {
        report.gateways[entry.gateway] ??= describe(thrown);
      }
    }
  }
}

function beginRegistry(): GatheredRegistry {
  return { format: 'understudy_gathered_v1', next_id: 1, changes: 0, gateways: [] };
}

/** Removes files from the registry that are not in the bucket any more, or were replaced. Keeps their local ids. */
function dropOthers(registry: GatheredRegistry, { entry, content }: SeenGateway): void {
  const listed = new Set(content.files.map(({ folder }) => folder));
  const gone = entry.files.filter(({ folder }) => !listed.has(folder));
  if (gone.length === 0) return;
  entry.files = entry.files.filter(({ folder }) => listed.has(folder));
  entry.gone = [...entry.gone, ...gone.map(({ first_id, last_id, at }) => ({ first_id, last_id, at }))].slice(
    -GONE_MAX,
  );
  registry.changes += 1;
}

/** Adds a file to the registry. A file that was replaced keeps its local ids. */
function addFile(registry: GatheredRegistry, entry: GatheredGateway, file: OffloadedFile): void {
  const { first_id, last_id, folder, from_ms, to_ms } = file;
  const isSame = (other: { first_id: number; last_id: number }): boolean =>
    other.first_id === first_id && other.last_id === last_id;
  const known = entry.gone.find(isSame) ?? entry.files.find(isSame);
  const at = known?.at ?? registry.next_id;
  if (known === undefined) registry.next_id += last_id - first_id + 1;
  else registry.changes += 1;
  entry.gone = entry.gone.filter((other) => !isSame(other));
  entry.files = [
    ...entry.files.filter((other) => !isSame(other)),
    { first_id, last_id, at, folder, from_ms, to_ms },
  ].sort((a, b) => a.first_id - b.first_id);
}

/** Returns the message of a StoreError. @throws any other error */
function describe(thrown: unknown): string {
  if (thrown instanceof StoreError) return thrown.message;
  throw thrown;
}
