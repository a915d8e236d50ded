/**
 * A queue of the blocks that were stored raw and wait to be packed, oldest first. A raw file is deleted only after its
 * packed blocks are synced, so that at least one copy survives a power failure. Capture process.
 */
import { RingQueue } from '../../std/ring-queue.ts';
import type { TidyBacklog } from './packing-share.ts';
import type { WaitingBlock } from './repacking.ts';

/**
 * Maximum number and bytes of the raw blocks that wait to be packed: about 40 MB of memory. Under a load that reaches
 * these bounds, blocks have 64 KiB or more. Further blocks are compressed at once.
 */
const RAW_BLOCKS_MAX = 2 ** 19;
const RAW_BLOCKS_BYTES_MAX = 2 ** 35;

interface QueuedBlock extends WaitingBlock {
  /**
   * When the block was queued, on the monotonic clock. Blocks that an earlier process left are queued at the start of
   * this process, so they seem younger than they are.
   */
  since_ms: number;
}

/** The waiting blocks of one file. They are kept until it is certain that another file replaces it. */
interface QueuedBlocks {
  readonly blocks: RingQueue<QueuedBlock>;
  readonly bytes: number;
}

export class PackingQueue {
  #blocks = makeQueue();
  #bytes = 0;
  /** Raw files of blocks that were packed since the last sync. */
  #packedFrom: number[] = [];

  get isFull(): boolean {
    return this.#blocks.size >= RAW_BLOCKS_MAX || this.#bytes >= RAW_BLOCKS_BYTES_MAX;
  }

  /** The number of the raw file of each waiting block. */
  get files(): number[] {
    return this.#blocks.toArray().map(({ file }) => file);
  }

  /** The id of the first exchange of the oldest block; null if no block waits. */
  get oldest_key(): number | null {
    return this.#blocks.peek()?.key ?? null;
  }

  /** The number, the total length and the greatest age of the waiting blocks. */
  get backlog(): Omit<TidyBacklog, 'unindexed' | 'unindexed_s' | 'unsearched'> {
    const oldest = this.#blocks.peek();
    return {
      waiting_blocks: this.#blocks.size,
      waiting_bytes: this.#bytes,
      oldest_s: oldest === undefined ? 0 : Math.round((performance.now() - oldest.since_ms) / 1_000),
    };
  }

  /** Adds a block to be packed later. */
  add({ key, file, bytes }: WaitingBlock): void {
    this.#blocks.push({ key, file, bytes, since_ms: performance.now() });
    this.#bytes += bytes;
  }

  /**
   * Packs the oldest blocks: at least one, and further ones for about `budgetMs`.
   * @param pack packs the block with that key; returns false if the block is not readable: its raw file then stays
   * @returns number of blocks that left the queue, packed or unreadable; 0 if the queue is empty
   * @throws what `pack` throws; the blocks before that one are packed
   */
  packSome(pack: (key: number) => boolean, budgetMs: number): number {
    const start = performance.now();
    let done = 0;
    while (this.#blocks.size > 0 && (done === 0 || performance.now() - start < budgetMs)) {
      const { key, file, bytes } = this.#blocks.peek()!;
      if (pack(key)) this.#packedFrom.push(file);
      this.#blocks.shift();
      this.#bytes -= bytes;
      done++;
    }
    return done;
  }

  /** Number of packed blocks whose raw files are not released yet. */
  get packed(): number {
    return this.#packedFrom.length;
  }

  /**
   * Call it when the oldest packed blocks are synced.
   * @param count value of `packed` before the sync
   * @returns the raw file to release for each of them
   */
  takeReleased(count: number): number[] {
    return this.#packedFrom.splice(0, count);
  }

  /** Empties the queue when its file is replaced. */
  take(): QueuedBlocks {
    const taken = { blocks: this.#blocks, bytes: this.#bytes };
    this.#blocks = makeQueue();
    this.#bytes = 0;
    return taken;
  }

  /** Puts back what `take` returned. */
  restore({ blocks, bytes }: QueuedBlocks): void {
    this.#blocks = blocks;
    this.#bytes = bytes;
  }
}

/**
 * Unbounded, because at the start it takes all blocks that an earlier process left. `isFull` bounds what is added
 * later.
 */
function makeQueue(): RingQueue<QueuedBlock> {
  return new RingQueue(Number.MAX_SAFE_INTEGER);
}
