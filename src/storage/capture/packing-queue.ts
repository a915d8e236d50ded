/**
 * The blocks that were stored raw and wait to be packed, oldest first. Their raw files go after a sync of what
 * they were packed into, so that a power cut leaves at least one of the two. Capture process.
 */
import type { TidyBacklog } from './packing-share.ts';
import type { WaitingBlock } from './repacking.ts';

/** Raw blocks that wait to be packed, and their bytes. Further blocks are compressed at once. */
const RAW_BLOCKS_MAX = 65_536;
const RAW_BLOCKS_BYTES_MAX = 2 ** 35;

/** Of those that were there at the start, `since_ms` is then. */
interface QueuedBlock extends WaitingBlock {
  since_ms: number;
}

/** What waits of one file, while another may take its place. */
interface QueuedBlocks {
  readonly blocks: QueuedBlock[];
  readonly bytes: number;
}

export class PackingQueue {
  #blocks: QueuedBlock[] = [];
  #bytes = 0;
  /** Raw files of blocks that were packed since the last sync. */
  #packedFrom: number[] = [];

  get isFull(): boolean {
    return this.#blocks.length >= RAW_BLOCKS_MAX || this.#bytes >= RAW_BLOCKS_BYTES_MAX;
  }

  /** The raw file of each block that waits. */
  get files(): number[] {
    return this.#blocks.map(({ file }) => file);
  }

  /** What waits here. */
  get backlog(): Omit<TidyBacklog, 'unindexed' | 'unindexed_s' | 'unsearched'> {
    const oldest = this.#blocks[0];
    return {
      waiting_blocks: this.#blocks.length,
      waiting_bytes: this.#bytes,
      oldest_s: oldest === undefined ? 0 : Math.round((performance.now() - oldest.since_ms) / 1_000),
    };
  }

  /** The block is to be packed later. */
  add({ key, file, bytes }: WaitingBlock): void {
    this.#blocks.push({ key, file, bytes, since_ms: performance.now() });
    this.#bytes += bytes;
  }

  /**
   * Packs the oldest blocks, at least one and for about `budgetMs`.
   * @param pack packs the block of that key; false: it cannot be read, and its raw file stays
   * @returns how many; 0 when none is left
   * @throws what `pack` throws; the blocks before that one are packed then
   */
  packSome(pack: (key: number) => boolean, budgetMs: number): number {
    const start = performance.now();
    let done = 0;
    try {
      while (done < this.#blocks.length && (done === 0 || performance.now() - start < budgetMs)) {
        const { key, file, bytes } = this.#blocks[done]!;
        if (pack(key)) this.#packedFrom.push(file);
        this.#bytes -= bytes;
        done++;
      }
    } finally {
      // To pack one again would release its raw file twice, which others may wait in.
      this.#blocks.splice(0, done);
    }
    return done;
  }

  /** What was packed so far is with the disk. @returns the raw file of each block that does not need it any more */
  takeReleased(): number[] {
    return this.#packedFrom.splice(0);
  }

  /** Empties the queue: what waits goes with its file. */
  take(): QueuedBlocks {
    const taken = { blocks: this.#blocks, bytes: this.#bytes };
    this.#blocks = [];
    this.#bytes = 0;
    return taken;
  }

  /** Takes back what `take` gave out. */
  restore({ blocks, bytes }: QueuedBlocks): void {
    this.#blocks = blocks;
    this.#bytes = bytes;
  }
}
