/**
 * Asks rate buckets. The only place that makes their messages; a path through shared memory can take the place of the
 * ask behind the same method. Front threads.
 */
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/front.ts';
import { RATE_BUCKET_KIND, type RateBucketProtocol, type RateLimit, type TakeReply } from './protocol.ts';

/** A limiter that takes longer than this to answer is as good as down. */
const TAKE_DEADLINE_MS = 1_000;

export class RateBucketClient {
  readonly #asker: Asker;

  constructor(asker: Asker) {
    this.#asker = asker;
  }

  /**
   * Takes tokens out of the key's bucket, or none when there are not enough.
   * @param key whose bucket; 1 … 512 UTF-16 units
   * @param limit the key's limit as it stands now
   * @param cost tokens; 0 only looks
   * @throws {CatalogueError} `unavailable` when the bucket cannot be asked: whether to let pass is the caller's to say
   */
  async take(key: string, limit: RateLimit, cost = 1): Promise<TakeReply> {
    const request: RateBucketProtocol['take']['request'] = { cost, ...limit };
    try {
      return (await this.#asker.ask({ kind: RATE_BUCKET_KIND, key }, 'take', request, {
        deadline_ms: TAKE_DEADLINE_MS,
      })) as TakeReply;
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }
}
