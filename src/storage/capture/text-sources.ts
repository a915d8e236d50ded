/**
 * Reads exchanges for the full-text index from the capture files. The live file is read through its writer, because
 * LMDB opens a file only once per process. Capture process.
 */
import { statSync } from 'node:fs';
import type { ExchangeRecord } from '../../domain/exchange.ts';
import { OffloadedFiles } from '../offload/offloaded-file.ts';
import type { TextExchange, TextSource, TextSources } from '../text-index/text-index.ts';
import { CaptureFileError, listSealed, type SealedFile } from './layout.ts';
import type { LiveFile } from './live-file.ts';
import { CaptureReader } from './reader.ts';
import { type DecodeExchange, decodeSafely } from './stored-copy.ts';

/** Computes a mark that shows whether an id still means the same exchange after a file was replaced. */
export function markExchange({
  started_at,
  duration_ms,
}: Pick<ExchangeRecord, 'started_at' | 'duration_ms'>): string {
  return `${started_at} ${duration_ms}`;
}

export class CaptureTextSources implements TextSources {
  readonly #path: string;
  readonly #dataKey: Uint8Array | null;
  readonly #decode: DecodeExchange;
  readonly #live: () => LiveFile;
  readonly #offloaded: OffloadedFiles;
  /** The sealed file that was read last. */
  #open: { path: string; reader: CaptureReader } | null = null;

  constructor(path: string, dataKey: Uint8Array | null, decode: DecodeExchange, live: () => LiveFile) {
    this.#path = path;
    this.#dataKey = dataKey;
    this.#decode = decode;
    this.#live = live;
    this.#offloaded = new OffloadedFiles(dataKey);
  }

  list(): TextSource[] {
    const sources = listSealed(this.#path).map(({ path, first_id, last_id, sealing }) => ({
      first_id,
      last_id,
      // The capture process does not fetch blocks from a bucket.
      is_readable: !sealing && !this.#offloaded.isOffloaded(path),
    }));
    const { first_id, indexed } = this.#live().index;
    return [...sources, { first_id, last_id: indexed, is_readable: true }].filter(
      (source) => source.last_id >= source.first_id,
    );
  }

  bytes(): number {
    // Bodies in a bucket count, too, because they can be searched.
    const sizes = listSealed(this.#path).map(
      ({ path }) =>
        (statSync(path, { throwIfNoEntry: false })?.size ?? 0) + (this.#offloaded.bytesOf(path) ?? 0),
    );
    return sizes.reduce((sum, size) => sum + size, this.#live().bytes);
  }

  read(id: number): TextExchange | null {
    const { index } = this.#live();
    try {
      if (id < index.first_id) return this.#readSealed(id);
      const told = index.readAgain(id);
      if (told === null) return null;
      const { summary, entry, listTexts } = told.facts;
      const texts = listTexts?.() ?? null;
      return { id, run_id: told.run_id, mark: markExchange(summary), entry, texts };
    } catch (thrown) {
      if (!(thrown instanceof CaptureFileError)) throw thrown;
      if (thrown.code === 'missing') return null;
      return { id, run_id: null, mark: '', entry: null, texts: null };
    }
  }

  markOf(id: number): string | null {
    const { index } = this.#live();
    try {
      if (id >= index.first_id) {
        const summary = index.readSummary(id);
        return summary ? markExchange(summary) : null;
      }
      const record = this.#readerOf(id)?.exchange(id);
      return record === undefined ? null : markExchange(record);
    } catch (thrown) {
      if (thrown instanceof CaptureFileError) return null;
      throw thrown;
    }
  }

  /** Closes the last file that was read. */
  async close(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    await open?.reader.close();
  }

  #readSealed(id: number): TextExchange | null {
    const reader = this.#readerOf(id);
    const record = reader?.exchange(id);
    const copy = reader?.copy(id);
    if (record === undefined || copy === undefined) return null;
    const entry = decodeSafely(this.#decode, copy);
    const texts = entry.listTexts?.() ?? null;
    return { id, run_id: record.run_id, mark: markExchange(record), entry, texts };
  }

  #readerOf(id: number): CaptureReader | null {
    const file = listSealed(this.#path).find(({ first_id, last_id }) => first_id <= id && last_id >= id);
    if (file === undefined || file.sealing) return null;
    if (this.#open?.path === file.path) return this.#open.reader;
    void this.close();
    return this.#openReader(file);
  }

  #openReader({ path }: SealedFile): CaptureReader {
    const reader = CaptureReader.open(path, { data_key: this.#dataKey, skipped: () => {} });
    this.#open = { path, reader };
    return reader;
  }
}
