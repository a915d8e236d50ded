/**
 * Follows the captures of all gateways in a bucket: at intervals, the bucket's thread gathers new files. Presents the
 * gathered files. Capture reader.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { CaptureReaderSource } from '../../domain/captured-run.ts';
import { isThere } from '../../std/file-place.ts';
import { StoppedError } from './bucket-failures.ts';
import type { GatherReport } from './bucket-protocol.ts';
import { BucketThread } from './bucket-thread.ts';
import { GatheredFiles } from './gathered-files.ts';
import { registryPath } from './gathered-registry.ts';
import { GatheredTexts } from './gathered-texts.ts';
import type { GatheringPlace } from './gathering-place.ts';

/** Pause between two checks of the bucket. */
const LOOK_MS = 10_000;
/** Maximum time that a request waits for the first check if no captures were gathered yet. */
const FIRST_MS = 15_000;

export class Gathering {
  readonly files: GatheredFiles;
  readonly texts: GatheredTexts;
  readonly #folder: string;
  readonly #dataKey: Uint8Array | null;
  readonly #thread: BucketThread;
  #report: GatherReport = { failure: null, gateways: {} };
  #lookedMs: number | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** The first check; null before it begins. */
  #first: Promise<void> | null = null;

  constructor({ place, folder }: GatheringPlace, dataKey: Uint8Array | null) {
    this.#folder = folder;
    this.#dataKey = dataKey;
    this.#thread = new BucketThread(place);
    this.files = new GatheredFiles(folder, { data_key: dataKey });
    this.texts = new GatheredTexts(this.files, folder);
  }

  /**
   * Begins to follow the bucket. Resolves at once if captures were gathered before or a check has ended, otherwise
   * after the first check or FIRST_MS.
   */
  async begin(): Promise<void> {
    this.#first ??= this.#look();
    if (isThere(registryPath(this.#folder)) || this.#lookedMs !== null) return;
    const wait = new AbortController();
    await Promise.race([this.#first, pause(FIRST_MS, undefined, { signal: wait.signal }).catch(() => {})]);
    wait.abort();
  }

  async #look(): Promise<void> {
    try {
      this.#report = await this.#thread.call({
        name: 'gather',
        folder: this.#folder,
        data_key: this.#dataKey,
      });
    } catch (thrown) {
      if (thrown instanceof StoppedError) return;
      this.#report = { failure: (thrown as Error).message.split('\n', 1)[0]!, gateways: {} };
    }
    this.#lookedMs = Date.now();
    this.#timer = setTimeout(() => void this.#look(), LOOK_MS).unref();
  }

  /** Describes up to when the captures of each gateway were fetched, and which failures occurred. */
  state(): CaptureReaderSource {
    const { failure, gateways: failures } = this.#report;
    const gateways = this.files.sources.map((source) => ({
      ...source,
      failure: failures[source.gateway] ?? null,
    }));
    const known = new Set(gateways.map(({ gateway }) => gateway));
    for (const [gateway, why] of Object.entries(failures))
      if (!known.has(gateway))
        gateways.push({ gateway, sent_at: null, newest_at: null, exchanges: 0, failure: why });
    gateways.sort((a, b) => (a.gateway < b.gateway ? -1 : 1));
    return {
      looked_at: this.#lookedMs === null ? null : new Date(this.#lookedMs).toISOString(),
      failure,
      gateways,
    };
  }

  close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#thread.stop();
    this.files.close();
  }
}
